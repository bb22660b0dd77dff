// SPDX-License-Identifier: Apache-2.0
// rdma-nccl verify --log: judges by logs only.
#pragma once

#include "lib/base/json.h"
#include "lib/evidence/log_verdict.h"
#include "lib/nccl_log/reader.h"

#include <string>
#include <vector>

namespace rdma_nccl {

struct VerifyLogOptions {
    std::vector<std::string> files; ///< "-": standard input
    bool all = false;               ///< one line per process
    bool json = false;
};

/// Prints the evidence in the logs, the verdict and the causes. Returns the exit code of the verdict, which is that of
/// UNKNOWN or MIXED if a file could not be read.
int verify_log(const VerifyLogOptions& options);

/// Returns 0 for USED or IDLE, 1 for MIXED, 2 for NOT USED, 3 for UNKNOWN.
int exit_code_of(Verdict verdict);

/// The content of the logs, and the verdict.
struct JudgedLog {
    NcclLog log;
    LogEvidence evidence;
    LogVerdict verdict;
    bool all_read = true; ///< all named files were read
};

std::string verify_log_text(const JudgedLog& judged, bool all);
Json verify_log_json(const JudgedLog& judged);

} // namespace rdma_nccl
