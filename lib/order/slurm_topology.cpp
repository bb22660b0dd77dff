// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/order/network.h"

#include <algorithm>
#include <functional>
#include <map>
#include <unordered_map>

namespace rdma_nccl {

namespace {

/// A switch, a block or an aggregated block, with all nodes below it.
struct Group {
    std::string_view name;
    /// The larger, the farther out: the level of a switch, the nodes that a block is declared to have.
    unsigned extent = 0;
    std::vector<std::string> nodes;
};

using Fields = std::map<std::string_view, std::string_view>;

/// Returns nullopt for a line of another kind.
Result<std::optional<Group>> parse_group(std::string_view line) {
    Fields fields;
    for (const auto word : split_words(line)) {
        const auto [key, value] = split_once(word, '=');
        fields.emplace(key, value.value_or(""));
    }
    const auto field = [&](std::string_view key) {
        const auto found = fields.find(key);
        return found == fields.end() ? std::string_view() : found->second;
    };
    const bool is_switch = fields.contains("SwitchName");
    const auto name =
        is_switch ? field("SwitchName") : field(fields.contains("BlockName") ? "BlockName" : "AggregatedBlock");
    if (name.empty()) {
        return std::nullopt;
    }
    const bool has_extent = is_switch || fields.contains("BlockSize"); // not of Slurm 23.11 and 24.05
    const auto extent = has_extent ? parse_number<unsigned>(field(is_switch ? "Level" : "BlockSize")) : 0;
    auto nodes = field("Nodes").empty() ? std::vector<std::string>() : expand_hostlist(field("Nodes"));
    if (!extent || !nodes) {
        return fail(format_text("\"{}\" is malformed", printable(line, 60)));
    }
    return Group{name, *extent, *std::move(nodes)};
}

} // namespace

Result<NetworkPlaces> places_by_topology(std::string_view output, std::span<const std::string> nodes) {
    std::unordered_map<std::string_view, std::size_t> positions;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        positions.emplace(nodes[i], i);
    }
    constexpr std::size_t most_depths = 32;
    constexpr std::size_t most_names = std::size_t{4} << 20; // 60 times what slurm.conf may have
    std::size_t expanded = 0;
    std::map<unsigned, std::vector<std::string>, std::greater<>> depths; ///< names of each node's groups by extent
    for (const auto line : split(output, '\n')) {
        const auto group = parse_group(line);
        if (!group) {
            return tl::unexpected(group.error());
        }
        if (!*group) {
            continue;
        }
        auto& names = depths[(*group)->extent];
        expanded += (*group)->nodes.size();
        if (depths.size() > most_depths || expanded > most_names) {
            return fail("it has more switches or blocks than make sense");
        }
        names.resize(nodes.size());
        for (const auto& node : (*group)->nodes) {
            if (const auto found = positions.find(node); found != positions.end()) {
                auto& name = names[found->second];
                name += format_text("{}{}", name.empty() ? "" : ",", (*group)->name);
            }
        }
    }
    if (depths.empty()) {
        return fail(format_text("it names no switch or block{}{}", output.empty() ? "" : ": ",
                                printable(trim(output), 100))); // scontrol prints an error and exits with 0
    }
    NetworkPlaces places(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        NetworkPlace place;
        for (const auto& [extent, names] : depths) {
            place.groups.push_back(names[i]);
        }
        if (std::ranges::any_of(place.groups, [](const std::string& name) { return !name.empty(); })) {
            places[i] = std::move(place);
        }
    }
    return places;
}

} // namespace rdma_nccl
