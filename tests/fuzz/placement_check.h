// SPDX-License-Identifier: Apache-2.0
// What holds for the placement of any ranks on any machine.
#pragma once

#include "lib/base/format.h"
#include "lib/placement/placement.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

namespace fuzz {

class PlacementCheck {
public:
    PlacementCheck(const rdma_nccl::PlacementFacts& facts, const rdma_nccl::Placement& placement)
        : facts_(facts), placement_(placement) {}

    /// The first thing that does not hold, in words; empty when all does.
    std::string find_fault() {
        if (placement_.ranks.size() != facts_.masks.size()) {
            return "as many places as ranks";
        }
        check_gpu_order();
        std::map<std::string, std::vector<std::size_t>> groups;
        for (std::size_t rank = 0; rank < facts_.masks.size(); ++rank) {
            groups[facts_.masks[rank].list()].push_back(rank);
            check_rank(rank);
        }
        for (const auto& [mask, group] : groups) {
            check_group(group);
        }
        check_hcas();
        require(is_same(rdma_nccl::plan_placement(facts_)), "the same answer when asked again");
        return fault_;
    }

private:
    using CpuSet = rdma_nccl::CpuSet;
    using Distance = rdma_nccl::Distance;
    using Group = std::vector<std::size_t>;

    void require(bool holds, std::string_view what) {
        if (!holds && fault_.empty()) {
            fault_ = what;
        }
    }
    void require(bool holds, std::string_view what, std::size_t rank) {
        if (!holds) {
            require(false, rdma_nccl::format_text("{} (rank {} on {} of {})", what, rank, cpus(rank).list(),
                                                  facts_.masks[rank].list()));
        }
    }

    [[nodiscard]] const CpuSet& cpus(std::size_t rank) const { return placement_.ranks[rank].cpus; }
    [[nodiscard]] const rdma_nccl::Place* gpu_of(std::size_t rank) const {
        const auto& gpus = placement_.ranks[rank].gpus;
        return gpus.empty() ? nullptr : &facts_.gpus.at(gpus.front());
    }

    void check_gpu_order() {
        const auto& order = placement_.gpu_order;
        rdma_nccl::GpuNumbers identity(facts_.gpus.size());
        std::iota(identity.begin(), identity.end(), 0);
        if (!order.empty()) {
            require(facts_.may_reorder && facts_.own_gpus.empty(), "the order of the GPUs changed only where it may");
            require(std::is_permutation(order.begin(), order.end(), identity.begin(), identity.end()),
                    "each GPU once in the order");
            require(rdma_nccl::count_distance(facts_, order) < rdma_nccl::count_distance(facts_, identity),
                    "the order changed only for nearer GPUs");
        }
        const auto& in_order = order.empty() ? identity : order;
        for (std::size_t rank = 0; rank < facts_.masks.size(); ++rank) {
            const auto& gpus = placement_.ranks[rank].gpus;
            const rdma_nccl::GpuNumbers wanted = !facts_.own_gpus.empty() ? facts_.own_gpus[rank]
                                                 : in_order.empty()
                                                     ? rdma_nccl::GpuNumbers()
                                                     : rdma_nccl::GpuNumbers{in_order[rank % in_order.size()]};
            require(gpus == wanted, "the GPU of LOCAL_RANK's number, or its own", rank);
        }
    }

    void check_rank(std::size_t rank) {
        const auto& placed = placement_.ranks[rank];
        require(facts_.masks[rank].contains(placed.cpus), "no CPU that Slurm did not give", rank);
        require(!placed.cpus.empty() || facts_.masks[rank].empty(), "a CPU for each rank", rank);
        require(placed.cores == facts_.topology.count_cores(placed.cpus), "the number of its cores", rank);
        require(placed.threads() >= 1 && placed.threads() <= std::max<std::size_t>(placed.cores, 1),
                "no more threads than cores", rank);
        check_memory(rank);
    }

    void check_memory(std::size_t rank) {
        const auto& placed = placement_.ranks[rank];
        const auto& nodes = facts_.topology.numa_nodes;
        const auto has_cpus = [&](const auto& node) { return !node.special && node.cpus.intersects(placed.cpus); };
        if (placed.memory_node) {
            const auto* node = facts_.topology.find_numa_node(*placed.memory_node);
            require(node != nullptr && node->memory_mib > 0 && !node->special, "a NUMA node with memory", rank);
            require(node == nullptr || has_cpus(*node) ||
                        std::any_of(nodes.begin(), nodes.end(),
                                    [&](const auto& other) {
                                        return has_cpus(other) && other.memory_mib == 0 &&
                                               other.package == node->package;
                                    }),
                    "memory near to its CPUs", rank);
        } else if (std::count_if(nodes.begin(), nodes.end(), has_cpus) == 1) {
            const auto node = std::find_if(nodes.begin(), nodes.end(), has_cpus);
            require(node->memory_mib == 0, "the memory of its only NUMA node", rank);
        }
    }

    /// Ranks to whom Slurm gave the same CPUs.
    void check_group(const Group& group) {
        using rdma_nccl::CpuSource;
        const CpuSet& mask = facts_.masks[group.front()];
        const bool shares = facts_.may_share && group.size() > 1;
        const bool scarce = (mask & facts_.topology.cpus()).size() < group.size();
        const auto source = !shares ? CpuSource::Slurm : scarce ? CpuSource::Scarce : CpuSource::Shared;
        for (const auto rank : group) {
            require(placement_.ranks[rank].source == source, "shared where it can be", rank);
            require(source == CpuSource::Shared || cpus(rank) == mask, "what is not shared stays as it is", rank);
        }
        require(source != CpuSource::Scarce || !placement_.notes.empty(), "a note where CPUs are scarce");
        if (source == CpuSource::Shared) {
            check_shares(group, mask);
        }
    }

    void check_shares(const Group& group, const CpuSet& mask) {
        CpuSet taken;
        for (const auto rank : group) {
            require(!taken.intersects(cpus(rank)), "no CPU for two", rank);
            taken |= cpus(rank);
        }
        const auto units = units_of(group, mask);
        for (const auto rank : group) {
            for (const auto& unit : units) {
                require(cpus(rank).contains(unit) || !cpus(rank).intersects(unit), "whole cores", rank);
            }
            check_nearness(rank, units, taken, group.size());
        }
        check_fairness(group, units);
        check_first_cores(group, units);
    }

    /// Who has no core near to its GPU finds all of them with ranks to whose GPUs these are as near as can be.
    void check_first_cores(const Group& group, const std::vector<CpuSet>& units) {
        for (const auto rank : group) {
            const auto near = near_units(rank, units);
            const auto is_own = [&](const CpuSet& unit) { return cpus(rank).intersects(unit); };
            for (const auto other : std::none_of(near.begin(), near.end(), is_own) ? group : Group()) {
                const auto others = near_units(other, units);
                for (const auto& unit : near) {
                    const bool far = std::find(others.begin(), others.end(), unit) == others.end();
                    require(others.empty() || !far || !cpus(other).intersects(unit),
                            "a core near to the GPU of a rank that has none is nobody's far one", other);
                }
            }
        }
    }

    /// Those at the least distance from the rank's GPU; none where its place is not known.
    [[nodiscard]] std::vector<CpuSet> near_units(std::size_t rank, const std::vector<CpuSet>& units) const {
        const auto* gpu = gpu_of(rank);
        if (gpu == nullptr || gpu->cpus.empty()) {
            return {};
        }
        const rdma_nccl::Distances distances(facts_.topology);
        std::map<Distance, std::vector<CpuSet>> by_distance;
        for (const auto& unit : units) {
            by_distance[distances.to_cpus(*gpu, unit)].push_back(unit);
        }
        return by_distance.begin()->second;
    }

    /// What is handed out as a whole: the allowed threads of a core, single ones where there are fewer cores than
    /// ranks.
    [[nodiscard]] std::vector<CpuSet> units_of(const Group& group, const CpuSet& mask) const {
        std::vector<CpuSet> units;
        const bool whole = facts_.topology.count_cores(mask) >= group.size();
        for (const auto& core : facts_.topology.cores) {
            const CpuSet allowed = core.cpus & mask;
            if (whole && !allowed.empty()) {
                units.push_back(allowed);
            }
            for (const auto cpu : whole ? std::vector<unsigned>() : allowed.cpus()) {
                units.push_back(CpuSet::range(cpu, cpu));
            }
        }
        return units;
    }

    /// Far cores are for who has too few near ones, after all near ones are given away.
    void check_nearness(std::size_t rank, const std::vector<CpuSet>& units, const CpuSet& taken, std::size_t ranks) {
        const auto near = near_units(rank, units);
        const auto count_own = [&](const std::vector<CpuSet>& of) {
            return static_cast<std::size_t>(
                std::count_if(of.begin(), of.end(), [&](const CpuSet& unit) { return cpus(rank).intersects(unit); }));
        };
        for (const auto& unit : near) {
            require(taken.intersects(unit), "no core near to its GPU is left over", rank);
        }
        const std::size_t own = count_own(units);
        const std::size_t enough = std::clamp<std::size_t>(units.size() / ranks, 1, 2);
        require(near.empty() || own == count_own(near) || own <= enough, "no more far cores than it needs", rank);
    }

    /// Every rank has two cores if there are so many; ranks at the same places have as many as each other.
    void check_fairness(const Group& group, const std::vector<CpuSet>& units) {
        std::map<std::pair<std::string, std::string>, std::set<std::size_t>> counts;
        for (const auto rank : group) {
            const auto own = static_cast<std::size_t>(std::count_if(
                units.begin(), units.end(), [&](const CpuSet& unit) { return cpus(rank).intersects(unit); }));
            require(own >= std::min<std::size_t>(units.size() / group.size(), 2), "two cores if there are so many",
                    rank);
            const auto* gpu = gpu_of(rank);
            if (gpu != nullptr && !gpu->cpus.empty()) {
                const auto& hcas = placement_.ranks[rank].hcas;
                counts[{gpu->cpus.list(), hcas.empty() ? "" : facts_.hcas.at(hcas.front()).cpus.list()}].insert(own);
            }
        }
        for (const auto& [place, seen] : counts) {
            require(*seen.rbegin() - *seen.begin() <= 1, "as many cores as others at the same GPUs");
        }
    }

    void check_hcas() {
        for (const bool with_gpu : {true, false}) {
            rdma_nccl::DistanceTable table;
            std::vector<std::size_t> firsts;
            for (std::size_t rank = 0; rank < placement_.ranks.size(); ++rank) {
                const auto& placed = placement_.ranks[rank];
                if (!facts_.hcas.empty() && placed.gpus.empty() != with_gpu) {
                    table.push_back(row_of(rank));
                    check_order(rank, table.back());
                    firsts.push_back(placed.hcas.empty() ? 0 : placed.hcas.front());
                }
            }
            check_load(table, firsts);
        }
    }

    [[nodiscard]] std::vector<rdma_nccl::HcaDistance> row_of(std::size_t rank) const {
        std::vector<rdma_nccl::HcaDistance> row;
        const auto* gpu = gpu_of(rank);
        const rdma_nccl::Distances distances(facts_.topology);
        for (const auto& hca : facts_.hcas) {
            row.push_back(gpu == nullptr ? rdma_nccl::HcaDistance(distances.to_cpus(hca, cpus(rank)))
                                         : distances.between(*gpu, hca));
        }
        return row;
    }

    void check_order(std::size_t rank, const std::vector<rdma_nccl::HcaDistance>& row) {
        const auto& placed = placement_.ranks[rank];
        require(std::set<std::size_t>(placed.hcas.begin(), placed.hcas.end()).size() == row.size() &&
                    placed.hcas.size() == row.size() && placed.hcas.front() < row.size(),
                "each HCA once", rank);
        require(std::is_sorted(placed.hcas.begin(), placed.hcas.end(),
                               [&](std::size_t a, std::size_t b) { return row.at(a) < row.at(b); }),
                "the nearest HCA first", rank);
        require(placed.to_hca == *std::min_element(row.begin(), row.end()), "the distance to its HCA", rank);
    }

    /// No HCA is first for more ranks than must be. The least that can be (Hall): for some set of HCAs, the ranks that
    /// are near to no others, spread over the set.
    void check_load(const rdma_nccl::DistanceTable& table, const std::vector<std::size_t>& firsts) {
        std::size_t least = 0;
        for (std::size_t set = 1; set < std::size_t{1} << facts_.hcas.size(); ++set) {
            std::size_t bound = 0;
            std::size_t size = 0;
            for (std::size_t hca = 0; hca < facts_.hcas.size(); ++hca) {
                size += set >> hca & 1U;
            }
            for (const auto& row : table) {
                const auto nearest = *std::min_element(row.begin(), row.end());
                bool inside = true;
                for (std::size_t hca = 0; hca < row.size(); ++hca) {
                    inside = inside && (row[hca] != nearest || (set >> hca & 1U) != 0);
                }
                bound += static_cast<std::size_t>(inside);
            }
            least = std::max(least, (bound + size - 1) / size);
        }
        for (std::size_t hca = 0; hca < facts_.hcas.size(); ++hca) {
            require(static_cast<std::size_t>(std::count(firsts.begin(), firsts.end(), hca)) <= least,
                    "the ranks spread over equally near HCAs");
        }
    }

    [[nodiscard]] bool is_same(const rdma_nccl::Placement& other) const {
        const auto same_rank = [](const auto& a, const auto& b) {
            return a.gpus == b.gpus && a.cpus == b.cpus && a.source == b.source && a.memory_node == b.memory_node &&
                   a.hcas == b.hcas && a.to_hca == b.to_hca && a.gpu_to_cpus == b.gpu_to_cpus;
        };
        return placement_.gpu_order == other.gpu_order && placement_.gpu_to_hca == other.gpu_to_hca &&
               placement_.warnings == other.warnings && placement_.notes == other.notes &&
               std::equal(placement_.ranks.begin(), placement_.ranks.end(), other.ranks.begin(), other.ranks.end(),
                          same_rank);
    }

    const rdma_nccl::PlacementFacts& facts_;
    const rdma_nccl::Placement& placement_;
    std::string fault_;
};

inline std::string find_fault(const rdma_nccl::PlacementFacts& facts) {
    const auto placement = rdma_nccl::plan_placement(facts);
    return PlacementCheck(facts, placement).find_fault();
}

} // namespace fuzz
