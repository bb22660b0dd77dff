// SPDX-License-Identifier: Apache-2.0
#include "lib/placement/placement.h"

#include "lib/base/lists.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace rdma_nccl {

namespace {

/// Two cores near the GPU are enough for a rank: one for its own thread, one for NCCL's proxy. Only a rank with fewer
/// takes farther ones.
constexpr std::size_t enough_cores = 2;

/// The smallest piece that a rank can get: a core's allowed threads, or a single thread.
struct Unit {
    CpuSet cpus;
    const Core* core;
};

std::vector<Unit> units_of(const Topology& topology, const CpuSet& common, std::size_t ranks) {
    std::vector<Unit> cores;
    cores.reserve(topology.cores.size());
    for (const auto& core : topology.cores) {
        if (core.cpus.intersects(common)) {
            cores.push_back({core.cpus & common, &core});
        }
    }
    if (cores.size() >= ranks) {
        return cores;
    }
    std::vector<Unit> threads;
    for (const auto& unit : cores) {
        for (const unsigned cpu : unit.cpus.cpus()) {
            threads.push_back({CpuSet::range(cpu, cpu), unit.core});
        }
    }
    return threads;
}

/// Units that are equally near to everything: in the same NUMA node, and near the same GPUs.
struct Domain {
    /// The NUMA node, or else the package; and for each rank whether its GPU is near.
    using Kind = std::tuple<std::optional<unsigned>, unsigned, std::vector<bool>>;

    Kind kind;
    std::vector<const Unit*> units; ///< in the order of the topology
    std::size_t free = 0;           ///< not yet promised to a rank

    [[nodiscard]] unsigned package() const { return units.front()->core->package; }
};

bool is_known(const std::optional<Place>& device) {
    return device && !device->cpus.empty();
}

/// True to group units by NUMA node, false to group them by package. Some virtual machines show a package for each
/// core, so there the NUMA node says more. If no rank is near any device, groups by the larger of the two, so that each
/// rank gets adjacent CPUs instead of a piece of every node.
bool prefers_nodes(const Topology& topology, std::span<const RankDevices> ranks) {
    const bool any_near =
        std::ranges::any_of(ranks, [](const RankDevices& rank) { return is_known(rank.gpu) || is_known(rank.hca); });
    return any_near || topology.packages > topology.numa_nodes.size();
}

std::vector<Domain> domains_of(const Topology& topology, const std::vector<Unit>& units,
                               std::span<const RankDevices> ranks) {
    const bool by_node = prefers_nodes(topology, ranks);
    std::vector<Domain> domains;
    for (const auto& unit : units) {
        auto near =
            mapped(ranks, [&](const RankDevices& rank) { return rank.gpu && rank.gpu->cpus.intersects(unit.cpus); });
        const auto node = by_node ? unit.core->numa_node : std::nullopt;
        const Domain::Kind kind(node, node ? 0 : unit.core->package, std::move(near));
        auto* const known = find_by(domains, &Domain::kind, kind);
        auto& domain = known != nullptr ? *known : domains.emplace_back(Domain{kind, {}, 0});
        domain.units.push_back(&unit);
        ++domain.free;
    }
    return domains;
}

class CpuSharing {
public:
    CpuSharing(const Topology& topology, const std::vector<Unit>& units, std::span<const RankDevices> ranks)
        : distances_(topology), domains_(domains_of(topology, units, ranks)),
          wanted_(std::clamp<std::size_t>(units.size() / ranks.size(), 1, enough_cores)) {
        for (const auto& devices : ranks) {
            auto& rank = ranks_.emplace_back();
            rank.promised.resize(domains_.size());
            for (const auto& domain : domains_) {
                rank.gpu.push_back(distance(devices.gpu, domain));
                rank.hca.push_back(distance(devices.hca, domain));
            }
            rank.nearest = std::ranges::min(rank.gpu);
            if (rank.nearest == Distance::Unknown) { // no GPU, or one whose place is unknown
                rank.gpu = rank.hca;
                rank.nearest = std::ranges::min(rank.gpu);
            }
        }
        choose_homes(units.size());
    }

    std::vector<CpuSet> share() {
        // First gives each rank what it needs, near units before far ones; then gives out the near units that are left.
        for (std::size_t round = 0; round < wanted_; ++round) {
            for (const bool far : {false, true}) {
                for (auto& rank : ranks_) {
                    if (rank.total <= round) {
                        (void)promise(rank, far);
                    }
                }
            }
        }
        for (bool any = true; any;) {
            any = false;
            for (auto& rank : ranks_) {
                any = promise(rank, false) || any;
            }
        }
        return hand_out();
    }

private:
    struct Rank {
        std::vector<Distance> gpu; ///< the distance to each domain
        std::vector<Distance> hca;
        Distance nearest = Distance::Unknown; ///< the minimum of `gpu`
        std::size_t home = 0;                 ///< the domain that it takes units from first
        std::vector<std::size_t> promised;    ///< the number of units in each domain
        std::size_t total = 0;
    };

    [[nodiscard]] Distance distance(const std::optional<Place>& device, const Domain& domain) const {
        return device ? distances_.to_cpus(*device, domain.units.front()->cpus) : Distance::Unknown;
    }

    /// The ranks, sorted by the distance to their nearest domain.
    [[nodiscard]] std::vector<std::size_t> nearest_first() const {
        std::vector<std::size_t> order(ranks_.size());
        std::iota(order.begin(), order.end(), 0);
        std::ranges::stable_sort(order, {}, [this](std::size_t rank) { return ranks_[rank].nearest; });
        return order;
    }

    /// A rank's home is the domain nearest its GPU, then nearest its HCA, then with the most room. Ranks that have
    /// near CPUs choose before those that only look for room. A rank that is near no device gets the domain at its own
    /// position in the order, so that neighbours stay together.
    void choose_homes(std::size_t units) {
        std::vector<std::size_t> homes(domains_.size());
        for (const std::size_t number : nearest_first()) {
            auto& rank = ranks_[number];
            if (rank.nearest == Distance::Unknown) {
                rank.home = domain_of_unit(number * units / ranks_.size());
                continue;
            }
            const auto crowd = [&](std::size_t d) {
                return static_cast<double>(homes[d]) / static_cast<double>(domains_[d].units.size());
            };
            for (std::size_t d = 1; d < domains_.size(); ++d) {
                if (std::tuple(rank.gpu[d], rank.hca[d], crowd(d)) <
                    std::tuple(rank.gpu[rank.home], rank.hca[rank.home], crowd(rank.home))) {
                    rank.home = d;
                }
            }
            ++homes[rank.home];
        }
    }

    [[nodiscard]] std::size_t domain_of_unit(std::size_t number) const {
        std::size_t d = 0;
        while (number >= domains_[d].units.size()) {
            number -= domains_[d].units.size();
            ++d;
        }
        return d;
    }

    /// Promises one more unit to a rank: from its home, else from the nearest domain that has a free one. Without
    /// `far`, only from domains as near its GPU as possible, or from the home's package if no distance is known.
    bool promise(Rank& rank, bool far) {
        std::optional<std::size_t> best;
        for (std::size_t d = 0; d < domains_.size(); ++d) {
            const bool near = rank.nearest == Distance::Unknown ? domains_[d].package() == domains_[rank.home].package()
                                                                : rank.gpu[d] == rank.nearest;
            const bool allowed = domains_[d].free > 0 && (far || near);
            if (allowed && (!best || key(rank, d) < key(rank, *best))) {
                best = d;
            }
        }
        if (!best) {
            return false;
        }
        --domains_[*best].free;
        ++rank.promised[*best];
        ++rank.total;
        return true;
    }
    static std::tuple<bool, Distance, Distance, std::size_t> key(const Rank& rank, std::size_t d) {
        return {d != rank.home, rank.gpu[d], rank.hca[d], d};
    }

    /// Hands out each domain's units in order, so that each rank gets adjacent ones.
    std::vector<CpuSet> hand_out() {
        std::vector<CpuSet> shares(ranks_.size());
        for (std::size_t d = 0; d < domains_.size(); ++d) {
            auto unit = domains_[d].units.begin();
            for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
                for (std::size_t i = 0; i < ranks_[rank].promised[d]; ++i) {
                    shares[rank] |= (*unit++)->cpus;
                }
            }
        }
        return shares;
    }

    Distances distances_;
    std::vector<Domain> domains_;
    std::vector<Rank> ranks_;
    std::size_t wanted_; ///< units for each rank: its fair share, but not more than enough
};

} // namespace

std::vector<CpuSet> share_cpus(const Topology& topology, const CpuSet& common, std::span<const RankDevices> ranks) {
    const auto units = units_of(topology, common, ranks.size());
    if (ranks.empty() || units.size() < ranks.size()) {
        return {};
    }
    return CpuSharing(topology, units, ranks).share();
}

} // namespace rdma_nccl
