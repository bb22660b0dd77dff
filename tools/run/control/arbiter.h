// SPDX-License-Identifier: Apache-2.0
// Decides for all nodes of a world: which failure was the first, when all ranks must end, whether they start again, and
// the exit code of all launchers. It only decides: the launcher of node rank 0 owns it and passes on what the nodes
// report.
#pragma once

#include "tools/run/control/messages.h"

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace rdma_nccl::run {

/// An order to every launcher of the world.
using Order = std::variant<EndRanks, SignalCount, Restart, Finish, ShowStacks, Laggard>;

struct ArbiterRules {
    unsigned nodes = 1;
    unsigned max_restarts = 0;
    int no_restart_code = -1;
    std::set<int> end_signals; ///< signals that end the job
    /// Returns a port on node 0 for the rendezvous of the new attempt, or nullopt if there is none; then there is no
    /// restart.
    std::function<std::optional<std::uint16_t>(unsigned attempt)> new_port;
    std::map<int, int> on_signal{}; ///< signals that reach the ranks as others
};

class Arbiter {
public:
    using Time = std::chrono::steady_clock::time_point;

    explicit Arbiter(ArbiterRules rules) : rules_(std::move(rules)), nodes_(rules_.nodes) {}

    /// `when`: the time of the failure. The same rank may be reported again, with more details. A failure of another
    /// attempt than the current one is ignored.
    void on_failure(unsigned node, RankFailure failure, Time when);
    /// A rank of the current attempt has left a file of PyTorch's flight recorder.
    void on_dump(unsigned node, RankDump dump);
    void on_ended(unsigned node, const Ended& ended);
    /// The launcher of a node has received this signal `count` times. A signal that all nodes receive, as scancel sends
    /// it, counts once. A rank that it kills, as itself or as what it is mapped to, fails for good: Slurm may send it
    /// to the ranks too (SignalDedup::direct()), and usually is about to end the job.
    void on_signal(unsigned node, const SignalCount& got);
    /// The launcher of a node is lost: it is no longer waited for, and the ranks do not restart without it.
    void on_lost(unsigned node, const std::string& why);
    /// The launcher of a node has not connected so far (`absent`), or has connected now. An absent node is not waited
    /// for, but its ranks may be running.
    void on_absent(unsigned node, bool absent = true);
    /// The job hangs: all nodes show stacks, and name the ranks of theirs that lag. Ends the job, if there is `end`,
    /// for this reason. Does nothing if the job ends already.
    void on_hang(std::vector<Laggard> laggards, const std::optional<std::string>& end);

    /// Returns the new orders, in order, each once.
    std::vector<Order> take_orders() { return std::exchange(orders_, {}); }
    /// Returns the orders that a launcher needs if it connects only now.
    [[nodiscard]] std::vector<Order> standing_orders() const;

    /// Returns true if a signal has ended the job or is about to.
    [[nodiscard]] bool stopped() const { return stopped_; }
    [[nodiscard]] bool finished() const { return finished_.has_value(); }
    /// The attempt ends, or all is over.
    [[nodiscard]] bool is_ending() const { return finished_ || ending_; }
    /// Returns the failures of all attempts in the order of time.
    [[nodiscard]] std::vector<RankFailure> failures() const;
    /// Returns those of the last attempt in the order of ranks.
    [[nodiscard]] std::vector<RankDump> dumps() const;
    /// Returns a message for each lost node and for each hang that ended the job.
    [[nodiscard]] const std::vector<std::string>& end_reasons() const { return end_reasons_; }

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
    void conclude();
    [[nodiscard]] bool may_restart() const;

    ArbiterRules rules_;
    std::vector<Node> nodes_;
    std::map<std::pair<unsigned, unsigned>, Known> failures_; ///< by attempt and rank
    std::map<unsigned, RankDump> dumps_;                      ///< of the current attempt, by rank
    std::map<int, unsigned> signals_;
    std::set<int> signals_of_ranks_; ///< that ranks of the current attempt got, from the launchers or from Slurm
    std::vector<std::string> end_reasons_;
    std::vector<Order> orders_;
    unsigned attempt_ = 0;
    std::optional<EndRanks> ending_; ///< of the current attempt
    int code_ = 0;                   ///< exit code if a signal, a lost node or a hang ended the job
    bool clean_ = true;
    bool stopped_ = false; ///< by a signal: no restart
    std::optional<Finish> finished_;
};

} // namespace rdma_nccl::run
