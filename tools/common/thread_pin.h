// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/base/cpu_set.h"
#include "lib/sys/resources.h"

#include <optional>
#include <string_view>

namespace rdma_nccl {

/// Binds the calling thread to those of the wanted CPUs that it may use, and restores its affinity at the end. Does
/// nothing if none of the wanted CPUs is allowed, or if the list is empty or invalid.
class ThreadPin {
public:
    explicit ThreadPin(std::string_view cpu_list) {
        const auto allowed = read_affinity();
        const auto wanted = CpuSet::parse_list(cpu_list).value_or(CpuSet());
        const auto near = wanted & allowed;
        distant_ = !wanted.empty() && !allowed.empty() && near.empty();
        if (!near.empty() && near != allowed && bind_self({.cpus = near, .memory_node = {}})) {
            before_ = allowed;
        }
    }
    ~ThreadPin() {
        if (before_) {
            static_cast<void>(bind_self({.cpus = *before_, .memory_node = {}})); // if it fails, there is no remedy
        }
    }
    ThreadPin(const ThreadPin&) = delete;
    ThreadPin& operator=(const ThreadPin&) = delete;

    /// Returns true if CPUs were wanted and none of them is allowed.
    [[nodiscard]] bool is_distant() const { return distant_; }

private:
    bool distant_ = false;
    std::optional<CpuSet> before_;
};

} // namespace rdma_nccl
