// SPDX-License-Identifier: Apache-2.0
// The filters of `hca=auto`, one function each, in a table.
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/select/candidates.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

namespace rdma_nccl {

namespace {

/// The candidates that the filters before have left.
using Ports = std::vector<PortCandidate*>;

/// Returns the ports that `unwanted` holds for; none if it holds for all, as no port would be left.
Ports unwanted_among(const Ports& ports, auto unwanted) {
    const auto found = selected(ports, [&](const PortCandidate* port) { return unwanted(*port); });
    return found.size() == ports.size() ? Ports() : found;
}

/// `problem`: "state: Input/output error".
void exclude_unreadable(PortCandidate& candidate, std::string_view problem) {
    candidate.exclude(PortRule::StateUnreadable,
                      format_text("cannot be read ({}): left out; look for its driver in the kernel log", problem));
}

// 1. Verbs-capable RoCE or InfiniBand. The link layer is not enough: iWARP and EFA report Ethernet too.

void keep_verbs_capable(const Fabric& /*fabric*/, const Ports& remaining) {
    for (PortCandidate* const candidate : remaining) {
        const auto& hca = *candidate->hca;
        if (hca.node_type == "RNIC") {
            candidate->exclude(PortRule::Iwarp, "is iWARP (node type RNIC), which NCCL cannot use: left out");
        } else if (hca.driver == "efa") {
            candidate->exclude(PortRule::Efa,
                               "is EFA, which has no RoCE: left out; NCCL reaches it through the aws-ofi-nccl plugin");
        } else if (!hca.node_type.empty() && hca.node_type != "CA") {
            candidate->exclude(PortRule::NodeType,
                               format_text("has node type '{}', neither RoCE nor InfiniBand: left out", hca.node_type));
        } else if (const auto problem = candidate->port->problem_with("link_layer"); !problem.empty()) {
            exclude_unreadable(*candidate, problem);
        } else if (candidate->port->link_layer == LinkLayer::Unknown) {
            candidate->exclude(PortRule::LinkLayer, "has neither Ethernet nor InfiniBand as link layer: left out");
        } else if (hca.device_access == DeviceAccess::NoVerbsDevice) {
            candidate->exclude(PortRule::NoDeviceFile, "has no verbs device: left out; load the module ib_uverbs");
        } else if (hca.device_access == DeviceAccess::Missing) {
            candidate->exclude(PortRule::NoDeviceFile,
                               format_text("has no {} here, so verbs cannot open it: left out; in a container, mount "
                                           "/dev/infiniband",
                                           hca.device_file));
        } else if (hca.device_access == DeviceAccess::Denied) {
            candidate->exclude(PortRule::NoDeviceFile,
                               format_text("cannot be opened ({}: permission denied): left out; "
                                           "give users read and write access",
                                           hca.device_file));
        }
    }
}

// 2. The port is ACTIVE: NCCL silently skips all others.

void keep_active(const Fabric& /*fabric*/, const Ports& remaining) {
    constexpr std::array<std::string_view, 5> other_states = {"NOP", "DOWN", "INIT", "ARMED", "ACTIVE_DEFER"};
    for (PortCandidate* const candidate : remaining) {
        const auto& port = *candidate->port;
        if (port.state == "ACTIVE") {
            continue;
        }
        if (!candidate->hca->answers) {
            candidate->exclude(PortRule::TooSlowToRead,
                               "does not answer (its driver hangs): left out; reset the device");
        } else if (port.state.empty()) {
            const auto problem = port.problem_with("state");
            exclude_unreadable(*candidate, problem.empty() ? "state: empty" : problem);
        } else if (!contains(other_states, port.state)) {
            candidate->exclude(PortRule::StateUnreadable,
                               format_text("has a state that makes no sense ('{}'): left out", printable(port.state)));
        } else if (port.state == "INIT" && !candidate->is_roce()) {
            candidate->exclude(PortRule::NoSubnetManager, "is INIT: left out; no subnet manager has configured it");
        } else {
            candidate->exclude(
                PortRule::NotActive,
                format_text("is {} ({}): left out; bring its link up", printable(port.state),
                            port.physical_state.empty() ? "physical state unknown" : port.physical_state));
        }
    }
}

// 3. On RoCE, a GID that is usable here.

void keep_with_usable_gid(const Fabric& /*fabric*/, const Ports& remaining) {
    for (PortCandidate* const candidate : remaining) {
        if (candidate->is_roce() && candidate->gid.gid == nullptr) {
            candidate->exclusion = candidate->gid.problem;
        }
    }
}

// 4. The network that the user or the site asks for. InfiniBand ports have no address to judge them by; RoCE ports with
// only a link-local one are left to the filter for these.

void keep_prefix(const Fabric& /*fabric*/, const Ports& remaining) {
    if (std::ranges::none_of(remaining, [](const auto* port) { return port->gid.gid_class == GidClass::InPrefix; })) {
        return;
    }
    for (PortCandidate* const candidate : remaining) {
        if (candidate->gid.problem && candidate->gid.problem->rule == PortRule::OutsidePrefix) {
            candidate->exclusion = candidate->gid.problem;
        }
    }
}

// 5. A PF instead of its VFs. Containers and virtual machines do not see the PF, so their VFs are used.

bool stands_on_function(const Fabric& fabric, const Hca& hca, std::string_view pci) {
    if (hca.pci == pci) {
        return true;
    }
    // A bond's device belongs to only one of its functions; the other one is found through its interface.
    return std::ranges::any_of(hca.netdevs, [&](const auto& name) {
        return std::ranges::any_of(with_lowers(fabric, name), [&](const auto& lower) {
            const Netdev* const netdev = fabric.find_netdev(lower);
            return netdev != nullptr && base_name(netdev->pci_path) == pci;
        });
    });
}

void drop_virtual_functions(const Fabric& fabric, const Ports& remaining) {
    for (PortCandidate* const candidate : remaining) {
        const auto& physical_function = candidate->hca->physical_function;
        if (physical_function.empty()) {
            continue;
        }
        const auto physical = std::ranges::find_if(remaining, [&](const PortCandidate* other) {
            return stands_on_function(fabric, *other->hca, physical_function);
        });
        if (physical != remaining.end()) {
            candidate->exclude(PortRule::VirtualFunction,
                               format_text("is a virtual function of {} ({}), which is usable itself: left out",
                                           (*physical)->hca->name, physical_function));
        }
    }
}

// 6. Bonds instead of their slaves.

/// Returns the remaining port that uses the bond above `slave`, or nullptr.
const PortCandidate* bond_above(const Fabric& fabric, const PortCandidate& slave, const Ports& remaining) {
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

void drop_bond_slaves(const Fabric& fabric, const Ports& remaining) {
    for (PortCandidate* const candidate : remaining) {
        const PortCandidate* const bond = candidate->is_roce() ? bond_above(fabric, *candidate, remaining) : nullptr;
        if (bond != nullptr) {
            candidate->exclude(PortRule::BondSlave, format_text("is a slave of {}, which {} uses as a whole: left out",
                                                                bond->gid.gid->netdev, bond->hca->name));
        }
    }
}

// 7. Hardware instead of software (rxe), which may use the hardware's own interface.

void drop_software(const Fabric& /*fabric*/, const Ports& remaining) {
    const auto is_software = [](const PortCandidate& port) {
        return port.hca->pci.empty() && port.hca->driver.empty();
    };
    for (PortCandidate* const candidate : unwanted_among(remaining, is_software)) {
        candidate->exclude(PortRule::Software, "is software (no PCI device), and the node has hardware: left out");
    }
}

// 8. One link layer: RoCE and InfiniBand cannot communicate with each other.

struct LayerWeight {
    std::size_t nearness = 0; ///< summed over the GPUs: PCI ancestors shared with the layer's nearest port
    double gbps = 0;
};

LayerWeight weigh(const Fabric& fabric, const Ports& remaining, LinkLayer layer) {
    const auto ports = selected(remaining, [&](const PortCandidate* port) { return port->port->link_layer == layer; });
    LayerWeight weight;
    for (const auto& gpu : fabric.gpus) {
        const auto above = pci_ancestors(gpu.pci_path);
        std::size_t nearest = 0;
        for (const PortCandidate* const port : ports) {
            nearest = std::max(nearest, common_pci_ancestors(pci_ancestors(pci_path_of(fabric, *port->hca)), above));
        }
        weight.nearness += nearest;
    }
    for (const PortCandidate* const port : ports) {
        weight.gbps += port->port->believable_rate_gbps();
    }
    return weight;
}

void keep_one_link_layer(const Fabric& fabric, const Ports& remaining) {
    if (std::ranges::all_of(remaining, [&](const auto* port) { return port->is_roce() == remaining[0]->is_roce(); })) {
        return;
    }
    const auto infiniband = weigh(fabric, remaining, LinkLayer::InfiniBand);
    const auto ethernet = weigh(fabric, remaining, LinkLayer::Ethernet);
    // On a tie InfiniBand, which is never the management network.
    const bool keep_roce = std::tie(infiniband.nearness, infiniband.gbps) < std::tie(ethernet.nearness, ethernet.gbps);
    const std::string_view why =
        infiniband.nearness == ethernet.nearness ? "are not slower in total" : "are nearer to the GPUs";
    for (PortCandidate* const candidate : remaining) {
        if (candidate->is_roce() != keep_roce) {
            candidate->exclude(PortRule::OtherLinkLayer,
                               format_text("is {}, and the node's {} ports {}: left out; NCCL cannot join both",
                                           keep_roce ? "InfiniBand" : "RoCE", keep_roce ? "RoCE" : "InfiniBand", why));
        }
    }
}

// 9. Address class: a link-local address is used only if no port has a routable one.

void drop_link_local(const Fabric& /*fabric*/, const Ports& remaining) {
    const auto is_link_local_only = [](const PortCandidate& port) {
        return port.is_roce() && port.gid.gid_class == GidClass::LinkLocal;
    };
    for (PortCandidate* const candidate : unwanted_among(remaining, is_link_local_only)) {
        candidate->exclusion = candidate->gid.problem.value_or(
            Exclusion{PortRule::LinkLocal,
                      format_text("has only a link-local address ({}): left out", candidate->gid.gid->value.text())});
    }
}

// 10. The top rate class; if there are ports beside GPUs, that of these ports. A port of unknown rate stays.

/// Returns the rate to keep: the highest of the ports beside a GPU if there are any, else of all ports.
double top_rate(const Fabric& fabric, const Ports& remaining) {
    double top = 0;
    double top_beside_gpu = 0;
    for (const PortCandidate* const candidate : remaining) {
        const double rate = link_gbps(fabric, *candidate);
        top = std::max(top, rate);
        if (shares_switch_with_gpu(fabric, *candidate->hca)) {
            top_beside_gpu = std::max(top_beside_gpu, rate);
        }
    }
    return top_beside_gpu > 0 ? top_beside_gpu : top;
}

void keep_top_rate(const Fabric& fabric, const Ports& remaining) {
    const double top = top_rate(fabric, remaining);
    for (PortCandidate* const candidate : remaining) {
        const double rate = link_gbps(fabric, *candidate);
        const bool same = rate <= 0 || same_rate_class(rate, top);
        if (!same && rate < top) {
            candidate->exclude(PortRule::Slower,
                               format_text("runs at {:g} Gb/s, others at {:g} Gb/s: left out", rate, top));
        } else if (!same) {
            candidate->exclude(PortRule::Faster,
                               format_text("runs at {:g} Gb/s, the ports beside the GPUs at {:g} Gb/s: left out; hca= "
                                           "can name it",
                                           rate, top));
        }
    }
}

// 11. Not the management port: the port with the default route, unless it is right beside a GPU.

void drop_management(const Fabric& fabric, const Ports& remaining) {
    const auto is_management = [&](const PortCandidate& port) {
        return default_route_above(fabric, port) && !shares_switch_with_gpu(fabric, *port.hca);
    };
    for (PortCandidate* const candidate : unwanted_among(remaining, is_management)) {
        candidate->exclude(PortRule::Management,
                           format_text("is the management port ({} has the default route): left out; hca= can name it",
                                       default_route_above(fabric, *candidate).value_or("")));
    }
}

// 12. No more ports than NCCL takes (MAX_IB_DEVS: 32 from 2.18.5 on); it silently drops the rest. Takes ports evenly
// from below each root port, so that no GPU is left without a near port.

void keep_what_nccl_takes(const Fabric& fabric, const Ports& remaining) {
    constexpr std::size_t max_ports = 32;
    if (remaining.size() <= max_ports) {
        return;
    }
    std::map<std::string, std::size_t> counts; // number of ports below each root port
    std::map<const PortCandidate*, std::size_t> turns;
    for (const PortCandidate* const candidate : remaining) {
        turns[candidate] = counts[root_port_of(pci_path_of(fabric, *candidate->hca))]++;
    }
    Ports in_turn = remaining;
    std::ranges::stable_sort(in_turn, {}, [&](const PortCandidate* port) { return turns[port]; });
    for (std::size_t i = max_ports; i < in_turn.size(); ++i) {
        in_turn[i]->exclude(PortRule::TooMany,
                            format_text("is one more than the {} ports that NCCL takes: left out", max_ports));
    }
}

struct Filter {
    void (*apply)(const Fabric&, const Ports&);
    /// True if the filter also applies to ports that the user named (`hca`): they cannot work. The other filters are
    /// only preferences.
    bool applies_to_named;
};

/// In the order in which they apply.
constexpr std::array<Filter, 12> filters = {{
    {keep_verbs_capable, true},
    {keep_active, true},
    {keep_with_usable_gid, true},
    {keep_prefix, false},
    {drop_virtual_functions, false},
    {drop_bond_slaves, false},
    {drop_software, false},
    {keep_one_link_layer, false},
    {drop_link_local, false},
    {keep_top_rate, false},
    {drop_management, false},
    {keep_what_nccl_takes, true},
}};

} // namespace

void apply_filters(Selection& selection) {
    const auto& wanted = selection.settings.hca;
    for (const auto& filter : filters) {
        if (filter.applies_to_named || wanted.is_auto() || wanted.exclude) {
            filter.apply(selection.fabric, selection.remaining());
        }
    }
}

} // namespace rdma_nccl
