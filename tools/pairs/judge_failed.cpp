// SPDX-License-Identifier: Apache-2.0
// Judges pairs that failed, nodes that take no part, and data that arrived wrong.
#include "lib/base/format.h"
#include "lib/base/text.h"
#include "tools/pairs/fault_messages.h"
#include "tools/pairs/judge_internal.h"

#include <algorithm>
#include <map>

namespace rdma_nccl {

namespace {

using Results = std::set<std::uint32_t>;

/// Describes bad results of one node, rail or pair: where, how many of how many, and the first one's problem.
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
        if (takes_part(judging.report.results[index].pairing, node, rail)) {
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
    judging.add({.kind = kind,
                 .nodes = {node},
                 .rail = rail,
                 .text = words(judging.report, pair_end_name(judging.report, node, rail), part.bad.size(), part.all,
                               judging.report.results[part.bad.at(0)])},
                -static_cast<double>(part.bad.size()));
}

/// Blames a port or node if several of its results are bad, else the pair.
void accuse(PairsJudging& judging, PairsFaultKind kind, Words words, const Results& bad, const Results& leave_out) {
    ObservedResults observed(judging);
    for (const std::uint32_t index : judging.results) {
        if (!leave_out.contains(index)) {
            observed.add(index, bad.contains(index));
        }
    }
    const auto accuse_pair = [&](const std::vector<std::uint32_t>& results, bool with_rails) {
        const PairResult& result = judging.report.results[results.front()];
        const std::string where = pair_link_name(judging.report, result.pairing, with_rails);
        judging.add(pair_fault(kind, result.pairing, with_rails,
                               words(judging.report, where, results.size(), results.size(), result)),
                    -static_cast<double>(results.size()));
    };
    observed.accuse(
        [&](unsigned node, std::optional<unsigned> rail) { add_part(judging, kind, words, bad, node, rail); },
        accuse_pair);
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
        // A result that was interrupted by the end has not failed.
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
