// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/rank_layout.h"

#include "lib/base/lists.h"
#include "lib/net/message.h"
#include "tools/measure/rails.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

namespace rdma_nccl::bench {

namespace {

constexpr unsigned most_gpus = 1024; // of one node

/// Groups the workers by node, so that ranks of one node are neighbours. Nodes are in the order of their first worker.
std::vector<Offer> by_nodes(const std::vector<Offer>& offers) {
    std::map<std::string_view, std::size_t> order;
    for (const auto& offer : offers) {
        order.try_emplace(offer.node, order.size());
    }
    auto sorted = offers;
    std::ranges::stable_sort(sorted, {}, [&order](const auto& offer) { return order.at(offer.node); });
    return sorted;
}

/// Returns the first GPU of each of the first two nodes; fewer if there are fewer nodes.
std::vector<RankSlot> one_on_each_of_two(const std::vector<Offer>& offers) {
    std::vector<RankSlot> places;
    std::set<std::string> nodes;
    for (const auto& offer : offers) {
        if (places.size() < 2 && offer.slots > 0 && nodes.insert(offer.node).second) {
            places.push_back({offer.worker, 0});
        }
    }
    return places;
}

} // namespace

std::optional<std::vector<RankSlot>> places_for(const std::vector<Offer>& offers, unsigned ranks) {
    const auto sorted = by_nodes(offers);
    if (ranks == 2) {
        if (auto places = one_on_each_of_two(sorted); places.size() == 2) {
            return places;
        }
    }
    std::vector<RankSlot> places;
    for (const auto& offer : sorted) {
        for (unsigned slot = 0; slot < offer.slots && places.size() < ranks; ++slot) {
            places.push_back({offer.worker, slot});
        }
    }
    return places.size() == ranks && ranks > 0 ? std::optional(std::move(places)) : std::nullopt;
}

std::size_t nodes_of(const std::vector<Offer>& offers, const std::vector<RankSlot>& places) {
    std::set<std::string_view> nodes;
    for (const auto& place : places) {
        if (const auto* const offer = find_by(offers, &Offer::worker, place.worker)) {
            nodes.insert(offer->node);
        }
    }
    return nodes.size();
}

std::vector<std::vector<unsigned>> share_gpus(const std::vector<WorkerGpus>& visible) {
    std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> seen_by; // node and GPU
    std::vector<std::pair<std::string, std::string>> gpus;                           // in CUDA's order
    for (std::size_t i = 0; i < visible.size(); ++i) {
        for (std::size_t gpu = 0; gpu < visible[i].gpus.size(); ++gpu) {
            const auto& pci = visible[i].gpus[gpu];
            const auto key =
                std::pair(visible[i].node, pci.empty() ? std::to_string(i) + " " + std::to_string(gpu) : pci);
            auto& all = seen_by[key];
            if (all.empty()) {
                gpus.push_back(key);
            }
            if (all.empty() || all.back() != i) {
                all.push_back(i);
            }
        }
    }
    std::vector<std::vector<unsigned>> shares(visible.size());
    for (const auto& gpu : gpus) {
        // Give it to the process with the fewest GPUs so far; among those, to the one that sees the fewest.
        const auto& all = seen_by.at(gpu);
        const auto who = *std::min_element(all.begin(), all.end(), [&](std::size_t a, std::size_t b) {
            return std::tuple(shares[a].size(), visible[a].gpus.size(), visible[a].local_rank) <
                   std::tuple(shares[b].size(), visible[b].gpus.size(), visible[b].local_rank);
        });
        const auto& own = visible[who].gpus;
        const auto number = std::find(own.begin(), own.end(), gpu.second);
        shares[who].push_back(number != own.end() ? static_cast<unsigned>(number - own.begin())
                                                  : static_cast<unsigned>(shares[who].size()));
    }
    return shares;
}

std::vector<unsigned> default_rank_counts(const std::vector<Offer>& offers) {
    unsigned all = 0;
    for (const auto& offer : offers) {
        all += offer.slots;
    }
    std::vector<unsigned> counts;
    for (unsigned count = 2; count < all; count *= 2) {
        counts.push_back(count);
    }
    if (all > 0) {
        counts.push_back(all);
    }
    return counts;
}

std::vector<RunKind> kinds_of_runs(bool between_nodes, bool without_gpu_direct) {
    if (!between_nodes) {
        return {RunKind::AsItIs};
    }
    std::vector<RunKind> kinds = {RunKind::AsItIs, RunKind::NoRdma};
    if (without_gpu_direct) {
        kinds.push_back(RunKind::NoGpuDirect);
    }
    kinds.push_back(RunKind::AsItIsAgain);
    return kinds;
}

Variables variables_of(RunKind kind) {
    switch (kind) {
    case RunKind::NoRdma:
        return {{"NCCL_IB_DISABLE", "1"}, {"NCCL_NET", "Socket"}, {"NCCL_NET_PLUGIN", "none"}};
    case RunKind::NoGpuDirect:
        return {{"NCCL_NET_GDR_LEVEL", "LOC"}};
    case RunKind::AsItIs:
    case RunKind::AsItIsAgain:
        break;
    }
    return {};
}

Run make_run(RunKind kind, unsigned ranks, bool host) {
    struct Texts {
        const char *name, *what, *what_of_host;
    };
    constexpr auto texts = std::to_array<Texts>({{"A", "as it is", "host memory, verbs"},
                                                 {"B", "without RDMA", "host memory, TCP"},
                                                 {"C", "without GPUDirect", "host memory, verbs again"},
                                                 {"A'", "as it is, again", "host memory, verbs again"}});
    const auto& text = texts.at(static_cast<std::size_t>(kind));
    Run run;
    run.name = text.name;
    run.what = host ? text.what_of_host : text.what;
    run.kind = kind;
    run.rdma_meant = kind != RunKind::NoRdma;
    run.ranks = ranks;
    run.variables = host ? Variables() : variables_of(kind);
    return run;
}

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
    f("rdma_nccl", node.release);
    f.check(is_understood(node.release));
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
    return measure::parse_node<InspectedNode>(json);
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
