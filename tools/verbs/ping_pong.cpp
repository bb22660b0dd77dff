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
constexpr unsigned spins = 4096; // between looks at the clock
constexpr unsigned yields_between_looks = 16;
constexpr milliseconds stop_interval{20};

float half_us(VerbsPing::Clock::duration round_trip) {
    return std::chrono::duration<float, std::micro>(round_trip).count() / 2;
}

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

bool VerbsPing::look_at_completions() {
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
        if (signalled_ > 0 && !look_at_completions()) {
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
    const unsigned between_samples = yields_ ? yields_between_looks : spins;
    Clock::time_point began{};
    Clock::time_point asked{};
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
        if (!look_at_completions()) {
            return Wait::Failed;
        }
        if (now - began > verbs_timeout) {
            failure_ = {};
            return Wait::Failed;
        }
        if (now - asked > stop_interval) {
            asked = now;
            if (stop && stop()) {
                return Wait::Stopped;
            }
        }
    }
}

/// Waits for the last write, which may still be in flight and be retried.
bool VerbsPing::drain() {
    const auto deadline = Clock::now() + verbs_timeout;
    while (signalled_ > 0) {
        if (!look_at_completions()) {
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
    const auto begin = Clock::now();
    // At the end that does not begin, the first sample includes the time until the other end began.
    const auto skipped = 1 + std::min(warm_up, round_trips / 10);
    const auto wanted = std::min(round_trips, most_samples) + skipped;
    std::vector<float> samples;
    samples.reserve(std::min(wanted, most_samples));
    auto sent = begin;
    bool last = false;
    auto asked = begin;
    const auto is_last = [&](Clock::time_point now, std::uint64_t round) {
        if (now - asked > stop_interval) {
            asked = now;
            last = last || (stop && stop());
        }
        return last || now - begin > limit || round >= wanted;
    };
    peer_ends_ = false;
    for (std::uint64_t round = 1; !last && !peer_ends_; ++round) {
        ++number_;
        if (first) {
            last = is_last(sent, round);
            if (!send(last)) {
                return failed();
            }
        }
        switch (await_number(stop)) {
        case Wait::Failed:
            return failed();
        case Wait::Stopped:
            return samples;
        case Wait::Came:
            break;
        }
        const auto now = Clock::now();
        if (round > skipped || (round > 1 && now - begin > limit / 10)) {
            samples.push_back(half_us(now - sent));
        }
        sent = now;
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
    return samples;
}

} // namespace rdma_nccl

#endif
