// SPDX-License-Identifier: Apache-2.0
// Shows the progress of a measurement on stderr.
#pragma once

#include "tools/measure/channel.h"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace rdma_nccl {

/// Returns 80 if `fd` is no terminal.
unsigned terminal_columns(int fd);

/// Returns "40 s", "17 min", "2 h 5 min".
std::string duration_text(std::chrono::milliseconds time);

class PairsProgress {
public:
    using Time = MeasureClock::time_point;

    /// Redraws one line on a terminal; else prints a line from time to time. `quiet`: prints nothing.
    PairsProgress(int fd, bool quiet);
    ~PairsProgress() { clear(); }
    PairsProgress(const PairsProgress&) = delete;
    PairsProgress& operator=(const PairsProgress&) = delete;

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

} // namespace rdma_nccl
