// SPDX-License-Identifier: Apache-2.0
// Shows the progress of a measurement on stderr.
#pragma once

#include "tools/measure/channel.h"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace rdma_nccl::measure {

/// Returns 80 if `fd` is no terminal.
unsigned terminal_columns(int fd);

/// Returns "40 s", "17 min", "2 h 5 min".
std::string format_duration(std::chrono::milliseconds time);

class Progress {
public:
    using Time = Clock::time_point;

    /// Redraws one line on a terminal; else prints a line from time to time. `quiet`: prints nothing.
    Progress(int fd, bool quiet);
    ~Progress() { clear(); }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    /// Prints a line that stays.
    void say(std::string_view text);
    void show(std::string_view text, Time now);
    /// Returns whether show() would draw now, so that callers need not format a text in vain.
    [[nodiscard]] bool due(Time now);
    /// Removes the line from the terminal.
    void clear();

private:
    void write(std::string_view text) const;

    int fd_;
    bool quiet_, terminal_;
    bool drawn_ = false;
    std::optional<Time> shown_;
};

} // namespace rdma_nccl::measure
