// SPDX-License-Identifier: Apache-2.0
// As Slurm's HealthCheckProgram, whose exit code nobody reads: the program drains the node itself. Only what is ours is
// undone: a drain whose reason starts with our words.
#pragma once

#include "lib/result.h"
#include "tools/check_result.h"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

inline constexpr std::string_view drain_prefix = "rdma-nccl: ";

/// What Slurm says of the node.
struct SlurmNode {
    bool drained = false; ///< DRAIN is among its states, or its next ones
    bool down = false;
    std::string reason; ///< without who and when
};

/// A line of `scontrol --oneliner show node`; nullopt: it is none.
std::optional<SlurmNode> parse_slurm_node(std::string_view text);

enum class DrainAction { None, Drain, Undrain };

struct DrainDecision {
    DrainAction action = DrainAction::None;
    std::string why; ///< "it is drained by others (reason: ...)"
};

/// `critical_in_a_row`: with this one; `after`: how many it takes to drain.
DrainDecision decide_drain(NodeStatus status, const SlurmNode& node, unsigned critical_in_a_row, unsigned after);

/// A reason that fits on Slurm's line: one line, no quotes, "rdma-nccl: " first.
std::string drain_reason(std::string_view worst);

/// Starts `command` (no shell; the first word an absolute path or looked up in PATH and Slurm's usual places), waits at
/// most `limit`, and gives back what it wrote. Fails when it cannot be started, ends badly, or does not end.
Result<std::string> run_scontrol(const std::vector<std::string>& command, std::chrono::milliseconds limit);

/// The words to ask and to act with; `scontrol` empty: found by PATH.
std::vector<std::string> show_command(const std::string& scontrol, const std::string& node);
std::vector<std::string> update_command(const std::string& scontrol, const std::string& node, DrainAction action,
                                        const std::string& reason);

} // namespace rdma_nccl
