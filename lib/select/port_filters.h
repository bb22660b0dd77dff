// SPDX-License-Identifier: Apache-2.0
// The filters of `hca=auto`, one function each, in a table; and what follows from the ports that remain.
#pragma once

#include "lib/fabric/fabric.h"
#include "lib/select/gid_selection.h"
#include "lib/select/rules.h"
#include "lib/settings/settings.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// A port that passes through the filters.
struct PortCandidate {
    const Hca* hca = nullptr;
    const Port* port = nullptr;
    GidChoice gid;                   ///< empty on InfiniBand
    std::optional<LeftOut> left_out; ///< absent while the port remains

    [[nodiscard]] bool remains() const { return !left_out; }
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

struct Filter {
    std::string_view name;
    /// True if the filter also applies to ports that the user named (`hca`): they cannot work. The other filters are
    /// only preferences.
    bool applies_to_named;
    void (*apply)(Selection&);
};

/// Returns the filters in the order in which they apply.
std::span<const Filter> fabric_filters();

/// Returns true if a PCIe switch (or a root port) connects the HCA to a GPU: it is a rail of the GPU fabric.
bool shares_switch_with_gpu(const Fabric& fabric, const Hca& hca);

/// Returns the interface with the default route if the port carries it: its own interface, or one stacked on it. Else
/// nullopt.
std::optional<std::string> default_route_above(const Fabric& fabric, const PortCandidate& candidate);

/// Returns the rate of one physical link of the port in Gb/s, to compare rate classes. For a bond, that of its fastest
/// slave.
double link_gbps(const Fabric& fabric, const PortCandidate& candidate);

/// Returns true if the rates differ by at most 10 %, as rounded rates of one class may.
bool same_rate_class(double gbps_a, double gbps_b);

/// Decides what NCCL must be told so that it uses the chosen GIDs. If all RoCE ports have the same index, that index.
/// Else the family and, where it helps, the range with which NCCL's own rule (2.21 or newer) finds the same entries.
/// Sets `common_gid_index`, `gid_family_is_ipv6` and `gid_range`, and adds warnings. `used`: the ports in use.
void decide_gid_index(const std::vector<PortCandidate*>& used, const Settings& settings, FabricChoice& choice);

} // namespace rdma_nccl
