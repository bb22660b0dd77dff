// SPDX-License-Identifier: Apache-2.0
// The ports of a node on their way through the choice: each with the entry to use of its GID table, and why it is left
// out.
#pragma once

#include "lib/fabric/fabric.h"
#include "lib/select/port_selection.h"
#include "lib/select/rules.h"
#include "lib/settings/settings.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rdma_nccl {

/// Ordered from best to worst.
enum class GidClass { InPrefix, Ipv4, GlobalIpv6, LinkLocal };

struct GidChoice {
    const Gid* gid = nullptr; ///< points into the port's table; nullptr when no entry is usable
    GidClass gid_class = GidClass::LinkLocal;
    /// Why there is no entry, or only a link-local one, or none in `prefix`: "has no RoCE v2 address (only fe80::):
    /// left out; give eth3 an IPv4 address". Absent otherwise.
    std::optional<Exclusion> problem;
    std::string remedy;               ///< for a link-local entry: how to give the port a better one; else empty
    std::string doubt;                ///< for an entry that the user forced: the objection to it; else empty
    std::vector<GidVerdict> verdicts; ///< one per Gid, in the same order
};

/// Chooses the entry of a RoCE port, with the reasons against the others. Uses the settings gid, family, prefix and
/// roce.
GidChoice choose_gid(const Fabric& fabric, const Port& port, const Settings& settings);

struct PortCandidate {
    const Hca* hca = nullptr;
    const Port* port = nullptr;
    GidChoice gid{};                      ///< empty on InfiniBand
    std::optional<Exclusion> exclusion{}; ///< absent while the port remains

    void exclude(PortRule rule, std::string reason) { exclusion = Exclusion{rule, std::move(reason)}; }
    [[nodiscard]] bool remains() const { return !exclusion; }
    [[nodiscard]] bool is_roce() const { return port->link_layer == LinkLayer::Ethernet; }
    /// Returns "mlx5_3 port 1".
    [[nodiscard]] std::string name() const;
};

struct Selection {
    const Fabric& fabric;
    const Settings& settings;
    std::vector<PortCandidate> candidates;

    [[nodiscard]] std::vector<PortCandidate*> remaining();
};

/// Applies the filters of `hca=auto`; where the user named ports (`hca`), only those that tell that one cannot work.
void apply_filters(Selection& selection);

/// Decides what NCCL must be told so that it uses the chosen GIDs. If all RoCE ports have the same index, that index.
/// Else the family and, where it helps, the range with which NCCL's own rule (2.21 or newer) finds the same entries.
/// Sets `common_gid_index`, `gid_family_is_ipv6` and `gid_range`, and adds warnings. `used`: the ports in use.
void decide_gid_index(const std::vector<PortCandidate*>& used, const Settings& settings, FabricChoice& choice);

/// Returns the first names, "eth0, eth1, ...".
std::string first_names(const auto& items, std::size_t max_names) {
    std::string text;
    for (const auto& item : std::span(items).first(std::min(items.size(), max_names))) {
        text += (text.empty() ? "" : ", ") + item.name;
    }
    return items.size() > max_names ? text + ", ..." : text;
}

// Facts about a port or its HCA.

/// Returns the interfaces of a port: those that its GIDs name, and those of the PCI function that belong to this port.
std::vector<std::string> netdevs_of(const Fabric& fabric, const PortCandidate& candidate);

/// Returns `name` and all interfaces below it: slaves, VLAN bases, bridge members, the VF below a netvsc interface.
std::vector<std::string> with_lowers(const Fabric& fabric, const std::string& name);

/// Returns the PCI path of an HCA. For a software device, that of the interface below it.
std::string_view pci_path_of(const Fabric& fabric, const Hca& hca);

/// Returns true if a PCIe switch (or a root port) connects the HCA to a GPU: it is a rail of the GPU fabric.
bool shares_switch_with_gpu(const Fabric& fabric, const Hca& hca);

/// Returns the interface with the default route if the port carries it: its own interface, or one stacked on it. Else
/// nullopt.
std::optional<std::string> default_route_above(const Fabric& fabric, const PortCandidate& candidate);

/// Returns the rate of one physical link of the port in Gb/s, to compare rate classes. Of a bond: its fastest slave's.
double link_gbps(const Fabric& fabric, const PortCandidate& candidate);

/// Returns true if the rates differ by at most 10 %, as rounded rates of one class may.
bool same_rate_class(double gbps_a, double gbps_b);

} // namespace rdma_nccl
