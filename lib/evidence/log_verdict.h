// SPDX-License-Identifier: Apache-2.0
// Judges from NCCL's logs alone whether RDMA was used. Logs show connections, not bytes, so this evidence has grade D.
#pragma once

#include "lib/evidence/evidence.h"
#include "lib/evidence/verdict.h"

#include <string>
#include <vector>

namespace rdma_nccl {

struct LogVerdict {
    Verdict verdict = Verdict::Unknown;
    GpuDirect gpu_direct = GpuDirect::Unknown;
    std::vector<std::string> why; ///< the reasons for both; the causes of problems stay in LogEvidence

    friend bool operator==(const LogVerdict&, const LogVerdict&) = default;
};

/// USED, MIXED and NOT USED follow from the connections that the logs show. IDLE: the connections need no network.
/// UNKNOWN: the log lacks a connection that it should show, or one uses a network of unknown kind.
LogVerdict judge_log(const LogEvidence& log);

} // namespace rdma_nccl
