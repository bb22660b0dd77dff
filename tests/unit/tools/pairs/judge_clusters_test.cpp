// SPDX-License-Identifier: Apache-2.0
// A thousand random clusters of 64 nodes: what was planted is found and named, and nobody else is accused.
#include "tests/unit/pairs_cluster.h"

#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>

namespace rdma_nccl::pairs {
namespace {

using namespace test;

constexpr unsigned cluster_nodes = 64;

struct Link {
    unsigned a = 0, b = 0, rail = 0;
    auto operator<=>(const Link&) const = default;
};

/// What is wrong in a cluster. No node has two things, so that what must be found is plain.
struct Planted {
    std::map<unsigned, double> nodes;                                       ///< share of the usual speed
    std::map<std::pair<unsigned, unsigned>, double> rails, sends, receives; ///< node and rail
    std::map<Link, double> links;
    std::map<std::pair<unsigned, unsigned>, double> halved; ///< both ways at once
    std::map<Link, double> halved_links;
    std::set<unsigned> dead;
    std::set<Link> broken;
};

class Cluster {
public:
    Cluster(std::uint64_t seed, unsigned with_rails, bool faults) : random(seed), rails(with_rails) {
        sigma = 0.01 + 0.01 * chance();
        for (double& share : rail_shares) {
            share = chance() < 0.05 ? 0.97 : 1; // an older cable, another slot
        }
        if (faults) {
            plant();
        }
    }

    SpeedOf speed() {
        return [this](unsigned from, unsigned from_rail, unsigned to, unsigned to_rail) {
            const double usual = 0.97 * line_gbps * std::min(rail_share(from, from_rail), rail_share(to, to_rail));
            return usual * planted_share(from, from_rail, to, to_rail) * (1 + sigma * noise(random));
        };
    }

    void spoil(Report& report) const {
        for (PairingResult& result : report.results) {
            const auto& [a, b, rail_a, rail_b] = result.pairing;
            if (result.both) {
                result.both->gbps = (result.forward->gbps + result.backward->gbps) * duplex_share(result.pairing);
            }
            if (planted.dead.contains(a) || planted.dead.contains(b) || planted.broken.contains({a, b, rail_a})) {
                result = failed_result(result.pairing, "no answer within 5 s");
            }
        }
    }

    /// Of links only the ones that were measured.
    std::vector<std::string> expected(const Report& report) const {
        std::vector<std::string> all;
        const auto rail_text = [&](unsigned rail) { return rails > 1 ? "." + std::to_string(rail) : std::string(); };
        for (const auto& [node, share] : planted.nodes) {
            all.push_back("node " + std::to_string(node));
        }
        for (const auto& [port, share] : planted.rails) {
            all.push_back((rails > 1 ? "rail " : "node ") + std::to_string(port.first) + rail_text(port.second));
        }
        for (const auto* way : {&planted.sends, &planted.receives}) {
            for (const auto& [port, share] : *way) {
                all.push_back("direction " + std::to_string(port.first) + rail_text(port.second));
            }
        }
        for (const auto& [port, share] : planted.halved) {
            all.push_back("duplex " + std::to_string(port.first) + rail_text(port.second));
        }
        for (const unsigned node : planted.dead) {
            all.push_back("failed " + std::to_string(node));
        }
        for (const PairingResult& result : report.results) {
            const auto& [a, b, rail_a, rail_b] = result.pairing;
            const std::string where = std::to_string(a) + "-" + std::to_string(b) + "." + std::to_string(rail_a);
            if (planted.links.contains({a, b, rail_a})) {
                all.push_back("link " + where);
            }
            if (planted.halved_links.contains({a, b, rail_a})) {
                all.push_back("duplex " + where);
            }
            if (planted.broken.contains({a, b, rail_a})) {
                all.push_back("failed " + where);
            }
        }
        std::sort(all.begin(), all.end());
        all.erase(std::unique(all.begin(), all.end()), all.end());
        return all;
    }

private:
    double chance() { return std::uniform_real_distribution<>(0, 1)(random); }
    unsigned below(unsigned count) { return std::uniform_int_distribution<unsigned>(0, count - 1)(random); }
    double slow_share() { return 0.3 + 0.5 * chance(); }
    double rail_share(unsigned node, unsigned rail) const { return rail_shares[node * 8 + rail]; }

    unsigned next_node() {
        const unsigned at = below(static_cast<unsigned>(unused.size()));
        const unsigned node = unused[at];
        unused.erase(unused.begin() + at);
        return node;
    }

    Link next_link() {
        const auto [a, b] = std::minmax({next_node(), next_node()});
        return {a, b, below(rails)};
    }

    void plant() {
        unused.resize(cluster_nodes);
        std::iota(unused.begin(), unused.end(), 0U);
        for (unsigned left = below(3); left > 0; --left) {
            planted.nodes[next_node()] = slow_share();
        }
        for (unsigned left = below(3); left > 0; --left) {
            planted.rails[{next_node(), below(rails)}] = slow_share();
        }
        if (below(2) == 0) {
            planted.sends[{next_node(), below(rails)}] = slow_share();
        }
        if (below(2) == 0) {
            planted.receives[{next_node(), below(rails)}] = slow_share();
        }
        for (unsigned left = below(4); left > 0; --left) {
            planted.links[next_link()] = slow_share();
        }
        if (below(3) == 0) {
            planted.dead.insert(next_node());
        }
        if (below(3) == 0) {
            planted.broken.insert(next_link());
        }
        if (below(2) == 0) {
            planted.halved[{next_node(), below(rails)}] = 0.4 + 0.3 * chance();
        }
        if (below(2) == 0) {
            planted.halved_links[next_link()] = 0.4 + 0.3 * chance();
        }
    }

    /// Of the sum of both ways alone; rails of the same node differ a little.
    double duplex_share(const Pairing& pairing) const {
        const auto& [a, b, rail_a, rail_b] = pairing;
        double share = 0.9 + 0.01 * ((a + b + rail_a) % 10);
        for (const auto& port : {std::pair{a, rail_a}, std::pair{b, rail_b}}) {
            const auto found = planted.halved.find(port);
            share = found == planted.halved.end() ? share : std::min(share, found->second);
        }
        const auto found = planted.halved_links.find({a, b, rail_a});
        return found == planted.halved_links.end() ? share : std::min(share, found->second);
    }

    double planted_share(unsigned from, unsigned from_rail, unsigned to, unsigned to_rail) const {
        double share = 1;
        const auto slower = [&](const auto& map, const auto& key) {
            const auto found = map.find(key);
            share = found == map.end() ? share : std::min(share, found->second);
        };
        slower(planted.nodes, from);
        slower(planted.nodes, to);
        slower(planted.rails, std::pair{from, from_rail});
        slower(planted.rails, std::pair{to, to_rail});
        slower(planted.sends, std::pair{from, from_rail});
        slower(planted.receives, std::pair{to, to_rail});
        slower(planted.links, Link{std::min(from, to), std::max(from, to), from_rail});
        return share;
    }

    std::mt19937_64 random;
    std::normal_distribution<> noise{0, 1};
    unsigned rails;
    double sigma = 0;
    double rail_shares[cluster_nodes * 8] = {};
    std::vector<unsigned> unused;
    Planted planted;
};

void expect_planted(Cluster& cluster, const Report& report, unsigned seed) {
    const auto verdict = judge(report, {});
    ASSERT_EQ(accused(verdict), cluster.expected(report)) << "cluster " << seed;
    for (const Fault& fault : verdict.faults) {
        ASSERT_FALSE(fault.text.empty());
    }
}

void expect_found_by_all(unsigned seed, unsigned rails, bool faults) {
    Cluster cluster(seed, rails, faults);
    auto report = measured_cluster(cluster_nodes, rails, cluster.speed());
    cluster.spoil(report);
    expect_planted(cluster, report, seed);
}

void expect_found_quickly(unsigned seed, unsigned rails, bool faults) {
    Cluster cluster(seed, rails, faults);
    auto report = idle_cluster(cluster_nodes, rails);
    measure_rounds(report, on_all_rails(report, quick_pairs(cluster_nodes, 3 + seed % 3, seed)), cluster.speed());
    cluster.spoil(report);
    const auto [suspects, good] = retest_nodes(report, judge(report, {}));
    ASSERT_GT(good.size(), cluster_nodes / 4);
    measure_rounds(report, on_all_rails(report, retest_pairs(suspects, good)), cluster.speed(), true);
    cluster.spoil(report);
    expect_planted(cluster, report, seed);
}

// With the sanitizers each takes ten times as long: every fifth has to do there.
#ifdef __SANITIZE_ADDRESS__ // g++
constexpr unsigned stride = 5;
#elif defined(__has_feature) // clang++
#if __has_feature(address_sanitizer)
constexpr unsigned stride = 5;
#else
constexpr unsigned stride = 1;
#endif
#else
constexpr unsigned stride = 1;
#endif

TEST(PairsJudgeClusters, AllPairsOfAThousandNodesAndRails) {
    for (unsigned seed = 0; seed < 100; seed += stride) {
        ASSERT_NO_FATAL_FAILURE(expect_found_by_all(seed, 1, seed % 4 != 0));
    }
    for (unsigned seed = 100; seed < 104; ++seed) {
        ASSERT_NO_FATAL_FAILURE(expect_found_by_all(seed, 8, seed % 4 != 0));
    }
}

TEST(PairsJudgeClusters, QuickRoundsAndRetests) {
    for (unsigned seed = 104; seed < 1000; seed += stride) {
        ASSERT_NO_FATAL_FAILURE(expect_found_quickly(seed, 1 + seed % 3, seed % 4 != 0));
    }
}

} // namespace
} // namespace rdma_nccl::pairs
