// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/base/cpu_set.h"

#include <optional>
#include <string_view>

namespace rdma_nccl {

/// Binds the calling thread to those of the wanted CPUs that it may use, and restores its affinity at the end. Does
/// nothing if none of the wanted CPUs is allowed, or if the list is empty or invalid.
class ThreadPin {
public:
    explicit ThreadPin(std::string_view cpu_list);
    ~ThreadPin();
    /// Returns true if CPUs were wanted and none of them is allowed.
    [[nodiscard]] bool is_distant() const { return distant_; }
    ThreadPin(const ThreadPin&) = delete;
    ThreadPin& operator=(const ThreadPin&) = delete;

private:
    bool distant_ = false;
    std::optional<CpuSet> before_;
};

} // namespace rdma_nccl
