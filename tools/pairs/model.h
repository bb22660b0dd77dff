// SPDX-License-Identifier: Apache-2.0
// What `rdma-nccl pairs` measures between nodes, as plain values: nodes with their rails, pairings, and results.
#pragma once

#include "tools/measure/rails.h"
#include "tools/verbs/rail.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl::pairs {

/// What is measured at a time: a rail of one node against a rail of another, or against itself (loopback: a == b and
/// rail_a == rail_b). Indices into the nodes and their rails.
struct Pairing {
    unsigned a = 0, b = 0;
    unsigned rail_a = 0, rail_b = 0;

    friend auto operator<=>(const Pairing&, const Pairing&) = default; // NOLINT(modernize-use-nullptr): its own fault
};

/// Pairings that run at the same time.
using Round = std::vector<Pairing>;

/// In one direction, or the sum of both at once.
struct Bandwidth {
    double gbps = 0;                     ///< 1e9 bit/s of payload, over the steady part
    std::uint64_t bytes = 0;             ///< sent in total
    std::optional<double> counted_share; ///< bytes that the port's counters saw, over `bytes`; absent: no counters
    std::optional<double> tcp_gbps;      ///< of TCP between the same ports, if requested

    friend bool operator==(const Bandwidth&, const Bandwidth&) = default;
};

struct PairingResult {
    Pairing pairing;
    unsigned round = 0;
    bool retest = false;              ///< measured again with a good partner
    std::string problem;              ///< why not everything was measured: what, where, what to do
    std::optional<unsigned> fault_of; ///< index of the node where the problem lies, if known
    std::optional<bool> data_correct;
    unsigned path_mtu = 0; ///< bytes, as agreed
    std::optional<PairLatency> latency;
    std::optional<Bandwidth> forward, backward; ///< a to b, b to a
    std::optional<Bandwidth> both;              ///< at the same time
    std::vector<std::string> notes;             ///< explain a slow result: "retransmits: 120 at n02 mlx5_0:1"

    friend bool operator==(const PairingResult&, const PairingResult&) = default;
};

/// One direction of a result.
struct Direction {
    unsigned from, from_rail, to, to_rail;
    const std::optional<Bandwidth>* bandwidth;
};
inline std::array<Direction, 2> directions_of(const PairingResult& result) {
    const auto& [a, b, rail_a, rail_b] = result.pairing;
    return {{{a, rail_a, b, rail_b, &result.forward}, {b, rail_b, a, rail_a, &result.backward}}};
}

/// Returns a figure of a measurement; nullopt if it was not measured.
template<typename T, typename Figure>
auto figure_of(const std::optional<T>& measured, Figure T::*figure) {
    return measured ? std::optional(*measured.*figure) : std::nullopt;
}

/// How each pairing is measured.
struct Measurement {
    std::chrono::milliseconds time{2000};                ///< for each direction
    std::uint64_t message_size = std::uint64_t{1} << 20; ///< bytes of one write
    unsigned queue_pairs = 4;
    unsigned depth = 64; ///< writes in flight per queue pair
    unsigned traffic_class = 0, service_level = 0;
    bool latency = true, both = true;
    bool tcp = false;
    bool gpu = false;
    unsigned pkey_index = 0; ///< in the port's table

    friend bool operator==(const Measurement&, const Measurement&) = default;
};

/// Returns the number of rails of the node that has most.
inline std::size_t most_rails(const std::vector<measure::Node>& nodes) {
    std::size_t most = 0;
    for (const auto& node : nodes) {
        most = std::max(most, node.rails.size());
    }
    return most;
}

/// All results, also of a measurement that ended early.
struct Report {
    std::string schedule; ///< "all", "quick", "ring", "bisection", "loopback"
    std::string started;  ///< ISO 8601
    double seconds = 0;   ///< duration
    bool on_gpu = false;  ///< in GPU memory
    bool with_tcp = false;
    std::vector<measure::Node> nodes;
    std::vector<PairingResult> results;
    std::size_t planned = 0; ///< pairings of the schedule; more than results if it ended early
    std::string ended_early; ///< why: "interrupted", "time limit"; empty: not ended early
    Measurement measure;
};

} // namespace rdma_nccl::pairs
