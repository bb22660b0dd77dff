// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"
#include "tools/top/top.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

constexpr std::uint64_t gbit = 125000000; // bytes

TopPort port(const std::string& name, std::uint64_t tx, std::uint64_t rx) {
    TopPort port;
    port.traffic = {name, ByteSource::PortData, {tx, rx, false}, false, ""};
    port.netdev = "eth1";
    port.state = "ACTIVE";
    port.rate_gbps = 200;
    return port;
}

TopNetdev netdev(const std::string& name, std::uint64_t tx, std::uint64_t rx) {
    return {{name, NetdevRole::Plain, {tx, rx, false}, ""}, "", 25};
}

TopSample sample() {
    TopSample sample;
    sample.host = "n01";
    sample.seconds = 2;
    sample.ports = {port("mlx5_0:1", 20 * gbit, 40 * gbit), port("mlx5_1:1", 0, 0)};
    sample.netdevs = {netdev("eth0", 20 * gbit, 0), netdev("eth9", 0, 0)};
    sample.rdma = {20 * gbit, 40 * gbit, false};
    sample.sockets = {20 * gbit, 0, false};
    sample.processes_known = true;
    return sample;
}

std::string line_with(const std::vector<std::string>& lines, const std::string& text) {
    const auto found = std::find_if(lines.begin(), lines.end(),
                                    [&text](const std::string& line) { return line.find(text) != std::string::npos; });
    return found == lines.end() ? "" : *found;
}

TEST(TopTable, ShowsRatesShareAndUse) {
    const auto lines = top_table(sample(), {});
    EXPECT_EQ(lines[1], "RDMA        10.00 Gb/s sent     20.00 Gb/s received   75.0 % of all");
    EXPECT_EQ(lines[2], "Sockets     10.00 Gb/s sent         0 Gb/s received   25.0 % of all");
    EXPECT_EQ(line_with(lines, "mlx5_0"), "mlx5_0:1   eth1     200   10.00     20.00   10.0 %   75.0 %");
    EXPECT_EQ(line_with(lines, "eth0"), "eth0                 25   10.00         0   40.0 %   25.0 %");
}

TEST(TopTable, NamesProcesses) {
    auto with = sample();
    with.ports[1].processes = {{4711, "python3", "job 12 step 0", 8}, {0, "nvme_rdma", "", 1}, {0, "", "", 2}};
    EXPECT_NE(line_with(top_table(with, {}), "mlx5_1")
                  .find("python3 4711 (job 12 step 0, 8 QPs), kernel: nvme_rdma "
                        "(1 QP), a process that is not visible (2 QPs)"),
              std::string::npos)
        << line_with(top_table(with, {}), "mlx5_1");
    with.processes_known = false;
    with.processes_problem = "libnl is not installed";
    EXPECT_EQ(line_with(top_table(with, {}), "libnl"), "cannot list processes: libnl is not installed");
}

TEST(TopTable, MarksWhatIsNotSure) {
    auto with = sample();
    with.estimate = true;
    with.rdma.at_least = true;
    with.ports[0].traffic.source = ByteSource::Packets;
    with.ports[0].traffic.bytes.at_least = true;
    with.ports[0].traffic.problem = "its counters were reset";
    with.ports[1].traffic.source = ByteSource::None;
    with.ports[1].traffic.problem = "siw counts no bytes";
    with.ports[1].traffic.expected = true;
    with.ports[1].state = "DOWN";
    with.netdevs[0].traffic.role = NetdevRole::IncludesRdma;
    with.netdevs[0].port = "rxe0:1";
    const auto lines = top_table(with, {});
    EXPECT_NE(lines[1].find("~>10.00"), std::string::npos) << lines[1];
    EXPECT_NE(line_with(lines, "mlx5_0").find(">10.00"), std::string::npos);
    EXPECT_NE(line_with(lines, "mlx5_0").find("estimated; its counters were reset"), std::string::npos);
    EXPECT_NE(line_with(lines, "mlx5_1:1*").find("port is DOWN; siw counts no bytes"), std::string::npos);
    EXPECT_NE(line_with(lines, "eth0").find("-  includes rxe0:1"), std::string::npos) << line_with(lines, "eth0");
}

TEST(TopTable, FitsEveryWindow) {
    auto many = sample();
    for (int i = 2; i < 40; ++i) {
        many.ports.push_back(port("mlx5_" + std::to_string(i) + ":1", i % 2 == 0 ? gbit : 0, 0));
        many.ports.back().processes = {{i, std::string(24, 'x'), "job 1 step 0", 100}};
    }
    for (std::size_t columns = 1; columns < 160; ++columns) {
        for (const std::size_t height : {1U, 2U, 3U, 5U, 8U, 24U, 50U}) {
            const auto lines = top_table(many, {columns, height});
            EXPECT_LE(lines.size(), height);
            for (const auto& line : lines) {
                EXPECT_LE(line.size(), columns) << line;
            }
        }
    }
}

TEST(TopTable, LeavesOutColumnsThenIdleRows) {
    const auto narrow = top_table(sample(), {38, 0});
    EXPECT_EQ(line_with(narrow, "mlx5_0"), "mlx5_0:1    10.00     20.00   10.0 %");
    EXPECT_EQ(narrow[1], "RDMA     75.0 %  10.00  20.00");
    EXPECT_EQ(top_table(sample(), {50, 0})[2], "Sockets  25.0 %   10.00 sent       0 received");
    const auto low = top_table(sample(), {0, 10});
    EXPECT_EQ(line_with(low, "eth9"), "");
    EXPECT_EQ(line_with(low, "mlx5_1"), "");
    EXPECT_NE(line_with(low, "eth0"), "");
    EXPECT_EQ(low.back(), "2 more idle rows");
    auto expected = sample();
    expected.ports[1].traffic.expected = true;
    expected.netdevs[1].traffic.bytes.tx = 1;
    expected.netdevs.push_back(netdev("eth2", 0, 0));
    EXPECT_NE(line_with(top_table(expected, {0, 11}), "eth9"), "") << "what moves goes before what should";
    EXPECT_EQ(line_with(top_table(expected, {0, 11}), "mlx5_1"), "") << "what moves goes before what should";
}

TEST(TopTable, StrangeBytesStayHarmless) {
    auto strange = sample();
    strange.host = "\x1b[2J\n";
    strange.ports[0].traffic.port = "\x1b]0;x\x07:1";
    strange.ports[0].processes = {{1, "a\nb", "", 1}};
    strange.problems = {"\xff\n"};
    for (const auto& line : top_table(strange, {})) {
        EXPECT_TRUE(std::all_of(line.begin(), line.end(), [](char c) { return c >= ' ' && c <= '~'; })) << line;
    }
    EXPECT_TRUE(Json::parse(top_json(strange)));
}

TopCommunicator communicator(std::uint64_t sent) {
    TopCommunicator communicator;
    communicator.total = {0xabc, "tp", 8, 2, 9 * gbit, 0, 0, {}, {}};
    communicator.moved.sent = sent;
    return communicator;
}

TEST(TopTable, ShowsCommunicators) {
    auto with = sample();
    with.communicators = {communicator(20 * gbit), communicator(0)};
    with.communicators[0].moved.waits = {0, 1000, 1000};
    with.communicators[0].moved.slowest = {3, 4, 2000};
    with.communicators[0].lag = profile::Lag{5, profile::Function::AllReduce, 7, 2};
    const auto lines = top_table(with, {});
    EXPECT_EQ(line_with(lines, "COMMUNICATOR"),
              "COMMUNICATOR                  SENT  RECEIVED                    NOTES");
    EXPECT_EQ(line_with(lines, "tp (8 ranks)"),
              "tp (8 ranks)                 10.00         0                    "
              "slowest peer 3 -> 4, 50 % of the wait is for the wire; rank 5 is 2 AllReduce calls behind");
    EXPECT_NE(line_with(top_table(with, {0, 13}), "tp (8 ranks)"), "");
    EXPECT_EQ(top_rows(with)[6].substr(12, 30), "  comm     tp (8 ranks)     10");
}

TEST(TopRows, OneLineEach) {
    const auto lines = top_rows(sample());
    ASSERT_EQ(lines.size(), 6U);
    EXPECT_NE(lines[0].find("  rdma     all              10.00     20.00        -   75.0 %"), std::string::npos)
        << lines[0];
    EXPECT_NE(lines[2].find("  port     mlx5_0:1         10.00     20.00   10.0 %   75.0 %"), std::string::npos)
        << lines[2];
    EXPECT_NE(lines[5].find("  netdev   eth9 "), std::string::npos);
}

TEST(TopJson, IsOneLine) {
    auto with = sample();
    with.ports[0].processes = {{4711, "python3", "job 12 step 0", 8}};
    const auto text = top_json(with);
    EXPECT_EQ(text.find('\n'), std::string::npos);
    const auto json = *Json::parse(text);
    EXPECT_EQ(json["schema"], 1);
    EXPECT_EQ(json["rdma_share"], 0.75);
    EXPECT_EQ(json["ports"][0]["rx_gbps"], 20.0);
    EXPECT_EQ(json["ports"][0]["source"], "port data");
    EXPECT_EQ(json["ports"][0]["processes"][0]["queue_pairs"], 8);
    EXPECT_EQ(json["netdevs"][0]["role"], "plain");
    with.rdma = with.sockets = {};
    EXPECT_TRUE(Json::parse(top_json(with))->at("rdma_share").is_null());
}

TEST(TopNumbers, AreShort) {
    EXPECT_EQ(gbps_text(0), "0");
    EXPECT_EQ(gbps_text(0.004), "<0.01");
    EXPECT_EQ(gbps_text(0.5), "0.50");
    EXPECT_EQ(gbps_text(12.345), "12.35");
    EXPECT_EQ(gbps_text(399.6), "400");
}

} // namespace
} // namespace rdma_nccl
