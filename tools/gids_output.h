// SPDX-License-Identifier: Apache-2.0
// The forms of what `rdma-nccl gids` shows. Pure functions of the view.
#pragma once

#include "lib/json.h"
#include "tools/gids_view.h"

#include <string>

namespace rdma_nccl {

/// For people: aligned columns DEV PORT INDEX GID IPv4 VER NETDEV USED/REASON. The entries in use come first, then a
/// line for each port and each HCA that is left out.
std::string gids_table(const GidsView& view);

/// The same columns for every entry, by device, port and index. A port that uses no entry has a line of its own before
/// its entries. At the end, notes on files that could not be read.
std::string gids_full_table(const GidsView& view);

/// For scripts that parse the output of show_gids (mlnx-tools): its columns, its blanks, its order, its last line. No
/// decision is in it. Left out are, as there, empty slots and the bare prefix fe80::.
std::string show_gids_text(const GidsView& view);

/// For programs, schema 1, always with every entry that is not filtered out; rdma-nccl-gids(1) lists the keys. A text
/// that is not known is "", a rate 0, any other number null. All strings are ASCII.
Json gids_json(const std::string& host, const GidsView& view);
/// JSON Schema of it.
Json gids_schema();

} // namespace rdma_nccl
