// SPDX-License-Identifier: Apache-2.0
// Was RDMA used, judged by NCCL's logs alone? They tell connections, not bytes: the grade of such evidence is D.
#pragma once

#include "lib/evidence.h"
#include "lib/verdict.h"

#include <string>
#include <vector>

namespace rdma_nccl {

struct LogVerdict {
    Verdict verdict = Verdict::Unknown;
    GpuDirect gpu_direct = GpuDirect::Unknown;
    std::vector<std::string> why; ///< of both, in words; the causes of what went wrong stay in LogEvidence

    friend bool operator==(const LogVerdict&, const LogVerdict&) = default;
};

/// USED, MIXED and NOT USED follow from the connections that the logs show. IDLE: they need no network. UNKNOWN: no
/// connection that needs one is in the log, though there should be; or it goes over a network that may be anything.
LogVerdict judge_log(const LogEvidence& log);

} // namespace rdma_nccl
