// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cpu_set.h"

#include <optional>
#include <string_view>

namespace rdma_nccl {

/// Keeps the calling thread on some of the CPUs that it may use, and gives it back the others in the end. Nothing
/// happens when none of the wanted ones is allowed, or the list is empty or none.
class ThreadPin {
public:
    explicit ThreadPin(std::string_view cpu_list);
    ~ThreadPin();
    /// Some CPUs were wanted, and none of them is allowed.
    [[nodiscard]] bool is_distant() const { return distant_; }
    ThreadPin(const ThreadPin&) = delete;
    ThreadPin& operator=(const ThreadPin&) = delete;

private:
    bool distant_ = false;
    std::optional<CpuSet> before_;
};

} // namespace rdma_nccl
