// SPDX-License-Identifier: Apache-2.0
#include "lib/exchange_endpoint.h"

#include "tests/unit/exchange_nodes.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <string>

namespace rdma_nccl {
namespace {

using test::ip;

const std::string question = "000102030405060708090a0b0c0d0e0f";
const std::string answer = "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff";

std::string with(const std::string& addresses) {
    return "1;34567;" + question + ";" + answer + ";60;" + addresses;
}

ExchangeEndpoint example() {
    ExchangeEndpoint endpoint;
    endpoint.addresses = {ip("10.1.2.3"), ip("fd00::1")};
    endpoint.port = 34567;
    endpoint.seconds = 60;
    for (unsigned i = 0; i < 16; ++i) {
        endpoint.secret.question.at(i) = static_cast<std::uint8_t>(i);
        endpoint.secret.answer.at(i) = static_cast<std::uint8_t>(0xf0U + i);
    }
    return endpoint;
}

TEST(ExchangeEndpoint, IsWrittenAndReadAgain) {
    EXPECT_EQ(write_endpoint(example()), with("10.1.2.3,fd00::1"));
    EXPECT_EQ(read_endpoint(write_endpoint(example())), example());
    auto many = example();
    many.secret = random_secret().value();
    many.port = 65535;
    many.seconds = 500;
    many.addresses.assign(8, ip("1111:2222:3333:4444:5555:6666:7777:8888"));
    EXPECT_EQ(read_endpoint(write_endpoint(many)), many);
    many.seconds = 501; // no node may be made to wait for longer
    EXPECT_EQ(read_endpoint(write_endpoint(many)), std::nullopt);
    many.seconds = 0;
    EXPECT_EQ(read_endpoint(write_endpoint(many)), std::nullopt);
}

TEST(ExchangeEndpoint, MalformedTextIsRefused) {
    ASSERT_TRUE(read_endpoint(with("10.1.2.3")));
    const std::string nine = "10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4,10.0.0.5,10.0.0.6,10.0.0.7,10.0.0.8,10.0.0.9";
    const std::string secrets = question + ";" + answer;
    for (const auto& bad : {std::string(),
                            std::string(";;;;;"),
                            with(""),
                            with("n01"),
                            with("10.1.2.3,"),
                            with(",10.1.2.3"),
                            with("10.1.2.3 "),
                            with("10.1.2.3;"),
                            with("10.1.2.3;x"),
                            with(nine),
                            with("fe80::1%eth0"),
                            "2;34567;" + secrets + ";60;10.1.2.3",
                            ";34567;" + secrets + ";60;10.1.2.3",
                            "1;0;" + secrets + ";60;10.1.2.3",
                            "1;65536;" + secrets + ";60;10.1.2.3",
                            "1;-1;" + secrets + ";60;10.1.2.3",
                            "1;34567;" + secrets + ";-1;10.1.2.3",
                            "1;34567;" + secrets + ";4294967296;10.1.2.3",
                            "1;34567;" + secrets + ";;10.1.2.3",
                            "1;34567;" + question + ";60;10.1.2.3",
                            "1;34567;" + question.substr(1) + ";" + answer + ";60;10.1.2.3",
                            "1;34567;0" + question + ";" + answer + ";60;10.1.2.3",
                            "1;34567;" + question + ";-" + answer.substr(1) + ";60;10.1.2.3",
                            "1;34567;" + question + "; " + answer.substr(1) + ";60;10.1.2.3",
                            "1;34567;" + question + ";g" + answer.substr(1) + ";60;10.1.2.3",
                            with("10.1.2.3") + '\n',
                            with("10.1.2.3") + std::string(1, '\0')}) {
        EXPECT_FALSE(read_endpoint(bad)) << bad;
    }
}

// What was cut off could be the end of an address.
TEST(ExchangeEndpoint, TooLongTextIsRefusedAsAWhole) {
    const std::string zeros(1024 - with("10.1.2.3").size(), '0');
    const std::string longest = "1;" + zeros + with("10.1.2.3").substr(2);
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

TEST(ExchangeSecret, EveryBitCounts) {
    const auto token = random_secret().value().question;
    EXPECT_TRUE(equal_in_constant_time(bytes_of(token), token));
    for (std::size_t bit = 0; bit < 8 * token.size(); ++bit) {
        auto other = token;
        other.at(bit / 8) = static_cast<std::uint8_t>(other.at(bit / 8) ^ (1U << bit % 8));
        EXPECT_FALSE(equal_in_constant_time(bytes_of(other), token)) << bit;
        EXPECT_FALSE(equal_in_constant_time(bytes_of(token), other)) << bit;
    }
}

TEST(ExchangeSecret, AnotherLengthIsAnotherText) {
    const Token zero{};
    EXPECT_TRUE(equal_in_constant_time(std::string(16, '\0'), zero));
    for (const std::size_t length : {0U, 1U, 15U, 17U, 32U}) {
        EXPECT_FALSE(equal_in_constant_time(std::string(length, '\0'), zero)) << length;
    }
}

TEST(ExchangeSecret, IsAnotherOneEachTime) {
    const auto one = random_secret().value();
    const auto two = random_secret().value();
    EXPECT_FALSE(one == two);
    EXPECT_NE(one.question, one.answer);
    EXPECT_NE(one.question, two.question);
    EXPECT_NE(one.answer, two.answer);
}

TEST(ExchangeEndpoint, OwnAddressesAreRoutableAndIpv4ComesFirst) {
    const auto addresses = own_addresses();
    EXPECT_LE(addresses.size(), 8U);
    EXPECT_TRUE(std::is_partitioned(addresses.begin(), addresses.end(), [](const auto& a) { return a.is_ipv4(); }));
    for (const auto& address : addresses) {
        EXPECT_TRUE(address.is_routable()) << address.text();
    }
}

} // namespace
} // namespace rdma_nccl
