// SPDX-License-Identifier: Apache-2.0
// A rank's end of the connection to the process that started it: JSON objects, one a line, on a descriptor of their
// own, as NCCL prints its logs to standard output.
#pragma once

#include "lib/json.h"
#include "lib/result.h"

#include <string>
#include <string_view>

namespace rdma_nccl {

/// The descriptor in a rank.
inline constexpr int bench_channel_fd = 3;

/// What a rank says: {"offer": ...} once, {"at": "..."} what it does now, {"row": ...}, {"failed": "...", "remote":
/// bool} before it ends with 1, {"done": ...}. What it hears: {"order": ...}, then, behind its offer, {"go": ...}.
class BenchChannel {
public:
    /// No program that the rank starts has the descriptor, too: its end is the rank's.
    explicit BenchChannel(int fd);

    /// Nothing happens when nobody hears it: then this process is about to be ended.
    void say(const Json& message) const;
    /// What it does now.
    void at(std::string_view what) const { say({{"at", what}}); }
    /// Waits for the next line that has this key, and gives back its value. Fails when the other side is gone.
    Result<Json> hear(const char* key);

private:
    int fd_;
    std::string received_;
};

} // namespace rdma_nccl
