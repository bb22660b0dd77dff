// SPDX-License-Identifier: Apache-2.0
#include "lib/sys/node_name.h"

#include <array>
#include <climits>
#include <cstdlib>
#include <unistd.h>

namespace rdma_nccl {

std::string slurm_node_name() {
    const char* const name = std::getenv("SLURMD_NODENAME");
    return name == nullptr ? "" : name;
}

std::string own_host_name() {
    std::array<char, HOST_NAME_MAX + 1> name{};
    if (::gethostname(name.data(), name.size() - 1) != 0 || name.front() == '\0') {
        return "localhost";
    }
    return name.data();
}

std::string own_node_name() {
    auto name = slurm_node_name();
    return name.empty() ? own_host_name() : name;
}

} // namespace rdma_nccl
