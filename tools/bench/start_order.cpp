// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/start_order.h"

#include "tools/common/json_fields.h"
#include "tools/measure/rails.h"

#include <algorithm>

namespace rdma_nccl::bench {

static constexpr unsigned most_gpus = 1024; // of one node

void fields(auto& f, Is<InspectedNode> auto& node) {
    f("name", node.name);
    f("local", node.local);
    f("library", node.library_text);
    f("version", node.version);
    f("places", node.places, most_places);
    f("gpus", node.gpus, std::size_t{most_places});
    f("pci", node.pci, std::size_t{most_places});
    f("problem", node.problem);
    f("rails", node.rails);
}

void fields(auto& f, Is<RankPlace> auto& place) {
    f("rank", place.rank, most_ranks);
    f("gpu", place.gpu, most_gpus);
}

void fields(auto& f, Is<StartOrder> auto& start) {
    f("run", start.run);
    f("kind", start.kind, RunKind::AsItIsAgain);
    f("count", start.count, most_ranks);
    f("ranks", start.ranks, std::size_t{most_gpus});
    f("work", start.work);
    f("rings", start.rings, most_rings);
    f("watch", start.watch);
}

Json inspected_node_json(const InspectedNode& node) {
    return written(node);
}

Result<InspectedNode> read_inspected_node(const Json& json) {
    auto node = read_exactly<InspectedNode>(json);
    return node ? Result<InspectedNode>(std::move(*node))
                : fail("it says of itself what this version does not understand");
}

Json start_json(const StartOrder& start) {
    auto order = written(start);
    order["do"] = "start";
    return order;
}

Result<StartOrder> read_start_order(const Json& order, unsigned places) {
    auto rest = order.is_object() ? order : Json::object();
    rest.erase("do");
    auto start = read_exactly<StartOrder>(rest);
    const bool possible = start && start->run >= 0 && start->ranks.size() <= places &&
                          std::ranges::all_of(start->ranks, [&](const auto& each) { return each.rank < start->count; });
    if (!possible || !can_be_done(start->work)) {
        return fail("refuses an order to start ranks: it asks for what no rdma-nccl of this version does");
    }
    return std::move(*start);
}

} // namespace rdma_nccl::bench
