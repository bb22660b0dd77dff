// SPDX-License-Identifier: Apache-2.0
#include "lib/flight_recorder/stuck_transfers.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace rdma_nccl::flight_recorder {

namespace {

/// One end of a pair. What its file does not tell is absent.
struct End {
    std::uint32_t rank = 0;
    const Dump* dump = nullptr;
    const Transfers* transfers = nullptr;

    [[nodiscard]] bool waits() const { return transfers != nullptr && transfers->is_clear && transfers->pending; }
};

/// What a rank says of its end, for which the other one waits.
enum class Answer : std::uint8_t { Unknown, Waits, NotPosted, NoneOpen, Completed };

Answer answer_of(const End& end, const End& waiting) {
    const auto* const own = end.transfers;
    if (end.dump == nullptr || (own == nullptr && !end.dump->is_complete) ||
        (own != nullptr && (!own->is_clear || own->is_batched != waiting.transfers->is_batched))) {
        return Answer::Unknown;
    }
    if (end.waits()) {
        return Answer::Waits;
    }
    if (own == nullptr) {
        return Answer::NotPosted;
    }
    if (end.dump->is_complete && waiting.dump->is_complete) {
        return own->posted < waiting.transfers->pending->sequence ? Answer::NotPosted : Answer::Completed;
    }
    // Its last one has completed. A receive cannot have before the send; but NCCL has buffers for a small send.
    return waiting.transfers->is_send ? Answer::NotPosted : Answer::NoneOpen;
}

/// Finds out about one pair.
class PairJudge {
public:
    PairJudge(const End& sender, const End& receiver) : sender_(sender), receiver_(receiver) {}

    std::optional<StuckCollective> judge() {
        const auto& waiting = sender_.waits() ? sender_ : receiver_;
        const auto& other = sender_.waits() ? receiver_ : sender_;
        if (!waiting.waits()) {
            return std::nullopt;
        }
        const auto answer = answer_of(other, waiting);
        if (answer == Answer::Completed && sender_.waits()) {
            return std::nullopt; // since the sender wrote its file
        }
        stuck_.group = waiting.transfers->group;
        stuck_.ranks = waiting.transfers->ranks;
        stuck_.name = transfer_name(waiting.rank, *waiting.transfers);
        add_waiting(waiting);
        add_answer(other, answer);
        return std::move(stuck_);
    }

private:
    [[nodiscard]] std::string_view verb(const End& end) const { return &end == &sender_ ? "send" : "receive"; }

    void add_waiting(const End& end) {
        const auto& call = *end.transfers->pending;
        stuck_.notes.push_back(format_text("rank {} waits in the {}, {} {}", end.rank, verb(end),
                                           printable(call.sizes, 20), printable(call.type, 16)));
    }

    void add_answer(const End& end, Answer answer) {
        if (answer == Answer::Waits) {
            add_waiting(end);
            add_difference();
        } else if (answer == Answer::NotPosted) {
            stuck_.culprits = {end.rank};
            add_last_call(end, format_text("rank {} has not posted the {}", end.rank, verb(end)));
        } else if (answer == Answer::NoneOpen) {
            add_last_call(end, format_text("rank {} has no {} to it open", end.rank, verb(end)));
        } else if (answer == Answer::Completed) {
            stuck_.notes.push_back(format_text("rank {} has completed the {}", end.rank, verb(end)));
        } else if (end.dump == nullptr) {
            stuck_.notes.push_back(format_text("rank {} left no dump", end.rank));
        }
    }

    void add_last_call(const End& end, const std::string& text) {
        const auto& last = end.dump->last_call;
        stuck_.notes.push_back(printable(last.empty() ? text : format_text("{}; its last call: {}", text, last), 87));
    }

    void add_difference() {
        const auto& sent = *sender_.transfers->pending;
        const auto& received = *receiver_.transfers->pending;
        const bool is_same = sent.elements == received.elements && sent.type == received.type;
        if (sender_.dump->is_complete && receiver_.dump->is_complete && sent.sequence == received.sequence &&
            !is_same) {
            stuck_.notes.emplace_back("they differ in size or type");
            stuck_.culprits = {sender_.rank, receiver_.rank};
        }
    }

    const End& sender_;
    const End& receiver_;
    StuckCollective stuck_;
};

} // namespace

std::string transfer_name(std::uint32_t rank, const Transfers& transfers) {
    const auto from = transfers.is_send ? rank : transfers.peer;
    return format_text("send {}->{}", from, transfers.is_send ? transfers.peer : rank);
}

std::vector<StuckTransfer> find_stuck_transfers(std::span<const Dump> dumps) {
    using Pair = std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>; // group, sender, receiver
    std::map<Pair, std::array<End, 2>> pairs;
    std::map<std::uint32_t, const Dump*> by_rank;
    for (const auto& dump : dumps) {
        by_rank[dump.rank] = &dump;
        for (const auto& one : dump.transfers) {
            const auto from = one.is_send ? dump.rank : one.peer;
            const auto to = one.is_send ? one.peer : dump.rank;
            pairs[{one.key, from, to}].at(one.is_send ? 0 : 1).transfers = &one;
        }
    }
    std::vector<StuckTransfer> all;
    for (auto& [pair, ends] : pairs) {
        ends[0].rank = std::get<1>(pair);
        ends[1].rank = std::get<2>(pair);
        for (auto& end : ends) {
            const auto dump = by_rank.find(end.rank);
            end.dump = dump == by_rank.end() ? nullptr : dump->second;
        }
        if (auto stuck = PairJudge(ends[0], ends[1]).judge()) {
            all.push_back({std::get<0>(pair), std::move(*stuck)});
        }
    }
    return all;
}

} // namespace rdma_nccl::flight_recorder
