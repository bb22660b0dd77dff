// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/report_fields.h"
#include "lib/base/text.h"
#include "lib/order/order.h"
#include "tools/common/print.h"
#include "tools/topo/topo.h"

#include <algorithm>
#include <map>

namespace rdma_nccl {

namespace {

using Members = std::vector<std::size_t>;

struct PortRow {
    std::string port;
    unsigned rail;
};

void fields(auto& f, Row<PortRow> /*row*/) {
    f("port", "that NCCL uses: mlx5_1:1", &PortRow::port);
    f("rail", "from 0", &PortRow::rail);
}

struct NodeRow {
    std::string name;
    std::vector<std::string> groups;
    std::optional<NodeRails> rails;
};

void fields(auto& f, Row<NodeRow> /*row*/) {
    f("name", "", &NodeRow::name);
    f("groups", "its switches or block, from the outermost one; empty: not known", &NodeRow::groups);
    f("rails", "of its ports; null: not known", &NodeRow::rails);
}

std::vector<NodeRow> node_rows(const StepNetwork& network) {
    std::vector<NodeRow> rows;
    for (std::size_t i = 0; i < network.nodes.size(); ++i) {
        const auto& place = network.places[i];
        const auto rails = network.rails.find(network.nodes[i]);
        rows.push_back({network.nodes[i], place ? place->groups : std::vector<std::string>(),
                        rails == network.rails.end() ? std::nullopt : std::optional(rails->second)});
    }
    return rows;
}

std::string line_of(const StepNetwork& network, std::string_view name, const Members& members, std::size_t indent) {
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
std::string groups_text(const StepNetwork& network, const Members& members, std::size_t depth, std::size_t indent) {
    std::map<std::string_view, std::size_t> numbers;
    std::vector<Members> groups; ///< in the order of their first nodes
    for (const auto i : members) {
        const auto [found, is_new] = numbers.try_emplace(group_at(network.places[i], depth), groups.size());
        if (is_new) {
            groups.emplace_back();
        }
        groups[found->second].push_back(i);
    }
    std::string text;
    for (const auto& group : groups) {
        const auto name = group_at(network.places[group.front()], depth);
        if (!name.empty()) {
            text += line_of(network, name, group, indent);
        }
        if (depth + 1 < network.places[group.front()]->groups.size()) {
            text += groups_text(network, group, depth + 1, name.empty() ? indent : indent + 2);
        }
    }
    return text;
}

/// Returns a line for all nodes with the same rails.
std::string rails_lines(const StepNetwork& network) {
    std::map<NodeRails, std::vector<std::string>> nodes_by_rails;
    for (const auto& [node, rails] : network.rails) {
        nodes_by_rails[rails].push_back(node);
    }
    std::string text;
    for (const auto& [rails, nodes] : nodes_by_rails) {
        text += rails_text(rails, "rails of " + printable(fold_hostlist(nodes), 60));
    }
    return text;
}

} // namespace

static void fields(auto& f, Row<NodeRails> /*row*/) {
    f("why", "by network, or by PCI address; empty: fewer than two ports are used", &NodeRails::why);
    f("ports", "", [](const NodeRails& rails) {
        return mapped(rails.ports, [](const auto& port) { return PortRow{port.first, port.second}; });
    });
}

static void fields(auto& f, Row<StepNetwork> /*row*/) {
    f("schema", "1", [](const StepNetwork& /*network*/) { return 1U; });
    f("nodes", "as Slurm orders them", node_rows);
}

std::string network_text(const StepNetwork& network) {
    Members known;
    Members unknown;
    for (std::size_t i = 0; i < network.nodes.size(); ++i) {
        (network.places[i] ? known : unknown).push_back(i);
    }
    auto text = format_text("{:<28}{:>6}  {}\n", "switch or block", "nodes", "names");
    text += groups_text(network, known, 0, 0);
    text += unknown.empty() ? "" : line_of(network, "(none)", unknown, 0);
    return text + rails_lines(network);
}

Json network_json(const StepNetwork& network) {
    return report_json(network);
}

Json network_schema() {
    return report_schema<StepNetwork>();
}

std::string write_rails(std::string_view node, const NodeRails& rails) {
    auto report = report_json(rails);
    report["node"] = node;
    return report.dump();
}

std::optional<std::pair<std::string, NodeRails>> read_rails(std::string_view report) {
    try {
        const auto json = Json::parse(report).value_or(Json());
        NodeRails rails{json.at("why").text(), {}};
        for (const auto& port : json.at("ports")) {
            rails.ports.emplace_back(port.at("port").text(), port.at("rail").get<unsigned>());
        }
        return std::pair(json.at("node").text(), std::move(rails));
    } catch (const JsonError&) {
        return std::nullopt;
    }
}

} // namespace rdma_nccl
