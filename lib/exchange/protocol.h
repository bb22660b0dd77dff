// SPDX-License-Identifier: Apache-2.0
// The sequence of an exchange, without its sockets: all nodes report, all but the head try to reach it, and all get an
// answer. At the end of the step the nodes send their evidence of its traffic. Every failure also ends in an answer:
// each node plans alone.
#pragma once

#include "lib/exchange/agreement.h"
#include "lib/exchange/messages.h"
#include "lib/net/session.h"
#include "lib/settings/settings.h"

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace rdma_nccl {

// The nodes of a step as srun knows them from Slurm, and which of them have reported.

/// A node of the step according to Slurm's step layout.
struct ExpectedNode {
    std::string name;
    unsigned tasks = 0;
    std::uint32_t first_task = 0; ///< within its component of a heterogeneous step, as NodeReport::first_task
    std::uint32_t first_rank = 0; ///< within the whole step
    unsigned component = 0;       ///< the component of a heterogeneous step
};

/// Returns the index in `expected` that a report belongs to, among those not `taken` yet: the one with its name, tasks
/// and first task; else the only one with these tasks (host and node names may differ); else one with its name. Returns
/// nullopt if there is none.
std::optional<std::size_t> find_expected(std::span<const ExpectedNode> expected, const std::vector<bool>& taken,
                                         const NodeReport& report);

class StepNodes {
public:
    /// `nodes`: in the order of their ranks; empty if Slurm does not say. `component`: srun's own of a heterogeneous
    /// step. `count`: the number of nodes that report.
    StepNodes(std::vector<ExpectedNode> nodes, unsigned component, std::size_t count);

    /// Takes the number of nodes from the first report. srun cannot know whether the other components of a
    /// heterogeneous job take part in this step; the nodes can.
    void learn_count(unsigned step_nodes);
    /// Returns the node that a report belongs to, which has reported now; nullptr if there is none.
    const ExpectedNode* take(const NodeReport& report);

    [[nodiscard]] bool are_known() const { return !nodes_.empty(); }
    [[nodiscard]] std::size_t count() const { return count_; }
    [[nodiscard]] std::string head() const { return nodes_.empty() ? "" : nodes_.front().name; }
    /// Returns the names of the nodes that have not reported.
    [[nodiscard]] std::vector<std::string> missing() const;
    /// Returns ": n[03,17]", or "" if nobody is known to be missing.
    [[nodiscard]] std::string missing_text() const;

private:
    void index_names();

    std::vector<ExpectedNode> nodes_;
    unsigned component_;
    std::size_t count_;
    std::vector<bool> taken_;
    std::unordered_map<std::string, std::size_t> by_name_; ///< the first entry of that name in nodes_
};

/// What srun knows of its step.
struct ExchangeStep {
    std::vector<ExpectedNode> nodes;       ///< in the order of their ranks; empty: Slurm does not tell
    unsigned component = 0;                ///< srun's own component of a heterogeneous step
    std::size_t node_count = 0;            ///< number of reports that complete it; a report may correct it
    std::optional<IpAddress> head_address; ///< NodeAddr of the node with rank 0
    Settings settings;
};

/// The evidence that the nodes sent at the end of a step.
struct StepEvidence {
    std::vector<NodeEvidence> nodes;       ///< in the order of their ranks
    std::vector<std::string> unresponsive; ///< names of the nodes that sent none
};

class ExchangeRounds {
public:
    using Clock = std::chrono::steady_clock;
    /// Prints a line for the user.
    using Report = std::function<void(std::string_view line)>;
    /// Ends the step for strict.
    using EndStep = std::function<void()>;
    /// Sends a complete message on a connection.
    using Send = std::function<void(int connection, SharedBody message)>;

    ExchangeRounds(ExchangeStep step, Report report, EndStep end_step, Send send, Clock::time_point now);

    /// Handles a node's message. Returns false if this connection may not send it now: the caller must close it.
    bool take(int connection, NodeMessage message, Clock::time_point now);
    void lose(int connection);
    /// Called when the step is cancelled: no node needs to wait for the others any more.
    void cancel();
    /// Handles timeouts. Must be called at next_time() at the latest.
    void pass_time(Clock::time_point now);
    [[nodiscard]] Clock::time_point next_time() const;

    [[nodiscard]] bool answered() const { return stage_ == Stage::Done; }
    /// True while nodes wait for others.
    [[nodiscard]] bool holds_nodes() const { return stage_ != Stage::Done && first_report_; }
    /// Returns how many nodes have an answer but have not sent their evidence yet.
    [[nodiscard]] std::size_t still_running() const { return running_; }
    [[nodiscard]] StepEvidence take_step_evidence();

private:
    enum class Stage { Gathering, Testing, Done };

    struct Node {
        std::string name{};
        std::uint32_t rank = 0; ///< its first one
        NodeReport report;
        int connection = -1;
        std::optional<ReachResult> result{};
        bool lost = false;
        bool done = false; ///< its evidence has arrived, or will not come
        std::optional<NodeEvidence> evidence{};
    };

    bool take_report(int connection, NodeReport report, Clock::time_point now);
    bool take_result(Node& node, ReachResult result);
    void take_alarm(const Node& node, const NodeAlarm& alarm);
    void take_evidence(Node& node, NodeEvidence evidence);
    void start_test(Clock::time_point now);
    /// Returns which nodes have a version that srun does not understand; empty: none.
    [[nodiscard]] std::string other_versions() const;
    void answer();
    void answer_alone(const std::string& why);
    [[nodiscard]] Disagreement disagreement(std::string why) const;
    void report_findings(const std::vector<Finding>& findings) const;
    void report_progress(Clock::time_point now);
    static SharedBody share(const ServerMessage& message);
    [[nodiscard]] Node* find(int connection);
    [[nodiscard]] std::vector<NodeReport> reports() const;
    /// Returns when the nodes stop waiting for each other. Call after the first report.
    [[nodiscard]] Clock::time_point report_deadline() const {
        return *first_report_ + std::chrono::seconds(settings_.exchange_seconds);
    }

    Settings settings_;
    std::optional<IpAddress> head_address_; ///< NodeAddr of the node with rank 0
    StepNodes expected_;
    Report report_;
    EndStep end_step_;
    Send send_;
    Clock::time_point start_;
    std::optional<Clock::time_point> first_report_;
    Clock::time_point next_progress_;
    Clock::time_point test_end_;
    Stage stage_ = Stage::Gathering;
    std::vector<Node> nodes_; ///< in the order of their reports; sorted by rank once all have reported
    std::map<int, std::size_t> by_connection_;
    std::vector<HeadCandidate> candidates_;
    std::size_t results_missing_ = 0;
    std::size_t running_ = 0;
    bool ended_ = false;     ///< strict has ended the step
    SharedBody late_answer_; ///< for nodes that report after the others have been answered
};

} // namespace rdma_nccl
