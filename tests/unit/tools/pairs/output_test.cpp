// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"
#include "tests/unit/pairs_report.h"
#include "tools/measure/rails.h"
#include "tools/pairs/output.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace rdma_nccl::pairs {
namespace {

Report two_nodes() {
    return test::all_pairs_report(2, [](unsigned from, unsigned) { return from == 0 ? 388.0 : 380.0; });
}

TEST(PairsOutput, JsonHasAll) {
    auto report = two_nodes();
    report.results[0].notes = {"a note"};
    report.results[0].fault_of = 1;
    auto verdict = test::plain_verdict(report, 384, 1);
    verdict.suspects = {1};
    verdict.faults = {{FaultKind::Rail, {1}, 0, "n02 mlx5_1:1 is slow"}};
    const auto json = format_json(report, verdict);
    EXPECT_EQ(json.at("schema"), 1);
    EXPECT_EQ(json.at("measure").at("message_size"), 1 << 20);
    EXPECT_EQ(json.at("judgement").at("verdict"), "slow");
    EXPECT_EQ(json.at("judgement").at("suspects_hostlist"), "n02");
    EXPECT_EQ(json.at("judgement").at("faults")[0].at("kind"), "rail");
    EXPECT_EQ(json.at("judgement").at("faults")[0].at("rail"), 0);
    EXPECT_EQ(json.at("nodes")[1].at("rails")[0].at("port"), "mlx5_1:1");
    const auto& result = json.at("results")[0];
    EXPECT_EQ(result.at("a").at("node"), "n01");
    EXPECT_EQ(result.at("b").at("port"), "mlx5_1:1");
    EXPECT_EQ(result.at("forward").at("gbps"), 388.0);
    EXPECT_EQ(result.at("forward").at("counted_share"), 1.01);
    EXPECT_TRUE(result.at("forward").at("tcp_gbps").is_null());
    EXPECT_EQ(result.at("latency").at("p999_us"), 3.4);
    EXPECT_EQ(result.at("fault_of"), "n02");
    EXPECT_EQ(result.at("notes")[0], "a note");
}

TEST(PairsOutput, JsonOfNothing) {
    const auto json = format_json({}, {});
    EXPECT_TRUE(json.at("results").empty());
    EXPECT_TRUE(json.at("judgement").at("median_gbps").is_null());
}

TEST(PairsOutput, JsonOfWhatIsNoUtf8) {
    auto report = two_nodes();
    report.nodes[0].name = "\xff";
    report.results[0].problem = "\xfe";
    EXPECT_NO_THROW((void)format_json(report, test::plain_verdict(report, 384)).dump());
}

TEST(PairsOutput, CsvHasALineForEachDirection) {
    auto report = two_nodes();
    report.results[0].problem = "a \"problem\", indeed";
    report.results[0].notes = {"one", "two"};
    EXPECT_EQ(format_csv(report, test::plain_verdict(report, 384)),
              "round,retest,from,from_port,to,to_port,direction,state,gbps,bytes,counted_share,tcp_gbps,latency_min_us,"
              "latency_median_us,latency_p99_us,path_mtu,data_correct,problem,notes\r\n"
              "0,no,n01,mlx5_1:1,n02,mlx5_1:1,one way,good,388,107374182400,1.01,,1.9,2.1,2.6,4096,yes,"
              "\"a \"\"problem\"\", indeed\",one; two\r\n"
              "0,no,n02,mlx5_1:1,n01,mlx5_1:1,one way,good,380,107374182400,1.02,,1.9,2.1,2.6,4096,yes,"
              "\"a \"\"problem\"\", indeed\",one; two\r\n"
              "0,no,n01,mlx5_1:1,n02,mlx5_1:1,both ways,good,768,214748364800,1.01,,1.9,2.1,2.6,4096,yes,"
              "\"a \"\"problem\"\", indeed\",one; two\r\n");
}

TEST(PairsOutput, CsvHoldsNoFormulas) {
    auto report = two_nodes();
    report.nodes[0].name = "=cmd()";
    EXPECT_NE(format_csv(report, test::plain_verdict(report, 384)).find("\r\n0,no,'=cmd(),"), std::string::npos);
}

TEST(PairsOutput, CsvOfALoopbackHasOneLine) {
    auto report = two_nodes();
    report.results[0].pairing = {1, 1, 0, 0};
    report.results[0].both.reset();
    const auto text = format_csv(report, test::plain_verdict(report, 384));
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
    EXPECT_NE(text.find("n02,mlx5_1:1,n02,mlx5_1:1,loopback"), std::string::npos);
}

TEST(PairsNode, ComesBackFromItsJson) {
    auto node = test::node_with_rails(3, 2);
    node.rails[1].numa_node = 1;
    node.rails[1].software = true;
    node.rails[0].ethernet = false;
    node.clique = "clique 7 of NVLink domain 5a01";
    const auto read = measure::parse_node(written(node));
    ASSERT_TRUE(read);
    EXPECT_EQ(*read, node);
}

TEST(PairsNode, WhatIsNoneIsRefused) {
    for (const auto& wrong : {Json(), Json(5), Json::object(), Json{{"name", 5}, {"problem", ""}, {"rails", nullptr}},
                              Json{{"name", "n"}, {"problem", ""}, {"rails", Json::array({1})}}}) {
        EXPECT_FALSE(measure::parse_node(wrong)) << wrong;
    }
}

TEST(PairsNode, HasTheUsedPortsWithTheirAddress) {
    Fabric fabric;
    Hca hca;
    hca.name = "mlx5_1";
    hca.driver = "mlx5_core";
    hca.pci = "0000:56:00.0";
    hca.numa_node = 1;
    Port port;
    port.link_layer = LinkLayer::Ethernet;
    port.rate_gbps = 200;
    Gid gid;
    gid.index = 3;
    gid.value = *IpAddress::parse("25.11.128.2");
    gid.netdev = "eth1";
    port.gids = {gid};
    hca.ports = {port};
    fabric.hcas = {hca};
    Netdev netdev;
    netdev.name = "eth1";
    netdev.mtu = 9000;
    netdev.addresses = {{*IpAddress::parse("10.0.0.9"), 24}, {*IpAddress::parse("25.11.128.2"), 27}};
    fabric.netdevs = {netdev};
    FabricChoice choice;
    PortChoice used;
    used.hca = "mlx5_1";
    used.gid_index = 3;
    choice.ports = {used};
    const auto node = measure::inspect_rails(fabric, choice, "n01");
    ASSERT_EQ(node.rails.size(), 1U);
    const auto& rail = node.rails[0];
    EXPECT_EQ(rail.gid, "::ffff:25.11.128.2");
    EXPECT_EQ(rail.gid_index, 3U);
    EXPECT_EQ(rail.network, "25.11.128.0/27") << "the GID's";
    EXPECT_EQ(rail.address, "25.11.128.2");
    EXPECT_EQ(rail.netdev_mtu, 9000U);
    EXPECT_EQ(rail.rate_gbps, 200);
    EXPECT_EQ(rail.numa_node, 1);
    EXPECT_FALSE(rail.software);
    EXPECT_EQ(node.problem, "");
    hca.name = "mlx5_2";
    hca.pci = "0000:1b:00.0";
    fabric.hcas.push_back(hca);
    used.hca = "mlx5_2";
    choice.ports.push_back(used);
    const auto two = measure::inspect_rails(fabric, choice, "n01");
    ASSERT_EQ(two.rails.size(), 2U);
    EXPECT_EQ(two.rails[0].hca, "mlx5_2") << "in the order of NCCL";
    EXPECT_EQ(measure::inspect_rails({}, {}, "n02").problem, "no RDMA device");
}

} // namespace
} // namespace rdma_nccl::pairs
