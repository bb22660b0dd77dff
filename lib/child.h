// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>

namespace rdma_nccl {

/// Does `work` in a child of this process that runs no program, and kills it after `limit`; for what may hang in a
/// driver or a file system, or must not be done as this user. True when the child ended by itself, with `work` done.
/// Nothing that `work` changes in memory is seen here.
bool run_in_child(std::chrono::milliseconds limit, const std::function<void()>& work);

} // namespace rdma_nccl
