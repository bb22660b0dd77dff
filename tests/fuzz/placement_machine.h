// SPDX-License-Identifier: Apache-2.0
// Machines of any shape, and ranks on them, for the fuzz test of the placement and for its properties in the unit
// tests: whoever asks brings the numbers that choose.
#pragma once

#include "lib/base/format.h"
#include "lib/placement/placement.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace fuzz {

/// A number from 0 to count - 1.
using Pick = std::function<std::size_t(std::size_t count)>;

struct PlacedRanks {
    rdma_nccl::Topology topology;
    std::vector<rdma_nccl::Place> gpus;
    std::vector<rdma_nccl::Place> hcas;
    std::vector<rdma_nccl::CpuSet> masks;
    std::vector<rdma_nccl::GpuNumbers> own_gpus;
    bool may_reorder = false;
    bool may_share = true;

    [[nodiscard]] rdma_nccl::PlacementFacts facts() const {
        return {topology, gpus, hcas, masks, own_gpus, may_reorder, may_share};
    }
};

class MachineMaker {
public:
    explicit MachineMaker(Pick pick) : pick_(std::move(pick)) {}

    PlacedRanks make() {
        add_cores();
        add_numa_nodes();
        add_odd_nodes();
        add_devices(made_.gpus, pick_(9));
        add_devices(made_.hcas, pick_(6));
        add_masks(1 + pick_(12));
        made_.may_reorder = one_of(2);
        made_.may_share = pick_(8) != 0 && std::none_of(made_.masks.begin(), made_.masks.end(),
                                                        [](const auto& mask) { return mask.empty(); });
        if (one_of(6)) {
            give_own_gpus();
        }
        return std::move(made_);
    }

private:
    using CpuSet = rdma_nccl::CpuSet;

    bool one_of(std::size_t count) { return pick_(count) == count - 1; }

    std::vector<unsigned> numbers(std::size_t count) {
        std::vector<unsigned> result(count);
        std::iota(result.begin(), result.end(), 0);
        return result;
    }

    void shuffle(std::vector<unsigned>& items) {
        for (std::size_t i = items.size(); i > 1; --i) {
            std::swap(items[i - 1], items[pick_(i)]);
        }
    }

    /// Packages of parts (dies, say) of cores of threads; CPUs numbered in one of the ways of the kernel's, or at will.
    void add_cores() {
        const std::size_t packages = 1 + pick_(4);
        parts_ = 1 + pick_(4);
        const std::size_t in_part = 1 + pick_(6);
        const std::size_t threads = std::array<std::size_t, 3>{1, 2, 4}[pick_(3)];
        const std::size_t cores = packages * parts_ * in_part;
        auto names = numbers(cores * threads);
        const std::size_t way = pick_(4);
        if (way == 3) {
            shuffle(names);
        }
        const bool some_are_offline = one_of(4);
        made_.topology.packages = static_cast<unsigned>(packages);
        for (std::size_t core = 0; core < cores; ++core) {
            const std::size_t package = core / (parts_ * in_part);
            const std::size_t place = way == 2 ? core % (parts_ * in_part) * packages + package : core;
            rdma_nccl::Core made;
            made.package = static_cast<unsigned>(package);
            made.l3 = static_cast<unsigned>(core / in_part);
            for (std::size_t thread = 0; thread < threads; ++thread) {
                if (thread == 0 || !some_are_offline || !one_of(3)) {
                    made.cpus.add(names[way == 0 ? core * threads + thread : thread * cores + place]);
                }
            }
            made_.topology.cores.push_back(std::move(made));
        }
    }

    /// A node for each part, each package, the machine, or none.
    void add_numa_nodes() {
        const std::size_t kind = pick_(4);
        if (kind == 3) {
            return;
        }
        const std::size_t parts = made_.topology.packages * parts_;
        const std::size_t parts_of_node = std::array{std::size_t{1}, parts_, parts}[kind];
        auto names = numbers(parts / parts_of_node);
        if (one_of(3)) {
            shuffle(names);
        }
        for (std::size_t node = 0; node < names.size(); ++node) {
            rdma_nccl::NumaNode made;
            made.number = names[node];
            made.memory_mib = one_of(6) ? 0 : 1024;
            made.package = static_cast<unsigned>(node * parts_of_node / parts_);
            for (auto& core : made_.topology.cores) {
                if (core.l3.value_or(0) / parts_of_node == node) {
                    core.numa_node = made.number;
                    made.cpus |= core.cpus;
                }
            }
            made_.topology.numa_nodes.push_back(std::move(made));
        }
    }

    /// Memory of a device, memory without CPUs.
    void add_odd_nodes() {
        for (std::size_t count = one_of(3) ? pick_(3) : 0; count > 0; --count) {
            rdma_nccl::NumaNode node;
            node.number = static_cast<unsigned>(100 + count);
            node.memory_mib = pick_(2) * 4096;
            node.package = static_cast<unsigned>(pick_(made_.topology.packages));
            node.special = true;
            node.cpus = one_of(2) ? made_.topology.cpus() : CpuSet();
            made_.topology.numa_nodes.push_back(std::move(node));
        }
    }

    /// Each on a host bridge of some part, there on a root port, below up to two switches, or directly; what a firmware
    /// that says nothing leaves of it, in virtual machines not even the path.
    void add_devices(std::vector<rdma_nccl::Place>& devices, std::size_t count) {
        const bool firmware_tells = !one_of(5);
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t part = pick_(made_.topology.packages * parts_);
            rdma_nccl::Gpu device;
            if (!one_of(10)) {
                device.pci_path = path(part);
            }
            if (firmware_tells && !one_of(10)) {
                device.local_cpus = near(part);
            } else if (one_of(2)) {
                device.local_cpus = made_.topology.cpus();
            }
            devices.push_back(place_of(device, made_.topology));
        }
    }

    /// As the kernel tells it: of a NUMA node, or of all where there is one; at times of a part of a node.
    CpuSet near(std::size_t part) {
        const auto& nodes = made_.topology.numa_nodes;
        if (!nodes.empty() && nodes.front().cpus.contains(made_.topology.cpus())) {
            return made_.topology.cpus();
        }
        const std::size_t parts = nodes.empty() ? parts_ : 1;
        CpuSet cpus;
        for (const auto& core : made_.topology.cores) {
            if (core.l3.value_or(0) / parts == part / parts) {
                cpus |= core.cpus;
            }
        }
        return cpus;
    }

    std::string path(std::size_t bridge) {
        using rdma_nccl::format_text;
        std::string text = format_text("/sys/devices/pci0000:{:02x}", bridge);
        if (pick_(4) > 0) {
            const std::size_t port = pick_(2);
            text += format_text("/0000:{:02x}:{:02x}.0", bridge, port);
            for (std::size_t depth = pick_(3); depth > 0; --depth) {
                text += format_text("/0000:{:02x}:00.0/0000:{:02x}:{:02x}.0", 64 + port, 80 + port, pick_(2));
            }
        }
        return text + format_text("/0000:{:02x}:{:02x}.{}", 128 + devices_made_++, pick_(2), 0);
    }

    CpuSet some(const CpuSet& all, std::size_t in) {
        CpuSet cpus;
        for (const auto cpu : all.cpus()) {
            if (pick_(in) == 0) {
                cpus.add(cpu);
            }
        }
        return cpus;
    }

    CpuSet one_thread_per_core() {
        CpuSet cpus;
        for (const auto& core : made_.topology.cores) {
            cpus.add(*core.cpus.first());
        }
        return cpus;
    }

    CpuSet any_mask() {
        const CpuSet all = made_.topology.cpus();
        switch (pick_(5)) {
        case 0:
            return one_thread_per_core();
        case 1:
            return some(all, 2);
        case 2:
            return some(all, 6);
        default:
            return all;
        }
    }

    /// All in common, all their own, in groups, each as it comes.
    void add_masks(std::size_t ranks) {
        const std::size_t kind = pick_(4);
        std::vector<CpuSet> masks(kind == 1 ? ranks : 1 + (kind == 0 ? 0 : pick_(3)));
        if (kind == 1) {
            for (const auto cpu : made_.topology.cpus().cpus()) {
                masks[pick_(ranks)].add(cpu);
            }
        } else {
            std::generate(masks.begin(), masks.end(), [this] { return any_mask(); });
        }
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            made_.masks.push_back(kind == 1 ? masks[rank] : kind == 3 ? any_mask() : masks[pick_(masks.size())]);
        }
    }

    void give_own_gpus() {
        made_.own_gpus.resize(made_.masks.size());
        for (std::size_t gpu = 0; gpu < made_.gpus.size(); ++gpu) {
            made_.own_gpus[pick_(made_.own_gpus.size())].push_back(gpu);
        }
    }

    Pick pick_;
    PlacedRanks made_;
    std::size_t parts_ = 1; ///< of each package
    std::size_t devices_made_ = 0;
};

} // namespace fuzz
