// SPDX-License-Identifier: Apache-2.0
#include "lib/net/coordinator.h"
#include "lib/net/dialer.h"
#include "lib/net/tcp.h"

#include <algorithm>
#include <csignal>
#include <gtest/gtest.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace rdma_nccl;

namespace {

using Clock = Coordinator::Clock;
using Kind = CoordinatorEvent::Kind;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds time_limit(20); // for anything to happen

const IpAddress loopback = *IpAddress::parse("127.0.0.1");

class CoordinatorTest : public testing::Test {
protected:
    CoordinatorRules rules() {
        CoordinatorRules rules;
        rules.key = key_;
        rules.context = "test";
        rules.longest_message = 100'000;
        return rules;
    }

    void listen(CoordinatorRules rules) {
        coordinator_.emplace(Coordinator::make(listen_on(0, PortSharing::Alone).value(), std::move(rules)).value());
    }

    [[nodiscard]] DialTarget target() const { return {{loopback}, coordinator_->port(), key_, "test", 100'000}; }

    /// Turns the coordinator until `done`; false when the time is over.
    template<typename Done>
    bool turn_until(const Done& done) {
        const auto end = Clock::now() + time_limit;
        while (!done()) {
            if (Clock::now() >= end) {
                return false;
            }
            pollfd event{coordinator_->fd(), POLLIN, 0};
            (void)::poll(&event, 1, 10);
            for (auto& one : coordinator_->work()) {
                events_.push_back(std::move(one));
            }
        }
        return true;
    }

    std::optional<Connection> join(DialTarget target) {
        Dialer dialer(std::move(target));
        std::optional<Connection> connection;
        (void)turn_until([&] {
            connection = dialer.work();
            return connection.has_value();
        });
        return connection;
    }

    [[nodiscard]] std::size_t count(Kind kind) const {
        return static_cast<std::size_t>(
            std::count_if(events_.begin(), events_.end(), [kind](const auto& event) { return event.kind == kind; }));
    }

    UniqueFd stranger() const {
        auto socket = start_connection(loopback, coordinator_->port()).value();
        pollfd event{socket.get(), POLLOUT, 0};
        (void)::poll(&event, 1, 5000);
        return socket;
    }

    static bool is_closed(const UniqueFd& socket) {
        char byte = 0;
        return ::recv(socket.get(), &byte, 1, MSG_DONTWAIT) == 0 || (errno != EAGAIN && errno != EINTR);
    }

    Key key_ = random_key().value();
    std::optional<Coordinator> coordinator_;
    std::vector<CoordinatorEvent> events_;
};

} // namespace

TEST_F(CoordinatorTest, MessagesGoBothWays) {
    listen(rules());
    auto worker = join(target());
    ASSERT_TRUE(worker);
    worker->send(std::make_shared<const std::string>("report"));
    ASSERT_TRUE(worker->write());
    ASSERT_TRUE(turn_until([&] { return count(Kind::Message) == 1; }));
    EXPECT_EQ(events_.front().kind, Kind::Joined);
    EXPECT_EQ(events_.back().body, "report");
    coordinator_->send(events_.back().worker, std::string(60'000, 'a'));
    std::optional<std::string> answer;
    ASSERT_TRUE(turn_until([&] {
        EXPECT_TRUE(worker->read());
        answer = worker->next_message();
        return answer.has_value();
    }));
    EXPECT_EQ(answer->size(), 60'000U);
    worker.reset();
    ASSERT_TRUE(turn_until([&] { return count(Kind::Lost) == 1; }));
    EXPECT_EQ(coordinator_->connections(), 0U);
}

TEST_F(CoordinatorTest, WithoutTheKeyNobodyJoins) {
    listen(rules());
    auto wrong = target();
    wrong.key = random_key().value();
    Dialer dialer(std::move(wrong));
    ASSERT_TRUE(turn_until([&] {
        EXPECT_FALSE(dialer.work());
        return dialer.problem().find("does not have the key") != std::string::npos;
    }));
    EXPECT_TRUE(events_.empty());
}

TEST_F(CoordinatorTest, StrangersAreClosedWithoutAWord) {
    listen(rules());
    const auto socket = stranger();
    ASSERT_EQ(::send(socket.get(), "GET / HTTP/1.1", 14, MSG_NOSIGNAL), 14);
    ASSERT_TRUE(turn_until([&] { return is_closed(socket); }));
    EXPECT_TRUE(events_.empty());
}

TEST_F(CoordinatorTest, ASilentStrangerGoesAfterAWhile) {
    listen(rules());
    const auto socket = stranger();
    ASSERT_TRUE(turn_until([&] { return coordinator_->connections() == 1; }));
    const auto deadline = coordinator_->deadline();
    ASSERT_TRUE(deadline);
    EXPECT_LE(*deadline, Clock::now() + seconds(5));
    ASSERT_TRUE(turn_until([&] { return is_closed(socket); }));
}

TEST_F(CoordinatorTest, WorkersGetInBesideAThousandStrangers) {
    auto tight = rules();
    listen(tight);
    std::vector<UniqueFd> sockets;
    for (int i = 0; i < 1100; ++i) {
        if (auto socket = start_connection(loopback, coordinator_->port())) {
            sockets.push_back(std::move(*socket));
        } // else no descriptor is left: that will do
        if (i % 100 == 0) {
            (void)coordinator_->work();
        }
    }
    sockets.resize(std::min<std::size_t>(sockets.size(), sockets.size() - 20)); // some for the worker
    EXPECT_TRUE(join(target()));
}

TEST_F(CoordinatorTest, AWorkerThatTakesNothingIsLost) {
    auto small = rules();
    small.most_unsent = 1 << 20;
    listen(small);
    auto worker = join(target());
    ASSERT_TRUE(worker);
    ASSERT_TRUE(turn_until([&] { return count(Kind::Joined) == 1; }));
    const auto body = std::make_shared<const std::string>(90'000, 'x');
    for (int i = 0; i < 1000 && coordinator_->has(events_.front().worker); ++i) {
        coordinator_->send(events_.front().worker, body);
    }
    ASSERT_TRUE(turn_until([&] { return count(Kind::Lost) == 1; }));
    EXPECT_EQ(events_.back().why, "it takes no messages");
}

TEST_F(CoordinatorTest, TheAddressThatWasDialledHasToBeTheRightOne) {
    auto strict = rules();
    strict.adds_local_address = true;
    listen(strict);
    auto right = target();
    right.context += "127.0.0.1";
    EXPECT_TRUE(join(std::move(right)));
    auto relayed = target(); // dialled another address, behind which somebody passes the bytes on
    relayed.context += "172.17.0.1";
    Dialer dialer(std::move(relayed));
    ASSERT_TRUE(turn_until([&] {
        EXPECT_FALSE(dialer.work());
        return dialer.problem().find("does not have the key") != std::string::npos;
    }));
}

TEST_F(CoordinatorTest, ADialerSoonTriesAgainWhereNobodyListensYet) {
    const auto socket = bind_port(0, PortSharing::Alone).value();
    Dialer dialer({{loopback}, local_port(socket.get()), key_, "test", 100, true});
    do {
        EXPECT_FALSE(dialer.work());
        pollfd event{dialer.fd(), POLLIN, 0};
        (void)::poll(&event, 1, 10);
    } while (dialer.problem().find("refused") == std::string::npos);
    EXPECT_LE(dialer.deadline() - Clock::now(), milliseconds(10));
}

TEST_F(CoordinatorTest, ADialerGoesOnUntilSomebodyListens) {
    auto socket = bind_port(0, PortSharing::Alone).value();
    const auto port = local_port(socket.get());
    DialTarget target{{loopback}, port, key_, "test", 100, true};
    std::thread later([&] {
        std::this_thread::sleep_for(milliseconds(300));
        ASSERT_EQ(::listen(socket.get(), 10), 0);
        coordinator_.emplace(Coordinator::make(std::move(socket), rules()).value());
        (void)turn_until([&] { return count(Kind::Joined) == 1; });
    });
    const auto end = Clock::now() + time_limit;
    EXPECT_TRUE(dial(std::move(target), end, end));
    later.join();
}

TEST_F(CoordinatorTest, DialEndsWithWhatEachAddressSaid) {
    const auto socket = bind_port(0, PortSharing::Alone).value(); // nobody listens there
    const auto port = local_port(socket.get());
    const auto soon = Clock::now() + milliseconds(100);
    const auto failed = dial({{loopback}, port, key_, "test", 100}, soon, soon);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().message, "127.0.0.1 port " + std::to_string(port) + ": Connection refused");
    EXPECT_EQ(dial({{}, port, key_, "test", 100}, soon, soon).error().message, "no address");
}

namespace {

/// A child that has a copy of every descriptor of its parent, as long as this lives.
class Copies {
public:
    Copies() : child_(::fork()) {
        while (child_ == 0) {
            ::pause();
        }
    }
    Copies(const Copies&) = delete;
    Copies& operator=(const Copies&) = delete;
    Copies(Copies&&) = delete;
    Copies& operator=(Copies&&) = delete;
    ~Copies() {
        (void)::kill(child_, SIGKILL);
        (void)::waitpid(child_, nullptr, 0);
    }

private:
    pid_t child_;
};

} // namespace

// epoll(7) watches a socket until its last copy is closed, which a child may have.
TEST_F(CoordinatorTest, AnAttemptThatHasFailedIsOverThoughAChildHasACopy) {
    const auto listener = listen_on(0, PortSharing::Alone).value();
    Dialer dialer({{loopback}, local_port(listener.get()), key_, "test", 100});
    EXPECT_FALSE(dialer.work());
    pollfd incoming{listener.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&incoming, 1, 20'000), 1);
    { const UniqueFd ends_at_once(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)); }
    const Copies copies;
    const auto end = Clock::now() + time_limit;
    pollfd event{dialer.fd(), POLLIN, 0};
    while (dialer.problem().find("no answer") != std::string::npos && Clock::now() < end) {
        (void)::poll(&event, 1, 20'000);
        EXPECT_FALSE(dialer.work());
    }
    EXPECT_NE(dialer.problem().find("has closed the connection"), std::string::npos) << dialer.problem();
    EXPECT_EQ(::poll(&event, 1, 0), 0) << "nothing is left to watch";
}

TEST_F(CoordinatorTest, AConnectionThatWasClosedIsOverThoughAChildHasACopy) {
    listen(rules());
    const auto socket = stranger();
    auto worker = join(target());
    ASSERT_TRUE(worker);
    ASSERT_TRUE(turn_until([&] { return coordinator_->connections() == 2 && count(Kind::Joined) == 1; }));
    const Copies copies;
    ASSERT_EQ(::send(socket.get(), "GET / HTTP/1.1", 14, MSG_NOSIGNAL), 14);
    ASSERT_EQ(::shutdown(worker->fd(), SHUT_RDWR), 0);
    ASSERT_TRUE(turn_until([&] { return coordinator_->connections() == 0; }));
    EXPECT_EQ(count(Kind::Lost), 1U);
    pollfd event{coordinator_->fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&event, 1, 0), 0) << "nothing is left to watch";
}

TEST(Dialer, OwnAddressesAreTheOthersOnlyWhereItRunsHere) {
    const auto bridge = *IpAddress::parse("172.17.0.1");
    const auto login = *IpAddress::parse("10.0.0.1");
    const auto own = *IpAddress::parse("10.0.0.2");
    using List = std::vector<IpAddress>;
    EXPECT_EQ(without_own({login, bridge}, {own, bridge}), List{login});
    EXPECT_EQ(without_own({own, bridge}, {own, bridge}), (List{own, bridge}));
    EXPECT_EQ(without_own({}, {own}), List{});
}
