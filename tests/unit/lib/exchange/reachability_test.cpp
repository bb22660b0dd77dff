// SPDX-License-Identifier: Apache-2.0
#include "lib/exchange/client.h"

#include "tests/unit/channel.h"
#include "tests/unit/descriptor_limit.h"
#include "tests/unit/exchange_nodes.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <gtest/gtest.h>
#include <optional>
#include <poll.h>
#include <string>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>

namespace rdma_nccl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::Channel;
using test::ip;
using Clock = std::chrono::steady_clock;

constexpr seconds most_wait(test::timeout_seconds);

/// Tells a thread to end.
class Stop {
public:
    [[nodiscard]] int fd() const { return fd_.get(); }
    void now() const {
        const std::uint64_t one = 1;
        (void)!::write(fd_.get(), &one, sizeof one);
    }

private:
    UniqueFd fd_{::eventfd(0, EFD_CLOEXEC)};
};

/// Until one of them is readable; whether it is the first.
bool wait_for(int first, int second, int timeout = -1) {
    std::array<pollfd, 2> waiting = {{{first, POLLIN, 0}, {second, POLLIN, 0}}};
    return ::poll(waiting.data(), waiting.size(), timeout) > 0 && waiting[0].revents != 0;
}

/// Serves a listener in a thread of its own until it goes.
class Served {
public:
    explicit Served(ReachListener& listener)
        : thread_([this, &listener] {
              constexpr int turn = 50; // milliseconds, where it waits for descriptors
              while (!wait_for(stop_.fd(), listener.descriptor(), listener.deadline() ? turn : -1)) {
                  listener.serve();
              }
          }) {}
    Served(const Served&) = delete;
    Served& operator=(const Served&) = delete;
    Served(Served&&) = delete;
    Served& operator=(Served&&) = delete;
    ~Served() {
        stop_.now();
        thread_.join();
    }

private:
    Stop stop_;
    std::thread thread_;
};

/// Takes connections to its port one after the other, and passes all bytes on to another address of this host.
class Relay {
public:
    Relay(const std::string& address, std::uint16_t port)
        : listener_(listen_on(0, PortSharing::Alone).value()), thread_([this, address, port] {
              while (wait_for(listener_.get(), stop_.fd())) {
                  const UniqueFd near(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
                  const auto far = test::connect_to(port, address);
                  while (near && far && pass(near, far)) {
                  }
              }
          }) {}
    Relay(const Relay&) = delete;
    Relay& operator=(const Relay&) = delete;
    Relay(Relay&&) = delete;
    Relay& operator=(Relay&&) = delete;
    ~Relay() {
        stop_.now();
        thread_.join();
    }

    [[nodiscard]] std::uint16_t port() const { return local_port(listener_.get()); }

private:
    bool pass(const UniqueFd& near, const UniqueFd& far) {
        std::array<pollfd, 3> waiting = {{{near.get(), POLLIN, 0}, {far.get(), POLLIN, 0}, {stop_.fd(), POLLIN, 0}}};
        (void)::poll(waiting.data(), waiting.size(), -1);
        const auto& from = waiting[0].revents != 0 ? near : far;
        std::array<char, 1000> bytes{};
        const ssize_t count = waiting[2].revents != 0 ? 0 : ::recv(from.get(), bytes.data(), bytes.size(), 0);
        return count > 0 && test::say(&from == &near ? far : near, {bytes.data(), static_cast<std::size_t>(count)});
    }

    UniqueFd listener_;
    Stop stop_;
    std::thread thread_;
};

class ExchangeReach : public testing::Test {
protected:
    [[nodiscard]] ReachResult reach(const std::vector<IpAddress>& addresses, std::uint16_t port) const {
        return try_to_reach({addresses, port}, key_, most_wait);
    }

    [[nodiscard]] Session worker(std::string_view address = "127.0.0.1") const {
        return {Session::Role::Worker, derive_key(key_, KeyPurpose::Reachability), address, 0};
    }

    [[nodiscard]] UniqueFd visit(std::string_view bytes) const {
        auto socket = test::connect_to(listener_.port());
        EXPECT_TRUE(test::say(socket, bytes));
        return socket;
    }

    Key key_ = random_key().value();
    ReachListener listener_ = ReachListener::open(0, key_).value();
};

TEST_F(ExchangeReach, TheListenerAnswersWhoHasTheKey) {
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

TEST_F(ExchangeReach, WithAnotherKeyItIsSomebodyElse) {
    const Served served(listener_);
    for (const auto& other : {random_key().value(), derive_key(key_, KeyPurpose::Reachability)}) {
        EXPECT_EQ(try_to_reach({{ip("127.0.0.1")}, listener_.port()}, other, most_wait), (ReachResult{EPROTO}));
    }
}

// A key of the step is not enough: it has to be the one of this purpose.
TEST_F(ExchangeReach, TheKeyOfAnotherPurposeIsRefused) {
    const Served served(listener_);
    for (const auto purpose : {KeyPurpose::Exchange, KeyPurpose::Tasks}) {
        Channel other(test::connect_to(listener_.port()),
                      Session(Session::Role::Worker, derive_key(key_, purpose), "127.0.0.1", 0));
        EXPECT_FALSE(other.shake_hands());
    }
    Channel right(test::connect_to(listener_.port()), worker());
    EXPECT_TRUE(right.shake_hands());
}

// Whoever passes bytes on between two addresses has nobody believe that the one is the other.
TEST_F(ExchangeReach, ARelayInFrontOfTheListenerIsNotTheListener) {
    const Served served(listener_);
    const Relay elsewhere("127.0.0.1", listener_.port());
    EXPECT_EQ(reach({ip("127.0.0.2")}, elsewhere.port()), (ReachResult{EPROTO}));
    const Relay same("127.0.0.2", listener_.port()); // passes all on: it is for the address alone that the other fails
    EXPECT_EQ(reach({ip("127.0.0.2")}, same.port()), (ReachResult{0}));
}

TEST_F(ExchangeReach, EachAddressHasItsOwnError) {
    const Served served(listener_);
    const auto silent = listen_on(0, PortSharing::Alone).value();
    EXPECT_EQ(try_to_reach({{ip("127.0.0.1")}, local_port(silent.get())}, key_, milliseconds(100)),
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
    const auto other = visit("GET / HTTP/1.1\r\n\r\n");
    const auto most = test::connect_to(listener_.port());
    (void)test::say(most, std::string(100000, 'x'));
    EXPECT_EQ(test::hear(other, 1), "");
    EXPECT_EQ(test::hear(most, 1), "");
    EXPECT_TRUE(test::is_ended(other));
    EXPECT_TRUE(test::is_ended(most));
    // One that is in the midst of its first word keeps nobody waiting, and may go on.
    Channel slow(visit("RDMA"), worker());
    EXPECT_EQ(reach({ip("127.0.0.1")}, listener_.port()), (ReachResult{0}));
    EXPECT_TRUE(test::is_open(slow.socket()));
}

TEST_F(ExchangeReach, BytesMayComeOneByOne) {
    const Served served(listener_);
    Channel slow(test::connect_to(listener_.port()), worker(), Channel::Pace::ByteByByte);
    EXPECT_TRUE(slow.shake_hands());
}

// There is nothing to say but the proof.
TEST_F(ExchangeReach, WhoSaysMoreIsSentAway) {
    const Served served(listener_);
    Channel node(test::connect_to(listener_.port()), worker());
    ASSERT_TRUE(node.shake_hands());
    (void)node.say("x");
    EXPECT_TRUE(test::is_ended(node.socket()));
}

// Where no descriptor is free, those who only stay make room for the next, after a moment.
TEST_F(ExchangeReach, WhoOnlyStaysMakesRoom) {
    std::vector<UniqueFd> strangers;
    for (unsigned i = 0; i < 12; ++i) {
        strangers.push_back(visit(""));
    }
    Channel node(test::connect_to(listener_.port()), worker());
    const test::DescriptorLimit limit(test::DescriptorLimit::so_many_more(5));
    const Served served(listener_);
    EXPECT_TRUE(node.shake_hands());
}

TEST_F(ExchangeReach, NoPortIsLeftInTimeWait) {
    const std::uint16_t port = listener_.port();
    {
        const Served served(listener_);
        EXPECT_EQ(reach({ip("127.0.0.1")}, port), (ReachResult{0}));
    }
    Channel staying(test::connect_to(port), worker());
    {
        const Served served(listener_);
        EXPECT_TRUE(staying.shake_hands());
    }
    { const auto gone = std::move(listener_); }
    EXPECT_TRUE(bind_port(port, PortSharing::Alone)); // EADDRINUSE otherwise
}

TEST_F(ExchangeReach, ListensOnAHeldPortAndGivesItBack) {
    auto held = bind_port(0, PortSharing::Alone).value();
    const std::uint16_t port = local_port(held.get());
    held.reset();
    held = bind_port(port, PortSharing::Alone).value(); // by its number, as a step's ports are: only then it stays
    const auto other = ReachListener::open(port, key_);
    ASSERT_TRUE(other); // on another port, as this one is another's
    EXPECT_NE(other->port(), port);
    std::optional<Channel> left;
    {
        auto opened = ReachListener::open(port, key_, held.get());
        ASSERT_TRUE(opened);
        EXPECT_EQ(opened->port(), port);
        auto moved = std::move(*opened);
        EXPECT_EQ(listen_on(port, PortSharing::Reuse).error().os_error, EADDRINUSE); // nobody else can
        const Served served(moved);
        EXPECT_EQ(reach({ip("127.0.0.1")}, port), (ReachResult{0}));
        left.emplace(test::connect_to(port), worker());
        EXPECT_TRUE(left->shake_hands());
    }
    EXPECT_EQ(reach({ip("127.0.0.1")}, port), (ReachResult{ECONNREFUSED}));
    EXPECT_EQ(listen_on(port, PortSharing::Reuse).error().os_error, EADDRINUSE);
    allow_reuse(held.get());
    EXPECT_TRUE(listen_on(port, PortSharing::Reuse)); // no connection of the test is in the way
}

TEST_F(ExchangeReach, ASocketThatCannotListenDoesNotMatter) {
    const int none = 1 << 20;
    const auto other = ReachListener::open(1, key_, none);
    ASSERT_TRUE(other);
    EXPECT_GT(other->port(), 1);
}

} // namespace
} // namespace rdma_nccl
