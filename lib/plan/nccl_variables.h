// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/plan/plan.h"
#include "lib/plan/variables.h"

namespace rdma_nccl {

/// Adds the variables of NCCL, Gloo, UCX and NVSHMEM that name the ports, GIDs and interfaces to use, following the
/// decisions in `plan` so far.
void add_nccl(VariableList& variables, const Plan& plan, const NodeFacts& facts, const Settings& settings);

} // namespace rdma_nccl
