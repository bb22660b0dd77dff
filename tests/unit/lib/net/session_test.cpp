// SPDX-License-Identifier: Apache-2.0
#include "lib/net/session.h"

#include <gtest/gtest.h>
#include <vector>

using namespace rdma_nccl;

namespace {

constexpr std::size_t longest = 100'000;

/// Takes all that is to be written.
std::string drain(Session& session) {
    std::string bytes;
    for (auto part = session.output(); !part.empty(); part = session.output()) {
        bytes += part;
        session.written(part.size());
    }
    return bytes;
}

SharedBody body(std::string text) {
    return std::make_shared<const std::string>(std::move(text));
}

struct Pair {
    explicit Pair(const Key& worker_key, const Key& coordinator_key, std::string_view worker_context = "",
                  std::string_view coordinator_context = "")
        : worker(Session::Role::Worker, worker_key, worker_context, longest),
          coordinator(Session::Role::Coordinator, coordinator_key, coordinator_context, longest) {}

    /// Until neither has anything to say; false when one refuses.
    bool talk() {
        for (;;) {
            const auto forth = drain(worker);
            if (!coordinator.receive(forth)) {
                return false;
            }
            const auto back = drain(coordinator);
            if (!worker.receive(back)) {
                return false;
            }
            if (forth.empty() && back.empty()) {
                return true;
            }
        }
    }

    Session worker, coordinator;
};

class SessionTest : public testing::Test {
protected:
    Key key_ = random_key().value();
};

} // namespace

TEST_F(SessionTest, BothProveTheKeyAndMessagesPass) {
    Pair pair(key_, key_);
    pair.worker.send(body("report"));
    pair.coordinator.send(body("answer"));
    ASSERT_TRUE(pair.talk());
    EXPECT_TRUE(pair.worker.is_proven());
    EXPECT_TRUE(pair.coordinator.is_proven());
    EXPECT_EQ(pair.coordinator.next_message(), "report");
    EXPECT_EQ(pair.worker.next_message(), "answer");
    EXPECT_EQ(pair.worker.next_message(), std::nullopt);
    EXPECT_EQ(pair.worker.unsent(), 0U);
}

TEST_F(SessionTest, NothingButProofsGoesOutBeforeTheOtherSideHasProvedItself) {
    Pair pair(key_, key_);
    pair.coordinator.send(body(std::string(5000, 's')));
    pair.worker.send(body(std::string(5000, 's')));
    EXPECT_EQ(drain(pair.worker).size(), 40U);
    Session stranger(Session::Role::Worker, random_key().value(), "", longest);
    ASSERT_TRUE(pair.coordinator.receive(drain(stranger)));
    EXPECT_EQ(drain(pair.coordinator).size(), 32U + 24U + 2U + 17U);
    EXPECT_FALSE(pair.coordinator.is_proven());
}

TEST_F(SessionTest, AnotherKeyOrContextIsRefusedByBothSides) {
    const auto other = random_key().value();
    EXPECT_FALSE(Pair(key_, other).talk());
    EXPECT_FALSE(Pair(key_, derive_key(key_, KeyPurpose::Exchange)).talk());
    EXPECT_FALSE(Pair(key_, key_, "10.0.0.1", "10.0.0.2").talk());
    EXPECT_TRUE(Pair(key_, key_, "10.0.0.1", "10.0.0.1").talk());
}

TEST_F(SessionTest, LongMessagesPassInPieces) {
    Pair pair(key_, key_);
    const std::string text(longest, 'x');
    pair.worker.send(body(text));
    pair.worker.send(body(""));
    pair.worker.send(body("end"));
    ASSERT_TRUE(pair.talk());
    EXPECT_EQ(pair.coordinator.next_message(), text);
    EXPECT_EQ(pair.coordinator.next_message(), "");
    EXPECT_EQ(pair.coordinator.next_message(), "end");
}

TEST_F(SessionTest, AMessageBeyondTheLimitIsRefused) {
    Pair pair(key_, key_);
    pair.worker.send(body(std::string(longest + 1, 'x')));
    EXPECT_FALSE(pair.talk());
}

TEST_F(SessionTest, BytesMayComeOneByOne) {
    Pair pair(key_, key_);
    pair.worker.send(body("report"));
    for (int round = 0; round < 3; ++round) {
        for (const char byte : drain(pair.worker)) {
            ASSERT_TRUE(pair.coordinator.receive({&byte, 1}));
        }
        for (const char byte : drain(pair.coordinator)) {
            ASSERT_TRUE(pair.worker.receive({&byte, 1}));
        }
    }
    EXPECT_EQ(pair.coordinator.next_message(), "report");
}

TEST_F(SessionTest, AChangedByteIsRefused) {
    Pair clean(key_, key_);
    ASSERT_TRUE(clean.talk());
    clean.worker.send(body("report"));
    const auto frame = drain(clean.worker);
    for (std::size_t i = 0; i < frame.size(); ++i) {
        Pair pair(key_, key_);
        ASSERT_TRUE(pair.talk());
        pair.worker.send(body("report"));
        auto changed = drain(pair.worker);
        changed[i] = static_cast<char>(changed[i] ^ 1);
        const bool taken = pair.coordinator.receive(changed);
        EXPECT_FALSE(taken && pair.coordinator.next_message()) << i; // a greater length waits for more
    }
}

TEST_F(SessionTest, WhatWasHeardCannotBeRepeated) {
    Pair pair(key_, key_);
    ASSERT_TRUE(pair.talk());
    pair.worker.send(body("one"));
    const auto one = drain(pair.worker);
    ASSERT_TRUE(pair.coordinator.receive(one));
    EXPECT_FALSE(pair.coordinator.receive(one)) << "the same frame again";

    // A whole connection again: the coordinator's nonce is another one.
    Session worker(Session::Role::Worker, key_, "", longest);
    Session first(Session::Role::Coordinator, key_, "", longest);
    Session second(Session::Role::Coordinator, key_, "", longest);
    const auto hello = drain(worker);
    ASSERT_TRUE(first.receive(hello));
    ASSERT_TRUE(second.receive(hello));
    ASSERT_TRUE(worker.receive(drain(first)));
    worker.send(body("report"));
    const auto rest = drain(worker);
    EXPECT_TRUE(first.receive(rest));
    EXPECT_FALSE(second.receive(rest));
}

TEST_F(SessionTest, FramesCannotChangePlacesOrBeLeftOutOrTurnedRound) {
    const auto frames_of = [](Pair& pair) {
        EXPECT_TRUE(pair.talk());
        pair.worker.send(body("one"));
        const auto one = drain(pair.worker);
        pair.worker.send(body("two"));
        return std::vector{one, drain(pair.worker)};
    };
    Pair swapped(key_, key_);
    EXPECT_FALSE(swapped.coordinator.receive(frames_of(swapped)[1]));
    Pair back(key_, key_);
    EXPECT_FALSE(back.worker.receive(frames_of(back)[0])) << "its own frame, sent back";
}

TEST_F(SessionTest, WhatIsNoneOfOursIsRefusedAtOnce) {
    for (const auto* const text : {"GET / HTTP/1.1\r\n", "X", "RDMANCL1"}) {
        Session coordinator(Session::Role::Coordinator, key_, "", longest);
        EXPECT_FALSE(coordinator.receive(text)) << text;
    }
    Session coordinator(Session::Role::Coordinator, key_, "", longest);
    ASSERT_TRUE(coordinator.receive("RDMANCL2" + std::string(32, 'n')));
    EXPECT_FALSE(coordinator.receive(std::string(24, 'h') + "\x40\x11")) << "a proof has 17 bytes";
}
