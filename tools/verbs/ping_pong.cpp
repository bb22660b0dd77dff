// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/ping_pong.h"

#ifdef HAVE_IBVERBS

#include "tools/verbs/write_stream.h"

#include <algorithm>
#include <atomic>
#include <sched.h>

namespace rdma_nccl {

namespace {

using std::chrono::milliseconds;

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
        failure_ = {.status = wc_general};
        return false;
    }
    return true;
}

/// Waits until the peer's number of this round is in this end's mailbox.
VerbsPing::Wait VerbsPing::await_number(const StopAsked& stop) {
    const std::atomic_ref<std::uint64_t> mailbox(*mailboxes_.own);
    const unsigned between_samples = yields_ ? yields_between_readings : spins;
    Clock::time_point began{};
    StopCheck stops(stop);
    while (true) {
        for (unsigned i = 0; i < between_samples; ++i) {
            const auto came = mailbox.load(std::memory_order_acquire);
            if ((came & ~last_mark) == number_) {
                peer_ends_ = (came & last_mark) != 0;
                return Wait::Came;
            }
            if (yields_) {
                ::sched_yield();
            }
        }
        const auto now = Clock::now();
        began = began == Clock::time_point{} ? now : began;
        if (!poll_completions()) {
            return Wait::Failed;
        }
        if (now - began > verbs_timeout) {
            failure_ = {};
            return Wait::Failed;
        }
        if (stops.is_asked(now)) {
            return Wait::Stopped;
        }
    }
}

/// Waits for the last write, which may still be in flight and be retried.
bool VerbsPing::drain() {
    const auto deadline = Clock::now() + verbs_timeout;
    while (signalled_ > 0) {
        if (!poll_completions()) {
            return false;
        }
        if (Clock::now() > deadline) {
            failure_ = {};
            return false;
        }
        if (yields_) {
            ::sched_yield();
        }
    }
    return true;
}

/// An earlier answer shows that the path worked before.
tl::unexpected<TransferFailure> VerbsPing::failed() const {
    auto failure = failure_;
    failure.small_passed = number_ > 1;
    return tl::unexpected(failure);
}

tl::expected<std::vector<float>, TransferFailure> VerbsPing::play(bool first, std::uint64_t round_trips,
                                                                  milliseconds limit, const StopAsked& stop) {
    Rounds rounds(round_trips, limit, stop);
    peer_ends_ = false;
    for (bool last = false; !last && !peer_ends_;) {
        ++number_;
        rounds.begin_round();
        last = first && rounds.is_last();
        if (first && !send(last)) {
            return failed();
        }
        switch (await_number(stop)) {
        case Wait::Failed:
            return failed();
        case Wait::Stopped:
            return rounds.take_samples();
        case Wait::Came:
            break;
        }
        rounds.add_sample();
        if (!first) {
            last = peer_ends_;
            if (!send(last)) {
                return failed();
            }
        }
    }
    if (!drain()) {
        return failed();
    }
    return rounds.take_samples();
}

} // namespace rdma_nccl

#endif
