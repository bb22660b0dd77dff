// SPDX-License-Identifier: Apache-2.0
// `rdma-nccl check`: is this node ready for RDMA? Inspects, judges and prints; on request it also acts on the result,
// and keeps its state in a file for the next check (--state).
#pragma once

#include "lib/base/result.h"
#include "tools/check/facts.h"
#include "tools/check/result.h"
#include "tools/common/settings_options.h"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
    bool image = false; ///< only list libraries (image.h)
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

// Draining the node when run as Slurm's HealthCheckProgram, because Slurm ignores its exit code. The check undoes only
// its own drains: the reason, with user and time, must be the one in the state file.

inline constexpr std::string_view drain_prefix = "rdma-nccl-7c1e: "; ///< a prefix that nobody types

/// A node's state as Slurm shows it.
struct SlurmNode {
    std::string name;
    bool drained = false; ///< DRAIN is among its current or next states
    bool down = false;
    std::string reason; ///< without user and time
    std::string shown;  ///< with user and time, "... [root@2026-11-22T05:55:00]"; empty: Slurm does not show them

    bool operator==(const SlurmNode&) const = default;
};

/// Parses a line of `scontrol --oneliner show node`. Returns nullopt for other text.
std::optional<SlurmNode> parse_slurm_node(std::string_view text);

enum class DrainAction { None, Drain, Undrain };

struct DrainDecision {
    DrainAction action = DrainAction::None;
    std::string why; ///< "it is drained by others (reason: ...)"
};

/// `own`: the drain in the state file, in the form of `shown`, or empty. `critical_in_a_row` includes this check.
/// `after`: how many of them drain the node.
DrainDecision decide_drain(NodeStatus status, const SlurmNode& node, std::string_view own, unsigned critical_in_a_row,
                           unsigned after);

/// Returns a reason for Slurm: one line, no quotes, starts with `drain_prefix`.
std::string drain_reason(std::string_view worst);

/// How the check reaches Slurm.
struct SlurmAccess {
    std::string scontrol; ///< a name or a path
    std::string node;     ///< its name in Slurm
    std::chrono::steady_clock::time_point deadline;
};

/// Gets the node's state from Slurm, decides, and updates Slurm. Returns 0 on success or if there was nothing to do,
/// else exit_cannot_tell.
int act_as_health_check(const Options& options, const Report& report, Facts& facts, const SlurmAccess& slurm);

} // namespace rdma_nccl::check
