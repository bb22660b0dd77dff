// SPDX-License-Identifier: Apache-2.0
// What a node knows at the end of a step about the bytes sent over RDMA and over sockets, and the verdict: was RDMA
// used? A pure function of what the nodes saw. The result is UNKNOWN rather than a guess.
#pragma once

#include "lib/base/result.h"
#include "lib/nccl_log/reader.h"
#include "lib/profile/profile.h"
#include "lib/traffic/traffic.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

class Json;

/// The prefix of the kernel's own entries in QpEvidence::others.
inline constexpr std::string_view kernel_owner = "the kernel's ";

/// The queue pairs seen while the step ran.
struct QpEvidence {
    bool known = false;                 ///< RDMA netlink could be read at least once
    std::string unknown_why;            ///< the reason when not `known`
    unsigned most_own = 0;              ///< the most that the step's own processes had at one time
    std::vector<std::string> own_ports; ///< the ports on which the step had some, "mlx5_1:1"
    std::vector<std::string> others;    ///< other owners: "job 12 step 0", "the kernel's nvme_rdma", "mmfsd (pid 4711)"

    friend bool operator==(const QpEvidence&, const QpEvidence&) = default;
};

struct NodeEvidence {
    static constexpr std::string_view message_name = "evidence";
    std::string node;
    Traffic traffic;
    QpEvidence qps;
    bool exclusive = false;                  ///< no other job was seen on the node
    bool rank_per_gpu = false;               ///< every one of `gpus` is known to have a rank
    unsigned gpus = 0;                       ///< the GPUs of the node that the step uses; 0: none, or unknown
    bool may_use_nvlink = false;             ///< between nodes; true also where NVML has not answered
    std::optional<bool> gpu_direct_possible; ///< the kernel's part of GPUDirect is present; absent: unknown
    std::optional<LogEvidence> log;
    std::vector<profile::CommunicatorTotals> communicators; ///< with profile=on
    std::vector<std::string> causes; ///< why RDMA may not have been used, by the node's plan and the ranks' environment
    std::string problem;             ///< why there is little or no evidence: "its counters could not be read in 2 s"

    friend bool operator==(const NodeEvidence&, const NodeEvidence&) = default;
};

enum class Verdict { Used, Mixed, NotUsed, Idle, Unknown };

/// "USED", "MIXED", "NOT USED", "IDLE", "UNKNOWN".
std::string_view name_of(Verdict verdict);

/// The quality of the evidence, best first.
enum class Grade {
    Best, ///< A+, of a step alone: as A, and NCCL's own count of the bytes (profile=on) agrees within 5 %
    A,    ///< bytes, queue pairs of the step's own processes, and no other job on the node
    B,    ///< bytes, and no other job on the node
    C,    ///< bytes and queue pairs; the bytes may include those of others
    D,    ///< an estimate from packets, or only the ranks' logs, or bytes of a shared node without queue pairs
};

/// "A+", "A" to "D".
std::string_view name_of(Grade grade);

enum class GpuDirect { On, Possible, Off, Unknown };

/// "on", "possible", "off", "unknown".
std::string_view name_of(GpuDirect gpu_direct);

/// The amounts that decide, in bytes.
inline constexpr std::uint64_t enough_to_judge = std::uint64_t{64} << 20; ///< less on both sides: IDLE
inline constexpr std::uint64_t noise = std::uint64_t{1} << 20;            ///< less RDMA counts as not used
inline constexpr double used_share = 0.90;
inline constexpr double not_used_share = 0.01;

struct NodeVerdict {
    std::string node;
    Verdict verdict = Verdict::Unknown;
    Grade grade = Grade::D;
    double share = 0;    ///< RDMA's share of the bytes, in the worse direction
    Bytes rdma, sockets; ///< upper bounds of the bytes between the nodes of the step
    Bytes elsewhere;     ///< socket bytes beyond that bound: no other node sent or received them (storage, ...)
    GpuDirect gpu_direct = GpuDirect::Unknown;
    bool not_used_but_for_nvlink = false; ///< UNKNOWN, and would be NOT USED if NVLink did not connect the nodes
    std::vector<std::string> why;         ///< reasons for the verdict: "mlx5_3:1 stayed idle"
    /// What weakens the verdict (others on the node, estimates, resets), lost links, changed GIDs.
    std::vector<std::string> notes;
    NodeEvidence evidence;
};

struct StepVerdict {
    Verdict verdict = Verdict::Unknown;
    Grade grade = Grade::D; ///< the worst node's
    double share = 0;
    Bytes rdma, sockets; ///< sums
    GpuDirect gpu_direct = GpuDirect::Unknown;
    std::vector<std::string> why; ///< a reason that several nodes have is given once, with their names
    std::string lost_links;       ///< all ports that went down, which changes no verdict; empty: none did
    std::string changed_gids;     ///< all GIDs that changed at ports of NCCL, which changes no verdict; empty: none did
    std::vector<NodeVerdict> nodes;
    std::vector<std::string> unresponsive;                  ///< nodes that reported nothing
    std::vector<profile::CommunicatorTotals> communicators; ///< of all nodes, with profile=on
};

/// `rdma`, `sockets`: bounds of the bytes between nodes of the step. `bounded`: the sums over all nodes gave them.
NodeVerdict judge_node(NodeEvidence evidence, const Bytes& rdma, const Bytes& sockets, bool bounded);
NodeVerdict judge_node(NodeEvidence evidence);

/// `unresponsive`: nodes of the step that reported nothing.
StepVerdict judge_step(std::vector<NodeEvidence> nodes, std::vector<std::string> unresponsive);

struct LogVerdict {
    Verdict verdict = Verdict::Unknown;
    GpuDirect gpu_direct = GpuDirect::Unknown;
    std::vector<std::string> why; ///< the reasons for both; the causes of problems stay in LogEvidence

    friend bool operator==(const LogVerdict&, const LogVerdict&) = default;
};

/// Judges from NCCL's logs alone. They show connections, not bytes, so this evidence has grade D. USED, MIXED and NOT
/// USED follow from the connections; MIXED also says that RDMA failed in use, which a log without connections may tell,
/// too. IDLE: the connections need no network. UNKNOWN: the log lacks a connection that it should show, or one uses a
/// network of unknown kind.
LogVerdict judge_log(const LogEvidence& log);

/// Returns the one line for the end of a step: "RDMA USED: 98.7 % of 412 GB between 2 nodes over RDMA (evidence A),
/// GPUDirect on".
std::string verdict_line(const StepVerdict& step);

/// Returns a row for each node and, below it, for each port and interface that moved something or should have.
std::vector<std::string> verdict_table(const StepVerdict& step);

/// Returns JSON for programs: one object with a schema version.
std::string verdict_json(const StepVerdict& step, std::uint32_t job_id, std::uint32_t step_id);
/// Returns the JSON Schema of verdict_json().
Json verdict_schema();

/// Saves the text as a new file, which appears complete. Fails if the file exists, and leaves it as it is.
Result<void> save_verdict(const std::string& directory, const std::string& name, std::string_view text);

} // namespace rdma_nccl
