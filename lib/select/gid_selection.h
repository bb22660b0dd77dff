// SPDX-License-Identifier: Apache-2.0
// Chooses the entry to use in a port's GID table, with the reasons against the others.
#pragma once

#include "lib/fabric/fabric.h"
#include "lib/select/port_selection.h"
#include "lib/select/rules.h"
#include "lib/settings/settings.h"

#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// Ordered from best to worst.
enum class GidClass { InPrefix, Ipv4, GlobalIpv6, LinkLocal };

struct GidChoice {
    const Gid* gid = nullptr; ///< points into the port's table; nullptr when no entry is usable
    GidClass gid_class = GidClass::LinkLocal;
    /// Why there is no entry, or only a link-local one: "has no RoCE v2 address (only fe80::): left out; give eth3 an
    /// IPv4 address". Absent otherwise.
    std::optional<LeftOut> problem;
    std::string remedy;               ///< for a link-local entry: how to give the port a better one; else empty
    std::string doubt;                ///< for an entry that the user forced: the objection to it; else empty
    std::vector<GidVerdict> verdicts; ///< one per Gid, in the same order
};

/// Chooses the entry of a RoCE port. Uses the settings gid, family, prefix and roce.
GidChoice choose_gid(const Fabric& fabric, const Port& port, const Settings& settings);

/// Returns the version that the user asked for: "RoCE v2".
std::string roce_version_text(const Settings& settings);

} // namespace rdma_nccl
