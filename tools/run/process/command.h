// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace rdma_nccl::run {

/// A program that can be executed.
struct Command {
    std::string file;                   ///< path for execve(2)
    std::vector<std::string> arguments; ///< including argv[0]
};

} // namespace rdma_nccl::run
