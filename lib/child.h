// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <sys/types.h>

namespace rdma_nccl {

enum class Inherit { Few, All };

/// A child of this process that runs no program: for what may hang in a driver or a file system, or must not be done as
/// this user. Nothing that it changes in memory is seen here.
class Child {
public:
    /// Starts `work`; nullopt when there is no child to be had. Of this process's descriptors it has 0 to 2 and those
    /// of `keep`: one that hangs must not keep a pipe of a task open. Inherit::All: it has all of them.
    static std::optional<Child> start(const std::function<void()>& work, std::span<const int> keep = {},
                                      Inherit inherit = Inherit::Few);

    Child(Child&& other) noexcept;
    ~Child(); ///< finish() without patience

    /// Waits, and kills it after `limit`. True when it has ended by itself, with its work done.
    bool finish(std::chrono::milliseconds limit);

private:
    explicit Child(pid_t pid) : pid_(pid) {}
    pid_t pid_; ///< -1: has ended
};

/// Closes all descriptors from 3 on but these: for a child that runs no program.
void close_all_but(std::span<const int> keep);

/// start() and finish().
bool run_in_child(std::chrono::milliseconds limit, const std::function<void()>& work, std::span<const int> keep = {});

} // namespace rdma_nccl
