// SPDX-License-Identifier: Apache-2.0
// The plan of this node and task (`env` prints it, `explain` explains it), and the evidence of a node that is watched.
#pragma once

#include "lib/evidence/step_watch.h"
#include "lib/plan/inspect.h"
#include "lib/plan/node_placement.h"
#include "lib/plan/plan.h"
#include "lib/sys/environment.h"
#include "lib/topology/topology.h"
#include "tools/common/settings_options.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace rdma_nccl {

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

/// Whose plan is wanted: this process's, or that of a task.
struct Subject {
    Environment environment = Environment::from(environ);
    std::vector<std::string> program{}; ///< its command line, if it decides
    pid_t pid = 0;                      ///< whose CPUs and working directory count; 0: this process
    std::string name = "this process";
};

struct NodePlan {
    Settings settings;
    NodeFacts facts;
    Plan plan;
    std::vector<Variable> variables; ///< of the plan, and of the task if this process is one
    Places places;
    std::string subject{}; ///< Subject::name
    std::string name{};    ///< of the machine that a file describes

    /// Returns 0: good; 1: with warnings; 2: there are HCAs but none is usable; 3: no HCA.
    [[nodiscard]] int exit_code() const;
};

/// Returns a number that Slurm sets for the step, the node or the task.
std::optional<unsigned> slurm_number(const Environment& environment, std::string_view name);

/// Returns whether this process is in a step that the plugin has set up.
bool set_up_by_plugin(const Environment& environment, const Step& step);

/// Reads the node and makes the plan of `subject`. Inside a step that the plugin has set up, the plugin's values count,
/// unless `options` has settings: then the user wants to see their effect. Places the ranks of its step; outside a
/// step, as many as the node has GPUs. `timeout` is as in inspect_node().
Result<NodePlan> plan_node(const SettingsOptions& options, const Settings& settings,
                           std::chrono::milliseconds timeout = std::chrono::milliseconds(0),
                           const RanksWanted& ranks = {}, GidTables tables = GidTables::Expected, Subject subject = {});

/// Plans a machine described by an XML file of hwloc or NCCL. All its active ports count as used.
Result<NodePlan> plan_by_xml(const std::string& path, const Settings& settings, const RanksWanted& ranks);

/// Returns the host name from the root; for a copied tree, the name of the machine it was copied from.
std::string host_name_of(const SysRoot& root);

/// Returns Slurm's name of this node, which its users know; else the host name.
std::string node_name_of(const Environment& environment, const Settings& settings);

/// A node that `verify` or `bench` watches: its plan, the watch, and the evidence at the end.
struct WatchedNode {
    SysRoot root;
    NodePlan node;

    /// As the settings say, which are those of the options, for a program with `environment`; fails when its root
    /// cannot be read.
    static Result<WatchedNode> inspect(const SettingsOptions& options, const Settings& settings,
                                       const Environment& environment = Environment::from(environ));

    /// Takes the first sample. `this` must outlive the watch.
    [[nodiscard]] StepWatch watch(StepProcesses processes) const;
    /// The same for the step that this process is in, if it is in one, and all below `ancestor`.
    [[nodiscard]] StepWatch watch_own_step(pid_t ancestor) const;

    /// Returns the evidence after the last sample. If delayed counters could change the verdict, waits for them.
    [[nodiscard]] NodeEvidence evidence(StepWatch& watch, const std::string& log_directory) const;
};

/// Waits until the next sample is due, or until `end`. Returns true if `fd` becomes readable before.
bool wait_for_sample(const StepWatch& watch, int fd, StepWatch::Clock::time_point end);

} // namespace rdma_nccl
