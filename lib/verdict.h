// SPDX-License-Identifier: Apache-2.0
// Was RDMA used? A pure function of what the nodes saw (doc/design.md, Evidence). "Cannot tell" is an answer; a guess
// is not.
#pragma once

#include "lib/evidence.h"
#include "lib/result.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

class Json;

enum class Verdict { Used, Mixed, NotUsed, Idle, Unknown };

/// "USED", "MIXED", "NOT USED", "IDLE", "UNKNOWN".
std::string_view name_of(Verdict verdict);

/// How good the evidence is, best first.
enum class Grade {
    A, ///< bytes, queue pairs of the step's own processes, and no other job on the node
    B, ///< bytes, and no other job on the node
    C, ///< bytes and queue pairs; the bytes may include those of others
    D, ///< an estimate from packets, or the ranks' logs alone, or bytes of a shared node without queue pairs
};

/// "A" to "D".
std::string_view name_of(Grade grade);

enum class GpuDirect { On, Possible, Off, Unknown };

/// "on", "possible", "off", "unknown".
std::string_view name_of(GpuDirect gpu_direct);

/// The amounts that decide, in bytes.
inline constexpr std::uint64_t enough_to_judge = std::uint64_t{64} << 20; ///< less on both sides: IDLE
inline constexpr std::uint64_t noise = std::uint64_t{1} << 20;            ///< RDMA below it does not count as used
inline constexpr double used_share = 0.90;
inline constexpr double not_used_share = 0.01;

struct NodeVerdict {
    std::string node;
    Verdict verdict = Verdict::Unknown;
    Grade grade = Grade::D;
    double share = 0;    ///< RDMA's part of the bytes, in the worse direction
    Bytes rdma, sockets; ///< at most so much was between the nodes of the step
    Bytes elsewhere;     ///< over sockets, that cannot have been: no other node has sent or received it (storage, ...)
    GpuDirect gpu_direct = GpuDirect::Unknown;
    std::vector<std::string> why;   ///< of the verdict, in words: "mlx5_3:1 stayed idle"
    std::vector<std::string> notes; ///< what weakens it: others on the node, estimates, resets
    NodeEvidence evidence;
};

struct StepVerdict {
    Verdict verdict = Verdict::Unknown;
    Grade grade = Grade::D; ///< of the worst node
    double share = 0;
    Bytes rdma, sockets; ///< sums
    GpuDirect gpu_direct = GpuDirect::Unknown;
    std::vector<std::string> why; ///< the same of several nodes is said once, with the nodes' names
    std::vector<NodeVerdict> nodes;
    std::vector<std::string> silent; ///< nodes of which nothing was heard
};

NodeVerdict judge_node(NodeEvidence evidence);

/// `silent`: nodes of the step that sent nothing.
StepVerdict judge_step(std::vector<NodeEvidence> nodes, std::vector<std::string> silent);

/// The one line at the end of a step: "RDMA USED: 98.7 % of 412 GB between 2 nodes over RDMA (evidence A), GPUDirect
/// on".
std::string verdict_line(const StepVerdict& step);

/// A row for each node and, below it, for each port and interface that moved something or should have.
std::vector<std::string> verdict_table(const StepVerdict& step);

/// For programs: one object with a schema version.
std::string verdict_json(const StepVerdict& step, std::uint32_t job_id, std::uint32_t step_id);
/// JSON Schema of it.
Json verdict_schema();

/// As a new file of that name in a directory; a file that is there already stays as it is, and that is an error, too.
/// Nobody sees half of it.
Result<void> save_verdict(const std::string& directory, const std::string& name, std::string_view text);

} // namespace rdma_nccl
