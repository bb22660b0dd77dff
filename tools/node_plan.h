// SPDX-License-Identifier: Apache-2.0
// The plan of the node and task that a subcommand runs in: what `env` prints and `explain` explains.
#pragma once

#include "lib/environment.h"
#include "lib/inspect.h"
#include "lib/plan.h"
#include "tools/places.h"
#include "tools/settings_options.h"

#include <string>
#include <unistd.h>
#include <vector>

namespace rdma_nccl {

struct NodePlan {
    Settings settings;
    NodeFacts facts;
    Plan plan;
    std::vector<Variable> variables; ///< of the plan, and of the task where this is one
    Places places;

    /// 0: good; 1: with warnings; 2: there are HCAs but none is usable; 3: there is none.
    [[nodiscard]] int exit_code() const;
};

/// The task whose environment `facts` have, as far as Slurm's variables tell; nullopt outside of a step.
std::optional<TaskFacts> current_task(const NodeFacts& facts);

/// Reads the node and plans. Inside a step that the plugin has set up, the plugin's values stand, unless `options` has
/// settings, because the user then wants to see their effect. `timeout` as in inspect_node().
Result<NodePlan> plan_node(const SettingsOptions& options, const Settings& settings,
                           std::chrono::milliseconds timeout = std::chrono::milliseconds(0),
                           const RanksWanted& ranks = {}, GidTables tables = GidTables::Expected,
                           Environment environment = Environment::from(environ));

/// The host name as the root says: of a copied machine, that machine's.
std::string host_name_of(const Root& root);

/// Slurm's name of this node, by which its users know it; else the host's.
std::string node_name_of(const Environment& environment, const Settings& settings);

} // namespace rdma_nccl
