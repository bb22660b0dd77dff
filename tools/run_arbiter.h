// SPDX-License-Identifier: Apache-2.0
// Decides for all nodes of a world: which failure was the first, when all ranks must end, whether they start again, and
// with which code all launchers exit. Decisions only; the launcher of node rank 0 has one, with what nodes tell it.
#pragma once

#include "tools/run_control_message.h"

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace rdma_nccl {

/// What every launcher of the world has to do.
using Order = std::variant<EndRanks, SignalCount, Restart, Finish, ShowStacks>;

struct ArbiterRules {
    unsigned nodes = 1;
    unsigned max_restarts = 0;
    int no_restart_code = -1;
    std::set<int> end_signals; ///< those that end the job
    /// A port on node 0 for the rendezvous of the new attempt; nullopt: there is none, so no restart.
    std::function<std::optional<std::uint16_t>(unsigned attempt)> new_port;
};

class Arbiter {
public:
    using Time = std::chrono::steady_clock::time_point;

    explicit Arbiter(ArbiterRules rules) : rules_(std::move(rules)), nodes_(rules_.nodes) {}

    /// `when`: it failed. The same rank may be told again, with more details. Of another attempt than this one:
    /// ignored.
    void on_failure(unsigned node, RankFailure failure, Time when);
    void on_ended(unsigned node, const Ended& ended);
    /// A node's launcher has got this signal `count` times. One that all nodes got, as scancel sends it, counts once.
    void on_signal(unsigned node, const SignalCount& got);
    /// A node's launcher is gone. It is not waited for any longer, and the ranks do not start again without it.
    void on_lost(unsigned node, const std::string& why);
    /// A node's launcher has not come so far: it is not waited for, but its ranks may be running. Or it has come now.
    void on_absent(unsigned node, bool absent = true);
    /// The job hangs and shall not go on.
    void on_hang(const std::string& why, bool end);

    /// In their order, each once.
    std::vector<Order> take_orders() { return std::exchange(orders_, {}); }
    /// What a launcher must hear that comes only now.
    [[nodiscard]] std::vector<Order> standing_orders() const;

    /// A signal has ended the job, or will have.
    [[nodiscard]] bool stopped() const { return stopped_; }
    [[nodiscard]] bool finished() const { return finished_.has_value(); }
    /// By time, the first one first; of all attempts.
    [[nodiscard]] std::vector<RankFailure> failures() const;
    /// Nodes that were lost, and whatever else ended the job, in words.
    [[nodiscard]] const std::vector<std::string>& losses() const { return losses_; }

private:
    struct Node {
        bool ended = false;
        bool lost = false;
        bool absent = false;
        [[nodiscard]] bool awaited() const { return !ended && !lost && !absent; }
    };
    struct Known {
        RankFailure failure;
        Time when;
    };

    void end(int code, const std::string& why);
    void settle();
    [[nodiscard]] bool may_restart() const;

    ArbiterRules rules_;
    std::vector<Node> nodes_;
    std::map<std::pair<unsigned, unsigned>, Known> failures_; ///< by attempt and rank
    std::map<int, unsigned> signals_;
    std::vector<std::string> losses_;
    std::vector<Order> orders_;
    unsigned attempt_ = 0;
    std::optional<EndRanks> ending_; ///< of this attempt
    int code_ = 0;                   ///< of what ended it, when that was no rank
    bool clean_ = true;
    bool stopped_ = false; ///< by a signal: nothing starts again
    std::optional<Finish> finished_;
};

} // namespace rdma_nccl
