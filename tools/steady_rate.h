// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace rdma_nccl {

/// The rate of something that goes on for a time, without its first and its last tenth: what fills up and what runs
/// empty is no rate. What was through at both edges lies on a line between the samples around them, so that a stall
/// counts wherever it lies.
class SteadyRate {
public:
    using Clock = std::chrono::steady_clock;

    SteadyRate(Clock::time_point begin, Clock::duration time)
        : from_(begin + time / 10), until_(begin + time - time / 10), begin_{begin, 0} {}

    /// So many bytes were through at this time; neither goes back. Also behind the end, until all is through.
    void add(Clock::time_point time, std::uint64_t bytes) {
        const Sample sample{time, static_cast<double>(bytes)};
        cross(from_, sample, at_from_);
        cross(until_, sample, at_until_);
        last_ = sample;
    }

    /// It was ended before its time: nothing more was meant to come.
    void cut(Clock::time_point time) {
        if (!at_until_.known && time < until_) {
            until_ = time;
        }
    }

    /// In 1e9 bit/s; over all of it when it was cut before its steady part; 0 when nothing came.
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
    /// What was through at an edge of the steady part, once that is known. (g++ 12 takes an optional's value for
    /// unset.)
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
