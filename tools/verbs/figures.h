// SPDX-License-Identifier: Apache-2.0
// The figures of a measurement, from its samples.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace rdma_nccl {

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
