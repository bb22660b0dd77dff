// SPDX-License-Identifier: Apache-2.0
#include "tools/ring_rank.h"
namespace rdma_nccl {
int run_ring_rank() {
    return 1;
}
} // namespace rdma_nccl
