// SPDX-License-Identifier: Apache-2.0
#include "tools/pairs_terms.h"

#include "lib/format.h"
#include "lib/hostlist.h"
#include "tools/pairs_node.h"

#include <vector>

namespace rdma_nccl {

std::string_view name_of(PairState state) {
    switch (state) {
    case PairState::Good:
        return "good";
    case PairState::Slow:
        return "slow";
    case PairState::Failed:
        return "failed";
    case PairState::Unknown:
        break;
    }
    return "unknown";
}

std::string_view name_of(PairsFaultKind kind) {
    switch (kind) {
    case PairsFaultKind::Node:
        return "node";
    case PairsFaultKind::Rail:
        return "rail";
    case PairsFaultKind::Link:
        return "link";
    case PairsFaultKind::Direction:
        return "direction";
    case PairsFaultKind::AllSlow:
        return "all slow";
    case PairsFaultKind::Failed:
        return "failed";
    case PairsFaultKind::WrongData:
        return "wrong data";
    case PairsFaultKind::Duplex:
        return "both ways";
    case PairsFaultKind::Latency:
        break;
    }
    return "latency";
}

std::string_view verdict_word(const PairsVerdict& verdict) {
    switch (verdict.exit_code) {
    case 0:
        return "good";
    case 1:
        return "slow";
    case 2:
        return "failed";
    default:
        return "nothing measured";
    }
}

std::string suspects_hostlist(const PairsReport& report, const PairsVerdict& verdict) {
    std::vector<std::string> names;
    for (const unsigned node : verdict.suspects) {
        names.push_back(report.nodes.at(node).host_name());
    }
    return names.empty() ? "" : fold_hostlist(std::move(names));
}

std::string end_text(const PairsReport& report, unsigned node, unsigned rail) {
    const auto& of = report.nodes.at(node);
    return rail < of.rails.size() ? format_text("{} {}", of.name, rail_name(of.rails[rail])) : of.name;
}

} // namespace rdma_nccl
