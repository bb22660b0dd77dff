// SPDX-License-Identifier: Apache-2.0
#include "lib/placement/placement.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace rdma_nccl {

namespace {

GpuNumbers identity(std::size_t count) {
    GpuNumbers numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0);
    return numbers;
}

std::vector<std::vector<unsigned>> costs_of(const PlacementFacts& facts) {
    const Distances distances(facts.topology);
    return mapped(facts.masks, [&](const CpuSet& mask) {
        return mapped(facts.gpus, [&](const Place& gpu) {
            // A GPU at an unknown place is no reason to change the order: count it as far.
            return static_cast<unsigned>(std::min(distances.to_cpus(gpu, mask), Distance::Other));
        });
    });
}

/// Returns the order in which each LOCAL_RANK's GPU is the near one; empty if that is no better than the present order.
GpuNumbers better_order(const PlacementFacts& facts) {
    if (!facts.may_reorder || !facts.own_gpus.empty() || facts.masks.empty() ||
        facts.gpus.size() < facts.masks.size()) {
        return {};
    }
    if (facts.gpus.size() == facts.masks.size() &&
        std::ranges::all_of(facts.masks, [&](const CpuSet& mask) { return mask == facts.masks.front(); })) {
        return {}; // every order is as good
    }
    GpuNumbers order = assign_gpus(costs_of(facts));
    if (count_distance(facts, order) >= count_distance(facts, identity(order.size()))) {
        return {};
    }
    for (std::size_t gpu = 0; gpu < facts.gpus.size(); ++gpu) {
        if (std::ranges::count(order, gpu) == 0) {
            order.push_back(gpu);
        }
    }
    return order;
}

GpuNumbers gpus_of_rank(const PlacementFacts& facts, const GpuNumbers& order, std::size_t rank) {
    if (!facts.own_gpus.empty()) {
        return facts.own_gpus.at(rank);
    }
    return order.empty() ? GpuNumbers() : GpuNumbers{order[rank % order.size()]};
}

/// Groups the ranks that have the same CPUs.
std::map<std::string, std::vector<std::size_t>> groups_of(const std::vector<CpuSet>& masks) {
    std::map<std::string, std::vector<std::size_t>> groups;
    for (std::size_t rank = 0; rank < masks.size(); ++rank) {
        groups[masks[rank].list()].push_back(rank);
    }
    return groups;
}

/// "ranks 0 to 7", "ranks 0, 3"
std::string ranks_text(const std::vector<std::size_t>& ranks) {
    if (ranks.size() == 1) {
        return format_text("rank {}", ranks.front());
    }
    if (ranks.back() - ranks.front() + 1 == ranks.size()) {
        return format_text("ranks {} to {}", ranks.front(), ranks.back());
    }
    return "ranks " + joined(mapped(ranks, [](std::size_t rank) { return std::to_string(rank); }));
}

class Planner {
public:
    explicit Planner(const PlacementFacts& facts) : facts_(facts), distances_(facts.topology) {}

    Placement plan() {
        placement_.gpu_to_hca = distances_.to_hcas(facts_.gpus, facts_.hcas);
        placement_.nearness_known = nearness_known(placement_.gpu_to_hca);
        placement_.gpu_order = better_order(facts_);
        const auto order = placement_.gpu_order.empty() ? identity(facts_.gpus.size()) : placement_.gpu_order;
        for (std::size_t rank = 0; rank < facts_.masks.size(); ++rank) {
            auto& placed = placement_.ranks.emplace_back();
            placed.gpus = gpus_of_rank(facts_, order, rank);
            placed.cpus = facts_.masks[rank];
        }
        order_hcas_of_ranks(true);
        for (const auto& [mask, ranks] : groups_of(facts_.masks)) {
            if (facts_.may_share && ranks.size() > 1) {
                share(ranks);
            }
        }
        for (auto& rank : placement_.ranks) {
            rank.cores = facts_.topology.count_cores(rank.cpus);
            rank.memory_node = memory_node(rank);
            if (const auto gpu = gpu_of(rank)) {
                rank.gpu_to_cpus = distances_.to_cpus(*gpu, rank.cpus);
            }
        }
        order_hcas_of_ranks(false);
        note_far_ranks();
        compare_counts();
        return std::move(placement_);
    }

private:
    [[nodiscard]] std::optional<Place> gpu_of(const RankPlacement& rank) const {
        return rank.gpus.empty() ? std::nullopt : std::optional(facts_.gpus[rank.gpus.front()]);
    }

    /// Gives the ranks with a GPU, or those without, their HCAs. A rank without a GPU takes those nearest to its CPUs.
    void order_hcas_of_ranks(bool with_gpu) {
        DistanceTable table;
        std::vector<RankPlacement*> ranks;
        for (auto& rank : placement_.ranks) {
            if (rank.gpus.empty() == with_gpu || facts_.hcas.empty()) {
                continue;
            }
            ranks.push_back(&rank);
            auto& row = table.emplace_back();
            for (std::size_t hca = 0; hca < facts_.hcas.size(); ++hca) {
                row.push_back(with_gpu ? placement_.gpu_to_hca[rank.gpus.front()][hca]
                                       : HcaDistance(distances_.to_cpus(facts_.hcas[hca], rank.cpus)));
            }
        }
        auto orders = order_hcas(table);
        for (std::size_t i = 0; i < ranks.size(); ++i) {
            ranks[i]->hcas = std::move(orders[i]);
            ranks[i]->to_hca = table[i][ranks[i]->hcas.front()];
        }
    }

    /// Leaves room for `others`, unless that leaves too few CPUs.
    [[nodiscard]] std::vector<CpuSet> share_beside_others(const CpuSet& common,
                                                          const std::vector<RankDevices>& devices) const {
        auto all = devices;
        for (const auto& other : facts_.others) {
            all.push_back({other, std::nullopt});
        }
        auto shares = share_cpus(facts_.topology, common, all);
        if (shares.empty()) {
            return share_cpus(facts_.topology, common, devices);
        }
        shares.resize(devices.size());
        return shares;
    }

    void share(const std::vector<std::size_t>& group) {
        std::vector<RankDevices> devices;
        for (const auto number : group) {
            const auto& rank = placement_.ranks[number];
            devices.push_back(
                {gpu_of(rank), rank.hcas.empty() ? std::nullopt : std::optional(facts_.hcas[rank.hcas.front()])});
        }
        const CpuSet& common = facts_.masks[group.front()];
        auto shares = share_beside_others(common, devices);
        for (std::size_t i = 0; i < group.size(); ++i) {
            auto& rank = placement_.ranks[group[i]];
            rank.source = shares.empty() ? CpuSource::Scarce : CpuSource::Shared;
            rank.cpus = shares.empty() ? common : shares[i];
        }
        if (shares.empty() && !common.empty()) {
            placement_.notes.push_back(
                format_text("{} share {} ({})", ranks_text(group), format_count(common.size(), "CPU"), common.list()));
        }
    }

    /// Returns the NUMA node of the rank's CPUs. If they span several, returns the one of them that is near the rank's
    /// GPU. Replaces a node without memory by one with memory in the same package.
    [[nodiscard]] std::optional<unsigned> memory_node(const RankPlacement& rank) const {
        std::vector<const NumaNode*> nodes;
        for (const auto& node : facts_.topology.numa_nodes) {
            if (!node.special && node.cpus.intersects(rank.cpus)) {
                nodes.push_back(&node);
            }
        }
        if (nodes.size() > 1) {
            const auto gpu = gpu_of(rank);
            std::erase_if(nodes, [&gpu](const NumaNode* node) {
                return !gpu || gpu->cpus.empty() || !node->cpus.contains(gpu->cpus);
            });
        }
        if (nodes.size() != 1) {
            return std::nullopt;
        }
        if (nodes.front()->memory_mib > 0) {
            return nodes.front()->number;
        }
        const auto other = std::ranges::find_if(facts_.topology.numa_nodes, [&](const NumaNode& node) {
            return !node.special && node.memory_mib > 0 && node.package == nodes.front()->package;
        });
        return other == facts_.topology.numa_nodes.end() ? std::nullopt : std::optional(other->number);
    }

    void note_far_ranks() {
        const auto far = positions_where(placement_.ranks, [](const RankPlacement& rank) {
            return rank.gpu_to_cpus > Distance::SameNuma && rank.gpu_to_cpus != Distance::Unknown;
        });
        if (!far.empty()) {
            placement_.notes.push_back(format_text("{}: not all of the CPUs are near the GPU", ranks_text(far)));
        }
    }

    void compare_counts() {
        const std::size_t ranks = placement_.ranks.size();
        const std::size_t gpus = facts_.gpus.size();
        if (!facts_.own_gpus.empty() || gpus == 0) {
            return;
        }
        if (ranks > gpus) {
            placement_.warnings.push_back(
                format_text("{} ranks on {}: NCCL before 2.30 refuses two ranks on one GPU; start as many "
                            "tasks on a node as it has GPUs",
                            ranks, format_count(gpus, "GPU")));
        } else if (ranks > 1 && ranks < gpus) {
            placement_.notes.push_back(format_text("{} ranks drive the first {} of {} GPUs", ranks, ranks, gpus));
        }
    }

    const PlacementFacts& facts_;
    const Distances distances_;
    Placement placement_;
};

} // namespace

std::size_t RankPlacement::threads() const {
    constexpr std::size_t cores_with_room = 4; // for NCCL's proxy thread
    return source == CpuSource::Scarce ? 1 : std::max<std::size_t>(cores >= cores_with_room ? cores - 1 : cores, 1);
}

unsigned count_distance(const PlacementFacts& facts, const GpuNumbers& order) {
    const auto costs = costs_of(facts);
    unsigned sum = 0;
    for (std::size_t rank = 0; rank < costs.size() && rank < order.size(); ++rank) {
        sum += costs[rank][order[rank]];
    }
    return sum;
}

Placement plan_placement(const PlacementFacts& facts) {
    return Planner(facts).plan();
}

} // namespace rdma_nccl
