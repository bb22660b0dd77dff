// SPDX-License-Identifier: Apache-2.0
// `rdma-nccl gids`: the GID tables of this node, which entries are used and why the others are not. Printing only:
// facts and decisions come from lib/fabric.h and lib/fabric_choice.h.
#pragma once

#include "lib/fabric.h"
#include "lib/fabric_choice.h"
#include "lib/settings.h"

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace rdma_nccl {

/// What to show. An empty device means all.
struct GidsFilter {
    bool all = false; ///< every entry with its reason, not only the used ones
    std::string device;
    std::optional<unsigned> port;
};

/// An aligned table DEV PORT INDEX GID IPv4 VER NETDEV USED/REASON: the used entries, then one line per port that is
/// left out; with `all`, every entry in the order of devices and indices, then the files that could not be read.
std::string gids_table(const Fabric& fabric, const FabricChoice& choice, const GidsFilter& filter);

/// The same as JSON, schema 1, always with all entries:
/// {"schema":1,"host":..,"hcas":[{"name","driver","pci","numa_node","netdevs":[],"selected","reason","ports":[{"port",
/// "state","link_layer","rate_gbps","selected","reason","gid_index","gids":[{"index","gid","ipv4","type","netdev","used",
/// "reason"}]}]}]}. numa_node, gid_index and ipv4 are null when there is none; type is "RoCE v1", "RoCE v2", "IB" or
/// "unknown". All strings are ASCII.
nlohmann::json gids_json(const std::string& host, const Fabric& fabric, const FabricChoice& choice,
                         const GidsFilter& filter = {});

struct GidsOptions {
    std::string root = "/";
    bool json = false;
    bool all = false;
    std::string device;
    std::optional<unsigned> port;
    Settings settings;
};

/// Prints to stdout, warnings to stderr. 0: good; 1: usable, with warnings; 2: there are HCAs but none is usable; 3:
/// cannot tell: no RDMA device, no such device or port, or the root cannot be read.
int gids_command(const GidsOptions& options);

} // namespace rdma_nccl
