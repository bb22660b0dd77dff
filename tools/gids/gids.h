// SPDX-License-Identifier: Apache-2.0
// `rdma-nccl gids` shows the GID tables of this node, which entries are used, and why the others are not. It only
// prints; facts and decisions come from lib/fabric/fabric.h and lib/select/port_selection.h.
#pragma once

#include "lib/base/json.h"
#include "lib/base/result.h"
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

// The content for all formats: the ports and GIDs that pass the filters, with the decision about each.

struct GidView {
    const Port& port;
    const Gid& gid;
    const GidVerdict& verdict;
};

struct PortView {
    const Hca& hca;
    const Port& port;
    const PortChoice& choice;
    std::vector<GidView> gids;      ///< by index
    std::optional<unsigned> rail{}; ///< of a used port beside others (lib/select/rails.h)
};

struct HcaView {
    const Hca& hca;
    const FabricChoice& choice;
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

/// Returns the interface of a port: that of the entry it would use, else that of its first GID with one, else that of
/// its PCI function; empty if there is none. So a bond comes before its slaves.
std::string interface_of(const Fabric& fabric, const PortView& view);

/// Returns what could not be read of the HCAs and ports that are shown: "mlx5_0 port 1: gids/7: ...".
std::vector<std::string> problems_of(const GidsView& view);

/// Returns text for users: aligned columns DEV PORT INDEX GID IPv4 VER NETDEV RAIL USED/REASON, without RAIL where no
/// port that is shown has one. Used entries come first, then a line for each port and each HCA that is left out.
std::string gids_table(const GidsView& view);

/// Returns the same columns for every entry, by device, port and index. A port without a used entry has a line of its
/// own before its entries. Notes on unreadable files come last.
std::string gids_full_table(const GidsView& view);

/// Returns text for scripts that parse the output of show_gids (mlnx-tools): the same columns, blanks, order and last
/// line. It shows no decisions. Like show_gids, it omits empty slots and the bare prefix fe80::.
std::string show_gids_text(const GidsView& view);

/// Returns JSON for programs, schema 1, with all entries that pass the filters; rdma-nccl-gids(1) lists the keys. An
/// unknown text is "", an unknown rate 0, any other unknown number null. All strings are ASCII.
Json gids_json(const std::string& host, const GidsView& view);
/// Returns the JSON Schema of gids_json().
Json gids_schema();

/// Without a form: the used entries, and what is left out.
struct GidsOptions {
    bool json = false;
    bool show_gids = false; ///< like the tool show_gids
    bool all = false;       ///< all entries
    GidsFilter filter;
    Settings settings;
};

/// Prints to stdout, and warnings to stderr. Returns the exit code. 0: good; 1: usable, with warnings; 2: there are
/// HCAs but none is usable; 3: no RDMA device. Fails if the root cannot be read or has no such device or port.
Result<int> gids_command(const GidsOptions& options);

} // namespace rdma_nccl
