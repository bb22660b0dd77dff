// SPDX-License-Identifier: Apache-2.0
// The filters of `hca=auto` (doc/design.md, Ports), one function each, in one table; and what follows from the ports
// that remain.
#pragma once

#include "lib/fabric.h"
#include "lib/fabric_gid.h"
#include "lib/fabric_rule.h"
#include "lib/settings.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// A port on its way through the filters.
struct Candidate {
    const Hca* hca = nullptr;
    const Port* port = nullptr;
    GidChoice gid;                   ///< empty on InfiniBand
    std::optional<LeftOut> left_out; ///< absent while the port remains

    [[nodiscard]] bool remains() const { return !left_out; }
    [[nodiscard]] bool is_roce() const { return port->link_layer == LinkLayer::Ethernet; }
    /// "mlx5_3 port 1"
    [[nodiscard]] std::string name() const;
};

struct Selection {
    const Fabric& fabric;
    const Settings& settings;
    std::vector<Candidate> candidates;

    [[nodiscard]] std::vector<Candidate*> remaining();
};

struct Filter {
    std::string_view name;
    /// Also for ports that the user named (`hca`): what this one removes cannot work. The others are only preferences.
    bool applies_to_named;
    void (*apply)(Selection&);
};

/// In the order in which they apply.
std::span<const Filter> fabric_filters();

/// Whether a PCIe switch (or one root port) joins the HCA to a GPU: a rail of the GPU fabric.
bool shares_switch_with_gpu(const Fabric& fabric, const Hca& hca);

/// The interface with the default route that the port carries: its own, or one that stands on it; else nullopt.
std::optional<std::string> default_route_above(const Fabric& fabric, const Candidate& candidate);

/// The rate of one physical link of the port in Gb/s, to compare ports by class: of a bond, that of its fastest slave.
double link_gbps(const Fabric& fabric, const Candidate& candidate);

/// Equal but for rounding.
bool same_rate_class(double gbps_a, double gbps_b);

/// What NCCL has to be told so that it takes the chosen GIDs: one index for all RoCE ports where they agree; else the
/// family and, where it helps, the range with which NCCL's own rule (2.21 or newer) finds the same entries. Sets
/// `common_gid_index`, `gid_family_is_ipv6`, `gid_range` and adds warnings. `used`: the ports in use.
void decide_gid_index(const std::vector<Candidate*>& used, const Settings& settings, FabricChoice& choice);

} // namespace rdma_nccl
