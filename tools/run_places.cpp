// SPDX-License-Identifier: Apache-2.0
#include "tools/run_places.h"

#include "lib/binding.h"
#include "lib/fabric_hca.h"
#include "lib/gpus.h"
#include "lib/hwloc_topology.h"
#include "lib/text.h"

#include <vector>

namespace rdma_nccl {

namespace {

constexpr std::string_view ports_variable = "UCX_NET_DEVICES";

/// The plugin's "mlx5_1:1,mlx5_2:1" as used ports of HCAs of which only the place is known.
void add_ports(const Root& root, const Environment& environment, NodeFacts& facts, Plan& plan) {
    if (!environment.ours().contains(ports_variable)) {
        return;
    }
    const std::string list = environment.get(ports_variable).value_or("");
    for (const auto part : split(list, ',')) {
        const auto [name, number] = split_once(part, ':');
        PortChoice port;
        port.hca = name;
        port.port = parse_number<unsigned>(number.value_or("1")).value_or(1);
        if (facts.fabric.find_hca(port.hca) == nullptr) {
            facts.fabric.hcas.push_back(read_hca_place(root, port.hca));
        }
        plan.fabric.ports.push_back(std::move(port));
    }
}

} // namespace

std::optional<NodePlacement> place_run(const Root& root, const Environment& environment, BindChoice bind,
                                       unsigned ranks, std::string& problem) {
    if (ranks < 2 || bind == BindChoice::Off) {
        return std::nullopt;
    }
    auto topology = read_topology(root);
    if (!topology) {
        problem = topology.error().message;
        return std::nullopt;
    }
    NodeFacts facts;
    Plan plan;
    Notes notes;
    facts.environment = environment;
    facts.step = read_step(environment, {});
    facts.fabric.gpus = read_gpus(root, notes);
    const auto gpus = find_visible_gpus(environment, [&] { return facts.fabric.gpus.size(); });
    facts.visible_gpus = static_cast<unsigned>(gpus.ids.size());
    facts.visible_gpu_ids = gpus.ids;
    plan.layout.layout = Layout::Node;
    add_ports(root, environment, facts, plan);
    return place_ranks(facts, plan, bind, *topology, std::vector<CpuSet>(ranks, read_affinity()));
}

} // namespace rdma_nccl
