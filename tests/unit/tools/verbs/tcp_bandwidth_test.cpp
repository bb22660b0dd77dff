// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/tcp_bandwidth.h"

#include <cerrno>
#include <future>
#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

const IpAddress loopback = IpAddress::parse("127.0.0.1").value();

TEST(TcpBandwidthTest, BothEndsAgree) {
    for (const auto* const text : {"127.0.0.1", "::1"}) {
        const auto address = IpAddress::parse(text).value();
        auto receiver = TcpReceiver::listen(address);
        if (!receiver && address != loopback) {
            continue; // a kernel without IPv6
        }
        ASSERT_TRUE(receiver) << receiver.error().message;
        ASSERT_NE(receiver->port(), 0);
        auto sending = std::async(
            std::launch::async, [&] { return send_tcp(address, address, receiver->port(), 4, milliseconds(300), {}); });
        const auto received = receiver->receive(milliseconds(300), 4, {});
        const auto sent = sending.get();
        ASSERT_TRUE(received) << received.error().message;
        ASSERT_TRUE(sent) << sent.error().message;
        EXPECT_GT(received->gbps, 0);
        EXPECT_GT(sent->gbps, 0);
        EXPECT_GT(received->bytes, 0U);
        EXPECT_LE(received->bytes, sent->bytes) << "the reset at the end may take some away";
    }
}

TEST(TcpBandwidthTest, NobodyListens) {
    std::uint16_t port = 0;
    {
        const auto receiver = TcpReceiver::listen(loopback);
        ASSERT_TRUE(receiver);
        port = receiver->port();
    }
    const auto sent = send_tcp(loopback, loopback, port, 2, milliseconds(100), {});
    ASSERT_FALSE(sent);
    EXPECT_EQ(sent.error().os_error, ECONNREFUSED) << sent.error().message;
}

TEST(TcpBandwidthTest, StopEndsBothAtOnce) {
    auto receiver = TcpReceiver::listen(loopback);
    ASSERT_TRUE(receiver);
    const auto stop = [end = Clock::now() + milliseconds(300)] { return Clock::now() > end; };
    const auto began = Clock::now();
    auto sending = std::async(std::launch::async, [&] {
        return send_tcp(loopback, loopback, receiver->port(), 1, milliseconds(60'000), stop);
    });
    EXPECT_TRUE(receiver->receive(milliseconds(60'000), 1, stop));
    sending.wait();
    EXPECT_LT(Clock::now() - began, milliseconds(30'000));
}

TEST(TcpBandwidthTest, AReceiverAloneGivesUp) {
    auto receiver = TcpReceiver::listen(loopback);
    ASSERT_TRUE(receiver);
    const auto nothing = receiver->receive(milliseconds(100), 1, {});
    ASSERT_FALSE(nothing);
    EXPECT_EQ(nothing.error().os_error, ETIMEDOUT);
}

TEST(TcpBandwidthTest, AForeignAddress) {
    const auto foreign = IpAddress::parse("192.0.2.1").value();
    EXPECT_FALSE(TcpReceiver::listen(foreign));
    EXPECT_FALSE(send_tcp(foreign, loopback, 9, 1, milliseconds(100), {}));
}

} // namespace
} // namespace rdma_nccl
