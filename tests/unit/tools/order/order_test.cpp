// SPDX-License-Identifier: Apache-2.0
#include "tools/order/order.h"

#include "lib/base/text.h"
#include "tests/unit/pairs_cluster.h"
#include "tests/unit/tree.h"
#include "tools/common/command_line.h"
#include "tools/pairs/output.h"

#include <cstdio>
#include <gtest/gtest.h>

namespace rdma_nccl::order {
namespace {

constexpr std::string_view tree = "SwitchName=l1 Level=0 LinkSpeed=1 Nodes=n[1,3]\n"
                                  "SwitchName=l2 Level=0 LinkSpeed=1 Nodes=n[2,4]\n"
                                  "SwitchName=spine Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=l[1-2]\n";

Report of_tree(const std::string& hostlist, std::vector<unsigned> tasks) {
    auto nodes = expand_hostlist(hostlist).value();
    auto places = places_by_topology(tree, nodes);
    return order_nodes(std::move(nodes), std::move(tasks), "scontrol show topology", std::move(places));
}

TEST(OrderCommand, ListsTheTasksOfNodesThatShareASwitchTogether) {
    const auto report = of_tree("n[1-4]", {2, 1, 1, 2});
    EXPECT_EQ(host_lines(report), "n1\nn1\nn3\nn2\nn4\nn4\n");
    EXPECT_EQ(summary(report),
              "4 nodes, scontrol show topology: a ring of nodes leaves its switches or blocks 2 times, not 4");
}

TEST(OrderCommand, LeavesAnOrderThatIsAsGood) {
    EXPECT_EQ(summary(of_tree("n[1,3,2,4]", {1, 1, 1, 1})),
              "4 nodes, scontrol show topology: the nodes of each switch or block are together in the order given");
}

TEST(OrderCommand, NamesNodesThatTheTopologyLacks) {
    const auto report = of_tree("n[1-6]", {1, 1, 1, 1, 1, 1});
    EXPECT_EQ(host_lines(report), "n1\nn3\nn2\nn4\nn5\nn6\n");
    EXPECT_NE(summary(report).find("; it does not have n[5-6]"), std::string::npos) << summary(report);
}

TEST(OrderCommand, ListsAllNodesWithoutATopologyToo) {
    for (Result<NetworkPlaces> places :
         {Result<NetworkPlaces>(fail("it names no switch or block")), Result<NetworkPlaces>(NetworkPlaces(2))}) {
        const auto report = order_nodes({"n2", "n1"}, {1, 2}, "topology.txt", places);
        EXPECT_EQ(host_lines(report), "n2\nn1\nn1\n");
        EXPECT_NE(report.problem, "");
        EXPECT_EQ(summary(report), "2 nodes, topology.txt: the order stays as given: " + report.problem);
        EXPECT_EQ(format_json(report)["problem"], Json(report.problem));
    }
}

TEST(OrderCommand, JsonHasTheOrderAndItsGain) {
    const auto json = format_json(of_tree("n[1-4]", {2, 1, 1, 2}));
    EXPECT_EQ(json["schema"], Json(1));
    EXPECT_EQ(json["nodes"][1],
              (Json{{"name", "n3"}, {"groups", std::vector<std::string>{"spine", "l1"}}, {"tasks", 1}}));
    EXPECT_EQ(json["crossings_before"].dump(), "[0,4]");
    EXPECT_EQ(json["crossings"].dump(), "[0,2]");
}

Json result(const char* a, const char* b, Json latency) {
    return {{"a", {{"node", a}}}, {"b", {{"node", b}}}, {"latency", std::move(latency)}};
}

TEST(OrderCommand, ReadsTheLeastLatencyOfTwoNodesFromPairs) {
    const std::vector<std::string> nodes{"n1", "n2", "n3"};
    const Json report{
        {"results", Json::array({result("n1", "n2", {{"min_us", 1.5}}), result("n2", "n1", {{"min_us", 1.25}}),
                                 result("n1", "n2", {{"min_us", 1.75}}), result("n1", "n1", {{"min_us", 0.5}}),
                                 result("n1", "n3", nullptr), result("n1", "n3", {{"min_us", 0}}),
                                 result("n3", "n9", {{"min_us", 1}})})}};
    const auto latencies = latencies_between(nodes, report).value();
    ASSERT_EQ(latencies.size(), 1U);
    EXPECT_EQ(latencies[0].a, 0U);
    EXPECT_EQ(latencies[0].b, 1U);
    EXPECT_EQ(latencies[0].us, 1.25);
}

TEST(OrderCommand, RefusesWhatIsNoReportOfPairs) {
    const std::vector<std::string> nodes{"n1", "n2"};
    for (const auto& other : {Json(), Json(1), Json{{"results", 1}}, Json{{"results", Json::array({1})}},
                              Json{{"results", Json::array({result("n1", "n2", {{"min_us", "1"}})})}}}) {
        EXPECT_FALSE(latencies_between(nodes, other)) << other.dump();
    }
}

/// The nodes with even numbers are on one switch, those with odd ones on another.
TEST(OrderCommand, FindsTheTwoSwitchesInAReportOfPairs) {
    auto pairs_report = test::measured_cluster(8, 1, [](auto...) { return 388.0; });
    for (auto& result : pairs_report.results) {
        result.latency = test::latency_of(result.pairing.a % 2 == result.pairing.b % 2 ? 1.6 : 2.2);
    }
    test::Tree files;
    files.file("/pairs.json", pairs::format_json(pairs_report, pairs::judge(pairs_report, {})).dump(2));
    CommandLine line("");
    int code = -1;
    add_order_command(line.command(), code);
    std::vector<std::string> words{"rdma-nccl", "order", "--pairs", files.at("/pairs.json"), "n00[0-7]"};
    std::vector<char*> arguments;
    for (auto& word : words) {
        arguments.push_back(word.data());
    }
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    (void)line.run(static_cast<int>(arguments.size()), arguments.data());
    (void)std::fflush(stdout);
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "n000\nn002\nn004\nn006\nn001\nn003\nn005\nn007\n");
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "rdma-nccl: order: 8 nodes, pairs.json: a ring of nodes leaves its switches or blocks 2 times, not 8\n");
    EXPECT_EQ(code, 0);
}

} // namespace
} // namespace rdma_nccl::order
