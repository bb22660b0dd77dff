// SPDX-License-Identifier: Apache-2.0
#include "tools/pairs_node.h"

#include "lib/format.h"
#include "lib/traffic_netdevs.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace rdma_nccl {

namespace {

const Port* find_port(const Hca& hca, unsigned number) {
    const auto found =
        std::find_if(hca.ports.begin(), hca.ports.end(), [number](const Port& port) { return port.number == number; });
    return found == hca.ports.end() ? nullptr : &*found;
}

/// On InfiniBand the interface is IPoIB's, on the same PCI function and port.
std::string netdev_of(const Fabric& fabric, const Hca& hca, const Port& port, const Gid* gid) {
    if (gid != nullptr && !gid->netdev.empty()) {
        return gid->netdev;
    }
    const auto found = std::find_if(hca.netdevs.begin(), hca.netdevs.end(), [&](const std::string& name) {
        const Netdev* const netdev = fabric.find_netdev(name);
        return hca.ports.size() == 1 || (netdev != nullptr && netdev->port == port.number);
    });
    return found == hca.netdevs.end() ? "" : *found;
}

/// The address that the GID was made from, else the first that other nodes can reach.
std::string address_of(const Netdev& netdev, const Gid* gid) {
    const InterfaceAddress* best = nullptr;
    for (const auto& entry : netdev.addresses) {
        if (gid != nullptr && entry.address == gid->value && entry.address.is_routable()) {
            return entry.address.text();
        }
        best = best == nullptr && entry.address.is_routable() ? &entry : best;
    }
    return best == nullptr ? "" : best->address.text();
}

PairRail rail_of(const Fabric& fabric, const Hca& hca, const Port& port, const PortChoice& choice) {
    PairRail rail;
    rail.hca = hca.name;
    rail.port = port.number;
    rail.ethernet = port.link_layer == LinkLayer::Ethernet;
    rail.gid_index = choice.gid_index.value_or(0);
    const auto gid = std::find_if(port.gids.begin(), port.gids.end(),
                                  [&rail](const Gid& entry) { return entry.index == rail.gid_index; });
    const Gid* const used = gid == port.gids.end() ? nullptr : &*gid;
    if (used != nullptr) {
        rail.gid = used->value.is_ipv4() ? "::ffff:" + used->value.text() : used->value.text();
    }
    rail.rate_gbps = port.believable_rate_gbps();
    rail.netdev = netdev_of(fabric, hca, port, used);
    if (const Netdev* const netdev = fabric.find_netdev(rail.netdev)) {
        rail.netdev_mtu = netdev->mtu;
        rail.address = address_of(*netdev, used);
    }
    rail.numa_node = hca.numa_node;
    rail.local_cpus = hca.local_cpus.list();
    rail.software = is_software(hca);
    return rail;
}

std::string why_none(const Fabric& fabric, const FabricChoice& choice) {
    if (fabric.hcas.empty()) {
        return "no RDMA device";
    }
    const auto& first = fabric.hcas.front();
    return fabric.hcas.size() == 1 ? format_text("{} {}", first.name, choice.reason_for(first.name))
                                   : format_text("none of {} RDMA devices is usable: {} {}", fabric.hcas.size(),
                                                 first.name, choice.reason_for(first.name));
}

nlohmann::json rail_json(const PairRail& rail) {
    nlohmann::json json = {{"hca", rail.hca},           {"port", rail.port},
                           {"ethernet", rail.ethernet}, {"gid_index", rail.gid_index},
                           {"gid", rail.gid},           {"rate_gbps", rail.rate_gbps},
                           {"netdev", rail.netdev},     {"netdev_mtu", rail.netdev_mtu},
                           {"address", rail.address},   {"local_cpus", rail.local_cpus},
                           {"software", rail.software}};
    if (rail.numa_node) {
        json["numa_node"] = *rail.numa_node;
    }
    return json;
}

PairRail read_rail(const nlohmann::json& json) {
    PairRail rail;
    json.at("hca").get_to(rail.hca);
    json.at("port").get_to(rail.port);
    json.at("ethernet").get_to(rail.ethernet);
    json.at("gid_index").get_to(rail.gid_index);
    json.at("gid").get_to(rail.gid);
    json.at("rate_gbps").get_to(rail.rate_gbps);
    json.at("netdev").get_to(rail.netdev);
    json.at("netdev_mtu").get_to(rail.netdev_mtu);
    json.at("address").get_to(rail.address);
    json.at("local_cpus").get_to(rail.local_cpus);
    json.at("software").get_to(rail.software);
    if (json.contains("numa_node")) {
        rail.numa_node = json["numa_node"].get<int>();
    }
    return rail;
}

} // namespace

PairNode pair_node(const Fabric& fabric, const FabricChoice& choice, std::string name) {
    PairNode node;
    node.name = std::move(name);
    for (const PortChoice* const used : choice.used()) {
        const Hca* const hca = fabric.find_hca(used->hca);
        const Port* const port = hca == nullptr ? nullptr : find_port(*hca, used->port);
        if (port != nullptr) {
            node.rails.push_back(rail_of(fabric, *hca, *port, *used));
        }
    }
    if (node.rails.empty()) {
        node.problem = why_none(fabric, choice);
    }
    return node;
}

std::vector<std::optional<unsigned>> rail_gpus(const NodePlacement& placed, const PairNode& node) {
    const auto& ranks = placed.placement.ranks;
    std::vector<unsigned> all;
    for (const auto& rank : ranks) {
        if (!rank.gpus.empty()) {
            all.push_back(static_cast<unsigned>(rank.gpus.front()));
        }
    }
    std::vector<std::optional<unsigned>> gpus;
    for (const auto& rail : node.rails) {
        const auto near = std::find_if(ranks.begin(), ranks.end(), [&](const RankPlacement& rank) {
            return !rank.gpus.empty() && !rank.hcas.empty() && rank.hcas.front() < placed.ports.size() &&
                   placed.ports[rank.hcas.front()] == rail_name(rail);
        });
        if (near != ranks.end()) {
            gpus.emplace_back(static_cast<unsigned>(near->gpus.front()));
        } else {
            gpus.push_back(all.empty() ? std::nullopt : std::optional<unsigned>(all[gpus.size() % all.size()]));
        }
    }
    return gpus;
}

nlohmann::json node_json(const PairNode& node) {
    auto rails = nlohmann::json::array();
    for (const auto& rail : node.rails) {
        rails.push_back(rail_json(rail));
    }
    return {{"name", node.name}, {"rails", std::move(rails)}, {"problem", node.problem}};
}

Result<PairNode> read_pair_node(const nlohmann::json& json) {
    try {
        PairNode node;
        json.at("name").get_to(node.name);
        json.at("problem").get_to(node.problem);
        for (const auto& rail : json.at("rails")) {
            node.rails.push_back(read_rail(rail));
        }
        return node;
    } catch (const nlohmann::json::exception& fault) {
        return fail(format_text("it says of itself what this version does not understand ({})", fault.what()));
    }
}

std::string rail_name(const PairRail& rail) {
    return format_text("{}:{}", rail.hca, rail.port);
}

} // namespace rdma_nccl
