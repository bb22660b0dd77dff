// SPDX-License-Identifier: Apache-2.0
// The plan of this node and task: `env` prints it, and `explain` explains it.
#pragma once

#include "lib/plan/inspect.h"
#include "lib/plan/plan.h"
#include "lib/sys/environment.h"
#include "tools/common/settings_options.h"
#include "tools/node/placement_view.h"

#include <string>
#include <unistd.h>
#include <vector>

namespace rdma_nccl {

struct NodePlan {
    Settings settings;
    NodeFacts facts;
    Plan plan;
    std::vector<Variable> variables; ///< of the plan, and of the task if this process is one
    Places places;

    /// Returns 0: good; 1: with warnings; 2: there are HCAs but none is usable; 3: no HCA.
    [[nodiscard]] int exit_code() const;
};

/// The task whose environment `facts` have, as far as Slurm's variables tell; nullopt outside of a step.
std::optional<TaskFacts> current_task(const NodeFacts& facts);

/// Reads the node and makes the plan. Inside a step that the plugin has set up, the plugin's values count, unless
/// `options` has settings: then the user wants to see their effect. `timeout` is as in inspect_node().
Result<NodePlan> plan_node(const SettingsOptions& options, const Settings& settings,
                           std::chrono::milliseconds timeout = std::chrono::milliseconds(0),
                           const RanksWanted& ranks = {}, GidTables tables = GidTables::Expected,
                           Environment environment = Environment::from(environ));

/// Returns the host name from the root; for a copied tree, the name of the machine it was copied from.
std::string host_name_of(const SysRoot& root);

/// Returns Slurm's name of this node, which its users know; else the host name.
std::string node_name_of(const Environment& environment, const Settings& settings);

} // namespace rdma_nccl
