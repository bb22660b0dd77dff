// SPDX-License-Identifier: Apache-2.0
// The plugin in slurmstepd: user_init makes the node's plan as the user, task_init gives each task its variables.
// Nothing here fails a step, unless the user asked for that with strict.
#pragma once

#include "lib/inspect.h"
#include "lib/plan.h"
#include "lib/topology.h"
#include "plugin/configuration.h"
#include "plugin/etc_hosts.h"
#include "plugin/host.h"
#include "plugin/node_exchange.h"
#include "plugin/step_evidence.h"
#include "plugin/task_masks.h"

#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl {

/// What user_init leaves for the tasks, which slurmstepd forks afterwards.
struct StepUser {
    uid_t uid = 0;
    gid_t gid = 0;
};

struct NodeState {
    Settings settings;
    NodeFacts facts;
    Plan plan;
    bool has_rank_zero = false;              ///< as far as known before the tasks start
    std::vector<std::string> warnings;       ///< of settings and plan
    std::optional<std::string> strict_fault; ///< why task_init must fail the step
    bool told_by_srun = false;               ///< srun has told the summary, for all nodes at once
    std::vector<std::string> told_warnings;  ///< and these warnings
    std::vector<std::string> port_warnings;  ///< what could not be held
    std::optional<MountedHosts> etc_hosts;   ///< hosts=mount: what the tasks shall see
    std::optional<HostsFiles> hosts_files;   ///< hosts=file
    StepSockets sockets;
    unsigned running_tasks = 0;
    std::optional<TaskMasks> masks; ///< in rank layout, where the tasks are to be placed
    std::optional<Topology> topology;
    CpuSet step_cpus;                        ///< of the cores that Slurm gave the step; empty when not known
    std::optional<EvidenceProcess> evidence; ///< watches the step's bytes, and tells srun at its end
    std::string log_directory;               ///< of NCCL's logs (verify=full); empty: there is none
    StepUser user;
    std::string tasks_key; ///< by which the step's tasks know each other (lib/net/key.h); never printed
};

/// user_init: nullopt when there is nothing to do (not asked for, a special step, another runtime's daemons).
std::optional<NodeState> node_start(const Configuration& configuration, Host& host);

/// task_init_privileged, as root in the task: hosts=mount, memlock=raise.
void node_prepare_task(const NodeState& state);

/// task_post_fork, as root in slurmstepd: the task is bound by now, and waits for the others to be. With the first of
/// them the watch on the step's bytes begins: what was moved to get its container is not the step's. The ports that are
/// held get open to the tasks.
void node_note_task(NodeState& state, const Host& host);

/// task_init: 0, or -1 when the step must not run (strict).
int node_start_task(const NodeState& state, Host& host);

/// task_exit, as root: after the last task srun is told what it and the others moved.
void node_end_task(NodeState& state);

/// exit, as root: nothing that was written for the step stays.
void node_end(NodeState& state);

} // namespace rdma_nccl
