// SPDX-License-Identifier: Apache-2.0
// The content of `rdma-nccl gids` for all formats: the ports and GIDs that pass the filters, with the decision about
// each.
#pragma once

#include "lib/fabric/fabric.h"
#include "lib/select/port_selection.h"
#include "lib/settings/settings.h"

#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// What to show; by default everything. Filters only hide entries and do not change decisions.
struct GidsFilter {
    std::string device = {}; ///< empty: all
    std::optional<unsigned> port = {};
    std::optional<RoceVersion> version = {}; ///< entries of InfiniBand ports have no version
    FamilyChoice family = FamilyChoice::Auto;
};

struct GidView {
    const Gid& gid;
    const GidVerdict& verdict;
};

struct PortView {
    const Hca& hca;
    const Port& port;
    const PortChoice& choice;
    std::vector<GidView> gids; ///< by index
};

struct HcaView {
    const Hca& hca;
    std::vector<PortView> ports;
};

struct GidsView {
    const Fabric& fabric;
    const FabricChoice& choice;
    std::vector<HcaView> hcas;         ///< in the fabric's order; HCAs without ports too, unless a port is asked for
    std::vector<std::string> warnings; ///< about shown ports, and general ones
};

/// Returns a view that refers to `fabric` and to `choice`, which must be the choice for that fabric.
GidsView view_gids(const Fabric& fabric, const FabricChoice& choice, const GidsFilter& filter = {});

/// Returns an error message if the filter names a device or port that does not exist; else an empty text.
std::string filter_fault(const Fabric& fabric, const GidsFilter& filter);

/// Returns "RoCE v2", "RoCE v1", "IB" (for which the kernel's file says "IB/RoCE v1") or "unknown".
std::string gid_type_text(const Port& port, const Gid& gid);

/// Returns the interface of a port: that of the entry it would use, else that of its first GID with one, else that of
/// its PCI function; empty if there is none. So a bond comes before its slaves.
std::string interface_of(const Fabric& fabric, const PortView& view);

} // namespace rdma_nccl
