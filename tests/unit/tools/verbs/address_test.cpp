// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"
#include "tools/verbs/endpoint.h"

#include "lib/net/ip.h"

#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

VerbsAddress example() {
    VerbsAddress address;
    address.gid = IpAddress::parse("::ffff:10.77.1.1").value();
    address.lid = 7;
    address.ethernet = false;
    address.mtu = 4096;
    address.queue_pairs = {17, 0xffffff};
    address.packet_numbers = {0, 99};
    address.memory = 0xffff'8000'0000'0000;
    address.key = 0xffffffff;
    address.size = 1;
    address.mailbox = 4096;
    address.mailbox_key = 5;
    return address;
}

TEST(VerbsAddressTest, ComesBack) {
    const auto text = address_json(example()).dump();
    const auto back = read_address(*Json::parse(text));
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(*back, example()) << text;
}

TEST(VerbsAddressTest, EveryFieldIsNeeded) {
    const auto whole = address_json(example());
    for (const auto& [name, value] : whole.members()) {
        for (const auto& other : {Json(), Json(-1), Json("x"), Json(1.5), Json::object()}) {
            auto json = whole;
            json[name] = other;
            const auto back = read_address(json);
            ASSERT_FALSE(back) << json;
            EXPECT_NE(back.error().message.find(name), std::string::npos) << back.error().message;
        }
        auto json = whole;
        json.erase(name);
        EXPECT_FALSE(read_address(json)) << json;
    }
}

TEST(VerbsAddressTest, RefusesWhatNoPeerWrites) {
    const std::pair<const char*, Json> wrong[] = {
        {"gid", "10.77.1.256"},
        {"lid", 65536},
        {"mtu", 1500},
        {"queue_pairs", Json::array()},
        {"queue_pairs", Json::array({1, 0x1000000})},
        {"queue_pairs", Json::array({1, "2"})},
        {"queue_pairs", Json(std::vector<int>(1025, 1))},
        {"packet_numbers", Json::array({1})},
        {"key", 0x100000000},
        {"size", 0},
    };
    for (const auto& [name, value] : wrong) {
        auto json = address_json(example());
        json[name] = value;
        EXPECT_FALSE(read_address(*Json::parse(json.dump()))) << json;
    }
    for (const auto& json : {Json(), Json(1), Json("x"), Json::array({1})}) {
        EXPECT_FALSE(read_address(json)) << json;
    }
}

} // namespace
} // namespace rdma_nccl
