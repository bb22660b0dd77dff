// SPDX-License-Identifier: Apache-2.0
#include "lib/select/port_filters.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/fabric/pci.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

namespace rdma_nccl {

namespace {

using Names = std::vector<std::string>;

bool holds(const Names& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

/// Returns the interfaces of a port: those that its GIDs name, and those of the PCI function that belong to this port.
Names netdevs_of(const Fabric& fabric, const PortCandidate& candidate) {
    if (candidate.hca->ports.size() == 1) {
        return candidate.hca->netdevs;
    }
    Names names;
    for (const auto& name : candidate.hca->netdevs) {
        const Netdev* const netdev = fabric.find_netdev(name);
        if (netdev != nullptr && netdev->port == candidate.port->number) {
            names.push_back(name);
        }
    }
    for (const auto& gid : candidate.port->gids) {
        if (!gid.netdev.empty() && !holds(names, gid.netdev)) {
            names.push_back(gid.netdev);
        }
    }
    return names;
}

/// Open vSwitch has a single datapath for all its bridges, `ovs-system`, above their members. A bridge's own interface
/// has no links to the members.
constexpr std::string_view ovs_datapath = "ovs-system";

bool may_be_ovs_bridge(const Fabric& fabric, const std::string& name) {
    const Netdev* const netdev = fabric.find_netdev(name);
    return netdev != nullptr && netdev->lowers.empty() && netdev->upper.empty() && netdev->pci_path.empty();
}

/// Returns `name` and all interfaces below it: slaves, VLAN bases, bridge members, the VF below a netvsc interface.
Names with_lowers(const Fabric& fabric, const std::string& name) {
    Names names = {name};
    if (may_be_ovs_bridge(fabric, name)) {
        names.emplace_back(ovs_datapath);
    }
    for (std::size_t i = 0; i < names.size(); ++i) { // names grows during the loop; each name is added once
        const Netdev* const upper = fabric.find_netdev(names[i]);
        for (const auto& netdev : fabric.netdevs) {
            const bool below = netdev.upper == names[i] || (upper != nullptr && holds(upper->lowers, netdev.name));
            if (below && !holds(names, netdev.name)) {
                names.push_back(netdev.name);
            }
        }
    }
    return names;
}

/// Returns the PCI path of an HCA. For a software device, that of the interface below it.
std::string_view place_of(const Fabric& fabric, const Hca& hca) {
    if (!hca.pci_path.empty()) {
        return hca.pci_path;
    }
    for (const auto& name : hca.netdevs) {
        const Netdev* const netdev = fabric.find_netdev(name);
        if (netdev != nullptr && !netdev->pci_path.empty()) {
            return netdev->pci_path;
        }
    }
    return {};
}

// 1. Verbs-capable RoCE or InfiniBand. The link layer is not enough: iWARP and EFA report Ethernet too.

std::optional<LeftOut> device_file_fault(const Hca& hca) {
    switch (hca.device_access) {
    case DeviceAccess::NoVerbsDevice:
        return LeftOut{PortRule::NoDeviceFile, "has no verbs device: left out; load the module ib_uverbs"};
    case DeviceAccess::Missing:
        return LeftOut{PortRule::NoDeviceFile,
                       format_text("has no {} here, so verbs cannot open it: left out; in a container, mount "
                                   "/dev/infiniband",
                                   hca.device_file)};
    case DeviceAccess::Denied:
        return LeftOut{
            PortRule::NoDeviceFile,
            format_text("cannot be opened ({}: permission denied): left out; give users read and write access",
                        hca.device_file)};
    case DeviceAccess::Unknown:
    case DeviceAccess::Open:
        break;
    }
    return std::nullopt;
}

std::optional<LeftOut> verbs_fault(const PortCandidate& candidate) {
    const auto& hca = *candidate.hca;
    if (hca.node_type == "RNIC") {
        return LeftOut{PortRule::Iwarp, "is iWARP (node type RNIC), which NCCL cannot use: left out"};
    }
    if (hca.driver == "efa") {
        return LeftOut{PortRule::Efa,
                       "is EFA, which has no RoCE: left out; NCCL reaches it through the aws-ofi-nccl plugin"};
    }
    if (!hca.node_type.empty() && hca.node_type != "CA") {
        return LeftOut{PortRule::NodeType,
                       format_text("has node type '{}', neither RoCE nor InfiniBand: left out", hca.node_type)};
    }
    if (candidate.port->link_layer == LinkLayer::Unknown) {
        return LeftOut{PortRule::LinkLayer, "has neither Ethernet nor InfiniBand as link layer: left out"};
    }
    return device_file_fault(hca);
}

void keep_verbs_capable(Selection& selection) {
    for (PortCandidate* const candidate : selection.remaining()) {
        candidate->left_out = verbs_fault(*candidate);
    }
}

// 2. The port is ACTIVE: NCCL silently skips all others.

std::optional<LeftOut> state_fault(const PortCandidate& candidate) {
    const auto& port = *candidate.port;
    if (port.state == "ACTIVE") {
        return std::nullopt;
    }
    if (!candidate.hca->answers) {
        return LeftOut{PortRule::TooSlowToRead, "does not answer (its driver hangs): left out; reset the device"};
    }
    if (port.state.empty()) {
        return LeftOut{PortRule::StateUnreadable, "has a state that cannot be read: left out"};
    }
    constexpr std::array<std::string_view, 5> other_states = {"NOP", "DOWN", "INIT", "ARMED", "ACTIVE_DEFER"};
    if (std::find(other_states.begin(), other_states.end(), port.state) == other_states.end()) {
        return LeftOut{PortRule::StateUnreadable,
                       format_text("has a state that makes no sense ('{}'): left out", printable(port.state))};
    }
    if (port.state == "INIT" && !candidate.is_roce()) {
        return LeftOut{PortRule::NoSubnetManager, "is INIT: left out; no subnet manager has configured it"};
    }
    return LeftOut{PortRule::NotActive,
                   format_text("is {} ({}): left out; bring its link up", printable(port.state),
                               port.physical_state.empty() ? "physical state unknown" : port.physical_state)};
}

void keep_active(Selection& selection) {
    for (PortCandidate* const candidate : selection.remaining()) {
        candidate->left_out = state_fault(*candidate);
    }
}

// 3. On RoCE, a GID that is usable here.

void keep_with_usable_gid(Selection& selection) {
    for (PortCandidate* const candidate : selection.remaining()) {
        if (candidate->is_roce() && candidate->gid.gid == nullptr) {
            candidate->left_out = candidate->gid.problem;
        }
    }
}

// 4. A PF instead of its VFs. Containers and virtual machines do not see the PF, so their VFs are used.

bool stands_on_function(const Fabric& fabric, const Hca& hca, std::string_view pci) {
    if (hca.pci == pci) {
        return true;
    }
    // A bond's device belongs to only one of its functions; the other one is found through its interface.
    for (const auto& name : hca.netdevs) {
        for (const auto& lower : with_lowers(fabric, name)) {
            const Netdev* const netdev = fabric.find_netdev(lower);
            if (netdev != nullptr && base_name(netdev->pci_path) == pci) {
                return true;
            }
        }
    }
    return false;
}

void drop_virtual_functions(Selection& selection) {
    const auto remaining = selection.remaining();
    std::vector<std::pair<PortCandidate*, LeftOut>> dropped;
    for (PortCandidate* const candidate : remaining) {
        const auto& physical_function = candidate->hca->physical_function;
        if (physical_function.empty()) {
            continue;
        }
        for (const PortCandidate* const other : remaining) {
            if (stands_on_function(selection.fabric, *other->hca, physical_function)) {
                dropped.emplace_back(
                    candidate, LeftOut{PortRule::VirtualFunction,
                                       format_text("is a virtual function of {} ({}), which is usable itself: left out",
                                                   other->hca->name, physical_function)});
                break;
            }
        }
    }
    for (auto& [candidate, reason] : dropped) {
        candidate->left_out = std::move(reason);
    }
}

// 5. Bonds instead of their slaves.

/// Returns the remaining port that uses the bond above `slave`, or nullptr.
const PortCandidate* bond_above(const Fabric& fabric, const PortCandidate& slave,
                                const std::vector<PortCandidate*>& remaining) {
    for (const auto& name : netdevs_of(fabric, slave)) {
        const Netdev* const netdev = fabric.find_netdev(name);
        if (netdev == nullptr || netdev->upper.empty() || slave.gid.gid->netdev == netdev->upper) {
            continue; // last condition: this port uses the bond itself
        }
        for (const PortCandidate* const other : remaining) {
            const bool software_on_hardware = other->hca->pci.empty() && !slave.hca->pci.empty();
            if (other->hca != slave.hca && other->is_roce() && !software_on_hardware &&
                other->gid.gid->netdev == netdev->upper) {
                return other;
            }
        }
    }
    return nullptr;
}

void drop_bond_slaves(Selection& selection) {
    const auto remaining = selection.remaining();
    for (PortCandidate* const candidate : remaining) {
        const PortCandidate* const bond =
            candidate->is_roce() ? bond_above(selection.fabric, *candidate, remaining) : nullptr;
        if (bond != nullptr) {
            candidate->left_out =
                LeftOut{PortRule::BondSlave, format_text("is a slave of {}, which {} uses as a whole: left out",
                                                         bond->gid.gid->netdev, bond->hca->name)};
        }
    }
}

// 6. Hardware instead of software (rxe), which may use the hardware's own interface.

void drop_software(Selection& selection) {
    const auto remaining = selection.remaining();
    const auto is_software = [](const PortCandidate* candidate) {
        return candidate->hca->pci.empty() && candidate->hca->driver.empty();
    };
    if (std::all_of(remaining.begin(), remaining.end(), is_software)) {
        return;
    }
    for (PortCandidate* const candidate : remaining) {
        if (is_software(candidate)) {
            candidate->left_out =
                LeftOut{PortRule::Software, "is software (no PCI device), and the node has hardware: left out"};
        }
    }
}

// 7. One link layer: RoCE and InfiniBand cannot communicate with each other.

struct LayerWeight {
    std::size_t nearness = 0; ///< summed over the GPUs: PCI ancestors shared with the layer's nearest port
    double gbps = 0;
    friend bool operator<(const LayerWeight& a, const LayerWeight& b) {
        return std::pair(a.nearness, a.gbps) < std::pair(b.nearness, b.gbps);
    }
};

LayerWeight weigh(const Fabric& fabric, const std::vector<PortCandidate*>& remaining, LinkLayer layer) {
    LayerWeight weight;
    for (const auto& gpu : fabric.gpus) {
        std::size_t nearest = 0;
        for (const PortCandidate* const candidate : remaining) {
            if (candidate->port->link_layer == layer) {
                nearest = std::max(nearest, common_pci_ancestors(place_of(fabric, *candidate->hca), gpu.pci_path));
            }
        }
        weight.nearness += nearest;
    }
    for (const PortCandidate* const candidate : remaining) {
        if (candidate->port->link_layer == layer) {
            weight.gbps += candidate->port->believable_rate_gbps();
        }
    }
    return weight;
}

void keep_one_link_layer(Selection& selection) {
    const auto remaining = selection.remaining();
    const bool all_alike = std::all_of(remaining.begin(), remaining.end(), [&](const PortCandidate* candidate) {
        return candidate->is_roce() == remaining.front()->is_roce();
    });
    if (all_alike) {
        return;
    }
    const auto infiniband = weigh(selection.fabric, remaining, LinkLayer::InfiniBand);
    const auto ethernet = weigh(selection.fabric, remaining, LinkLayer::Ethernet);
    const bool keep_roce = infiniband < ethernet; // on a tie InfiniBand, which is never the management network
    const std::string_view why =
        infiniband.nearness == ethernet.nearness ? "are not slower in total" : "are nearer to the GPUs";
    for (PortCandidate* const candidate : remaining) {
        if (candidate->is_roce() != keep_roce) {
            candidate->left_out =
                LeftOut{PortRule::OtherLinkLayer,
                        format_text("is {}, and the node's {} ports {}: left out; NCCL cannot join both",
                                    keep_roce ? "InfiniBand" : "RoCE", keep_roce ? "RoCE" : "InfiniBand", why)};
        }
    }
}

// 8. Address class: a link-local address is used only if no port has a routable one.

bool is_link_local_only(const PortCandidate& candidate) {
    return candidate.is_roce() && candidate.gid.gid_class == GidClass::LinkLocal;
}

void drop_link_local(Selection& selection) {
    const auto remaining = selection.remaining();
    if (std::all_of(remaining.begin(), remaining.end(),
                    [](const PortCandidate* c) { return is_link_local_only(*c); })) {
        return;
    }
    for (PortCandidate* const candidate : remaining) {
        if (is_link_local_only(*candidate)) {
            candidate->left_out = candidate->gid.problem.value_or(
                LeftOut{PortRule::LinkLocal,
                        format_text("has only a link-local address ({}): left out", candidate->gid.gid->value.text())});
        }
    }
}

// 9. The top rate class; if there are ports beside GPUs, that of these ports. A port of unknown rate stays.

/// Returns the rate to keep: the highest of the ports beside a GPU if there are any, else of all ports.
double top_rate(const Selection& selection, const std::vector<PortCandidate*>& remaining) {
    double top = 0;
    double top_beside_gpu = 0;
    for (const PortCandidate* const candidate : remaining) {
        const double rate = link_gbps(selection.fabric, *candidate);
        top = std::max(top, rate);
        if (shares_switch_with_gpu(selection.fabric, *candidate->hca)) {
            top_beside_gpu = std::max(top_beside_gpu, rate);
        }
    }
    return top_beside_gpu > 0 ? top_beside_gpu : top;
}

void keep_top_rate(Selection& selection) {
    const auto remaining = selection.remaining();
    const double top = top_rate(selection, remaining);
    for (PortCandidate* const candidate : remaining) {
        const double rate = link_gbps(selection.fabric, *candidate);
        if (rate <= 0 || same_rate_class(rate, top)) {
            continue;
        }
        if (rate < top) {
            candidate->left_out =
                LeftOut{PortRule::Slower, format_text("runs at {:g} Gb/s, others at {:g} Gb/s: left out", rate, top)};
        } else {
            candidate->left_out =
                LeftOut{PortRule::Faster, format_text("runs at {:g} Gb/s, the ports beside the GPUs at {:g} Gb/s: left "
                                                      "out; hca= can name it",
                                                      rate, top)};
        }
    }
}

// 10. Not the management port: the port with the default route, unless it is right beside a GPU.

void drop_management(Selection& selection) {
    const auto remaining = selection.remaining();
    std::vector<std::pair<PortCandidate*, std::string>>
        management; // the port, and the interface with the default route
    for (PortCandidate* const candidate : remaining) {
        auto carrier = default_route_above(selection.fabric, *candidate);
        if (carrier && !shares_switch_with_gpu(selection.fabric, *candidate->hca)) {
            management.emplace_back(candidate, std::move(*carrier));
        }
    }
    if (management.size() == remaining.size()) {
        return; // otherwise no port would be left
    }
    for (const auto& [candidate, carrier] : management) {
        candidate->left_out = LeftOut{
            PortRule::Management,
            format_text("is the management port ({} has the default route): left out; hca= can name it", carrier)};
    }
}

// 11. No more ports than NCCL takes (MAX_IB_DEVS: 32 from 2.18.5 on); it silently drops the rest. Takes ports evenly
// from below each root port, so that no GPU is left without a near port.

void keep_what_nccl_takes(Selection& selection) {
    constexpr std::size_t most_ports = 32;
    auto remaining = selection.remaining();
    if (remaining.size() <= most_ports) {
        return;
    }
    std::map<std::string, std::size_t> counts; // number of ports below each root port
    std::map<const PortCandidate*, std::size_t> turns;
    for (const PortCandidate* const candidate : remaining) {
        turns[candidate] = counts[root_port_of(place_of(selection.fabric, *candidate->hca))]++;
    }
    std::stable_sort(remaining.begin(), remaining.end(),
                     [&](const PortCandidate* a, const PortCandidate* b) { return turns[a] < turns[b]; });
    for (std::size_t i = most_ports; i < remaining.size(); ++i) {
        remaining[i]->left_out = LeftOut{
            PortRule::TooMany, format_text("is one more than the {} ports that NCCL takes: left out", most_ports)};
    }
}

constexpr std::array<Filter, 11> filters = {{
    {"RoCE or InfiniBand", true, keep_verbs_capable},
    {"ACTIVE", true, keep_active},
    {"usable GID", true, keep_with_usable_gid},
    {"PF instead of its VFs", false, drop_virtual_functions},
    {"bond instead of its slaves", false, drop_bond_slaves},
    {"hardware instead of software", false, drop_software},
    {"one link layer", false, keep_one_link_layer},
    {"routable address", false, drop_link_local},
    {"top rate class", false, keep_top_rate},
    {"not the management port", false, drop_management},
    {"at most 32 ports", true, keep_what_nccl_takes},
}};

} // namespace

std::string PortCandidate::name() const {
    return format_text("{} port {}", hca->name, port->number);
}

std::vector<PortCandidate*> Selection::remaining() {
    std::vector<PortCandidate*> result;
    for (auto& candidate : candidates) {
        if (candidate.remains()) {
            result.push_back(&candidate);
        }
    }
    return result;
}

bool shares_switch_with_gpu(const Fabric& fabric, const Hca& hca) {
    return std::any_of(fabric.gpus.begin(), fabric.gpus.end(),
                       [&](const Gpu& gpu) { return share_pcie_switch(place_of(fabric, hca), gpu.pci_path); });
}

std::span<const Filter> fabric_filters() {
    return filters;
}

std::optional<std::string> default_route_above(const Fabric& fabric, const PortCandidate& candidate) {
    const auto own = netdevs_of(fabric, candidate);
    for (const auto& carrier : fabric.default_route_netdevs) {
        const auto below = with_lowers(fabric, carrier);
        if (std::any_of(own.begin(), own.end(), [&](const std::string& name) { return holds(below, name); })) {
            return carrier;
        }
    }
    return std::nullopt;
}

double link_gbps(const Fabric& fabric, const PortCandidate& candidate) {
    double slave_gbps = 0;
    if (candidate.gid.gid != nullptr) {
        const auto below = with_lowers(fabric, candidate.gid.gid->netdev);
        for (const auto& name : below) {
            const Netdev* const netdev = fabric.find_netdev(name);
            if (netdev != nullptr && holds(below, netdev->upper)) {
                slave_gbps = std::max(slave_gbps, netdev->speed_gbps);
            }
        }
    }
    return slave_gbps > 0 ? slave_gbps : candidate.port->believable_rate_gbps();
}

bool same_rate_class(double gbps_a, double gbps_b) {
    constexpr double rounding = 0.1;
    return std::abs(gbps_a - gbps_b) <= rounding * std::max(gbps_a, gbps_b);
}

} // namespace rdma_nccl
