// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"
#include "tools/measure/channel.h"

#include "lib/net/dialer.h"
#include "lib/net/tcp.h"
#include "tests/unit/descriptor_limit.h"

#include <array>
#include <atomic>
#include <climits>
#include <csignal>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace rdma_nccl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Kind = measure::Event::Kind;

measure::Clock::time_point in(milliseconds time) {
    return measure::Clock::now() + time;
}

measure::World world_of(unsigned workers) {
    measure::World world;
    world.workers = workers;
    world.node = "n01";
    world.key = *random_key();
    return world;
}

class MeasureControl : public testing::Test {
protected:
    void listen(unsigned workers) {
        world_ = world_of(workers);
        auto head = measure::Coordinator::listen(world_);
        ASSERT_TRUE(head) << head.error().message;
        head_ = std::move(*head);
        world_.port = head_->port();
    }

    [[nodiscard]] measure::World as(unsigned worker) const {
        auto world = world_;
        world.worker = worker;
        return world;
    }

    /// In a thread, as the head has to answer meanwhile.
    std::optional<measure::Worker> join(const measure::World& world) {
        std::optional<measure::Worker> joined;
        std::thread thread([&] {
            if (auto worker = measure::Worker::join(world, {{"node", world.node}}, in(seconds(20)))) {
                joined.emplace(std::move(*worker));
            }
        });
        const auto event = head_->next(in(seconds(20)));
        thread.join();
        EXPECT_EQ(event.kind, Kind::Joined);
        EXPECT_EQ(event.worker, world.worker);
        EXPECT_EQ(event.message["node"], world.node);
        return joined;
    }

    /// Nothing else may happen until `done`.
    void pump(const std::atomic<bool>& done) {
        while (!done) {
            EXPECT_EQ(head_->next(in(milliseconds(20))).kind, Kind::Deadline);
        }
    }

    /// What a process hears of a head that does not want it.
    std::string refusal_of(const measure::World& world, milliseconds timeout = seconds(20)) {
        std::string refusal;
        std::atomic<bool> done = false;
        std::thread thread([&] {
            auto joined = measure::Worker::join(world, {{"node", "n09"}}, in(timeout));
            const auto order = joined ? joined->receive(in(seconds(20))) : tl::unexpected(joined.error());
            refusal = order ? "none" : order.error().message;
            done = true;
        });
        pump(done);
        thread.join();
        return refusal;
    }

    measure::World world_;
    std::unique_ptr<measure::Coordinator> head_;
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
    EXPECT_EQ(event.worker, 2U);
    EXPECT_EQ(event.message["gbps"], 388.5);
    EXPECT_EQ(head_->next(in(milliseconds(1))).kind, Kind::Deadline);
}

TEST_F(MeasureControl, MegabytesAndBytesThatAreNoText) {
    listen(2);
    auto worker = join(as(1));
    ASSERT_TRUE(worker);
    const std::string large(3 << 20, 'x');
    std::thread sender([&] { EXPECT_TRUE(worker->send({{"large", large}, {"odd", "\xff\xfe"}})); });
    const auto event = head_->next(in(seconds(20)));
    sender.join();
    EXPECT_EQ(event.message["large"].get<std::string>().size(), large.size());
    head_->send(1, event.message);
    std::atomic<bool> received = false;
    std::thread sends([&] { pump(received); });
    auto back = worker->receive(in(seconds(20)));
    received = true;
    sends.join();
    ASSERT_TRUE(back && *back);
    EXPECT_EQ((**back)["large"].get<std::string>().size(), large.size());
}

TEST_F(MeasureControl, WhoIsLostIsSaidOnceAndDoesNotComeBack) {
    listen(2);
    auto worker = join(as(1));
    ASSERT_TRUE(worker && head_->has(1));
    ASSERT_TRUE(worker->send({{"last", "word"}}));
    worker.reset();
    EXPECT_EQ(head_->next(in(seconds(20))).message["last"], "word");
    const auto event = head_->next(in(seconds(20)));
    EXPECT_EQ(event.kind, Kind::Lost);
    EXPECT_EQ(event.why, "it has closed the connection");
    EXPECT_FALSE(head_->has(1));
    head_->send(1, {{"order", "go"}}); // nothing happens
    EXPECT_EQ(refusal_of(as(1)), "the head is gone: it has closed the connection");
}

TEST_F(MeasureControl, AllDescriptorsThatThereMayBe) {
    const test::DescriptorLimit few(test::DescriptorLimit::so_many_more(16));
    listen(2);
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(limit.rlim_cur, limit.rlim_max);
}

TEST_F(MeasureControl, WithoutDescriptorsItSaysSoOnce) {
    listen(2);
    testing::internal::CaptureStderr();
    std::optional<test::DescriptorLimit> few(std::in_place, test::DescriptorLimit::so_many_more(2)); // the member's
    std::thread thread([&] { EXPECT_TRUE(measure::Worker::join(as(1), {{"here", 1}}, in(seconds(20)))); });
    EXPECT_EQ(head_->next(in(milliseconds(800))).kind, Kind::Deadline);
    few.reset();
    EXPECT_EQ(head_->next(in(seconds(20))).kind, Kind::Joined);
    thread.join();
    const auto told = testing::internal::GetCapturedStderr();
    EXPECT_NE(told.find("no more can be accepted"), std::string::npos) << told;
    EXPECT_EQ(told.find("no more can be accepted"), told.rfind("no more can be accepted")) << "once";
}

TEST_F(MeasureControl, TheHeadsEndIsTheMembers) {
    listen(2);
    auto worker = join(as(1));
    ASSERT_TRUE(worker);
    head_.reset();
    EXPECT_TRUE(worker->has_input());
    const auto order = worker->receive(in(seconds(20)));
    ASSERT_FALSE(order);
    EXPECT_EQ(order.error().message, "the head is gone: it has closed the connection");
}

TEST_F(MeasureControl, StrangersAreTurnedAway) {
    listen(2);
    auto stranger = as(1);
    stranger.key = *random_key();
    const auto words = refusal_of(stranger, milliseconds(300));
    EXPECT_NE(words.find("cannot be reached"), std::string::npos) << words;
    EXPECT_NE(words.find("does not have the key"), std::string::npos) << words;
    EXPECT_TRUE(join(as(1)));
}

TEST_F(MeasureControl, NumbersThatTheWorldDoesNotHave) {
    listen(2);
    for (const unsigned number : {2U, UINT_MAX}) {
        EXPECT_EQ(refusal_of(as(number)), "the head is gone: it has closed the connection");
    }
    const auto worker = join(as(1));
    EXPECT_TRUE(worker);
    EXPECT_EQ(refusal_of(as(1)), "the head is gone: it has closed the connection") << "it is there already";
    EXPECT_TRUE(head_->has(1));
}

/// Who has the key, and says what no member says.
TEST_F(MeasureControl, WordsThatAreNone) {
    listen(8);
    const std::string hello = R"({"member": 1, "hello": {}})";
    const std::vector<std::string> none = {"",
                                           "[]",
                                           "x",
                                           "{}",
                                           R"({"member": -1, "hello": {}})",
                                           R"({"member": "1", "hello": {}})",
                                           R"({"member": 1, "hello": []})",
                                           R"({"member": 1, "hello": )" + std::string(1 << 20, '[')};
    for (const auto& words : none) {
        std::atomic<bool> done = false;
        std::thread thread([&] {
            auto connection = dial({{*IpAddress::parse("127.0.0.1")}, world_.port, world_.key, {}, 1000},
                                   in(seconds(20)), in(seconds(20)));
            ASSERT_TRUE(connection);
            connection->send(std::make_shared<const std::string>(words));
            pollfd item{connection->fd(), POLLIN, 0};
            while (connection->read() && connection->write()) {
                item.events = static_cast<short>(connection->wants_to_write() ? POLLIN | POLLOUT : POLLIN);
                (void)::poll(&item, 1, 20000);
            }
            done = true;
        });
        pump(done);
        thread.join();
    }
    auto worker = join(as(1));
    ASSERT_TRUE(worker);
    ASSERT_TRUE(worker->send(Json::array()));
    const auto event = head_->next(in(seconds(20)));
    EXPECT_EQ(event.kind, Kind::Lost);
    EXPECT_EQ(event.why, "it says what is no answer");
    EXPECT_FALSE(head_->has(1));
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
    const auto other = measure::Coordinator::listen(world_);
    ASSERT_FALSE(other);
    EXPECT_NE(other.error().message.find("cannot listen on port"), std::string::npos);
    EXPECT_NE(other.error().message.find(std::to_string(::getpid()) + ") listens there"), std::string::npos)
        << other.error().message;
}

TEST(MeasureControlAlone, NobodyListens) {
    auto world = world_of(2);
    world.port = 1;
    const auto joined = measure::Worker::join(world, Json::object(), in(milliseconds(150)));
    ASSERT_FALSE(joined);
    EXPECT_NE(joined.error().message.find("cannot be reached: 127.0.0.1 port 1: Connection refused"),
              std::string::npos);
}

/// Who has the head's port first hears neither what a member is nor what it would do.
TEST(MeasureControlAlone, AStrangerListens) {
    auto listener = listen_on(0, PortSharing::Alone);
    ASSERT_TRUE(listener);
    auto world = world_of(2);
    world.port = local_port(listener->get());
    std::thread thread([&] {
        const auto joined = measure::Worker::join(world, {{"node", "the node's name"}}, in(milliseconds(500)));
        ASSERT_FALSE(joined);
        EXPECT_NE(joined.error().message.find("cannot be reached"), std::string::npos);
    });
    pollfd item{listener->get(), POLLIN, 0};
    ASSERT_EQ(::poll(&item, 1, 20000), 1);
    const UniqueFd socket(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
    const std::string answer(1000, 'x'); // as good as any other without the key
    EXPECT_GT(::send(socket.get(), answer.data(), answer.size(), MSG_NOSIGNAL), 0);
    std::string heard;
    std::array<char, 4096> bytes{};
    for (ssize_t size = 1; size > 0;) {
        size = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
        heard.append(bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    }
    thread.join();
    EXPECT_EQ(heard.size(), 40U) << "a magic word and a random number";
    EXPECT_EQ(heard.find("node"), std::string::npos);
}

} // namespace
} // namespace rdma_nccl
