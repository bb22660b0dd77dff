// SPDX-License-Identifier: Apache-2.0
#include "tools/measure_control.h"

#include "lib/tcp.h"
#include "tests/unit/descriptor_limit.h"

#include <atomic>
#include <csignal>
#include <ctime>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace rdma_nccl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Kind = MeasureEvent::Kind;

MeasureClock::time_point in(milliseconds time) {
    return MeasureClock::now() + time;
}

MeasureWorld world_of(unsigned members) {
    MeasureWorld world;
    world.members = members;
    world.node = "n01";
    world.secret = "0123456789abcdef0123456789abcdef";
    return world;
}

class MeasureControl : public testing::Test {
protected:
    void listen(unsigned members) {
        world_ = world_of(members);
        auto head = MeasureHead::listen(world_);
        ASSERT_TRUE(head) << head.error().message;
        head_ = std::move(*head);
        world_.port = head_->port();
    }

    [[nodiscard]] MeasureWorld as(unsigned member) const {
        auto world = world_;
        world.member = member;
        return world;
    }

    /// In a thread, as the head has to answer meanwhile.
    std::optional<MeasureMember> join(const MeasureWorld& world) {
        std::optional<MeasureMember> joined;
        std::thread thread([&] {
            if (auto member = MeasureMember::join(world, {{"node", world.node}}, in(seconds(20)))) {
                joined.emplace(std::move(*member));
            }
        });
        const auto event = head_->next(in(seconds(20)));
        thread.join();
        EXPECT_EQ(event.kind, Kind::Joined);
        EXPECT_EQ(event.member, world.member);
        EXPECT_EQ(event.message["node"], world.node);
        return joined;
    }

    MeasureWorld world_;
    std::unique_ptr<MeasureHead> head_;
};

TEST_F(MeasureControl, OrdersAndAnswers) {
    listen(3);
    auto first = join(as(1));
    auto second = join(as(2));
    ASSERT_TRUE(first && second);
    EXPECT_FALSE(first->has_input());
    head_->send(1, {{"order", "go"}});
    head_->send(1, {{"order", "again"}});
    EXPECT_EQ((**first->receive(in(seconds(20))))["order"], "go");
    EXPECT_TRUE(first->has_input());
    EXPECT_EQ((**first->receive(in(seconds(20))))["order"], "again");
    EXPECT_FALSE(*second->receive(in(milliseconds(1))));
    ASSERT_TRUE(second->send({{"gbps", 388.5}}));
    const auto event = head_->next(in(seconds(20)));
    EXPECT_EQ(event.kind, Kind::Message);
    EXPECT_EQ(event.member, 2U);
    EXPECT_EQ(event.message["gbps"], 388.5);
    EXPECT_EQ(head_->next(in(milliseconds(1))).kind, Kind::Deadline);
}

TEST_F(MeasureControl, MegabytesAndBytesThatAreNoText) {
    listen(2);
    auto member = join(as(1));
    ASSERT_TRUE(member);
    const std::string large(3 << 20, 'x');
    std::thread sender([&] { EXPECT_TRUE(member->send({{"large", large}, {"odd", "\xff\xfe"}})); });
    const auto event = head_->next(in(seconds(20)));
    sender.join();
    EXPECT_EQ(event.message["large"].get<std::string>().size(), large.size());
    head_->send(1, event.message);
    std::atomic<bool> received = false;
    std::thread pump([&] {
        while (!received) {
            EXPECT_EQ(head_->next(in(milliseconds(20))).kind, Kind::Deadline);
        }
    });
    auto back = member->receive(in(seconds(20)));
    received = true;
    pump.join();
    ASSERT_TRUE(back && *back);
    EXPECT_EQ((**back)["large"].get<std::string>().size(), large.size());
}

TEST_F(MeasureControl, WhoIsLostIsSaidOnceAndDoesNotComeBack) {
    listen(2);
    auto member = join(as(1));
    ASSERT_TRUE(member && head_->has(1));
    ASSERT_TRUE(member->send({{"last", "word"}}));
    member.reset();
    EXPECT_EQ(head_->next(in(seconds(20))).message["last"], "word");
    const auto event = head_->next(in(seconds(20)));
    EXPECT_EQ(event.kind, Kind::Lost);
    EXPECT_EQ(event.why, "its process has ended");
    EXPECT_FALSE(head_->has(1));
    head_->send(1, {{"order", "go"}}); // nothing happens
    std::thread thread([&] { EXPECT_FALSE(MeasureMember::join(as(1), {}, in(milliseconds(300)))); });
    EXPECT_EQ(head_->next(in(milliseconds(600))).kind, Kind::Deadline);
    thread.join();
}

TEST_F(MeasureControl, AllDescriptorsThatThereMayBe) {
    const test::DescriptorLimit few(test::DescriptorLimit::so_many_more(16));
    listen(2);
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(limit.rlim_cur, limit.rlim_max);
}

TEST_F(MeasureControl, WithoutDescriptorsItSaysSoAndRests) {
    listen(2);
    testing::internal::CaptureStderr();
    std::optional<test::DescriptorLimit> few(std::in_place, test::DescriptorLimit::so_many_more(1)); // the member's
    std::thread thread([&] { EXPECT_TRUE(MeasureMember::join(as(1), {{"here", 1}}, in(seconds(20)))); });
    const auto before = std::clock();
    EXPECT_EQ(head_->next(in(milliseconds(800))).kind, Kind::Deadline);
    EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 2) << "it has spun";
    few.reset();
    EXPECT_EQ(head_->next(in(seconds(20))).kind, Kind::Joined);
    thread.join();
    const auto told = testing::internal::GetCapturedStderr();
    EXPECT_NE(told.find("no more can be accepted"), std::string::npos) << told;
    EXPECT_EQ(told.find("no more can be accepted"), told.rfind("no more can be accepted")) << "once";
}

TEST_F(MeasureControl, TheHeadsEndIsTheMembers) {
    listen(2);
    auto member = join(as(1));
    ASSERT_TRUE(member);
    head_.reset();
    EXPECT_TRUE(member->has_input());
    const auto order = member->receive(in(seconds(20)));
    ASSERT_FALSE(order);
    EXPECT_EQ(order.error().message, "the head has closed the connection");
}

TEST_F(MeasureControl, StrangersAreTurnedAway) {
    listen(2);
    auto stranger = as(1);
    stranger.secret = "f123456789abcdef0123456789abcdef";
    auto unknown = as(1);
    unknown.member = 2; // of a world of two
    std::thread thread([&] {
        for (const auto& world : {stranger, unknown}) {
            const auto joined = MeasureMember::join(world, {}, in(milliseconds(200)));
            ASSERT_FALSE(joined);
            EXPECT_NE(joined.error().message.find("cannot be reached"), std::string::npos);
        }
    });
    EXPECT_EQ(head_->next(in(milliseconds(800))).kind, Kind::Deadline);
    thread.join();
    EXPECT_TRUE(join(as(1)));
}

TEST_F(MeasureControl, BytesOfAStrangerAreLimited) {
    listen(2);
    auto socket = start_connection(*IpAddress::parse("127.0.0.1"), world_.port);
    ASSERT_TRUE(socket);
    pollfd item{socket->get(), POLLOUT, 0};
    ASSERT_EQ(::poll(&item, 1, 20000), 1);
    const std::string flood("\xff\xff\xff\xff" + std::string(1000, 'x'));
    ASSERT_GT(::send(socket->get(), flood.data(), flood.size(), MSG_NOSIGNAL), 0);
    EXPECT_EQ(head_->next(in(milliseconds(300))).kind, Kind::Deadline);
    item.events = POLLIN;
    ASSERT_EQ(::poll(&item, 1, 20000), 1);
    char byte = 0;
    EXPECT_LE(::recv(socket->get(), &byte, 1, 0), 0);
}

TEST_F(MeasureControl, SignalsAreEvents) {
    listen(2);
    ::raise(SIGINT);
    const auto event = head_->next(in(seconds(20)));
    EXPECT_EQ(event.kind, Kind::Interrupted);
    EXPECT_EQ(event.why, "SIGINT");
}

TEST_F(MeasureControl, PortThatIsTaken) {
    listen(2);
    const auto other = MeasureHead::listen(world_);
    ASSERT_FALSE(other);
    EXPECT_NE(other.error().message.find("cannot listen on port"), std::string::npos);
    EXPECT_NE(other.error().message.find(std::to_string(::getpid()) + ") listens there"), std::string::npos)
        << other.error().message;
}

TEST(MeasureControlAlone, NobodyListens) {
    auto world = world_of(2);
    world.port = 1;
    const auto joined = MeasureMember::join(world, {}, in(milliseconds(150)));
    ASSERT_FALSE(joined);
    EXPECT_NE(joined.error().message.find("127.0.0.1 port 1 cannot be reached"), std::string::npos);
}

} // namespace
} // namespace rdma_nccl
