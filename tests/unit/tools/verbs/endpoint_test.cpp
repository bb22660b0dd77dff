// SPDX-License-Identifier: Apache-2.0
// Two ends, on emulated verbs (tests/fake_verbs).
#include "config.h"
#include "tests/unit/emulated_verbs.h"
#include "tools/verbs/endpoint.h"
#include "tools/verbs/queue_pairs.h"
#include "tools/verbs/rail.h"

#include <gtest/gtest.h>
#include <optional>
#include <thread>

#ifdef HAVE_IBVERBS

namespace rdma_nccl {
namespace {

using std::chrono::milliseconds;

constexpr unsigned mtu = 1024;
const StopAsked never = [] { return false; };

class VerbsEnds : public test::EmulatedVerbs {
protected:
    static VerbsSettings settings(const std::string& device, unsigned gid_index = 0) {
        VerbsSettings wanted;
        wanted.rail.hca = device;
        wanted.rail.gid_index = gid_index;
        wanted.message_size = 65536;
        wanted.queue_pairs = 2;
        wanted.depth = 8;
        wanted.service.timeout = 10;
        return wanted;
    }

    void open() {
        auto one = VerbsEndpoint::open(settings("mlx5_0"));
        ASSERT_TRUE(one) << one.error().message;
        auto other = VerbsEndpoint::open(settings("mlx5_1"));
        ASSERT_TRUE(other) << other.error().message;
        one_ = std::move(*one);
        other_ = std::move(*other);
    }
    void connect() {
        open();
        for (const auto& [end, peer] : {std::pair(one_.get(), other_.get()), std::pair(other_.get(), one_.get())}) {
            const auto connected = end->connect(peer->address(), mtu);
            ASSERT_TRUE(connected) << connected.error().message;
        }
    }
    /// The error of writing a pattern from one to the other.
    std::string lost() {
        const auto written = one_->write_pattern(7, milliseconds(5000));
        return written ? "" : written.error().message;
    }

    std::unique_ptr<VerbsEndpoint> one_, other_;
};

TEST_F(VerbsEnds, PatternArrives) {
    connect();
    EXPECT_EQ(lost(), "");
    const auto right = other_->check_pattern(7);
    ASSERT_TRUE(right) << right.error().message;
    EXPECT_TRUE(*right);
    EXPECT_FALSE(*other_->check_pattern(8));
}

TEST_F(VerbsEnds, WrongBytesAreSeen) {
    fault("corrupt * *");
    connect();
    EXPECT_EQ(lost(), "");
    EXPECT_FALSE(*other_->check_pattern(7));
}

TEST_F(VerbsEnds, BytesAreCounted) {
    connect();
    const auto bandwidth = one_->write_for(milliseconds(200), never);
    ASSERT_TRUE(bandwidth) << bandwidth.error().message;
    EXPECT_GT(bandwidth->gbps, 0);
    EXPECT_LT(bandwidth->gbps, 2);
    one_.reset();
    constexpr double beside = 64; // bytes by which the ends make sure of each other
    EXPECT_NEAR(static_cast<double>(counter("mlx5_0", "port_xmit_data") * 4), static_cast<double>(bandwidth->bytes),
                beside);
    EXPECT_NEAR(static_cast<double>(counter("mlx5_1", "port_rcv_data") * 4), static_cast<double>(bandwidth->bytes),
                beside);
    EXPECT_EQ(counter("mlx5_0", "port_rcv_data"), 0U);
}

TEST_F(VerbsEnds, StopsWhenAsked) {
    connect();
    const auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(one_->write_for(std::chrono::minutes(10), [] { return true; }));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(5));
}

TEST_F(VerbsEnds, RoundTrips) {
    connect();
    std::optional<PairLatency> answered;
    std::thread peer([&] {
        if (auto latency = other_->ping_pong(false, 200, milliseconds(20000), never)) {
            answered = *latency;
        }
    });
    const auto latency = one_->ping_pong(true, 200, milliseconds(20000), never);
    peer.join();
    ASSERT_TRUE(latency) << latency.error().message;
    EXPECT_EQ(latency->round_trips, 200U);
    EXPECT_TRUE(answered);
    EXPECT_LE(latency->min_us, latency->median_us);
    EXPECT_LE(latency->median_us, latency->p99_us);
    EXPECT_LE(latency->p99_us, latency->max_us);
}

TEST_F(VerbsEnds, RoundTripsWithoutInlineData) {
    fault("no-inline");
    connect();
    std::thread peer([&] { (void)other_->ping_pong(false, 100, milliseconds(20000), never); });
    const auto latency = one_->ping_pong(true, 100, milliseconds(20000), never);
    peer.join();
    ASSERT_TRUE(latency) << latency.error().message;
    EXPECT_EQ(latency->round_trips, 100U);
}

TEST_F(VerbsEnds, AMismatchAccusesNeither) {
    open();
    auto peer = other_->address();
    peer.ethernet = false;
    EXPECT_FALSE(one_->connect(peer, mtu));
    EXPECT_EQ(one_->cause(), VerbsCause::Mismatch);
    EXPECT_FALSE(other_->connect(one_->address(), 8192));
    EXPECT_EQ(other_->cause(), VerbsCause::Mismatch);
}

TEST(VerbsQueuesTest, NoMoreThanTheDeviceCan) {
    ibv_device_attr device{};
    EXPECT_EQ(affordable_depth(device, 4, 64), 64U) << "it says nothing";
    EXPECT_EQ(affordable_depth(device, 4, 8), 32U) << "what a ping-pong needs";
    device.max_qp_wr = 1024;
    device.max_cqe = 4096;
    EXPECT_EQ(affordable_depth(device, 1, 8192), 1024U);
    EXPECT_EQ(affordable_depth(device, 16, 8192), 256U);
    EXPECT_EQ(affordable_depth(device, 256, 64), 0U);
}

TEST_F(VerbsEnds, NothingArrives) {
    fault("drop * *");
    connect();
    EXPECT_NE(lost().find("RETRY_EXC_ERR"), std::string::npos) << lost();
}

TEST_F(VerbsEnds, LargePacketsDoNotArrive) {
    fault("mtu * * 512");
    connect();
    EXPECT_NE(lost().find("MTU"), std::string::npos) << lost();
}

TEST_F(VerbsEnds, NoWayThere) {
    fault("unroutable ::ffff:10.77.1.1 ::ffff:10.77.1.2");
    open();
    const auto connected = one_->connect(other_->address(), mtu);
    ASSERT_FALSE(connected);
    EXPECT_NE(connected.error().message.find("10.77.1.2"), std::string::npos) << connected.error().message;
    EXPECT_TRUE(other_->connect(one_->address(), mtu)) << "the other way there is one";
}

TEST_F(VerbsEnds, NoSuchGid) {
    const auto end = VerbsEndpoint::open(settings("mlx5_0", 3));
    ASSERT_FALSE(end);
    EXPECT_NE(end.error().message.find("index 3 is empty"), std::string::npos) << end.error().message;
}

TEST_F(VerbsEnds, NoSuchDevice) {
    const auto end = VerbsEndpoint::open(settings("mlx5_9"));
    ASSERT_FALSE(end);
    EXPECT_NE(end.error().message.find("no such device"), std::string::npos) << end.error().message;
}

TEST_F(VerbsEnds, NoSuchGpu) {
    auto wanted = settings("mlx5_0");
    wanted.gpu = 4000; // no machine has so many
    const auto end = VerbsEndpoint::open(wanted);
    ASSERT_FALSE(end);
    EXPECT_EQ(end.error().message.substr(0, 6), "no GPU") << end.error().message;
}

TEST_F(VerbsEnds, PeerThatIsGone) {
    connect();
    other_.reset();
    EXPECT_NE(lost().find("RETRY_EXC_ERR"), std::string::npos) << lost();
}

} // namespace
} // namespace rdma_nccl

#endif
