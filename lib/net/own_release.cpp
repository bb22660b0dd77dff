// SPDX-License-Identifier: Apache-2.0
// In a file of its own: tests build the plugin and the command with another one (tests/fake_release).
#include "lib/net/release.h"

#include "config.h"

namespace rdma_nccl {

Release own_release() {
    return {.version = PACKAGE_VERSION, .protocol = 2};
}

} // namespace rdma_nccl
