// SPDX-License-Identifier: Apache-2.0
// Finds the step that a process belongs to, by its cgroup, its ancestors, the titles of slurmstepds, and its
// environment.
#pragma once

#include "lib/slurm/step.h"
#include "lib/sys/environment.h"
#include "lib/sys/sysroot.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl {

/// A step as Slurm writes it: job 12 and step "0", "0+1" (a component of a heterogeneous step), "batch" or "extern".
struct StepName {
    std::uint32_t job = 0;
    std::string step; ///< empty: a process of the job that belongs to no step

    friend bool operator==(const StepName&, const StepName&) = default;
};

/// Parses /proc/PID/cgroup of both cgroup versions: ".../job_12/step_0/...". Returns the outermost of several steps,
/// and nullopt where a SLUID stands for the job's number (Slurm 26.05).
std::optional<StepName> parse_step_cgroups(std::string_view text);

/// Parses the title of a slurmstepd: "slurmstepd: [12.0]".
std::optional<StepName> parse_step_title(std::string_view text);

enum class ProcessOwner { Step, OtherStep, System, Gone };

struct ProcessIdentity {
    ProcessOwner owner = ProcessOwner::Gone; ///< Gone: it has ended, or is hidden from this user (hidepid, proc(5))
    std::string name;                        ///< "job 123 step 0" for OtherStep, else the command's name

    friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

/// A step on this node: the names of its processes' cgroups, and their common ancestor.
struct StepProcesses {
    std::uint32_t job_id = 0; ///< 0: no job, only `ancestor` counts
    std::uint32_t step_id = 0;
    pid_t ancestor = 0;                       ///< slurmstepd, or the program of `verify -- CMD`; 0: only cgroups count
    std::optional<uid_t> user = std::nullopt; ///< of the step; nullopt: no process belongs to it by its environment,
                                              ///< and by cgroup and slurmstepd those of any user
    /// If `job_id` is a component of a heterogeneous job: its leader, which tasks have as SLURM_JOB_ID (task.c of
    /// slurmstepd, 22.05 to 25.05), while cgroups and slurmstepd's title name the component. 0: `job_id` itself.
    std::uint32_t leader_job_id = 0;

    /// Returns those of the step that the process `pid` is in, and whose environment is `step`, and all below
    /// `ancestor`. The job's number comes from the cgroup of `pid` or the slurmstepd above it, where either tells.
    static StepProcesses around(const SysRoot& root, pid_t pid, const Step& step, pid_t ancestor);

    /// Returns the job that the tasks' environment names.
    [[nodiscard]] std::uint32_t job_of_tasks() const { return leader_job_id != 0 ? leader_job_id : job_id; }

    /// `ancestor` and its descendants belong to the step. For others the cgroup decides, or, if Slurm uses none, the
    /// slurmstepd above them; processes of another user than `user` and root are then System, because users can name
    /// cgroups and programs as Slurm does. Where neither tells, processes of `user` belong to the step that their
    /// environment names: podman's containers are no descendants of slurmstepd, and with systemd have a cgroup of their
    /// own. `pid` may be a thread's. 0, an owner that cannot be seen, is System without a name.
    [[nodiscard]] ProcessIdentity identify(const SysRoot& root, pid_t pid) const;
};

/// A normal step by its numbers.
struct StepId {
    std::uint32_t job = 0;
    std::uint32_t step = 0;
};
/// Parses "12.0"; nullopt for anything else.
std::optional<StepId> parse_step_id(std::string_view text);

/// A process of a step's task, as it was started.
struct TaskProcess {
    pid_t pid = 0;
    std::vector<std::string> program; ///< its command line
    std::uint32_t step = 0;
    Environment environment;
};

/// Returns the step's first task on the node, by SLURM_PROCID, and of its processes the outermost one; nullopt if
/// `user` (geteuid(2)) can read none: they are another user's, or have ended. NCCL's variables that a process below it
/// has otherwise are taken from there: a script may have exported them. Without `step`: of the newest normal step of
/// the job, but not of the one that `own`, this process's environment, is of. Tasks of another slurmd of the machine do
/// not count if `own` names one. Any process can claim a step in its environment. So only the user's own processes
/// count; and for root, who can read everybody's, those below the step's slurmstepd, which is root's, too. `job` may be
/// a component of a heterogeneous job: its cgroups and slurmstepd name it, its tasks' environment the leader.
std::optional<TaskProcess> find_task(const SysRoot& root, std::uint32_t job, std::optional<std::uint32_t> step,
                                     const Environment& own, uid_t user);

/// Returns true if the step's slurmstepd runs on the node. Where /proc hides it (hidepid, proc(5)), true if find_task()
/// finds a task of the step.
bool step_on_node(const SysRoot& root, const StepId& id, const Environment& own, uid_t user);

/// Returns true if a slurmstepd of another job runs on the node. Reads each process once, and sees none of those hidden
/// from this user. Other steps of the own job are noticed only by their queue pairs: most are users who look around.
bool other_jobs_on_node(const SysRoot& root, std::uint32_t own_job);

// The ancestors of a process, from /proc.

/// Returns the parent first, as far as /proc shows them: up to process 1 or to a hidden one (hidepid, proc(5)).
std::vector<pid_t> ancestors_of(const SysRoot& root, pid_t pid);

/// Returns the process of a thread (for a process, itself); nullopt if it does not exist (any more) or is hidden.
std::optional<pid_t> process_of(const SysRoot& root, pid_t thread);

/// Returns the real user of a process; nullopt if it cannot be read. The effective user does not suffice: a user may
/// start a set-user-ID program under any name; its effective user is 0, and root owns its files in /proc.
std::optional<uid_t> user_of(const SysRoot& root, pid_t pid);

/// Returns the slurmstepd under which this process runs, of a step or of a batch script, or nullopt if there is none.
std::optional<pid_t> step_daemon_above(const SysRoot& root, pid_t pid);

} // namespace rdma_nccl
