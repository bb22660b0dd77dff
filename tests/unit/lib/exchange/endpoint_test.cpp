// SPDX-License-Identifier: Apache-2.0
#include "lib/exchange/messages.h"

#include "lib/settings/settings.h"
#include "tests/unit/exchange_nodes.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <string>

namespace rdma_nccl {
namespace {

using test::ip;

std::string with(const std::string& addresses) {
    return "2;34567;30;" + addresses;
}

ExchangeEndpoint example() {
    return {{ip("10.1.2.3"), ip("fd00::1")}, 34567, 30};
}

TEST(ExchangeEndpoint, IsWrittenAndReadAgain) {
    EXPECT_EQ(write_endpoint(example()), with("10.1.2.3,fd00::1"));
    EXPECT_EQ(read_endpoint(write_endpoint(example())), example());
    auto many = example();
    many.port = 65535;
    many.seconds = most_exchange_seconds;
    many.addresses.assign(8, ip("1111:2222:3333:4444:5555:6666:7777:8888"));
    EXPECT_EQ(read_endpoint(write_endpoint(many)), many);
    many.seconds = most_exchange_seconds + 1; // no node may be made to wait for longer
    EXPECT_EQ(read_endpoint(write_endpoint(many)), std::nullopt);
    many.seconds = 0;
    EXPECT_EQ(read_endpoint(write_endpoint(many)), std::nullopt);
}

TEST(ExchangeEndpoint, ALaterVersionMayAddFields) {
    EXPECT_EQ(read_endpoint(write_endpoint(example()) + ";protocol=3;x"), example());
}

TEST(ExchangeEndpoint, MalformedTextIsRefused) {
    ASSERT_TRUE(read_endpoint(with("10.1.2.3")));
    const std::string nine = "10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4,10.0.0.5,10.0.0.6,10.0.0.7,10.0.0.8,10.0.0.9";
    for (const auto& bad :
         {std::string(),
          std::string(";;;;;"),
          with(""),
          with("n01"),
          with("10.1.2.3,"),
          with(",10.1.2.3"),
          with("10.1.2.3 "),
          with(nine),
          with("fe80::1%eth0"),
          std::string("1;34567;30;10.1.2.3"),
          std::string(";34567;30;10.1.2.3"),
          std::string("2;0;30;10.1.2.3"),
          std::string("2;65536;30;10.1.2.3"),
          std::string("2;-1;30;10.1.2.3"),
          std::string("2;x;30;10.1.2.3"),
          std::string("2;34567;-1;10.1.2.3"),
          std::string("2;34567;4294967296;10.1.2.3"),
          std::string("2;34567;;10.1.2.3"),
          std::string("2;34567;30s;10.1.2.3"),
          std::string("2;34567;10.1.2.3"),
          std::string("1;34567;000102030405060708090a0b0c0d0e0f;f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff;60;10.1.2.3"),
          with("10.1.2.3") + '\n',
          with("10.1.2.3") + std::string(1, '\0')}) {
        EXPECT_FALSE(read_endpoint(bad)) << bad;
    }
}

// What was cut off could be the end of an address.
TEST(ExchangeEndpoint, TooLongTextIsRefusedAsAWhole) {
    const std::string zeros(1024 - with("10.1.2.3").size(), '0');
    const std::string longest = "2;" + zeros + with("10.1.2.3").substr(2);
    ASSERT_EQ(longest.size(), 1024U);
    EXPECT_TRUE(read_endpoint(longest));
    EXPECT_FALSE(read_endpoint(longest + "4"));
    EXPECT_FALSE(read_endpoint(longest + ",10.1.2.4"));
    EXPECT_FALSE(read_endpoint(std::string(1U << 20U, ';')));
}

TEST(ExchangeEndpoint, AnyCutTextIsRefusedOrAnAddressShorter) {
    const auto text = write_endpoint(example());
    const auto last = text.rfind(';');
    for (std::size_t length = 0; length <= last; ++length) {
        EXPECT_FALSE(read_endpoint(text.substr(0, length))) << length;
    }
}

TEST(ExchangeEndpoint, PublishedAddressesAreSomeOfOursAndIpv4ComesFirst) {
    const auto own = own_addresses();
    const auto addresses = published_addresses();
    EXPECT_LE(addresses.size(), 8U);
    EXPECT_TRUE(std::is_partitioned(addresses.begin(), addresses.end(), [](const auto& a) { return a.is_ipv4(); }));
    for (const auto& address : addresses) {
        EXPECT_TRUE(address.is_routable()) << address.text();
        EXPECT_TRUE(std::find(own.begin(), own.end(), address) != own.end()) << address.text();
    }
}

} // namespace
} // namespace rdma_nccl
