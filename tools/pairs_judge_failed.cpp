// SPDX-License-Identifier: Apache-2.0
// Pairs that failed, nodes that take no part, and data that arrived wrong.
#include "lib/format.h"
#include "lib/text.h"
#include "tools/pairs_judge_parts.h"
#include "tools/pairs_words.h"

#include <algorithm>
#include <map>

namespace rdma_nccl {

namespace {

using Results = std::set<std::uint32_t>;

/// Words for bad results of one node, rail or pair: where, how many of how many, what the first one says.
using Words = std::string (*)(const PairsReport& report, const std::string& where, std::size_t bad, std::size_t all,
                              const PairResult& first);

std::string failed_words(const PairsReport& /*report*/, const std::string& where, std::size_t bad, std::size_t all,
                         const PairResult& first) {
    return all < 2 ? format_text("{}: {}", where, printable(first.problem, 400))
                   : format_text("{}: {} of {} pairs failed: {}", where, bad, all, printable(first.problem, 400));
}

std::string wrong_words(const PairsReport& /*report*/, const std::string& where, std::size_t bad, std::size_t all,
                        const PairResult& /*first*/) {
    return format_text("{}: wrong data in {} of {} {}: what arrived is not what was sent; do not compute there before "
                       "memory (ECC), PCIe errors and the HCA's firmware were looked at",
                       where, bad, all, all == 1 ? "pair" : "pairs");
}

/// Counts the results of a node, or of one rail of it.
struct Part {
    std::vector<std::uint32_t> bad;
    std::size_t all = 0;
};
Part part_of(const PairsJudging& judging, const Results& bad, unsigned node, std::optional<unsigned> rail) {
    Part part;
    for (const std::uint32_t index : judging.results) {
        const auto& [a, b, rail_a, rail_b] = judging.report.results[index].pairing;
        if ((a == node && rail_a == rail.value_or(rail_a)) || (b == node && rail_b == rail.value_or(rail_b))) {
            ++part.all;
            if (bad.contains(index)) {
                part.bad.push_back(index);
            }
        }
    }
    return part;
}

void add_part(PairsJudging& judging, PairsFaultKind kind, Words words, const Results& bad, unsigned node,
              std::optional<unsigned> rail) {
    const Part part = part_of(judging, bad, node, rail);
    const std::string where =
        pair_node_name(judging.report, node) + (rail ? " " + pair_rail_name(judging.report, node, *rail) : "");
    judging.add(
        {.kind = kind,
         .nodes = {node},
         .rail = rail,
         .text = words(judging.report, where, part.bad.size(), part.all, judging.report.results[part.bad.at(0)])},
        -static_cast<double>(part.bad.size()));
}

void add_pairs(PairsJudging& judging, PairsFaultKind kind, Words words, const Results& bad) {
    const auto add = [&](const PairResult& result, bool with_rails, std::size_t count) {
        const auto& [a, b, rail_a, rail_b] = result.pairing;
        const std::string where = pair_link_name(judging.report, result.pairing, with_rails);
        judging.add({.kind = kind,
                     .nodes = a == b ? std::vector{a} : std::vector{a, b},
                     .rail = with_rails ? std::optional(rail_a) : std::nullopt,
                     .text = words(judging.report, where, count, count, result)},
                    -static_cast<double>(count));
    };
    for (const BadPair& pair : by_pair(judging, bad)) {
        if (pair.all) {
            add(judging.report.results[pair.results[0]], false, pair.results.size());
            continue;
        }
        for (const std::uint32_t index : pair.results) {
            add(judging.report.results[index], true, 1);
        }
    }
}

/// Bad results: where several of one port or node are bad, it is to blame; else the pair.
void accuse(PairsJudging& judging, PairsFaultKind kind, Words words, const Results& bad, const Results& leave_out) {
    const PairPorts ports(judging.report);
    std::vector<Observation> observations;
    std::vector<std::uint32_t> of;
    std::set<unsigned> seen;
    for (const std::uint32_t index : judging.results) {
        if (!leave_out.contains(index)) {
            const auto& [a, b, rail_a, rail_b] = judging.report.results[index].pairing;
            observations.push_back({.end = {ports.number(a, rail_a), ports.number(b, rail_b)},
                                    .node = {a, b},
                                    .bad = bad.contains(index)});
            of.push_back(index);
            seen.insert({ports.number(a, rail_a), ports.number(b, rail_b)});
        }
    }
    std::set<unsigned> blamed;
    if (judging.can_blame) {
        const auto ends = blame_ends(observations, ports.count(), {.share = judging.rules.share_of_pairs});
        blamed.insert(ends.begin(), ends.end());
    }
    for (const BlamedNode& node : by_node(ports, blamed, seen)) {
        if (node.rails.empty()) {
            add_part(judging, kind, words, bad, node.node, {});
        }
        for (const unsigned rail : node.rails) {
            add_part(judging, kind, words, bad, node.node, rail);
        }
    }
    Results left;
    for (std::size_t i = 0; i < observations.size(); ++i) {
        if (observations[i].bad && !observations[i].explained) {
            left.insert(of[i]);
        }
    }
    add_pairs(judging, kind, words, left);
}

} // namespace

void judge_failures(PairsJudging& judging) {
    const PairsReport& report = judging.report;
    for (unsigned node = 0; node < report.nodes.size(); ++node) {
        if (!report.nodes[node].problem.empty()) {
            judging.add({.kind = PairsFaultKind::Failed,
                         .nodes = {node},
                         .rail = {},
                         .text = format_text("{} takes no part: {}", pair_node_name(report, node),
                                             printable(report.nodes[node].problem, 400))},
                        -1e9);
        }
    }
    Results failed;
    Results known;
    std::map<unsigned, Results> of_node;
    for (const std::uint32_t index : judging.results) {
        const PairResult& result = report.results[index];
        // What was under way when all was ended has not failed.
        if (result.problem.empty() || result.problem == report.ended_early) {
            continue;
        }
        judging.verdict.results[index] = PairState::Failed;
        failed.insert(index);
        if (result.fault_of && *result.fault_of < report.nodes.size()) {
            known.insert(index);
            of_node[*result.fault_of].insert(index);
        }
    }
    for (const auto& [node, results] : of_node) {
        if (report.nodes[node].problem.empty()) {
            const auto all = std::max(part_of(judging, results, node, {}).all, results.size());
            judging.add({.kind = PairsFaultKind::Failed,
                         .nodes = {node},
                         .rail = {},
                         .text = failed_words(report, pair_node_name(report, node), results.size(), all,
                                              report.results[*results.begin()])},
                        -static_cast<double>(results.size()));
        }
    }
    if (failed.size() > known.size()) {
        accuse(judging, PairsFaultKind::Failed, failed_words, failed, known);
    }
}

void judge_data(PairsJudging& judging) {
    Results wrong;
    for (const std::uint32_t index : judging.results) {
        if (judging.report.results[index].data_correct == false) {
            judging.verdict.results[index] = PairState::Failed;
            wrong.insert(index);
        }
    }
    if (!wrong.empty()) {
        accuse(judging, PairsFaultKind::WrongData, wrong_words, wrong, {});
    }
}

} // namespace rdma_nccl
