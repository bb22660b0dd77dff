// SPDX-License-Identifier: Apache-2.0
// rdma-nccl verify -- PROGRAM: runs it, and judges what this node moved meanwhile. rdma-nccl verify --step JOB.STEP:
// watches a step that runs, on each of its nodes.
#pragma once

#include "lib/verdict.h"
#include "tools/settings_options.h"

#include <cstdint>
#include <string>
#include <vector>

namespace rdma_nccl {

struct VerifyNodeOptions {
    SettingsOptions settings;
    std::vector<std::string> program; ///< to be run; or
    std::string step;                 ///< JOB.STEP to be watched
    double seconds = 10;              ///< how long a step is watched
    bool on_this_node = false;        ///< a step: on this node alone; what was seen is written for who asked
    bool full = false;                ///< NCCL writes logs, which are read
    bool json = false;
    std::string output; ///< where the verdict goes; empty: standard error beside a program, else standard output
};

/// The program's own exit code when it is not 0; else 0 USED or IDLE, 1 MIXED, 2 NOT USED, 3 UNKNOWN or no verdict.
int verify_program(const VerifyNodeOptions& options);

/// The verdict's exit code.
int verify_step(const VerifyNodeOptions& options);

/// Prints a verdict as the options say; gives back its exit code.
int print_verdict(const StepVerdict& verdict, const VerifyNodeOptions& options, std::uint32_t job_id,
                  std::uint32_t step_id);

} // namespace rdma_nccl
