// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl_ras/judge.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace rdma_nccl::ras {

namespace {

/// How they are called in a sentence, in the order of function_names.
constexpr std::array<std::string_view, function_names.size()> spoken{"broadcast",      "reduce",     "all-gather",
                                                                     "reduce-scatter", "all-reduce", "collective"};

/// A rank of a process, in whatever communicator.
using Owner = std::tuple<std::string, std::int32_t, std::int32_t>;
Owner owner_of(const Member& member) {
    return {member.host, member.pid, member.cuda_dev};
}

/// NCCL has -1 for a process that it does not know: two of them need not be the same.
bool is_known(const Member& member) {
    return member.pid > 0;
}

using Key = std::pair<std::string_view, std::string_view>;
Key key_of(const Communicator& communicator) {
    return {communicator.hash, communicator.secondary};
}

/// Of collectives that ranks have launched.
struct Spread {
    std::uint64_t least = 0;
    std::uint64_t most = 0;
    friend bool operator==(const Spread&, const Spread&) = default;
};

Spread spread_of(const std::vector<const Rank*>& ranks, const std::vector<Unnamed>& unnamed, std::size_t function) {
    std::vector<std::uint64_t> counts;
    for (const auto* const rank : ranks) {
        if (const auto count = rank->counts.at(function)) {
            counts.push_back(*count);
        }
    }
    for (const auto& some : unnamed) {
        if (some.function == function) {
            counts.push_back(some.count);
        }
    }
    const auto [least, most] = std::ranges::minmax_element(counts);
    return counts.empty() ? Spread() : Spread{*least, *most};
}

/// A communicator's ranks that are in both reports, in the same order: another one may only have answered late.
struct InBoth {
    std::vector<const Rank*> before;
    std::vector<const Rank*> after;
};
InBoth in_both(const Communicator& before, const Communicator& after) {
    std::map<std::uint32_t, const Rank*> known;
    for (const auto& rank : before.ranks) {
        known.emplace(rank.member.rank, &rank);
    }
    InBoth ranks;
    for (const auto& rank : after.ranks) {
        if (const auto earlier = known.find(rank.member.rank); earlier != known.end()) {
            ranks.before.push_back(earlier->second);
            ranks.after.push_back(&rank);
        }
    }
    return ranks;
}

std::vector<std::uint32_t> missing_in(const Communicator& communicator) {
    return mapped(communicator.missing, [](const MissingRank& missing) { return missing.member.rank; });
}

/// What is found in all communicators, before chains are followed.
class Comparison {
public:
    Comparison(const Report& earlier, const Report& later) {
        const bool partial = earlier.partial && later.partial;
        std::map<Key, const Communicator*> known;
        for (const auto& communicator : earlier.communicators) {
            known.emplace(key_of(communicator), &communicator);
        }
        for (const auto& communicator : later.communicators) {
            const auto before = known.find(key_of(communicator));
            if (before == known.end()) {
                compare_to_none(communicator, partial);
                continue;
            }
            if (!communicator.settled || !before->second->settled) {
                changing = true;
                moved = moved || communicator.settled != before->second->settled;
            } else if (partial && missing_in(communicator) != missing_in(*before->second)) {
                changing = true; // and a text does not say what the others have launched
            } else {
                compare(*before->second, communicator);
            }
            known.erase(before);
        }
        for (const auto& [key, gone] : known) {
            compare_to_none(*gone, partial);
        }
    }

    /// Drops members that themselves wait for others elsewhere. Returns false, and drops none, if all of them do.
    bool keep_roots() {
        auto roots = lags;
        for (auto& lag : roots) {
            std::erase_if(lag.members, [&](const Member& member) { return waiting_.contains(owner_of(member)); });
        }
        std::erase_if(roots, [](const Lag& lag) { return lag.members.empty() && lag.unnamed == 0; });
        if (roots.empty()) {
            return false;
        }
        lags = std::move(roots);
        return true;
    }

    std::vector<Lag> lags;
    bool moving = false; ///< the first or the last ranks of a communicator, or all
    bool moved = false;  ///< anything, as in Verdict
    bool changing = false;

private:
    /// The other report does not have it. In a text this may be because its ranks are equal there.
    void compare_to_none(const Communicator& communicator, bool partial) {
        const bool has_counts = !communicator.ranks.empty() || !communicator.unnamed.empty();
        if (partial && communicator.settled && has_counts) {
            moving = true;
        } else {
            changing = true;
        }
        moved = moved || moving || !partial;
    }

    void compare(const Communicator& before, const Communicator& after) {
        moved = moved || before.unnamed != after.unnamed;
        const auto ranks = in_both(before, after);
        for (std::size_t i = 0; i < function_names.size(); ++i) {
            const auto now = spread_of(ranks.after, after.unnamed, i);
            compare(ranks, i);
            if (spread_of(ranks.before, before.unnamed, i) != now) {
                moving = true;
            } else if (now.least < now.most) {
                add_lag(after, ranks.after, i, now);
            }
        }
    }

    void compare(const InBoth& ranks, std::size_t function) {
        for (std::size_t i = 0; i < ranks.after.size(); ++i) {
            moved = moved || ranks.before[i]->counts.at(function) != ranks.after[i]->counts.at(function);
        }
    }

    void add_lag(const Communicator& communicator, const std::vector<const Rank*>& ranks, std::size_t function,
                 const Spread& now) {
        Lag lag;
        lag.communicator = communicator.hash;
        lag.size = communicator.size;
        lag.function = function_names.at(function);
        lag.operation = now.least + 1;
        for (const auto* const rank : ranks) {
            if (rank->counts.at(function) == now.least) {
                lag.members.push_back(rank->member);
            } else if (rank->counts.at(function)) {
                ++lag.waiting;
                add_waiting(rank->member);
            }
        }
        for (const auto& some : communicator.unnamed) {
            if (some.function == function) {
                (some.count == now.least ? lag.unnamed : lag.waiting) += some.ranks;
            }
        }
        lags.push_back(std::move(lag));
    }

    void add_waiting(const Member& member) {
        if (is_known(member)) {
            waiting_.insert(owner_of(member));
        }
    }

    std::set<Owner> waiting_;
};

std::vector<Lost> lost_in(const Report& report) {
    std::vector<Lost> lost;
    std::set<Owner> named; // a process is in many communicators
    for (const auto& communicator : report.communicators) {
        for (const auto& rank : communicator.missing) {
            if (!is_known(rank.member) || named.insert(owner_of(rank.member)).second) {
                lost.push_back({communicator.hash, rank, {}});
            }
        }
    }
    std::ranges::stable_sort(lost, {}, [](const Lost& one) {
        return one.rank.dead ? 0 : one.rank.unresponsive ? 1 : 2;
    });
    return lost;
}

State state_of(const Comparison& found, const Report& report) {
    if (report.communicators.empty() && !report.partial) {
        return State::NoCommunicator;
    }
    return !found.lags.empty() ? State::Lagging
           : found.moving      ? State::Moving
           : found.changing    ? State::Changing
                               : State::Equal;
}

/// "0xab", or "\"dp\" 0xab".
std::string title_of(const std::string& name, const std::string& hash) {
    return name.empty() ? hash : format_text("\"{}\" {}", name, hash);
}

std::string_view sentence_of(State state) {
    switch (state) {
    case State::NoCommunicator:
        return "NCCL has no communicator";
    case State::Changing:
        return "communicators are being created or destroyed";
    case State::Moving:
        return "NCCL's collectives move on: ranks launch new ones";
    case State::Equal:
        return "all ranks have launched the same collectives of NCCL: one of these is in flight, or NCCL is idle";
    case State::Gone:
        return "NCCL's RAS has answered once, and is gone: ranks end";
    case State::Lagging:
        break;
    }
    return {};
}

std::string_view fate_of(const MissingRank& rank) {
    return rank.dead           ? "is dead, as NCCL's RAS says"
           : rank.unresponsive ? "does not answer NCCL's RAS"
           : rank.unclear      ? "does not answer NCCL's RAS, or has left"
                               : "has left or not joined";
}

std::string text_of(const Lag& lag, std::string_view since) {
    const auto index = std::ranges::find(function_names, lag.function) - function_names.begin();
    return format_text("{} {} of communicator {} ({} of {} ranks wait{}{})", spoken.at(static_cast<std::size_t>(index)),
                       lag.operation, title_of(lag.name, lag.communicator), lag.waiting, lag.size,
                       since.empty() ? "" : " ", since);
}

} // namespace

Verdict judge(const Report& earlier, const Report& later) {
    Comparison found(earlier, later);
    Verdict verdict{.version = later.version,
                    .state = state_of(found, later),
                    .moved = found.moved,
                    .lost = lost_in(later),
                    .lags = {},
                    .circular = false,
                    .partial = later.partial,
                    .alike = later.alike};
    verdict.circular = !found.lags.empty() && !found.keep_roots();
    verdict.lags = std::move(found.lags);
    return verdict;
}

bool Verdict::blames_any() const {
    return !lags.empty() || std::ranges::any_of(lost, [](const Lost& one) { return !one.rank.answers(); });
}

void add_names(Verdict& verdict, const std::map<std::uint64_t, std::string>& names) {
    for (const auto& one : names) {
        const auto hash = format_text("0x{:x}", one.first);
        const auto add = [&](auto& named) {
            if (named.communicator == hash) {
                named.name = one.second;
            }
        };
        std::ranges::for_each(verdict.lags, add);
        std::ranges::for_each(verdict.lost, add);
    }
}

std::vector<Named> named_in(const Verdict& verdict, std::string_view since) {
    std::vector<Named> named;
    std::vector<Named> left; // these tell least
    for (const auto& [communicator, rank, name] : verdict.lost) {
        (rank.answers() ? left : named)
            .push_back({rank.member, format_text("{} (communicator {})", fate_of(rank), title_of(name, communicator))});
    }
    for (const auto& lag : verdict.lags) {
        const auto what = "has not entered " + text_of(lag, since);
        append(named, mapped(lag.members, [&](const Member& member) { return Named{member, what}; }));
    }
    append(named, std::move(left));
    return named;
}

Described describe(const Member& member) {
    return {is_known(member) ? format_text("communicator rank {} (pid {} on {})", member.rank, member.pid, member.host)
                             : format_text("communicator rank {} (process not known)", member.rank),
            {}};
}

std::vector<std::string> lines_of(const Verdict& verdict, const Describe& describe, std::string_view since) {
    std::vector<std::string> lines;
    const auto named = named_in(verdict, since);
    for (std::size_t i = 0; i < std::min(named.size(), most_named); ++i) {
        const auto who = describe(named[i].member);
        lines.push_back(who.name + " " + named[i].what);
        if (!who.state.empty()) {
            lines.push_back("  its process: " + who.state);
        }
    }
    if (named.size() > most_named) {
        lines.push_back(format_text("  and {} more", named.size() - most_named));
    }
    for (const auto& lag : verdict.lags) {
        if (lag.unnamed > 0) {
            lines.push_back(format_text("{} ranks, which NCCL before 2.28.7 does not name, have not entered {}",
                                        lag.unnamed, text_of(lag, since)));
        }
    }
    if (verdict.circular) {
        lines.emplace_back("these ranks wait for each other: do they call collectives in different orders?");
    }
    if (verdict.state == State::Equal && verdict.partial) {
        lines.emplace_back(
            "all ranks have launched equally many collectives of NCCL; before 2.28.7 it does not say whether "
            "they launch more");
    } else if (verdict.state != State::Lagging) {
        lines.emplace_back(sentence_of(verdict.state));
    } else if (verdict.moved) {
        lines.emplace_back("NCCL's other collectives move on: the job may only be slow");
    } else if (verdict.partial) {
        lines.emplace_back(
            "before 2.28.7, NCCL does not say whether these ranks wait for each other, and whether its other "
            "collectives move on");
    }
    if (verdict.alike > 0) {
        lines.push_back(format_text("{} communicators are not compared: some have the same hash", verdict.alike));
    }
    return lines;
}

} // namespace rdma_nccl::ras
