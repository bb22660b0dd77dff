// SPDX-License-Identifier: Apache-2.0
// Formats the output of `rdma-nccl gids`. Pure functions of the view.
#pragma once

#include "lib/base/json.h"
#include "tools/gids/view.h"

#include <string>

namespace rdma_nccl {

/// Returns text for users: aligned columns DEV PORT INDEX GID IPv4 VER NETDEV USED/REASON. Used entries come first,
/// then a line for each port and each HCA that is left out.
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

} // namespace rdma_nccl
