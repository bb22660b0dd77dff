// SPDX-License-Identifier: Apache-2.0
// What the launchers of a world tell each other, as lines of JSON: {"ended": {"attempt": 0, "clean": true}}. Unknown
// names are an error, unknown keys are passed over. Whatever comes in is checked as input from a stranger.
#pragma once

#include "lib/result.h"
#include "tools/run_report.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace rdma_nccl {

// From a launcher to that of node rank 0, the head:

struct Hello {
    unsigned node_rank = 0;
    std::string host;
    std::string secret; ///< by which the head knows it is one of its own
};

/// A rank failed; said at once, and once more with all that is known when the node's ranks have ended.
struct FailureNotice {
    RankFailure failure;
    std::uint64_t age_us = 0; ///< since the failure: so that no clocks need to agree
};

/// All processes of the node's ranks have ended.
struct Ended {
    unsigned attempt = 0;
    bool clean = true; ///< nothing hangs in the kernel
};

/// How often a node's launcher got a signal; its numbers only grow.
struct SignalCount {
    int signal = 0;
    unsigned count = 0;
    bool old = false; ///< it was before the one who hears this came

    friend bool operator==(const SignalCount&, const SignalCount&) = default;
};

/// Sent regularly, in both directions.
struct Alive {
    bool moved = false; ///< anything on this node since the last one: see ActivityProbe
};

// From the head to the others:

struct Welcome {
    std::string secret; ///< by which a launcher knows that this is its head
};

/// A rank of this attempt failed, or a node is lost: end yours.
struct EndRanks {
    unsigned attempt = 0;
    std::string why; ///< for people, without a newline

    friend bool operator==(const EndRanks&, const EndRanks&) = default;
};

struct Restart {
    unsigned attempt = 0; ///< the new one
    std::uint16_t port = 0;

    friend bool operator==(const Restart&, const Restart&) = default;
};

/// All is over.
struct Finish {
    int code = 0; ///< to exit with

    friend bool operator==(const Finish&, const Finish&) = default;
};

/// The job hangs: say where the ranks are.
struct ShowStacks {
    friend bool operator==(const ShowStacks&, const ShowStacks&) = default;
};

using ControlMessage =
    std::variant<Hello, FailureNotice, Ended, SignalCount, Alive, Welcome, EndRanks, Restart, Finish, ShowStacks>;

/// No line is longer.
inline constexpr std::size_t most_control_line = std::size_t{256} << 10;

/// With its newline.
std::string write_control_message(const ControlMessage& message);
/// From a line without its newline.
Result<ControlMessage> read_control_message(std::string_view line);

} // namespace rdma_nccl
