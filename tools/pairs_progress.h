// SPDX-License-Identifier: Apache-2.0
// How far a measurement is, for who waits for it: on stderr.
#pragma once

#include "tools/measure_control.h"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace rdma_nccl {

/// "40 s", "17 min", "2 h 5 min".
std::string duration_text(std::chrono::milliseconds time);

class PairsProgress {
public:
    using Time = MeasureClock::time_point;

    /// On a terminal one line that is drawn anew; else a line at times. `quiet`: nothing at all.
    PairsProgress(int fd, bool quiet);
    ~PairsProgress() { clear(); }
    PairsProgress(const PairsProgress&) = delete;
    PairsProgress& operator=(const PairsProgress&) = delete;

    /// A line that stays.
    void say(std::string_view text);
    void show(std::string_view text, Time now);
    /// Whether show() would draw now: who asks first makes no text for nothing.
    [[nodiscard]] bool due(Time now);
    /// Takes the line off the terminal.
    void clear();

private:
    void write(std::string_view text) const;

    int fd_;
    bool quiet_, terminal_;
    bool drawn_ = false;
    std::optional<Time> shown_;
};

} // namespace rdma_nccl
