// SPDX-License-Identifier: Apache-2.0
#include "lib/flight_recorder/transfers.h"

#include "lib/base/lists.h"
#include "lib/base/text.h"

#include <optional>
#include <utility>

namespace rdma_nccl::flight_recorder {

namespace {

constexpr std::size_t longest_list = std::size_t{128} << 10; ///< of ranks, as text
constexpr std::uint32_t greatest_rank = 1U << 30U;

/// Empty if there is more in it than ranks.
std::vector<std::uint32_t> parse_ranks(std::string_view text) {
    text = trim(text);
    std::vector<std::uint32_t> ranks;
    if (text.size() < 3 || text.size() > longest_list || text.front() != '[' || text.back() != ']') {
        return ranks;
    }
    for (const auto part : split(text.substr(1, text.size() - 2), ',')) {
        const auto rank = parse_number<std::uint32_t>(trim(part));
        if (!rank || *rank > greatest_rank) {
            return {};
        }
        ranks.push_back(*rank);
    }
    return ranks;
}

/// A call's two ranks, by their places in the group.
struct Ends {
    std::uint32_t own = 0;
    std::uint32_t other = 0;
    bool is_send = false;
};

std::optional<Ends> parse_ends(std::string_view name) {
    for (const bool is_send : {true, false}) {
        const std::string_view verb = is_send ? "nccl:send " : "nccl:recv ";
        const auto arrow = name.find(is_send ? "->" : "<-");
        if (name.starts_with(verb) && arrow != std::string_view::npos) {
            const auto own = parse_number<std::uint32_t>(name.substr(verb.size(), arrow - verb.size()));
            const auto other = parse_number<std::uint32_t>(name.substr(arrow + 2));
            return own && other ? std::optional(Ends{*own, *other, is_send}) : std::nullopt;
        }
    }
    return std::nullopt;
}

} // namespace

void TransferCollector::add_group(const std::string& name, std::string title, std::uint64_t key,
                                  std::string_view ranks) {
    groups_[name] = {std::move(title), key, parse_ranks(ranks), {}};
}

void TransferCollector::lose(const std::string& group) {
    groups_[group].is_clear = false;
    is_complete_ = false;
}

void TransferCollector::add(const std::string& group, std::string_view profiling_name, const Launch& launch,
                            Collective call) {
    auto& all = groups_[group];
    const auto ends = parse_ends(profiling_name);
    if (!ends || ends->own >= all.ranks.size() || ends->other >= all.ranks.size() || all.ranks[ends->own] != rank_) {
        return lose(group);
    }
    call.name = ends->is_send ? "send" : "receive";
    const bool is_open = !all.posted.empty() && all.posted.back().launch == launch && !all.posted.back().is_batched;
    if (is_open) {
        all.posted.back().is_open = true;
    }
    all.posted.push_back({all.ranks[ends->other], ends->is_send, false, is_open, launch, std::move(call)});
}

bool TransferCollector::end_batch(const std::string& group, const Launch& launch, CollectiveState state) {
    auto& posted = groups_[group].posted;
    bool any = false;
    for (auto one = posted.rbegin(); one != posted.rend() && one->launch == launch && !one->is_batched; ++one) {
        one->is_batched = any = true;
        one->is_open = false;
        one->call.state = state;
    }
    return any;
}

Transfers TransferCollector::first_of(const Group& group, const Posted& posted) {
    return {.group = group.title,
            .ranks = static_cast<std::uint32_t>(group.ranks.size()),
            .key = group.key,
            .peer = posted.peer,
            .is_send = posted.is_send,
            .is_batched = posted.is_batched,
            .is_clear = group.is_clear};
}

void TransferCollector::append_transfers(std::vector<Transfers>& all, const Group& group) {
    std::map<std::pair<std::uint32_t, bool>, Transfers> by_peer;
    for (const auto& one : group.posted) {
        auto& transfers = by_peer.try_emplace({one.peer, one.is_send}, first_of(group, one)).first->second;
        // Only PyTorch knows whether a batch and a single call have the same communicator, and with it one order.
        transfers.is_clear = transfers.is_clear && !one.is_open && transfers.is_batched == one.is_batched;
        ++transfers.posted;
        if (one.call.state == CollectiveState::Completed) {
            transfers.pending.reset(); // those of a pair complete in their order
        } else if (!transfers.pending) {
            transfers.pending = one.call;
            transfers.pending->sequence = transfers.posted;
        }
    }
    append(all, mapped(by_peer, [](const auto& entry) { return entry.second; }));
}

void TransferCollector::take(Dump& dump) {
    for (const auto& [name, group] : groups_) {
        append_transfers(dump.transfers, group);
        // The first has 1, or 0 in a batch up to PyTorch 2.5, unless a user has emptied the recorder since.
        is_complete_ = is_complete_ && (group.posted.empty() || group.posted.front().launch.transfer <= 1);
    }
    if (dump.transfers.size() > most_transfers) {
        dump.transfers.resize(most_transfers);
        is_complete_ = false;
    }
    dump.is_complete = dump.is_complete && is_complete_;
}

} // namespace rdma_nccl::flight_recorder
