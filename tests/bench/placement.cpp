// SPDX-License-Identifier: Apache-2.0
// usage: placement FILE.xml TREE: places as many ranks as the machine of the file has GPUs, again and again, and reads
// topologies: of this machine and of the tree, each without and with devices, and of the file. Prints "KEY VALUE"
// lines: the medians in milliseconds of CPU time.
#include "lib/placement.h"
#include "lib/hwloc_topology.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>

using namespace rdma_nccl;

namespace {

[[noreturn]] void give_up(const std::string& why) {
    std::fprintf(stderr, "placement: %s\n", why.c_str());
    std::_Exit(1);
}

template<typename T>
T must(Result<T> result) {
    if (!result) {
        give_up(result.error().message);
    }
    return std::move(*result);
}

double cpu_milliseconds() {
    timespec time{};
    (void)::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

struct Work {
    const char* name;
    std::function<void()> body;
    std::vector<double> costs = {};
};

/// In turns, so that a machine that gets slower does so for all.
template<std::size_t Count>
void measure(std::array<Work, Count> all, unsigned rounds) {
    for (unsigned round = 0; round < rounds; ++round) {
        for (auto& work : all) {
            const double start = cpu_milliseconds();
            work.body();
            work.costs.push_back(cpu_milliseconds() - start);
        }
    }
    for (auto& work : all) {
        const auto middle = work.costs.begin() + static_cast<std::ptrdiff_t>(work.costs.size() / 2);
        std::nth_element(work.costs.begin(), middle, work.costs.end());
        std::printf("%s %.4f\n", work.name, *middle);
    }
}

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
    const auto tree = must(Root::open(arguments[2]));
    const auto live = must(Root::open("/"));
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
