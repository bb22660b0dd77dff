// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <sys/types.h>

namespace rdma_nccl {

enum class Inherit { Few, All };

/// A forked child process that runs a function instead of a program. Use it for work that may hang in a driver or a
/// file system, or that must run as another user. The parent does not see the child's changes to memory.
class Child {
public:
    /// Starts `work`; nullopt when fork(2) fails. The child keeps only the descriptors 0 to 2 and those of `keep`,
    /// because a child that hangs must not hold a task's pipe open. With Inherit::All it keeps all of them.
    static std::optional<Child> start(const std::function<void()>& work, std::span<const int> keep = {},
                                      Inherit inherit = Inherit::Few);

    Child(Child&& other) noexcept;
    ~Child(); ///< finish() with no wait: kills the child if it still runs

    /// Waits for the child, and kills it after `limit`. Returns true when the child ended by itself with its work done.
    bool finish(std::chrono::milliseconds limit);

private:
    explicit Child(pid_t pid) : pid_(pid) {}
    pid_t pid_; ///< -1: has ended, or was moved from
};

/// Closes all descriptors from 3 on except these; for a child that runs no program.
void close_all_but(std::span<const int> keep);

/// Starts `work` in a child and waits for it: Child::start(), then finish().
bool run_in_child(std::chrono::milliseconds limit, const std::function<void()>& work, std::span<const int> keep = {});

} // namespace rdma_nccl
