// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/write_stream.h"

#ifdef HAVE_IBVERBS

#include "tools/verbs/figures.h"
#include "tools/verbs/rail.h"

#include <algorithm>
#include <thread>

namespace rdma_nccl {

namespace {

using std::chrono::milliseconds;

// The bytes in flight at the end must be waited for, so limit them to what takes this long.
constexpr milliseconds most_in_flight{50};
constexpr unsigned fewest_in_flight = 2;
constexpr unsigned idle_polls = 64;                // between readings of the clock
constexpr std::chrono::microseconds nap_time{100}; // short compared with the bytes in flight

constexpr unsigned count_shift = 32; // wr_id contains the index of the pair and, from this bit on, the number of writes

} // namespace

WriteFlow::WriteFlow(VerbsQueues& queues, const std::vector<WriteSlot>& slots, unsigned depth, bool naps)
    : queues_(queues), pairs_(slots.size()), depth_(depth), naps_(naps), bytes_(slots.front().bytes) {
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
        auto& pair = pairs_[i];
        const auto& slot = slots[i];
        pair.source = {slot.local, slot.bytes, slot.local_key};
        for (std::size_t k = 0; k < longest_chain; ++k) {
            auto& write = pair.chain[k];
            write.opcode = IBV_WR_RDMA_WRITE;
            write.sg_list = &pair.source;
            write.num_sge = 1;
            write.wr.rdma = {slot.remote, slot.remote_key};
            write.next = k + 1 < longest_chain ? &pair.chain[k + 1] : nullptr;
        }
        pair.chain.back().send_flags = IBV_SEND_SIGNALED;
    }
}

int WriteFlow::post(std::size_t index, unsigned writes) {
    auto& pair = pairs_[index];
    pair.chain.back().wr_id = index | (std::uint64_t{writes} << count_shift);
    if (const int code = queues_.post(index, &pair.chain[longest_chain - writes]); code != 0) {
        return code;
    }
    pair.in_flight += writes;
    in_flight_ += writes;
    return 0;
}

/// Fills the window, divided equally, so that even a narrow one uses several queue pairs.
int WriteFlow::fill() {
    const auto pairs = static_cast<unsigned>(pairs_.size());
    const unsigned share = std::clamp(window_ / pairs, 1U, depth_);
    const unsigned chain = std::clamp(share / 4, 1U, longest_chain);
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
        while (pairs_[i].in_flight + chain <= share && in_flight_ + chain <= std::max(window_, chain)) {
            if (const int code = post(i, chain); code != 0) {
                return code;
            }
        }
    }
    return 0;
}

Completions WriteFlow::poll() {
    return queues_.poll([this](std::uint64_t id) {
        const auto writes = static_cast<unsigned>(id >> count_shift);
        pairs_[static_cast<std::uint32_t>(id)].in_flight -= writes;
        in_flight_ -= writes;
        completed_ += writes;
    });
}

void WriteFlow::nap() const {
    if (naps_) {
        std::this_thread::sleep_for(nap_time);
    }
}

/// Completed writes show that the path worked before.
tl::unexpected<TransferFailure> WriteFlow::failed(TransferFailure failure) const {
    failure.large_passed = completed_ > 0;
    return tl::unexpected(failure);
}

/// Sets the window to the number of completed writes, limited by most_in_flight.
void WriteFlow::widen(Clock::duration since_begin) {
    const auto most = static_cast<std::uint64_t>(depth_) * pairs_.size();
    const double ticks = static_cast<double>(std::max<Clock::rep>(since_begin.count(), 1));
    const double affordable =
        static_cast<double>(completed_) * static_cast<double>(Clock::duration(most_in_flight).count()) / ticks;
    const auto wide = std::min<double>(affordable, static_cast<double>(std::min(most, completed_ + 1)));
    window_ = std::max(fewest_in_flight, static_cast<unsigned>(wide));
}

tl::expected<void, TransferFailure> WriteFlow::write_once(milliseconds limit) {
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
        if (post(i, 1) != 0) {
            return failed({.status = wc_general});
        }
    }
    const auto deadline = Clock::now() + limit;
    while (in_flight_ > 0) {
        const auto polled = poll();
        if (!polled) {
            return failed(polled.error());
        }
        if (*polled == 0 && Clock::now() > deadline) {
            return failed({});
        }
        if (*polled == 0) {
            nap();
        }
    }
    return {};
}

tl::expected<VerbsBandwidth, TransferFailure> WriteFlow::write_for(milliseconds time, const StopAsked& stop) {
    const auto begin = Clock::now();
    auto end = begin + time;
    auto now = begin;
    auto progress = begin;
    StopCheck stops(stop, begin);
    SteadyRate rate(begin, time);
    unsigned idle = 0;
    if (fill() != 0) {
        return failed({.status = wc_general});
    }
    while (in_flight_ > 0) {
        const auto polled = poll();
        if (!polled) {
            return failed(polled.error());
        }
        if (*polled > 0) {
            now = progress = Clock::now();
            rate.add(now, completed_ * bytes_);
            widen(now - begin);
            if (now < end && fill() != 0) {
                return failed({.status = wc_general});
            }
        } else {
            nap();
            now = naps_ || ++idle % idle_polls == 0 ? Clock::now() : now;
            if (now - progress > verbs_timeout + slowest_transfer(std::uint64_t{in_flight_} * bytes_)) {
                return failed({});
            }
        }
        if (now < end && stops.is_asked(now)) {
            end = now;
            rate.cut(now);
        }
    }
    return VerbsBandwidth{rate.gbps(), completed_ * bytes_};
}

} // namespace rdma_nccl

#endif
