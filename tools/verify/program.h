// SPDX-License-Identifier: Apache-2.0
// rdma-nccl verify -- PROGRAM: runs a program and judges the traffic of this node meanwhile. rdma-nccl verify --step
// JOB.STEP: watches a running step on each of its nodes.
#pragma once

#include "lib/evidence/verdict.h"
#include "tools/common/settings_options.h"

#include <cstdint>
#include <string>
#include <vector>

namespace rdma_nccl {

struct VerifyNodeOptions {
    SettingsOptions settings;
    std::vector<std::string> program; ///< to run; or
    std::string step;                 ///< JOB.STEP to watch
    double seconds = 10;              ///< how long to watch a step
    bool on_this_node = false;        ///< watch a step on this node only, and print the evidence for the caller
    bool full = false;                ///< let NCCL write logs, and read them
    bool json = false;
    std::string output; ///< file for the verdict; empty: standard error if there is a program, else standard output
};

/// Returns the program's exit code if it is not 0; otherwise 0 for USED or IDLE, 1 for MIXED, 2 for NOT USED, 3 for
/// UNKNOWN or no verdict.
int verify_program(const VerifyNodeOptions& options);

/// Returns the verdict's exit code.
int verify_step(const VerifyNodeOptions& options);

/// Prints a verdict as the options specify. Returns its exit code.
int print_verdict(const StepVerdict& verdict, const VerifyNodeOptions& options, std::uint32_t job_id,
                  std::uint32_t step_id);

} // namespace rdma_nccl
