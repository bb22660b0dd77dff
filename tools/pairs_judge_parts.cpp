// SPDX-License-Identifier: Apache-2.0
#include "tools/pairs_judge_parts.h"

#include <algorithm>
#include <map>
#include <utility>

namespace rdma_nccl {

PairPorts::PairPorts(const PairsReport& report) : first{0} {
    for (const PairNode& node : report.nodes) {
        first.push_back(first.back() + static_cast<unsigned>(node.rails.size()));
    }
}

unsigned PairPorts::node(unsigned number) const {
    const auto behind = std::upper_bound(first.begin(), first.end(), number);
    return static_cast<unsigned>(behind - first.begin()) - 1;
}

std::vector<BlamedNode> by_node(const PairPorts& ports, const std::set<unsigned>& blamed,
                                const std::set<unsigned>& seen) {
    std::map<unsigned, std::vector<unsigned>> rails;
    for (const unsigned port : blamed) {
        rails[ports.node(port)].push_back(ports.rail(port));
    }
    std::vector<BlamedNode> nodes;
    for (auto& [node, of_it] : rails) {
        const auto measured = static_cast<std::size_t>(
            std::distance(seen.lower_bound(ports.number(node, 0)), seen.lower_bound(ports.number(node + 1, 0))));
        nodes.push_back({node, of_it.size() >= measured ? std::vector<unsigned>{} : std::move(of_it)});
    }
    return nodes;
}

std::vector<BadPair> by_pair(const PairsJudging& judging, const std::set<std::uint32_t>& bad) {
    const auto key = [&](std::uint32_t index) {
        const Pairing& pairing = judging.report.results[index].pairing;
        return std::minmax({pairing.a, pairing.b});
    };
    std::map<std::pair<unsigned, unsigned>, BadPair> pairs;
    for (const std::uint32_t index : bad) {
        BadPair& pair = pairs[key(index)];
        std::tie(pair.a, pair.b) = key(index);
        pair.results.push_back(index);
    }
    std::map<std::pair<unsigned, unsigned>, std::size_t> counted;
    for (const std::uint32_t index : judging.results) {
        if (!pairs.empty() && pairs.contains(key(index))) {
            ++counted[key(index)];
        }
    }
    std::vector<BadPair> found;
    for (auto& [nodes, pair] : pairs) {
        pair.all = pair.results.size() > 1 && pair.results.size() == counted[nodes];
        found.push_back(std::move(pair));
    }
    return found;
}

} // namespace rdma_nccl
