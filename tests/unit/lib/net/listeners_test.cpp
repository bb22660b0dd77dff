// SPDX-License-Identifier: Apache-2.0
// Who listens is the kernel's to say: these tests ask it for sockets of their own.
#include "lib/net/listeners.h"

#include "lib/base/format.h"
#include "lib/base/unique_fd.h"
#include "lib/net/tcp.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>

namespace rdma_nccl {
namespace {

IpAddress ip(const char* text) {
    return IpAddress::parse(text).value();
}

/// Nothing where this machine has no such address.
UniqueFd listen_at(const char* address, int family, std::uint16_t port = 0) {
    UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    if (family == AF_INET6) {
        (void)::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    }
    const auto place = socket_address(ip(address), port, family);
    const bool good = ::bind(socket.get(), place.get(), place.length) == 0 && ::listen(socket.get(), 8) == 0;
    return good ? std::move(socket) : UniqueFd();
}

std::vector<PortListener> at(std::uint16_t port) {
    return find_listeners(std::span(&port, 1)).value();
}

std::string own_name() {
    return format_text("uid {} (unit, pid {})", ::geteuid(), ::getpid());
}

struct stat status_of(int socket) {
    struct stat status {};
    EXPECT_EQ(::fstat(socket, &status), 0);
    return status;
}

TEST(Listeners, AllOfOneAddress) {
    const auto socket = listen_at("127.0.0.1", AF_INET);
    ASSERT_TRUE(socket);
    const auto port = local_port(socket.get());
    const auto inode = static_cast<std::uint32_t>(status_of(socket.get()).st_ino);
    const PortListener expected = {port, ip("127.0.0.1"), ::geteuid(), inode, ListenerProgram{"unit", ::getpid()}};
    EXPECT_EQ(at(port), std::vector{expected});
}

TEST(Listeners, AllAddressesAndBothFamilies) {
    const auto any = listen_at("0.0.0.0", AF_INET);
    ASSERT_TRUE(any);
    const auto port = local_port(any.get());
    ASSERT_EQ(at(port).size(), 1U);
    EXPECT_TRUE(at(port)[0].address.is_zero());
    EXPECT_EQ(at(port)[0].address.text(), "0.0.0.0");
    const auto ipv6 = listen_at("::1", AF_INET6, port);
    if (!ipv6) {
        GTEST_SKIP() << "no IPv6";
    }
    const auto both = at(port);
    ASSERT_EQ(both.size(), 2U);
    EXPECT_EQ(both[1].address, ip("::1"));
    EXPECT_NE(both[0].inode, both[1].inode);
    const auto dual = listen_on(0, PortSharing::Alone).value();
    const auto of_dual = at(local_port(dual.get()));
    ASSERT_EQ(of_dual.size(), 1U);
    EXPECT_EQ(of_dual[0].address, IpAddress());
}

TEST(Listeners, OnlyWhoListensAtThesePorts) {
    const auto held = bind_port(0, PortSharing::Alone).value();
    allow_reuse(held.get());
    const auto held_port = local_port(held.get());
    EXPECT_TRUE(at(held_port).empty());
    const auto first = listen_at("127.0.0.1", AF_INET);
    const auto second = listen_at("127.0.0.1", AF_INET);
    const auto third = listen_at("127.0.0.1", AF_INET);
    std::array ports = {local_port(third.get()), local_port(first.get()), held_port};
    const auto found = find_listeners(ports).value();
    std::sort(ports.begin(), ports.begin() + 2);
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[0].port, ports[0]);
    EXPECT_EQ(found[1].port, ports[1]);
    EXPECT_TRUE(find_listeners({}).value().empty());
    // A connection of that port is not a listener.
    const auto client = start_connection(ip("127.0.0.1"), ports[0]).value();
    EXPECT_TRUE(at(local_port(client.get())).empty());
    EXPECT_EQ(at(ports[0]).size(), 1U);
}

TEST(Listeners, OneUnderAHoldIsFound) {
    const auto held = bind_port(0, PortSharing::Alone).value();
    allow_reuse(held.get());
    const auto port = local_port(held.get());
    const auto program = listen_on(port, PortSharing::Reuse).value();
    ASSERT_EQ(at(port).size(), 1U);
    EXPECT_EQ(at(port)[0].inode, status_of(program.get()).st_ino);
}

/// A child of another user that listens at a held port while this lives.
class Stranger {
public:
    Stranger(uid_t uid, std::uint16_t port) {
        std::array<int, 2> ready{};
        std::array<int, 2> stay{};
        EXPECT_EQ(::pipe(ready.data()) + ::pipe(stay.data()), 0);
        child_ = ::fork();
        if (child_ == 0) {
            ::close(stay[1]);
            char byte = 0;
            const auto socket = ::setuid(uid) == 0 ? listen_on(port, PortSharing::Reuse) : fail("setuid");
            (void)!::write(ready[1], socket ? "+" : "-", 1);
            (void)!::read(stay[0], &byte, 1);
            ::_exit(0);
        }
        ::close(ready[1]);
        ::close(stay[0]);
        stay_.reset(stay[1]);
        char byte = 0;
        const UniqueFd from(ready[0]);
        listens = ::read(from.get(), &byte, 1) == 1 && byte == '+';
    }
    Stranger(const Stranger&) = delete;
    Stranger& operator=(const Stranger&) = delete;
    ~Stranger() {
        stay_.reset();
        (void)::waitpid(child_, nullptr, 0);
    }

    [[nodiscard]] pid_t pid() const { return child_; }

    bool listens = false;

private:
    pid_t child_ = 0;
    UniqueFd stay_;
};

TEST(Listeners, AnotherUserIsAStranger) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "another user needs root";
    }
    constexpr uid_t bob = 54321;
    const auto held = bind_port(0, PortSharing::Alone).value();
    allow_reuse(held.get());
    const auto port = local_port(held.get());
    const Stranger stranger(bob, port);
    ASSERT_TRUE(stranger.listens);
    const auto found = at(port);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].uid, bob);
    EXPECT_EQ(found[0].program, (ListenerProgram{"unit", stranger.pid()}));
    EXPECT_EQ(strangers(found, 1001), found);
    EXPECT_TRUE(strangers(found, bob).empty());
    EXPECT_EQ(format_listeners(port), format_text("uid 54321 (unit, pid {}) listens there", stranger.pid()));
}

TEST(Listeners, AProgramThatMayNotBeLookedAtHasNoName) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "another user needs root";
    }
    const auto held = bind_port(0, PortSharing::Alone).value();
    allow_reuse(held.get());
    const auto port = local_port(held.get());
    const Stranger stranger(54321, port);
    ASSERT_TRUE(stranger.listens);
    ASSERT_EQ(::seteuid(54322), 0);
    const auto found = at(port);
    const auto text = format_listeners(port);
    ASSERT_EQ(::seteuid(0), 0);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].uid, 54321U);
    EXPECT_FALSE(found[0].program);
    EXPECT_EQ(text, "uid 54321 listens there");
}

TEST(Listeners, StrangersAreNeitherTheUserNorRoot) {
    const PortListener root = {23456, {}, 0, 1, {}};
    const PortListener user = {23456, {}, 1001, 2, {}};
    const PortListener bob = {23457, {}, 1002, 3, {}};
    const std::vector all = {root, user, bob};
    EXPECT_EQ(strangers(all, 1001), std::vector{bob});
    EXPECT_EQ(strangers(all, 0), (std::vector{user, bob}));
    EXPECT_TRUE(strangers({}, 0).empty());
}

TEST(Listeners, WordsOfAStranger) {
    PortListener bob = {23456, {}, 1002, 3, ListenerProgram{"python3", 4711}};
    EXPECT_EQ(format_stranger(bob), "uid 1002, python3 (pid 4711) listens on port 23456 of this step: ranks may "
                                    "connect to it; end that program, or set another port=");
    bob.program.reset();
    EXPECT_EQ(format_stranger(bob), "uid 1002 listens on port 23456 of this step: ranks may connect to it; end "
                                    "that program, or set another port=");
}

TEST(Listeners, WordsForWhoCouldNotListen) {
    const auto any = listen_at("127.0.0.1", AF_INET);
    const auto port = local_port(any.get());
    EXPECT_EQ(format_listeners(port), own_name() + " listens there");
    const auto ipv6 = listen_at("::1", AF_INET6, port);
    EXPECT_EQ(format_listeners(port), own_name() + " listens there"); // one program, said once
    const auto free = listen_at("127.0.0.1", AF_INET);
    const auto free_port = local_port(free.get());
    (void)::shutdown(free.get(), SHUT_RDWR);
    EXPECT_EQ(format_listeners(free_port), "");
}

// --- What the kernel says ---

using Bytes = std::vector<std::byte>;

void append(Bytes& bytes, const void* data, std::size_t size) {
    const auto* const first = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), first, first + size);
}

void append_message(Bytes& bytes, std::uint16_t type, const void* body, std::size_t size) {
    nlmsghdr header{};
    header.nlmsg_len = static_cast<std::uint32_t>(NLMSG_HDRLEN + size);
    header.nlmsg_type = type;
    append(bytes, &header, sizeof header);
    append(bytes, body, size);
}

inet_diag_msg listener_message(int state = TCP_LISTEN, int family = AF_INET) {
    inet_diag_msg message{};
    message.idiag_family = static_cast<std::uint8_t>(family);
    message.idiag_state = static_cast<std::uint8_t>(state);
    message.id.idiag_sport = htons(23456);
    message.id.idiag_src[0] = htonl(0x0a000001);
    message.idiag_uid = 1002;
    message.idiag_inode = 99;
    return message;
}

TEST(DiagAnswers, TheListAndItsEnd) {
    Bytes bytes;
    for (const auto& message : {listener_message(), listener_message(TCP_CLOSE), listener_message(TCP_LISTEN, AF_UNIX),
                                listener_message(TCP_LISTEN, AF_INET6)}) {
        append_message(bytes, SOCK_DIAG_BY_FAMILY, &message, sizeof message);
    }
    const auto begun = parse_diag_answer(bytes);
    EXPECT_EQ(begun.listeners,
              (std::vector<PortListener>{{23456, ip("10.0.0.1"), 1002, 99, {}}, {23456, ip("a00:1::"), 1002, 99, {}}}));
    EXPECT_FALSE(begun.complete);
    const int zero = 0;
    append_message(bytes, NLMSG_DONE, &zero, sizeof zero);
    const auto message = listener_message();
    append_message(bytes, SOCK_DIAG_BY_FAMILY, &message, sizeof message);
    const auto all = parse_diag_answer(bytes);
    EXPECT_EQ(all.listeners, begun.listeners); // nothing comes after the end
    EXPECT_TRUE(all.complete);
    EXPECT_EQ(all.error, 0);
}

TEST(DiagAnswers, ARefusal) {
    for (const auto& [code, expected] : {std::pair(-ENOENT, ENOENT), {-5000, EPROTO}, {INT32_MIN, EPROTO}, {7, 0}}) {
        Bytes bytes;
        append_message(bytes, NLMSG_ERROR, &code, sizeof code);
        EXPECT_EQ(parse_diag_answer(bytes).error, expected) << code;
    }
}

TEST(DiagAnswers, WhatIsCutOffIsLeftOut) {
    Bytes bytes;
    const auto message = listener_message();
    append_message(bytes, SOCK_DIAG_BY_FAMILY, &message, sizeof message);
    append_message(bytes, SOCK_DIAG_BY_FAMILY, &message, sizeof message);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        const auto listeners = parse_diag_answer(std::span(bytes).first(size)).listeners;
        EXPECT_EQ(listeners.size(), size / (bytes.size() / 2)) << size;
    }
    Bytes small;
    append_message(small, SOCK_DIAG_BY_FAMILY, &message, sizeof message - 4);
    EXPECT_TRUE(parse_diag_answer(small).listeners.empty());
    const nlmsghdr without_length{};
    Bytes endless;
    append(endless, &without_length, sizeof without_length);
    append(endless, bytes.data(), bytes.size());
    EXPECT_TRUE(parse_diag_answer(endless).listeners.empty());
}

} // namespace
} // namespace rdma_nccl
