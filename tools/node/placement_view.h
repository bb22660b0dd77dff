// SPDX-License-Identifier: Apache-2.0
// The places of the ranks on the node that a subcommand inspects.
#pragma once

#include "lib/base/result.h"
#include "lib/plan/node_placement.h"
#include "lib/topology/topology.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace rdma_nccl {

/// Returns a number that Slurm sets for the step, the node or the task.
std::optional<unsigned> slurm_number(const Environment& environment, std::string_view name);

/// Returns whether this process is in a step that the plugin has set up.
bool set_up_by_plugin(const Environment& environment, const Step& step);

/// The options about ranks; absent values come from the step or the machine.
struct RanksWanted {
    std::optional<std::size_t> ranks;
    std::string cpus; ///< "0-15", or one list per rank, "0-7/8-15"; empty: as allowed
};

struct Places {
    Topology topology;
    std::optional<std::string> problem; ///< why there is no topology
    NodePlacement placed;
    std::string masks_source; ///< source of the ranks' CPUs
};

/// Places the ranks of this process's step; outside a step, as many as the node has GPUs. In a step that the plugin has
/// set up, the result equals the plugin's own plan.
Result<Places> place_here(const NodeFacts& facts, const Plan& plan, const Settings& settings,
                          const RanksWanted& wanted = {});

/// A machine described by an XML file of hwloc. All its active ports count as used.
struct XmlPlaces {
    NodeFacts facts;
    Plan plan;
    Places places;
};
Result<XmlPlaces> place_by_xml(const std::string& path, BindChoice bind, const RanksWanted& wanted);

} // namespace rdma_nccl
