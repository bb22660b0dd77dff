// SPDX-License-Identifier: Apache-2.0
// The steps of a pairing: which side does what, with which values, and what its answers mean.
#include "tools/pairs/pair_run.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "tools/measure/rails.h"

#include <algorithm>

namespace rdma_nccl::pairs {

namespace {

/// What a side is told to do.
struct Assignment {
    unsigned side = 0;
    std::string_view what; ///< empty: nothing
};

struct StepTraits {
    std::string_view activity; ///< for messages
    std::array<Assignment, 2> assignments;
};

/// By PairStep.
constexpr std::array<StepTraits, 15> step_traits{{
    {"opening its HCA", {{{0, "prepare"}, {1, "prepare"}}}},
    {"connecting", {{{0, "connect"}, {1, "connect"}}}},
    {"checking data", {{{0, "write"}}}},
    {"checking data", {{{1, "check"}}}},
    {"checking data", {{{1, "write"}}}},
    {"checking data", {{{0, "check"}}}},
    {"measuring latency", {{{0, "latency"}, {1, "latency"}}}},
    {"measuring bandwidth", {{{0, "bandwidth"}}}},
    {"measuring bandwidth", {{{1, "bandwidth"}}}},
    {"measuring bandwidth", {{{0, "bandwidth"}, {1, "bandwidth"}}}},
    {"measuring TCP", {{{1, "listen"}}}},
    {"measuring TCP", {{{0, "tcp send"}, {1, "tcp receive"}}}},
    {"measuring TCP", {{{0, "listen"}}}},
    {"measuring TCP", {{{1, "tcp send"}, {0, "tcp receive"}}}},
    {"reading its counters", {{{0, "finish"}, {1, "finish"}}}},
}};
static_assert(static_cast<std::size_t>(PairStep::Finish) + 1 == step_traits.size());

const StepTraits& traits_of(PairStep step) {
    return step_traits.at(static_cast<std::size_t>(step));
}

Json prepare_values(const PairingJob& job, unsigned side) {
    const auto& measure = job.measure;
    return {{"rail", side == 0 ? job.pairing.rail_a : job.pairing.rail_b},
            {"ends", job.loopback() ? 2 : 1},
            {"message_size", measure.message_size},
            {"queue_pairs", measure.queue_pairs},
            {"depth", measure.depth},
            {"traffic_class", measure.traffic_class},
            {"service_level", measure.service_level},
            {"pkey_index", measure.pkey_index},
            {"gpu", measure.gpu}};
}

/// Each end of a loopback has the other as its peer.
Json connect_values(const PairingState& state, unsigned side) {
    const auto& addresses = state.addresses;
    return {{"mtu", state.result.path_mtu},
            {"peers", state.job.loopback() ? Json::array({address_json(addresses[1]), address_json(addresses[0])})
                                           : Json::array({address_json(addresses[1 - side])})}};
}

Json values_of(PairStep step, const Assignment& assignment, const PairingState& state) {
    const auto& [side, what] = assignment;
    const auto& job = state.job;
    if (what == "prepare") {
        return prepare_values(job, side);
    }
    if (what == "connect") {
        return connect_values(state, side);
    }
    if (what == "write" || what == "check") {
        // The seed differs for each direction and pairing, so that old data cannot pass for new.
        return {{"seed", job.number * 2 + (step >= PairStep::WriteBackward ? 1 : 0) + 1}};
    }
    if (what == "latency") {
        return {{"first", side == 0}};
    }
    if (what == "listen") {
        return {{"address", job.rails.at(side).address}};
    }
    if (what == "tcp send") {
        return {{"address", job.rails.at(1 - side).address},
                {"port", state.tcp_ports.at(1 - side)},
                {"time_ms", job.measure.time.count()}};
    }
    return what == "finish" ? Json::object() : Json{{"time_ms", job.measure.time.count()}};
}

void take_notes(const SideAnswers& answers, PairingResult& result) {
    for (const auto& answer : answers) {
        if (answer) {
            append(result.notes, answer->notes);
        }
    }
}

/// Sets the path MTU to the smaller one of the two ends, because both must use the same.
std::optional<std::string> take_addresses(const SideAnswers& answers, PairingState& state) {
    auto& [job, addresses, tcp_ports, result] = state;
    addresses.clear();
    for (const auto& answer : answers) {
        if (answer) {
            append(addresses, answer->addresses);
        }
    }
    if (addresses.size() != 2) {
        return "it is not two addresses";
    }
    const auto [first, second] = std::pair(addresses[0].mtu, addresses[1].mtu);
    result.path_mtu = std::min(first, second);
    take_notes(answers, result);
    if (first != second) {
        result.notes.push_back(format_text("path MTU {}: {} has {}, {} has {}", result.path_mtu, job.end_name(0), first,
                                           job.end_name(1), second));
    }
    return std::nullopt;
}

void take_check(unsigned checker, const SideAnswers& answers, PairingState& state) {
    const bool correct = answers.at(checker)->correct.value();
    state.result.data_correct = state.result.data_correct.value_or(true) && correct;
    if (!correct) {
        state.result.notes.push_back(
            format_text("{} did not receive what was written to it", state.job.end_name(checker)));
    }
}

Bandwidth bandwidth_of(const Answer& answer) {
    Bandwidth bandwidth{answer.gbps.value(), answer.bytes.value(), {}, {}};
    if (answer.counted && bandwidth.bytes > 0) {
        bandwidth.counted_share = static_cast<double>(*answer.counted) / static_cast<double>(bandwidth.bytes);
    }
    return bandwidth;
}

Bandwidth sum_of(const Bandwidth& a, const Bandwidth& b) {
    Bandwidth sum{a.gbps + b.gbps, a.bytes + b.bytes, std::nullopt, std::nullopt};
    if (a.counted_share && b.counted_share && sum.bytes > 0) {
        sum.counted_share =
            (*a.counted_share * static_cast<double>(a.bytes) + *b.counted_share * static_cast<double>(b.bytes)) /
            static_cast<double>(sum.bytes);
    }
    return sum;
}

/// Throws if a value is missing.
std::optional<std::string> take_values(PairStep step, const SideAnswers& answers, PairingState& state) {
    using enum PairStep;
    auto& result = state.result;
    switch (step) {
    case Prepare:
        return take_addresses(answers, state);
    case CheckForward:
        take_check(state.job.loopback() ? 0 : 1, answers, state);
        break;
    case CheckBackward:
        take_check(0, answers, state);
        break;
    case Latency:
        result.latency = answers[0]->latency.value();
        break;
    case Forward:
        result.forward = bandwidth_of(*answers[0]);
        break;
    case Backward:
        result.backward = bandwidth_of(*answers[1]);
        break;
    case Both:
        result.both = sum_of(bandwidth_of(*answers[0]), bandwidth_of(*answers[1]));
        break;
    case ListenForward:
        state.tcp_ports[1] = answers[1]->port.value();
        break;
    case ListenBackward:
        state.tcp_ports[0] = answers[0]->port.value();
        break;
    case TcpForward:
        result.forward->tcp_gbps = answers[1]->gbps.value();
        break;
    case TcpBackward:
        result.backward->tcp_gbps = answers[0]->gbps.value();
        break;
    case Finish:
        take_notes(answers, result);
        break;
    default:
        break;
    }
    return std::nullopt;
}

} // namespace

std::string PairingJob::end_name(unsigned side) const {
    return format_text("{} {}", names.at(side), measure::rail_name(rails.at(side)));
}

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

std::string_view activity_of(PairStep step) {
    return traits_of(step).activity;
}

SideOrders orders_of(PairStep step, const PairingState& state) {
    SideOrders orders;
    for (auto assignment : traits_of(step).assignments) {
        if (state.job.loopback()) { // one node does what concerns both ends
            assignment.side = 0;
        }
        if (!assignment.what.empty() && (orders.empty() || !state.job.loopback())) {
            Json order = {
                {"pairing", state.job.number}, {"step", static_cast<unsigned>(step)}, {"do", assignment.what}};
            order.update(values_of(step, assignment, state));
            orders.push_back({assignment.side, std::move(order)});
        }
    }
    return orders;
}

std::optional<std::string> evaluate(PairStep step, const SideAnswers& answers, PairingState& state) {
    try {
        return take_values(step, answers, state);
    } catch (const std::bad_optional_access&) {
        return "a value is missing";
    }
}

} // namespace rdma_nccl::pairs
