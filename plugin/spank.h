// SPDX-License-Identifier: Apache-2.0
// Slurm's headers, everything that differs between its releases, and a wrapper of spank_*: the facts that Slurm gives
// about a step, as plain values; absent if Slurm does not say. No other file depends on Slurm's version.
#pragma once

#include "lib/sys/environment.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

extern "C" {
#include <slurm/slurm.h>
#include <slurm/spank.h>

// libslurm, which srun has loaded, has these functions. In a host without them (another SPANK implementation) they are
// null.
// NOLINTBEGIN(readability-redundant-declaration): they add the attribute
extern decltype(slurm_job_step_layout_get) slurm_job_step_layout_get __attribute__((weak));
extern decltype(slurm_job_step_layout_free) slurm_job_step_layout_free __attribute__((weak));
extern decltype(slurm_load_node_single) slurm_load_node_single __attribute__((weak));
extern decltype(slurm_free_node_info_msg) slurm_free_node_info_msg __attribute__((weak));
extern decltype(slurm_load_job) slurm_load_job __attribute__((weak));
extern decltype(slurm_free_job_info_msg) slurm_free_job_info_msg __attribute__((weak));
// NOLINTEND(readability-redundant-declaration)

// Returns SrunPortRange of slurm.conf (first and last port) or null. In libslurm, but in no public header (20.11 to
// 26.05: slurm_protocol_api.c). Asking slurmctld for all of slurm.conf would cost each step a millisecond or more.
extern uint16_t* slurm_get_srun_port_range() __attribute__((weak));

// Returns the path of a file beside slurm.conf, allocated. In libslurm, but in no public header (20.11 to 26.05:
// read_config.c).
extern char* slurm_get_extra_conf_path(const char* name) __attribute__((weak));

// Since 23.02 slurmstepd locks authentication while it acts as the user, and children that it forks meanwhile inherit
// the lock (src/interfaces/auth.c): libslurm cannot connect in them. In no header; null in srun and before 23.02.
extern void auth_setuid_unlock() __attribute__((weak));

// In spank.h since 23.11; callable only in task_init_privileged and task_init (src/common/spank.c). Declared here so
// that a plugin built for an older release can use it under a newer one.
extern spank_err_t spank_prepend_task_argv(spank_t spank, int argc, const char* argv[]) __attribute__((weak));
}

#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(20, 11, 0)
#error "Slurm 20.11 or newer is needed: its step ids are structures since then"
#endif

namespace rdma_nccl {

/// A job as slurm_load_job() wants it named: by its number, since 26.05 by a step id (slurm.h).
struct JobName {
    std::uint32_t job_id = 0;

    operator std::uint32_t() const { return job_id; }
    operator slurm_step_id_t() const {
        slurm_step_id_t id{}; // without the sluid that it has since 24.11
        id.job_id = job_id;
        id.step_id = NO_VAL;
        id.step_het_comp = NO_VAL;
        return id;
    }
};

/// A spank_t, valid for one callback.
class SpankHandle {
public:
    explicit SpankHandle(spank_t spank) : spank_(spank) {}

    [[nodiscard]] std::optional<std::uint32_t> job_id() const { return item(S_JOB_ID); }
    [[nodiscard]] std::optional<std::uint32_t> step_id() const { return item(S_JOB_STEPID); }
    /// Returns the number of the step's nodes, or of this component's if the step is heterogeneous.
    [[nodiscard]] std::optional<std::uint32_t> node_count() const { return item(S_JOB_NNODES); }
    /// Returns the number of the step's tasks, or of this component's if the step is heterogeneous.
    [[nodiscard]] std::optional<std::uint32_t> task_count() const { return item(S_JOB_TOTAL_TASK_COUNT); }
    [[nodiscard]] std::optional<std::uint32_t> local_task_count() const { return item(S_JOB_LOCAL_TASK_COUNT); }
    [[nodiscard]] std::optional<std::uint32_t> node_id() const { return item(S_JOB_NODEID); }
    /// Returns the global ids of the local tasks, without the offset of a heterogeneous step. Leaves out unknown ones.
    [[nodiscard]] std::vector<std::uint32_t> global_ids() const;
    /// Returns true if a task 0 is here. In a heterogeneous step every component has one.
    [[nodiscard]] bool has_task_zero() const { return std::ranges::count(global_ids(), 0U) > 0; }
    /// For the task of the current callback.
    [[nodiscard]] std::optional<std::uint32_t> task_global_id() const { return item(S_TASK_GLOBAL_ID); }
    [[nodiscard]] std::optional<std::uint32_t> task_local_id() const { return item<int>(S_TASK_ID); }
    [[nodiscard]] std::optional<pid_t> task_pid() const { return item<pid_t>(S_TASK_PID); }
    /// Returns the cores of this node that the step was given, in slurmctld's numbering (socket by socket): "0-3,8".
    /// Empty if Slurm does not say.
    [[nodiscard]] std::string step_cores() const;

    /// Returns a copy: Slurm replaces its own array between callbacks.
    [[nodiscard]] Environment environment() const;
    [[nodiscard]] std::vector<std::string> program() const;
    /// Returns true if the user asked pyxis to run the tasks in a container, by an option of srun or, since pyxis 0.21,
    /// by one of `variables`, the step's or the task's. Call in user_init or task_init.
    [[nodiscard]] bool has_container(const Environment& variables) const;
    /// Returns true if it was an option, which only a loaded pyxis has.
    [[nodiscard]] bool has_container_option() const {
        return has_option("container-image") || has_option("container-name");
    }

    /// Returns false if Slurm refused.
    bool set_variable(const std::string& name, const std::string& value) {
        return spank_setenv(spank_, name.c_str(), value.c_str(), 1) == ESPANK_SUCCESS;
    }
    bool unset_variable(const std::string& name) { return spank_unsetenv(spank_, name.c_str()) == ESPANK_SUCCESS; }

    /// Returns true if this Slurm can put words in front of a task's command (23.11 and newer).
    [[nodiscard]] static bool can_prepend() { return spank_prepend_task_argv != nullptr; }
    /// Call in task_init. Returns false if Slurm refused.
    bool prepend(const std::vector<std::string>& words);

private:
    /// Returns true if the user gave srun this option, whichever plugin it belongs to: Slurm looks it up by its name
    /// alone (spank_option_getopt(), plugstack.c or spank.c, 20.11 to 26.05).
    [[nodiscard]] bool has_option(std::string name) const;

    /// Returns an item of an integer type. Only this class uses spank_get_item's variable arguments.
    template<typename T = std::uint32_t, typename... Arguments>
    [[nodiscard]] std::optional<T> item(spank_item_t which, Arguments... arguments) const {
        T value{};
        const bool known = spank_get_item(spank_, which, arguments..., &value) == ESPANK_SUCCESS;
        return known ? std::optional(value) : std::nullopt;
    }

    spank_t spank_;
};

/// Returns "rdma-nccl 0.2.0, built for Slurm 22.05.8".
std::string build_text();

/// Writes to the user's stderr, one call per line, each starting with "rdma-nccl: ".
void report_to_user(std::string_view text);
/// Writes to slurmd's or srun's log at debug level.
void report_to_log(std::string_view text);

} // namespace rdma_nccl
