// SPDX-License-Identifier: Apache-2.0
// `rdma-nccl check`: is this node ready for RDMA. Inspects, judges, prints; where asked, acts on what came out.
#pragma once

#include "lib/settings.h"
#include "tools/settings_options.h"

#include <chrono>
#include <optional>
#include <string>

namespace rdma_nccl {

enum class CheckForm {
    Text,
    Json,
    Nagios,
    Prolog, ///< one line when critical, and exit 1 then; else nothing, and 0; only what is expected makes it critical
    Health, ///< as HealthCheckProgram: drains and undrains; as of Prolog
    Quiet,  ///< nothing on stdout: only files are written
};

struct CheckOptions {
    SettingsOptions settings;
    std::string expect = SYSCONFDIR "/rdma-nccl-check.conf";
    bool expect_given = false;
    std::optional<std::string> learn; ///< "-": stdout
    std::string prometheus;           ///< empty: none
    std::string state;                ///< empty: none
    CheckForm form = CheckForm::Text;
    bool all = false;
    bool dry_run = false;
    unsigned after = 2;    ///< critical checks in a row until the node is drained: one bad look is none
    unsigned limit_s = 20; ///< for all of it; slurmd kills a HealthCheckProgram after 60 s
    std::string node;      ///< Slurm's name of this node; empty: SLURMD_NODENAME, or the host's
};

/// 0 good, 1 warnings, 2 critical, 3 cannot tell; of Prolog 0 and 1; of Health 0, 3 when Slurm could not be asked or
/// told; of Quiet 0, 3 when a file could not be written.
int check_command(const CheckOptions& options);

} // namespace rdma_nccl
