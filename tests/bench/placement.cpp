// SPDX-License-Identifier: Apache-2.0
// usage: placement FILE.xml TREE: places as many ranks as the machine of the file has GPUs, again and again, and reads
// topologies: of this machine and of the tree, each without and with devices, and of the file. Prints "KEY VALUE"
// lines: the medians in milliseconds of CPU time.
#include "lib/placement/placement.h"
#include "lib/topology/topology.h"
#include "tests/bench/turns.h"

#include <algorithm>
#include <array>

using namespace rdma_nccl;

namespace {

/// As Slurm's block:cyclic has them: packages in turn.
std::vector<CpuSet> cyclic_masks(const Topology& topology, std::size_t ranks) {
    std::vector<CpuSet> masks(ranks);
    std::vector<std::size_t> seen(topology.packages);
    for (const auto& core : topology.cores) {
        const std::size_t turn = seen[core.package]++ * ranks / topology.cores.size();
        masks[std::min(turn * topology.packages + core.package, ranks - 1)] |= core.cpus;
    }
    return masks;
}

PlacementFacts facts_of(const XmlMachine& machine, std::vector<CpuSet> masks) {
    PlacementFacts facts{machine.topology, {}, {}, std::move(masks), {}, true, true};
    for (const auto& gpu : machine.fabric.gpus) {
        facts.gpus.push_back(place_of(gpu, machine.topology));
    }
    for (const auto& hca : machine.fabric.hcas) {
        facts.hcas.push_back(place_of(hca, machine.topology));
    }
    return facts;
}

void place(const PlacementFacts& facts) {
    const auto placement = plan_placement(facts);
    if (placement.ranks.size() != facts.gpus.size() || placement.ranks.front().cpus.empty()) {
        give_up("the ranks have no places");
    }
}

} // namespace

int main(int count, char** arguments) {
    if (count != 3) {
        give_up("usage: placement FILE.xml TREE");
    }
    const std::string file = arguments[1];
    const auto tree = must(SysRoot::open(arguments[2]));
    const auto live = must(SysRoot::open("/"));
    const auto machine = must(read_topology_xml(file));
    const std::size_t ranks = machine.fabric.gpus.size();
    const auto open = facts_of(machine, std::vector<CpuSet>(ranks, machine.topology.cpus()));
    const auto bound = facts_of(machine, cyclic_masks(machine.topology, ranks));
    measure(std::array{Work{"open", [&] { place(open); }}, Work{"bound", [&] { place(bound); }}}, 201);
    measure(std::array{Work{"live", [&] { (void)must(read_topology(live)); }},
                       Work{"live_devices", [&] { (void)must(export_topology(live)); }},
                       Work{"tree", [&] { (void)must(read_topology(tree)); }},
                       Work{"tree_devices", [&] { (void)must(export_topology(tree)); }},
                       Work{"xml", [&] { (void)must(read_topology_xml(file)); }}},
            21);
    return 0;
}
