// SPDX-License-Identifier: Apache-2.0
// Where nodes say that they are in the network: SLURM_TOPOLOGY_ADDR, its pattern and the node's name, a node each line.
// Whatever they say, all nodes have one number each, the first node stays the first, and a ring crosses groups at no
// depth more often than in the order given.
#include "lib/base/text.h"
#include "lib/order/order.h"
#include "tests/fuzz/check.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>

using namespace rdma_nccl;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    constexpr std::size_t most_nodes = 64;
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    std::vector<std::optional<NetworkPlace>> places;
    for (const auto line : split(input, '\n')) {
        const auto [address, others] = split_once(line, ' ');
        const auto [pattern, node] = split_once(others.value_or(""), ' ');
        places.push_back(parse_place(address, pattern, node.value_or("")));
        require(!places.back() || !places.back()->groups.empty(), "a place in some group", line);
        if (places.size() == most_nodes) {
            break;
        }
    }
    std::vector<std::size_t> given(places.size());
    std::iota(given.begin(), given.end(), std::size_t{0});
    const auto result = order_by_place(places);
    const auto& [order, before, after] = result;
    auto sorted = order;
    std::ranges::sort(sorted);
    require(sorted == given, "each node once", input);
    require(order.front() == 0, "the first node stays the first", input);
    require(std::ranges::equal(after, before, std::ranges::less_equal()), "nowhere worse than before", input);
    require(result.changes() == (order != given), "a change is another order", input);
    if (before == after && result.changes()) {
        const auto group_of = [](const std::optional<NetworkPlace>& place) {
            return place ? place->groups.front() : std::string();
        };
        require(group_of(places.front()) == group_of(places.back()), "the ring begins and ends in a group", input);
    }
    std::vector<std::optional<NetworkPlace>> ordered;
    for (const auto node : order) {
        ordered.push_back(places[node]);
    }
    const auto again = order_by_place(ordered);
    require(again.before == after && again.order == given, "nothing is left to gain", input);
    return 0;
}
