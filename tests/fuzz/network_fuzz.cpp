// SPDX-License-Identifier: Apache-2.0
// What `scontrol show topology` prints, or a file that a user names for it; and latencies between nodes, of which each
// byte of the input is one.
#include "lib/base/text.h"
#include "lib/order/network.h"
#include "tests/fuzz/check.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

using namespace rdma_nccl;
using fuzz::require;
using fuzz::require_plain;

namespace {

void check_places(const NetworkPlaces& places, std::size_t count) {
    require(places.size() == count, "a place or none for each node");
    for (const auto& place : places) {
        require(!place || std::ranges::any_of(place->groups, [](const auto& group) { return !group.empty(); }),
                "a place is in some group");
    }
    require(order_by_place(places).order.size() == count, "each node is in the order");
}

void check_topology(std::string_view text) {
    const std::vector<std::string> nodes{"n1", "n2", "n3", "n4"};
    const auto places = places_by_topology(text, nodes);
    if (!places) {
        return require_plain(places.error().message);
    }
    check_places(*places, nodes.size());
}

void check_latencies(std::string_view bytes) {
    constexpr std::size_t nodes = 12;
    std::vector<NodeLatency> latencies;
    for (std::size_t a = 0; a < nodes; ++a) {
        for (std::size_t b = a + 1; b < nodes && latencies.size() < bytes.size(); ++b) {
            latencies.push_back({a, b, 0.1 * (1 + static_cast<unsigned char>(bytes[latencies.size()]))});
        }
    }
    if (const auto places = places_by_latency(nodes, latencies)) {
        check_places(*places, nodes);
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    constexpr std::size_t longest = 4096; // many times 65,536 names would only take time
    const auto text = std::string_view(reinterpret_cast<const char*>(data), size).substr(0, longest);
    check_topology(text);
    check_latencies(text);
    return 0;
}
