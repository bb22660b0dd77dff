// SPDX-License-Identifier: Apache-2.0
// The plugin in slurmstepd: user_init makes the node's plan as the user, and task_init gives each task its variables.
// Nothing here fails a step unless the user asked for that with strict.
#pragma once

#include "lib/apply/hosts_file.h"
#include "lib/base/cpu_set.h"
#include "lib/base/forked_worker.h"
#include "lib/exchange/client.h"
#include "lib/plan/node_placement.h"
#include "lib/sys/shared_memory.h"
#include "lib/topology/topology.h"
#include "plugin/configuration.h"
#include "plugin/spank.h"
#include "plugin/step_layout.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>
#include <unistd.h>
#include <vector>

namespace rdma_nccl {

struct NodeState;

/// Tells root directories apart: a task in a container has another one than slurmstepd.
struct RootDirectory {
    dev_t device = 0;
    ino_t inode = 0;

    static RootDirectory current();
    friend bool operator==(const RootDirectory&, const RootDirectory&) = default;
};

/// The step's user.
struct StepUser {
    uid_t uid = 0;
    gid_t gid = 0;
    std::vector<gid_t> groups = {}; ///< the other ones, by which the user may reach a project's directories

    /// Call in user_init, where slurmstepd has the user's effective ids and groups (_drop_privileges(), mgr.c).
    static StepUser current();
};

/// Gives up root for good in a child: neither the user's files (logs) nor drivers should be read as root. Does nothing
/// if the process is not root. Returns false on failure.
bool become(const StepUser& user);

/// Sockets of this process. If user_init runs in a process of its own (SlurmdParameters=contain_spank, Slurm 24.05:
/// clone(2) with the memory, but not the files, of slurmstepd), the descriptors are invalid afterwards. The sockets
/// then end with that process, and this object forgets them.
struct StepSockets {
    StepSockets() = default;
    StepSockets(StepSockets&&) = default;
    ~StepSockets();

    /// Returns true if the sockets belong to the calling process.
    [[nodiscard]] bool ours() const { return ::getpid() == process; }

    std::vector<UniqueFd> held_ports;
    std::optional<ExchangeClient> srun;
    pid_t process = ::getpid();
};

/// The /etc/hosts for the step on this node: made by the first task that mounts it, removed when the step ends. The
/// path is in a directory where only root can create files. It contains Slurm's ids, and the pid of slurmstepd to
/// distinguish the step from an earlier one with the same ids.
struct MountedHosts {
    std::string path;
    std::string text;
};

/// The CPUs that Slurm gave each task of the node. slurmstepd binds the tasks one after the other, before any of them
/// goes on. Shared memory makes the masks that it saw available to all tasks.
class TaskMasks {
public:
    /// Call before the tasks are forked. Returns nullopt if there is no memory or no task.
    static std::optional<TaskMasks> create(std::size_t tasks);

    /// Call in slurmstepd, once the task is bound.
    void record(std::size_t local_id, pid_t pid);
    /// Call in a task. Returns the masks by local id; a mask that was not recorded is empty.
    [[nodiscard]] std::vector<CpuSet> all() const { return {memory_.get(), memory_.get() + tasks_}; }

private:
    using Words = std::array<std::uint64_t, most_cpus / 64>;
    TaskMasks(std::shared_ptr<Words[]> memory, std::size_t tasks) : memory_(std::move(memory)), tasks_(tasks) {}

    std::shared_ptr<Words[]> memory_;
    std::size_t tasks_;
};

/// The process beside the tasks that watches what the step does with this node's network. Counters and netlink ask
/// drivers, which may hang, so slurmstepd does not read them itself.
class EvidenceProcess {
public:
    /// Call as root in slurmstepd, before the tasks run. Returns once the counters have been read, or after a quarter
    /// of a second. The process runs as the user and sends its results to srun.
    static std::optional<EvidenceProcess> start(const NodeState& state, ExchangeClient& srun);

    /// Call when the last task has ended: the process reports to srun and ends. Returns when it has ended, usually
    /// within milliseconds. It belongs to the step's cgroup, so it must be gone before slurmstepd kills what is left in
    /// that cgroup and waits for it (proctrack_cgroup.c). After end_timeout it is killed, and srun hears no more.
    void end_step(const ExchangeClient& srun);

private:
    EvidenceProcess(Child child, UniqueFd control) : child_(std::move(child)), control_(std::move(control)) {}

    Child child_;
    UniqueFd control_; ///< closing it ends the process without a report
};

/// How long end_step() waits before it kills the process, which may take another 130 ms: counters are waited for, and
/// logs are read, until about two seconds after the step's end, and a busy machine may not run the process for a while.
inline constexpr std::chrono::milliseconds end_timeout(3000);

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
    std::uint32_t job_id = 0; ///< of this component, where facts.step has the leader of a heterogeneous job
    unsigned running_tasks = 0;
    std::optional<TaskMasks> masks;                  ///< in rank layout, to place the tasks
    std::optional<SharedSentences> container_faults; ///< what the node's first task found, for the verdict
    std::optional<Topology> topology;
    CpuSet step_cpus;                        ///< of the cores that Slurm gave the step; empty if unknown
    std::optional<EvidenceProcess> evidence; ///< watches the step's bytes and reports them to srun at its end
    std::string log_directory;               ///< for NCCL's logs (verify=full); empty: none
    std::string profiles_directory;          ///< for counters of NCCL, in memory (profile=on); empty: none
    /// For files that stay after the step: of PyTorch's flight recorder (recorder=on) and NVIDIA's Inspector
    /// (profile=inspector). Empty: none.
    std::string kept_directory;
    StepUser user;
    RootDirectory root_directory = RootDirectory::current();
    UniqueFd launcher;     ///< in a task, with spawn=on: the static command; empty if it is not installed
    std::string tasks_key; ///< the key by which the step's tasks know each other (lib/net/key.h); never printed

    /// Prints a line for the user that begins with the node's name.
    void report(std::string_view text) const;
    /// Prints a warning in the same way, unless verbose=0.
    void warn(std::string_view text) const;
    /// Returns false for steps that need no RDMA: if the site enables the plugin for every step, these get no warnings.
    [[nodiscard]] bool concerns_rdma() const;
    /// Returns the plan's variables, which may be printed, and the tasks' key, which must not be.
    [[nodiscard]] std::vector<Variable> variables() const;
    /// Returns the ports that rank 0 may listen at; none on other nodes.
    [[nodiscard]] std::vector<std::uint16_t> ports_of_rank_zero() const;
};

// user_init

/// Applies `variables` where `now` differs, and lists all of them in the marker. Returns false if Slurm refused one.
bool set_variables(SpankHandle& host, const NodeState& state, const Environment& now,
                   const std::vector<Variable>& variables);

/// user_init. Returns nullopt if there is nothing to do (not enabled, a special step, another runtime's daemons).
std::optional<NodeState> start_node(const Configuration& configuration, SpankHandle& host);

// The tasks (stepd_tasks.cpp)

/// task_init_privileged, as root in the task: applies hosts=mount and memlock=raise, and opens the launcher.
void prepare_task(NodeState& state, const SpankHandle& host);

/// task_post_fork, as root in slurmstepd: the task is bound and waits for the others to be bound. The first task starts
/// the watch on the step's bytes, so bytes that fetch its container do not count. Opens the ports to the tasks.
void note_task(NodeState& state, const SpankHandle& host);

/// task_init. Returns 0, or -1 if the step must not run (strict).
int start_task(const NodeState& state, SpankHandle& host);

/// task_exit, as root: after the last task, reports to srun what the tasks moved.
void end_task(NodeState& state);

/// exit, as root: removes everything that was written for the step.
void end_node(NodeState& state);

// A task's container (stepd_container.cpp)

/// Opens the static command for execve("/proc/self/fd/N"), while the task still sees the node's files. A container's
/// image need not have it then.
UniqueFd open_launcher();

struct SettledTask {
    std::vector<Variable> variables;
    std::optional<std::string> fault; ///< the first one of its container; only looked for if strict or verbose
};

/// Returns the variables as they are to be set in the task. In a container that is more (lib/plan/container.h), and the
/// first task of the node reports what the container lacks. Reports a container that comes too late for that.
SettledTask settle_task(const NodeState& state, const SpankHandle& host, const TaskFacts& task, const Environment& now,
                        std::vector<Variable> variables);

// The exchange with srun (stepd_exchange.cpp)

/// Where srun waits for the step's nodes, and the key by which they know each other.
struct ExchangeOffer {
    ExchangeEndpoint endpoint;
    Key key;
};

struct ExchangeResult {
    std::optional<Agreement> agreement;
    HostsTable hosts;
    std::optional<Disagreement> failure; ///< why there is no agreement; also absent if none was wanted
    bool srun_is_gone = false;           ///< the step is about to end: do not ask Slurm about it
    bool reported_by_srun = false;       ///< srun has reported the failure
    bool may_be_agreed = false;          ///< the answer was lost: the other nodes may have theirs
};

/// srun's note reaches the nodes of only one component of a heterogeneous step (srun.c, _launch_one_app), and none
/// where srun has no plugin. A node without it asks Slurm as srun did, when it is its turn, and adds it to
/// `environment`.
void add_missing_note(Environment& environment, const Step& step, const SpankHandle& host,
                      ExchangeClient::Clock::time_point deadline);

/// Reports this node to srun and waits for the answer, until `deadline` at the latest. The node with task 0 also
/// answers the other nodes' connection tests. `noted`: srun left a note, so that it has reported why there is no offer.
ExchangeResult exchange(NodeState& state, const SpankHandle& host, const std::optional<ExchangeOffer>& offer,
                        bool noted, ExchangeClient::Clock::time_point deadline);

/// Without an agreement, takes the head from srun or Slurm.
void plan_head_alone(NodeState& state, const SpankHandle& host, const ExchangeResult& exchanged,
                     ExchangeClient::Clock::time_point deadline);

/// Returns Slurm's name of this node.
std::string node_name(const SpankHandle& host, const NodeFacts& facts);

// hosts=file and hosts=mount (stepd_hosts.cpp)

/// hosts=mount: asks Slurm for the step's nodes before these agree, while the step still runs on all of them: slurmctld
/// forgets a component of a heterogeneous step that has ended. Trusts only the ids from Slurm, not the step's
/// environment, which the user controls.
std::optional<ChildValue<StepLayout>> ask_for_nodes(const Settings& settings, const SpankHandle& host,
                                                    bool heterogeneous);

/// Writes the files of hosts=file, and decides on that of hosts=mount.
void write_hosts(NodeState& state, const SpankHandle& host, HostsTable hosts,
                 std::optional<ChildValue<StepLayout>>& asked, ExchangeClient::Clock::time_point deadline);

/// Gives this process and its children an /etc/hosts with this text, in a mount namespace of its own
/// (mount_namespaces(7)), which ends with its last process. Before that, makes sure that programs gain no privileges by
/// set-user-ID bits (PR_SET_NO_NEW_PRIVS): a program that runs as root must not trust what a user may have written.
/// Call as root, in the task.
Result<void> mount_etc_hosts(const MountedHosts& hosts);

// Placement (stepd_placement.cpp)

/// user_init, once the layout is known: reads the topology if ranks are tasks.
void prepare_placement(NodeState& state, const SpankHandle& host);

/// task_init. Returns the placement of the node's ranks as this task sees it, or nullopt outside rank layout.
std::optional<NodePlacement> place_task(const NodeState& state, const TaskFacts& task, const Environment& now);

/// task_init. Reports a failure.
void bind_task(const NodeState& state, const TaskFacts& task, const NodePlacement& placed);

/// Returns the warnings about the tasks' CPUs and GPUs. Called once per step, by its task 0.
std::vector<std::string> judge_placement(const NodeState& state, const TaskFacts& task, const Environment& now,
                                         const std::optional<NodePlacement>& placed);

} // namespace rdma_nccl
