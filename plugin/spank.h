// SPDX-License-Identifier: Apache-2.0
// Wraps spank_*: the facts that Slurm gives about a step, as plain values; absent if Slurm does not say.
#pragma once

#include "lib/sys/environment.h"
#include "plugin/slurm_compat.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl {

enum class Context { Srun, Allocator, Slurmd, JobScript, Slurmstepd, Unknown };

/// A spank_t, valid for one callback.
class SpankHandle {
public:
    explicit SpankHandle(spank_t spank) : spank_(spank) {}

    [[nodiscard]] static Context context();

    [[nodiscard]] std::optional<std::uint32_t> job_id() const;
    [[nodiscard]] std::optional<std::uint32_t> step_id() const;
    /// Returns the number of the step's nodes, or of this component's if the step is heterogeneous.
    [[nodiscard]] std::optional<std::uint32_t> node_count() const;
    /// Returns the number of the step's tasks, or of this component's if the step is heterogeneous.
    [[nodiscard]] std::optional<std::uint32_t> task_count() const;
    [[nodiscard]] std::optional<std::uint32_t> local_task_count() const;
    [[nodiscard]] std::optional<std::uint32_t> node_id() const;
    /// Returns the global id of a local task, without the offset of a heterogeneous step.
    [[nodiscard]] std::optional<std::uint32_t> global_id(std::uint32_t local_id) const;
    /// For the task of the current callback.
    [[nodiscard]] std::optional<std::uint32_t> task_global_id() const;
    [[nodiscard]] std::optional<std::uint32_t> task_local_id() const;
    [[nodiscard]] std::optional<pid_t> task_pid() const;
    /// Returns the cores of this node that the step was given, in slurmctld's numbering (socket by socket): "0-3,8".
    /// Empty if Slurm does not say.
    [[nodiscard]] std::string step_cores() const;

    /// Returns a copy: Slurm replaces its own array between callbacks.
    [[nodiscard]] Environment environment() const;
    [[nodiscard]] std::vector<std::string> program() const;

    /// Returns false if Slurm refused.
    bool set_variable(const std::string& name, const std::string& value);
    bool unset_variable(const std::string& name);

    /// Returns true if this Slurm can put words in front of a task's command (23.11 and newer).
    [[nodiscard]] static bool can_prepend();
    /// Call in task_init. Returns false if Slurm refused.
    bool prepend(const std::vector<std::string>& words);

    /// Registers --rdma-nccl[=...] with this callback.
    bool register_option(const struct spank_option& option);

private:
    spank_t spank_;
};

/// Writes to the user's stderr, one call per line, each starting with "rdma-nccl: ".
void tell_user(std::string_view text);
/// Writes to slurmd's or srun's log at debug level.
void tell_log(std::string_view text);

} // namespace rdma_nccl
