// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/gids_view.h"

#include <string>

namespace rdma_nccl {

/// For people: aligned columns DEV PORT INDEX GID IPv4 VER NETDEV USED/REASON. The entries in use come first, then a
/// line for each port and each HCA that is left out.
std::string gids_table(const GidsView& view);

/// The same columns for every entry, by device, port and index. A port that uses no entry has a line of its own before
/// its entries. At the end, notes on files that could not be read.
std::string gids_full_table(const GidsView& view);

} // namespace rdma_nccl
