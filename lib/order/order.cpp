// SPDX-License-Identifier: Apache-2.0
#include "lib/order/order.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace rdma_nccl {

namespace {

std::size_t depth_of(std::span<const std::optional<NetworkPlace>> places) {
    std::size_t depth = 0;
    for (const auto& place : places) {
        depth = std::max(depth, place ? place->groups.size() : 0);
    }
    return depth;
}

/// Returns the number of each node's group up to and including `depth`, in the order of the groups' first nodes.
std::vector<std::size_t> number_groups(std::span<const std::optional<NetworkPlace>> places,
                                       const std::vector<std::size_t>& outer, std::size_t depth) {
    std::map<std::pair<std::size_t, std::string_view>, std::size_t> numbers;
    std::vector<std::size_t> groups;
    groups.reserve(places.size());
    for (std::size_t i = 0; i < places.size(); ++i) {
        const auto [found, is_new] = numbers.try_emplace({outer[i], group_at(places[i], depth)}, numbers.size());
        groups.push_back(found->second);
    }
    return groups;
}

/// The numbers of each node's groups, from the outermost one. All are equally long.
using Paths = std::vector<std::vector<std::size_t>>;

Paths number_paths(std::span<const std::optional<NetworkPlace>> places) {
    Paths paths(places.size());
    std::vector<std::size_t> groups(places.size());
    for (std::size_t depth = 0; depth < depth_of(places); ++depth) {
        groups = number_groups(places, groups, depth);
        for (std::size_t i = 0; i < places.size(); ++i) {
            paths[i].push_back(groups[i]);
        }
    }
    return paths;
}

Crossings count_crossings(const Paths& paths, const std::vector<std::size_t>& order) {
    Crossings crossings(paths.empty() ? 0 : paths.front().size());
    for (std::size_t i = 0; i < order.size(); ++i) {
        const auto& one = paths[order[i]];
        const auto& next = paths[order[(i + 1) % order.size()]];
        for (std::size_t depth = 0; depth < crossings.size(); ++depth) {
            crossings[depth] += one[depth] == next[depth] ? 0U : 1U;
        }
    }
    return crossings;
}

} // namespace

std::optional<NetworkPlace> parse_place(std::string_view address, std::string_view pattern, std::string_view node) {
    const auto kinds = split(pattern, '.');
    if (kinds.size() < 2 || kinds.back() != "node") {
        return std::nullopt;
    }
    NetworkPlace place;
    for (std::size_t i = 0; i + 1 < kinds.size(); ++i) {
        const auto [group, rest] = split_once(address, '.');
        if (!rest || (kinds[i] != "switch" && kinds[i] != "block")) { // a position in a ring is no group
            return std::nullopt;
        }
        place.groups.emplace_back(group);
        address = *rest;
    }
    const bool is_named = std::ranges::any_of(place.groups, [](const std::string& group) { return !group.empty(); });
    return is_named && address == node ? std::optional(std::move(place)) : std::nullopt;
}

OrderByPlace order_by_place(std::span<const std::optional<NetworkPlace>> places) {
    std::vector<std::size_t> given(places.size());
    std::iota(given.begin(), given.end(), std::size_t{0});
    const auto paths = number_paths(places);
    auto order = given;
    std::ranges::stable_sort(
        order, {}, [&](std::size_t node) -> const auto& { return paths[node]; });
    auto before = count_crossings(paths, given);
    auto after = count_crossings(paths, order);
    return {std::move(order), std::move(before), std::move(after)};
}

std::string gain_text(const OrderByPlace& ordered) {
    const auto [fewer, former] = std::ranges::mismatch(ordered.after, ordered.before);
    if (fewer == ordered.after.end()) {
        return "the nodes of each switch or block are now in one row";
    }
    return format_text("a ring of nodes leaves its switches or blocks {} times, not {}", *fewer, *former);
}

} // namespace rdma_nccl
