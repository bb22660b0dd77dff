// SPDX-License-Identifier: Apache-2.0
// The variables that make NCCL write logs from which a step can be judged (verify=full). What the user or one of NCCL's
// files sets stays, and what follows from it is said.
#pragma once

#include "lib/inspect.h"
#include "lib/variables.h"

#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// The subsystems whose lines tell networks, devices, GIDs and connections. NCCL's own default leaves NET out.
inline constexpr std::string_view nccl_debug_subsystems = "INIT,BOOTSTRAP,ENV,NET,GRAPH";

struct NcclDebug {
    /// Where each rank's log will be, as NCCL_DEBUG_FILE has it (%h: host, %p: process, %%: a percent sign); empty when
    /// there will be none that can be read.
    std::string files;
    std::vector<std::string> notes; ///< why there will be none, or what they will lack
};

/// Adds NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE. `directory`: an absolute path, to which each rank can write.
NcclDebug add_nccl_debug(VariableList& variables, const NodeFacts& facts, std::string_view directory);

} // namespace rdma_nccl
