// SPDX-License-Identifier: Apache-2.0
// The order of an exchange, without its sockets: all nodes report, all but the head try to reach it, all get an answer;
// at the end of the step they send what they have seen of its bytes. Whatever fails ends in an answer, too: "plan
// alone".
#pragma once

#include "lib/exchange_message.h"
#include "lib/exchange_plan.h"
#include "lib/net/session.h"
#include "lib/settings.h"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace rdma_nccl {

/// What srun knows of its step.
struct ExchangeStep {
    std::vector<ExpectedNode> nodes;       ///< in the order of their ranks; empty: Slurm does not say
    unsigned component = 0;                ///< srun's own of a heterogeneous step
    std::size_t node_count = 0;            ///< how many reports make it complete; the nodes may know better
    std::optional<IpAddress> head_address; ///< NodeAddr of rank 0's node
    Settings settings;
};

/// What the nodes have told of a step at its end.
struct StepEvidence {
    std::vector<NodeEvidence> nodes; ///< in the order of their ranks
    std::vector<std::string> silent; ///< names of the others
};

class ExchangeRounds {
public:
    using Clock = std::chrono::steady_clock;
    using Tell = std::function<void(std::string_view line)>;
    /// Ends the step, with strict.
    using EndStep = std::function<void()>;
    /// A whole message for a connection.
    using Send = std::function<void(int connection, SharedBody message)>;

    ExchangeRounds(ExchangeStep step, Tell tell, EndStep end_step, Send send, Clock::time_point now);

    /// False when the message is not one that this connection may send now: the connection is to be closed.
    bool take(int connection, NodeMessage message, Clock::time_point now);
    /// The connection is gone.
    void lose(int connection);
    /// The step is: nobody needs to wait for the rest any more.
    void cancel();
    /// To be called at next_time() at the latest.
    void pass_time(Clock::time_point now);
    [[nodiscard]] Clock::time_point next_time() const;

    [[nodiscard]] bool answered() const { return stage_ == Stage::Answered; }
    /// Whether nodes wait for others.
    [[nodiscard]] bool holds_nodes() const { return stage_ != Stage::Answered && first_report_; }
    /// Nodes that have an answer and have not sent their evidence yet.
    [[nodiscard]] std::size_t still_running() const { return running_; }
    /// What has come of the nodes that have an answer.
    [[nodiscard]] StepEvidence take_step_evidence();

private:
    enum class Stage { Gathering, Testing, Answered };

    struct Node {
        std::string name;
        NodeReport report;
        std::optional<std::size_t> expected; ///< index in step_.nodes
        std::optional<ReachResult> result;
        int connection = -1;
        bool lost = false;
        bool done = false; ///< its evidence has come, or will not come any more
        std::optional<NodeEvidence> evidence;
    };

    bool take_report(int connection, NodeReport report, Clock::time_point now);
    bool take_result(int connection, ReachResult result);
    bool take_alarm(int connection, const NodeAlarm& alarm);
    bool take_evidence(int connection, NodeEvidence evidence);
    [[nodiscard]] std::optional<std::size_t> find_node(const NodeReport& report) const;
    void index_names();
    void learn_size(unsigned step_nodes);
    void start_test(Clock::time_point now);
    void answer();
    void answer_alone(const std::string& why);
    [[nodiscard]] Disagreement disagreement(std::string why) const;
    void tell_findings(const std::vector<Finding>& findings) const;
    void tell_progress(Clock::time_point now);
    void send(int connection, const ServerMessage& message) { send_(connection, share(message)); }
    static SharedBody share(const ServerMessage& message);
    [[nodiscard]] std::string missing() const;
    [[nodiscard]] Node* find(int connection);
    [[nodiscard]] std::vector<NodeReport> reports() const;

    ExchangeStep step_;
    Tell tell_;
    EndStep end_step_;
    Send send_;
    Clock::time_point start_;
    std::optional<Clock::time_point> first_report_;
    Clock::time_point next_progress_;
    Clock::time_point test_end_;
    Stage stage_ = Stage::Gathering;
    std::vector<Node> nodes_; ///< in the order of their reports, then of their ranks
    std::map<int, std::size_t> by_connection_;
    std::vector<bool> taken_;
    std::unordered_map<std::string, std::size_t> by_name_; ///< the first of that name in step_.nodes
    std::vector<HeadCandidate> candidates_;
    std::size_t results_missing_ = 0;
    std::size_t running_ = 0;
    bool ended_ = false;     ///< by strict
    SharedBody late_answer_; ///< for nodes that come after the others have got theirs
};

} // namespace rdma_nccl
