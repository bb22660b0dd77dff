// SPDX-License-Identifier: Apache-2.0
#include "lib/net/key.h"

#include <gtest/gtest.h>
#include <set>

using namespace rdma_nccl;

TEST(Key, TextAndBack) {
    const auto key = random_key().value();
    EXPECT_EQ(key_text(key).size(), 64U);
    EXPECT_EQ(parse_key(key_text(key)), key);
    EXPECT_FALSE(key == random_key().value());
}

TEST(Key, OtherTextIsNoKey) {
    const auto text = key_text(random_key().value());
    for (const auto& bad : {std::string(), text.substr(1), text + "0", text.substr(1) + "g", text.substr(2) + " 0",
                            std::string(64, '\0'), std::string(100'000, 'a')}) {
        EXPECT_FALSE(parse_key(bad)) << bad.substr(0, 70);
    }
}

TEST(Key, EachPurposeHasItsOwn) {
    const auto key = random_key().value();
    std::set<std::string> seen = {key_text(key)};
    for (const auto purpose : {KeyPurpose::Exchange, KeyPurpose::Reachability, KeyPurpose::Tasks, KeyPurpose::Launchers,
                               KeyPurpose::Pairs, KeyPurpose::Bench}) {
        EXPECT_EQ(derive_key(key, purpose), derive_key(key, purpose));
        EXPECT_TRUE(seen.insert(key_text(derive_key(key, purpose))).second);
    }
}

TEST(Key, ADerivedKeyIsTheSameInEveryVersion) {
    // By Python: blake2b(b"", key=key, salt=(4).to_bytes(16, "little"), person=b"rdmanccl" + bytes(8), digest_size=32)
    const auto key = parse_key(std::string(64, '1'));
    ASSERT_TRUE(key);
    EXPECT_EQ(key_text(derive_key(*key, KeyPurpose::Launchers)),
              "eef47be1a4ef5968686460d18a09ee7fd89d520c5d2982a1c5f97f45e8af0626");
}
