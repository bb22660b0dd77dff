// SPDX-License-Identifier: Apache-2.0
#include "tools/pairs/judge.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/exchange/agreement.h"
#include "tools/pairs/judging.h"
#include "tools/pairs/output.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace rdma_nccl::pairs {

namespace {

/// With fewer nodes, a pair with a slow node is at least half of its partner's pairs.
constexpr std::size_t fewest_to_blame = 4;

std::size_t nodes_measured(const Report& report, const std::vector<std::uint32_t>& results) {
    std::set<unsigned> nodes;
    for (const std::uint32_t index : results) {
        nodes.insert({report.results[index].pairing.a, report.results[index].pairing.b});
    }
    return nodes.size();
}

/// Relaxes the rules for Soft-RoCE, which shares its CPUs: a really slow link is slow by factors, the rest is noise.
JudgeRules rules_for(const Samples& samples, JudgeRules rules) {
    if (samples.software) {
        rules.share_of_median = std::min(rules.share_of_median, 0.5);
        rules.floor_share = 0;
        rules.latency_factor = std::max(rules.latency_factor, 4.0);
    }
    return rules;
}

void set_medians(Judging& judging) {
    auto speeds = mapped(judging.samples.samples, &Sample::gbps);
    judging.verdict.median_gbps = quantile(speeds, 0.5);
    for (double& speed : speeds) {
        speed = std::abs(speed - *judging.verdict.median_gbps);
    }
    judging.verdict.mad_gbps = quantile(std::move(speeds), 0.5);

    std::vector<double> latencies;
    for (const std::uint32_t index : judging.results) {
        if (const auto& latency = judging.report.results[index].latency) {
            latencies.push_back(latency->median_us);
        }
    }
    judging.verdict.median_latency_us = quantile(std::move(latencies), 0.5);
}

bool measured(const PairingResult& result) {
    return result.forward || result.backward || result.both || result.latency;
}

/// Marks results that no part has marked slow or failed as good. Results that were measured again stay unknown.
void set_good_results(Judging& judging) {
    for (const std::uint32_t index : judging.results) {
        ResultState& state = judging.verdict.results[index];
        if (state == ResultState::Unknown && measured(judging.report.results[index])) {
            state = ResultState::Good;
        }
    }
}

void set_scores(Judging& judging) {
    const Report& report = judging.report;
    auto& scores = judging.verdict.nodes;
    std::vector<std::array<std::vector<double>, 3>> values(report.nodes.size());
    for (const Sample& sample : judging.samples.samples) {
        values[sample.from][0].push_back(sample.gbps);
        values[sample.to][1].push_back(sample.gbps);
    }
    for (const std::uint32_t index : judging.results) {
        const PairingResult& result = report.results[index];
        const auto count = [&](unsigned node) {
            ++scores[node].pairs;
            scores[node].slow += judging.verdict.results[index] == ResultState::Slow;
            scores[node].failed += judging.verdict.results[index] == ResultState::Failed;
            if (result.latency) {
                values[node][2].push_back(result.latency->median_us);
            }
        };
        count(result.pairing.a);
        if (result.pairing.b != result.pairing.a) {
            count(result.pairing.b);
        }
    }
    for (std::size_t node = 0; node < scores.size(); ++node) {
        scores[node].sends_gbps = quantile(std::move(values[node][0]), 0.5);
        scores[node].receives_gbps = quantile(std::move(values[node][1]), 0.5);
        scores[node].latency_us = quantile(std::move(values[node][2]), 0.5);
    }
}

/// A node that is not accused is good if nodes can be blamed; else only a node without bad pairs is.
void set_node_states(Judging& judging) {
    auto& verdict = judging.verdict;
    for (NodeScore& score : verdict.nodes) {
        const bool doubtful = !judging.can_blame && score.slow + score.failed > 0;
        const bool nothing = score.pairs == 0 || score.failed == score.pairs;
        score.state = doubtful || nothing ? ResultState::Unknown : ResultState::Good;
    }
    std::set<unsigned> suspects;
    for (const Fault& fault : verdict.faults) {
        if (fault.nodes.size() != 1) { // it is no node's alone
            continue;
        }
        suspects.insert(fault.nodes[0]);
        ResultState& state = verdict.nodes[fault.nodes[0]].state;
        state = is_critical(fault.kind) || state == ResultState::Failed ? ResultState::Failed : ResultState::Slow;
    }
    verdict.suspects.assign(suspects.begin(), suspects.end());
}

int weight(FaultKind kind) {
    using enum FaultKind;
    constexpr std::array order = {WrongData, Failed, AllSlow, Node, Rail, Direction, Link, Duplex, Latency};
    return static_cast<int>(std::ranges::find(order, kind) - order.begin());
}

void note_measured(Judging& judging, std::size_t nodes) {
    const Report& report = judging.report;
    auto& notes = judging.verdict.notes;
    if (!report.ended_early.empty() || report.results.size() < report.planned) {
        notes.push_back(format_text("ended early{}{}: {} of {} pairs were measured",
                                    report.ended_early.empty() ? "" : ", ", printable(report.ended_early),
                                    report.results.size(), report.planned));
    }
    if (judging.samples.software) {
        notes.emplace_back("software RDMA: functional test only; speeds are those of the CPUs");
    }
    if (nodes > 1 && !judging.can_blame && report.schedule != "loopback") {
        notes.push_back(format_text("{} nodes: cannot tell which side of a pair is slow; at least {} are needed", nodes,
                                    fewest_to_blame));
    }
    const auto& kinds = judging.samples.kinds;
    if (judging.rules.floor_share > 0 &&
        std::ranges::any_of(kinds, [](const PortKind& kind) { return kind.rate_gbps <= 0; })) {
        notes.emplace_back("link rates are unknown: speeds are compared with each other only");
    }
}

/// Returns the highest share that a port may count: headers (about 80 bytes per packet) and a few retransmits.
double most_counted(unsigned path_mtu) {
    constexpr double usual = 1.1;
    return path_mtu == 0 ? usual : std::max(usual, 1.02 + 80.0 / path_mtu);
}

/// Notes directions whose port counters saw an unexpected share of the bytes. The counters prove that the bytes went
/// through the port (measured: 0.98 to 1.10 of the bytes sent). Counting more than was sent means other traffic, or
/// many retransmits; but Soft-RoCE counts packets of any size.
void note_miscounted(Judging& judging) {
    constexpr double least = 0.9;
    struct {
        unsigned directions = 0;
        std::string example;
    } under, over;
    for (const Sample& sample : judging.samples.samples) {
        const PairingResult& result = judging.report.results[sample.result];
        const auto& way = sample.from == result.pairing.a ? result.forward : result.backward;
        const auto share = figure_of(way, &Bandwidth::counted_share);
        if (!share || sample.from == sample.to) {
            continue;
        }
        const bool exact = !judging.report.nodes[sample.from].rails[sample.from_rail].software;
        const bool too_much = exact && *share > most_counted(result.path_mtu);
        auto& found = too_much ? over : under;
        if ((too_much || *share < least) && found.directions++ == 0) {
            found.example = format_text(
                "{} sent {} of them", name_of_end(judging.report, sample.from, sample.from_rail), percent_text(*share));
        }
    }
    if (under.directions > 0) {
        judging.verdict.notes.push_back(
            format_text("in {} directions, the port counted less than {} of the bytes: {}; they took another way, or "
                        "the counters do not count RDMA",
                        under.directions, percent_text(least), under.example));
    }
    if (over.directions > 0) {
        judging.verdict.notes.push_back(format_text(
            "in {} directions, the port counted more than the bytes and their headers: {}; another job uses "
            "that port, or much was sent again: speeds there are lower than they could be",
            over.directions, over.example));
    }
}

/// Notes how NVLink connects the nodes. Several cliques, as of racks, are usual, and of one size.
void note_cliques(Judging& judging) {
    constexpr std::size_t most_named = 3;
    std::map<std::string, std::vector<std::string>> cliques; // names of nodes
    std::vector<std::string> without;
    for (const auto& node : judging.report.nodes) {
        if (node.problem.empty()) {
            (node.clique ? cliques[*node.clique] : without).push_back(node.name);
        }
    }
    std::map<std::size_t, std::vector<std::string>> by_size; // nodes of two or more: most have the usual size
    for (const auto& [clique, nodes] : cliques) {
        if (nodes.size() > 1) {
            append(by_size[nodes.size()], nodes);
        }
    }
    if (by_size.empty()) {
        return;
    }
    for (auto& [size, nodes] : by_size) {
        std::ranges::sort(nodes);
    }
    const auto usual = most_common(by_size);
    auto text =
        format_text("NVLink connects nodes in {} of {}", format_count(usual->second.size() / usual->first, "clique"),
                    format_count(usual->first, "node"));
    std::vector<std::string> others;
    for (const auto& [clique, nodes] : cliques) {
        if (nodes.size() != usual->first) {
            others.push_back(format_text("{} with {}", printable(clique), printable(fold_hostlist(nodes), 60)));
        }
    }
    if (!others.empty()) {
        text += format_text("; of another size: {} (sbatch --segment asks for equal ones)",
                            joined_some(others, most_named));
    }
    if (!without.empty()) {
        text += format_text("; none is known of {} (there, rdma-nccl check tells why)",
                            printable(fold_hostlist(without), 60));
    }
    judging.verdict.notes.push_back(std::move(text));
}

/// Notes nodes whose rail i is in the network of another rail of the others, as srun does of a step.
void note_crossed_rails(Judging& judging) {
    std::vector<NodeNetworks> nodes;
    for (const auto& node : judging.report.nodes) {
        if (node.problem.empty()) {
            nodes.push_back({node.name, mapped(node.rails, measure::rail_name),
                             mapped(node.rails, [](const PairRail& rail) { return rail.network; })});
        }
    }
    constexpr std::size_t most_notes = 3;
    const auto crossed = find_crossed_rails(nodes);
    for (const auto& finding : std::span(crossed).first(std::min(crossed.size(), most_notes))) {
        judging.verdict.notes.push_back(
            format_text("{}: {}", printable(fold_hostlist(finding.nodes), 60), finding.text));
    }
    if (crossed.size() > most_notes) {
        judging.verdict.notes.push_back(format_text("{} of nodes: networks in another order, too",
                                                    format_count(crossed.size() - most_notes, "more group")));
    }
}

int exit_code_of(const Verdict& verdict) {
    int code = 0;
    for (const Fault& fault : verdict.faults) {
        code = std::max(code, is_critical(fault.kind) ? 2 : 1);
    }
    const bool something =
        std::ranges::any_of(verdict.results, [](ResultState state) { return state != ResultState::Unknown; });
    return code == 0 && !something ? 3 : code;
}

} // namespace

void Judging::mark_slow(std::uint32_t result) {
    ResultState& state = verdict.results[result];
    state = state == ResultState::Unknown ? ResultState::Slow : state;
}

bool is_critical(FaultKind kind) {
    return kind == FaultKind::Failed || kind == FaultKind::WrongData;
}

Verdict judge(const Report& report, const JudgeRules& rules) {
    auto results = results_that_count(report);
    // A value counts as far below normal if it is a tenth further below than a slow one.
    const auto samples_at = [&](double share) { return samples_of(report, results, std::max(share - 0.1, 0.1)); };
    Samples samples = samples_at(rules.share_of_median);
    const JudgeRules own_rules = rules_for(samples, rules);
    if (own_rules.share_of_median != rules.share_of_median) {
        samples = samples_at(own_rules.share_of_median);
    }
    const std::size_t nodes = nodes_measured(report, results);
    Judging judging{.report = report,
                    .rules = own_rules,
                    .results = std::move(results),
                    .samples = std::move(samples),
                    .ports = Ports(report),
                    .can_blame = nodes >= fewest_to_blame,
                    .verdict = {}};
    judging.verdict.results.resize(report.results.size());
    judging.verdict.nodes.resize(report.nodes.size());
    set_medians(judging);
    judge_failures(judging);
    judge_data(judging);
    judge_speed(judging);
    judge_duplex(judging);
    judge_latency(judging);
    set_good_results(judging);
    set_scores(judging);
    set_node_states(judging);
    std::ranges::stable_sort(judging.verdict.faults, {}, [](const Fault& fault) {
        return std::pair{weight(fault.kind), fault.badness};
    });
    note_measured(judging, nodes);
    note_miscounted(judging);
    note_crossed_rails(judging);
    note_cliques(judging);
    judging.verdict.exit_code = exit_code_of(judging.verdict);
    return std::move(judging.verdict);
}

RetestNodes retest_nodes(const Report& report, const Verdict& verdict) {
    std::set<unsigned> suspects(verdict.suspects.begin(), verdict.suspects.end());
    for (std::size_t i = 0; i < report.results.size() && i < verdict.results.size(); ++i) {
        if (verdict.results[i] == ResultState::Slow || verdict.results[i] == ResultState::Failed) {
            suspects.insert({report.results[i].pairing.a, report.results[i].pairing.b});
        }
    }
    RetestNodes nodes{.suspects = {suspects.begin(), suspects.end()}, .good = {}};
    for (unsigned node = 0; node < verdict.nodes.size(); ++node) {
        if (verdict.nodes[node].state == ResultState::Good && !suspects.contains(node)) {
            nodes.good.push_back(node);
        }
    }
    return nodes;
}

} // namespace rdma_nccl::pairs
