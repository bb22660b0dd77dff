// SPDX-License-Identifier: Apache-2.0
#include "tools/common/thread_pin.h"

#include "lib/sys/affinity.h"

namespace rdma_nccl {

ThreadPin::ThreadPin(std::string_view cpu_list) {
    const auto allowed = read_affinity();
    const auto wanted = CpuSet::parse_list(cpu_list).value_or(CpuSet());
    const auto near = wanted & allowed;
    distant_ = !wanted.empty() && !allowed.empty() && near.empty();
    if (!near.empty() && near != allowed && bind_self({.cpus = near, .memory_node = {}})) {
        before_ = allowed;
    }
}

ThreadPin::~ThreadPin() {
    if (before_) {
        static_cast<void>(bind_self({.cpus = *before_, .memory_node = {}})); // if it fails, there is no remedy
    }
}

} // namespace rdma_nccl
