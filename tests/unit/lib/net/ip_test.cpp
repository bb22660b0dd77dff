// SPDX-License-Identifier: Apache-2.0
#include "lib/net/ip.h"

#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

IpAddress address(const char* text) {
    return IpAddress::parse(text).value();
}

TEST(IpAddress, ReadsAndWritesBothFamilies) {
    EXPECT_EQ(address("10.0.0.1").text(), "10.0.0.1");
    EXPECT_EQ(address("::ffff:10.0.0.1"), address("10.0.0.1"));
    EXPECT_EQ(address("2001:DB8:0:0::1").text(), "2001:db8::1");
    for (const char* bad : {"", "10.0.0", "10.0.0.256", "fe80::1%eth0", "[::1]", "host", "1.2.3.4 "}) {
        EXPECT_FALSE(IpAddress::parse(bad).has_value()) << bad;
    }
    EXPECT_FALSE(IpAddress::parse(std::string_view("10.0.0.1\0x", 10)).has_value());
}

TEST(IpAddress, KnowsWhatOtherNodesReach) {
    for (const char* text : {"10.0.0.1", "192.0.2.7", "fd00::1", "2001:db8::1"}) {
        EXPECT_TRUE(address(text).is_routable()) << text;
    }
    for (const char* text :
         {"127.0.1.1", "::1", "0.0.0.0", "::", "169.254.3.4", "fe80::1", "febf::1", "224.0.0.1", "ff02::1"}) {
        EXPECT_FALSE(address(text).is_routable()) << text;
    }
    EXPECT_FALSE(address("2001:0:0:0:0:0:ffff:1").is_ipv4()) << "the pattern that an unanchored grep mistakes";
}

TEST(IpPrefix, ContainsByBits) {
    const auto prefix = IpPrefix::parse("25.11.128.40/27").value();
    EXPECT_EQ(prefix.text(), "25.11.128.32/27");
    EXPECT_TRUE(prefix.contains(address("25.11.128.63")));
    EXPECT_FALSE(prefix.contains(address("25.11.128.64")));
    EXPECT_FALSE(prefix.contains(address("fd00::1")));
    EXPECT_TRUE(IpPrefix::parse("0.0.0.0/0").value().contains(address("9.9.9.9")));
    EXPECT_FALSE(IpPrefix::parse("::/0").value().contains(address("9.9.9.9")));
    EXPECT_TRUE(IpPrefix::parse("fd00::/8").value().contains(address("fdff::1")));
    for (const char* bad : {"10.0.0.0", "10.0.0.0/33", "fd00::/129", "10.0.0.0/", "/8", "x/8", "10.0.0.0/-1"}) {
        EXPECT_FALSE(IpPrefix::parse(bad).has_value()) << bad;
    }
}

} // namespace
} // namespace rdma_nccl
