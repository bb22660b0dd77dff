// SPDX-License-Identifier: Apache-2.0
#include "tools/pairs/pairs.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "tools/pairs/pair_run.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

namespace rdma_nccl::pairs {

namespace {

Pairing pair_of(unsigned one, unsigned other) {
    return {.a = std::min(one, other), .b = std::max(one, other)};
}

/// splitmix64. Unlike those of <random>, its distribution is the same with every C++ library, and all nodes of a step
/// must compute the same schedule.
class Dice {
public:
    explicit Dice(std::uint64_t seed) : state(seed) {}

    /// Returns 0 to count - 1. The remainder favours small numbers, but by less than one in 2^32.
    unsigned below(unsigned count) {
        state += 0x9e3779b97f4a7c15U;
        std::uint64_t mixed = state;
        mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
        mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
        return static_cast<unsigned>((mixed ^ (mixed >> 31U)) % count);
    }

    template<typename T>
    void shuffle(std::vector<T>& values) {
        for (std::size_t left = values.size(); left > 1; --left) {
            std::swap(values[left - 1], values[below(static_cast<unsigned>(left))]);
        }
    }

private:
    std::uint64_t state;
};

/// Returns the size of the circle: an even number. If the number of nodes is odd, the last place is empty.
unsigned circle_of(unsigned nodes) {
    return nodes + nodes % 2;
}

/// One round of the circle method: the last node stays, the others turn and meet the node opposite.
Round circle_round(unsigned nodes, unsigned round) {
    const unsigned turning = circle_of(nodes) - 1;
    Round pairs;
    if (turning < nodes) {
        pairs.push_back(pair_of(turning, round));
    }
    for (unsigned step = 1; step <= turning / 2; ++step) {
        pairs.push_back(pair_of((round + step) % turning, (round + turning - step) % turning));
    }
    return pairs;
}

/// Returns all pairs, with the nodes' numbers shuffled.
NodeRounds shuffled_pairs(unsigned nodes, Dice& dice) {
    std::vector<unsigned> names(nodes);
    std::iota(names.begin(), names.end(), 0U);
    dice.shuffle(names);
    NodeRounds rounds = all_pairs(nodes);
    for (Round& round : rounds) {
        for (Pairing& pairing : round) {
            pairing = pair_of(names[pairing.a], names[pairing.b]);
        }
    }
    return rounds;
}

} // namespace

NodeRounds all_pairs(unsigned nodes) {
    NodeRounds rounds;
    for (unsigned round = 0; nodes > 1 && round < circle_of(nodes) - 1; ++round) {
        rounds.push_back(circle_round(nodes, round));
    }
    return rounds;
}

NodeRounds quick_pairs(unsigned nodes, unsigned rounds, std::uint64_t seed) {
    Dice dice(seed);
    NodeRounds chosen;
    while (nodes > 1 && chosen.size() < rounds) {
        NodeRounds more = shuffled_pairs(nodes, dice);
        more.resize(std::min(more.size(), rounds - chosen.size()));
        chosen.insert(chosen.end(), more.begin(), more.end());
    }
    return chosen;
}

NodeRounds ring_pairs(unsigned nodes) {
    if (nodes < 2) {
        return {};
    }
    if (nodes == 2) {
        return {{pair_of(0, 1)}};
    }
    NodeRounds rounds(nodes % 2 == 0 ? 2 : 3);
    for (unsigned node = 0; node < nodes; ++node) {
        // The last link of an odd ring shares a node with each of the two rounds.
        const bool closes_odd = nodes % 2 != 0 && node == nodes - 1;
        rounds[closes_odd ? 2 : node % 2].push_back(pair_of(node, (node + 1) % nodes));
    }
    return rounds;
}

NodeRounds bisection_pairs(unsigned nodes) {
    const unsigned half = nodes / 2;
    Round round;
    for (unsigned node = 0; node < half; ++node) {
        round.push_back(pair_of(node, node + half));
    }
    if (round.empty()) {
        return {};
    }
    return nodes % 2 == 0 ? NodeRounds{round} : NodeRounds{round, {pair_of(0, nodes - 1)}};
}

NodeRounds loopback_pairs(unsigned nodes) {
    Round round;
    for (unsigned node = 0; node < nodes; ++node) {
        round.push_back(pair_of(node, node));
    }
    return round.empty() ? NodeRounds{} : NodeRounds{round};
}

NodeRounds retest_pairs(std::span<const unsigned> suspects, std::span<const unsigned> good) {
    const std::set<unsigned> to_test(suspects.begin(), suspects.end());
    const std::set<unsigned> all_good(good.begin(), good.end());
    std::vector<unsigned> partners;
    std::ranges::set_difference(all_good, to_test, std::back_inserter(partners));
    NodeRounds rounds;
    std::size_t next = 0;
    for (auto node = to_test.begin(); node != to_test.end() && !partners.empty(); ++node, ++next) {
        if (next % partners.size() == 0) {
            rounds.emplace_back();
        }
        rounds.back().push_back(pair_of(*node, partners[next % partners.size()]));
    }
    return rounds;
}

std::vector<Round> with_rails(const NodeRounds& rounds, std::span<const unsigned> rails, RailPairing pairing) {
    const unsigned most = rails.empty() ? 0 : std::ranges::max(rails);
    const auto has = [&](unsigned node, unsigned rail) { return node < rails.size() && rail < rails[node]; };
    std::vector<Round> all;
    const auto add = [&](const Round& nodes, unsigned rail_a, unsigned rail_b) {
        Round round;
        for (const Pairing& pair : nodes) {
            const bool loopback = pair.a == pair.b; // only between a port and itself
            if (has(pair.a, rail_a) && has(pair.b, rail_b) && (!loopback || rail_a == rail_b)) {
                round.push_back({.a = pair.a, .b = pair.b, .rail_a = rail_a, .rail_b = rail_b});
            }
        }
        if (!round.empty()) {
            all.push_back(std::move(round));
        }
    };
    for (const Round& round : rounds) {
        for (unsigned shift = 0; shift < (pairing == RailPairing::Cross ? most : 1); ++shift) {
            for (unsigned rail = 0; rail < most; ++rail) {
                add(round, rail, (rail + shift) % most);
            }
        }
    }
    return all;
}

std::vector<Round> over_rails(const NodeRounds& node_rounds, const Options& options,
                              const std::vector<measure::Node>& nodes) {
    const auto rails = mapped(nodes, [](const auto& node) { return static_cast<unsigned>(node.rails.size()); });
    auto rounds = with_rails(node_rounds, rails, options.rails);
    if (options.only_rail) {
        for (auto& round : rounds) {
            std::erase_if(round, [rail = *options.only_rail](const Pairing& pairing) {
                return pairing.rail_a != rail || pairing.rail_b != rail;
            });
        }
    }
    std::erase_if(rounds, [](const Round& round) { return round.empty(); });
    return rounds;
}

std::size_t count_pairings(const std::vector<Round>& rounds) {
    return std::accumulate(rounds.begin(), rounds.end(), std::size_t{0},
                           [](std::size_t count, const Round& round) { return count + round.size(); });
}

std::vector<Round> plan_rounds(const Options& options, const std::string& schedule,
                               const std::vector<measure::Node>& nodes) {
    const auto count = static_cast<unsigned>(nodes.size());
    const auto rounds = schedule == "loopback"    ? loopback_pairs(count)
                        : schedule == "quick"     ? quick_pairs(count, options.quick_rounds, options.seed)
                        : schedule == "ring"      ? ring_pairs(count)
                        : schedule == "bisection" ? bisection_pairs(count)
                                                  : all_pairs(count);
    return over_rails(rounds, options, nodes);
}

std::string announce(const std::string& schedule, const std::vector<measure::Node>& nodes,
                     const std::vector<Round>& rounds, const Measurement& measure) {
    const auto without = std::ranges::count_if(nodes, [](const auto& node) { return node.rails.empty(); });
    const auto time = expected_time(measure, schedule == "loopback") * static_cast<long>(rounds.size());
    return format_text("{}{}, {}, {}: {}, {}, about {}", format_count(nodes.size(), "node"),
                       without > 0 ? format_text(" ({} without RDMA)", without) : "",
                       format_count(most_rails(nodes), "rail"), schedule == "all" ? "all pairs" : schedule,
                       format_count(rounds.size(), "round"), format_count(count_pairings(rounds), "pairing"),
                       measure::format_duration(time));
}

} // namespace rdma_nccl::pairs
