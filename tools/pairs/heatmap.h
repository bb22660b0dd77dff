// SPDX-License-Identifier: Apache-2.0
// The node x node table of `rdma-nccl pairs` for a terminal.
#pragma once

#include "tools/pairs/output.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// The result from one node to another, on the slowest of its rails.
struct HeatCell {
    std::optional<double> gbps;
    bool failed = false;

    [[nodiscard]] bool empty() const { return !gbps && !failed; }
    /// Keeps the worse of the two values.
    void add(const HeatCell& other);
};

/// Rows send, columns receive. If nodes were measured again, the worse of old and new values counts.
class HeatMap {
public:
    explicit HeatMap(std::size_t nodes) : nodes_(nodes), cells_(nodes * nodes) {}

    [[nodiscard]] std::size_t nodes() const { return nodes_; }
    [[nodiscard]] const HeatCell& at(std::size_t from, std::size_t to) const { return cells_.at(from * nodes_ + to); }
    HeatCell& at(std::size_t from, std::size_t to) { return cells_.at(from * nodes_ + to); }
    /// Returns a map in which each cell is the worst of `by` x `by` cells of this one.
    [[nodiscard]] HeatMap folded(std::size_t by) const;

private:
    std::size_t nodes_;
    std::vector<HeatCell> cells_;
};

HeatMap heat_map(const PairsReport& report);

/// Shows Gb/s if the columns are wide enough, else % of the median, else one block per cell, else one block for several
/// nodes. Includes a title and, if needed, a legend.
std::string heat_table(const PairsReport& report, const PairsVerdict& verdict, const PairsTextOptions& options);

} // namespace rdma_nccl
