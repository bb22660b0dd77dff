// SPDX-License-Identifier: Apache-2.0
// One pairing while it is measured, step by step: takes the answers of its two members and returns the next orders for
// them. It does no I/O and reads no clock.
#pragma once

#include "lib/base/json.h"
#include "tools/measure/channel.h"
#include "tools/pairs/model.h"
#include "tools/pairs/order.h"
#include "tools/verbs/address.h"
#include "tools/verbs/rail.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// What to measure, and between which nodes.
struct PairingJob {
    Pairing pairing;
    unsigned round = 0;
    bool retest = false;
    std::array<std::string, 2> names; ///< of the nodes
    std::array<PairRail, 2> rails;
    PairsMeasure measure;
    std::uint64_t number = 0; ///< unique to the pairing, to recognize late answers
    bool was_silent = false;  ///< one side exceeded the last limit, so it gets less time for its first answer

    [[nodiscard]] bool loopback() const { return pairing.a == pairing.b; }
    /// The number of members that take part.
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
struct PairOrder {
    unsigned side = 0;
    Json what;
};
using PairOrders = std::vector<PairOrder>;

class PairTest {
public:
    using Time = MeasureClock::time_point;

    explicit PairTest(PairingJob job);

    PairOrders start(Time now);
    /// Takes the answer of one side. Ignores answers to other steps or pairings.
    PairOrders take(unsigned side, const Json& answer, Time now);
    /// The side's member is gone.
    PairOrders lose(unsigned side, const std::string& why);
    /// The deadline has passed.
    PairOrders expire();
    /// Ends the pairing without a problem; keeps what has been measured.
    PairOrders stop();

    [[nodiscard]] bool done() const { return step_ == steps_.size(); }
    [[nodiscard]] Time deadline() const { return deadline_; }
    /// Returns the sides that have not answered this step.
    [[nodiscard]] std::vector<unsigned> awaited() const;
    [[nodiscard]] const PairingJob& job() const { return job_; }
    [[nodiscard]] const PairResult& result() const { return result_; }
    /// Returns whether anything worth reporting was measured.
    [[nodiscard]] bool has_values() const { return result_.forward.has_value(); }

private:
    PairOrders begin(Time now);
    [[nodiscard]] PairOrders orders() const;
    [[nodiscard]] PairOrder order(unsigned side, std::string_view what) const;
    [[nodiscard]] PairOrders to_both(std::string_view what) const;
    [[nodiscard]] PairOrders bandwidth_orders() const;
    [[nodiscard]] PairOrders listen_order(unsigned side) const;
    [[nodiscard]] PairOrders tcp_orders(unsigned from) const;
    PairOrders give_up(std::string problem, std::optional<unsigned> fault_of);
    PairOrders fail_step(unsigned side, const PairsAnswer& answer, Time now);
    std::optional<std::string> understand(); ///< returns why not
    std::optional<std::string> evaluate();   ///< throws if a value is missing
    std::optional<std::string> take_addresses();
    void take_notes();
    void take_bandwidth();
    void take_check(unsigned checker);
    [[nodiscard]] PairBandwidth bandwidth_of(unsigned side) const;
    [[nodiscard]] std::chrono::milliseconds limit() const;

    PairingJob job_;
    std::vector<PairStep> steps_;
    std::size_t step_ = 0; ///< index into steps_
    std::array<std::optional<PairsAnswer>, 2> answers_;
    std::vector<VerbsAddress> addresses_; ///< of both ends
    std::array<std::uint16_t, 2> tcp_ports_{};
    Time deadline_{};
    PairResult result_;
};

/// Returns how long a step may take before its members count as silent.
std::chrono::milliseconds limit_of(PairStep step, const PairsMeasure& measure);

/// Returns roughly how long a pairing takes without problems.
std::chrono::milliseconds expected_time(const PairsMeasure& measure, bool loopback);

/// Limits of a latency measurement: number of round trips, and time.
inline constexpr std::uint64_t latency_round_trips = 20000;
inline constexpr std::chrono::milliseconds latency_time{1000};
/// The longest time that members wait while a pattern is written.
inline constexpr std::chrono::milliseconds pattern_time{10000};

} // namespace rdma_nccl
