// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sodium.h>

namespace rdma_nccl {

/// libsodium wants sodium_init() before anything else: it finds the fastest code for this CPU. More than once does no
/// harm, and threads may call it at the same time.
inline void start_sodium() {
    static const int started = sodium_init();
    (void)started; // -1 only without any source of random bytes: then random_key() has failed before
}

} // namespace rdma_nccl
