// SPDX-License-Identifier: Apache-2.0
// The nodes of a step as srun knows them from Slurm, and which of them have reported.
#pragma once

#include "lib/exchange/messages.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace rdma_nccl {

/// A node of the step according to Slurm's step layout.
struct ExpectedNode {
    std::string name;
    unsigned tasks = 0;
    std::uint32_t first_task = 0; ///< within its component of a heterogeneous step, as NodeReport::first_task
    std::uint32_t first_rank = 0; ///< within the whole step
    unsigned component = 0;       ///< the component of a heterogeneous step
};

/// Returns the index in `expected` that a report belongs to, among those not `taken` yet: the one with its name, tasks
/// and first task; else the only one with these tasks (host and node names may differ); else one with its name. Returns
/// nullopt if there is none.
std::optional<std::size_t> find_expected(std::span<const ExpectedNode> expected, const std::vector<bool>& taken,
                                         const NodeReport& report);

class StepNodes {
public:
    /// `nodes`: in the order of their ranks; empty if Slurm does not say. `component`: srun's own of a heterogeneous
    /// step. `count`: the number of nodes that report.
    StepNodes(std::vector<ExpectedNode> nodes, unsigned component, std::size_t count);

    /// Takes the number of nodes from the first report. srun cannot know whether the other components of a
    /// heterogeneous job take part in this step; the nodes can.
    void learn_count(unsigned step_nodes);
    /// Returns the node that a report belongs to, which has reported now; nullptr if there is none.
    const ExpectedNode* take(const NodeReport& report);

    [[nodiscard]] bool are_known() const { return !nodes_.empty(); }
    [[nodiscard]] std::size_t count() const { return count_; }
    [[nodiscard]] std::string head() const { return nodes_.empty() ? "" : nodes_.front().name; }
    /// Returns the names of the nodes that have not reported.
    [[nodiscard]] std::vector<std::string> missing() const;
    /// Returns ": n[03,17]", or "" if nobody is known to be missing.
    [[nodiscard]] std::string missing_text() const;

private:
    void index_names();

    std::vector<ExpectedNode> nodes_;
    unsigned component_;
    std::size_t count_;
    std::vector<bool> taken_;
    std::unordered_map<std::string, std::size_t> by_name_; ///< the first entry of that name in nodes_
};

} // namespace rdma_nccl
