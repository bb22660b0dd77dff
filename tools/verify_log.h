// SPDX-License-Identifier: Apache-2.0
// rdma-nccl verify --log: judges logs alone.
#pragma once

#include "lib/json.h"
#include "lib/log_verdict.h"
#include "lib/nccl_log.h"

#include <string>
#include <vector>

namespace rdma_nccl {

struct VerifyLogOptions {
    std::vector<std::string> files; ///< "-": standard input
    bool all = false;               ///< a line for each process
    bool json = false;
};

/// Prints what the logs say, the verdict and the causes. Returns 0 USED or IDLE, 1 MIXED, 2 NOT USED, 3 UNKNOWN, also
/// when a file could not be read.
int verify_log(const VerifyLogOptions& options);

/// 0 USED or IDLE, 1 MIXED, 2 NOT USED, 3 UNKNOWN.
int exit_code_of(Verdict verdict);

/// What the logs say, and what follows from it.
struct JudgedLog {
    NcclLog log;
    LogEvidence evidence;
    LogVerdict verdict;
    bool all_read = true; ///< all files that were named
};

std::string verify_log_text(const JudgedLog& judged, bool all);
Json verify_log_json(const JudgedLog& judged);

} // namespace rdma_nccl
