// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/report_fields.h"
#include "lib/base/text.h"
#include "tools/common/print.h"
#include "tools/topo/topo.h"

#include <algorithm>
#include <map>

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

struct NodeRow {
    std::string name;
    std::vector<std::string> groups;
};

void fields(auto& f, Row<NodeRow> /*row*/) {
    f("name", "", &NodeRow::name);
    f("groups", "its switches or block, from the outermost one; empty: not known", &NodeRow::groups);
}

std::vector<NodeRow> node_rows(const Network& network) {
    std::vector<NodeRow> rows;
    for (std::size_t i = 0; i < network.nodes.size(); ++i) {
        const auto& place = network.places[i];
        rows.push_back({network.nodes[i], place ? place->groups : std::vector<std::string>()});
    }
    return rows;
}

void fields(auto& f, Row<Network> /*row*/) {
    f("schema", "1", [](const Network& /*network*/) { return 1U; });
    f("nodes", "as Slurm orders them", node_rows);
}

std::string line_of(const Network& network, std::string_view name, const Members& members, std::size_t indent) {
    constexpr std::size_t names_column = 28;
    std::vector<std::string> names;
    for (const auto i : members) {
        names.push_back(network.nodes[i]);
    }
    const auto group = format_text("{:{}}{}", "", indent, printable(name, 40));
    const auto line = format_text("{:<{}}{:>6}  ", group, names_column, members.size());
    const auto left = most_columns - std::min(line.size() + 3, most_columns); // without the dots of a list that is cut
    return line + printable(fold_hostlist(std::move(names)), left) + '\n';
}

/// Returns a line for each group of these nodes at `depth`, with those of its own groups below it.
std::string groups_text(const Network& network, const Members& members, std::size_t depth, std::size_t indent) {
    std::map<std::string_view, std::size_t> numbers;
    std::vector<Members> groups; ///< in the order of their first nodes
    for (const auto i : members) {
        const auto [found, is_new] = numbers.try_emplace(network.group_of(i, depth), groups.size());
        if (is_new) {
            groups.emplace_back();
        }
        groups[found->second].push_back(i);
    }
    std::string text;
    for (const auto& group : groups) {
        const auto name = network.group_of(group.front(), depth);
        if (!name.empty()) {
            text += line_of(network, name, group, indent);
        }
        if (depth + 1 < network.places[group.front()]->groups.size()) {
            text += groups_text(network, group, depth + 1, name.empty() ? indent : indent + 2);
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
    text += groups_text(network, known, 0, 0);
    return text + (unknown.empty() ? "" : line_of(network, "(none)", unknown, 0));
}

Json network_json(std::span<const std::string> nodes, std::span<const std::optional<NetworkPlace>> places) {
    return report_json(Network{nodes, places});
}

Json network_schema() {
    return report_schema<Network>();
}

} // namespace rdma_nccl
