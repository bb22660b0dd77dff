// SPDX-License-Identifier: Apache-2.0
// The kernel's list of interfaces is there on every machine. What kernels answer else is put in libnl's place.
#include "lib/sys/netlink_dump.h"

#include <gtest/gtest.h>

#ifdef HAVE_LIBNL

#include <cstring>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <thread>

namespace rdma_nccl {
namespace {

using std::chrono::milliseconds;

struct Got {
    std::size_t messages = 0;
    std::size_t bytes = 0;
    int restarts = 0;

    NetlinkReader reader() {
        return {[this](std::span<const std::byte> message) {
                    ++messages;
                    bytes += message.size();
                },
                [this] {
                    ++restarts;
                    messages = 0;
                }};
    }
};

class NetlinkDump : public testing::Test {
protected:
    std::optional<NetlinkFailure> dump(const NetlinkRequest& request, milliseconds limit = milliseconds(5000)) {
        const auto error = netlink_dump(library_, request, got_.reader(), limit);
        EXPECT_TRUE(!error || !error->text.empty());
        return error ? std::optional(error->failure) : std::nullopt;
    }

    LibnlLibrary library_ = LibnlLibrary::load().value();
    Got got_;
};

// What is an attribute elsewhere is read as an rtgenmsg here: of a family that has no list of its own.
constexpr NetlinkRequest interfaces{NETLINK_ROUTE, RTM_GETLINK, NetlinkRequest::Attribute{0, 0}};

TEST_F(NetlinkDump, OfThisKernel) {
    EXPECT_EQ(dump(interfaces), std::nullopt);
    EXPECT_GE(got_.messages, 1U) << "lo, at least";
    EXPECT_GE(got_.bytes, got_.messages * 16);
    EXPECT_EQ(got_.restarts, 0);
}

TEST_F(NetlinkDump, NobodyAnswers) {
    EXPECT_EQ(dump({NETLINK_ROUTE, RTM_GETLINK, {}}, milliseconds(20)), NetlinkFailure::Unresponsive)
        << "a message without rtgenmsg";
}

TEST_F(NetlinkDump, NoSuchProtocol) {
    EXPECT_EQ(dump({NETLINK_UNUSED, RTM_GETLINK, {}}), NetlinkFailure::NoProtocol);
}

TEST_F(NetlinkDump, NoSuchRequest) {
    EXPECT_EQ(dump({NETLINK_ROUTE, RTM_MAX + 100, interfaces.attribute}), NetlinkFailure::Refused);
}

TEST_F(NetlinkDump, ListThatChangedBeginsAgain) {
    static int left;
    left = 2;
    static decltype(library_.recvmsgs_default) real;
    real = library_.recvmsgs_default;
    library_.recvmsgs_default = [](nl_sock* socket) {
        const int status = real(socket);
        return left-- > 0 ? -NLE_DUMP_INTR : status;
    };
    EXPECT_EQ(dump(interfaces), std::nullopt);
    EXPECT_EQ(got_.restarts, 2);
    EXPECT_GE(got_.messages, 1U);
}

TEST_F(NetlinkDump, ListThatAlwaysChangesIsTakenAsItIs) {
    static decltype(library_.recvmsgs_default) real;
    real = library_.recvmsgs_default;
    library_.recvmsgs_default = [](nl_sock* socket) {
        (void)real(socket);
        return -NLE_DUMP_INTR;
    };
    EXPECT_EQ(dump(interfaces), std::nullopt);
    EXPECT_EQ(got_.restarts, 2);
    EXPECT_GE(got_.messages, 1U);
}

/// The last message of a list, with what the kernel says there: 0, or an errno.
template<int Result>
nlmsghdr* end_of_list(nl_msg*) {
    static struct {
        nlmsghdr header;
        int result;
    } message{{NLMSG_LENGTH(sizeof(int)), NLMSG_DONE, NLM_F_MULTI, 1, 0}, Result};
    return &message.header;
}

TEST_F(NetlinkDump, ListThatEndsWithAnError) {
    library_.message_header = end_of_list<-ENODEV>;
    EXPECT_EQ(dump(interfaces), NetlinkFailure::Refused);
    library_.message_header = end_of_list<-EMSGSIZE>;
    EXPECT_EQ(dump(interfaces), NetlinkFailure::Other);
    library_.message_header = end_of_list<0>;
    EXPECT_EQ(dump(interfaces), std::nullopt);
}

TEST_F(NetlinkDump, WhatTheReaderThrowsStaysHere) {
    const NetlinkReader reader{[](std::span<const std::byte>) { throw std::bad_alloc(); }, [] {}};
    const auto error = netlink_dump(library_, interfaces, reader, milliseconds(5000));
    ASSERT_TRUE(error);
    EXPECT_EQ(error->failure, NetlinkFailure::Other);
}

TEST_F(NetlinkDump, AnswerWithoutAnEnd) {
    const NetlinkReader slow{[](std::span<const std::byte>) { std::this_thread::sleep_for(milliseconds(30)); }, [] {}};
    static decltype(library_.recvmsgs_default) real;
    real = library_.recvmsgs_default;
    library_.recvmsgs_default = [](nl_sock* socket) {
        std::this_thread::sleep_for(milliseconds(30)); // one interface is all that there may be
        return real(socket);
    };
    const auto error = netlink_dump(library_, interfaces, slow, milliseconds(20));
    ASSERT_TRUE(error);
    EXPECT_EQ(error->failure, NetlinkFailure::Unresponsive);
}

} // namespace
} // namespace rdma_nccl

#endif
