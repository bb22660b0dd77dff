// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/queue_pairs.h"

#ifdef HAVE_IBVERBS

#include <algorithm>
#include <atomic>
#include <sched.h>

namespace rdma_nccl {

namespace {

using std::chrono::milliseconds;

/// Asks whether to stop, but not at each poll.
class StopCheck {
public:
    using Clock = std::chrono::steady_clock;

    explicit StopCheck(const StopAsked& stop, Clock::time_point asked = {}) : stop_(stop), asked_(asked) {}
    bool is_asked(Clock::time_point now) {
        constexpr milliseconds interval{20};
        if (now - asked_ <= interval) {
            return false;
        }
        asked_ = now;
        return stop_ && stop_();
    }

private:
    const StopAsked& stop_;
    Clock::time_point asked_;
};

// --- Writes that keep all queue pairs busy ---

// The bytes in flight at the end must be waited for, so limit them to what takes this long.
constexpr milliseconds most_in_flight{50};
constexpr unsigned fewest_in_flight = 2;
constexpr unsigned idle_polls = 64;                // between readings of the clock
constexpr std::chrono::microseconds nap_time{100}; // short compared with the bytes in flight

constexpr unsigned count_shift = 32; // wr_id contains the index of the pair and, from this bit on, the number of writes

} // namespace

WriteFlow::WriteFlow(VerbsQueues& queues, const WriteArea& area, unsigned depth, bool naps)
    : queues_(queues), pairs_(queues.count()), depth_(depth), naps_(naps), bytes_(area.bytes) {
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
        auto& pair = pairs_[i];
        pair.source = {area.local + i * area.stride, area.bytes, area.local_key};
        for (std::size_t k = 0; k < longest_chain; ++k) {
            auto& write = pair.chain[k];
            write.opcode = IBV_WR_RDMA_WRITE;
            write.sg_list = &pair.source;
            write.num_sge = 1;
            write.wr.rdma = {area.remote + i * area.stride, area.remote_key};
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

// --- Ping-pong ---

namespace {

constexpr unsigned signal_interval = 16;
constexpr std::uint64_t last_mark = std::uint64_t{1} << 63; // set with the number in the sender's last message
constexpr std::uint64_t warm_up = 100;                      // round trips, but at most a tenth of them and of the time
constexpr std::uint64_t most_samples = 4'000'000;
constexpr unsigned spins = 4096; // between readings of the clock
constexpr unsigned yields_between_readings = 16;

/// How far a measurement is, and its samples.
class Rounds {
public:
    using Clock = VerbsPing::Clock;

    Rounds(std::uint64_t round_trips, milliseconds limit, const StopAsked& stop)
        : skipped_(1 + std::min(warm_up, round_trips / 10)), wanted_(std::min(round_trips, most_samples) + skipped_),
          limit_(limit), begin_(Clock::now()), sent_(begin_), stops_(stop, begin_) {
        samples_.reserve(std::min(wanted_, most_samples));
    }

    void begin_round() { ++round_; }
    /// Returns whether this round should be the last.
    bool is_last() { return stops_.is_asked(sent_) || sent_ - begin_ > limit_ || round_ >= wanted_; }
    /// The answer of this round has come. At the end that does not begin, the first sample would include the time until
    /// the other end began.
    void add_sample() {
        const auto now = Clock::now();
        if (round_ > skipped_ || (round_ > 1 && now - begin_ > limit_ / 10)) {
            samples_.push_back(std::chrono::duration<float, std::micro>(now - sent_).count() / 2);
        }
        sent_ = now;
    }
    [[nodiscard]] std::vector<float> take_samples() { return std::move(samples_); }

private:
    std::uint64_t skipped_, wanted_, round_ = 0;
    milliseconds limit_;
    Clock::time_point begin_, sent_;
    StopCheck stops_;
    std::vector<float> samples_;
};

} // namespace

VerbsPing::VerbsPing(VerbsQueues& queues, const Mailboxes& mailboxes, bool yields)
    : queues_(queues), mailboxes_(mailboxes), yields_(yields),
      outgoing_(queues.inlines() ? &message_ : mailboxes.outgoing) {
    source_.addr = reinterpret_cast<std::uintptr_t>(outgoing_);
    source_.lkey = queues.inlines() ? 0 : mailboxes.outgoing_key;
    source_.length = sizeof(message_);
    write_.sg_list = &source_;
    write_.num_sge = 1;
    write_.opcode = IBV_WR_RDMA_WRITE;
    write_.wr.rdma = {mailboxes.remote, mailboxes.remote_key};
}

bool VerbsPing::poll_completions() {
    const auto polled = queues_.poll([this](std::uint64_t) { --signalled_; });
    if (!polled) {
        failure_ = polled.error();
    }
    return polled.has_value();
}

bool VerbsPing::send(bool last) {
    // The previous message has been answered, so this memory is no longer read.
    *outgoing_ = number_ | (last ? last_mark : 0);
    write_.send_flags = queues_.inlines() ? IBV_SEND_INLINE : 0;
    if (last || ++unsignalled_ == signal_interval) {
        // The last signalled write has been answered, so it is complete; its completion may not have been polled yet.
        if (signalled_ > 0 && !poll_completions()) {
            return false;
        }
        write_.send_flags |= IBV_SEND_SIGNALED;
        unsignalled_ = 0;
        ++signalled_;
    }
    if (queues_.post(0, &write_) != 0) {
        failure_ = TransferFailure{.status = wc_general};
        return false;
    }
    return true;
}

/// Waits until the peer's number of this round is in this end's mailbox. Returns false when stopped, and for a failure.
bool VerbsPing::await_number(const StopAsked& stop) {
    const std::atomic_ref<std::uint64_t> mailbox(*mailboxes_.own);
    const unsigned between_samples = yields_ ? yields_between_readings : spins;
    Clock::time_point began{};
    StopCheck stops(stop);
    while (true) {
        for (unsigned i = 0; i < between_samples; ++i) {
            const auto came = mailbox.load(std::memory_order_acquire);
            if ((came & ~last_mark) == number_) {
                peer_ends_ = (came & last_mark) != 0;
                return true;
            }
            if (yields_) {
                ::sched_yield();
            }
        }
        const auto now = Clock::now();
        began = began == Clock::time_point{} ? now : began;
        if (!poll_completions()) {
            return false;
        }
        if (now - began > verbs_timeout) {
            failure_.emplace();
            return false;
        }
        if (stops.is_asked(now)) {
            return false;
        }
    }
}

/// Waits for the last write, which may still be in flight and be retried.
void VerbsPing::drain() {
    const auto deadline = Clock::now() + verbs_timeout;
    while (signalled_ > 0 && poll_completions()) {
        if (Clock::now() > deadline) {
            failure_.emplace();
            return;
        }
        if (yields_) {
            ::sched_yield();
        }
    }
}

tl::expected<std::vector<float>, TransferFailure> VerbsPing::play(bool first, std::uint64_t round_trips,
                                                                  milliseconds limit, const StopAsked& stop) {
    Rounds rounds(round_trips, limit, stop);
    const auto result = [&]() -> tl::expected<std::vector<float>, TransferFailure> {
        if (!failure_) {
            return rounds.take_samples();
        }
        failure_->small_passed = number_ > 1; // an earlier answer shows that the path worked before
        return tl::unexpected(*failure_);
    };
    failure_.reset();
    peer_ends_ = false;
    for (bool last = false; !last && !peer_ends_;) {
        ++number_;
        rounds.begin_round();
        last = first && rounds.is_last();
        if ((first && !send(last)) || !await_number(stop)) {
            return result();
        }
        rounds.add_sample();
        if (!first) {
            last = peer_ends_;
            if (!send(last)) {
                return result();
            }
        }
    }
    drain();
    return result();
}

} // namespace rdma_nccl

#endif
