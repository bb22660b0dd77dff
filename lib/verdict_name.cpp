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

std::string_view name_of(GpuDirect gpu_direct) {
    switch (gpu_direct) {
    case GpuDirect::On:
        return "on";
    case GpuDirect::Possible:
        return "possible";
    case GpuDirect::Off:
        return "off";
    case GpuDirect::Unknown:
        break;
    }
    return "unknown";
}

} // namespace rdma_nccl
