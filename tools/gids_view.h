// SPDX-License-Identifier: Apache-2.0
// What `rdma-nccl gids` shows, whatever the form: the ports and GIDs that pass its filters, each with what was decided.
#pragma once

#include "lib/fabric.h"
#include "lib/fabric_choice.h"
#include "lib/settings.h"

#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// What to show; everything by default. The filters only hide: what is decided does not depend on them.
struct GidsFilter {
    std::string device = {}; ///< empty: all
    std::optional<unsigned> port = {};
    std::optional<RoceVersion> version = {}; ///< no entry of an InfiniBand port has one
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
    std::vector<HcaView> hcas; ///< in the order of the fabric; one without any port is there unless a port is asked for
    std::vector<std::string> warnings; ///< those on ports that are shown, and the general ones
};

/// Refers into `fabric` and `choice`, which is the choice on that fabric.
GidsView view_gids(const Fabric& fabric, const FabricChoice& choice, const GidsFilter& filter = {});

/// Why a filter cannot be right: it names a device or port that is not there. Empty when it can.
std::string filter_fault(const Fabric& fabric, const GidsFilter& filter);

/// "RoCE v2", "RoCE v1", "IB" (where the kernel's file says "IB/RoCE v1") or "unknown".
std::string gid_type_text(const Port& port, const Gid& gid);

/// The interface of a port: that of the entry it would use, else of its first address, else of its PCI function; empty
/// when there is none. A bond comes before its slaves in this way.
std::string interface_of(const Fabric& fabric, const PortView& view);

} // namespace rdma_nccl
