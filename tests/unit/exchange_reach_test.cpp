// SPDX-License-Identifier: Apache-2.0
#include "lib/exchange_reach.h"

#include "lib/socket_address.h"
#include "lib/tcp.h"
#include "tests/unit/descriptor_limit.h"
#include "tests/unit/exchange_nodes.h"

#include <atomic>
#include <cerrno>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>

namespace rdma_nccl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::ip;

/// Serves a listener in a thread of its own until it goes.
class Served {
public:
    explicit Served(ReachListener& listener)
        : thread_([this, &listener] {
              while (!over_) {
                  pollfd waiting{listener.descriptor(), POLLIN, 0};
                  if (::poll(&waiting, 1, 10) > 0) {
                      listener.serve();
                  }
              }
          }) {}
    Served(const Served&) = delete;
    Served& operator=(const Served&) = delete;
    Served(Served&&) = delete;
    Served& operator=(Served&&) = delete;
    ~Served() {
        over_ = true;
        thread_.join();
    }

private:
    std::atomic<bool> over_ = false;
    std::thread thread_;
};

UniqueFd visit(std::uint16_t port, std::string_view bytes) {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval limit{30, 0};
    (void)::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    const auto peer = socket_address(ip("127.0.0.1"), port, AF_INET);
    EXPECT_EQ(::connect(socket.get(), peer.get(), peer.length), 0);
    EXPECT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    return socket;
}

/// All it says until it ends the connection.
std::string hear_all(const UniqueFd& socket) {
    std::string all;
    char byte = 0;
    while (::recv(socket.get(), &byte, 1, 0) == 1) {
        all += byte;
    }
    return all;
}

class ExchangeReach : public testing::Test {
protected:
    [[nodiscard]] ReachResult reach(const std::vector<IpAddress>& addresses, std::uint16_t port) const {
        return try_to_reach({addresses, port}, secret_, seconds(30));
    }

    Secret secret_ = random_secret().value();
    ReachListener listener_ = ReachListener::open(0, secret_).value();
};

TEST_F(ExchangeReach, TheListenerAnswersWhoHasTheSecret) {
    const Served served(listener_);
    EXPECT_EQ(reach({ip("127.0.0.1"), ip("127.0.0.2"), ip("127.0.0.1")}, listener_.port()), (ReachResult{0, 0, 0}));
    EXPECT_EQ(reach({}, listener_.port()), ReachResult());
}

TEST_F(ExchangeReach, OverIpv6) {
    const Served served(listener_);
    const auto results = reach({ip("::1")}, listener_.port());
    if (results.at(0) == EADDRNOTAVAIL || results.at(0) == EAFNOSUPPORT || results.at(0) == ENETUNREACH) {
        GTEST_SKIP() << "no IPv6 here";
    }
    EXPECT_EQ(results, (ReachResult{0}));
}

TEST_F(ExchangeReach, AnotherSecretGetsNoAnswer) {
    const Served served(listener_);
    const auto other = random_secret().value();
    EXPECT_NE(try_to_reach({{ip("127.0.0.1")}, listener_.port()}, other, seconds(30)).at(0), 0);
    const Secret half{secret_.question, other.answer}; // the right question, and another answer than expected
    EXPECT_EQ(try_to_reach({{ip("127.0.0.1")}, listener_.port()}, half, seconds(30)), (ReachResult{EPROTO}));
}

TEST_F(ExchangeReach, EachAddressHasItsOwnError) {
    const Served served(listener_);
    const auto silent = listen_on(0, PortSharing::Alone).value();
    EXPECT_EQ(try_to_reach({{ip("127.0.0.1")}, local_port(silent.get())}, secret_, milliseconds(100)),
              (ReachResult{ETIMEDOUT}));
    std::uint16_t nobody = 0;
    { nobody = local_port(bind_port(0, PortSharing::Alone).value().get()); }
    const auto results = reach({ip("127.0.0.1"), ip("255.255.255.255")}, nobody);
    EXPECT_EQ(results.at(0), ECONNREFUSED);
    EXPECT_NE(results.at(1), 0);
    EXPECT_EQ(reach({ip("255.255.255.255"), ip("127.0.0.1")}, listener_.port()).at(1), 0);
}

TEST_F(ExchangeReach, NonsenseIsSentAwayWithoutAWord) {
    const Served served(listener_);
    const auto other = visit(listener_.port(), bytes_of(secret_.answer));
    const auto most = visit(listener_.port(), std::string(100000, 'x'));
    EXPECT_EQ(hear_all(other), "");
    EXPECT_EQ(hear_all(most), "");
    const auto silent = visit(listener_.port(), bytes_of(secret_.question).substr(0, 15));
    EXPECT_EQ(reach({ip("127.0.0.1")}, listener_.port()), (ReachResult{0}));
    // The silent one completes its question.
    const auto last = bytes_of(secret_.question).substr(15);
    EXPECT_EQ(::send(silent.get(), last.data(), 1, MSG_NOSIGNAL), 1);
    std::string answer(16, '\0');
    EXPECT_EQ(::recv(silent.get(), answer.data(), answer.size(), MSG_WAITALL), 16);
    EXPECT_EQ(answer, bytes_of(secret_.answer));
}

// Where no descriptor is free, those who only stay make room for the next, after a moment.
TEST_F(ExchangeReach, WhoOnlyStaysMakesRoom) {
    std::vector<UniqueFd> strangers;
    for (unsigned i = 0; i < 12; ++i) {
        strangers.push_back(visit(listener_.port(), ""));
    }
    const auto node = visit(listener_.port(), bytes_of(secret_.question));
    std::string answer(16, '\0');
    ssize_t count = 0;
    {
        const test::DescriptorLimit limit(test::DescriptorLimit::so_many_more(5));
        const auto end = std::chrono::steady_clock::now() + seconds(30);
        while (count <= 0 && std::chrono::steady_clock::now() < end) {
            std::this_thread::sleep_for(milliseconds(1));
            listener_.serve();
            count = ::recv(node.get(), answer.data(), answer.size(), MSG_DONTWAIT);
        }
    }
    EXPECT_EQ(count, 16);
    EXPECT_EQ(answer, bytes_of(secret_.answer));
}

TEST_F(ExchangeReach, NoPortIsLeftInTimeWait) {
    const std::uint16_t port = listener_.port();
    {
        const Served served(listener_);
        EXPECT_EQ(reach({ip("127.0.0.1")}, port), (ReachResult{0}));
    }
    const auto staying = visit(port, bytes_of(secret_.question));
    listener_.serve();
    listener_.serve();
    { const auto gone = std::move(listener_); }
    EXPECT_TRUE(bind_port(port, PortSharing::Alone)); // EADDRINUSE otherwise
}

TEST_F(ExchangeReach, ListensOnAHeldPortAndGivesItBack) {
    auto held = bind_port(0, PortSharing::Alone).value();
    const std::uint16_t port = local_port(held.get());
    held.reset();
    held = bind_port(port, PortSharing::Alone).value(); // by its number, as a step's ports are: only then it stays
    const auto other = ReachListener::open(port, secret_);
    ASSERT_TRUE(other); // on another port, as this one is another's
    EXPECT_NE(other->port(), port);
    UniqueFd left;
    {
        auto opened = ReachListener::open(port, secret_, held.get());
        ASSERT_TRUE(opened);
        EXPECT_EQ(opened->port(), port);
        auto moved = std::move(*opened);
        EXPECT_EQ(listen_on(port, PortSharing::Reuse).error().os_error, EADDRINUSE); // nobody else can
        const Served served(moved);
        EXPECT_EQ(reach({ip("127.0.0.1")}, port), (ReachResult{0}));
        left = visit(port, bytes_of(secret_.question));
    }
    EXPECT_EQ(reach({ip("127.0.0.1")}, port), (ReachResult{ECONNREFUSED}));
    EXPECT_EQ(listen_on(port, PortSharing::Reuse).error().os_error, EADDRINUSE);
    allow_reuse(held.get());
    EXPECT_TRUE(listen_on(port, PortSharing::Reuse)); // no connection of the test is in the way
}

TEST_F(ExchangeReach, ASocketThatCannotListenDoesNotMatter) {
    const int none = 1 << 20;
    const auto other = ReachListener::open(1, secret_, none);
    ASSERT_TRUE(other);
    EXPECT_GT(other->port(), 1);
}

} // namespace
} // namespace rdma_nccl
