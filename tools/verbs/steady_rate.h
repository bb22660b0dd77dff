// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace rdma_nccl {

/// Measures the rate of a transfer of known duration without its first and last tenth, in which pipelines fill and
/// drain. The number of bytes at both edges is interpolated between the neighbouring samples, so a stall counts
/// wherever it is.
class SteadyRate {
public:
    using Clock = std::chrono::steady_clock;

    SteadyRate(Clock::time_point begin, Clock::duration time)
        : from_(begin + time / 10), until_(begin + time - time / 10), begin_{begin, 0} {}

    /// Adds a sample: `bytes` had been transferred at `time`. Neither may decrease. Samples after the end are also
    /// needed, until the transfer is complete.
    void add(Clock::time_point time, std::uint64_t bytes) {
        const Sample sample{time, static_cast<double>(bytes)};
        cross(from_, sample, at_from_);
        cross(until_, sample, at_until_);
        last_ = sample;
    }

    /// The transfer was ended early at `time`: no more bytes will come.
    void cut(Clock::time_point time) {
        if (!at_until_.known && time < until_) {
            until_ = time;
        }
    }

    /// Returns the rate in 1e9 bit/s; the rate of the whole transfer if it was cut before its steady part; 0 if nothing
    /// was transferred.
    [[nodiscard]] double gbps() const {
        if (until_ <= from_) {
            return rate(begin_, last_);
        }
        return rate({from_, at_from_.known ? at_from_.bytes : last_.bytes},
                    {until_, at_until_.known ? at_until_.bytes : last_.bytes});
    }

private:
    struct Sample {
        Clock::time_point time;
        double bytes = 0;
    };
    /// The bytes at an edge of the steady part, once they are known. (Not an optional: g++ 12 would treat its value as
    /// uninitialized.)
    struct Edge {
        bool known = false;
        double bytes = 0;
    };
    void cross(Clock::time_point edge, const Sample& sample, Edge& at_edge) const {
        if (at_edge.known || sample.time < edge) {
            return;
        }
        const std::chrono::duration<double> all = sample.time - last_.time;
        const std::chrono::duration<double> part = edge - last_.time;
        const double share = all.count() > 0 && part.count() > 0 ? part / all : 0;
        at_edge = {true, last_.bytes + (sample.bytes - last_.bytes) * (all.count() > 0 ? share : 1)};
    }
    static double rate(const Sample& from, const Sample& until) {
        const double seconds = std::chrono::duration<double>(until.time - from.time).count();
        return seconds > 0 ? (until.bytes - from.bytes) * 8 / seconds / 1e9 : 0;
    }

    Clock::time_point from_, until_;
    Sample begin_, last_{begin_};
    Edge at_from_, at_until_;
};

} // namespace rdma_nccl
