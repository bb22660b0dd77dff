// SPDX-License-Identifier: Apache-2.0
// The node x node table of `rdma-nccl pairs` for a terminal.
#pragma once

#include "tools/pairs_output.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// From one node to another: the slowest of its rails.
struct HeatCell {
    std::optional<double> gbps;
    bool failed = false;

    [[nodiscard]] bool empty() const { return !gbps && !failed; }
    /// Keeps the worse of both.
    void add(const HeatCell& other);
};

/// Row sends, column receives. Nodes that were measured again have the new values beside the old ones: the worse
/// counts.
class HeatMap {
public:
    explicit HeatMap(std::size_t nodes) : nodes_(nodes), cells_(nodes * nodes) {}

    [[nodiscard]] std::size_t nodes() const { return nodes_; }
    [[nodiscard]] const HeatCell& at(std::size_t from, std::size_t to) const { return cells_.at(from * nodes_ + to); }
    HeatCell& at(std::size_t from, std::size_t to) { return cells_.at(from * nodes_ + to); }
    /// Each cell for `by` x `by` of this one's, with the worst of them.
    [[nodiscard]] HeatMap folded(std::size_t by) const;

private:
    std::size_t nodes_;
    std::vector<HeatCell> cells_;
};

HeatMap heat_map(const PairsReport& report);

/// In Gb/s where the columns are wide enough, else in % of the median, else a block a cell, else a block for several
/// nodes. With a title and, where it needs one, a legend.
std::string heat_table(const PairsReport& report, const PairsVerdict& verdict, const PairsTextOptions& options);

} // namespace rdma_nccl
