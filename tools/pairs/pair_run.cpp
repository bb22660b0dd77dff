// SPDX-License-Identifier: Apache-2.0
#include "tools/pairs/pair_run.h"

#include "lib/base/format.h"
#include "lib/base/json.h"
#include "lib/base/text.h"
#include "tools/measure/rails.h"
#include "tools/pairs/model.h"
#include "tools/verbs/rail.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

using std::chrono::milliseconds;

/// Time beyond that of a step itself, for busy members and a busy network.
constexpr milliseconds grace(10000);
/// Time to load libraries, wake a GPU and register memory.
constexpr milliseconds opening_time(30000);

std::vector<PairStep> steps_of(const PairingJob& job) {
    using enum PairStep;
    std::vector<PairStep> steps{Prepare, Connect, WriteForward, CheckForward};
    const auto add = [&steps](bool wanted, std::initializer_list<PairStep> more) {
        if (wanted) {
            steps.insert(steps.end(), more);
        }
    };
    const bool two = !job.loopback();
    const bool tcp = job.measure.tcp && two && !job.rails[0].address.empty() && !job.rails[1].address.empty();
    add(two, {WriteBackward, CheckBackward});
    add(job.measure.latency, {Latency});
    add(true, {Forward});
    add(two, {Backward});
    add(two && job.measure.both, {Both});
    add(tcp, {ListenForward, TcpForward, ListenBackward, TcpBackward});
    add(true, {Finish});
    return steps;
}

/// Returns words for messages: "n02 has not answered ... while ...".
std::string_view doing(PairStep step) {
    using enum PairStep;
    switch (step) {
    case Prepare:
        return "opening its HCA";
    case Connect:
        return "connecting";
    case WriteForward:
    case WriteBackward:
    case CheckForward:
    case CheckBackward:
        return "checking data";
    case Latency:
        return "measuring latency";
    case Forward:
    case Backward:
    case Both:
        return "measuring bandwidth";
    case ListenForward:
    case TcpForward:
    case ListenBackward:
    case TcpBackward:
        return "measuring TCP";
    case Finish:
        break;
    }
    return "reading its counters";
}

/// Returns whether the pairing continues after a failure of this step, because it says nothing about RDMA.
bool may_fail(PairStep step) {
    return step >= PairStep::ListenForward;
}

bool is_tcp(PairStep step) {
    return may_fail(step) && step != PairStep::Finish;
}

/// Returns a seed that differs for each direction and pairing, so that old data cannot pass for new.
std::uint64_t seed_of(const PairingJob& job, bool backward) {
    return job.number * 2 + (backward ? 1 : 0) + 1;
}

} // namespace

milliseconds limit_of(PairStep step, const PairsMeasure& measure) {
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

milliseconds expected_time(const PairsMeasure& measure, bool loopback) {
    constexpr milliseconds beside(300);
    const int directions = loopback ? 1 : (measure.both ? 3 : 2) + (measure.tcp ? 2 : 0);
    return beside + measure.time * directions + (measure.latency ? latency_time / 4 : milliseconds(0));
}

std::string PairingJob::end_name(unsigned side) const {
    return format_text("{} {}", names.at(side), rail_name(rails.at(side)));
}

PairTest::PairTest(PairingJob job) : job_(std::move(job)), steps_(steps_of(job_)) {
    result_.pairing = job_.pairing;
    result_.round = job_.round;
    result_.retest = job_.retest;
}

PairOrders PairTest::start(Time now) {
    if (job_.rails[0].ethernet != job_.rails[1].ethernet) {
        const auto kind = [](const PairRail& rail) { return rail.ethernet ? "RoCE" : "InfiniBand"; };
        return give_up(format_text("{} is {}, {} is {}: they cannot reach each other; choose the ports with "
                                   "--set hca=...",
                                   job_.end_name(0), kind(job_.rails[0]), job_.end_name(1), kind(job_.rails[1])),
                       std::nullopt);
    }
    return begin(now);
}

PairOrders PairTest::begin(Time now) {
    answers_ = {};
    if (done()) {
        return {};
    }
    deadline_ = now + limit();
    return orders();
}

milliseconds PairTest::limit() const {
    const auto limit = limit_of(steps_[step_], job_.measure);
    return job_.was_silent && steps_[step_] == PairStep::Prepare ? std::min(limit, grace) : limit;
}

PairOrder PairTest::order(unsigned side, std::string_view what) const {
    return {side, {{"pairing", job_.number}, {"step", static_cast<unsigned>(steps_[step_])}, {"do", what}}};
}

PairOrders PairTest::to_both(std::string_view what) const {
    PairOrders orders{order(0, what)};
    if (!job_.loopback()) {
        orders.push_back(order(1, what));
    }
    return orders;
}

PairOrders PairTest::bandwidth_orders() const {
    const auto step = steps_[step_];
    PairOrders orders = step == PairStep::Both ? to_both("bandwidth")
                                               : PairOrders{order(step == PairStep::Forward ? 0 : 1, "bandwidth")};
    for (auto& each : orders) {
        each.what["time_ms"] = job_.measure.time.count();
    }
    return orders;
}

PairOrders PairTest::listen_order(unsigned side) const {
    auto listen = order(side, "listen");
    listen.what["address"] = job_.rails.at(side).address;
    return {listen};
}

PairOrders PairTest::tcp_orders(unsigned from) const {
    const unsigned to = 1 - from;
    auto send = order(from, "tcp send");
    send.what["address"] = job_.rails.at(to).address;
    send.what["port"] = tcp_ports_.at(to);
    auto receive = order(to, "tcp receive");
    send.what["time_ms"] = receive.what["time_ms"] = job_.measure.time.count();
    return {send, receive};
}

PairOrders PairTest::orders() const {
    using enum PairStep;
    const bool loopback = job_.loopback();
    switch (steps_[step_]) {
    case Prepare: {
        auto orders = to_both("prepare");
        for (auto& each : orders) {
            const auto& measure = job_.measure;
            each.what.update({{"rail", each.side == 0 ? job_.pairing.rail_a : job_.pairing.rail_b},
                              {"ends", loopback ? 2 : 1},
                              {"message_size", measure.message_size},
                              {"queue_pairs", measure.queue_pairs},
                              {"depth", measure.depth},
                              {"traffic_class", measure.traffic_class},
                              {"service_level", measure.service_level},
                              {"pkey_index", measure.pkey_index},
                              {"gpu", measure.gpu}});
        }
        return orders;
    }
    case Connect: {
        auto orders = to_both("connect");
        for (auto& each : orders) {
            each.what["mtu"] = result_.path_mtu;
            // Each end of a loopback has the other as its peer.
            each.what["peers"] = loopback ? Json::array({address_json(addresses_[1]), address_json(addresses_[0])})
                                          : Json::array({address_json(addresses_[1 - each.side])});
        }
        return orders;
    }
    case WriteForward:
    case WriteBackward: {
        const bool backward = steps_[step_] == WriteBackward;
        auto write = order(backward ? 1 : 0, "write");
        write.what["seed"] = seed_of(job_, backward);
        return {write};
    }
    case CheckForward:
    case CheckBackward: {
        const bool backward = steps_[step_] == CheckBackward;
        auto check = order(backward || loopback ? 0 : 1, "check");
        check.what["seed"] = seed_of(job_, backward);
        return {check};
    }
    case Latency: {
        auto orders = to_both("latency");
        for (auto& each : orders) {
            each.what["first"] = each.side == 0;
        }
        return orders;
    }
    case Forward:
    case Backward:
    case Both:
        return bandwidth_orders();
    case ListenForward:
    case ListenBackward:
        return listen_order(steps_[step_] == ListenForward ? 1 : 0);
    case TcpForward:
    case TcpBackward:
        return tcp_orders(steps_[step_] == TcpForward ? 0 : 1);
    case Finish:
        break;
    }
    return to_both("finish");
}

std::vector<unsigned> PairTest::awaited() const {
    std::vector<unsigned> sides;
    if (!done()) {
        for (const auto& each : orders()) {
            if (!answers_.at(each.side)) {
                sides.push_back(each.side);
            }
        }
    }
    return sides;
}

PairOrders PairTest::take(unsigned side, const Json& answer, Time now) {
    const bool mine = !done() && answer.value("pairing", Json()) == Json(job_.number) &&
                      answer.value("step", Json()) == Json(static_cast<unsigned>(steps_[step_]));
    if (!mine || side >= job_.sides()) {
        return {};
    }
    const auto misunderstood = [this](const std::string& why) {
        return give_up(format_text("an answer that this version does not understand ({})", why), std::nullopt);
    };
    auto read = read_pairs_answer(answer);
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
    if (const auto fault = understand()) {
        return misunderstood(*fault);
    }
    ++step_;
    return begin(now);
}

/// A side that fails to open its HCA is at fault. A side that gets no answer is not: its partner may be the cause.
PairOrders PairTest::fail_step(unsigned side, const PairsAnswer& answer, Time now) {
    const auto& error = *answer.error;
    const PairStep step = steps_[step_];
    if (may_fail(step)) {
        if (is_tcp(step)) {
            result_.notes.push_back(format_text("TCP was not measured: {}", error));
        }
        step_ = steps_.size() - (is_tcp(step) ? 1 : 0); // to Finish, or past it
        return begin(now);
    }
    const bool own = step == PairStep::Prepare || answer.own;
    return give_up(error, own ? std::optional(job_.node(side)) : std::nullopt);
}

PairOrders PairTest::give_up(std::string problem, std::optional<unsigned> fault_of) {
    result_.problem = std::move(problem);
    result_.fault_of = fault_of;
    return stop();
}

PairOrders PairTest::stop() {
    if (done()) {
        return {};
    }
    auto orders = to_both("finish");
    step_ = steps_.size();
    for (auto& each : orders) {
        each.what["step"] = static_cast<unsigned>(PairStep::Finish);
    }
    return orders;
}

PairOrders PairTest::lose(unsigned side, const std::string& why) {
    if (done()) {
        return {};
    }
    return give_up(format_text("{} is gone while {}: {}", job_.names.at(side), doing(steps_[step_]), why),
                   job_.node(side));
}

PairOrders PairTest::expire() {
    const auto silent = awaited();
    if (silent.empty()) {
        return {};
    }
    const PairStep step = steps_[step_];
    const auto seconds = std::chrono::duration<double>(limit()).count();
    if (step == PairStep::Finish) { // everything has been measured
        step_ = steps_.size();
        return {};
    }
    if (silent.size() == 2) {
        return give_up(format_text("neither {} nor {} has answered in {:.0f} s while {}", job_.names[0], job_.names[1],
                                   seconds, doing(step)),
                       std::nullopt);
    }
    return give_up(
        format_text("{} has not answered in {:.0f} s while {}", job_.names.at(silent[0]), seconds, doing(step)),
        job_.node(silent[0]));
}

std::optional<std::string> PairTest::understand() {
    try {
        return evaluate();
    } catch (const std::bad_optional_access&) {
        return "a value is missing";
    }
}

std::optional<std::string> PairTest::evaluate() {
    using enum PairStep;
    switch (steps_[step_]) {
    case Prepare:
        return take_addresses();
    case CheckForward:
        take_check(job_.loopback() ? 0 : 1);
        break;
    case CheckBackward:
        take_check(0);
        break;
    case Latency:
        result_.latency = answers_[0]->latency.value();
        break;
    case Forward:
    case Backward:
    case Both:
        take_bandwidth();
        break;
    case ListenForward:
        tcp_ports_[1] = answers_[1]->port.value();
        break;
    case ListenBackward:
        tcp_ports_[0] = answers_[0]->port.value();
        break;
    case TcpForward:
        result_.forward->tcp_gbps = answers_[1]->gbps.value();
        break;
    case TcpBackward:
        result_.backward->tcp_gbps = answers_[0]->gbps.value();
        break;
    case Finish:
        take_notes();
        break;
    default:
        break;
    }
    return std::nullopt;
}

/// Sets the path MTU to the smaller one of the two ends, because both must use the same.
std::optional<std::string> PairTest::take_addresses() {
    addresses_.clear();
    for (const auto& answer : answers_) {
        if (answer) {
            addresses_.insert(addresses_.end(), answer->addresses.begin(), answer->addresses.end());
        }
    }
    if (addresses_.size() != 2) {
        return "it is not two addresses";
    }
    const auto [first, second] = std::pair(addresses_[0].mtu, addresses_[1].mtu);
    result_.path_mtu = std::min(first, second);
    take_notes();
    if (first != second) {
        result_.notes.push_back(format_text("path MTU {}: {} has {}, {} has {}", result_.path_mtu, job_.end_name(0),
                                            first, job_.end_name(1), second));
    }
    return std::nullopt;
}

void PairTest::take_notes() {
    for (const auto& answer : answers_) {
        if (answer) {
            result_.notes.insert(result_.notes.end(), answer->notes.begin(), answer->notes.end());
        }
    }
}

void PairTest::take_check(unsigned checker) {
    const bool correct = answers_.at(checker)->correct.value();
    result_.data_correct = result_.data_correct.value_or(true) && correct;
    if (!correct) {
        result_.notes.push_back(format_text("{} did not receive what was written to it", job_.end_name(checker)));
    }
}

PairBandwidth PairTest::bandwidth_of(unsigned side) const {
    const auto& answer = *answers_.at(side);
    PairBandwidth bandwidth;
    bandwidth.gbps = answer.gbps.value();
    bandwidth.bytes = answer.bytes.value();
    if (answer.counted && bandwidth.bytes > 0) {
        bandwidth.counted_share = static_cast<double>(*answer.counted) / static_cast<double>(bandwidth.bytes);
    }
    return bandwidth;
}

void PairTest::take_bandwidth() {
    const PairStep step = steps_[step_];
    if (step == PairStep::Forward) {
        result_.forward = bandwidth_of(0);
    } else if (step == PairStep::Backward) {
        result_.backward = bandwidth_of(1);
    } else {
        const auto a = bandwidth_of(0);
        const auto b = bandwidth_of(1);
        PairBandwidth sum{a.gbps + b.gbps, a.bytes + b.bytes, std::nullopt, std::nullopt};
        if (a.counted_share && b.counted_share && sum.bytes > 0) {
            sum.counted_share =
                (*a.counted_share * static_cast<double>(a.bytes) + *b.counted_share * static_cast<double>(b.bytes)) /
                static_cast<double>(sum.bytes);
        }
        result_.both = sum;
    }
}

} // namespace rdma_nccl
