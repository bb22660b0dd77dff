// SPDX-License-Identifier: Apache-2.0
#include "lib/net/message.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace rdma_nccl {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

Clock::time_point far_away() {
    return Clock::now() + seconds(60);
}

struct Answer {
    int number = 0;
    std::string text;
};

} // namespace

template<>
inline constexpr std::string_view message_name<Answer> = "answer";

namespace {

void fields(auto& f, Is<Answer> auto& m) {
    constexpr std::size_t longest = 10'000'000;
    f("number", m.number);
    f("text", raw(m.text), longest);
}

/// Never comes back.
[[noreturn]] void hang() {
    for (;;) {
        ::pause();
    }
}

/// True if a child is left that does not end. One that was killed takes its time on a busy machine.
bool has_children() {
    const auto deadline = Clock::now() + std::chrono::seconds(30);
    pid_t ended = 0;
    do {
        std::this_thread::sleep_for(milliseconds(ended == 0 ? 10 : 0));
        ended = ::waitpid(-1, nullptr, WNOHANG);
    } while (ended >= 0 && Clock::now() < deadline);
    return ended >= 0 || errno != ECHILD;
}

TEST(ChildValue, TheValueComesBack) {
    const auto parent = ::getpid();
    auto child = ChildValue<Answer>::start([parent] { return Answer{::getppid() == parent ? 42 : 0, "two\nlines"}; });
    const auto answer = child.finish(far_away());
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->number, 42) << "made in another process";
    EXPECT_EQ(answer->text, "two\nlines");
    EXPECT_FALSE(has_children());
    EXPECT_FALSE(child.finish(far_away())) << "it gives its value once";
}

TEST(ChildValue, AValueLargerThanAPipeComesBackWhole) {
    const auto make = [] {
        std::string text;
        for (unsigned i = 0; text.size() < 5'000'000; ++i) {
            text += std::to_string(i);
        }
        return text;
    };
    auto child = ChildValue<Answer>::start([&make] { return Answer{1, make()}; });
    const auto answer = child.finish(far_away());
    ASSERT_TRUE(answer);
    EXPECT_TRUE(answer->text == make());
}

TEST(ChildValue, TellsThatItHasEnded) {
    auto gate = open_pipe();
    ASSERT_TRUE(gate);
    const std::array kept = {gate->reader.get()};
    auto child = ChildValue<Answer>::start(
        [&gate] {
            char none = 0;
            (void)!::read(gate->reader.get(), &none, 1);
            return Answer{42, ""};
        },
        kept);
    EXPECT_FALSE(child.has_ended());
    gate->writer.reset();
    for (const auto end = far_away(); !child.has_ended() && Clock::now() < end;) {
        std::this_thread::sleep_for(milliseconds(1));
    }
    ASSERT_TRUE(child.has_ended());
    const auto answer = child.finish(far_away());
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->number, 42);
}

TEST(ChildValue, SeveralAtATime) {
    std::vector<ChildValue<Answer>> children;
    for (int i = 0; i < 8; ++i) {
        children.push_back(ChildValue<Answer>::start([i] { return Answer{i, std::string(200'000, 'x')}; }));
    }
    for (int i = 7; i >= 0; --i) { // none of them keeps another's pipe open
        const auto answer = children[static_cast<std::size_t>(i)].finish(far_away());
        ASSERT_TRUE(answer);
        EXPECT_EQ(answer->number, i);
    }
}

TEST(ChildValue, OneThatHangsIsGivenUpAtItsDeadline) {
    auto child = ChildValue<Answer>::start([]() -> Answer { hang(); });
    EXPECT_FALSE(child.finish(Clock::now() + milliseconds(50)));
    EXPECT_FALSE(has_children()) << "it is killed";
}

TEST(ChildValue, OneThatHangsIsKilledWhereNobodyAsks) {
    {
        const auto child = ChildValue<Answer>::start([]() -> Answer { hang(); });
    }
    EXPECT_FALSE(has_children());
}

TEST(ChildText, WhatWasSaidBeforeItHungIsNoValue) {
    auto told = open_pipe();
    ASSERT_TRUE(told);
    const std::array kept = {told->writer.get()};
    auto child = ChildText::start(
        [&kept]() -> std::string {
            for (int fd = 3; fd < 1024; ++fd) { // its pipe is one of them
                (void)!::write(fd, "half", 4);
            }
            (void)!::write(kept.front(), ".", 1);
            hang();
        },
        kept, Inherit::Few);
    ASSERT_TRUE(child);
    told->writer.reset();
    for (char last = 0; last != '.';) {
        ASSERT_EQ(::read(told->reader.get(), &last, 1), 1);
    }
    EXPECT_FALSE(child->has_ended());
    EXPECT_FALSE(child->finish(Clock::now() + milliseconds(50)));
}

TEST(ChildText, WhoseChildHasClosedItsPipeHasNotEnded) {
    auto told = open_pipe();
    ASSERT_TRUE(told);
    const std::array kept = {told->writer.get()};
    auto child = ChildText::start(
        [&kept]() -> std::string { // closes its files slowly, as a driver's
            for (int fd = 3; fd < 1024; ++fd) {
                if (fd != kept.front()) {
                    (void)::close(fd);
                }
            }
            (void)!::write(kept.front(), ".", 1);
            hang();
        },
        kept, Inherit::Few);
    ASSERT_TRUE(child);
    told->writer.reset();
    char said = 0;
    ASSERT_EQ(::read(told->reader.get(), &said, 1), 1);
    EXPECT_FALSE(child->has_ended());
    EXPECT_FALSE(child->finish(Clock::now()));
}

TEST(ChildValue, OneThatDiesHasNoValue) {
    for (const int signal : {SIGKILL, SIGTERM, SIGABRT}) {
        auto child = ChildValue<Answer>::start([signal]() -> Answer {
            ::signal(signal, SIG_DFL);
            (void)::raise(signal);
            return {};
        });
        EXPECT_FALSE(child.finish(far_away())) << signal;
    }
    auto exits = ChildValue<Answer>::start([]() -> Answer { ::_exit(3); });
    EXPECT_FALSE(exits.finish(far_away()));
    auto throws = ChildValue<Answer>::start([]() -> Answer { throw std::runtime_error("no"); });
    EXPECT_FALSE(throws.finish(far_away()));
}

TEST(ChildText, AnythingIsAText) {
    for (const auto& text : {std::string(), std::string("\0\xff\n", 3), std::string(65536, 'x')}) {
        auto child = ChildText::start([&text] { return text; }, {}, Inherit::Few);
        ASSERT_TRUE(child);
        EXPECT_EQ(child->finish(far_away()), text);
    }
}

TEST(ChildValue, HasTheDescriptorsThatItIsToHave) {
    const UniqueFd open(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(open);
    const auto sample = [&open] { return Answer{::fcntl(open.get(), F_GETFD) >= 0 ? 1 : 0, ""}; };
    const std::array kept = {open.get()};
    EXPECT_EQ(ChildValue<Answer>::start(sample).finish(far_away())->number, 0);
    EXPECT_EQ(ChildValue<Answer>::start(sample, kept).finish(far_away())->number, 1);
    EXPECT_EQ(ChildValue<Answer>::start(sample, {}, Inherit::All).finish(far_away())->number, 1);
}

} // namespace
} // namespace rdma_nccl
