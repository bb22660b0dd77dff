// SPDX-License-Identifier: Apache-2.0
#include "lib/flight_recorder/summary.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/flight_recorder/stuck_transfers.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string_view>

namespace rdma_nccl::flight_recorder {

namespace {

constexpr std::size_t most_columns = 96;
constexpr std::size_t longest_ranks = 24;
constexpr std::size_t longest_note = 87; ///< and "..."
constexpr std::size_t longest_call = 20;
constexpr std::size_t longest_name = 16;

/// A process group as one of its ranks sees it.
struct Member {
    std::uint32_t rank = 0;
    const ProcessGroup* group = nullptr;
};

/// Collectives whose inputs have the same size and type on all ranks; those of others may differ.
constexpr auto uniform = std::to_array<std::string_view>(
    {"all_reduce", "broadcast", "reduce", "all_gather", "_all_gather_base", "reduce_scatter", "_reduce_scatter_base"});

std::string ranks_text(const std::vector<std::uint32_t>& ranks) {
    auto numbers = fold_numbers(ranks);
    const bool is_long = numbers.size() > longest_ranks;
    if (is_long) {
        numbers.resize(numbers.rfind(',', longest_ranks));
    }
    const auto count = is_long ? format_text(" ... ({} ranks)", ranks.size()) : std::string();
    return format_text("rank{} {}{}", ranks.size() == 1 ? "" : "s", numbers, count);
}

std::string_view has(const std::vector<std::uint32_t>& ranks) {
    return ranks.size() == 1 ? "has" : "have";
}

/// "[1024] Float", or the name alone where that differs.
std::string input_text(const Collective& call, bool same_name) {
    return same_name ? format_text("{} {}", printable(call.sizes, longest_call), printable(call.type, longest_name))
                     : printable(call.name, longest_name);
}

std::string call_text(const Collective& call, bool same_name) {
    const auto input = input_text(call, same_name);
    return same_name ? format_text("{} {}", printable(call.name, longest_name), input) : input;
}

/// What makes two calls different on ranks that should make the same.
std::string key_of(const Collective& call) {
    return contains(uniform, call.name) ? format_text("{} {} {}", call.name, call.elements, call.type) : call.name;
}

/// Finds out about one process group.
class GroupJudge {
public:
    explicit GroupJudge(const std::vector<Member>& members) : members_(members) {}

    std::optional<StuckCollective> judge() {
        std::uint64_t last = 0;
        std::uint64_t completed_by_all = UINT64_MAX;
        for (const auto& [rank, group] : members_) {
            last = std::max(last, group->progress.enqueued);
            completed_by_all = std::min(completed_by_all, group->progress.completed);
        }
        if (completed_by_all >= last) {
            return std::nullopt;
        }
        stuck_.sequence = completed_by_all + 1;
        name_group();
        sort_members();
        add_absent();
        add_different_calls();
        if (stuck_.notes.empty()) {
            add_states();
        }
        if (stuck_.ranks > members_.size()) {
            note(format_text("{} of its {} ranks left no dump", stuck_.ranks - members_.size(), stuck_.ranks));
        }
        std::ranges::sort(stuck_.culprits);
        return std::move(stuck_);
    }

private:
    void note(std::string_view text) { stuck_.notes.push_back(printable(text, longest_note)); }

    void name_group() {
        const auto& group = *members_.front().group;
        const bool is_described = !group.description.empty() && group.description != "undefined";
        stuck_.group = is_described ? group.description : group.name;
        for (const auto& member : members_) {
            stuck_.ranks = std::max(stuck_.ranks, member.group->ranks);
        }
        stuck_.ranks = std::max(stuck_.ranks, static_cast<std::uint32_t>(members_.size()));
    }

    void sort_members() {
        for (const auto& [rank, group] : members_) {
            if (group->progress.enqueued < stuck_.sequence) {
                absent_.push_back(rank);
            } else if (group->progress.completed >= stuck_.sequence) {
                completed_.push_back(rank);
            } else if (const auto& call = group->pending; call && call->sequence == stuck_.sequence) {
                by_name_[call->name].push_back({rank, &*call});
                by_input_[key_of(*call)].push_back({rank, &*call});
                (call->state == CollectiveState::Scheduled ? scheduled_ : started_).push_back(rank);
            }
        }
    }

    struct Call {
        std::uint32_t rank = 0;
        const Collective* call = nullptr;
    };
    using Calls = std::vector<Call>;

    void add_absent() {
        if (absent_.empty()) {
            return;
        }
        const auto waiting = members_.size() - absent_.size() - completed_.size();
        note(format_text("{} {} not entered it; {} other{} wait{}", ranks_text(absent_), has(absent_), waiting,
                         waiting == 1 ? "" : "s", waiting == 1 ? "s" : ""));
        stuck_.culprits = absent_;
    }

    void add_different_calls() {
        const bool same_name = by_name_.size() < 2;
        const auto& all = same_name ? by_input_ : by_name_;
        const auto most = std::ranges::max_element(all, {}, [](const auto& entry) { return entry.second.size(); });
        if (most == all.end()) {
            return;
        }
        const auto& usual = most->second;
        stuck_.name = usual.front().call->name;
        const auto others = all.size() > 2      ? ranks_text(mapped(usual, &Call::rank))
                            : usual.size() == 1 ? "the other"
                                                : "the others";
        for (const auto& [key, calls] : all) {
            if (&calls == &usual) {
                continue;
            }
            const auto ranks = mapped(calls, &Call::rank);
            note(format_text("{} call{} {}, {} {}", ranks_text(ranks), ranks.size() == 1 ? "s" : "",
                             call_text(*calls.front().call, same_name), others,
                             input_text(*usual.front().call, same_name)));
            append(stuck_.culprits, ranks);
        }
    }

    /// All make the same call.
    void add_states() {
        if (!completed_.empty()) {
            const auto waiting = members_.size() - completed_.size();
            note(format_text("{} {} completed it, {} not", ranks_text(completed_), has(completed_),
                             format_count(waiting, "other")));
        } else if (!scheduled_.empty() && !started_.empty()) {
            note(format_text("{} {} not started it: earlier work on the GPU is not done", ranks_text(scheduled_),
                             has(scheduled_)));
            stuck_.culprits = scheduled_;
        } else {
            note(format_text("{} {} {} it, with the same call", format_count(members_.size(), "rank"),
                             members_.size() == 1 ? "has" : "have", scheduled_.empty() ? "started" : "enqueued"));
        }
    }

    const std::vector<Member>& members_;
    StuckCollective stuck_;
    std::vector<std::uint32_t> absent_;
    std::vector<std::uint32_t> completed_;
    std::vector<std::uint32_t> scheduled_;
    std::vector<std::uint32_t> started_;
    std::map<std::string, Calls> by_name_;
    std::map<std::string, Calls> by_input_; ///< by name and what else must be the same on all ranks
};

using GroupKey = std::pair<std::string, std::uint64_t>; ///< name and members
using Groups = std::map<GroupKey, std::vector<Member>>;

using Waits = std::map<std::uint32_t, std::set<GroupKey>>; ///< by rank; a pair that sends is a group of its own

/// Returns where each rank waits. While it waits in one group, it reaches no other.
Waits find_waits(const Groups& groups, std::span<const Dump> dumps) {
    Waits waits;
    for (const auto& [key, members] : groups) {
        for (const auto& [rank, group] : members) {
            if (group->pending) {
                waits[rank].insert(key);
            }
        }
    }
    for (const auto& dump : dumps) {
        for (const auto& transfers : dump.transfers) {
            if (transfers.is_clear && transfers.pending) {
                waits[dump.rank].insert({transfer_name(dump.rank, transfers), transfers.key});
            }
        }
    }
    return waits;
}

bool is_cause(const StuckCollective& stuck, const GroupKey& own, Waits& waits) {
    return !stuck.culprits.empty() && std::ranges::all_of(stuck.culprits, [&](std::uint32_t rank) {
        return waits[rank].size() == waits[rank].count(own);
    });
}

} // namespace

std::vector<StuckCollective> find_stuck(std::span<const Dump> dumps) {
    Groups groups;
    for (const auto& dump : dumps) {
        for (const auto& group : dump.groups) {
            groups[{group.name, group.members}].push_back({dump.rank, &group});
        }
    }
    auto waits = find_waits(groups, dumps);
    std::vector<StuckCollective> all;
    for (auto& [key, members] : groups) {
        std::ranges::sort(members, {}, &Member::rank);
        if (auto stuck = GroupJudge(members).judge()) {
            stuck->is_cause = is_cause(*stuck, key, waits);
            all.push_back(std::move(*stuck));
        }
    }
    for (auto& [key, stuck] : find_stuck_transfers(dumps)) {
        stuck.is_cause = is_cause(stuck, {stuck.name, key}, waits);
        all.push_back(std::move(stuck));
    }
    std::ranges::stable_sort(all, {}, [](const StuckCollective& stuck) {
        return stuck.is_cause ? 0 : stuck.culprits.empty() ? 2 : 1;
    });
    return all;
}

std::vector<std::string> stuck_lines(const StuckCollective& stuck) {
    const auto number = stuck.sequence == 0 ? std::string() : format_text(" {}", stuck.sequence);
    const auto title =
        format_text("process group \"{}\" ({}): {}{}", printable(stuck.group, 30), format_count(stuck.ranks, "rank"),
                    stuck.name.empty() ? "collective" : printable(stuck.name, 24), number);
    if (stuck.notes.size() == 1 && title.size() + 2 + stuck.notes.front().size() <= most_columns) {
        return {format_text("{}: {}", title, stuck.notes.front())};
    }
    std::vector<std::string> lines{printable(title + ":", most_columns - 3)};
    for (const auto& note : stuck.notes) {
        lines.push_back("  " + note);
    }
    return lines;
}

} // namespace rdma_nccl::flight_recorder
