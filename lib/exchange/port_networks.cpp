// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/exchange/agreement.h"
#include "lib/select/rails.h"

#include <algorithm>
#include <map>
#include <set>

namespace rdma_nccl {

namespace {

/// Returns the network of a port's address, which other ports may be in.
std::optional<IpPrefix> network_of(const ReportedPort& port) {
    return port.address ? network_of(*port.address) : std::nullopt;
}

/// Returns the networks of its ports, in their order; none if a port has no network.
std::vector<std::string> networks_if_all(const NodeNetworks& node) {
    return contains(node.networks, std::string()) ? std::vector<std::string>() : node.networks;
}

/// Returns the ports whose networks are others than `usual`, by position: "mlx5_2:1 in 10.3.0.0/16, mlx5_3:1 in ...".
std::string moved_ports(const std::vector<std::string>& ports, const std::vector<std::string>& networks,
                        const std::vector<std::string>& usual) {
    constexpr std::size_t most_named = 4;
    std::vector<std::string> moved;
    for (std::size_t i = 0; i < networks.size(); ++i) {
        if (networks[i] != usual[i]) {
            moved.push_back(format_text("{} in {}", ports[i], networks[i]));
        }
    }
    return joined_some(moved, most_named);
}

/// The nodes with ports in the same networks, by the order of these.
using NodesByOrder = std::map<std::vector<std::string>, std::vector<std::size_t>>;
/// These by the networks in any order: sorted.
using ByNetworks = std::map<std::vector<std::string>, NodesByOrder>;

constexpr std::string_view crossing = "so NCCL may connect HCAs of different rails: are cables or addresses swapped?";

std::size_t count_nodes(const NodesByOrder& nodes_by_order) {
    std::size_t count = 0;
    for (const auto& [order, nodes] : nodes_by_order) {
        count += nodes.size();
    }
    return count;
}

/// The order of some networks, and the nodes that have it.
struct UsualOrder {
    std::vector<std::string> order;
    const std::vector<std::size_t>* nodes = nullptr;
};

/// Names the nodes whose order is another one.
std::vector<Finding> name_others(std::span<const NodeNetworks> all, const NodesByOrder& nodes_by_order,
                                 const UsualOrder& usual) {
    std::map<std::string, std::vector<std::string>> nodes_by_text;
    for (const auto& [order, nodes] : nodes_by_order) {
        for (const auto i : order == usual.order ? std::vector<std::size_t>() : nodes) {
            nodes_by_text[moved_ports(all[i].ports, order, usual.order)].push_back(all[i].node);
        }
    }
    const auto others = usual.nodes->size() == 1 ? all[usual.nodes->front()].node + " has"
                                                 : format_count(usual.nodes->size(), "node") + " have";
    return mapped(nodes_by_text, [&others](const auto& entry) {
        return Finding{entry.second,
                       format_text("{}; {} these networks in another order, {}", entry.first, others, crossing), false};
    });
}

/// Names the nodes whose order is not that of most; all if there is no such order.
std::vector<Finding> compare_orders(std::span<const NodeNetworks> all, const NodesByOrder& nodes_by_order) {
    const auto& [usual, usual_nodes] = *most_common(nodes_by_order);
    const auto count = count_nodes(nodes_by_order);
    if (2 * usual_nodes.size() > count || count <= 2) {
        return name_others(all, nodes_by_order, {usual, &usual_nodes});
    }
    std::vector<std::string> names;
    for (const auto& [order, nodes] : nodes_by_order) {
        append(names, mapped(nodes, [&all](std::size_t i) { return all[i].node; }));
    }
    return {{std::move(names),
             format_text("their HCAs are in the same networks, in {} orders, {}", nodes_by_order.size(), crossing),
             false}};
}

/// For each network: the entries of ByNetworks that have it and two nodes or more. May be empty.
using SharedByNetwork = std::map<std::string_view, std::vector<const ByNetworks::value_type*>>;

SharedByNetwork index_shared(const ByNetworks& by_networks) {
    SharedByNetwork shared;
    for (const auto& entry : by_networks) {
        for (const auto& network : entry.first) {
            auto& entries = shared[network];
            if (count_nodes(entry.second) > 1) {
                entries.push_back(&entry);
            }
        }
    }
    return shared;
}

/// Returns the order in which a greater number of nodes, most of those with the same networks, have these networks
/// among others. Not where several of their ports are in one network: which of them the node lacks is not known.
/// Looks only at the nodes in the rarest of them: few, also where each of 5,000 pairs has a network of its own.
std::optional<UsualOrder> order_among_more(const SharedByNetwork& shared, const std::vector<std::string>& networks,
                                           std::size_t own_count) {
    if (networks.empty()) {
        return std::nullopt;
    }
    const auto& rarest = *std::ranges::min_element(
        networks, {}, [&shared](const std::string& network) { return shared.at(network).size(); });
    std::optional<UsualOrder> found;
    for (const auto* const entry : shared.at(rarest)) {
        const auto& [more, nodes_by_order] = *entry;
        if (more.size() <= networks.size() ||
            !std::includes(more.begin(), more.end(), networks.begin(), networks.end())) {
            continue;
        }
        const auto& [order, nodes] = *most_common(nodes_by_order);
        const auto is_here = [&networks](const std::string& network) { return contains(networks, network); };
        auto usual = UsualOrder{selected(order, is_here), &nodes};
        if (usual.order.size() == networks.size() && 2 * nodes.size() > count_nodes(nodes_by_order) &&
            nodes.size() > (found ? found->nodes->size() : own_count)) {
            found = std::move(usual);
        }
    }
    return found;
}

} // namespace

std::vector<std::vector<std::string>> find_isolated_ports(std::span<const NodeReport> reports,
                                                          std::vector<Finding>& findings) {
    std::map<std::string, std::set<std::size_t>> nodes_by_network;
    for (std::size_t i = 0; i < reports.size(); ++i) {
        for (const auto& port : reports[i].ports) {
            if (const auto network = network_of(port)) {
                nodes_by_network[network->text()].insert(i);
            }
        }
    }
    std::vector<std::vector<std::string>> isolated(reports.size());
    for (std::size_t i = 0; i < reports.size(); ++i) {
        std::size_t neighbours = 0;
        std::vector<Finding> alone;
        std::vector<std::string> names;
        for (const auto& port : reports[i].ports) {
            const auto network = network_of(port);
            if (!network || is_point_to_point(*network)) {
                continue;
            }
            if (nodes_by_network[network->text()].size() > 1) {
                ++neighbours;
                continue;
            }
            names.push_back(port_name(port.hca, port.port));
            alone.push_back({{reports[i].node},
                             format_text("{} ({}): no other node uses a port in that network, so it reaches none: left "
                                         "out",
                                         names.back(), network->text())});
        }
        if (alone.size() <= neighbours) { // else its rails are routed, beside a network that is not
            isolated[i] = std::move(names);
            append(findings, std::move(alone));
        }
    }
    return isolated;
}

std::vector<NodeNetworks> networks_of(std::span<const NodeReport> reports) {
    return mapped(reports, [](const NodeReport& report) {
        NodeNetworks node{report.node, {}, {}};
        for (const auto& port : report.ports) {
            const auto network = network_of(port);
            node.ports.push_back(port_name(port.hca, port.port));
            node.networks.push_back(network ? network->text() : "");
        }
        return node;
    });
}

std::vector<Finding> find_crossed_rails(std::span<const NodeNetworks> nodes) {
    ByNetworks by_networks;
    std::set<std::string_view> seen; // a node in two components of a heterogeneous step is there twice
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        if (seen.insert(nodes[i].node).second) {
            auto networks = networks_if_all(nodes[i]);
            auto sorted = networks;
            std::ranges::sort(sorted);
            by_networks[std::move(sorted)][std::move(networks)].push_back(i);
        }
    }
    const auto shared = index_shared(by_networks);
    std::vector<Finding> findings;
    for (const auto& [networks, nodes_by_order] : by_networks) {
        if (const auto usual = order_among_more(shared, networks, count_nodes(nodes_by_order))) {
            append(findings, name_others(nodes, nodes_by_order, *usual));
        } else if (nodes_by_order.size() > 1) {
            append(findings, compare_orders(nodes, nodes_by_order));
        }
    }
    return findings;
}

} // namespace rdma_nccl
