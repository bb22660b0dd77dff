// SPDX-License-Identifier: Apache-2.0
// Runs work that may hang in a driver, a file system, a name service or a controller in a child process, with a
// timeout. A thread would not do: a hanging thread blocks seteuid(2) of the whole process (nptl(7)), which slurmstepd
// calls right after the plugin.
#pragma once

#include "lib/base/unique_fd.h"

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <sys/types.h>
#include <utility>

namespace rdma_nccl {

enum class Inherit { Few, All };

/// A forked child process that runs a function instead of a program; also for work that must run as another user. The
/// parent does not see the child's changes to memory.
class Child {
public:
    /// Starts `work`; nullopt when fork(2) fails. The child keeps only the descriptors 0 to 2 and those of `keep`,
    /// because a child that hangs must not hold a task's pipe open. With Inherit::All it keeps all of them.
    static std::optional<Child> start(const std::function<void()>& work, std::span<const int> keep = {},
                                      Inherit inherit = Inherit::Few);

    Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
    ~Child() { (void)finish(std::chrono::milliseconds(0)); } ///< kills the child if it still runs

    /// Returns true once finish() does not wait: the child has ended.
    [[nodiscard]] bool has_ended() const;

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

/// The text that `work` returns, computed in a child while this process goes on.
class ChildText {
public:
    /// Starts `work`. `keep` and `inherit` are those of Child::start().
    static std::optional<ChildText> start(const std::function<std::string()>& work, std::span<const int> keep,
                                          Inherit inherit);

    /// Returns true once the child has ended: finish() then does not wait. A child whose text is longer than a pipe
    /// holds (64 KiB, pipe(7)) ends only while finish() reads it.
    [[nodiscard]] bool has_ended() const { return child_.has_ended(); }

    /// Returns the text, or nullopt when the child failed or did not end before `deadline`; then it is killed. A child
    /// that has said all may take 0.1 s to exit.
    std::optional<std::string> finish(std::chrono::steady_clock::time_point deadline);

private:
    ChildText(Child child, UniqueFd pipe) : child_(std::move(child)), pipe_(std::move(pipe)) {}

    Child child_;
    UniqueFd pipe_;
};

} // namespace rdma_nccl
