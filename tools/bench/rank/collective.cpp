// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/rank/collective.h"

#include <algorithm>
#include <array>
#include <string>

namespace rdma_nccl {

namespace {

struct CollectiveName {
    Collective collective;
    std::string_view name;
    std::string_view other;
};

constexpr std::array<CollectiveName, 6> names = {{
    {Collective::AllReduce, "all_reduce", "all_reduce"},
    {Collective::AllGather, "all_gather", "all_gather"},
    {Collective::ReduceScatter, "reduce_scatter", "reduce_scatter"},
    {Collective::AllToAll, "alltoall", "all_to_all"},
    {Collective::Broadcast, "broadcast", "broadcast"},
    {Collective::SendRecv, "sendrecv", "send_recv"},
}};

constexpr unsigned part_alignment = 16; // bytes, as in nccl-tests

} // namespace

std::string_view name_of(Collective collective) {
    const auto* const found =
        std::find_if(names.begin(), names.end(), [&](const auto& entry) { return entry.collective == collective; });
    return found->name;
}

std::optional<Collective> parse_collective(std::string_view name) {
    std::string word(name);
    std::replace(word.begin(), word.end(), '-', '_');
    for (const auto& entry : names) {
        if (word == entry.name || word == entry.other) {
            return entry.collective;
        }
    }
    return std::nullopt;
}

std::vector<std::string_view> collective_names() {
    std::vector<std::string_view> all;
    all.reserve(names.size());
    for (const auto& entry : names) {
        all.push_back(entry.name);
    }
    return all;
}

bool has_reduction(Collective collective) {
    return collective == Collective::AllReduce || collective == Collective::ReduceScatter;
}

bool has_in_place(Collective collective) {
    return collective != Collective::AllToAll && collective != Collective::SendRecv;
}

CollectiveCounts counts_of(Collective collective, std::uint64_t bytes, unsigned type_size, unsigned ranks) {
    const std::uint64_t elements = bytes / type_size;
    const std::uint64_t unit = part_alignment / type_size;
    const std::uint64_t part = elements / ranks / unit * unit;
    switch (collective) {
    case Collective::AllGather:
        return {part, part, part * ranks};
    case Collective::ReduceScatter:
        return {part, part * ranks, part};
    case Collective::AllToAll:
        return {part, part * ranks, part * ranks};
    case Collective::AllReduce:
    case Collective::Broadcast:
    case Collective::SendRecv:
        break;
    }
    return {elements, elements, elements};
}

double bus_factor(Collective collective, unsigned ranks) {
    const double others = (static_cast<double>(ranks) - 1) / static_cast<double>(ranks);
    switch (collective) {
    case Collective::AllReduce:
        return 2 * others;
    case Collective::AllGather:
    case Collective::ReduceScatter:
    case Collective::AllToAll:
        return others;
    case Collective::Broadcast:
    case Collective::SendRecv:
        break;
    }
    return 1;
}

} // namespace rdma_nccl
