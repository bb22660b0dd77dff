// SPDX-License-Identifier: Apache-2.0
// Where the ranks of the node that a subcommand looks at belong.
#pragma once

#include "lib/node_placement.h"
#include "lib/result.h"
#include "lib/topology.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace rdma_nccl {

/// A number that Slurm says of the step, the node or the task.
std::optional<unsigned> slurm_number(const Environment& environment, std::string_view name);

/// Whether this process is in a step that the plugin has set up.
bool set_up_by_plugin(const Environment& environment, const Step& step);

/// What the options say about the ranks; absent: as the step or the machine tells.
struct RanksWanted {
    std::optional<std::size_t> ranks;
    std::string cpus; ///< "0-15", or one list for each rank, "0-7/8-15"; empty: as allowed
};

struct Places {
    Topology topology;
    std::optional<std::string> problem; ///< why there is no topology
    NodePlacement placed;
    std::string masks_source; ///< where the CPUs of the ranks are from
};

/// Places the ranks of the step that this process is in, else as many as the node has GPUs. In a step that the plugin
/// has set up it comes to the plugin's own plan.
Result<Places> place_here(const NodeFacts& facts, const Plan& plan, const Settings& settings,
                          const RanksWanted& wanted = {});

/// A machine that is known by an XML file of hwloc's: all its active ports are taken as used.
struct XmlPlaces {
    NodeFacts facts;
    Plan plan;
    Places places;
};
Result<XmlPlaces> place_by_xml(const std::string& path, BindChoice bind, const RanksWanted& wanted);

} // namespace rdma_nccl
