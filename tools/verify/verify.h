// SPDX-License-Identifier: Apache-2.0
// rdma-nccl verify: was RDMA used? Three ways: it reads logs of NCCL (--log), runs a program and judges the traffic of
// this node meanwhile (-- PROGRAM), or watches a running step on each of its nodes (--step JOB.STEP).
#pragma once

#include "lib/evidence/verdict.h"
#include "tools/common/settings_options.h"

#include <cstdint>
#include <string>
#include <vector>

namespace rdma_nccl {

struct VerifyOptions {
    SettingsOptions settings;
    std::vector<std::string> logs;    ///< to judge alone; "-": standard input; or
    std::vector<std::string> program; ///< to run; or
    std::string step;                 ///< JOB.STEP to watch
    bool all = false;                 ///< of logs: one line per process
    double seconds = 10;              ///< how long to watch a step
    bool on_this_node = false;        ///< watch a step on this node only, and print the evidence for the caller
    bool full = false;                ///< let NCCL write logs, and read them
    bool json = false;
    std::string output; ///< file for the verdict; empty: standard error if there is a program, else standard output
};

/// Prints the evidence in the logs, the verdict and the causes. Returns the exit code of the verdict, which is that of
/// UNKNOWN or MIXED if a file could not be read.
int verify_log(const VerifyOptions& options);

/// Returns the program's exit code if it is not 0; otherwise that of the verdict.
Result<int> verify_program(const VerifyOptions& options, const Settings& settings);

/// Returns the verdict's exit code.
Result<int> verify_step(const VerifyOptions& options, const Settings& settings);

/// Returns 0 for USED or IDLE, 1 for MIXED, 2 for NOT USED, 3 for UNKNOWN.
int exit_code_of(Verdict verdict);

/// Prints a verdict as the options specify. Returns its exit code.
Result<int> print_verdict(const StepVerdict& verdict, const VerifyOptions& options, std::uint32_t job_id,
                          std::uint32_t step_id);

} // namespace rdma_nccl
