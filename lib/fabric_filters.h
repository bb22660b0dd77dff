// SPDX-License-Identifier: Apache-2.0
// The ten filters of `hca=auto` (design section 6), one function each, in one table.
#pragma once

#include "lib/fabric.h"
#include "lib/fabric_gid.h"
#include "lib/settings.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// A port on its way through the filters.
struct Candidate {
    const Hca* hca = nullptr;
    const Port* port = nullptr;
    GidChoice gid;             ///< empty on InfiniBand
    std::string left_out;      ///< a predicate, "is DOWN (Disabled): left out; ..."; empty while the port remains
    bool looks_faulty = false; ///< left out although it is ACTIVE: someone probably forgot its address

    [[nodiscard]] bool remains() const { return left_out.empty(); }
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

/// The rate of one physical link of the port in Gb/s, to compare ports by class: of a bond, that of its fastest slave.
double link_gbps(const Fabric& fabric, const Candidate& candidate);

/// Equal but for rounding.
bool same_rate_class(double gbps_a, double gbps_b);

} // namespace rdma_nccl
