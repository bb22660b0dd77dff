// SPDX-License-Identifier: Apache-2.0
// Small clusters, one thing wrong at a time, and the words for it.
#include "tests/unit/pairs_cluster.h"
#include "tools/measure/rails.h"
#include "tools/verbs/rail.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

namespace rdma_nccl::pairs {
namespace {

using namespace test;

using Names = std::vector<std::string>;

/// 388 Gb/s give or take 1 %, the same with each run.
double usual(unsigned from, unsigned rail, unsigned to) {
    return 388 + (from * 7 + rail * 3 + to * 5) % 9 - 4.0;
}

SpeedOf slow_where(std::function<bool(unsigned, unsigned, unsigned, unsigned)> slow, double gbps = 183) {
    return [=](unsigned from, unsigned from_rail, unsigned to, unsigned to_rail) {
        return slow(from, from_rail, to, to_rail) ? gbps : usual(from, from_rail, to);
    };
}
const SpeedOf all_good = slow_where([](auto...) { return false; });

std::string all_texts(const Verdict& verdict) {
    std::string text;
    for (const Fault& fault : verdict.faults) {
        text += fault.text + "\n";
    }
    for (const std::string& note : verdict.notes) {
        text += note + "\n";
    }
    return text;
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

TEST(PairsJudge, AGoodClusterIsGood) {
    for (unsigned nodes : {2U, 3U, 4U, 5U, 16U}) {
        const auto report = measured_cluster(nodes, 2, all_good);
        const auto verdict = judge(report, {});
        EXPECT_EQ(accused(verdict), Names{}) << all_texts(verdict);
        EXPECT_EQ(verdict.exit_code, 0);
        EXPECT_NEAR(verdict.median_gbps.value_or(0), 388, 4);
        EXPECT_LE(verdict.mad_gbps.value_or(99), 4);
        EXPECT_NEAR(verdict.median_latency_us.value_or(0), 1.8, 0.01);
        EXPECT_EQ(verdict.results, std::vector(report.results.size(), ResultState::Good));
        for (const NodeScore& score : verdict.nodes) {
            EXPECT_EQ(score.state, ResultState::Good);
            EXPECT_EQ(score.pairs, 2 * (nodes - 1));
            EXPECT_NEAR(score.sends_gbps.value_or(0), 388, 5);
        }
    }
}

TEST(PairsJudge, ASlowNode) {
    const auto slow = [](unsigned from, unsigned, unsigned to, unsigned) { return from == 2 || to == 2; };
    for (unsigned nodes : {4U, 5U, 16U}) {
        const auto verdict = judge(measured_cluster(nodes, 2, slow_where(slow)), {});
        EXPECT_EQ(accused(verdict), Names{"node 2"}) << nodes;
        EXPECT_EQ(verdict.suspects, std::vector<unsigned>{2});
        EXPECT_EQ(verdict.exit_code, 1);
        EXPECT_EQ(verdict.nodes[2].state, ResultState::Slow);
        EXPECT_EQ(verdict.nodes[1].state, ResultState::Good);
        EXPECT_EQ(verdict.nodes[1].slow, 2U);
    }
    const auto verdict = judge(measured_cluster(6, 1, slow_where(slow)), {});
    EXPECT_TRUE(contains(all_texts(verdict), "n002 is slow: 183 Gb/s, normal is 389 (47 %), on 5 of 5 pairs; "))
        << all_texts(verdict);
}

TEST(PairsJudge, WithManyPartnersLessThanATenthTells) {
    const auto node_at = [](double share, double noise) {
        unsigned state = 1;
        return judge(measured_cluster(24, 1,
                                      [=](unsigned from, unsigned, unsigned to, unsigned) mutable {
                                          state = state * 1664525 + 1013904223;
                                          const double off = noise * ((state >> 8U) % 201 - 100.0) / 100;
                                          return 388 * (from == 2 || to == 2 ? share : 1) * (1 + off);
                                      }),
                     {});
    };
    EXPECT_EQ(accused(node_at(0.97, 0.01)), Names{}) << "good clusters differ by so much";
    EXPECT_EQ(accused(node_at(0.93, 0.01)), Names{"node 2"});
    EXPECT_EQ(accused(node_at(0.93, 0.05)), Names{}) << "in a noisy network it does not";
    EXPECT_EQ(accused(node_at(0.84, 0.08)), Names{"node 2"}) << "but a tenth always does";
}

TEST(PairsJudge, SeveralSlowNodesDoNotSpoilTheOthers) {
    const auto slow = [](unsigned from, unsigned, unsigned to, unsigned) { return from < 3 || to < 3; };
    const auto verdict = judge(measured_cluster(8, 1, slow_where(slow)), {});
    EXPECT_EQ(accused(verdict), (Names{"node 0", "node 1", "node 2"}));
}

TEST(PairsJudge, ASlowRailIsNotTheNode) {
    const auto slow = [](unsigned from, unsigned rail, unsigned to, unsigned) {
        return (from == 2 || to == 2) && rail == 1;
    };
    const auto verdict = judge(measured_cluster(5, 3, slow_where(slow)), {});
    EXPECT_EQ(accused(verdict), Names{"rail 2.1"});
    EXPECT_TRUE(contains(all_texts(verdict), "n002 mlx5_1:1 is slow: 183 Gb/s")) << all_texts(verdict);
}

/// The cables of rails 0 and 1 of node 2 are crossed: on the switches of which rail a port is.
unsigned cabled_rail(unsigned node, unsigned rail) {
    return node == 2 && rail < 2 ? 1 - rail : rail;
}

TEST(PairsJudge, CrossedCablesAreTheFaultOfBothPorts) {
    const auto apart = [](unsigned from, unsigned from_rail, unsigned to, unsigned to_rail) {
        return cabled_rail(from, from_rail) != cabled_rail(to, to_rail);
    };
    auto report = measured_cluster(6, 3, slow_where(apart)); // a spine connects the rails
    EXPECT_EQ(accused(judge(report, {})), (Names{"rail 2.0", "rail 2.1"}));
    for (PairingResult& result : report.results) { // none does
        const auto [a, b, rail_a, rail_b] = result.pairing;
        if (apart(a, rail_a, b, rail_b)) {
            result = failed_result(result.pairing, "retry exceeded");
        }
    }
    EXPECT_EQ(accused(judge(report, {})), (Names{"failed 2.0", "failed 2.1"}));
    EXPECT_TRUE(contains(all_texts(judge(report, {})), "n002 mlx5_0:1: 5 of 5 pairs failed: retry exceeded\n"
                                                       "n002 mlx5_1:1: 5 of 5 pairs failed: retry exceeded\n"))
        << all_texts(judge(report, {}));
}

TEST(PairsJudge, ASlowLinkIsNeitherNode) {
    const auto slow = [](unsigned from, unsigned rail, unsigned to, unsigned) {
        return std::min(from, to) == 1 && std::max(from, to) == 3 && rail == 0;
    };
    auto report = measured_cluster(6, 2, slow_where(slow));
    for (PairingResult& result : report.results) {
        if (result.pairing == Pairing{.a = 1, .b = 3}) {
            result.notes = {"retransmits: 120 at n003 mlx5_0:1"};
        }
    }
    const auto verdict = judge(report, {});
    EXPECT_EQ(accused(verdict), Names{"link 1-3.0"});
    EXPECT_TRUE(verdict.suspects.empty());
    EXPECT_EQ(verdict.nodes[1].state, ResultState::Good);
    const std::string text = all_texts(verdict);
    EXPECT_TRUE(contains(text, "the pair n001 mlx5_0:1 and n003 mlx5_0:1 is slow: 183 Gb/s")) << text;
    EXPECT_TRUE(contains(text, "other pairs of both are good")) << text;
    EXPECT_TRUE(contains(text, "retransmits: 120 at n003")) << text;
}

TEST(PairsJudge, OthersAreGoodBesideWhatASlowNodeExplains) {
    const auto slow = [](unsigned from, unsigned, unsigned to, unsigned) {
        return from == 4 || to == 4 || (std::min(from, to) == 1 && std::max(from, to) == 3);
    };
    const auto verdict = judge(measured_cluster(8, 1, slow_where(slow)), {});
    EXPECT_EQ(accused(verdict), (Names{"link 1-3.0", "node 4"}));
    EXPECT_TRUE(contains(all_texts(verdict), "other pairs of both are good")) << all_texts(verdict);
}

TEST(PairsJudge, AllRailsOfASlowPairAreOneFault) {
    const auto slow = [](unsigned from, unsigned, unsigned to, unsigned) { return from + to == 1; };
    EXPECT_EQ(accused(judge(measured_cluster(6, 4, slow_where(slow)), {})), Names{"link 0-1"});
}

TEST(PairsJudge, OneWay) {
    const auto receives = [](unsigned, unsigned, unsigned to, unsigned) { return to == 2; };
    auto verdict = judge(measured_cluster(5, 2, slow_where(receives)), {});
    EXPECT_EQ(accused(verdict), Names{"direction 2"});
    EXPECT_TRUE(contains(all_texts(verdict), "n002 receives slowly: 183 Gb/s")) << all_texts(verdict);
    EXPECT_TRUE(contains(all_texts(verdict), "PCIe of the receiver")) << all_texts(verdict);

    const auto sends = [](unsigned from, unsigned rail, unsigned, unsigned) { return from == 2 && rail == 1; };
    verdict = judge(measured_cluster(5, 2, slow_where(sends)), {});
    EXPECT_EQ(accused(verdict), Names{"direction 2.1"});
    EXPECT_TRUE(contains(all_texts(verdict), "n002 mlx5_1:1 sends slowly: 183 Gb/s")) << all_texts(verdict);

    const auto way = [](unsigned from, unsigned, unsigned to, unsigned) { return from == 3 && to == 1; };
    verdict = judge(measured_cluster(5, 1, slow_where(way)), {});
    EXPECT_EQ(accused(verdict), Names{"direction 1-3.0"});
    EXPECT_TRUE(contains(all_texts(verdict), "the way from n003 mlx5_0:1 to n001 mlx5_0:1 is slow: 183 Gb/s"))
        << all_texts(verdict);
}

TEST(PairsJudge, OfTwoOrThreeNodesOnlyThePairIsNamed) {
    const auto second_rail = [](unsigned, unsigned rail, unsigned, unsigned) { return rail == 1; };
    auto verdict = judge(measured_cluster(2, 2, slow_where(second_rail)), {});
    EXPECT_EQ(accused(verdict), Names{"link 0-1.1"});
    EXPECT_TRUE(verdict.suspects.empty());
    EXPECT_EQ(verdict.nodes[0].state, ResultState::Unknown);
    EXPECT_TRUE(contains(all_texts(verdict), "cannot tell which side of a pair is slow")) << all_texts(verdict);

    const auto one_way = [](unsigned from, unsigned, unsigned, unsigned) { return from == 0; };
    EXPECT_EQ(accused(judge(measured_cluster(2, 1, slow_where(one_way)), {})), Names{"direction 0-1.0"});

    const auto node = [](unsigned from, unsigned, unsigned to, unsigned) { return from == 0 || to == 0; };
    verdict = judge(measured_cluster(3, 1, slow_where(node)), {});
    EXPECT_EQ(accused(verdict), (Names{"link 0-1.0", "link 0-2.0"}));
    EXPECT_TRUE(verdict.suspects.empty());
}

TEST(PairsJudge, AllAreEquallySlow) {
    const auto verdict = judge(measured_cluster(5, 1, slow_where([](auto...) { return true; }, 210)), {});
    EXPECT_EQ(accused(verdict), Names{"all slow"});
    EXPECT_EQ(verdict.exit_code, 1);
    EXPECT_TRUE(verdict.suspects.empty());
    EXPECT_TRUE(contains(all_texts(verdict), "the median is 210 Gb/s on links of 400 Gb/s (52 %; at least 90 %"))
        << all_texts(verdict);
    JudgeRules no_floor;
    no_floor.floor_share = 0;
    EXPECT_EQ(judge(measured_cluster(5, 1, slow_where([](auto...) { return true; }, 210)), no_floor).exit_code, 0);
}

TEST(PairsJudge, RailsOfOtherRatesHaveTheirOwnMeasure) {
    const auto slower_rail = [](unsigned, unsigned rail, unsigned, unsigned) { return rail == 1; };
    auto report = measured_cluster(5, 2, slow_where(slower_rail, 97));
    for (measure::Node& node : report.nodes) {
        node.rails[1].rate_gbps = 100;
    }
    EXPECT_EQ(accused(judge(report, {})), Names{});
}

TEST(PairsJudge, ALinkThatCameUpSlowerIsNamed) {
    const auto slow = [](unsigned from, unsigned rail, unsigned to, unsigned) {
        return (from == 2 || to == 2) && rail == 1;
    };
    auto report = measured_cluster(5, 2, slow_where(slow, 97));
    report.nodes[2].rails[1].rate_gbps = 100;
    const auto verdict = judge(report, {});
    EXPECT_EQ(accused(verdict), Names{"rail 2.1"});
    EXPECT_TRUE(contains(all_texts(verdict), "its link has 100 Gb/s, elsewhere 400")) << all_texts(verdict);
}

TEST(PairsJudge, SoftwareRdmaHasNoFloorAndNoFineJudgement) {
    const auto noisy = [](unsigned from, unsigned rail, unsigned to, unsigned) {
        return 2.0 + 0.3 * ((from + 2 * rail + to) % 4);
    };
    const auto report_of = [](const SpeedOf& speed) {
        auto report = measured_cluster(2, 2, speed);
        for (measure::Node& node : report.nodes) {
            for (PairRail& rail : node.rails) {
                rail.software = true;
            }
        }
        return report;
    };
    auto verdict = judge(report_of(noisy), {});
    EXPECT_EQ(accused(verdict), Names{}) << all_texts(verdict);
    EXPECT_TRUE(contains(all_texts(verdict), "software RDMA: functional test only")) << all_texts(verdict);
    EXPECT_EQ(verdict.exit_code, 0);

    verdict = judge(report_of([&](unsigned from, unsigned rail, unsigned to, unsigned) {
                        return rail == 1 ? 0.2 : noisy(from, rail, to, rail);
                    }),
                    {});
    EXPECT_EQ(accused(verdict), Names{"link 0-1.1"}) << all_texts(verdict);
    verdict = judge(report_of([&](unsigned from, unsigned rail, unsigned to, unsigned) {
                        return rail == 1 && from == 0 ? 0.2 : noisy(from, rail, to, rail);
                    }),
                    {});
    EXPECT_EQ(accused(verdict), Names{"direction 0-1.1"}) << all_texts(verdict);
}

TEST(PairsJudge, ADeadNode) {
    auto report = measured_cluster(6, 2, all_good);
    for (PairingResult& result : report.results) {
        if (result.pairing.a == 4 || result.pairing.b == 4) {
            result = failed_result(result.pairing, "no answer within 5 s: is the node up?");
        }
    }
    auto verdict = judge(report, {});
    EXPECT_EQ(accused(verdict), Names{"failed 4"});
    EXPECT_EQ(verdict.exit_code, 2);
    EXPECT_EQ(verdict.nodes[4].state, ResultState::Failed);
    EXPECT_EQ(verdict.nodes[3].state, ResultState::Good);
    EXPECT_EQ(verdict.suspects, std::vector<unsigned>{4});
    EXPECT_TRUE(contains(all_texts(verdict), "n004: 10 of 10 pairs failed: no answer within 5 s"))
        << all_texts(verdict);

    report.nodes[4].problem = "no RDMA port";
    std::erase_if(report.results, [](const PairingResult& result) { return !result.problem.empty(); });
    verdict = judge(report, {});
    EXPECT_EQ(accused(verdict), Names{"failed 4"});
    EXPECT_TRUE(contains(all_texts(verdict), "n004 takes no part: no RDMA port")) << all_texts(verdict);
}

TEST(PairsJudge, AFailureIsOfTheRailOrThePairOrWhoIsKnown) {
    const auto fail_where = [](auto where, unsigned nodes = 6) {
        auto report = measured_cluster(nodes, 2, all_good);
        for (PairingResult& result : report.results) {
            if (where(result.pairing)) {
                result = failed_result(result.pairing, "retry exceeded");
            }
        }
        return report;
    };
    auto report = fail_where([](const Pairing& pairing) { return pairing.b == 5 && pairing.rail_b == 1; });
    EXPECT_EQ(accused(judge(report, {})), Names{"failed 5.1"});
    report = fail_where([](const Pairing& pairing) { return pairing == Pairing{.a = 1, .b = 5}; });
    EXPECT_EQ(accused(judge(report, {})), Names{"failed 1-5.0"});
    for (PairingResult& result : report.results) {
        if (!result.problem.empty()) {
            result.fault_of = 5;
        }
    }
    EXPECT_EQ(accused(judge(report, {})), Names{"failed 5"});
    report = fail_where([](const Pairing& pairing) { return pairing.b == 5 || pairing.a + pairing.b == 3; });
    for (PairingResult& result : report.results) {
        if (!result.problem.empty() && result.pairing.b == 5) {
            result.fault_of = 5;
        }
    }
    EXPECT_EQ(accused(judge(report, {})), (Names{"failed 0-3", "failed 1-2", "failed 5"})) << "each once";
    report = fail_where([](const Pairing&) { return true; }, 2);
    const auto verdict = judge(report, {});
    EXPECT_EQ(accused(verdict), Names{"failed 0-1"});
    EXPECT_EQ(verdict.exit_code, 2);
    EXPECT_FALSE(verdict.median_gbps.has_value());
}

TEST(PairsJudge, WrongDataIsCriticalAndFirst) {
    const auto slow = [](unsigned from, unsigned, unsigned to, unsigned) { return from == 2 || to == 2; };
    auto report = measured_cluster(6, 1, slow_where(slow));
    const auto break_data = [&](auto where) {
        for (PairingResult& result : report.results) {
            result.data_correct = !where(result.pairing);
        }
        return judge(report, {});
    };
    auto verdict = break_data([](const Pairing& pairing) { return pairing.a == 4 || pairing.b == 4; });
    EXPECT_EQ(accused(verdict), (Names{"node 2", "wrong 4"}));
    EXPECT_EQ(accused(verdict.faults[0]), "wrong 4");
    EXPECT_EQ(verdict.exit_code, 2);
    verdict = break_data([](const Pairing& pairing) { return pairing == Pairing{.a = 0, .b = 1}; });
    EXPECT_EQ(accused(verdict), (Names{"node 2", "wrong 0-1.0"}));
    EXPECT_TRUE(contains(verdict.faults[0].text, "wrong data")) << verdict.faults[0].text;
}

TEST(PairsJudge, Latency) {
    auto report = measured_cluster(6, 1, all_good);
    const auto slow_where = [&](auto where) {
        for (PairingResult& result : report.results) {
            result.latency = latency_of(where(result.pairing) ? 9.3 : 1.8);
        }
        return judge(report, {});
    };
    auto verdict = slow_where([](const Pairing& pairing) { return pairing.a == 3 || pairing.b == 3; });
    EXPECT_EQ(accused(verdict), Names{"latency 3"});
    EXPECT_EQ(verdict.suspects, std::vector<unsigned>{3});
    EXPECT_TRUE(
        contains(all_texts(verdict), "latency of 9.3 us where the median is 1.8 (5.2 times), on 5 pairs of ports"))
        << all_texts(verdict);
    verdict = slow_where([](const Pairing& pairing) { return pairing == Pairing{.a = 1, .b = 2}; });
    EXPECT_EQ(accused(verdict), Names{"latency 1-2.0"});
    report = measured_cluster(6, 3, all_good);
    for (PairingResult& result : report.results) {
        const bool slow_pair = result.pairing.a == 1 && result.pairing.b == 2;
        result.latency = latency_of(slow_pair ? 9.3 : 1.8);
    }
    EXPECT_EQ(accused(judge(report, {})), Names{"latency 1-2"}) << "all rails of a pair are one fault";
    EXPECT_EQ(verdict.exit_code, 1);
}

TEST(PairsJudge, ABisectionNamesPairsOnly) {
    auto report = idle_cluster(8, 1);
    report.schedule = "bisection";
    measure_rounds(report, on_all_rails(report, bisection_pairs(8)),
                   slow_where([](unsigned from, unsigned, unsigned to, unsigned) { return from == 1 || to == 1; }));
    const auto verdict = judge(report, {});
    EXPECT_EQ(accused(verdict), Names{"link 1-5.0"});
    EXPECT_TRUE(contains(all_texts(verdict), "cannot be told")) << all_texts(verdict);
}

TEST(PairsJudge, ARingAndALoopbackNameTheNode) {
    const auto slow = slow_where([](unsigned from, unsigned, unsigned to, unsigned) { return from == 1 || to == 1; });
    auto report = idle_cluster(9, 2);
    measure_rounds(report, on_all_rails(report, ring_pairs(9)), slow);
    EXPECT_EQ(accused(judge(report, {})), Names{"node 1"});
    for (unsigned nodes : {2U, 9U}) {
        report = idle_cluster(nodes, 2);
        report.schedule = "loopback";
        measure_rounds(report, on_all_rails(report, loopback_pairs(nodes)), slow);
        EXPECT_EQ(accused(judge(report, {})), Names{"node 1"}) << nodes;
    }
}

TEST(PairsJudge, ALaterMeasurementOfThePairReplacesTheEarlier) {
    auto report = measured_cluster(5, 1, slow_where([](unsigned from, unsigned, unsigned to, unsigned) {
                                       return from + to == 1; // once disturbed
                                   }));
    EXPECT_EQ(accused(judge(report, {})), Names{"link 0-1.0"});
    measure_rounds(report, {{{.a = 0, .b = 1}}}, all_good, true);
    const auto verdict = judge(report, {});
    EXPECT_EQ(accused(verdict), Names{});
    EXPECT_EQ(verdict.nodes[0].pairs, 4U);
}

TEST(PairsJudge, WhatIsMissingIsNotAccused) {
    auto report = measured_cluster(6, 2, all_good);
    report.results.resize(7);
    report.ended_early = "interrupted";
    report.results[6] = failed_result(report.results[6].pairing, "interrupted");
    report.results[5].backward.reset();
    report.results[4].latency.reset();
    const auto verdict = judge(report, {});
    EXPECT_EQ(accused(verdict), Names{});
    EXPECT_EQ(verdict.exit_code, 0);
    EXPECT_EQ(verdict.results[6], ResultState::Unknown);
    EXPECT_TRUE(contains(all_texts(verdict), "ended early, interrupted: 7 of 30 pairs")) << all_texts(verdict);
}

TEST(PairsJudge, NothingWasMeasured) {
    for (const unsigned nodes : {0U, 1U, 5U}) {
        const auto verdict = judge(idle_cluster(nodes, 1), {});
        EXPECT_EQ(verdict.exit_code, 3);
        EXPECT_TRUE(verdict.faults.empty());
        EXPECT_FALSE(verdict.median_gbps || verdict.median_latency_us);
    }
}

TEST(PairsJudge, OddValuesDoNoHarm) {
    auto report = measured_cluster(5, 2, all_good);
    report.results[0].pairing = {.a = 99, .b = 1};
    report.results[1].pairing = {.a = 0, .b = 1, .rail_a = 7};
    report.results[2].forward->gbps = std::numeric_limits<double>::quiet_NaN();
    report.results[3].backward->gbps = std::numeric_limits<double>::infinity();
    report.results[4].forward->gbps = -1;
    report.results[5].fault_of = 1000;
    report.nodes[3].name = "\x1b[2J</script>";
    EXPECT_EQ(accused(judge(report, {})), Names{});
    for (PairingResult& result : report.results) {
        result.forward = result.backward = gbps_of(0);
    }
    EXPECT_EQ(accused(judge(report, {})), Names{"all slow"});
    report.nodes.clear();
    EXPECT_EQ(judge(report, {}).exit_code, 3);
}

TEST(PairsJudge, BytesThatThePortDidNotSeeAreNoted) {
    auto report = measured_cluster(5, 1, all_good);
    report.results[3].backward->counted_share = 0.02;
    report.results[4].forward->counted_share = 1.01;
    const auto verdict = judge(report, {});
    EXPECT_TRUE(contains(all_texts(verdict), "in 1 directions, the port counted less than 90 % of the bytes: "))
        << all_texts(verdict);
    EXPECT_TRUE(contains(all_texts(verdict), "sent 2 % of them")) << all_texts(verdict);
}

TEST(PairsJudge, WhoIsRetested) {
    const auto slow = [](unsigned from, unsigned, unsigned to, unsigned) { return from + to == 1; };
    const auto report = measured_cluster(6, 1, slow_where(slow));
    const auto [suspects, good] = retest_nodes(report, judge(report, {}));
    EXPECT_EQ(suspects, (std::vector<unsigned>{0, 1}));
    EXPECT_EQ(good, (std::vector<unsigned>{2, 3, 4, 5}));
}

Report equal_cluster(unsigned nodes) {
    return measured_cluster(nodes, 1, [](unsigned, unsigned, unsigned, unsigned) { return 390.0; });
}

TEST(PairsJudgeDuplex, ANodeThatHalvesIsNamed) {
    auto report = equal_cluster(6);
    for (PairingResult& result : report.results) {
        if (result.pairing.a == 2 || result.pairing.b == 2) {
            result.both = gbps_of(400);
        }
    }
    const auto verdict = judge(report, {});
    EXPECT_EQ(accused(verdict), std::vector<std::string>{"duplex 2"});
    EXPECT_EQ(verdict.suspects, std::vector<unsigned>{2});
    EXPECT_EQ(verdict.exit_code, 1);
    EXPECT_EQ(verdict.nodes[2].state, ResultState::Slow);
    EXPECT_TRUE(verdict.faults[0].text.starts_with(
        "n002 is slow when both ways are used at once: 400 Gb/s, normal is 764 (52 %), on 5 of 5 pairs"))
        << verdict.faults[0].text;
    JudgeRules easy;
    easy.share_of_median = 0.1;
    EXPECT_TRUE(judge(report, easy).faults.empty());
}

TEST(PairsJudgeDuplex, APairThatHalvesIsNoNodesFault) {
    auto report = equal_cluster(6);
    report.results[4].both = gbps_of(400);
    const auto& pairing = report.results[4].pairing;
    const auto verdict = judge(report, {});
    EXPECT_EQ(accused(verdict),
              std::vector<std::string>{"duplex " + std::to_string(pairing.a) + "-" + std::to_string(pairing.b) + ".0"});
    EXPECT_TRUE(verdict.suspects.empty());
    EXPECT_EQ(verdict.results[4], ResultState::Slow);
}

TEST(PairsJudgeDuplex, WhereAllHalveNobodyIsAccused) {
    auto report = equal_cluster(6);
    for (PairingResult& result : report.results) {
        result.both = gbps_of(400);
    }
    const auto verdict = judge(report, {});
    EXPECT_EQ(accused(verdict), std::vector<std::string>{"duplex"});
    EXPECT_TRUE(verdict.suspects.empty());
    EXPECT_EQ(verdict.exit_code, 1);
}

TEST(PairsJudgeDuplex, OfSoftwareItSaysNothing) {
    auto report = equal_cluster(6);
    report.results[4].both = gbps_of(4);
    for (measure::Node& node : report.nodes) {
        node.rails[0].software = true;
    }
    EXPECT_TRUE(judge(report, {}).faults.empty());
}

TEST(PairsJudge, NotesTheCliquesOfNvlink) {
    const auto with_cliques = [](const std::string& of_nodes) {
        auto report = measured_cluster(static_cast<unsigned>(of_nodes.size()), 1, all_good);
        for (std::size_t node = 0; node < of_nodes.size(); ++node) {
            auto& clique = report.nodes[node].clique;
            if (of_nodes[node] != '-') {
                clique = std::string("clique ") + of_nodes[node] + " of NVLink domain 5a01";
            }
        }
        EXPECT_EQ(judge(report, {}).exit_code, 0);
        return all_texts(judge(report, {}));
    };
    EXPECT_EQ(with_cliques("-----"), "");
    EXPECT_EQ(with_cliques("11111"), "NVLink connects nodes in 1 clique of 5 nodes\n");
    EXPECT_EQ(with_cliques("12123"),
              "NVLink connects nodes in 2 cliques of 2 nodes; of another size: clique 3 of NVLink "
              "domain 5a01 with n004 (sbatch --segment asks for equal ones)\n");
    EXPECT_EQ(
        with_cliques(std::string(16, '1') + "23456-"),
        "NVLink connects nodes in 1 clique of 16 nodes; of another size: clique 2 of NVLink domain 5a01 with n016, "
        "clique 3 of NVLink domain 5a01 with n017, clique 4 of NVLink domain 5a01 with n018 and 2 more (sbatch "
        "--segment asks for equal ones); none is known of n021 (there, rdma-nccl check tells why)\n");
    EXPECT_EQ(with_cliques("23123133"), "NVLink connects nodes in 2 cliques of 2 nodes; of another size: clique 3 of "
                                        "NVLink domain 5a01 with n[001,004,006-007] (sbatch --segment asks for equal "
                                        "ones)\n")
        << "in a tie, the size of the first node's";
    EXPECT_EQ(with_cliques("123--"), "") << "none reaches another node";
    EXPECT_EQ(with_cliques("-1221"), "NVLink connects nodes in 2 cliques of 2 nodes; none is known of n000 (there, "
                                     "rdma-nccl check tells why)\n");
}

TEST(PairsJudge, NotesCrossedRails) {
    auto report = measured_cluster(4, 2, all_good);
    for (auto& node : report.nodes) {
        node.rails[0].network = "10.1.0.0/16";
        node.rails[1].network = "10.2.0.0/16";
    }
    EXPECT_EQ(all_texts(judge(report, {})), "");
    std::swap(report.nodes[2].rails[0].network, report.nodes[2].rails[1].network);
    EXPECT_EQ(all_texts(judge(report, {})),
              "n002: mlx5_0:1 in 10.2.0.0/16, mlx5_1:1 in 10.1.0.0/16; 3 nodes have these networks in another order, "
              "so NCCL may connect HCAs of different rails: are cables or addresses swapped?\n");
    EXPECT_EQ(judge(report, {}).exit_code, 0);
    report.nodes[2].rails[1].network.clear();
    report.nodes[1].rails[0].network.clear();
    EXPECT_EQ(all_texts(judge(report, {})), "") << "of two nodes a port has no address";
}

TEST(PairsJudge, CountsCrossedRailsOfMoreThanThreeOrders) {
    auto report = measured_cluster(12, 3, all_good);
    std::vector<std::string> networks{"10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16"};
    for (unsigned node = 0; node < report.nodes.size(); ++node) {
        for (unsigned rail = 0; rail < 3; ++rail) {
            report.nodes[node].rails[rail].network = networks[rail];
        }
        if (node >= 6) { // the first seven are alike
            std::ranges::next_permutation(networks);
        }
    }
    const auto notes = judge(report, {}).notes;
    ASSERT_EQ(notes.size(), 4U) << all_texts(judge(report, {}));
    EXPECT_EQ(notes[3], "2 more groups of nodes: networks in another order, too");
    report.nodes[11].rails = report.nodes[10].rails = report.nodes[0].rails;
    EXPECT_EQ(judge(report, {}).notes.size(), 3U) << all_texts(judge(report, {}));
}

TEST(PairsJudge, LooksForNoCliqueOfANodeThatTakesNoPart) {
    auto report = idle_cluster(3, 1);
    report.nodes[0].clique = report.nodes[1].clique = "clique 1 of NVLink domain 5a01";
    report.nodes[2].problem = "it has not answered";
    EXPECT_TRUE(contains(all_texts(judge(report, {})), "NVLink connects nodes in 1 clique of 2 nodes\n"));
}

TEST(PairsJudge, OfOneNodeNotesNoClique) {
    auto report = idle_cluster(1, 1);
    report.nodes[0].clique = "clique 1 of NVLink domain 5a01";
    EXPECT_EQ(all_texts(judge(report, {})), "");
}

TEST(PairsJudgeCounters, MoreThanWasSentIsNoted) {
    auto report = equal_cluster(4);
    const auto told = [&](double share, unsigned mtu) {
        report.results[0].path_mtu = mtu;
        report.results[0].forward->counted_share = share;
        const auto notes = judge(report, {}).notes;
        return std::any_of(notes.begin(), notes.end(), [](const std::string& note) {
            return note.find("in 1 directions, the port counted more than") != std::string::npos;
        });
    };
    EXPECT_FALSE(told(1.09, 4096));
    EXPECT_TRUE(told(1.12, 4096));
    EXPECT_FALSE(told(1.3, 256)) << "headers";
    EXPECT_TRUE(told(1.4, 256));
    for (measure::Node& node : report.nodes) {
        node.rails[0].software = true;
    }
    EXPECT_FALSE(told(1.4, 4096));
}

} // namespace
} // namespace rdma_nccl::pairs
