// SPDX-License-Identifier: Apache-2.0
// As Slurm's HealthCheckProgram, whose exit code nobody reads: the program drains the node itself. Only what is ours is
// undone: a drain whose reason, with who gave it and when, is the one that the state file keeps.
#pragma once

#include "lib/result.h"
#include "tools/check_result.h"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

inline constexpr std::string_view drain_prefix = "rdma-nccl-7c1e: "; ///< nobody types that

/// What Slurm says of the node.
struct SlurmNode {
    std::string name;
    bool drained = false; ///< DRAIN is among its states, or its next ones
    bool down = false;
    std::string reason; ///< without who and when
    std::string shown;  ///< with both, "... [root@2026-11-22T05:55:00]"; empty: Slurm does not tell them

    bool operator==(const SlurmNode&) const = default;
};

/// A line of `scontrol --oneliner show node`; nullopt: it is none.
std::optional<SlurmNode> parse_slurm_node(std::string_view text);

enum class DrainAction { None, Drain, Undrain };

struct DrainDecision {
    DrainAction action = DrainAction::None;
    std::string why; ///< "it is drained by others (reason: ...)"
};

/// `own`: the drain that the state file keeps, as `shown`, or empty; `critical_in_a_row`: with this one; `after`: how
/// many it takes to drain.
DrainDecision decide_drain(NodeStatus status, const SlurmNode& node, std::string_view own, unsigned critical_in_a_row,
                           unsigned after);

/// "scontrol update NodeName=n01 State=UNDRAIN", for a person.
std::string undrain_advice(std::string_view node);

/// A reason that fits on Slurm's line: one line, no quotes, `drain_prefix` first.
std::string drain_reason(std::string_view worst);

/// Starts `command` (no shell; the first word an absolute path or looked up in PATH and Slurm's usual places), waits at
/// most `limit`, and gives back what it wrote. Fails when it cannot be started, ends badly, or does not end.
Result<std::string> run_scontrol(const std::vector<std::string>& command, std::chrono::milliseconds limit);

/// The words to ask and to act with; `scontrol` empty: found by PATH.
std::vector<std::string> show_command(const std::string& scontrol, const std::string& node);
std::vector<std::string> update_command(const std::string& scontrol, const std::string& node, DrainAction action,
                                        const std::string& reason);

} // namespace rdma_nccl
