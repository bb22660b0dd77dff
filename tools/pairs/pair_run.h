// SPDX-License-Identifier: Apache-2.0
// One pairing while it is measured, step by step: takes the answers of its two workers and returns the next orders for
// them. It does no I/O and reads no clock.
#pragma once

#include "lib/base/json.h"
#include "tools/measure/channel.h"
#include "tools/pairs/model.h"
#include "tools/pairs/order.h"
#include "tools/verbs/endpoint.h"
#include "tools/verbs/rail.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl::pairs {

/// What to measure, and between which nodes.
struct PairingJob {
    Pairing pairing;
    unsigned round = 0;
    bool retest = false;
    std::array<std::string, 2> names; ///< of the nodes
    std::array<PairRail, 2> rails;
    Measurement measure;
    std::uint64_t number = 0;      ///< unique to the pairing, to recognize late answers
    bool was_unresponsive = false; ///< one side exceeded the last limit, so it gets less time for its first answer

    [[nodiscard]] bool loopback() const { return pairing.a == pairing.b; }
    /// The number of nodes that take part.
    [[nodiscard]] unsigned sides() const { return loopback() ? 1 : 2; }
    [[nodiscard]] unsigned node(unsigned side) const { return side == 0 ? pairing.a : pairing.b; }
    /// Returns "n01 mlx5_1:1".
    [[nodiscard]] std::string end_name(unsigned side) const;
};

/// The steps in their order. Not every pairing has all of them.
enum class PairStep {
    Prepare,       ///< open the HCA, report the address
    Connect,       ///< to the other's address
    WriteForward,  ///< write a pattern from a to b
    CheckForward,  ///< b checks it
    WriteBackward, ///< from b to a
    CheckBackward,
    Latency,
    Forward, ///< bandwidth from a to b
    Backward,
    Both,
    ListenForward, ///< TCP: b opens a port
    TcpForward,
    ListenBackward,
    TcpBackward,
    Finish, ///< report the counters and release everything
};

/// An order for one side. `what` has "pairing", "step" and "do" besides the values for the step.
struct SideOrder {
    unsigned side = 0;
    Json what;
};
using SideOrders = std::vector<SideOrder>;

/// Answers to a step, by side; absent: none yet, or none expected.
using SideAnswers = std::array<std::optional<Answer>, 2>;

/// What the steps so far have found.
struct PairingState {
    PairingJob job;
    std::vector<VerbsAddress> addresses; ///< of both ends
    std::array<std::uint16_t, 2> tcp_ports{};
    PairingResult result;
};

/// Returns the steps of this pairing, in their order.
std::vector<PairStep> steps_of(const PairingJob& job);
/// Returns what a node does in this step: "n02 has not answered ... while opening its HCA".
std::string_view activity_of(PairStep step);
SideOrders orders_of(PairStep step, const PairingState& state);
/// Adds the answers of all sides to the state. Returns why they are unusable, or nullopt.
std::optional<std::string> evaluate(PairStep step, const SideAnswers& answers, PairingState& state);

class PairingRun {
public:
    using Time = measure::Clock::time_point;

    explicit PairingRun(PairingJob job);

    SideOrders start(Time now);
    /// Takes the answer of one side. Ignores answers to other steps or pairings.
    SideOrders take(unsigned side, const Json& answer, Time now);
    /// The side's worker is gone.
    SideOrders lose(unsigned side, const std::string& why);
    /// The deadline has passed.
    SideOrders expire();
    /// Ends the pairing without a problem; keeps what has been measured.
    SideOrders stop();

    [[nodiscard]] bool done() const { return step_ == steps_.size(); }
    [[nodiscard]] Time deadline() const { return deadline_; }
    /// Returns the sides that have not answered this step.
    [[nodiscard]] std::vector<unsigned> awaited() const;
    [[nodiscard]] const PairingJob& job() const { return state_.job; }
    [[nodiscard]] const PairingResult& result() const { return state_.result; }
    /// Returns whether anything worth reporting was measured.
    [[nodiscard]] bool has_values() const { return state_.result.forward.has_value(); }

private:
    SideOrders begin(Time now);
    SideOrders give_up(std::string problem, std::optional<unsigned> fault_of);
    SideOrders fail_step(unsigned side, const Answer& answer, Time now);
    [[nodiscard]] std::chrono::milliseconds limit() const;

    PairingState state_;
    std::vector<PairStep> steps_;
    std::size_t step_ = 0; ///< index into steps_
    SideAnswers answers_;
    Time deadline_{};
};

/// Returns how long a step may take before its workers count as unresponsive.
std::chrono::milliseconds limit_of(PairStep step, const Measurement& measure);

/// Returns roughly how long a pairing takes without problems.
std::chrono::milliseconds expected_time(const Measurement& measure, bool loopback);

/// Limits of a latency measurement: number of round trips, and time.
inline constexpr std::uint64_t latency_round_trips = 20000;
inline constexpr std::chrono::milliseconds latency_time{1000};
/// The longest time that workers wait while a pattern is written.
inline constexpr std::chrono::milliseconds pattern_time{10000};

} // namespace rdma_nccl::pairs
