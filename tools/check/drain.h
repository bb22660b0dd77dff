// SPDX-License-Identifier: Apache-2.0
// Drains the node when run as Slurm's HealthCheckProgram, because Slurm ignores its exit code. It undoes only its own
// drains: the reason, with user and time, must be the one in the state file.
#pragma once

#include "lib/base/result.h"
#include "tools/check/check.h"
#include "tools/check/result.h"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl::check {

inline constexpr std::string_view drain_prefix = "rdma-nccl-7c1e: "; ///< a prefix that nobody types

/// A node's state as Slurm shows it.
struct SlurmNode {
    std::string name;
    bool drained = false; ///< DRAIN is among its current or next states
    bool down = false;
    std::string reason; ///< without user and time
    std::string shown;  ///< with user and time, "... [root@2026-11-22T05:55:00]"; empty: Slurm does not show them

    bool operator==(const SlurmNode&) const = default;
};

/// Parses a line of `scontrol --oneliner show node`. Returns nullopt for other text.
std::optional<SlurmNode> parse_slurm_node(std::string_view text);

enum class DrainAction { None, Drain, Undrain };

struct DrainDecision {
    DrainAction action = DrainAction::None;
    std::string why; ///< "it is drained by others (reason: ...)"
};

/// `own`: the drain in the state file, in the form of `shown`, or empty. `critical_in_a_row` includes this check.
/// `after`: how many of them drain the node.
DrainDecision decide_drain(NodeStatus status, const SlurmNode& node, std::string_view own, unsigned critical_in_a_row,
                           unsigned after);

/// Returns a reason for Slurm: one line, no quotes, starts with `drain_prefix`.
std::string drain_reason(std::string_view worst);

/// Runs `command` without a shell and returns its output. The first word is an absolute path, or is searched for in
/// PATH and Slurm's usual directories. Fails if it cannot be started, exits with an error, or runs longer than `limit`.
Result<std::string> run_scontrol(const std::vector<std::string>& command, std::chrono::milliseconds limit);

/// How the check reaches Slurm.
struct SlurmAccess {
    std::string scontrol; ///< a name or a path
    std::string node;     ///< its name in Slurm
    std::chrono::steady_clock::time_point deadline;
};

/// Gets the node's state from Slurm, decides, and updates Slurm. Returns 0 on success or if there was nothing to do,
/// else exit_cannot_tell.
int act_as_health_check(const Options& options, const Report& report, Facts& facts, const SlurmAccess& slurm);

} // namespace rdma_nccl::check
