// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/fabric_choice.h"
#include "lib/fabric_filters.h"
#include "lib/settings.h"

#include <vector>

namespace rdma_nccl {

/// What NCCL has to be told so that it takes the chosen GIDs: one index for all RoCE ports where they agree; else the
/// family and, where it helps, the range with which NCCL's own rule (2.21 or newer) finds the same entries. Sets
/// `common_gid_index`, `gid_family_is_ipv6`, `gid_range` and adds warnings. `used`: the ports in use.
void decide_gid_index(const std::vector<Candidate*>& used, const Settings& settings, FabricChoice& choice);

} // namespace rdma_nccl
