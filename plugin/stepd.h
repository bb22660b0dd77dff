// SPDX-License-Identifier: Apache-2.0
// The plugin in slurmstepd: user_init makes the node's plan as the user, and task_init gives each task its variables.
// Nothing here fails a step unless the user asked for that with strict.
#pragma once

#include "lib/plan/inspect.h"
#include "lib/plan/plan.h"
#include "lib/topology/topology.h"
#include "plugin/configuration.h"
#include "plugin/spank.h"
#include "plugin/stepd_evidence.h"
#include "plugin/stepd_exchange.h"
#include "plugin/stepd_hosts.h"
#include "plugin/stepd_placement.h"

#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// The result of user_init, for the tasks that slurmstepd forks afterwards.
struct NodeState {
    Settings settings;
    NodeFacts facts;
    Coordination coordination;
    Plan plan;
    bool has_rank_zero = false;                 ///< as far as known before the tasks start
    std::vector<std::string> warnings;          ///< about settings and plan
    std::optional<std::string> strict_fault;    ///< why task_init must fail the step
    bool reported_by_srun = false;              ///< srun has printed the summary for all nodes
    std::vector<std::string> reported_warnings; ///< these warnings were printed by srun
    std::vector<std::string> port_warnings;     ///< about ports that could not be held
    std::optional<MountedHosts> etc_hosts;      ///< hosts=mount: the file that the tasks will see
    std::optional<HostsFiles> hosts_files;      ///< hosts=file
    StepSockets sockets;
    unsigned running_tasks = 0;
    std::optional<TaskMasks> masks; ///< in rank layout, to place the tasks
    std::optional<Topology> topology;
    CpuSet step_cpus;                        ///< of the cores that Slurm gave the step; empty if unknown
    std::optional<EvidenceProcess> evidence; ///< watches the step's bytes and reports them to srun at its end
    std::string log_directory;               ///< for NCCL's logs (verify=full); empty: none
    StepUser user;
    std::string tasks_key; ///< the key by which the step's tasks know each other (lib/net/key.h); never printed

    /// Prints a line for the user that begins with the node's name.
    void report(std::string_view text) const;
    /// Returns false for steps that need no RDMA: if the site enables the plugin for every step, these get no warnings.
    [[nodiscard]] bool concerns_rdma() const;
    /// Returns the plan's variables, which may be printed, and the tasks' key, which must not be.
    [[nodiscard]] std::vector<Variable> variables() const;
    /// Returns the ports that rank 0 may listen at; none on other nodes.
    [[nodiscard]] std::vector<std::uint16_t> ports_of_rank_zero() const;
};

/// Applies `variables` where `now` differs, and lists all of them in the marker. Returns false if Slurm refused one.
bool set_variables(SpankHandle& host, const NodeState& state, const Environment& now,
                   const std::vector<Variable>& variables);

/// user_init. Returns nullopt if there is nothing to do (not enabled, a special step, another runtime's daemons).
std::optional<NodeState> start_node(const Configuration& configuration, SpankHandle& host);

/// task_init_privileged, as root in the task: applies hosts=mount and memlock=raise.
void prepare_task(const NodeState& state);

/// task_post_fork, as root in slurmstepd: the task is bound and waits for the others to be bound. The first task starts
/// the watch on the step's bytes, so bytes that fetch its container do not count. Opens the ports to the tasks.
void note_task(NodeState& state, const SpankHandle& host);

/// task_init. Returns 0, or -1 if the step must not run (strict).
int start_task(const NodeState& state, SpankHandle& host);

/// task_exit, as root: after the last task, reports to srun what the tasks moved.
void end_task(NodeState& state);

/// exit, as root: removes everything that was written for the step.
void end_node(NodeState& state);

} // namespace rdma_nccl
