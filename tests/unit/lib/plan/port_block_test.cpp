// SPDX-License-Identifier: Apache-2.0
// What held ports are to other programs is the kernel's to say: these tests ask it.
#include "lib/plan/port_block.h"

#include "lib/net/ip.h"
#include "lib/net/tcp.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace rdma_nccl {
namespace {

/// Outside of the usual ephemeral range.
constexpr PortRange range = {21000, 21399};

PortBlock derived(std::uint16_t first) {
    return {first, static_cast<std::uint16_t>(first + 1), "derived", "of job 7, step 0", {}};
}

HeldPorts hold(const PortBlock& wanted, BlockChoice choice = BlockChoice::Movable) {
    return hold_ports(wanted, {}, range, choice);
}

/// A block of which all ports are free now, and the one after it.
std::uint16_t free_block() {
    for (unsigned first = range.first; first + 8 <= range.last; first += 8) {
        std::vector<UniqueFd> sockets;
        for (unsigned port = first; port < first + 8; ++port) {
            if (auto socket = bind_port(static_cast<std::uint16_t>(port), PortSharing::Alone)) {
                sockets.push_back(std::move(*socket));
            }
        }
        if (sockets.size() == 8) {
            return static_cast<std::uint16_t>(first);
        }
    }
    return 0;
}

std::uint16_t plus(std::uint16_t port, unsigned more) {
    return static_cast<std::uint16_t>(port + more);
}

class PortHold : public testing::Test {
protected:
    void SetUp() override {
        if (first_ == 0) {
            GTEST_SKIP() << "no eight free ports in a row";
        }
    }

    std::uint16_t first_ = free_block();
};

TEST_F(PortHold, TheWantedBlock) {
    const auto held = hold(derived(first_));
    EXPECT_EQ(held.block, derived(first_));
    ASSERT_EQ(held.sockets.size(), 4U);
    for (unsigned i = 0; i < 4; ++i) {
        EXPECT_EQ(local_port(held.sockets[i].get()), first_ + i);
    }
}

TEST_F(PortHold, ASecondHolderGetsTheNextBlock) {
    const auto held = hold(derived(first_));
    const auto second = hold(derived(first_));
    ASSERT_EQ(second.sockets.size(), 4U);
    EXPECT_EQ(second.block.first, first_ + 4);
    EXPECT_EQ(second.block.second, first_ + 5);
    EXPECT_EQ(second.block.why, "of job 7, step 0, moved on as port " + std::to_string(first_) + " is in use");
    EXPECT_TRUE(second.block.warnings.empty());
}

TEST_F(PortHold, AnyBusyPortOfABlockMovesIt) {
    for (unsigned i = 0; i < 4; ++i) {
        const auto busy = bind_port(plus(first_, i), PortSharing::Alone);
        ASSERT_TRUE(busy);
        EXPECT_EQ(hold(derived(first_)).block.first, first_ + 4) << i;
    }
    const auto listening = listen_on(plus(first_, 2), PortSharing::Reuse);
    ASSERT_TRUE(listening);
    EXPECT_EQ(hold(derived(first_)).block.first, first_ + 4);
}

TEST_F(PortHold, WhatIsNoLongerHeldIsFree) {
    { const auto held = hold(derived(first_)); }
    EXPECT_EQ(hold(derived(first_)).block.first, first_);
}

TEST_F(PortHold, AtTheEndOfTheRangeTheBeginningIsNext) {
    const PortRange two = {first_, plus(first_, 7)};
    const auto held = hold_ports(derived(plus(first_, 4)), {}, two, BlockChoice::Movable);
    const auto second = hold_ports(derived(plus(first_, 4)), {}, two, BlockChoice::Movable);
    EXPECT_EQ(second.block.first, first_);
    const auto third = hold_ports(derived(plus(first_, 4)), {}, two, BlockChoice::Movable);
    EXPECT_TRUE(third.sockets.empty());
    EXPECT_EQ(third.block.first, first_ + 4);
    EXPECT_EQ(third.block.warnings.size(), 1U);
    // No whole block fits: there is none to move to.
    const auto tiny = hold_ports(derived(first_), {}, {first_, plus(first_, 2)}, BlockChoice::Movable);
    EXPECT_TRUE(tiny.sockets.empty());
    EXPECT_EQ(tiny.block.warnings.size(), 1U);
}

TEST_F(PortHold, AFixedBlockStaysAndWarns) {
    const auto busy = bind_port(plus(first_, 1), PortSharing::Alone);
    const auto held = hold(derived(first_), BlockChoice::Fixed);
    EXPECT_TRUE(held.sockets.empty());
    EXPECT_EQ(held.block.first, first_);
    EXPECT_EQ(held.block.warnings,
              (std::vector<std::string>{"port " + std::to_string(first_ + 1) +
                                        " is or was recently in use on this node; rank 0 may be unable to listen: give "
                                        "port=N"}));
}

TEST_F(PortHold, APortOfTheUserStaysWhereItIs) {
    const auto busy = bind_port(first_, PortSharing::Alone);
    auto wanted = derived(first_);
    wanted.source = "setting";
    const auto held = hold(wanted);
    EXPECT_TRUE(held.sockets.empty());
    EXPECT_EQ(held.block.first, first_);
    ASSERT_EQ(held.block.warnings.size(), 1U);
    EXPECT_NE(held.block.warnings[0].find("give another port="), std::string::npos);
    wanted.source = "user";
    const auto users = hold(wanted);
    EXPECT_TRUE(users.sockets.empty());
    EXPECT_EQ(users.block, wanted);
}

TEST_F(PortHold, ReservedPortsWithoutTheBusyOnes) {
    const PortBlock wanted = {first_, plus(first_, 1), "slurm", "of SLURM_STEP_RESV_PORTS", {}};
    const std::vector<std::uint16_t> reserved = {first_, plus(first_, 1), plus(first_, 2), plus(first_, 5),
                                                 plus(first_, 6)};
    {
        const auto held = hold_ports(wanted, reserved, range, BlockChoice::Movable);
        EXPECT_EQ(held.sockets.size(), 4U); // no more than a block
        EXPECT_EQ(held.block, wanted);
    }
    const auto busy = bind_port(first_, PortSharing::Alone);
    {
        const auto held = hold_ports(wanted, reserved, range, BlockChoice::Movable);
        EXPECT_EQ(held.sockets.size(), 4U);
        EXPECT_EQ(held.block.first, first_ + 1);
        EXPECT_EQ(held.block.second, first_ + 2);
        EXPECT_EQ(held.block.why, "of SLURM_STEP_RESV_PORTS; " + std::to_string(first_) + " is in use");
        EXPECT_TRUE(held.block.warnings.empty());
    }
    const auto one = hold_ports(wanted, std::vector{first_, plus(first_, 6)}, range, BlockChoice::Movable);
    EXPECT_EQ(one.block.first, first_ + 6);
    EXPECT_FALSE(one.block.second);
    const auto none = hold_ports(wanted, std::vector{first_}, range, BlockChoice::Movable);
    EXPECT_TRUE(none.sockets.empty());
    EXPECT_EQ(none.block.first, first_);
    EXPECT_EQ(none.block.warnings.size(), 1U);
}

// --- What a held port is to a program ---

UniqueFd socket_of(int family) {
    return UniqueFd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

enum class Reuse { No, Yes };

/// 0, or the errno of bind(2) or listen(2).
int listen_as_a_program(const UniqueFd& socket, const IpAddress& address, std::uint16_t port, int family, Reuse reuse) {
    const int on = reuse == Reuse::Yes ? 1 : 0;
    (void)::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const auto place = socket_address(address, port, family);
    return ::bind(socket.get(), place.get(), place.length) == 0 && ::listen(socket.get(), 8) == 0 ? 0 : errno;
}

bool has_ipv6() {
    const auto socket = socket_of(AF_INET6);
    const auto place = socket_address(*IpAddress::parse("::1"), 0, AF_INET6);
    return socket && ::bind(socket.get(), place.get(), place.length) == 0;
}

struct Place {
    const char* address;
    int family;
};

std::vector<Place> places() {
    std::vector<Place> all = {{"0.0.0.0", AF_INET}, {"127.0.0.1", AF_INET}};
    if (has_ipv6()) {
        all.push_back({"::", AF_INET6});
        all.push_back({"::1", AF_INET6});
    }
    return all;
}

TEST_F(PortHold, AProgramWithReuseaddrListensAndAccepts) {
    const auto held = hold(derived(first_));
    ASSERT_EQ(held.sockets.size(), 4U);
    open_for_reuse(held.sockets);
    for (const auto& [address, family] : places()) {
        for (unsigned i = 0; i < 4; ++i) {
            const auto port = plus(first_, i);
            const auto program = socket_of(family);
            ASSERT_EQ(listen_as_a_program(program, *IpAddress::parse(address), port, family, Reuse::Yes), 0)
                << address << ": " << std::strerror(errno);
            const auto client = socket_of(family);
            const char* const to = family == AF_INET ? "127.0.0.1" : "::1";
            const auto peer = socket_address(*IpAddress::parse(to), port, family);
            EXPECT_EQ(::connect(client.get(), peer.get(), peer.length), 0) << address << std::strerror(errno);
            EXPECT_TRUE(UniqueFd(::accept4(program.get(), nullptr, nullptr, SOCK_CLOEXEC))) << address;
        }
    }
}

TEST_F(PortHold, BeforeItIsOpenedNoOptionHelps) {
    const auto held = hold(derived(first_));
    ASSERT_EQ(held.sockets.size(), 4U);
    for (const auto& [address, family] : places()) {
        for (unsigned i = 0; i < 4; ++i) {
            const auto program = socket_of(family);
            const int on = 1;
            EXPECT_EQ(::setsockopt(program.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on), 0);
            EXPECT_EQ(listen_as_a_program(program, *IpAddress::parse(address), plus(first_, i), family, Reuse::Yes),
                      EADDRINUSE)
                << address;
        }
    }
}

TEST_F(PortHold, TheSocketOfAPort) {
    const auto held = hold(derived(first_));
    ASSERT_EQ(held.sockets.size(), 4U);
    EXPECT_EQ(held_socket(held.sockets, first_), held.sockets[0].get());
    EXPECT_EQ(held_socket(held.sockets, plus(first_, 3)), held.sockets[3].get());
    EXPECT_EQ(held_socket(held.sockets, plus(first_, 4)), -1);
    EXPECT_EQ(held_socket(held.sockets, static_cast<std::uint16_t>(first_ - 1)), -1);
    EXPECT_EQ(held_socket({}, first_), -1);
}

/// What the connection test does, and what is left of it.
TEST_F(PortHold, AHeldSocketListensAndIsHeldAgain) {
    const auto held = hold(derived(first_));
    ASSERT_EQ(held.sockets.size(), 4U);
    {
        const auto listener = listen_on_bound(held.sockets[0].get());
        ASSERT_TRUE(listener);
        const auto client = start_connection(*IpAddress::parse("127.0.0.1"), first_);
        ASSERT_TRUE(client);
        pollfd waiting = {listener->get(), POLLIN, 0};
        ASSERT_EQ(::poll(&waiting, 1, 10000), 1);
        const UniqueFd accepted(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
        ASSERT_TRUE(accepted);
        allow_reuse(accepted.get()); // it has what the held socket has, and stays for a minute
        stop_listening(listener->get());
    }
    EXPECT_EQ(local_port(held.sockets[0].get()), first_);
    EXPECT_EQ(hold(derived(first_)).block.first, first_ + 4);
    const auto client = socket_of(AF_INET);
    const auto peer = socket_address(*IpAddress::parse("127.0.0.1"), first_, AF_INET);
    EXPECT_EQ(::connect(client.get(), peer.get(), peer.length), -1);
    EXPECT_EQ(errno, ECONNREFUSED);
    EXPECT_EQ(bind_port(first_, PortSharing::Reuse).error().os_error, EADDRINUSE);
    open_for_reuse(held.sockets);
    EXPECT_TRUE(listen_on(first_, PortSharing::Reuse));
}

TEST_F(PortHold, OneWithoutReuseaddrDoesNot) {
    const auto held = hold(derived(first_));
    open_for_reuse(held.sockets);
    for (const auto& [address, family] : places()) {
        EXPECT_EQ(listen_as_a_program(socket_of(family), *IpAddress::parse(address), first_, family, Reuse::No),
                  EADDRINUSE)
            << address;
    }
}

TEST_F(PortHold, NobodyAnswersAtAHeldPort) {
    const auto held = hold(derived(first_));
    open_for_reuse(held.sockets);
    const auto client = socket_of(AF_INET);
    const auto peer = socket_address(*IpAddress::parse("127.0.0.1"), first_, AF_INET);
    EXPECT_EQ(::connect(client.get(), peer.get(), peer.length), -1);
    EXPECT_EQ(errno, ECONNREFUSED);
}

/// In a child with a network of its own: what `work` returns, 0 to 99; 100 where there is no such network.
int in_own_network(const std::function<int()>& work) {
    const pid_t child = ::fork();
    if (child == 0) {
        ifreq loopback{};
        std::strcpy(loopback.ifr_name, "lo");
        loopback.ifr_flags = IFF_UP;
        if (::unshare(CLONE_NEWNET) != 0 || ::ioctl(socket_of(AF_INET).get(), SIOCSIFFLAGS, &loopback) != 0) {
            ::_exit(100);
        }
        // In a new network namespace, /proc/sys/net of a process is its own.
        const UniqueFd file(::open("/proc/sys/net/ipv4/ip_local_port_range", O_WRONLY | O_CLOEXEC));
        constexpr std::string_view text = "21000 21007\n";
        if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
            ::_exit(100);
        }
        ::_exit(work());
    }
    int status = -1;
    return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// How many sockets of those that the kernel gives a port to got one of the held block; 99 if none got any.
int count_taken(bool open, bool reuse, bool connect) {
    const auto held = hold_ports(derived(21002), {}, {21000, 21007}, BlockChoice::Fixed);
    if (open) {
        open_for_reuse(held.sockets);
    }
    const auto server = listen_on(30000, PortSharing::Alone);
    if (held.sockets.size() != 4 || !server) {
        return 98;
    }
    std::vector<UniqueFd> sockets;
    int taken = 0;
    int given = 0;
    for (int i = 0; i < 64; ++i) {
        auto socket = socket_of(AF_INET);
        const int on = reuse ? 1 : 0;
        (void)::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        const auto place = connect ? socket_address(*IpAddress::parse("127.0.0.1"), 30000, AF_INET)
                                   : socket_address(IpAddress(), 0, AF_INET);
        const int result = connect ? ::connect(socket.get(), place.get(), place.length)
                                   : ::bind(socket.get(), place.get(), place.length);
        if (result == 0) {
            const auto port = local_port(socket.get());
            ++given;
            taken += port >= 21002 && port <= 21005 ? 1 : 0;
            sockets.push_back(std::move(socket));
        }
    }
    return given == 0 ? 99 : taken;
}

TEST(PortHoldInItsOwnNetwork, TheKernelGivesItToNobody) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "a network namespace needs root";
    }
    for (unsigned i = 0; i < 8; ++i) {
        const bool open = (i & 4U) != 0;
        const bool reuse = (i & 2U) != 0;
        const bool connect = (i & 1U) != 0;
        const int taken = in_own_network([=] { return count_taken(open, reuse, connect); });
        if (taken == 100) {
            GTEST_SKIP() << "this machine does not let root make network namespaces";
        }
        EXPECT_EQ(taken, 0) << (open ? "open, " : "") << (reuse ? "SO_REUSEADDR, " : "")
                            << (connect ? "connect" : "bind to port 0");
    }
}

} // namespace
} // namespace rdma_nccl
