// SPDX-License-Identifier: Apache-2.0
#include "lib/topology/topology.h"

#include "lib/base/format.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>

namespace rdma_nccl {

namespace {

struct DistanceNames {
    std::string_view word;
    std::string_view text;
    std::string_view name;
};

/// In the order of Distance.
constexpr std::array<DistanceNames, 9> distance_names = {{{"PIX", "the same card", "same-device"},
                                                          {"PIX", "one PCIe switch", "one-switch"},
                                                          {"PXB", "several PCIe switches", "several-switches"},
                                                          {"PHB", "the host bridge", "host-bridge"},
                                                          {"NODE", "the NUMA node", "same-numa"},
                                                          {"PKG", "another NUMA node of the package", "same-package"},
                                                          {"SYS", "another NUMA node", "other"},
                                                          {"SYS", "another package", "other"},
                                                          {"?", "unknown", "unknown"}}};
static_assert(distance_names.size() == static_cast<std::size_t>(Distance::Unknown) + 1);

const DistanceNames& names_of(Distance distance) {
    return distance_names.at(static_cast<std::size_t>(distance));
}

Place place(const std::string& pci_path, const CpuSet& local, const std::optional<int>& numa_node,
            const Topology& topology) {
    const auto* node = numa_node ? topology.find_numa_node(static_cast<unsigned>(*numa_node)) : nullptr;
    Place result{pci_path, !local.empty() ? local : node != nullptr ? node->cpus : CpuSet()};
    if (std::ranges::count(topology.numa_nodes, false, &NumaNode::special) > 1 && !numa_node &&
        result.cpus.contains(topology.cpus())) {
        result.cpus = CpuSet();
    }
    return result;
}

constexpr std::size_t no_hca = static_cast<std::size_t>(-1);

/// Gives each device one of its nearest HCAs, with as few devices per HCA as possible. This is bipartite matching by
/// augmenting paths; while a device is left without an HCA, the capacity of every HCA grows by one.
class HcaMatching {
public:
    explicit HcaMatching(const DistanceTable& distances)
        : nearest_(distances.size()), users_(distances.front().size()), hca_of_(distances.size(), no_hca) {
        for (std::size_t device = 0; device < distances.size(); ++device) {
            const auto& row = distances[device];
            const auto least = std::ranges::min(row);
            nearest_[device] = positions_where(row, [least](const HcaDistance& distance) { return distance == least; });
        }
    }

    std::vector<std::size_t> match() {
        for (capacity_ = 1; std::ranges::count(hca_of_, no_hca) > 0; ++capacity_) {
            // What a search has tried in vain leads to no free HCA until there is more capacity: no other search tries
            // it again. Else thousands of devices at a few HCAs would take time with the cube of their number.
            std::vector<bool> in_vain(users_.size());
            for (std::size_t device = 0; device < hca_of_.size(); ++device) {
                if (auto tried = in_vain; hca_of_[device] == no_hca && !find_hca(device, tried)) {
                    in_vain = std::move(tried);
                }
            }
        }
        return hca_of_;
    }

private:
    bool find_hca(std::size_t device, std::vector<bool>& tried) {
        for (const std::size_t hca : nearest_[device]) {
            if (users_[hca].size() < capacity_) {
                users_[hca].push_back(device);
                hca_of_[device] = hca;
                return true;
            }
        }
        for (const std::size_t hca : nearest_[device]) {
            if (tried[hca]) {
                continue;
            }
            tried[hca] = true;
            for (auto& user : users_[hca]) {
                if (find_hca(user, tried)) {
                    user = device;
                    hca_of_[device] = hca;
                    return true;
                }
            }
        }
        return false;
    }

    std::vector<std::vector<std::size_t>> nearest_;
    std::vector<std::vector<std::size_t>> users_; ///< the devices at each HCA
    std::vector<std::size_t> hca_of_;
    std::size_t capacity_ = 1;
};

} // namespace

std::string GpuLink::word() const {
    return kind == Kind::Xgmi ? "XGMI" : count == 0 ? "NV" : format_text("NV{}", count);
}

GpuLinks::GpuLinks(const Topology& topology) {
    for (const auto& link : topology.gpu_links) {
        if (link.peer.empty()) {
            to_switches_[link.gpu] += link.count; // a GPU may have an entry for each switch
        } else if (auto& known = direct_[std::minmax({std::string_view(link.gpu), std::string_view(link.peer)})];
                   known == nullptr || known->count < link.count) {
            known = &link; // both ends may tell of the same links
        }
    }
}

std::optional<GpuLink> GpuLinks::between(std::string_view gpu, std::string_view peer) const {
    if (const auto direct = direct_.find(std::minmax({gpu, peer})); direct != direct_.end()) {
        return *direct->second;
    }
    const auto from_gpu = to_switches_.find(gpu);
    const auto from_peer = to_switches_.find(peer);
    const bool connected = gpu != peer && from_gpu != to_switches_.end() && from_peer != to_switches_.end();
    const auto least = connected ? std::min(from_gpu->second, from_peer->second) : 0;
    return least == 0 ? std::nullopt : std::optional(GpuLink{std::string(gpu), std::string(peer), {}, least});
}

std::string_view distance_word(Distance distance) {
    return names_of(distance).word;
}

std::string_view distance_text(Distance distance) {
    return names_of(distance).text;
}

std::string_view distance_name(Distance distance) {
    return names_of(distance).name;
}

Place place_of(const Gpu& gpu, const Topology& topology) {
    return place(gpu.pci_path, gpu.local_cpus, gpu.numa_node, topology);
}

Place place_of(const Hca& hca, const Topology& topology) {
    return place(hca.pci_path, hca.local_cpus, hca.numa_node, topology);
}

Distances::Distances(const Topology& topology) : packages_(std::min(topology.packages, most_cpus)) {
    for (const auto& core : topology.cores) {
        if (core.package < packages_.size()) {
            packages_[core.package] |= core.cpus;
        }
    }
}

CpuSet Distances::packages_of(const CpuSet& cpus) const {
    CpuSet result;
    for (const auto& package : packages_) {
        if (package.intersects(cpus)) {
            result |= package;
        }
    }
    return result;
}

Distance Distances::to_cpus(const Place& device, const CpuSet& cpus) const {
    if (device.cpus.empty() || cpus.empty()) {
        return Distance::Unknown;
    }
    if (device.cpus.contains(cpus)) {
        return Distance::SameNuma;
    }
    return packages_.empty()                         ? Distance::OtherNuma
           : packages_of(device.cpus).contains(cpus) ? Distance::SamePackage
                                                     : Distance::Other;
}

struct Distances::Located {
    explicit Located(const Place& device) : place(device), above(pci_ancestors(device.pci_path)) {}

    const Place& place;
    std::vector<std::string_view> above;
};

HcaDistance Distances::between(const Located& a, const Located& b) const {
    const std::size_t common = common_pci_ancestors(a.above, b.above);
    if (const auto switches = switches_between(a.above, b.above)) {
        if (*switches > 1) {
            return {Distance::SeveralSwitches, static_cast<unsigned>(a.above.size() - common)};
        }
        return *switches == 0 ? Distance::SameDevice : Distance::OneSwitch;
    }
    if (common > 0) {
        return Distance::HostBridge;
    }
    // The result depends on the direction: one of them may be near only a part of the CPUs that the other is near to.
    return std::min(to_cpus(a.place, b.place.cpus), to_cpus(b.place, a.place.cpus));
}

HcaDistance Distances::between(const Place& a, const Place& b) const {
    return between(Located(a), Located(b));
}

DistanceTable Distances::to_hcas(std::span<const Place> devices, std::span<const Place> hcas) const {
    const auto locate = [](const Place& place) { return Located(place); };
    return mapped(mapped(devices, locate), [&, located = mapped(hcas, locate)](const Located& device) {
        return mapped(located, [&](const Located& hca) { return between(device, hca); });
    });
}

bool nearness_known(const DistanceTable& distances) {
    if (distances.empty() || distances.front().empty()) {
        return false;
    }
    const Distance first = distances.front().front();
    const bool one_distance = std::ranges::all_of(distances, [first](const auto& row) {
        return std::ranges::all_of(
            row, [first, &row](const HcaDistance& distance) { return distance == first && distance == row.front(); });
    });
    const bool several = distances.size() > 1 && distances.front().size() > 1;
    return !one_distance || (first != Distance::Unknown && !several);
}

std::vector<std::vector<std::size_t>> order_hcas(const DistanceTable& distances) {
    if (distances.empty() || distances.front().empty()) {
        return std::vector<std::vector<std::size_t>>(distances.size());
    }
    const auto firsts = HcaMatching(distances).match();
    std::vector<std::vector<std::size_t>> orders;
    for (std::size_t device = 0; device < distances.size(); ++device) {
        std::vector<std::size_t> order(distances.front().size());
        std::iota(order.begin(), order.end(), 0);
        // After its own HCA, a device takes the equally near ones in rotation, so that neighbours differ in their
        // second choice too.
        std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(firsts[device]), order.end());
        std::ranges::stable_sort(order, {}, [&row = distances[device]](std::size_t hca) { return row[hca]; });
        orders.push_back(std::move(order));
    }
    return orders;
}

} // namespace rdma_nccl
