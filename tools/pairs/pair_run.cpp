// SPDX-License-Identifier: Apache-2.0
#include "tools/pairs/pair_run.h"

#include "lib/base/format.h"

#include <algorithm>

namespace rdma_nccl::pairs {

namespace {

using std::chrono::milliseconds;

/// Time beyond that of a step itself, for busy workers and a busy network.
constexpr milliseconds grace(10000);
/// Time to load libraries, wake a GPU and register memory.
constexpr milliseconds opening_time(30000);

} // namespace

milliseconds limit_of(PairStep step, const Measurement& measure) {
    using enum PairStep;
    const std::uint64_t pattern = measure.message_size * measure.queue_pairs;
    switch (step) {
    case Prepare:
        return opening_time;
    case WriteForward:
    case WriteBackward:
        return pattern_time + grace + slowest_pattern(pattern) + slowest_transfer(pattern);
    case CheckForward:
    case CheckBackward:
        return grace + slowest_pattern(pattern);
    case Latency:
        return latency_time + grace;
    case Forward:
    case Backward:
    case Both: // a few writes are still in flight at the end
        return measure.time + grace + slowest_transfer(2 * measure.message_size);
    case TcpForward:
    case TcpBackward:
        return measure.time + grace;
    default:
        return grace;
    }
}

milliseconds expected_time(const Measurement& measure, bool loopback) {
    constexpr milliseconds beside(300);
    const int directions = loopback ? 1 : (measure.both ? 3 : 2) + (measure.tcp ? 2 : 0);
    return beside + measure.time * directions + (measure.latency ? latency_time / 4 : milliseconds(0));
}

PairingRun::PairingRun(PairingJob job) : steps_(steps_of(job)) {
    state_.result.pairing = job.pairing;
    state_.result.round = job.round;
    state_.result.retest = job.retest;
    state_.job = std::move(job);
}

SideOrders PairingRun::start(Time now) {
    const auto& [a, b] = job().rails;
    if (a.ethernet != b.ethernet) {
        const auto kind = [](const PairRail& rail) { return rail.ethernet ? "RoCE" : "InfiniBand"; };
        return give_up(format_text("{} is {}, {} is {}: they cannot reach each other; choose the ports with "
                                   "--set hca=...",
                                   job().end_name(0), kind(a), job().end_name(1), kind(b)),
                       std::nullopt);
    }
    return begin(now);
}

SideOrders PairingRun::begin(Time now) {
    answers_ = {};
    if (done()) {
        return {};
    }
    deadline_ = now + limit();
    return orders_of(steps_[step_], state_);
}

milliseconds PairingRun::limit() const {
    const auto limit = limit_of(steps_[step_], job().measure);
    return job().was_unresponsive && steps_[step_] == PairStep::Prepare ? std::min(limit, grace) : limit;
}

std::vector<unsigned> PairingRun::awaited() const {
    std::vector<unsigned> sides;
    if (!done()) {
        for (const auto& each : orders_of(steps_[step_], state_)) {
            if (!answers_.at(each.side)) {
                sides.push_back(each.side);
            }
        }
    }
    return sides;
}

SideOrders PairingRun::take(unsigned side, const Json& answer, Time now) {
    const bool mine = !done() && answer.value("pairing", Json()) == Json(job().number) &&
                      answer.value("step", Json()) == Json(static_cast<unsigned>(steps_[step_]));
    if (!mine || side >= job().sides()) {
        return {};
    }
    const auto misunderstood = [this](const std::string& why) {
        return give_up(format_text("an answer that this version does not understand ({})", why), std::nullopt);
    };
    auto read = parse_answer(answer);
    if (!read) {
        return misunderstood(read.error().message);
    }
    if (read->error) {
        return fail_step(side, *read, now);
    }
    answers_.at(side) = std::move(*read);
    if (!awaited().empty()) {
        return {};
    }
    if (const auto fault = evaluate(steps_[step_], answers_, state_)) {
        return misunderstood(*fault);
    }
    ++step_;
    return begin(now);
}

/// A side that fails to open its HCA is at fault. A side that gets no answer is not: its partner may be the cause.
SideOrders PairingRun::fail_step(unsigned side, const Answer& answer, Time now) {
    const PairStep step = steps_[step_];
    if (step >= PairStep::ListenForward) { // its failure says nothing about RDMA: the pairing continues
        const bool is_tcp = step != PairStep::Finish;
        if (is_tcp) {
            state_.result.notes.push_back(format_text("TCP was not measured: {}", *answer.error));
        }
        step_ = steps_.size() - (is_tcp ? 1 : 0); // to Finish, or past it
        return begin(now);
    }
    const bool own = step == PairStep::Prepare || answer.own;
    return give_up(*answer.error, own ? std::optional(job().node(side)) : std::nullopt);
}

SideOrders PairingRun::give_up(std::string problem, std::optional<unsigned> fault_of) {
    state_.result.problem = std::move(problem);
    state_.result.fault_of = fault_of;
    return stop();
}

SideOrders PairingRun::stop() {
    const bool was_done = done();
    step_ = steps_.size();
    return was_done ? SideOrders() : orders_of(PairStep::Finish, state_);
}

SideOrders PairingRun::lose(unsigned side, const std::string& why) {
    if (done()) {
        return {};
    }
    return give_up(format_text("{} is gone while {}: {}", job().names.at(side), activity_of(steps_[step_]), why),
                   job().node(side));
}

SideOrders PairingRun::expire() {
    const auto unresponsive = awaited();
    if (unresponsive.empty()) {
        return {};
    }
    const PairStep step = steps_[step_];
    if (step == PairStep::Finish) { // everything has been measured
        step_ = steps_.size();
        return {};
    }
    const auto& names = job().names;
    const bool both = unresponsive.size() == 2;
    const auto who = both ? format_text("neither {} nor {} has", names[0], names[1])
                          : format_text("{} has not", names.at(unresponsive[0]));
    return give_up(format_text("{} answered in {:.0f} s while {}", who, std::chrono::duration<double>(limit()).count(),
                               activity_of(step)),
                   both ? std::nullopt : std::optional(job().node(unresponsive[0])));
}

} // namespace rdma_nccl::pairs
