// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/plan.h"
#include "lib/variables.h"

namespace rdma_nccl {

/// The variables of NCCL, Gloo, UCX and NVSHMEM that say which ports, GIDs and interfaces to use (doc/design.md,
/// Environment), from what `plan` has decided so far.
void add_nccl(VariableList& variables, const Plan& plan, const NodeFacts& facts, const Settings& settings);

} // namespace rdma_nccl
