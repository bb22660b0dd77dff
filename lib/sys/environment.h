// SPDX-License-Identifier: Apache-2.0
// A process's environment as a value; it knows which variables the user set, and which an outer step of ours set. And
// the names of this node.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace rdma_nccl {

/// Lists the variables that this project set, so that a nested step replaces ours and never the user's:
/// "@JOB.STEP,NAME:HASH,NAME:HASH". The hash is that of the value: a value that has changed since is the user's.
inline constexpr std::string_view marker_variable = "RDMA_NCCL_SET";

/// Other variables that we set and that start with RDMA_NCCL_ but are no settings: the ranks that each node of the step
/// starts, "FIRST:COUNT:TOTAL", or "unequal" when nobody could number them; and the paths of the hosts file and the
/// DeepSpeed hostfile.
inline constexpr std::string_view ranks_variable = "RDMA_NCCL_RANKS";
inline constexpr std::string_view hosts_variable = "RDMA_NCCL_HOSTS";
inline constexpr std::string_view hostfile_variable = "RDMA_NCCL_HOSTFILE";

/// "topology" where RANK and NODE_RANK do not follow Slurm's numbers of tasks and nodes (order=topology).
inline constexpr std::string_view node_order_variable = "RDMA_NCCL_NODE_ORDER";

/// The CPUs that Slurm gave the tasks of this node before we bound them, from which the placement was planned: "0-15"
/// when all tasks have the same, else one list per task, "0-1/2-3".
inline constexpr std::string_view masks_variable = "RDMA_NCCL_CPUS";

/// The directory in which NCCL's profiler plugin keeps its counters (tools/profiler/process.h).
inline constexpr std::string_view profiles_variable = "RDMA_NCCL_PROFILES";

/// 64 hexadecimal digits that only the tasks of this step know (lib/net/key.h), to authenticate each other.
inline constexpr std::string_view token_variable = "RDMA_NCCL_TOKEN";

/// True for a setting RDMA_NCCL_<KEY> of a user, as opposed to a variable of ours. RDMA_NCCL_HOSTS can be either: ours
/// is a path, and no setting is.
bool is_settings_variable(std::string_view name, std::string_view value);

class Environment {
public:
    Environment() = default;
    /// From "NAME=value" entries. Entries without '=' are dropped; the first of equal names wins, as with getenv(3).
    explicit Environment(std::span<const std::string> entries);
    /// From an environ-like array that ends with a null pointer; nullptr gives an empty environment.
    static Environment from(const char* const* entries);

    [[nodiscard]] std::optional<std::string> get(std::string_view name) const;
    void set(std::string name, std::string value);
    void unset(const std::string& name);
    /// Sets a value of the user's, which is none of ours any more.
    void set_users(const std::string& name, std::string value);

    /// Returns the value, unless we set it in an outer step. An empty value counts as set.
    [[nodiscard]] std::optional<std::string> get_users(std::string_view name) const;
    /// The variables that our marker lists and that still have our value.
    [[nodiscard]] const std::set<std::string, std::less<>>& ours() const { return ours_; }

    /// Returns the same variables without our marker: whoever set them, they count as the user's.
    [[nodiscard]] Environment as_users() const;

    /// The "JOB.STEP" that set our variables; empty without a marker.
    [[nodiscard]] const std::string& marked_step() const { return marked_step_; }

    [[nodiscard]] const std::map<std::string, std::string, std::less<>>& all() const { return variables_; }

private:
    std::map<std::string, std::string, std::less<>> variables_;
    std::set<std::string, std::less<>> ours_;
    std::string marked_step_;
};

/// Returns "NAME:HASH" for the marker variable.
std::string marker_entry(std::string_view name, std::string_view value);

/// Slurm's name of this node, from SLURMD_NODENAME of this process (set by slurmd and slurmstepd); empty without Slurm.
std::string slurm_node_name();

/// gethostname(2), with its domain where it has one; "localhost" when there is none.
std::string own_host_name();

/// Slurm's name of this node, else its host name.
std::string own_node_name();

} // namespace rdma_nccl
