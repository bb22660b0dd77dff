// SPDX-License-Identifier: Apache-2.0
// A process's environment as a value, and who set what in it: the user, or an outer step of ours.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// The variable that lists what this project set, so that a step inside a step replaces ours and never the user's:
/// "@JOB.STEP,NAME:HASH,NAME:HASH". The hash is of the value: one that was changed since is the user's.
inline constexpr std::string_view marker_variable = "RDMA_NCCL_SET";

/// What else we write into an environment that starts with RDMA_NCCL_ and is no setting: the ranks that each node of
/// the step starts, "FIRST:COUNT:TOTAL", or "unequal" where nobody could number them; and where the hosts file and the
/// DeepSpeed hostfile are.
inline constexpr std::string_view ranks_variable = "RDMA_NCCL_RANKS";
inline constexpr std::string_view hosts_variable = "RDMA_NCCL_HOSTS";
inline constexpr std::string_view hostfile_variable = "RDMA_NCCL_HOSTFILE";

/// The CPUs that Slurm gave the tasks of this node, before they were bound: "0-15" where all have the same, else one
/// list per task, "0-1/2-3". What the plan of their places was made from.
inline constexpr std::string_view masks_variable = "RDMA_NCCL_CPUS";

/// 64 hexadecimal digits that only the tasks of this step know (lib/net/key.h): by these they know each other.
inline constexpr std::string_view token_variable = "RDMA_NCCL_TOKEN";

/// RDMA_NCCL_<KEY> of a user, and not one of ours. RDMA_NCCL_HOSTS is both: ours is a path, which no setting is.
bool is_settings_variable(std::string_view name, std::string_view value);

class Environment {
public:
    Environment() = default;
    /// From "NAME=value" entries; entries without '=' are dropped, the first of equal names wins (as getenv(3)).
    explicit Environment(std::span<const std::string> entries);
    /// From an environ-like array, ended by a null pointer; nullptr gives an empty environment.
    static Environment from(const char* const* entries);

    [[nodiscard]] std::optional<std::string> get(std::string_view name) const;
    void set(std::string name, std::string value);

    /// The value when it is not one that we set in an outer step. An empty value counts as set.
    [[nodiscard]] std::optional<std::string> get_users(std::string_view name) const;
    /// The names that carry our mark and still our value.
    [[nodiscard]] const std::set<std::string, std::less<>>& ours() const { return ours_; }

    /// "JOB.STEP" of the step that ours are of; empty without a mark.
    [[nodiscard]] const std::string& marked_step() const { return marked_step_; }

    [[nodiscard]] const std::map<std::string, std::string, std::less<>>& all() const { return variables_; }

private:
    void find_ours();

    std::map<std::string, std::string, std::less<>> variables_;
    std::set<std::string, std::less<>> ours_;
    std::string marked_step_;
};

/// "NAME:HASH" for the marker variable.
std::string marker_entry(std::string_view name, std::string_view value);

} // namespace rdma_nccl
