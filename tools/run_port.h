// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/result.h"
#include "lib/unique_fd.h"

#include <cstdint>

namespace rdma_nccl {

/// A port kept from all others: bound but not listening. With SO_REUSEADDR, as rendezvous servers set it, a rank can
/// still bind it and listen; the kernel gives it to nobody else (measured on Linux 6.18).
struct HeldPort {
    UniqueFd socket;
    std::uint16_t port = 0;
};

/// Any port that is free on this node.
Result<HeldPort> hold_free_port();

} // namespace rdma_nccl
