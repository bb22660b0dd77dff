// SPDX-License-Identifier: Apache-2.0
// The seam in front of spank_*: what Slurm tells about a step, as plain values; absent where Slurm does not say.
#pragma once

#include "lib/environment.h"
#include "plugin/slurm_compat.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl {

enum class Context { Srun, Allocator, Slurmd, JobScript, Slurmstepd, Unknown };

/// A spank_t for the length of one callback.
class Host {
public:
    explicit Host(spank_t spank) : spank_(spank) {}

    [[nodiscard]] static Context context();

    [[nodiscard]] std::optional<std::uint32_t> job_id() const;
    [[nodiscard]] std::optional<std::uint32_t> step_id() const;
    /// Of the step, or of this component of a heterogeneous one.
    [[nodiscard]] std::optional<std::uint32_t> node_count() const;
    /// Of the step, or of this component of a heterogeneous one.
    [[nodiscard]] std::optional<std::uint32_t> task_count() const;
    [[nodiscard]] std::optional<std::uint32_t> local_task_count() const;
    [[nodiscard]] std::optional<std::uint32_t> node_id() const;
    /// Global id of a local task, without the offset of a heterogeneous step.
    [[nodiscard]] std::optional<std::uint32_t> global_id(std::uint32_t local_id) const;
    /// Of the task that the callback is for.
    [[nodiscard]] std::optional<std::uint32_t> task_global_id() const;
    [[nodiscard]] std::optional<std::uint32_t> task_local_id() const;
    [[nodiscard]] std::optional<pid_t> task_pid() const;
    /// The cores of this node that the step was given, by the numbers of slurmctld: socket by socket, "0-3,8"; empty
    /// where Slurm does not say.
    [[nodiscard]] std::string step_cores() const;

    /// A copy: Slurm replaces its own array between callbacks.
    [[nodiscard]] Environment environment() const;
    [[nodiscard]] std::vector<std::string> program() const;

    /// False when Slurm refused.
    bool set_variable(const std::string& name, const std::string& value);
    bool unset_variable(const std::string& name);

    /// Whether this Slurm can put words in front of a task's command (23.11 and newer).
    [[nodiscard]] static bool can_prepend();
    /// In task_init; false when Slurm refused.
    bool prepend(const std::vector<std::string>& words);

    /// Registers --rdma-nccl[=...] with this callback.
    bool register_option(const struct spank_option& option);

private:
    spank_t spank_;
};

/// To the user's stderr, one call per line, each starting with "rdma-nccl: ".
void tell_user(std::string_view text);
/// To slurmd's or srun's log at debug level.
void tell_log(std::string_view text);

} // namespace rdma_nccl
