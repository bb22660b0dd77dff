// SPDX-License-Identifier: Apache-2.0
// Which entry of one port's GID table is the one to use, and why not the others (doc/design.md, GIDs).
#pragma once

#include "lib/fabric.h"
#include "lib/fabric_choice.h"
#include "lib/fabric_rule.h"
#include "lib/settings.h"

#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// Best first.
enum class GidClass { InPrefix, Ipv4, GlobalIpv6, LinkLocal };

struct GidChoice {
    const Gid* gid = nullptr; ///< into the port's table; nullptr when no entry is usable
    GidClass gid_class = GidClass::LinkLocal;
    /// Why there is none, or none but a link-local one: "has no RoCE v2 address (only fe80::): left out; give eth3 an
    /// IPv4 address"; else absent.
    std::optional<LeftOut> problem;
    std::string remedy;               ///< of a link-local entry: what would give the port a better one; else empty
    std::string doubt;                ///< of an entry that the user forced: what speaks against it; else empty
    std::vector<GidVerdict> verdicts; ///< one per Gid, same order
};

/// For a RoCE port. `settings`: gid, family, prefix, roce.
GidChoice choose_gid(const Fabric& fabric, const Port& port, const Settings& settings);

/// "RoCE v2", as the user asked for it.
std::string roce_version_text(const Settings& settings);

} // namespace rdma_nccl
