// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/qp_owners.h"

#include <chrono>
#include <memory>
#include <vector>

namespace rdma_nccl {

/// Who has queue pairs, read by a thread: the kernel asks the driver for each of them, and a driver may hang. The more
/// there are the less often it asks, so that it takes a hundredth of a core at most.
class OwnerWatch {
public:
    /// `period`: between two looks, at least.
    explicit OwnerWatch(std::chrono::milliseconds period);
    ~OwnerWatch(); ///< does not wait for a driver
    OwnerWatch(const OwnerWatch&) = delete;
    OwnerWatch& operator=(const OwnerWatch&) = delete;

    /// What was seen last. Fails, with why, where it could not be read, and before the first look has ended.
    [[nodiscard]] Result<std::vector<QpOwner>> latest() const;

private:
    struct State;
    std::shared_ptr<State> state_; ///< also the thread's
};

} // namespace rdma_nccl
