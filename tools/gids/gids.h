// SPDX-License-Identifier: Apache-2.0
// `rdma-nccl gids` shows the GID tables of this node, which entries are used, and why the others are not. It only
// prints; facts and decisions come from lib/fabric/fabric.h and lib/select/port_selection.h.
#pragma once

#include "lib/settings/settings.h"
#include "tools/gids/view.h"

#include <string>

namespace rdma_nccl {

enum class GidsForm {
    Table,     ///< the used entries, and what is left out
    FullTable, ///< all entries
    ShowGids,  ///< like the tool show_gids
    Json,
};

struct GidsOptions {
    std::string root = "/";
    GidsForm form = GidsForm::Table;
    GidsFilter filter;
    Settings settings;
};

/// Prints to stdout, and warnings to stderr. Returns the exit code. 0: good; 1: usable, with warnings; 2: there are
/// HCAs but none is usable; 3: cannot tell (no RDMA device, no such device or port, or the root cannot be read).
int gids_command(const GidsOptions& options);

} // namespace rdma_nccl
