// SPDX-License-Identifier: Apache-2.0
// A later version whose messages no other version understands: its plugin and command run beside this one's in tests of
// steps of mixed versions.
#include "lib/net/release.h"

namespace rdma_nccl {

Release own_release() {
    return {.version = "9.8.7", .protocol = 99};
}

} // namespace rdma_nccl
