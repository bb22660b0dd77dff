// SPDX-License-Identifier: Apache-2.0
// A port that is measured, what bounds a measurement between two of them, and its figures.
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
    std::string network;          ///< of the GID's address, "10.77.0.0/16"; empty: none
    std::string address;          ///< an IP address of the netdev, for TCP between the same ports; empty: none
    std::optional<int> numa_node; ///< absent: unknown
    std::string local_cpus;       ///< "0-31"; empty: unknown
    bool software = false;        ///< Soft-RoCE or siw: the measurement is one of the CPU

    friend bool operator==(const PairRail&, const PairRail&) = default;
};

/// Limit for the memory of one end: half to write from, half to be written to, with one message per queue pair.
inline constexpr std::uint64_t most_pair_memory = std::uint64_t{4} << 30;

/// The time for these bytes on the slowest link that counts as working: 1e8 bit/s, a tenth of Soft-RoCE on a busy CPU.
constexpr std::chrono::milliseconds slowest_transfer(std::uint64_t bytes) {
    constexpr std::uint64_t bytes_each_ms = 12'500;
    return std::chrono::milliseconds(bytes / bytes_each_ms);
}

/// The time to create or check a pattern of these bytes on a slow CPU, with the copy to or from a GPU: 1e8 bytes/s.
constexpr std::chrono::milliseconds slowest_pattern(std::uint64_t bytes) {
    constexpr std::uint64_t bytes_each_ms = 100'000;
    return std::chrono::milliseconds(bytes / bytes_each_ms);
}

// --- The figures of a measurement, from its samples ---

/// Half a round trip of a small write, in microseconds.
struct PairLatency {
    double min_us = 0, median_us = 0, p99_us = 0, p999_us = 0, max_us = 0;
    std::uint64_t round_trips = 0;

    friend bool operator==(const PairLatency&, const PairLatency&) = default;
};

/// Summarizes half round trips in microseconds, in any order; percentiles by nearest rank. All zero for no values.
PairLatency summarize_latencies(std::vector<float> half_round_trips_us);

/// Measures the rate of a transfer of known duration without its first and last tenth, in which pipelines fill and
/// drain. The number of bytes at both edges is interpolated between the neighbouring samples, so a stall counts
/// wherever it is.
class SteadyRate {
public:
    using Clock = std::chrono::steady_clock;

    SteadyRate(Clock::time_point begin, Clock::duration time)
        : from_{begin + time / 10}, until_{begin + time - time / 10}, begin_{begin}, last_{begin} {}

    /// Adds a sample: `bytes` had been transferred at `time`. Neither may decrease. Samples after the end are also
    /// needed, until the transfer is complete.
    void add(Clock::time_point time, std::uint64_t bytes);
    /// The transfer was ended early at `time`: no more bytes will come.
    void cut(Clock::time_point time);
    /// In 1e9 bit/s; of the whole transfer if it was cut before its steady part; 0 if nothing was transferred.
    [[nodiscard]] double gbps() const;

private:
    struct Sample {
        Clock::time_point time;
        double bytes = 0;
    };
    /// An edge of the steady part, and the bytes transferred then, once they are known. (Not an optional: g++ 12 would
    /// treat its value as uninitialized.)
    struct Edge {
        Clock::time_point time;
        bool known = false;
        double bytes = 0;
    };
    void cross(Edge& edge, const Sample& sample) const;
    static double rate(const Sample& from, const Sample& until);

    Edge from_, until_;
    Sample begin_, last_;
};

} // namespace rdma_nccl
