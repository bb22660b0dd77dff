// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/order/network.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>

namespace rdma_nccl {

namespace {

constexpr double least_ratio = 1.15;     ///< between the latencies out of a group and in it
constexpr std::size_t far_pairs_of = 20; ///< of that many pairs in groups, one may be as far apart as pairs outside

/// Nodes that steps connect (union-find).
class Connected {
public:
    explicit Connected(std::size_t count) : parents_(count) {
        std::iota(parents_.begin(), parents_.end(), std::size_t{0});
    }

    [[nodiscard]] std::size_t root_of(std::size_t node) {
        while (parents_[node] != node) {
            node = parents_[node] = parents_[parents_[node]];
        }
        return node;
    }
    /// Returns false if they are connected already.
    bool connect(std::size_t a, std::size_t b) {
        const auto one = root_of(a);
        const auto other = root_of(b);
        parents_[one] = other;
        return one != other;
    }

private:
    std::vector<std::size_t> parents_;
};

using Latencies = std::span<const NodeLatency>;

/// Returns the latencies of the shortest steps that connect all nodes, the smallest first (Kruskal's algorithm).
std::vector<double> connecting_steps(std::size_t count, Latencies sorted) {
    Connected connected(count);
    std::vector<double> steps;
    for (const auto& [a, b, us] : sorted) {
        if (connected.connect(a, b)) {
            steps.push_back(us);
        }
    }
    return steps;
}

/// Returns the group of each node, when steps below `limit` are those inside of groups. Returns an empty list if that
/// makes no sense: many pairs of a group are farther apart, most nodes are alone, or all others are one group.
std::vector<std::size_t> group_below(std::size_t count, Latencies sorted, double limit) {
    Connected connected(count);
    const auto farther = std::ranges::lower_bound(sorted, limit, {}, &NodeLatency::us);
    for (const auto& [a, b, us] : std::span(sorted.begin(), farther)) {
        connected.connect(a, b);
    }
    const auto far_inside =
        static_cast<std::size_t>(std::ranges::count_if(std::span(farther, sorted.end()), [&](const NodeLatency& pair) {
            return connected.root_of(pair.a) == connected.root_of(pair.b);
        }));
    std::vector<std::size_t> groups(count);
    std::map<std::size_t, std::size_t> sizes;
    for (std::size_t i = 0; i < count; ++i) {
        groups[i] = connected.root_of(i);
        ++sizes[groups[i]];
    }
    const auto alone =
        static_cast<std::size_t>(std::ranges::count_if(sizes, [](const auto& size) { return size.second == 1; }));
    const auto inside = static_cast<std::size_t>(farther - sorted.begin()) + far_inside;
    const bool makes_sense = far_inside * far_pairs_of <= inside && alone * 2 <= count && sizes.size() - alone >= 2;
    return makes_sense ? groups : std::vector<std::size_t>();
}

} // namespace

Result<NetworkPlaces> places_by_latency(std::size_t count, std::vector<NodeLatency> latencies) {
    std::vector<bool> is_measured(count);
    for (const auto& pair : latencies) {
        is_measured.at(pair.a) = is_measured.at(pair.b) = true;
    }
    std::vector<std::size_t> nodes; ///< that were measured
    std::vector<std::size_t> numbers(count);
    for (std::size_t i = 0; i < count; ++i) {
        numbers[i] = nodes.size();
        if (is_measured[i]) {
            nodes.push_back(i);
        }
    }
    for (auto& pair : latencies) {
        pair = {numbers[pair.a], numbers[pair.b], pair.us};
    }
    const auto measured = nodes.size();
    const auto pairs = measured < 2 ? 0 : measured * (measured - 1) / 2;
    if (latencies.size() * 2 < pairs || pairs == 0) {
        return fail(format_text("latencies of {} of {} pairs are too few to tell", latencies.size(), pairs));
    }
    std::ranges::sort(latencies, {}, &NodeLatency::us);
    const auto steps = connecting_steps(measured, latencies);
    std::vector<NetworkPlace> found(measured);
    for (auto i = steps.size() - 1; i > 0; --i) { // from the outermost groups
        const auto groups = steps[i] >= steps[i - 1] * least_ratio ? group_below(measured, latencies, steps[i])
                                                                   : std::vector<std::size_t>();
        std::map<std::size_t, std::size_t> names;
        for (std::size_t node = 0; node < groups.size(); ++node) {
            const auto name = names.try_emplace(groups[node], names.size() + 1).first->second;
            found[node].groups.push_back(format_text("group{}", name));
        }
    }
    if (found.front().groups.empty()) {
        return fail("latencies make no groups: they differ too little, or without a pattern");
    }
    NetworkPlaces places(count);
    for (std::size_t i = 0; i < measured; ++i) {
        places[nodes[i]] = std::move(found[i]);
    }
    return places;
}

} // namespace rdma_nccl
