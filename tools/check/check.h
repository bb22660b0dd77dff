// SPDX-License-Identifier: Apache-2.0
// `rdma-nccl check`: is this node ready for RDMA? Inspects, judges and prints; on request it also acts on the result,
// and keeps its state in a file for the next check (--state).
#pragma once

#include "lib/base/result.h"
#include "tools/check/facts.h"
#include "tools/check/result.h"
#include "tools/common/settings_options.h"

#include <optional>
#include <string>
#include <string_view>

namespace rdma_nccl::check {

enum class Form {
    Text,
    Json,
    Nagios,
    Prolog, ///< prints a line and exits with 1 if critical, else prints nothing and exits with 0; only what the site
            ///< expects is critical
    Health, ///< HealthCheckProgram: drains and undrains; judges like Prolog
    Quiet,  ///< prints nothing, only writes files
};

struct Options {
    SettingsOptions settings;
    std::string expect = SYSCONFDIR "/rdma-nccl-check.conf";
    bool expect_given = false;
    std::optional<std::string> learn; ///< "-": stdout
    std::string prometheus;           ///< empty: none
    std::string state;                ///< empty: none
    Form form = Form::Text;
    bool all = false;
    bool dry_run = false;
    unsigned after = 2;    ///< critical checks in a row before the node is drained; one bad reading is not enough
    unsigned limit_s = 20; ///< for the whole check; slurmd kills a HealthCheckProgram after 60 s
    std::string node;      ///< Slurm's name of this node; empty: SLURMD_NODENAME, or the host name
};

std::string state_text(const State& state);
/// Parses state_text(). Returns nullopt for other text; accepts any bytes.
std::optional<State> parse_state(std::string_view text);

/// Reads the state, which may be from before a reboot. Returns nullopt if there is no file. Fails if the file cannot be
/// read, or, with os_error 0, if it is a regular file that holds no state.
Result<std::optional<State>> read_state(const std::string& path);

/// Compares with the state that the last check wrote, and determines whether this check can write its own. Renames a
/// broken file, so that the next check finds a good one.
void compare_with_last(const Options& options, Facts& facts, Findings& results);

/// Writes facts.now. Reports an error and returns false if that fails.
bool write_state(const Options& options, const Facts& facts);

} // namespace rdma_nccl::check
