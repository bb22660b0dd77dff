// SPDX-License-Identifier: Apache-2.0
// Asks slurmctld about a step with a few RPCs in srun, whose number does not grow with the nodes; with hosts=mount also
// with one on each node.
#pragma once

#include "lib/exchange/protocol.h"
#include "lib/net/message.h"
#include "lib/settings/settings.h"
#include "lib/slurm/step.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// The layout of a step. Exact also for arbitrary, heterogeneous and topology-aware layouts.
struct StepLayout {
    static constexpr std::string_view message_name = "step";
    std::vector<ExpectedNode> nodes;       ///< of all components, in the order of their first ranks
    unsigned component = 0;                ///< the component that was asked about
    std::optional<IpAddress> head_address; ///< NodeAddr of rank 0's node, if other nodes can use it

    [[nodiscard]] std::string head_node() const { return nodes.empty() ? "" : nodes.front().name; }
    /// Returns a note with the head node and its address, as far as they are known.
    [[nodiscard]] StepNote note(std::uint32_t job_id, std::uint32_t step_id) const;
};

/// Returns no nodes if Slurm does not say. `heterogeneous_job`: the other components have jobs of their own, which are
/// asked too; it is then uncertain whether they are part of the step.
StepLayout load_step_layout(std::uint32_t job_id, std::uint32_t step_id, bool heterogeneous_job);

void fields(auto& f, Is<ExpectedNode> auto& m) {
    f("name", m.name);
}

/// A node needs no more of its step's layout.
void fields(auto& f, Is<StepLayout> auto& m) {
    constexpr std::size_t most_nodes = 65536;
    f("nodes", m.nodes, most_nodes);
    f("head_address", m.head_address);
}

/// Runs load_step_layout() in a child of slurmstepd: slurmctld may be busy, and the name service may hang. finish()
/// returns the names of the nodes and the head's address, or none if Slurm does not answer.
ChildValue<StepLayout> ask_slurm(std::uint32_t job_id, std::uint32_t step_id, bool heterogeneous_job);

/// Returns true if the job is cancelled or has ended otherwise; false if Slurm does not say.
bool is_job_over(std::uint32_t job_id);

/// Returns true if Slurm gave the nodes of this job different numbers of GPUs; false if it does not say.
bool load_gpus_differ(std::uint32_t job_id);

/// Returns SrunPortRange of slurm.conf, or nullopt if it has none or cannot be read.
std::optional<PortRange> srun_port_range();

} // namespace rdma_nccl
