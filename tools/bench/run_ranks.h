// SPDX-License-Identifier: Apache-2.0
// The ranks of a run as the coordinator sees them, and what went wrong with them.
#pragma once

#include "lib/base/format.h"
#include "lib/base/json.h"
#include "lib/base/text.h"
#include "tools/bench/run.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace rdma_nccl::bench {

struct RunRank {
    RankSlot place;
    unsigned gpu = 0; ///< CUDA's number
    bool ended = false;
    bool done = false; ///< it has measured everything and waits for the others
    std::optional<Json> offer{};
    std::string at{}; ///< its last activity
};

class RunRanks {
public:
    RunRanks(const RunContext& context, const std::vector<RankSlot>& places) : context_(context) {
        for (const auto& place : places) {
            const auto peer = context.peers.find(place.worker);
            const auto index = place.slot / context.options.ranks_per_gpu;
            const bool known = peer != context.peers.end() && index < peer->second.gpus.size();
            all.push_back({place, known ? peer->second.gpus[index] : index});
        }
    }

    [[nodiscard]] bool have_ended() const { return std::ranges::all_of(all, &RunRank::ended); }
    [[nodiscard]] bool have_failed() const { return !failures_.empty(); }
    [[nodiscard]] bool has_failed(unsigned rank) const {
        return std::ranges::find(failures_, rank, &Failure::rank) != failures_.end();
    }

    /// `consequence`: caused by another rank's failure.
    void fail(unsigned rank, std::string_view why, bool consequence = false) {
        failures_.push_back({rank, format_text("{}: {}", name_of(rank), why), consequence});
    }
    /// A failure that names its place itself.
    void fail_as(unsigned rank, std::string text) { failures_.push_back({rank, std::move(text), false}); }
    void end_all_of(unsigned worker, const std::string& why) {
        for (unsigned rank = 0; rank < all.size(); ++rank) {
            if (all[rank].place.worker == worker && !std::exchange(all[rank].ended, true)) {
                fail_as(rank, why);
            }
        }
    }

    [[nodiscard]] std::string name_of_worker(unsigned worker) const {
        const auto peer = context_.peers.find(worker);
        return peer == context_.peers.end() ? format_text("member {}", worker) : peer->second.offer.node;
    }
    [[nodiscard]] std::string name_of(unsigned rank) const {
        const auto node = name_of_worker(all[rank].place.worker);
        return context_.options.host ? format_text("rank {} ({})", rank, node)
                                     : format_text("rank {} ({}, its GPU {})", rank, node, all[rank].gpu);
    }

    /// Returns the first failure that is not a consequence of another; empty if there is none.
    [[nodiscard]] std::string failure_text() const {
        if (failures_.empty()) {
            return "";
        }
        const auto cause = std::ranges::find(failures_, false, &Failure::consequence);
        const auto& first = cause == failures_.end() ? failures_.front() : *cause;
        std::set<unsigned> others;
        for (const auto& failure : failures_) {
            others.insert(failure.rank);
        }
        others.erase(first.rank);
        return others.empty() ? first.text
                              : format_text("{} ({} other{} failed, too)", first.text, others.size(),
                                            others.size() == 1 ? "" : "s");
    }

    /// Names the ranks whose activity differs from the majority's: they are where to look.
    [[nodiscard]] std::string hang_text() const {
        std::map<std::string, std::vector<unsigned>> by_activity;
        for (unsigned rank = 0; rank < all.size(); ++rank) {
            by_activity[all[rank].at].push_back(rank);
        }
        const auto most =
            std::ranges::max_element(by_activity, {}, [](const auto& entry) { return entry.second.size(); });
        const auto limit = static_cast<double>(context_.options.limit.count()) / 1000;
        if (by_activity.size() == 1) {
            return format_text(
                "nothing happened for {:g} s, while all ranks were at: {}; run again with NCCL_DEBUG=INFO", limit,
                most->first.empty() ? "their start" : most->first);
        }
        std::vector<std::string> texts;
        for (const auto& [at, ranks] : by_activity) {
            if (at != most->first || ranks.size() == 1) {
                texts.push_back(format_text("{}{} at: {}", name_of(ranks.front()),
                                            ranks.size() > 1 ? format_text(" and {} others", ranks.size() - 1) : "",
                                            at.empty() ? "its start" : at));
            }
        }
        if (most->second.size() > 1) {
            texts.push_back(format_text("the others at: {}", most->first));
        }
        return format_text("nothing happened for {:g} s: {}", limit, joined(texts, "; "));
    }

    std::vector<RunRank> all;

private:
    struct Failure {
        unsigned rank = 0;
        std::string text;
        bool consequence = false;
    };
    const RunContext& context_;
    std::vector<Failure> failures_;
};

} // namespace rdma_nccl::bench
