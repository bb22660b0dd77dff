// SPDX-License-Identifier: Apache-2.0
#include "lib/verdict.h"

namespace rdma_nccl {

std::string_view name_of(Verdict verdict) {
    switch (verdict) {
    case Verdict::Used:
        return "USED";
    case Verdict::Mixed:
        return "MIXED";
    case Verdict::NotUsed:
        return "NOT USED";
    case Verdict::Idle:
        return "IDLE";
    case Verdict::Unknown:
        break;
    }
    return "UNKNOWN";
}

} // namespace rdma_nccl
