// SPDX-License-Identifier: Apache-2.0
// The variables of NCCL and of the libraries beside it. Values set by the user or in NCCL's files stay.
#pragma once

#include "lib/plan/plan.h"
#include "lib/plan/variables.h"

#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// Adds the variables of NCCL, Gloo, UCX and NVSHMEM that name the ports, GIDs and interfaces to use, following the
/// decisions in `plan` so far.
void add_nccl(VariableList& variables, const Plan& plan, const NodeFacts& facts, const Settings& settings);

// The variables that make NCCL write logs from which a step can be judged (verify=full).

/// The subsystems whose lines show networks, devices, GIDs and connections. NCCL's own default lacks NET.
inline constexpr std::string_view nccl_debug_subsystems = "INIT,BOOTSTRAP,ENV,NET,GRAPH";

struct NcclDebug {
    /// The path of each rank's log in the form of NCCL_DEBUG_FILE (%h: host, %p: process, %%: a percent sign). Empty if
    /// there will be no readable log.
    std::string files;
    std::vector<std::string> notes; ///< why there will be no log, or what it will lack
};

/// Adds NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE. `directory` is an absolute path that each rank can write to.
NcclDebug add_nccl_debug(VariableList& variables, const NodeFacts& facts, std::string_view directory);

} // namespace rdma_nccl
