// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/gids_view.h"

#include <string>

namespace rdma_nccl {

/// For scripts that parse the output of show_gids (mlnx-tools): its columns, its blanks, its order, its last line. No
/// decision is in it. Left out are, as there, empty slots and the bare prefix fe80::.
std::string show_gids_text(const GidsView& view);

} // namespace rdma_nccl
