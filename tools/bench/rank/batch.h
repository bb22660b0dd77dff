// SPDX-License-Identifier: Apache-2.0
// Batches of calls that ranks measure: as many as there is time for, and the same number on all ranks; and their data.
#pragma once

#include "tools/bench/rank/order.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl::bench {

/// Reports the current activity while it makes progress: a run without RDMA may be slow, and must not count as a hang.
class RankProgress {
public:
    explicit RankProgress(const RankChannel& channel) : channel_(channel) {}

    void begin(std::string what) {
        what_ = std::move(what);
        last_ = Clock::now();
        channel_.at(what_);
    }
    /// Repeats the current activity if the last report is at least 500 ms old.
    void report() {
        constexpr std::chrono::milliseconds pause(500);
        if (const auto now = Clock::now(); now - last_ >= pause) {
            last_ = now;
            channel_.at(what_);
        }
    }

private:
    using Clock = std::chrono::steady_clock;

    const RankChannel& channel_;
    std::string what_;
    Clock::time_point last_;
};

/// Measures one operation at one size. `Failure` is the error type of the calls.
template<typename Failure>
class Batches {
public:
    template<typename T>
    using Outcome = tl::expected<T, Failure>;
    /// Carries out `count` calls of a batch, starting with call `first`.
    using Calls = std::function<Outcome<void>(unsigned first, unsigned count)>;
    /// Sums `value` over all ranks. No rank returns before all have called it.
    using Sum = std::function<Outcome<double>(double value)>;

    Batches(const Work& work, unsigned ranks, Sum sum, RankProgress& progress)
        : work_(work), ranks_(ranks), sum_(std::move(sum)), progress_(progress) {}

    /// Returns the number of iterations of a batch, from the time of a warm call. The first call may connect and is the
    /// slowest; its time limits the number of further warm-up calls.
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

    /// Measures `work.repeats` batches of calls; `alone`: with one more call before each, which does not count.
    Outcome<Times> repeat(const Calls& calls, unsigned iterations, bool alone, std::uint64_t bytes, double bus_factor) {
        std::vector<double> seconds;
        for (unsigned i = 0; i < work_.repeats; ++i) {
            const auto first = alone ? calls(0, 1) : Outcome<void>();
            const auto each = first ? time(calls, iterations) : tl::unexpected(first.error());
            if (!each) {
                return tl::unexpected(each.error());
            }
            seconds.push_back(*each);
        }
        return times_of(std::move(seconds), bytes, bus_factor);
    }

private:
    /// Returns the seconds per call, averaged over calls and ranks.
    Outcome<double> time(const Calls& calls, unsigned count) {
        if (auto together = sum_(0); !together) {
            return together;
        }
        const auto start = std::chrono::steady_clock::now();
        if (auto done = carry_out(calls, count); !done) {
            return tl::unexpected(done.error());
        }
        const auto sum = sum_(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / count);
        progress_.report();
        return sum.map([this](double all) { return all / ranks_; });
    }

    /// Waits once for each group of calls that takes about a second; small calls are all in one group.
    Outcome<void> carry_out(const Calls& calls, unsigned count) {
        constexpr double seconds_without_report = 1;
        const double fit = call_seconds_ > 0 ? std::ceil(seconds_without_report / call_seconds_) : count;
        const auto at_once = static_cast<unsigned>(std::clamp(fit, 1.0, greatest_batch));
        for (unsigned done = 0; done < count; done += std::min(at_once, count - done)) {
            if (auto carried = calls(done, std::min(at_once, count - done)); !carried) {
                return carried;
            }
            progress_.report();
        }
        return {};
    }

    /// Times one call. Returns how many such calls fit into a batch; all ranks get the same time and number.
    Outcome<unsigned> fitting_calls(const Calls& calls) {
        const auto one = time(calls, 1);
        if (!one) {
            return tl::unexpected(one.error());
        }
        call_seconds_ = *one;
        const double fit = *one > 0 ? std::floor(work_.batch_seconds / *one) : work_.iterations;
        return static_cast<unsigned>(std::clamp(fit, 1.0, greatest_batch));
    }

    static constexpr double greatest_batch = 1e6;

    const Work& work_;
    unsigned ranks_;
    Sum sum_;
    RankProgress& progress_;
    double call_seconds_ = 0; ///< same on all ranks; 0: not yet known
};

// --- The values that ranks send and expect: integers, small enough to give the same result in all types and in any
// order of addition. They repeat after a prime number of elements, so that swapped parts are noticed ---

inline constexpr std::size_t tile_elements = 65521; // the largest prime below 2^16

struct TileSettings {
    std::string_view type = "float"; ///< nccl-tests' names
    std::string_view redop = "sum";  ///< "none": values are only moved
    unsigned ranks = 1;
    std::uint64_t seed = 0; ///< another seed gives other values, so that leftovers of the repeat before are wrong
};

/// Returns the tile of the values that `rank` sends, starting with element 0.
std::vector<std::byte> sent_tile(const TileSettings& settings, unsigned rank);

/// Returns the tile of the reduction over all ranks, starting with element 0.
std::vector<std::byte> reduced_tile(const TileSettings& settings);

/// Returns how many values, from element `first` on, differ from the tile. An average may be off by rounding.
std::uint64_t count_wrong(const TileSettings& settings, std::span<const std::byte> tile,
                          std::span<const std::byte> values, std::uint64_t first);

} // namespace rdma_nccl::bench
