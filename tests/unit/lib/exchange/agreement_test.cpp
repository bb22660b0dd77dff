// SPDX-License-Identifier: Apache-2.0
#include "lib/exchange/agreement.h"
#include "lib/exchange/protocol.h"

#include "tests/unit/exchange_nodes.h"

#include <cerrno>
#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

using test::fabric_address;
using test::fabric_report;
using test::ip;
using test::plain_report;
using test::roce_port;
using Reports = std::vector<NodeReport>;
using Texts = std::vector<std::string>;

Reports fabric_reports(unsigned count) {
    Reports reports;
    for (unsigned i = 0; i < count; ++i) {
        reports.push_back(fabric_report(i));
    }
    return reports;
}

Texts lines(const std::vector<Finding>& findings) {
    Texts result;
    for (const auto& finding : findings) {
        result.push_back(finding.line());
    }
    return result;
}

Texts texts(const std::vector<HeadCandidate>& candidates) {
    Texts result;
    for (const auto& candidate : candidates) {
        result.push_back(candidate.address.text() + " " + candidate.why);
    }
    return result;
}

// --- Which node a report is of ---

NodeReport report_of(std::string node, unsigned tasks, std::uint32_t first_task) {
    NodeReport report;
    report.node = std::move(node);
    report.tasks = tasks;
    report.first_task = first_task;
    return report;
}

TEST(ExchangeExpected, ByNameAndTasks) {
    const std::vector<ExpectedNode> expected = {{"n01", 2, 0, 0, 0}, {"n02", 2, 2, 2, 0}, {"n03", 1, 4, 4, 0}};
    const std::vector<bool> none(3, false);
    EXPECT_EQ(find_expected(expected, none, report_of("n02", 2, 2)), 1U);
    EXPECT_EQ(find_expected(expected, none, report_of("n03", 1, 4)), 2U);
}

TEST(ExchangeExpected, ByTasksWhereNamesDiffer) {
    const std::vector<ExpectedNode> expected = {{"n01", 2, 0, 0, 0}, {"n02", 2, 2, 2, 0}};
    EXPECT_EQ(find_expected(expected, {false, false}, report_of("n02.cluster", 2, 2)), 1U);
    EXPECT_EQ(find_expected(expected, {false, true}, report_of("n02.cluster", 2, 2)), std::nullopt);
    EXPECT_EQ(find_expected(expected, {false, false}, report_of("n02.cluster", 3, 2)), std::nullopt);
    EXPECT_EQ(find_expected(expected, {false, false}, report_of("n02.cluster", 2, 1)), std::nullopt);
}

TEST(ExchangeExpected, ByNameWhereTasksDiffer) {
    const std::vector<ExpectedNode> expected = {{"n01", 2, 0, 0, 0}, {"n02", 2, 2, 2, 0}};
    EXPECT_EQ(find_expected(expected, {false, false}, report_of("n02", 7, 9)), 1U);
    EXPECT_EQ(find_expected(expected, {false, true}, report_of("n02", 7, 9)), std::nullopt);
}

// In a heterogeneous step each component counts its tasks from 0 on, and a node may be part of two.
TEST(ExchangeExpected, OfHeterogeneousSteps) {
    const std::vector<ExpectedNode> expected = {
        {"n01", 2, 0, 0, 0}, {"n02", 2, 2, 2, 0}, {"n01", 2, 0, 4, 1}, {"n03", 2, 2, 6, 1}};
    EXPECT_EQ(find_expected(expected, {false, false, false, false}, report_of("n03", 2, 2)), 3U);
    EXPECT_EQ(find_expected(expected, {false, false, false, false}, report_of("n01", 2, 0)), 0U);
    EXPECT_EQ(find_expected(expected, {true, false, false, false}, report_of("n01", 2, 0)), 2U);
    // Two have these tasks, and none this name: nobody can tell.
    EXPECT_EQ(find_expected(expected, {false, false, false, false}, report_of("other", 2, 2)), std::nullopt);
    EXPECT_EQ(find_expected(expected, {false, true, false, false}, report_of("other", 2, 2)), 3U);
}

TEST(ExchangeExpected, NothingWhereNothingIsExpected) {
    EXPECT_EQ(find_expected({}, {}, report_of("n01", 1, 0)), std::nullopt);
}

// --- Which addresses of the head to try ---

TEST(ExchangeCandidates, AGivenHeadIsTheOnlyOne) {
    auto reports = fabric_reports(2);
    reports[0].plan_head = ip("192.168.0.1");
    reports[0].plan_head_is_given = true;
    reports[0].plan_head_why = "head=n01-ib";
    EXPECT_EQ(texts(find_candidates(reports, {}, ip("10.9.0.1"))), (Texts{"192.168.0.1 head=n01-ib"}));
}

// MASTER_ADDR=n01 of a user: only the user's program resolves it.
TEST(ExchangeCandidates, AGivenNameLeavesNothingToTry) {
    auto reports = fabric_reports(2);
    reports[0].plan_head = std::nullopt;
    reports[0].plan_head_is_given = true;
    EXPECT_EQ(texts(find_candidates(reports, {}, ip("10.9.0.1"))), Texts());
}

TEST(ExchangeCandidates, NetNamesTheInterface) {
    auto reports = fabric_reports(2);
    reports[0].addresses.push_back({"ib0", ip("10.5.0.1", 16), false});
    reports[0].addresses.push_back({"ib0", ip("fd05::1", 64), false});
    Settings settings;
    settings.net.interface = "ib0";
    EXPECT_EQ(texts(find_candidates(reports, settings, std::nullopt)), (Texts{"10.5.0.1 net=ib0", "fd05::1 net=ib0"}));
    settings.net.interface = "ib1";
    EXPECT_EQ(texts(find_candidates(reports, settings, ip("10.9.0.1"))), (Texts{"10.9.0.1 its address in Slurm"}));
}

TEST(ExchangeCandidates, NetNamesTheNetwork) {
    auto reports = fabric_reports(2);
    Settings settings;
    settings.net.prefix = IpPrefix::parse("10.2.0.0/16");
    EXPECT_EQ(texts(find_candidates(reports, settings, std::nullopt)), (Texts{"10.2.0.1 net=10.2.0.0/16"}));
}

TEST(ExchangeCandidates, TheFabricFirstThenSlurmThenThePlan) {
    auto reports = fabric_reports(2);
    reports[0].plan_head = ip("192.168.0.1");
    reports[0].plan_head_why = "n01 resolved";
    EXPECT_EQ(texts(find_candidates(reports, {}, ip("10.9.0.1"))),
              (Texts{"10.1.0.1 on the fabric (eth0)", "10.2.0.1 on the fabric (eth1)", "10.9.0.1 its address in Slurm",
                     "192.168.0.1 n01 resolved"}));
}

TEST(ExchangeCandidates, ANetworkOfAllNodesComesBeforeOthers) {
    auto reports = fabric_reports(3);
    reports[2].addresses[0].address = ip("10.77.0.3", 24); // not on the head's first network
    EXPECT_EQ(texts(find_candidates(reports, {}, std::nullopt)),
              (Texts{"10.2.0.1 on the fabric (eth1)", "10.1.0.1 on the fabric (eth0)"}));
    // The other side's interface need not be of the fabric.
    reports[2].addresses[0] = {"br0", ip("10.1.0.3", 24), false};
    EXPECT_EQ(texts(find_candidates(reports, {}, std::nullopt)).front(), "10.1.0.1 on the fabric (eth0)");
}

TEST(ExchangeCandidates, AtMostFourAndEachOnce) {
    auto reports = fabric_reports(2);
    for (unsigned i = 0; i < 6; ++i) {
        reports[0].addresses.push_back(fabric_address("eth9", ip("10.9.0." + std::to_string(i + 1), 24)));
    }
    reports[0].plan_head = ip("10.9.0.2");
    EXPECT_EQ(find_candidates(reports, {}, ip("10.9.0.1")).size(), 4U);
    reports[0].plan_head = ip("10.1.0.1");
    EXPECT_EQ(texts(find_candidates(reports, {}, ip("10.2.0.1"))),
              (Texts{"10.1.0.1 on the fabric (eth0)", "10.2.0.1 on the fabric (eth1)"}));
    Settings settings;
    settings.net.interface = "eth9";
    EXPECT_EQ(find_candidates(reports, settings, std::nullopt).size(), 4U);
}

TEST(ExchangeCandidates, WithoutAFabricSlurmsAddress) {
    const Reports reports = {plain_report(0), plain_report(1)};
    EXPECT_EQ(texts(find_candidates(reports, {}, ip("10.9.0.1"))), (Texts{"10.9.0.1 its address in Slurm"}));
    EXPECT_EQ(texts(find_candidates(reports, {}, ip("127.0.0.1"))), Texts());
    EXPECT_EQ(texts(find_candidates(reports, {}, std::nullopt)), Texts());
}

TEST(ExchangeCandidates, BesideTheFabricLast) {
    auto reports = fabric_reports(2);
    reports[0].addresses.push_back({"eno1", ip("192.168.0.1", 24), false});
    EXPECT_EQ(texts(find_candidates(reports, {}, ip("10.9.0.1"))),
              (Texts{"10.1.0.1 on the fabric (eth0)", "10.2.0.1 on the fabric (eth1)", "10.9.0.1 its address in Slurm",
                     "192.168.0.1 its address on eno1"}));
}

TEST(ExchangeCandidates, Ipv6) {
    Reports reports = {plain_report(0), plain_report(1)};
    for (unsigned i = 0; i < 2; ++i) {
        const std::string host = std::to_string(i + 1);
        reports[i].addresses = {fabric_address("eth0", ip("fd01::" + host, 64)),
                                fabric_address("eth1", ip("fd02:" + host + "::1", 32 + 16 * i))};
    }
    EXPECT_EQ(
        texts(find_candidates(reports, {}, ip("fd09::1"))),
        (Texts{"fd01::1 on the fabric (eth0)", "fd02:1::1 on the fabric (eth1)", "fd09::1 its address in Slurm"}));
}

// --- Who reaches which ---

class ExchangeReachVerdict : public testing::Test {
protected:
    [[nodiscard]] HeadVerdict judge(const std::vector<ReachResult>& results) const {
        return judge_reach(candidates_, reports_, results);
    }

    Reports reports_ = fabric_reports(4);
    std::vector<HeadCandidate> candidates_ = {{ip("10.1.0.1"), "on the fabric (eth0)"},
                                              {ip("10.2.0.1"), "on the fabric (eth1)"},
                                              {ip("10.9.0.1"), "its address in Slurm"}};
};

TEST_F(ExchangeReachVerdict, AllReachTheFirst) {
    const auto verdict = judge({{}, {0, 0, 0}, {0, ETIMEDOUT, 0}, {0, 0, ECONNREFUSED}});
    EXPECT_EQ(verdict.chosen, candidates_[0]);
    EXPECT_TRUE(verdict.findings.empty());
}

TEST_F(ExchangeReachVerdict, WhoCannotIsNamedAndTheNextIsTaken) {
    const auto verdict = judge({{}, {0, 0, 0}, {0, 0, 0}, {EHOSTUNREACH, 0, 0}});
    EXPECT_EQ(verdict.chosen, candidates_[1]);
    EXPECT_EQ(lines(verdict.findings),
              (Texts{"n04: cannot connect to 10.1.0.1 of n01, on the fabric (eth0): No route to host; MASTER_ADDR is "
                     "10.2.0.1"}));
    EXPECT_TRUE(verdict.findings[0].fault);
}

TEST_F(ExchangeReachVerdict, NodesWithTheSameErrorAreToldTogether) {
    const auto verdict = judge({{}, {ETIMEDOUT, ETIMEDOUT, 0}, {ETIMEDOUT, ECONNREFUSED, 0}, {0, ECONNREFUSED, 0}});
    EXPECT_EQ(verdict.chosen, candidates_[2]);
    // Of the second, which nobody reached, there is nothing to tell.
    EXPECT_EQ(lines(verdict.findings),
              (Texts{"n[02-03]: cannot connect to 10.1.0.1 of n01, on the fabric (eth0): Connection timed out; "
                     "MASTER_ADDR is 10.9.0.1"}));
}

TEST_F(ExchangeReachVerdict, WhatNobodyReachesIsNoFault) {
    const auto verdict =
        judge({{}, {ETIMEDOUT, EHOSTUNREACH, 0}, {ETIMEDOUT, ETIMEDOUT, 0}, {ETIMEDOUT, ETIMEDOUT, 0}});
    EXPECT_EQ(verdict.chosen, candidates_[2]);
    EXPECT_TRUE(verdict.findings.empty());
}

TEST_F(ExchangeReachVerdict, NobodyReachesAnything) {
    const ReachResult none = {ETIMEDOUT, ETIMEDOUT, ETIMEDOUT};
    const auto verdict = judge({{}, none, none, none});
    EXPECT_EQ(verdict.chosen, candidates_[0]);
    EXPECT_EQ(lines(verdict.findings),
              (Texts{"n[02-04]: cannot connect to 10.1.0.1 of n01, on the fabric (eth0): Connection timed out; "
                     "MASTER_ADDR stays 10.1.0.1, because no address is reached by all nodes: check routes and "
                     "firewalls, or set net= or head="}));
}

TEST_F(ExchangeReachVerdict, OfSeveralThatNotAllReachTheOneThatMostDo) {
    const auto verdict = judge({{}, {0, 0, ETIMEDOUT}, {ETIMEDOUT, 0, 0}, {ETIMEDOUT, ETIMEDOUT, 0}});
    EXPECT_EQ(verdict.chosen, candidates_[1]); // two of the others, as the third; the first of them
    EXPECT_EQ(lines(verdict.findings),
              (Texts{"n[03-04]: cannot connect to 10.1.0.1 of n01, on the fabric (eth0): Connection timed out; "
                     "MASTER_ADDR is 10.2.0.1",
                     "n04: cannot connect to 10.2.0.1 of n01, on the fabric (eth1): Connection timed out; MASTER_ADDR "
                     "stays 10.2.0.1, because no address is reached by all nodes: check routes and firewalls, or "
                     "set net= or head="}));
}

TEST_F(ExchangeReachVerdict, NoCandidatesNoTests) {
    EXPECT_FALSE(judge_reach({}, reports_, std::vector<ReachResult>(4)).chosen);
    const auto untested = judge(std::vector<ReachResult>(4));
    EXPECT_EQ(untested.chosen, candidates_[0]);
    EXPECT_TRUE(untested.findings.empty());
}

// --- In what they differ ---

TEST(ExchangeDifferences, EqualNodesSayNothing) {
    EXPECT_EQ(lines(find_differences(fabric_reports(5))), Texts());
    EXPECT_EQ(lines(find_differences(fabric_reports(1))), Texts());
    EXPECT_EQ(lines(find_differences(Reports{plain_report(0), plain_report(1)})), Texts());
}

TEST(ExchangeDifferences, TheMajorityIsTheUsual) {
    auto reports = fabric_reports(5);
    reports[0].ports[1].mtu = 1500; // an exception, though the first
    for (const unsigned i : {1U, 3U}) {
        reports[i].memlock_kib = 64;
    }
    EXPECT_EQ(lines(find_differences(reports)),
              (Texts{"n01: MTU 1500, MTU 9000; 4 nodes have MTU 9000",
                     "n[02,04]: locked memory limited to 64 KiB; 3 nodes have locked memory unlimited"}));
}

TEST(ExchangeDifferences, FailoverIsForAllNodesOrForNone) {
    auto reports = fabric_reports(3);
    reports[0].failover = reports[1].failover = "1";
    const auto findings = find_differences(reports);
    EXPECT_EQ(lines(findings), Texts{"n03: NCCL_IB_RESILIENCY_PORT_FAILOVER=0; 2 nodes have "
                                     "NCCL_IB_RESILIENCY_PORT_FAILOVER=1: give all nodes the same failover and "
                                     "NCCL's files"});
    EXPECT_TRUE(findings.at(0).fault);
}

TEST(ExchangeDifferences, MissingPortsAreNamed) {
    auto reports = fabric_reports(4);
    reports[2].ports.pop_back();
    reports[3].ports.pop_back();
    reports[1].ports[1].hca = "mlx5_7"; // as many: no difference in numbers
    EXPECT_EQ(lines(find_differences(reports)),
              (Texts{"n[03-04]: 1 HCA port in use (without mlx5_1:1); 2 nodes have 2 HCA ports in use"}));
    reports[3].ports[0].hca = "mlx5_9"; // has another in its place: what is missing cannot be said
    EXPECT_EQ(lines(find_differences(reports)),
              (Texts{"n04: 1 HCA port in use; 2 nodes have 2 HCA ports in use",
                     "n03: 1 HCA port in use (without mlx5_1:1); 2 nodes have 2 HCA ports in use"}));
}

TEST(ExchangeDifferences, OfTwoNodesTheFirstIsTheUsual) {
    auto reports = fabric_reports(2);
    reports[1].ports.pop_back();
    EXPECT_EQ(lines(find_differences(reports)),
              (Texts{"n02: 1 HCA port in use (without mlx5_1:1); n01 has 2 HCA ports in use"}));
    reports = fabric_reports(2);
    reports[0].ports.pop_back();
    EXPECT_EQ(lines(find_differences(reports)), (Texts{"n02: 2 HCA ports in use; n01 has 1 HCA port in use"}));
}

TEST(ExchangeDifferences, OfATieTheOneOfTheFirstNode) {
    auto reports = fabric_reports(4);
    reports[0].gpus = 4;
    reports[2].gpus = 4;
    const auto found = find_differences(reports);
    EXPECT_EQ(lines(found), (Texts{"n[02,04]: 8 GPUs; 2 nodes have 4 GPUs"}));
    EXPECT_FALSE(found[0].fault); // heterogeneous jobs are meant to be so
}

TEST(ExchangeDifferences, ThreeDifferentValues) {
    auto reports = fabric_reports(4);
    reports[2].ports[0].rate_gbps = reports[2].ports[1].rate_gbps = 400;
    reports[3].ports[0].rate_gbps = 200;
    const auto told = lines(find_differences(reports));
    EXPECT_EQ(told, (Texts{"n04: 100 Gb/s, 200 Gb/s; 2 nodes have 100 Gb/s", "n03: 400 Gb/s; 2 nodes have 100 Gb/s"}));
}

TEST(ExchangeDifferences, KindOfFabricAndOfGid) {
    auto reports = fabric_reports(3);
    for (auto& port : reports[1].ports) {
        port.link_layer = LinkLayer::InfiniBand;
        port.roce = std::nullopt;
    }
    for (auto& port : reports[2].ports) {
        port.roce = RoceVersion::V1;
        port.address = ip("fd00::1", 64);
    }
    EXPECT_EQ(lines(find_differences(reports)),
              (Texts{"n02: InfiniBand; 2 nodes have RoCE", "n03: RoCE v1 over IPv6; n01 has RoCE v2 over IPv4"}));
}

TEST(ExchangeDifferences, WhatIsUnknownIsNoDifference) {
    auto reports = fabric_reports(3);
    for (auto& port : reports[1].ports) {
        port.rate_gbps = 0;
        port.mtu = 0;
    }
    EXPECT_EQ(lines(find_differences(reports)), Texts());
    reports[2] = plain_report(2); // without ports: only their number differs
    reports[2].gpus = 8;
    EXPECT_EQ(lines(find_differences(reports)), (Texts{"n03: 0 HCA ports in use (without mlx5_0:1, mlx5_1:1); 2 nodes "
                                                       "have 2 HCA ports in use"}));
}

TEST(ExchangeDifferences, WarningsOfSeveralNodesAreToldOnce) {
    auto reports = fabric_reports(3);
    reports[0].warnings = {"second"};
    reports[1].warnings = {"first", "second"};
    reports[2].warnings = {"first", "second", "third"};
    EXPECT_EQ(lines(find_differences(reports)), (Texts{"n[01-03]: second", "n[02-03]: first", "n03: third"}));
}

// --- Ports that nobody can reach ---

TEST(ExchangeLonelyPorts, AreLeftOut) {
    auto reports = fabric_reports(3);
    reports[1].ports[1].address = ip("10.77.0.2", 24);
    std::vector<Finding> findings;
    const auto isolated = find_isolated_ports(reports, findings);
    EXPECT_EQ(isolated, (std::vector<Texts>{{}, {"mlx5_1:1"}, {}}));
    EXPECT_EQ(lines(findings),
              (Texts{"n02: mlx5_1:1 (10.77.0.0/24): no other node uses a port in that network, so it reaches none: "
                     "left out"}));
}

TEST(ExchangeLonelyPorts, ANeighbourOnAnotherRailWillDo) {
    auto reports = fabric_reports(2);
    std::swap(reports[1].ports[0].address, reports[1].ports[1].address);
    std::vector<Finding> findings;
    EXPECT_EQ(find_isolated_ports(reports, findings), std::vector<Texts>(2));
    EXPECT_TRUE(findings.empty());
}

// Each node has networks of its own, and routers between them.
TEST(ExchangeLonelyPorts, NotWhereTheNetworkIsRouted) {
    auto reports = fabric_reports(3);
    for (unsigned i = 0; i < 3; ++i) {
        for (unsigned rail = 0; rail < 2; ++rail) {
            reports[i].ports[rail].address = ip("10." + std::to_string(10 * i + rail) + ".0.1", i == 0 ? 31 : 24);
        }
    }
    std::vector<Finding> findings;
    EXPECT_EQ(find_isolated_ports(reports, findings), std::vector<Texts>(3));
    EXPECT_TRUE(findings.empty());
}

// Rails that are routed beside a network that all nodes share, as for storage: the rails stay.
TEST(ExchangeLonelyPorts, RoutedRailsBesideASharedNetwork) {
    for (const unsigned length : {31U, 26U}) {
        auto reports = fabric_reports(2);
        for (unsigned i = 0; i < 2; ++i) {
            reports[i].ports.push_back(reports[i].ports[0]); // the shared one, last
            for (unsigned rail = 0; rail < 2; ++rail) {
                reports[i].ports[rail].address = ip("10." + std::to_string(10 * i + rail) + ".0.1", length);
            }
        }
        std::vector<Finding> findings;
        EXPECT_EQ(find_isolated_ports(reports, findings), std::vector<Texts>(2)) << length;
        EXPECT_TRUE(findings.empty());
    }
}

TEST(ExchangeLonelyPorts, NotOneOfOneNodeOrWithoutAnAddress) {
    std::vector<Finding> findings;
    EXPECT_EQ(find_isolated_ports(fabric_reports(1), findings), std::vector<Texts>(1));
    auto reports = fabric_reports(2);
    reports[1].ports[1].address = std::nullopt; // InfiniBand
    EXPECT_EQ(find_isolated_ports(reports, findings), (std::vector<Texts>{{"mlx5_1:1"}, {}}));
    for (auto& report : reports) {
        report.ports[0].address = report.ports[1].address = std::nullopt;
    }
    findings.clear();
    EXPECT_EQ(find_isolated_ports(reports, findings), std::vector<Texts>(2));
    EXPECT_TRUE(findings.empty());
}

// --- Rails that are crossed ---

std::vector<Finding> crossed_rails(std::span<const NodeReport> reports) {
    return find_crossed_rails(networks_of(reports));
}

void swap_rails(NodeReport& report) {
    std::swap(report.ports[0].address, report.ports[1].address);
}

TEST(ExchangeCrossedRails, OfTheFewerNodes) {
    auto reports = fabric_reports(5);
    EXPECT_EQ(lines(crossed_rails(reports)), Texts());
    swap_rails(reports[0]);
    swap_rails(reports[3]);
    const auto findings = crossed_rails(reports);
    EXPECT_EQ(
        lines(findings),
        (Texts{"n[01,04]: mlx5_0:1 in 10.2.0.0/24, mlx5_1:1 in 10.1.0.0/24; 3 nodes have these networks in another "
               "order, so NCCL may connect HCAs of different rails: are cables or addresses swapped?"}));
    EXPECT_FALSE(findings.front().fault); // RDMA works: strict does not end the step
}

TEST(ExchangeCrossedRails, WithoutAnOrderOfMostNodes) {
    auto two = fabric_reports(2);
    swap_rails(two[0]);
    EXPECT_EQ(
        lines(crossed_rails(two)),
        (Texts{"n02: mlx5_0:1 in 10.1.0.0/24, mlx5_1:1 in 10.2.0.0/24; n01 has these networks in another order, so "
               "NCCL may connect HCAs of different rails: are cables or addresses swapped?"}));
    auto four = fabric_reports(4);
    swap_rails(four[0]);
    swap_rails(four[2]);
    EXPECT_EQ(
        lines(crossed_rails(four)),
        (Texts{"n[01-04]: their HCAs are in the same networks, in 2 orders, so NCCL may connect HCAs of different "
               "rails: are cables or addresses swapped?"}));
}

TEST(ExchangeCrossedRails, OfANodeThatLacksARail) {
    auto reports = fabric_reports(3);
    for (auto& report : reports) {
        report.ports.push_back(roce_port("mlx5_2", ip("10.3.0.1", 24)));
    }
    reports[2].ports.erase(reports[2].ports.begin());
    EXPECT_EQ(lines(crossed_rails(reports)), Texts()) << "in the order of the others";
    swap_rails(reports[2]);
    EXPECT_EQ(
        lines(crossed_rails(reports)),
        (Texts{"n03: mlx5_1:1 in 10.3.0.0/24, mlx5_2:1 in 10.2.0.0/24; 2 nodes have these networks in another order, "
               "so NCCL may connect HCAs of different rails: are cables or addresses swapped?"}));
    EXPECT_EQ(lines(crossed_rails({reports.data() + 1, 2})), Texts()) << "one node tells nothing of another";
    for (auto& report : reports) {
        report.ports.back().address = ip("10.1.0.9", 24);
    }
    reports[2].ports.front().address = ip("10.2.0.9", 24);
    EXPECT_EQ(lines(crossed_rails(reports)), Texts()) << "which of two ports in a network is lacking?";
}

TEST(ExchangeCrossedRails, ANodeInTwoComponentsCountsOnce) {
    auto reports = fabric_reports(3);
    swap_rails(reports[1]);
    reports.push_back(reports[1]);
    ASSERT_EQ(crossed_rails(reports).size(), 1U);
    EXPECT_EQ(crossed_rails(reports).front().nodes, Texts{"n02"});
}

TEST(ExchangeCrossedRails, ManyPortsAreCounted) {
    auto reports = fabric_reports(2);
    for (auto& report : reports) {
        report.ports.clear();
        for (unsigned rail = 0; rail < 6; ++rail) {
            const unsigned network = report.node == "n02" ? (rail + 1) % 6 : rail;
            report.ports.push_back(
                roce_port("mlx5_" + std::to_string(rail), ip("10." + std::to_string(network) + ".0.1", 16)));
        }
    }
    EXPECT_TRUE(crossed_rails(reports).front().text.starts_with(
        "mlx5_0:1 in 10.1.0.0/16, mlx5_1:1 in 10.2.0.0/16, mlx5_2:1 in 10.3.0.0/16, mlx5_3:1 in 10.4.0.0/16 and 2 "
        "more; n01 has"));
}

// Each half of the nodes has leaf switches, and so networks, of its own.
TEST(ExchangeCrossedRails, AmongTheNodesOfTheSameNetworks) {
    auto reports = fabric_reports(6);
    for (unsigned i = 3; i < 6; ++i) {
        reports[i].ports[0].address = ip("10.3.0." + std::to_string(i), 24);
        reports[i].ports[1].address = ip("10.4.0." + std::to_string(i), 24);
    }
    EXPECT_EQ(lines(crossed_rails(reports)), Texts());
    swap_rails(reports[5]);
    ASSERT_EQ(crossed_rails(reports).size(), 1U);
    EXPECT_TRUE(lines(crossed_rails(reports)).front().starts_with("n06: mlx5_0:1 in 10.4.0.0/24"));
}

// A pair of nodes shares both networks with each other alone, and one with all.
TEST(ExchangeCrossedRails, InOneOf5000PairsWithANetworkOfTheirOwn) {
    Reports reports;
    for (unsigned i = 0; i < 10'000; ++i) {
        const unsigned pair = i / 2;
        const auto own = "10." + std::to_string(pair / 256) + "." + std::to_string(pair % 256) + ".1";
        reports.push_back(plain_report(i));
        reports.back().ports = {roce_port("mlx5_0", ip(own, 24)), roce_port("mlx5_1", ip("10.200.0.1", 16))};
    }
    EXPECT_EQ(lines(crossed_rails(reports)), Texts());
    swap_rails(reports[9'999]);
    ASSERT_EQ(crossed_rails(reports).size(), 1U);
    EXPECT_EQ(crossed_rails(reports).front().nodes, Texts{reports[9'999].node});
}

TEST(ExchangeCrossedRails, NotWithoutNetworksNorWithOtherNames) {
    auto reports = fabric_reports(3);
    reports[1].ports[0].hca = "mlx5_6"; // numbered by another driver's HCAs
    reports[1].ports[1].hca = "mlx5_7";
    EXPECT_EQ(lines(crossed_rails(reports)), Texts());
    swap_rails(reports[2]);
    reports[2].ports.push_back({"mlx5_2", 1, LinkLayer::InfiniBand, 400, 0, {}, {}});
    EXPECT_EQ(lines(crossed_rails(reports)), Texts());
    auto unknown = fabric_reports(2); // the same ones in another order, but which ones is not known
    unknown[0].ports[0].address = std::nullopt;
    swap_rails(unknown[1]);
    unknown[1].ports[1].address = std::nullopt;
    EXPECT_EQ(lines(crossed_rails(unknown)), Texts());
}

TEST(ExchangeCrossedRails, AreToldBySrun) {
    auto reports = fabric_reports(3);
    swap_rails(reports[1]);
    Settings settings;
    settings.strict = true;
    const auto outcome = agree(reports, {}, {}, settings);
    ASSERT_EQ(outcome.findings.size(), 1U);
    EXPECT_EQ(outcome.findings.front().nodes, Texts{"n02"});
    EXPECT_EQ(outcome.agreements.front().strict_fault, std::nullopt);
}

// --- Ranks and layout ---

TEST(ExchangeRanks, AreSharedByGpus) {
    auto reports = fabric_reports(3);
    reports[0].gpus = 4;
    reports[1].gpus = 2;
    reports[2].gpus = 1;
    const std::vector<RankShare> shares = {{0, 4, 7}, {4, 2, 7}, {6, 1, 7}};
    EXPECT_EQ(share_ranks(reports, Layout::Node), shares);
    EXPECT_EQ(share_ranks(reports, Layout::Pod), shares);
    EXPECT_TRUE(share_ranks(reports, Layout::Rank).empty());
    EXPECT_TRUE(gpus_differ(reports));
    reports[1].gpus = 0;
    EXPECT_TRUE(share_ranks(reports, Layout::Node).empty());
    EXPECT_FALSE(gpus_differ(fabric_reports(3)));
}

TEST(ExchangeLayout, NodeAsSoonAsOneNodeHasIt) {
    auto reports = fabric_reports(3);
    EXPECT_EQ(common_layout(reports), Layout::Rank);
    reports[2].layout = Layout::Node;
    EXPECT_EQ(common_layout(reports), Layout::Node);
    reports[1].layout = Layout::Pod;
    EXPECT_EQ(common_layout(reports), Layout::Pod);
}

// --- The order of the nodes ---

Reports in_blocks(const Texts& blocks) {
    auto reports = fabric_reports(static_cast<unsigned>(blocks.size()));
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        reports[i].topology_address = blocks[i] + "." + reports[i].node;
        reports[i].topology_pattern = blocks[i].find('.') == std::string::npos ? "block.node" : "switch.switch.node";
        reports[i].keeps_order = "";
        reports[i].tasks = 2;
        reports[i].first_task = 2 * static_cast<unsigned>(i);
        reports[i].gpus = static_cast<unsigned>(i) + 1;
    }
    return reports;
}

const Settings by_topology = [] {
    Settings settings;
    settings.order = OrderChoice::Topology;
    return settings;
}();

TEST(ExchangeOrder, IsSlurmsUnlessItIsAskedFor) {
    EXPECT_TRUE(choose_order(in_blocks({"b1", "b2", "b1"}), {}).order.empty());
    EXPECT_EQ(choose_order(in_blocks({"b1", "b2", "b1"}), {}).why, "");
}

TEST(ExchangeOrder, HasTheNodesOfABlockInARow) {
    const auto reports = in_blocks({"b1", "b2", "b1", "b2"});
    const auto chosen = choose_order(reports, by_topology);
    EXPECT_EQ(chosen.order, (std::vector<std::size_t>{0, 2, 1, 3}));
    EXPECT_EQ(chosen.why, "a ring of nodes leaves its switches or blocks 2 times, not 4");
    const std::vector<RankShare> shares = {{0, 1, 10}, {4, 2, 10}, {1, 3, 10}, {6, 4, 10}};
    EXPECT_EQ(share_ranks(reports, Layout::Node, chosen.order), shares);
    auto settings = by_topology;
    settings.hosts = HostsChoice::File;
    const auto outcome = agree(reports, {}, std::vector<ReachResult>(4), settings);
    EXPECT_EQ(outcome.order_line, "order=topology: " + chosen.why);
    EXPECT_EQ(mapped(outcome.hosts, [](const auto& host) { return host.name; }), (Texts{"n01", "n03", "n02", "n04"}));
    const std::vector<NodeOrder> places{{0, 0}, {2, 4}, {1, 2}, {3, 6}};
    for (std::size_t i = 0; i < places.size(); ++i) {
        EXPECT_EQ(outcome.agreements[i].order, places[i]) << i;
    }
}

TEST(ExchangeOrder, StaysWhereSomethingElseNumbersTheTasks) {
    auto reports = in_blocks({"b1", "b2", "b1", "b2"});
    reports[2].keeps_order = "RANK was set before";
    EXPECT_TRUE(choose_order(reports, by_topology).order.empty());
    EXPECT_EQ(choose_order(reports, by_topology).why, "Slurm's stays: n03: RANK was set before");
    EXPECT_EQ(agree(reports, {}, std::vector<ReachResult>(4), by_topology).agreements[1].order, std::nullopt);
    reports[2].keeps_order = NodeReport().keeps_order;
    EXPECT_EQ(choose_order(reports, by_topology).why, "Slurm's stays: n03: its rdma-nccl is too old: upgrade it");
    reports[2].keeps_order = std::string(400, 'x');
    EXPECT_LE(format_text("rdma-nccl: order=topology: {}", choose_order(reports, by_topology).why).size(), 100U);
    reports[2].keeps_order = "";
    reports[2].alone = reports[0].alone = "torchrun --standalone";
    EXPECT_EQ(choose_order(reports, by_topology).why, "Slurm's stays: torchrun --standalone");
}

/// MPI numbers ranks only where these are tasks, on all nodes: a node with several GPUs may plan launchers for all.
TEST(ExchangeOrder, StaysWhereMpiNumbersTheRanks) {
    auto reports = in_blocks({"b1", "b2", "b1", "b2"});
    reports[1].mpi = "pmix";
    EXPECT_EQ(choose_order(reports, by_topology).why, "Slurm's stays: MPI (pmix) numbers the ranks: give --mpi=none");
    reports[0].layout = Layout::Node;
    EXPECT_EQ(choose_order(reports, by_topology).order, (std::vector<std::size_t>{0, 2, 1, 3}));
}

/// -m cyclic and -m plane. Where a node has one task, Slurm's own choice is called cyclic.
TEST(ExchangeOrder, StaysWhereTheTasksOfANodeAreApart) {
    auto reports = in_blocks({"b1", "b2", "b1", "b2"});
    for (unsigned i = 0; i < reports.size(); ++i) {
        reports[i].first_task = i;
    }
    EXPECT_EQ(choose_order(reports, by_topology).why,
              "Slurm's stays: a node's tasks are not in a row: give --distribution=block");
    for (auto& report : reports) {
        report.tasks = 1;
    }
    EXPECT_EQ(choose_order(reports, by_topology).order, (std::vector<std::size_t>{0, 2, 1, 3}));
}

TEST(ExchangeOrder, IsToldWhereItMattersToTheUser) {
    const auto told = [](const Texts& blocks, Settings settings) {
        return agree(in_blocks(blocks), {}, std::vector<ReachResult>(blocks.size()), settings).order_line;
    };
    auto settings = by_topology;
    EXPECT_NE(told({"b1", "b2", "b1", "b2"}, settings), "") << "RANK is not SLURM_PROCID any more";
    settings.given["order"] = {"topology", Origin::SiteFile, "/etc/rdma-nccl.conf:1"};
    EXPECT_EQ(told({"b1", "b1", "b2"}, settings), "");
    settings.verbose = 2;
    EXPECT_NE(told({"b1", "b1", "b2"}, settings), "");
    settings.verbose = 1;
    settings.given["order"].origin = Origin::Option;
    EXPECT_NE(told({"b1", "b1", "b2"}, settings), "");
    settings.order = OrderChoice::Auto;
    EXPECT_EQ(told({"b1", "b1", "b2"}, settings), "");
    EXPECT_EQ(told({"b1", "b2", "b1", "b2"}, settings),
              "order=auto: a ring of nodes leaves its switches or blocks 2 times, not 4");
    settings.verbose = 2;
    EXPECT_EQ(told({"b1", "b1", "b2"}, settings),
              "order=auto: Slurm's stays: the nodes of each switch or block are together");
    settings.order = OrderChoice::Slurm;
    EXPECT_EQ(told({"b1", "b2", "b1"}, settings), "");
}

TEST(ExchangeOrder, StaysWhereTheNodesOfABlockAreTogether) {
    const auto chosen = choose_order(in_blocks({"b1", "b1", "b2"}), by_topology);
    EXPECT_TRUE(chosen.order.empty());
    EXPECT_EQ(chosen.why, "Slurm's stays: the nodes of each switch or block are together");
    EXPECT_EQ(choose_order(in_blocks({"b1", "b2", "b2", "b1"}), by_topology).why,
              "the nodes of each switch or block are now in one row");
    EXPECT_EQ(choose_order(in_blocks({"", ""}), by_topology).why,
              "Slurm's stays: SLURM_TOPOLOGY_ADDR names no switch or block");
}

TEST(ExchangeOrder, GainsAtTheOutermostSwitches) {
    const auto chosen = choose_order(in_blocks({"s1.l1", "s2.l2", "s1.l3", "s2.l4"}), by_topology);
    EXPECT_EQ(chosen.order, (std::vector<std::size_t>{0, 2, 1, 3}));
    EXPECT_EQ(chosen.why, "a ring of nodes leaves its switches or blocks 2 times, not 4");
    EXPECT_EQ(choose_order(in_blocks({"s.l1", "s.l2", "s.l1", "s.l2"}), by_topology).why,
              "a ring of nodes leaves its switches or blocks 2 times, not 4");
}

// --- The answers ---

TEST(ExchangeAgreement, OfEqualNodes) {
    const auto reports = fabric_reports(2);
    const auto candidates = find_candidates(reports, {}, std::nullopt);
    const auto outcome = agree(reports, candidates, std::vector<ReachResult>{{}, {0, 0}}, {});
    ASSERT_EQ(outcome.agreements.size(), 2U);
    for (const auto& agreement : outcome.agreements) {
        EXPECT_EQ(agreement.head_node, "n01");
        EXPECT_EQ(agreement.head, ip("10.1.0.1"));
        EXPECT_EQ(agreement.head_why, "on the fabric (eth0)");
        EXPECT_EQ(agreement.block, reports[0].block);
        EXPECT_EQ(agreement.layout, Layout::Rank);
        EXPECT_FALSE(agreement.ranks);
        EXPECT_TRUE(agreement.left_out.empty());
        EXPECT_FALSE(agreement.strict_fault);
    }
    EXPECT_TRUE(outcome.hosts.empty());
    EXPECT_TRUE(outcome.findings.empty());
    EXPECT_EQ(outcome.summary, "rank layout, 2 tasks on 2 nodes, head n01 (10.1.0.1:29400), 2 HCA ports (mlx5_0, "
                               "mlx5_1), GID index 3");
}

TEST(ExchangeAgreement, EachNodeHasItsRanksAndItsPorts) {
    auto reports = fabric_reports(3);
    reports[0].gpus = 4;
    reports[1].gpus = 2;
    reports[2].gpus = 1;
    reports[1].layout = Layout::Node;
    reports[2].ports[0].address = ip("10.77.0.3", 24);
    Settings settings;
    settings.hosts = HostsChoice::File;
    const auto candidates = find_candidates(reports, settings, std::nullopt);
    const auto outcome = agree(reports, candidates, std::vector<ReachResult>{{}, {0, 0}, {0, 0}}, settings);
    ASSERT_EQ(outcome.agreements.size(), 3U);
    EXPECT_EQ(outcome.agreements[0].ranks, (RankShare{0, 4, 7}));
    EXPECT_EQ(outcome.agreements[1].ranks, (RankShare{4, 2, 7}));
    EXPECT_EQ(outcome.agreements[2].ranks, (RankShare{6, 1, 7}));
    EXPECT_TRUE(outcome.agreements[0].left_out.empty());
    EXPECT_EQ(outcome.agreements[2].left_out, (Texts{"mlx5_0:1"}));
    EXPECT_EQ(outcome.hosts,
              (HostsTable{{"n01", ip("10.1.0.1"), 4}, {"n02", ip("10.1.0.2"), 2}, {"n03", ip("10.1.0.3"), 1}}));
    EXPECT_EQ(outcome.summary.substr(0, 42), "node layout, 3 tasks on 3 nodes, 7 ranks, ");
}

TEST(ExchangeAgreement, TheLineSaysWhatAppliesWhereTheUserDecides) {
    auto reports = fabric_reports(2);
    reports[0].users_head = "n01-ib";
    reports[0].plan_head = std::nullopt;
    reports[0].plan_head_is_given = true;
    reports[0].fabric = "1 HCA port (mlx5_7:1) by NCCL_IB_HCA=mlx5_7, GID index per port";
    const auto outcome = agree(reports, {}, std::vector<ReachResult>(2), {});
    EXPECT_EQ(outcome.summary,
              "rank layout, 2 tasks on 2 nodes, head n01-ib:29400 (MASTER_ADDR set before), 1 HCA port "
              "(mlx5_7:1) by NCCL_IB_HCA=mlx5_7, GID index per port");
}

TEST(ExchangeAgreement, TasksThatMeetNobodyHaveNoRanksInCommon) {
    auto reports = fabric_reports(2);
    for (auto& report : reports) {
        report.layout = Layout::Node;
        report.alone = "torchrun --standalone";
    }
    reports[1].alone = ""; // it could not read the script
    const auto outcome = agree(reports, {}, std::vector<ReachResult>(2), {});
    EXPECT_FALSE(outcome.agreements[1].ranks);
    EXPECT_EQ(outcome.agreements[1].alone, "torchrun --standalone");
    EXPECT_EQ(outcome.summary, "node layout, 2 tasks on 2 nodes, each task a world of its own (torchrun --standalone), "
                               "2 HCA ports (mlx5_0, mlx5_1), GID index 3");
}

TEST(ExchangeAgreement, AFabricProfileIsOfAllNodesOrOfNone) {
    const auto outcome = [](const Texts& profiles) {
        auto reports = fabric_reports(static_cast<unsigned>(profiles.size()));
        for (std::size_t i = 0; i < profiles.size(); ++i) {
            reports[i].fabric_profile = profiles[i];
        }
        Settings settings;
        settings.strict = true;
        return agree(reports, {}, std::vector<ReachResult>(profiles.size()), settings);
    };
    const std::string usual = "5 values of oci-h100.conf:3fa9c1d2";
    const std::string none(no_fabric_profile_values);
    for (const auto& agreement : outcome({usual, usual, usual}).agreements) {
        EXPECT_TRUE(agreement.fabric_profile);
    }
    EXPECT_EQ(lines(outcome({usual, usual}).findings), Texts());
    EXPECT_EQ(lines(outcome({none, none}).findings), Texts());
    const std::string cure = ": none is set; rdma-nccl explain --set fabric_profile shows them";
    for (const auto& other : {none, std::string("5 values of oci-h100.conf:00000000")}) {
        const auto differ = outcome({usual, usual, other});
        for (const auto& agreement : differ.agreements) {
            EXPECT_FALSE(agreement.fabric_profile);
            EXPECT_FALSE(agreement.strict_fault) << "all nodes do without";
        }
        EXPECT_EQ(lines(differ.findings), Texts{"n03: " + other + "; 2 nodes have " + usual + cure});
    }
}

TEST(ExchangeAgreement, StrictNamesTheFirstFault) {
    auto reports = fabric_reports(3);
    reports[1].gpus = 4; // is told, and no fault
    Settings settings;
    settings.strict = true;
    const std::vector<HeadCandidate> candidates = {{ip("10.1.0.1"), "on the fabric (eth0)"}};
    const std::vector<ReachResult> good = {{}, {0}, {0}};
    const auto only_gpus = agree(reports, candidates, good, settings);
    EXPECT_EQ(only_gpus.findings.size(), 1U);
    EXPECT_FALSE(only_gpus.agreements[0].strict_fault);
    reports[2].memlock_kib = 64;
    for (const auto& agreement : agree(reports, candidates, good, settings).agreements) {
        EXPECT_EQ(agreement.strict_fault, "n03: locked memory limited to 64 KiB; 2 nodes have locked memory unlimited");
    }
    const std::vector<ReachResult> bad = {{}, {ECONNREFUSED}, {0}};
    EXPECT_EQ(agree(reports, candidates, bad, settings).agreements[0].strict_fault,
              "n02: cannot connect to 10.1.0.1 of n01, on the fabric (eth0): Connection refused; MASTER_ADDR "
              "stays 10.1.0.1, because there is no other: check routes and firewalls, or set net= or head=");
    settings.strict = false;
    EXPECT_FALSE(agree(reports, candidates, bad, settings).agreements[0].strict_fault);
}

TEST(ExchangeAgreement, WithoutHeadAndPort) {
    Reports reports = {plain_report(0), plain_report(1)};
    reports[0].fabric = "no HCA ports";
    Settings settings;
    settings.hosts = HostsChoice::File;
    const auto outcome = agree(reports, {}, std::vector<ReachResult>(2), settings);
    EXPECT_FALSE(outcome.agreements[0].head);
    EXPECT_FALSE(outcome.agreements[0].block);
    EXPECT_TRUE(outcome.hosts.empty()); // no node has told an address
    EXPECT_EQ(outcome.summary, "rank layout, 2 tasks on 2 nodes, head n01 (none:none), no HCA ports");
}

TEST(ExchangeAgreement, TheHostsTableHasTheHeadsNetwork) {
    auto reports = fabric_reports(2);
    reports[1].tasks = 3;
    Settings settings;
    settings.hosts = HostsChoice::Mount;
    const std::vector<HeadCandidate> candidates = {{ip("10.2.0.1"), "on the fabric (eth1)"}};
    EXPECT_EQ(agree(reports, candidates, std::vector<ReachResult>{{}, {0}}, settings).hosts,
              (HostsTable{{"n01", ip("10.2.0.1"), 1}, {"n02", ip("10.2.0.2"), 3}}));
}

} // namespace
} // namespace rdma_nccl
