// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace rdma_nccl {

/// The rate of something that goes on for a time, without its first and its last tenth: what fills up and what runs
/// empty is no rate.
class SteadyRate {
public:
    using Clock = std::chrono::steady_clock;

    SteadyRate(Clock::time_point begin, Clock::duration time)
        : begin_(begin), from_(begin + time / 10), until_(begin + time - time / 10) {}

    /// So many bytes were through at this time; neither goes back.
    void add(Clock::time_point time, std::uint64_t bytes) {
        last_ = {time, bytes};
        if (time >= from_ && !first_steady_) {
            first_steady_ = last_;
        }
        if (time <= until_) {
            last_steady_ = last_;
        }
    }

    /// In 1e9 bit/s; over all of it where too little came in the steady part; 0 when nothing came.
    [[nodiscard]] double gbps() const {
        if (first_steady_ && last_steady_.bytes > first_steady_->bytes) {
            return rate(*first_steady_, last_steady_);
        }
        return rate({begin_, 0}, last_);
    }

private:
    struct Sample {
        Clock::time_point time;
        std::uint64_t bytes = 0;
    };
    static double rate(const Sample& from, const Sample& until) {
        const double seconds = std::chrono::duration<double>(until.time - from.time).count();
        return seconds > 0 ? static_cast<double>(until.bytes - from.bytes) * 8 / seconds / 1e9 : 0;
    }

    Clock::time_point begin_, from_, until_;
    std::optional<Sample> first_steady_;
    Sample last_steady_{begin_, 0};
    Sample last_{begin_, 0};
};

} // namespace rdma_nccl
