// SPDX-License-Identifier: Apache-2.0
// Batches of calls as ranks measure them, on GPUs and in host memory: as many calls as there is time for, the same
// number in all ranks, and signs of life meanwhile.
#pragma once

#include "lib/result.h"
#include "tools/bench_work.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <string>
#include <string_view>

namespace rdma_nccl {

/// Tells what is being done, as long as it goes on: a run without RDMA may be a hundred times as slow as one with it,
/// and is no hang.
class BenchNews {
public:
    explicit BenchNews(std::function<void(std::string_view)> at) : at_(std::move(at)) {}

    void begin(std::string what) {
        what_ = std::move(what);
        last_ = Clock::now();
        at_(what_);
    }
    /// It goes on.
    void live() {
        constexpr std::chrono::milliseconds pause(500);
        if (const auto now = Clock::now(); now - last_ >= pause) {
            last_ = now;
            at_(what_);
        }
    }

private:
    using Clock = std::chrono::steady_clock;

    std::function<void(std::string_view)> at_;
    std::string what_;
    Clock::time_point last_;
};

/// Of one operation at one size. `Failure`: what calls fail with.
template<typename Failure>
class BenchBatches {
public:
    template<typename T>
    using Outcome = tl::expected<T, Failure>;
    /// Carries out `count` calls of a batch, from call `first` on.
    using Calls = std::function<Outcome<void>(unsigned first, unsigned count)>;
    /// Over all ranks; none goes on before all have come there.
    using Sum = std::function<Outcome<double>(double value)>;

    BenchBatches(const BenchWork& work, unsigned ranks, Sum sum, BenchNews& news)
        : work_(work), ranks_(ranks), sum_(std::move(sum)), news_(news) {}

    /// Seconds of one call, averaged over calls and ranks.
    Outcome<double> time(const Calls& calls, unsigned count) {
        if (auto together = sum_(0); !together) {
            return together;
        }
        const auto start = std::chrono::steady_clock::now();
        if (auto done = carry_out(calls, count); !done) {
            return tl::unexpected(done.error());
        }
        const auto sum = sum_(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / count);
        news_.live();
        return sum.map([this](double all) { return all / ranks_; });
    }

    /// Gives back how many iterations a batch has: the time of a warm call tells. The first call, which may connect,
    /// is the slowest; it tells how many more there is time for.
    Outcome<unsigned> warm_up(const Calls& calls) {
        auto first = fitting_calls(calls);
        if (!first) {
            return first;
        }
        if (auto warm = carry_out(calls, std::min(std::max(work_.warm_up, 1U) - 1, *first)); !warm) {
            return tl::unexpected(warm.error());
        }
        return fitting_calls(calls).map([this](unsigned fit) { return std::min(fit, work_.iterations); });
    }

private:
    /// So many calls that they take about a second are waited for at once: small ones all.
    Outcome<void> carry_out(const Calls& calls, unsigned count) {
        constexpr double seconds_of_silence = 1;
        const double fit = call_seconds_ > 0 ? std::ceil(seconds_of_silence / call_seconds_) : count;
        const auto at_once = static_cast<unsigned>(std::clamp(fit, 1.0, 1e6));
        for (unsigned done = 0; done < count; done += std::min(at_once, count - done)) {
            if (auto carried = calls(done, std::min(at_once, count - done)); !carried) {
                return carried;
            }
            news_.live();
        }
        return {};
    }

    /// One call that is timed: all ranks come to the same time, and to how many such calls fit into a batch.
    Outcome<unsigned> fitting_calls(const Calls& calls) {
        const auto one = time(calls, 1);
        if (!one) {
            return tl::unexpected(one.error());
        }
        call_seconds_ = *one;
        const double fit = *one > 0 ? std::floor(work_.batch_seconds / *one) : work_.iterations;
        return static_cast<unsigned>(std::clamp(fit, 1.0, 1e6));
    }

    const BenchWork& work_;
    unsigned ranks_;
    Sum sum_;
    BenchNews& news_;
    double call_seconds_ = 0; ///< the same for all ranks; 0: not yet known
};

} // namespace rdma_nccl
