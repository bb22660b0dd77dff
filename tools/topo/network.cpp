// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/text.h"
#include "tools/topo/topo.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

using Members = std::vector<std::size_t>;

struct Network {
    std::span<const std::string> nodes;
    std::span<const std::optional<NetworkPlace>> places;

    [[nodiscard]] std::string_view group_of(std::size_t node, std::size_t depth) const {
        const auto& place = places[node];
        return place && depth < place->groups.size() ? std::string_view(place->groups[depth]) : "";
    }
};

std::string line_of(const Network& network, std::string_view name, const Members& members, std::size_t indent) {
    constexpr std::size_t names_column = 28;
    std::vector<std::string> names;
    for (const auto i : members) {
        names.push_back(network.nodes[i]);
    }
    const auto group = format_text("{:{}}{}", "", indent, printable(name, 40));
    return format_text("{:<{}}{:>6}  {}\n", group, names_column, members.size(),
                       printable(fold_hostlist(std::move(names)), 60));
}

/// Returns a line for each group of these nodes at `depth`, with those of its own groups below it.
std::string groups_text(const Network& network, Members members, std::size_t depth, std::size_t indent) {
    std::string text;
    while (!members.empty()) {
        const auto name = network.group_of(members.front(), depth);
        const auto others = std::stable_partition(members.begin(), members.end(),
                                                  [&](std::size_t i) { return network.group_of(i, depth) == name; });
        Members inside(members.begin(), others);
        members.erase(members.begin(), others);
        if (!name.empty()) {
            text += line_of(network, name, inside, indent);
        }
        if (depth + 1 < network.places[inside.front()]->groups.size()) {
            text += groups_text(network, std::move(inside), depth + 1, name.empty() ? indent : indent + 2);
        }
    }
    return text;
}

} // namespace

std::string network_text(std::span<const std::string> nodes, std::span<const std::optional<NetworkPlace>> places) {
    const Network network{nodes, places};
    Members known;
    Members unknown;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        (places[i] ? known : unknown).push_back(i);
    }
    auto text = format_text("{:<28}{:>6}  {}\n", "switch or block", "nodes", "names");
    text += groups_text(network, std::move(known), 0, 0);
    return text + (unknown.empty() ? "" : line_of(network, "(none)", unknown, 0));
}

} // namespace rdma_nccl
