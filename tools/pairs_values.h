// SPDX-License-Identifier: Apache-2.0
// What `rdma-nccl pairs` measures between nodes, as plain values: the nodes with their rails, the pairings, and the
// results.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// One HCA port of a node, as the node's plan chose it. Rail i of a node is measured with rail i of the others.
struct PairRail {
    std::string hca; ///< "mlx5_1"
    unsigned port = 1;
    bool ethernet = true;   ///< RoCE; false: InfiniBand
    unsigned gid_index = 0; ///< of the used entry; 0 on InfiniBand
    std::string gid;        ///< as text, "::ffff:10.77.1.1"
    double rate_gbps = 0;   ///< of the link; 0: unknown
    std::string netdev;     ///< of the port; may be empty on InfiniBand
    unsigned netdev_mtu = 0;
    std::string address;          ///< an IP address of the netdev, for TCP between the same ports; empty: none
    std::optional<int> numa_node; ///< absent: unknown
    std::string local_cpus;       ///< "0-31"; empty: unknown
    bool software = false;        ///< Soft-RoCE or siw: the measurement is one of the CPU

    friend bool operator==(const PairRail&, const PairRail&) = default;
};

struct PairNode {
    std::string name;
    std::vector<PairRail> rails;
    std::string problem; ///< why it has no rails, or takes no part
    std::string host{};  ///< its real name, if `name` was changed to tell it from others of that name; else empty

    /// Returns the name for Slurm.
    [[nodiscard]] const std::string& host_name() const { return host.empty() ? name : host; }

    friend bool operator==(const PairNode&, const PairNode&) = default;
};

/// What is measured at a time: a rail of one node against a rail of another, or against itself (loopback: a == b and
/// rail_a == rail_b). Indices into the nodes and their rails.
struct Pairing {
    unsigned a = 0, b = 0;
    unsigned rail_a = 0, rail_b = 0;

    friend bool operator==(const Pairing&, const Pairing&) = default;
    friend auto operator<=>(const Pairing&, const Pairing&) = default; // NOLINT(modernize-use-nullptr): its own fault
};

/// Pairings that run at the same time.
using Round = std::vector<Pairing>;

/// Half a round trip of a small write, in microseconds.
struct PairLatency {
    double min_us = 0, median_us = 0, p99_us = 0, p999_us = 0, max_us = 0;
    std::uint64_t round_trips = 0;

    friend bool operator==(const PairLatency&, const PairLatency&) = default;
};

/// In one direction, or the sum of both at once.
struct PairBandwidth {
    double gbps = 0;                     ///< 1e9 bit/s of payload, over the steady part
    std::uint64_t bytes = 0;             ///< sent in total
    std::optional<double> counted_share; ///< bytes that the port's counters saw, over `bytes`; absent: no counters
    std::optional<double> tcp_gbps;      ///< of TCP between the same ports, if requested

    friend bool operator==(const PairBandwidth&, const PairBandwidth&) = default;
};

struct PairResult {
    Pairing pairing;
    unsigned round = 0;
    bool retest = false;              ///< measured again with a good partner
    std::string problem;              ///< why not everything was measured: what, where, what to do
    std::optional<unsigned> fault_of; ///< index of the node where the problem lies, if known
    std::optional<bool> data_correct;
    unsigned path_mtu = 0; ///< bytes, as agreed
    std::optional<PairLatency> latency;
    std::optional<PairBandwidth> forward, backward; ///< a to b, b to a
    std::optional<PairBandwidth> both;              ///< at the same time
    std::vector<std::string> notes;                 ///< explain a slow result: "retransmits: 120 at n02 mlx5_0:1"

    friend bool operator==(const PairResult&, const PairResult&) = default;
};

/// Limit for the memory of one end: half to write from, half to be written to, with one message per queue pair.
inline constexpr std::uint64_t most_pair_memory = std::uint64_t{4} << 30;

/// Returns the time for these bytes on the slowest link that still counts as working: 0.1e9 bit/s, a tenth of Soft-RoCE
/// on a busy CPU.
constexpr std::chrono::milliseconds slowest_transfer(std::uint64_t bytes) {
    constexpr std::uint64_t bytes_each_ms = 12'500;
    return std::chrono::milliseconds(bytes / bytes_each_ms);
}

/// Returns the time to create or check a pattern of these bytes on a slow CPU, with the copy to or from a GPU: 1e8
/// bytes/s.
constexpr std::chrono::milliseconds slowest_pattern(std::uint64_t bytes) {
    constexpr std::uint64_t bytes_each_ms = 100'000;
    return std::chrono::milliseconds(bytes / bytes_each_ms);
}

/// How each pairing is measured.
struct PairsMeasure {
    std::chrono::milliseconds time{2000};                ///< for each direction
    std::uint64_t message_size = std::uint64_t{1} << 20; ///< bytes of one write
    unsigned queue_pairs = 4;
    unsigned depth = 64; ///< writes in flight per queue pair
    unsigned traffic_class = 0, service_level = 0;
    bool latency = true, both = true;
    bool tcp = false;
    bool gpu = false;
    unsigned pkey_index = 0; ///< in the port's table

    friend bool operator==(const PairsMeasure&, const PairsMeasure&) = default;
};

/// All results, also of a measurement that ended early.
struct PairsReport {
    std::string schedule; ///< "all", "quick", "ring", "bisection", "loopback"
    std::string started;  ///< ISO 8601
    double seconds = 0;   ///< duration
    bool on_gpu = false;  ///< in GPU memory
    bool with_tcp = false;
    std::vector<PairNode> nodes;
    std::vector<PairResult> results;
    std::size_t planned = 0; ///< pairings of the schedule; more than results if it ended early
    std::string ended_early; ///< why: "interrupted", "time limit"; empty: not ended early
    PairsMeasure measure;
};

} // namespace rdma_nccl
