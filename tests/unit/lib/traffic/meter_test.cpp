// SPDX-License-Identifier: Apache-2.0
#include "lib/traffic/traffic.h"
#include "tests/unit/tree.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

namespace rdma_nccl {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t full_32_bit = 4294967295;
const TrafficSample::Pair nothing;

PortSource port_source(const std::string& hca, std::uint64_t unit, bool saturates = false) {
    PortSource source;
    source.hca = hca;
    source.source = ByteSource::PortData;
    source.tx = {{"/tx"}, unit, saturates};
    source.rx = {{"/rx"}, unit, saturates};
    return source;
}

class Meter : public testing::Test {
protected:
    using Pairs = std::vector<TrafficSample::Pair>;

    TrafficMeter& meter() {
        if (!meter_) {
            meter_.emplace(sources_);
        }
        return *meter_;
    }
    void read(const Pairs& ports, const Pairs& netdevs = {}, std::chrono::milliseconds later = 1s) {
        now_ += later;
        meter().add({now_, ports, netdevs});
    }
    Bytes rdma() { return meter().total().rdma; }

    TrafficSources sources_;

private:
    std::optional<TrafficMeter> meter_;
    std::chrono::steady_clock::time_point now_{1000s};
};

TEST_F(Meter, CountsSinceTheFirstReading) {
    sources_.ports = {port_source("mlx5_0", 4), port_source("bnxt_re1", 1)};
    sources_.ports[1].expected = true;
    sources_.netdevs = {{"eth0", NetdevRole::Plain, {}, 0, 0}};
    read({{100, 1000}, {5, 5}}, {{7, 8}});
    EXPECT_EQ(meter().total().seconds, 0);
    EXPECT_EQ(rdma(), Bytes{});
    read({{110, 1001}, {6, 7}}, {{8, 10}});
    read({{111, 1003}, {6, 8}}, {{8, 11}}, 500ms);
    const auto total = meter().total();
    EXPECT_DOUBLE_EQ(total.seconds, 1.5);
    EXPECT_EQ(total.ports, (std::vector<PortTraffic>{{"mlx5_0:1", ByteSource::PortData, {44, 12, false}, false, ""},
                                                     {"bnxt_re1:1", ByteSource::PortData, {1, 3, false}, true, ""}}));
    EXPECT_EQ(total.netdevs, (std::vector<NetdevTraffic>{{"eth0", NetdevRole::Plain, {1, 3, false}, ""}}));
    EXPECT_EQ(total.rdma, (Bytes{45, 15, false}));
    EXPECT_EQ(total.sockets, (Bytes{1, 3, false}));
    EXPECT_TRUE(total.has_source);
    EXPECT_FALSE(total.estimate);
    const auto last = meter().last();
    EXPECT_DOUBLE_EQ(last.seconds, 0.5);
    EXPECT_EQ(last.rdma, (Bytes{4, 9, false}));
    EXPECT_EQ(last.sockets, (Bytes{0, 1, false}));
}

TEST_F(Meter, BeforeAnyReading) {
    sources_.ports = {port_source("mlx5_0", 4)};
    EXPECT_EQ(meter().total().rdma, Bytes{});
    EXPECT_EQ(meter().last().seconds, 0);
}

TEST_F(Meter, AResetLosesTheInterval) {
    sources_.ports = {port_source("mlx5_0", 1)};
    read(Pairs{{1000, 1000}});
    read(Pairs{{1100, 1100}});
    read(Pairs{{20, 1200}}); // one direction began anew
    EXPECT_EQ(meter().total().ports[0].problem, "its counters were reset");
    EXPECT_EQ(meter().last().ports[0].problem, "its counters were reset");
    read(Pairs{{50, 1300}});
    EXPECT_EQ(rdma(), (Bytes{130, 300, true}));
    EXPECT_EQ(meter().total().ports[0].problem, "its counters were reset");
    EXPECT_EQ(meter().last().ports[0].problem, "");
    EXPECT_FALSE(meter().last().rdma.at_least);
}

TEST_F(Meter, AFullCounterSaysAtLeast) {
    sources_.ports = {port_source("mlx5_0", 4, true)};
    read(Pairs{{full_32_bit - 100, 5}});
    read(Pairs{{full_32_bit, 6}});
    EXPECT_EQ(rdma(), (Bytes{400, 4, true}));
    EXPECT_EQ(meter().total().ports[0].problem, "its 32-bit counters are full");
    read(Pairs{{full_32_bit, 7}});
    EXPECT_EQ(rdma(), (Bytes{400, 8, true}));
    read(Pairs{{1, 8}}); // perfquery -R
    EXPECT_EQ(meter().total().ports[0].problem, "its counters were reset");
}

TEST_F(Meter, ThatTurnsOutToHave64Bit) {
    sources_.ports = {port_source("mlx4_0", 4, true)};
    read(Pairs{{full_32_bit - 1, 0}});
    read(Pairs{{full_32_bit + 9, 0}});
    EXPECT_EQ(rdma(), (Bytes{40, 0, false}));
}

TEST_F(Meter, WhatIsGoneMayHaveMovedMore) {
    sources_.ports = {port_source("mlx5_0", 1), port_source("mlx5_1", 1)};
    read({{10, 10}, {10, 10}});
    read({{20, 20}, {10, 10}});
    read(Pairs{nothing, {11, 10}}, {}, 2s);
    read(Pairs{nothing, {12, 10}}, {}, 2s);
    const auto total = meter().total();
    EXPECT_EQ(total.ports[0].bytes, (Bytes{10, 10, true}));
    EXPECT_EQ(total.ports[0].problem, "could not be read for 4 s");
    EXPECT_EQ(total.ports[1].bytes, (Bytes{2, 0, false}));
    EXPECT_EQ(total.rdma, (Bytes{12, 10, true}));
}

TEST_F(Meter, WhatComesBackHasLostNothing) {
    sources_.ports = {port_source("mlx5_0", 1)};
    read(Pairs{{10, 10}});
    read(Pairs{nothing});
    read(Pairs{{30, 40}});
    EXPECT_EQ(meter().total().ports[0].bytes.tx, 20U);
    EXPECT_EQ(meter().total().ports[0].bytes.rx, 30U);
    EXPECT_EQ(meter().total().ports[0].problem, "");
}

TEST_F(Meter, WhatAppearsLateMayHaveMovedBefore) {
    sources_.ports = {port_source("mlx5_0", 1)};
    read(Pairs{nothing});
    EXPECT_EQ(meter().total().ports[0].problem, "could not be read");
    read(Pairs{{500, 500}});
    EXPECT_EQ(meter().total().ports[0].problem, "could not be read at first");
    read(Pairs{{501, 502}});
    EXPECT_EQ(rdma(), (Bytes{1, 2, true}));
}

TEST_F(Meter, HugeValuesStayAtTheGreatest) {
    sources_.ports = {port_source("mlx5_0", 4), port_source("mlx5_1", 4)};
    constexpr auto greatest = std::numeric_limits<std::uint64_t>::max();
    read({{0, 0}, {0, 0}});
    read({{greatest, 0}, {greatest, 0}});
    EXPECT_EQ(rdma().tx, greatest);
}

TEST_F(Meter, APortWithoutSource) {
    sources_.ports = {PortSource{}};
    sources_.ports[0].hca = "siw0";
    sources_.ports[0].why_none = "siw counts no bytes";
    read(Pairs{nothing});
    read(Pairs{nothing});
    const auto total = meter().total();
    EXPECT_FALSE(total.has_source);
    EXPECT_EQ(total.ports[0].problem, "siw counts no bytes");
    EXPECT_EQ(total.rdma, Bytes{}) << "not even at least: nothing is known of it";
}

TEST_F(Meter, PacketsAreAnEstimateOnceSomethingMoved) {
    sources_.ports = {port_source("rxe0", 1024)};
    sources_.ports[0].source = ByteSource::Packets;
    read(Pairs{{0, 0}});
    read(Pairs{{0, 0}});
    EXPECT_FALSE(meter().total().estimate);
    read(Pairs{{0, 3}});
    EXPECT_TRUE(meter().total().estimate);
    EXPECT_EQ(rdma(), (Bytes{0, 3072, false}));
}

TEST_F(Meter, RdmaThatTheInterfaceCountsIsNoSocket) {
    sources_.ports = {port_source("rxe0", 1024)};
    sources_.netdevs = {{"eth0", NetdevRole::IncludesRdma, "rxe0:1", 1024, 58}, {"eth1", NetdevRole::Plain, {}, 0, 0}};
    read(Pairs{{0, 0}}, {{0, 0}, {0, 0}});
    read(Pairs{{100, 10}}, {{100 * (1024 + 58) + 5000, 62}, {1, 1}});
    const auto total = meter().total();
    EXPECT_EQ(total.rdma, (Bytes{102400, 10240, false}));
    EXPECT_EQ(total.netdevs[0].bytes.tx, 113200U) << "as the kernel counts";
    EXPECT_EQ(total.sockets, (Bytes{5001, 1, false})) << "never below 0";
}

TEST_F(Meter, IpOverInfinibandIsNoRdma) {
    sources_.ports = {port_source("mlx5_0", 4), port_source("mlx5_1", 4)};
    sources_.netdevs = {{"ib0", NetdevRole::Ipoib, "mlx5_0:1", 2044, 86}};
    read({{0, 0}, {0, 0}}, {{0, 0}});
    read({{1000000, 1000}, {500, 500}}, {{204400, 1 << 20}});
    const auto total = meter().total();
    EXPECT_EQ(total.ports[0].bytes, (Bytes{4000000 - 204400 - 100 * 86, 0, false}));
    EXPECT_EQ(total.ports[1].bytes, (Bytes{2000, 2000, false}));
    EXPECT_EQ(total.sockets, (Bytes{204400, 1 << 20, false}));
}

TEST_F(Meter, ReadingsOfAnotherShape) {
    sources_.ports = {port_source("mlx5_0", 4)};
    read(Pairs{});
    read({{1, 1}, {2, 2}}, {{3, 3}});
    read({{2, 2}, {2, 2}}, {{3, 3}});
    EXPECT_EQ(rdma().tx, 4U);
}

class Reading : public testing::Test {
protected:
    Reading() {
        PortSource port = port_source("irdma0", 1);
        port.tx.paths = {"/a", "/b"};
        port.rx.paths = {"/c"};
        sources_.ports = {port, PortSource{}};
        sources_.netdevs = {{"eth0", NetdevRole::Plain, {}, 0, 0}};
        tree_.file("/a", "5\n").file("/b", "6\n").file("/c", "0\n");
        tree_.file("/sys/class/net/eth0/statistics/tx_bytes", "18446744073709551615\n");
    }
    TrafficSample read() { return read_traffic(tree_.root(), sources_); }

    test::Tree tree_;
    TrafficSources sources_;
};

TEST_F(Reading, SumsUpFiles) {
    const auto reading = read();
    ASSERT_EQ(reading.ports.size(), 2U);
    EXPECT_EQ(reading.ports[0].tx, 11U);
    EXPECT_EQ(reading.ports[0].rx, 0U);
    EXPECT_EQ(reading.ports[1].tx, std::nullopt);
    ASSERT_EQ(reading.netdevs.size(), 1U);
    EXPECT_EQ(reading.netdevs[0].tx, 18446744073709551615U);
    EXPECT_EQ(reading.netdevs[0].rx, std::nullopt);
}

TEST_F(Reading, OneMissingPartIsAllMissing) {
    tree_.remove("/b");
    EXPECT_EQ(read().ports[0].tx, std::nullopt);
    EXPECT_EQ(read().ports[0].rx, 0U);
    tree_.file("/b", "18446744073709551615");
    EXPECT_EQ(read().ports[0].tx, std::nullopt) << "the sum has no place";
    tree_.file("/b", "N/A (no PMA)");
    EXPECT_EQ(read().ports[0].tx, std::nullopt);
    tree_.remove("/b").directory("/b");
    EXPECT_EQ(read().ports[0].tx, std::nullopt);
    tree_.remove("/b");
    ASSERT_EQ(::mkfifo(tree_.at("/b").c_str(), 0600), 0);
    EXPECT_EQ(read().ports[0].tx, std::nullopt);
    tree_.remove("/b").file("/b", std::string(1 << 22, '9'));
    EXPECT_EQ(read().ports[0].tx, std::nullopt);
}

} // namespace
} // namespace rdma_nccl
