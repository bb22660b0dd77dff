// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"
#include "lib/evidence/verdict.h"
#include "tests/unit/verdict_values.h"

#include <gtest/gtest.h>
#include <limits>

namespace rdma_nccl {
namespace {

using namespace test;
using Texts = std::vector<std::string>;

std::string line_of(std::vector<NodeEvidence> nodes, Texts silent = {}) {
    return verdict_line(judge_step(std::move(nodes), std::move(silent)));
}

TEST(VerdictLine, OfUsed) {
    auto one = with_queue_pairs(node(100'000'000'000, 1'000'000'000, "n1"), 8);
    one.log = connections(0, 8, 0);
    auto two = one;
    two.node = "n2";
    EXPECT_EQ(line_of({one, two}),
              "RDMA USED: 99.0 % of 202 GB between 2 nodes went over RDMA (evidence A), GPUDirect on");
    EXPECT_EQ(line_of({node(gib, 0)}), "RDMA USED: 100.0 % of 1.07 GB of n01 went over RDMA (evidence B)");
    // Never "all" where it was not.
    EXPECT_EQ(line_of({node(100'000 * mib, 2 * mib)}),
              "RDMA USED: 99.9 % of 105 GB of n01 went over RDMA (evidence B)");
    auto estimate = node(gib, 0);
    estimate.traffic.estimate = true;
    EXPECT_EQ(line_of({estimate}), "RDMA USED: about 100.0 % of 1.07 GB of n01 went over RDMA (evidence D)");
}

TEST(VerdictLine, OfMixedAndNotUsed) {
    EXPECT_EQ(line_of({node(gib, gib)}), "RDMA MIXED: 50.0 % of 2.15 GB of n01 went over RDMA (evidence B)");
    auto evidence = node(0, gib);
    evidence.causes = {"NCCL_IB_DISABLE is set"};
    EXPECT_EQ(line_of({evidence}), "RDMA NOT USED: 1.07 GB of n01 went over sockets, 0 B over RDMA (evidence B); "
                                   "NCCL_IB_DISABLE is set");
}

TEST(VerdictLine, OfIdleAndUnknown) {
    EXPECT_EQ(line_of({node(0, mib, "n1"), node(0, mib, "n2")}),
              "RDMA IDLE: too little to judge: 0 B over RDMA, 2.10 MB over sockets between 2 nodes");
    auto over_nvlink = node(0, gib);
    over_nvlink.log = connections(0, 0, 0);
    over_nvlink.log->nvlink = 8;
    EXPECT_EQ(line_of({over_nvlink}), "RDMA IDLE: 0 B over RDMA, 1.07 GB over sockets of n01; the GPUs are connected "
                                      "over NVLink: no network was needed");
    EXPECT_EQ(line_of({without_source(node(0, gib))}),
              "RDMA use UNKNOWN: no port has byte counters: siw counts no bytes");
    EXPECT_EQ(line_of({}), "RDMA use UNKNOWN: no node reported its bytes");
    EXPECT_EQ(line_of({}, {"n1"}), "RDMA use UNKNOWN: no report from n1");
}

TEST(VerdictLine, SaysByWhatWhereNoBytesWereCounted) {
    auto evidence = without_source(node(0, gib));
    evidence.log = connections(0, 8, 0);
    // Not "0 % of 1.07 GB": what went over RDMA is not known.
    EXPECT_EQ(line_of({evidence}), "RDMA USED (by NCCL's log), GPUDirect on");
    evidence.log = connections(0, 0, 8);
    EXPECT_EQ(line_of({evidence}), "RDMA NOT USED (by NCCL's log): 1.07 GB of n01 went over sockets (evidence D); "
                                   "8 connections over sockets, none over RDMA");
    evidence.log.reset();
    EXPECT_EQ(line_of({with_queue_pairs(evidence, 0)}),
              "RDMA NOT USED (by the queue pairs): 1.07 GB of n01 went over sockets (evidence D); no process of the "
              "step ever had a queue pair when checked");
}

TEST(VerdictLine, CutsManySentences) {
    StepVerdict step;
    step.why = {"1", "2", "3", "4", "5"};
    EXPECT_EQ(verdict_line(step), "RDMA use UNKNOWN: 1; 2; 3; 4; 5"); // "1 more" would not be shorter
    step.why.emplace_back("6");
    EXPECT_EQ(verdict_line(step), "RDMA use UNKNOWN: 1; 2; 3; 4; and 2 more (verify=full shows them)");
}

TEST(VerdictLine, EndsWithThePortsThatWentDownWhateverElseThereIsToSay) {
    EXPECT_EQ(
        line_of({with_link_downed(node(gib, 0), 0, 1)}),
        "RDMA USED: 100.0 % of 1.07 GB of n01 went over RDMA (evidence B); mlx5_0:1 of n01 went down 1 time during "
        "the step: look at its cable, transceiver and switch port");
    StepVerdict step;
    step.why = {"1", "2", "3", "4", "5"};
    step.lost_links = "note";
    EXPECT_EQ(verdict_line(step), "RDMA use UNKNOWN: 1; 2; 3; 4; 5; note");
    step.why.emplace_back("6");
    EXPECT_EQ(verdict_line(step), "RDMA use UNKNOWN: 1; 2; 3; 4; and 2 more (verify=full shows them); note");
    step.changed_gids = "GID";
    EXPECT_EQ(verdict_line(step), "RDMA use UNKNOWN: 1; 2; 3; 4; and 2 more (verify=full shows them); note; GID");
    step.lost_links.clear();
    EXPECT_EQ(verdict_line(step), "RDMA use UNKNOWN: 1; 2; 3; 4; and 2 more (verify=full shows them); GID");
}

TEST(VerdictTable, ShowsNodesPortsAndInterfaces) {
    auto one = with_queue_pairs(node(gib, 2 * mib, "n1"), 4);
    one.gpus = 3;
    one.rank_per_gpu = true;
    one.traffic.ports = {port("mlx5_0:1", gib), port("mlx5_1:1", 0), port("mlx5_2:1", gib), port("mlx5_9:1", 0, false)};
    one.traffic.netdevs.push_back({"eth9", NetdevRole::Plain, {1, 1, false}, {}});
    one.traffic.netdevs.push_back({"ib0", NetdevRole::Ipoib, {2 * mib, 2 * mib, false}, "its counters were reset"});
    auto two = node({gib, gib, false}, {2 * mib, 10 * gib, false}, "n2");
    two.gpus = 1;
    two.gpu_direct_possible = true;
    EXPECT_EQ(
        verdict_table(judge_step({one, two}, {})),
        (Texts{"NODE, PORT   SENT     RECEIVED  WHAT",
               "n1           1.08 GB  1.08 GB   MIXED, 99.8 % over RDMA, evidence A",
               "  mlx5_0:1   1.07 GB  1.07 GB   RDMA, port data", "  mlx5_1:1   0 B      0 B       RDMA, port data",
               "  mlx5_2:1   1.07 GB  1.07 GB   RDMA, port data", "  eth0       2.10 MB  2.10 MB   sockets",
               "  ib0        2.10 MB  2.10 MB   sockets (IP over InfiniBand): its counters were reset",
               "  why                           mlx5_1:1 stayed idle",
               "  note                          ib0: its counters were reset",
               "n2           1.08 GB  1.08 GB   USED, 99.8 % over RDMA, evidence B, GPUDirect possible",
               "  mlx5_0:1   1.07 GB  1.07 GB   RDMA, port data", "  eth0       2.10 MB  10.7 GB   sockets",
               "  elsewhere  0 B      10.7 GB   of the sockets' bytes, not between nodes of the step "
               "(storage, ...)"}));
}

TEST(VerdictTable, NotesAPortThatWentDown) {
    EXPECT_EQ(verdict_table(judge_step({with_link_downed(node(gib, 0), 3, 5)}, {})),
              (Texts{"NODE, PORT  SENT     RECEIVED  WHAT",
                     "n01         1.07 GB  1.07 GB   USED, 100.0 % over RDMA, evidence B",
                     "  mlx5_0:1  1.07 GB  1.07 GB   RDMA, port data",
                     "  note                         mlx5_0:1 went down 2 times during the step: look at its cable, "
                     "transceiver and switch port"}));
}

TEST(VerdictTable, HasTheCommunicatorsOfAllNodes) {
    auto one = node(0, 0, "n1");
    auto two = node(0, 0, "n2");
    one.communicators = {{0xabc, "tp", 4, 2, gib, gib, 0, {0, 10, 30}, {0, 2, 40}}, {0xdef, "", 0, 1, 5, 0, 3, {}, {}}};
    two.communicators = {{0xabc, "tp", 4, 2, gib, gib, 0, {40, 0, 0}, {}}};
    EXPECT_EQ(
        verdict_table(judge_step({one, two}, {})),
        (Texts{"NODE, PORT                 SENT     RECEIVED  WHAT",
               "n1                         0 B      0 B       IDLE",
               "n2                         0 B      0 B       IDLE",
               "communicator tp (4 ranks)  2.15 GB  2.15 GB   slowest peer 0 -> 2, 38 % of the wait is for the wire",
               "communicator def           5 B      0 B       3 operations not counted"}));
    one.communicators.assign(20, {0, "", 0, 1, 1, 1, 0, {}, {}});
    EXPECT_EQ(verdict_table(judge_step({one}, {})).size(), 2U + 16);
}

TEST(VerdictTable, DoesNotCallZeroWhatIsNotCounted) {
    auto evidence = without_source(node(0, gib));
    evidence.log = connections(8, 0, 0);
    EXPECT_EQ(
        verdict_table(judge_step({evidence}, {})),
        (Texts{"NODE, PORT  SENT     RECEIVED  WHAT", "n01         1.07 GB  1.07 GB   USED, evidence D, GPUDirect off",
               "  siw0:1    -        -         RDMA, none: siw counts no bytes",
               "  eth0      1.07 GB  1.07 GB   sockets",
               "  why                          8 connections over RDMA go without GPUDirect, through the host's "
               "memory"}));
    EXPECT_EQ(verdict_table(judge_step({node(0, 0)}, {})),
              (Texts{"NODE, PORT  SENT  RECEIVED  WHAT", "n01         0 B   0 B       IDLE"}));
    EXPECT_EQ(verdict_table(judge_step({}, {})), Texts{"NODE, PORT  SENT  RECEIVED  WHAT"});
}

TEST(VerdictTable, OfManyNodesShowsTheOddOnes) {
    std::vector<NodeEvidence> nodes;
    for (unsigned i = 100; i < 200; ++i) {
        nodes.push_back(node(i == 177 ? 0 : gib, i == 177 ? gib : 0, "n" + std::to_string(i)));
    }
    nodes.pop_back(); // or what n177 moved over sockets were nobody else's
    nodes.push_back(node(gib, gib, "n199"));
    const auto table = verdict_table(judge_step(nodes, {}));
    EXPECT_EQ(table[1].substr(0, 4), "n177") << table[1];
    EXPECT_EQ(table.back(), "and 92 more nodes: n[106-176,178-198]");
}

const std::string hostile = "\x1b[2J\n\"\\\xff\r'%s{}";

StepVerdict hostile_step() {
    auto evidence = without_source(node(0, gib, hostile));
    evidence.traffic.ports.front().port = hostile;
    evidence.traffic.ports.front().problem = hostile;
    evidence.traffic.ports.front().link_downed = LinkDowned{0, std::numeric_limits<std::uint64_t>::max(), hostile};
    evidence.traffic.netdevs.front().netdev = hostile;
    evidence.traffic.netdevs.front().problem = hostile;
    evidence.qps = {false, hostile, 0, {hostile}, {hostile}};
    evidence.log = connections(0, 0, 1);
    evidence.log->version = hostile;
    evidence.log->networks = {hostile};
    evidence.log->hcas = {hostile};
    evidence.log->causes = {hostile, std::string(100'000, 'x')};
    evidence.problem = hostile;
    return judge_step({evidence}, {hostile});
}

TEST(VerdictText, IsSafeOnATerminal) {
    auto lines = verdict_table(hostile_step());
    EXPECT_EQ(lines.size(), 6U); // head, node, port, interface, why, note
    lines.push_back(verdict_line(hostile_step()));
    auto mixed = judge_step({node(gib, 0, hostile), node(0, gib, hostile)}, {hostile});
    lines.push_back(verdict_line(mixed));
    for (const auto& line : lines) {
        EXPECT_LT(line.size(), 16'384U);
        for (const char c : line) {
            EXPECT_TRUE(c >= ' ' && c <= '~') << line;
        }
    }
}

TEST(VerdictJson, IsReadableWhateverTheTexts) {
    const auto text = verdict_json(hostile_step(), 0, 0);
    const auto json = *Json::parse(text);
    EXPECT_EQ(json.at("schema"), 1);
    EXPECT_TRUE(json.at("job").is_null() && json.at("step").is_null());
    EXPECT_EQ(json.at("nodes").at(0).at("queue_pairs").at("others").size(), 1U);
    for (const char c : text) {
        EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~'));
    }
    EXPECT_EQ(text.back(), '\n');
}

TEST(VerdictJson, HasWhatWasFound) {
    auto evidence = with_queue_pairs(node({gib, 2 * gib, true}, {mib, mib, false}), 4, {"job 12 step 0"});
    evidence.qps.own_ports = {"mlx5_0:1"};
    evidence.log = connections(1, 7, 0);
    const auto json = *Json::parse(verdict_json(judge_step({evidence}, {"n02"}), 4711, 3));
    EXPECT_EQ(json.at("job"), 4711);
    EXPECT_EQ(json.at("step"), 3);
    EXPECT_EQ(json.at("verdict"), "USED");
    EXPECT_EQ(json.at("evidence"), "C");
    EXPECT_EQ(json.at("gpu_direct"), "on");
    EXPECT_EQ(json.at("unresponsive"), Texts{"n02"});
    EXPECT_EQ(json.at("rdma"), (Json{{"sent", gib}, {"received", 2 * gib}, {"at_least", true}}));
    EXPECT_NEAR(json.at("share").get<double>(), 0.999, 0.001);
    const auto& one = json.at("nodes").at(0);
    EXPECT_EQ(one.at("node"), "n01");
    EXPECT_EQ(one.at("exclusive"), true);
    EXPECT_EQ(one.at("ports").at(0).at("counted_by"), "port data");
    EXPECT_EQ(one.at("ports").at(0).at("bytes").at("sent"), gib);
    EXPECT_EQ(one.at("netdevs").at(0).at("role"), "sockets");
    EXPECT_EQ(one.at("queue_pairs").at("most_own"), 4);
    EXPECT_EQ(one.at("nccl_log").at("connections").at("rdma_gdr"), 7);
}

TEST(VerdictJson, HasHowOftenPortsWentDown) {
    auto evidence = with_link_downed(node(gib, 0), 3, 5);
    evidence.traffic.ports.push_back(port("mlx5_1:1", gib));
    evidence.traffic.ports.push_back(port("mlx5_2:1", gib));
    evidence.traffic.ports.back().link_downed = LinkDowned{5, 3};
    evidence.traffic.ports.push_back(port("mlx5_3:1", gib));
    evidence.traffic.ports.back().link_downed = LinkDowned{2, 4, "eth3"};
    const auto json = *Json::parse(verdict_json(judge_step({evidence}, {}), 1, 0));
    const auto& ports = json.at("nodes").at(0).at("ports");
    EXPECT_EQ(ports.at(0).at("link_downed"), 2);
    EXPECT_TRUE(ports.at(1).at("link_downed").is_null()) << "there is no such counter";
    EXPECT_TRUE(ports.at(2).at("link_downed").is_null()) << "it was reset";
    EXPECT_EQ(ports.at(3).at("link_downed"), 1) << "its interface lost the carrier and got it back";
    EXPECT_EQ(json.at("lost_links").text().find("mlx5_0:1 of n01 went down 2 times"), 0U);
    EXPECT_EQ(json.at("nodes").at(0).at("notes").size(), 2U);
}

TEST(VerdictJson, HasTheGidsThatChanged) {
    const auto evidence = with_gid_change(node(gib, 0), "10.1.0.7", "::");
    const auto json = *Json::parse(verdict_json(judge_step({evidence}, {}), 1, 0));
    EXPECT_EQ(json.at("changed_gids").text().find("GID 3 of mlx5_0:1 of n01 was 10.1.0.7"), 0U);
    EXPECT_EQ(json.at("lost_links"), "");
    EXPECT_EQ(json.at("nodes").at(0).at("notes").size(), 1U);
}

TEST(VerdictJson, HasNullWhereRdmaIsNotCounted) {
    auto evidence = without_source(node(0, gib));
    const auto json = *Json::parse(verdict_json(judge_step({evidence}, {}), 1, 0));
    EXPECT_EQ(json.at("step"), 0);
    EXPECT_TRUE(json.at("share").is_null());
    EXPECT_TRUE(json.at("nodes").at(0).at("share").is_null());
    EXPECT_TRUE(json.at("nodes").at(0).at("ports").at(0).at("bytes").is_null());
    EXPECT_TRUE(json.at("nodes").at(0).at("nccl_log").is_null());
}

} // namespace
} // namespace rdma_nccl
