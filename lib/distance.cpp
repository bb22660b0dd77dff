// SPDX-License-Identifier: Apache-2.0
#include "lib/distance.h"

#include "lib/fabric_pci.h"

#include <algorithm>
#include <array>
#include <optional>

namespace rdma_nccl {

namespace {

struct Words {
    std::string_view word;
    std::string_view text;
    std::string_view name;
};

/// In the order of Distance.
constexpr std::array<Words, 8> words = {{{"PIX", "the same card", "same-device"},
                                         {"PIX", "one PCIe switch", "one-switch"},
                                         {"PXB", "several PCIe switches", "several-switches"},
                                         {"PHB", "the host bridge", "host-bridge"},
                                         {"NODE", "the NUMA node", "same-numa"},
                                         {"PKG", "another NUMA node of the package", "same-package"},
                                         {"SYS", "another package", "other"},
                                         {"?", "unknown", "unknown"}}};

const Words& words_of(Distance distance) {
    return words.at(static_cast<std::size_t>(distance));
}

Place place(const std::string& pci_path, const CpuSet& local, const std::optional<int>& numa_node,
            const Topology& topology) {
    const auto* node = numa_node ? topology.find_numa_node(static_cast<unsigned>(*numa_node)) : nullptr;
    Place result{pci_path, !local.empty() ? local : node != nullptr ? node->cpus : CpuSet()};
    const auto plain_nodes = std::count_if(topology.numa_nodes.begin(), topology.numa_nodes.end(),
                                           [](const NumaNode& candidate) { return !candidate.special; });
    if (plain_nodes > 1 && !numa_node && result.cpus.contains(topology.cpus())) {
        result.cpus = CpuSet();
    }
    return result;
}

Distance between_cpus(const CpuSet& near, const CpuSet& cpus, const Topology& topology) {
    if (near.empty() || cpus.empty()) {
        return Distance::Unknown;
    }
    if (near.contains(cpus)) {
        return Distance::SameNuma;
    }
    return topology.packages_of(near).contains(cpus) ? Distance::SamePackage : Distance::Other;
}

} // namespace

std::string_view distance_word(Distance distance) {
    return words_of(distance).word;
}

std::string_view distance_text(Distance distance) {
    return words_of(distance).text;
}

std::string_view distance_name(Distance distance) {
    return words_of(distance).name;
}

Place place_of(const Gpu& gpu, const Topology& topology) {
    return place(gpu.pci_path, gpu.local_cpus, gpu.numa_node, topology);
}

Place place_of(const Hca& hca, const Topology& topology) {
    return place(hca.pci_path, hca.local_cpus, hca.numa_node, topology);
}

Distance distance_between(const Place& a, const Place& b, const Topology& topology) {
    if (const auto switches = switches_between(a.pci_path, b.pci_path)) {
        return *switches == 0 ? Distance::SameDevice : *switches == 1 ? Distance::OneSwitch : Distance::SeveralSwitches;
    }
    if (common_pci_ancestors(a.pci_path, b.pci_path) > 0) {
        return Distance::HostBridge;
    }
    // One of them may be near to a part of what the other is near to.
    return std::min(between_cpus(a.cpus, b.cpus, topology), between_cpus(b.cpus, a.cpus, topology));
}

Distance distance_to_cpus(const Place& device, const CpuSet& cpus, const Topology& topology) {
    return between_cpus(device.cpus, cpus, topology);
}

} // namespace rdma_nccl
