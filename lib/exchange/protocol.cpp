// SPDX-License-Identifier: Apache-2.0
#include "lib/exchange/protocol.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace rdma_nccl {

namespace {

using std::chrono::seconds;

constexpr seconds first_progress(2);
constexpr seconds launch_limit(600);                   // Slurm's: slurm_step_launch_wait_start(), step_launch.c
constexpr std::chrono::milliseconds test_margin(2500); // on top of the nodes' own timeout

} // namespace

std::optional<std::size_t> find_expected(std::span<const ExpectedNode> expected, const std::vector<bool>& taken,
                                         const NodeReport& report) {
    std::optional<std::size_t> by_name;
    std::vector<std::size_t> by_tasks;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const auto& node = expected[i];
        if (taken[i]) {
            continue;
        }
        const bool same_tasks = node.tasks == report.tasks && node.first_task == report.first_task;
        const bool same_name = node.name == report.node;
        if (same_tasks && same_name) {
            return i;
        }
        if (same_tasks) {
            by_tasks.push_back(i);
        }
        if (same_name && !by_name) {
            by_name = i;
        }
    }
    return by_tasks.size() == 1 ? std::optional(by_tasks.front()) : by_name;
}

StepNodes::StepNodes(std::vector<ExpectedNode> nodes, unsigned component, std::size_t count)
    : nodes_(std::move(nodes)), component_(component), count_(count) {
    index_names();
}

void StepNodes::index_names() {
    taken_.assign(nodes_.size(), false);
    by_name_.clear();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        by_name_.emplace(nodes_[i].name, i);
    }
}

void StepNodes::learn_count(unsigned step_nodes) {
    if (step_nodes == 0 || step_nodes == nodes_.size()) {
        return;
    }
    std::erase_if(nodes_, [this](const auto& node) { return node.component != component_; });
    if (nodes_.size() != step_nodes) {
        nodes_.clear();
    }
    for (auto& node : nodes_) {
        node.first_rank = node.first_task;
    }
    index_names();
    count_ = step_nodes;
}

const ExpectedNode* StepNodes::take(const NodeReport& report) {
    // First by its name; all nodes are searched only if that fails.
    const auto named = by_name_.find(report.node);
    const auto is_named = [&](const ExpectedNode& node) {
        return node.tasks == report.tasks && node.first_task == report.first_task;
    };
    const auto found = named != by_name_.end() && !taken_[named->second] && is_named(nodes_[named->second])
                           ? std::optional(named->second)
                           : find_expected(nodes_, taken_, report);
    if (!found) {
        return nullptr;
    }
    taken_[*found] = true;
    return &nodes_[*found];
}

std::vector<std::string> StepNodes::missing() const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        if (!taken_[i]) {
            names.push_back(nodes_[i].name);
        }
    }
    return names;
}

std::string StepNodes::missing_text() const {
    constexpr std::size_t longest = 400;
    const std::string text = fold_hostlist(missing());
    return text.empty() ? "" : format_text(": {}{}", text.substr(0, longest), text.size() > longest ? "..." : "");
}

ExchangeRounds::ExchangeRounds(ExchangeStep step, Report report, EndStep end_step, Send send, Clock::time_point now)
    : settings_(std::move(step.settings)), head_address_(step.head_address),
      expected_(std::move(step.nodes), step.component, step.node_count), report_(std::move(report)),
      end_step_(std::move(end_step)), send_(std::move(send)), start_(now), next_progress_(now + first_progress) {}

bool ExchangeRounds::take(int connection, NodeMessage message, Clock::time_point now) {
    if (auto* const report = std::get_if<NodeReport>(&message)) {
        return take_report(connection, std::move(*report), now);
    }
    auto* const node = find(connection);
    if (node == nullptr) {
        return false;
    }
    if (auto* const reached = std::get_if<Reached>(&message)) {
        return take_result(*node, std::move(reached->errors));
    }
    if (stage_ != Stage::Done || node->done) {
        return false;
    }
    if (const auto* const alarm = std::get_if<NodeAlarm>(&message)) {
        take_alarm(*node, *alarm);
    } else if (is_understood(node->report.release)) {
        take_evidence(*node, std::get<NodeEvidence>(std::move(message)));
    }
    return true;
}

bool ExchangeRounds::take_report(int connection, NodeReport report, Clock::time_point now) {
    if (by_connection_.contains(connection)) {
        return false;
    }
    if (stage_ != Stage::Gathering) {
        send_(connection, late_answer_);
        return true;
    }
    if (nodes_.empty()) {
        expected_.learn_count(report.step_nodes);
    }
    Node node{.report = std::move(report), .connection = connection};
    node.name = node.report.node;
    node.rank = node.report.first_task;
    if (expected_.are_known()) {
        const auto* const expected = expected_.take(node.report);
        if (expected == nullptr) {
            return false;
        }
        node.rank = expected->first_rank;
        node.name = node.report.node = expected->name;
    }
    by_connection_[connection] = nodes_.size();
    nodes_.push_back(std::move(node));
    first_report_ = first_report_ ? first_report_ : now;
    if (nodes_.size() == expected_.count()) {
        start_test(now);
    }
    return true;
}

void ExchangeRounds::start_test(Clock::time_point now) {
    stage_ = Stage::Testing;
    late_answer_ = share(disagreement("it reported too late"));
    std::ranges::stable_sort(nodes_, {}, &Node::rank);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        by_connection_[nodes_[i].connection] = i;
    }
    if (const auto others = other_versions(); !others.empty()) {
        answer_alone(others);
        return;
    }
    // Only the report of rank 0's node has first_task 0. Two such reports belong to a heterogeneous step of unknown
    // layout.
    const bool several = !expected_.are_known() && nodes_.size() > 1 && nodes_[1].report.first_task == 0;
    if (nodes_.front().report.first_task != 0 || several) {
        answer_alone("Slurm does not tell which node has rank 0");
        return;
    }
    const auto all = reports();
    candidates_ = find_candidates(all, settings_, head_address_);
    const ReachTest test{mapped(candidates_, &HeadCandidate::address), all.front().listener};
    if (nodes_.size() == 1 || test.port == 0 || test.addresses.empty()) {
        answer();
        return;
    }
    results_missing_ = nodes_.size() - 1;
    test_end_ = now + reach_timeout + test_margin;
    const auto message = share(test);
    for (std::size_t i = 1; i < nodes_.size(); ++i) {
        send_(nodes_[i].connection, message);
    }
}

bool ExchangeRounds::take_result(Node& node, ReachResult result) {
    const bool asked = stage_ != Stage::Gathering && &node != &nodes_.front(); // not the head
    if (!asked || node.result || result.size() != candidates_.size()) {
        return false;
    }
    if (stage_ == Stage::Done) {
        return true;
    }
    node.result = std::move(result);
    if (--results_missing_ == 0) {
        answer();
    }
    return true;
}

void ExchangeRounds::take_alarm(const Node& node, const NodeAlarm& alarm) {
    report_(format_text("{}: warning: {}", node.name, alarm.text));
    if (settings_.strict && !std::exchange(ended_, true)) {
        report_("strict: the step is ended");
        end_step_();
    }
}

void ExchangeRounds::take_evidence(Node& node, NodeEvidence evidence) {
    node.done = true;
    --running_;
    evidence.node = node.name; // Slurm's name, regardless of what the node sent
    node.evidence = std::move(evidence);
}

StepEvidence ExchangeRounds::take_step_evidence() {
    StepEvidence step;
    for (auto& node : nodes_) {
        if (node.evidence) {
            step.nodes.push_back(std::move(*node.evidence));
            node.evidence.reset();
        } else {
            step.unresponsive.push_back(node.name);
        }
    }
    append(step.unresponsive, expected_.missing());
    if (!expected_.are_known() && nodes_.size() < expected_.count()) {
        step.unresponsive.push_back(format_text("{} more", expected_.count() - nodes_.size()));
    }
    return step;
}

std::string ExchangeRounds::other_versions() const {
    std::vector<std::pair<std::string, Release>> others;
    for (const auto& node : nodes_) {
        if (!is_understood(node.report.release)) {
            others.emplace_back(node.name, node.report.release);
        }
    }
    return others.empty() ? "" : describe_others(others, "srun");
}

void ExchangeRounds::answer() {
    const auto all = reports();
    const bool tested = nodes_.size() > 1 && all.front().listener != 0;
    const auto results = mapped(nodes_, [&](const Node& node) {
        return tested ? node.result.value_or(ReachResult(candidates_.size(), ETIMEDOUT)) : ReachResult();
    });
    const auto outcome = agree(all, candidates_, results, settings_);
    if (settings_.verbose > 0) {
        report_(outcome.summary);
        if (!outcome.order_line.empty()) {
            report_(outcome.order_line);
        }
        report_findings(outcome.findings);
    }
    const auto hosts = outcome.hosts.empty() ? nullptr : share(Hosts{outcome.hosts});
    stage_ = Stage::Done;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        if (hosts) {
            send_(nodes_[i].connection, hosts);
        }
        send_(nodes_[i].connection, share(outcome.agreements[i]));
        nodes_[i].report = NodeReport(); // frees memory: from here on only the version is asked for
        nodes_[i].report.release = own_release();
    }
    running_ = nodes_.size();
}

void ExchangeRounds::answer_alone(const std::string& why) {
    stage_ = Stage::Done;
    if (settings_.verbose > 0) {
        report_(format_text("warning: {}: each node plans alone", why));
    }
    for (const auto& line : not_agreed(settings_)) {
        report_(line);
    }
    late_answer_ = share(disagreement(why));
    for (const auto& node : nodes_) {
        if (!node.lost) {
            send_(node.connection, late_answer_);
            running_ += is_understood(node.report.release) ? 1U : 0U; // srun cannot read the others' evidence
        }
    }
}

Disagreement ExchangeRounds::disagreement(std::string why) const {
    return {std::move(why), !nodes_.empty() && gpus_differ(reports()), expected_.head(),
            expected_.are_known() ? head_address_ : std::nullopt};
}

void ExchangeRounds::report_findings(const std::vector<Finding>& findings) const {
    constexpr std::size_t most_lines = 6;
    const bool all = settings_.verbose >= 2;
    for (std::size_t i = 0; i < findings.size(); ++i) {
        if (i == most_lines && !all && findings.size() > most_lines + 1) {
            report_(format_text("and {} more warnings, see --rdma-nccl=verbose=2", findings.size() - i));
            return;
        }
        const auto& found = findings[i];
        report_(format_text("{}: {}{}", fold_hostlist(found.nodes), found.fault ? "warning: " : "", found.text));
    }
}

void ExchangeRounds::lose(int connection) {
    auto* const node = find(connection);
    if (node == nullptr || node->lost) {
        return;
    }
    node->lost = true;
    if (stage_ != Stage::Done) {
        answer_alone(format_text("{} was lost before the nodes of the step had agreed", node->name));
    } else if (!node->done) {
        node->done = true;
        running_ -= is_understood(node->report.release) ? 1U : 0U;
    }
    by_connection_.erase(connection);
}

void ExchangeRounds::cancel() {
    if (stage_ != Stage::Done) {
        answer_alone("the step is cancelled");
    }
}

void ExchangeRounds::report_progress(Clock::time_point now) {
    const auto waited = std::chrono::duration_cast<seconds>(now - start_).count();
    next_progress_ = now + seconds(waited < 10 ? 8 : waited + 10); // 2, 10, 30, 70, 150, ... seconds after the start
    if (settings_.verbose == 0) {
        return;
    }
    if (stage_ == Stage::Testing) {
        report_(format_text("waiting for connection tests of {} of {} nodes ({} s)", results_missing_,
                            expected_.count(), waited));
        return;
    }
    const bool hint = !first_report_ && waited >= 30;
    report_(format_text("waiting for {} of {} nodes{} ({} s){}", expected_.count() - nodes_.size(), expected_.count(),
                        expected_.missing_text(), waited,
                        hint ? "; is the plugin installed there, and may they connect to srun (SrunPortRange)?" : ""));
}

void ExchangeRounds::pass_time(Clock::time_point now) {
    if (stage_ == Stage::Testing && now >= test_end_) {
        answer();
    }
    if (stage_ == Stage::Gathering && first_report_ && now >= report_deadline()) {
        const auto others = other_versions();
        answer_alone(format_text("{}{}{} of {} nodes did not report within {} s{} (no plugin there? a slow prolog "
                                 "needs a greater exchange=)",
                                 others, others.empty() ? "" : "; ", expected_.count() - nodes_.size(),
                                 expected_.count(), settings_.exchange_seconds, expected_.missing_text()));
    }
    if (stage_ == Stage::Gathering && !first_report_ && now >= start_ + launch_limit) {
        stage_ = Stage::Done; // prologs may take long, but Slurm itself has given up by now
        late_answer_ = share(disagreement("it reported too late"));
    }
    if (stage_ != Stage::Done && now >= next_progress_) {
        report_progress(now);
    }
}

ExchangeRounds::Clock::time_point ExchangeRounds::next_time() const {
    if (stage_ == Stage::Done) {
        return Clock::time_point::max();
    }
    auto next = next_progress_;
    if (stage_ == Stage::Testing) {
        next = std::min(next, test_end_);
    } else if (first_report_) {
        next = std::min(next, report_deadline());
    }
    return next;
}

SharedBody ExchangeRounds::share(const ServerMessage& message) {
    return std::make_shared<const std::string>(write_message(message));
}

ExchangeRounds::Node* ExchangeRounds::find(int connection) {
    const auto found = by_connection_.find(connection);
    return found == by_connection_.end() ? nullptr : &nodes_[found->second];
}

std::vector<NodeReport> ExchangeRounds::reports() const {
    return mapped(nodes_, &Node::report);
}

} // namespace rdma_nccl
