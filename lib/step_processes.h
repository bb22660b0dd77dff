// SPDX-License-Identifier: Apache-2.0
// Whose a process is, of a Slurm step that is looked at: by its cgroup, its parents, and the titles of slurmstepds.
#pragma once

#include "lib/environment.h"
#include "lib/root.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl {

/// A step as Slurm writes it: job 12, step "0", "0+1" (a component of a heterogeneous step), "batch", "extern".
struct StepName {
    std::uint32_t job = 0;
    std::string step; ///< empty: a process of the job that belongs to no step

    friend bool operator==(const StepName&, const StepName&) = default;
};

/// What /proc/PID/cgroup says, of both cgroup versions: ".../job_12/step_0/..." (Slurm 22.05 to 25.05). Of several the
/// outermost: what is below a step is made by its own processes.
std::optional<StepName> step_of_cgroups(std::string_view text);

/// What the title of a slurmstepd says: "slurmstepd: [12.0]".
std::optional<StepName> step_of_title(std::string_view text);

enum class ProcessOwner { Step, OtherStep, System, Gone };

struct ProcessIdentity {
    ProcessOwner owner = ProcessOwner::Gone; ///< Gone: it has ended, or is hidden from this user (hidepid, proc(5))
    std::string name;                        ///< "job 123 step 0" of OtherStep, else the command's name

    friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

/// A step on this node: what its processes' cgroups are called, and whose descendants they are.
struct StepProcesses {
    std::uint32_t job_id = 0; ///< 0: no job, `ancestor` alone
    std::uint32_t step_id = 0;
    pid_t ancestor = 0; ///< slurmstepd, or the program of `verify -- CMD`; 0: cgroups alone

    /// The descendants of `ancestor` and itself are the step's; of others the cgroup tells, and where Slurm uses none,
    /// the slurmstepd above. `pid` may be a thread's. 0, an owner that cannot be seen, is System without a name.
    [[nodiscard]] ProcessIdentity identify(const Root& root, pid_t pid) const;
};

/// The environment of one of the step's tasks on the node; nullopt when none can be read: they are another user's, or
/// have ended. What the plugin set counts as the user's: it is what the step has.
std::optional<Environment> environment_of_step(const Root& root, std::uint32_t job, std::uint32_t step);

/// Whether the step's slurmstepd runs on the node.
bool step_on_node(const Root& root, std::uint32_t job, std::uint32_t step);

/// Whether a slurmstepd of another job runs on the node: one look at each process. Where they are hidden from this
/// user, none is seen. Other steps of the own job are known by their queue pairs alone: most are of people who look.
bool other_jobs_on_node(const Root& root, std::uint32_t own_job);

// From whom a process descends, by /proc.

/// The parent first, as far as /proc shows them: up to process 1, or to one that is hidden (hidepid, proc(5)).
std::vector<pid_t> ancestors_of(const Root& root, pid_t pid);

/// The process that a thread belongs to; of a process, itself. nullopt: there is none (any more), or it is hidden.
std::optional<pid_t> process_of(const Root& root, pid_t thread);

/// The slurmstepd below which this process runs: that of a step, or of a batch script. nullopt: there is none.
std::optional<pid_t> step_daemon_above(const Root& root, pid_t pid);

} // namespace rdma_nccl
