// SPDX-License-Identifier: Apache-2.0
// Ends a node's ranks and the processes that they left behind, as EndPolicy decides, and reports it.
#pragma once

#include "tools/run/process/process_set.h"
#include "tools/run/process/signal_policy.h"

#include <functional>
#include <string>

namespace rdma_nccl::run {

struct EndRules {
    std::string node; ///< for messages
    std::chrono::milliseconds shutdown_timeout{};
    std::set<int> end_signals;
};

class RankEnder {
public:
    using Time = EndPolicy::Time;
    using Report = std::function<void(const std::string&)>;

    RankEnder(ProcessSet& processes, EndRules rules, Report report)
        : processes_(processes), rules_(std::move(rules)), report_(std::move(report)) {}

    /// Forgets the ranks, because new ones are started.
    void start_attempt();

    [[nodiscard]] bool is_ending() const { return policy_.phase() != EndPolicy::Phase::Running; }
    [[nodiscard]] std::optional<Time> deadline() const { return policy_.deadline(); }
    [[nodiscard]] bool ends_job(int signal_number) const { return rules_.end_signals.contains(signal_number); }

    // See EndPolicy.
    void on_failure(Time now) { send(policy_.on_failure(now)); }
    void on_guard_gone(Time now) { send(policy_.on_guard_gone(now)); }
    void on_time(Time now);
    /// `pass_on`: the ranks have not received the signal already.
    void on_signal(int signal_number, bool pass_on, Time now);

    /// To be called when no rank runs. Returns false while processes that the ranks left behind are being ended.
    bool end_leftovers(Time now);
    /// Returns true if processes were left alone, because they hang in the kernel or cannot be found.
    [[nodiscard]] bool gave_up() const { return policy_.phase() == EndPolicy::Phase::GivenUp; }
    void report_left_alone() const;

private:
    void send(const EndPolicy::Action& action) const;

    ProcessSet& processes_;
    EndRules rules_;
    Report report_;
    EndPolicy policy_{rules_.shutdown_timeout, rules_.end_signals};
    ChildSweep leftovers_;
};

} // namespace rdma_nccl::run
