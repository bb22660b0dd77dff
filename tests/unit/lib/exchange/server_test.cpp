// SPDX-License-Identifier: Apache-2.0
// Both sides of the exchange over real sockets of this host, and strangers between them.
#include "lib/exchange/server.h"

#include "lib/exchange/client.h"
#include "lib/net/tcp.h"
#include "tests/unit/channel.h"
#include "tests/unit/descriptor_limit.h"
#include "tests/unit/exchange_nodes.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <future>
#include <gtest/gtest.h>
#include <memory>
#include <mutex>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace rdma_nccl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::Channel;
using test::connect_to;
using test::hear;
using test::ip;
using test::is_ended;
using test::is_open;
using test::say;
using Clock = ExchangeClient::Clock;

constexpr seconds most_wait(test::timeout_seconds); // of this test for anything

/// A node's report whose head is this host.
NodeReport local_report(unsigned index) {
    NodeReport report = test::plain_report(index);
    report.plan_head = ip("127.0.0.1");
    report.plan_head_is_given = true;
    report.plan_head_why = "of the test";
    return report;
}

/// What became of a node: the connection is open as long as this is there.
struct NodeEnd {
    std::optional<ExchangeClient> client;
    std::optional<Agreement> agreement;
    std::optional<Disagreement> disagreement;
    std::string error;
    int code = 0;
};

NodeEnd take_part(const ExchangeEndpoint& endpoint, const Key& key, unsigned index, Clock::duration limit = most_wait) {
    NodeEnd end;
    NodeReport report = local_report(index);
    std::optional<ReachListener> listener;
    if (index == 0) {
        listener.emplace(ReachListener::open(0, key).value());
        report.listener = listener->port();
        report.block = PortBlock{29400, 29401, "derived", "of job 7", {}};
    }
    const auto deadline = Clock::now() + limit;
    auto client = ExchangeClient::connect(endpoint, key, most_from_server, deadline, deadline);
    if (!client) {
        end.error = client.error().message;
        end.code = client.error().os_error;
        return end;
    }
    end.client.emplace(std::move(*client));
    auto answer = end.client->agree(report, std::move(listener), deadline);
    if (!answer) {
        end.error = answer.error().message;
        end.code = answer.error().os_error;
    } else if (auto* const agreed = std::get_if<ExchangeAnswer>(&*answer)) {
        end.agreement = std::move(agreed->agreement);
    } else {
        end.disagreement = std::get<Disagreement>(std::move(*answer));
    }
    return end;
}

class ExchangeServerTest : public testing::Test {
protected:
    void open(const std::optional<PortRange>& range = std::nullopt) {
        auto server = ExchangeServer::open(range, 30, key_);
        if (!server) {
            GTEST_SKIP() << server.error().message;
        }
        server_.emplace(std::move(*server));
        endpoint_ = server_->endpoint();
        endpoint_.addresses = {ip("127.0.0.1")};
    }

    void start(unsigned nodes, ExchangeRounds::Report tell = {}) {
        ExchangeStep step;
        for (unsigned i = 0; i < nodes; ++i) {
            step.nodes.push_back({test::plain_report(i).node, 1, i, i, 0});
        }
        step.node_count = nodes;
        const auto started = server_->start([step] { return step; },
                                            [this, tell](std::string_view line) {
                                                const std::lock_guard lock(mutex_);
                                                told_.emplace_back(line);
                                                if (tell) {
                                                    tell(line);
                                                }
                                            });
        ASSERT_TRUE(started) << started.error().message;
    }

    void open_and_start(unsigned nodes) {
        open();
        if (server_) {
            start(nodes);
        }
    }

    std::future<NodeEnd> node(unsigned index) {
        return std::async(std::launch::async, [this, index] { return take_part(endpoint_, key_, index); });
    }

    [[nodiscard]] Session session(const Key& key) const {
        return {Session::Role::Worker, derive_key(key, KeyPurpose::Exchange), "", most_with_hosts};
    }

    /// A connection that has proved that it has the key, as a node's.
    [[nodiscard]] Channel trusted_connection(Channel::Pace pace = Channel::Pace::AllAtOnce) const {
        Channel channel(connect_to(endpoint_.port), session(key_), pace);
        EXPECT_TRUE(channel.shake_hands());
        return channel;
    }

    void expect_agreement(unsigned nodes) {
        std::vector<std::future<NodeEnd>> running;
        for (unsigned i = 0; i < nodes; ++i) {
            running.push_back(node(i));
        }
        expect_agreement(running);
    }

    static void expect_agreement(std::vector<std::future<NodeEnd>>& running) {
        std::vector<NodeEnd> ends; // no node leaves before all have their answers
        ends.reserve(running.size());
        for (auto& one : running) {
            ends.push_back(one.get());
        }
        for (const auto& end : ends) {
            ASSERT_TRUE(end.agreement) << end.error << (end.disagreement ? end.disagreement->why : "");
            EXPECT_EQ(end.agreement->head_node, "n01");
            EXPECT_EQ(end.agreement->head, ip("127.0.0.1"));
        }
    }

    /// All but who is waited for, which a busy machine tells of, too.
    std::vector<std::string> told() {
        const std::lock_guard lock(mutex_);
        auto lines = told_;
        std::erase_if(lines, [](const auto& line) { return line.starts_with("waiting for "); });
        return lines;
    }

    Key key_ = random_key().value();
    std::optional<ExchangeServer> server_;
    ExchangeEndpoint endpoint_;
    std::mutex mutex_;
    std::vector<std::string> told_;
};

/// `work` in a thread; false when it has not ended after most_wait.
bool ends_in_time(const std::function<void()>& work) {
    return std::async(std::launch::async, work).wait_for(most_wait) == std::future_status::ready;
}

#define OPEN_AND_START(nodes)                                                                                          \
    open_and_start(nodes);                                                                                             \
    if (!server_ || HasFatalFailure()) {                                                                               \
        return;                                                                                                        \
    }

// --- Nodes ---

TEST_F(ExchangeServerTest, ThreeNodesAgree) {
    OPEN_AND_START(3);
    std::vector<std::future<NodeEnd>> running;
    for (const unsigned i : {2U, 0U, 1U}) {
        running.push_back(node(i));
    }
    std::vector<NodeEnd> ends;
    for (auto& one : running) {
        ends.push_back(one.get());
        ASSERT_TRUE(ends.back().agreement) << ends.back().error;
        EXPECT_EQ(ends.back().agreement->head, ip("127.0.0.1"));
        EXPECT_EQ(ends.back().agreement->head_why, "of the test");
        EXPECT_EQ(ends.back().agreement->block->first, 29400);
    }
    ASSERT_EQ(told().size(), 1U);
    EXPECT_EQ(told()[0].substr(0, 42), "rank layout, 3 tasks on 3 nodes, head n01 ");
    for (auto& end : ends) {
        EXPECT_TRUE(end.client->send_evidence(NodeEvidence()));
    }
    std::optional<StepEvidence> evidence;
    EXPECT_TRUE(
        ends_in_time([&] { evidence = server_->finish(10 * most_wait); })); // all have sent it: it need not wait
    ASSERT_TRUE(evidence);
    EXPECT_EQ(evidence->nodes.size(), 3U);
    EXPECT_TRUE(evidence->unresponsive.empty());
    EXPECT_FALSE(ends[0].client->send_evidence({}) && ends[0].client->send_evidence({}));
}

TEST_F(ExchangeServerTest, ANodeThatIsGoneIsToldToTheOthers) {
    OPEN_AND_START(3);
    auto first = node(0);
    auto second = node(2);
    {
        auto lost = trusted_connection();
        EXPECT_TRUE(lost.say(write_message(NodeMessage(local_report(1)))));
    }
    for (auto* one : {&first, &second}) {
        const auto end = one->get();
        ASSERT_TRUE(end.disagreement) << end.error;
        // Whoever reports after the loss hears the same.
        EXPECT_EQ(end.disagreement->why, "n02 was lost before the nodes of the step had agreed");
    }
}

// The messages that a failed write brings about go out at once, not with the next event: there may be none.
TEST_F(ExchangeServerTest, ANodeThatIsGoneWhenItIsWrittenToIsToldToTheOthers) {
    open();
    if (!server_) {
        return;
    }
    constexpr unsigned events_at_a_time = 256; // of the server's epoll_wait
    struct Pause {
        std::promise<void> begun;
        std::promise<void> over;
        std::atomic<bool> first = true;
    };
    const auto pause = std::make_shared<Pause>();
    start(2, [pause](std::string_view) {
        if (pause->first.exchange(false)) { // the line that says who is missing
            pause->begun.set_value();
            pause->over.get_future().wait_for(most_wait);
        }
    });
    auto lost = trusted_connection();
    ASSERT_TRUE(lost.say(write_message(NodeMessage(local_report(1)))));
    auto head = trusted_connection();
    std::vector<UniqueFd> strangers(events_at_a_time - 1);
    for (auto& stranger : strangers) {
        stranger = connect_to(endpoint_.port);
        ASSERT_TRUE(stranger);
    }
    ASSERT_EQ(pause->begun.get_future().wait_for(most_wait), std::future_status::ready);
    // In this order they wait for the server: the head's report, as many others as it takes at a time, and the loss.
    NodeReport report = local_report(0);
    report.listener = 9;
    ASSERT_TRUE(head.say(write_message(NodeMessage(report))));
    for (const auto& stranger : strangers) {
        ASSERT_TRUE(say(stranger, "x"));
    }
    end_with_reset(lost.take_socket().get());
    pause->over.set_value();
    const auto answer = head.hear();
    ASSERT_TRUE(answer);
    EXPECT_EQ(test::from_server<Disagreement>(*answer).why, "n02 was lost before the nodes of the step had agreed");
}

TEST_F(ExchangeServerTest, SrunsEndEndsTheNodesWait) {
    OPEN_AND_START(3);
    const auto far = Clock::now() + 2 * most_wait;
    std::vector<std::future<Error>> waiting;
    for (const unsigned i : {0U, 1U}) {
        auto client = ExchangeClient::connect(endpoint_, key_, most_from_server, far, far);
        ASSERT_TRUE(client) << client.error().message;
        waiting.push_back(std::async(std::launch::async, [i, far, node = std::move(*client)]() mutable {
            return node.agree(local_report(i), std::nullopt, far).error();
        }));
    }
    const auto third = trusted_connection();
    EXPECT_TRUE(ends_in_time([this] { server_.reset(); }));
    EXPECT_TRUE(is_ended(third.socket()));
    for (auto& one : waiting) {
        ASSERT_EQ(one.wait_for(most_wait), std::future_status::ready); // half of their own limit
        EXPECT_EQ(one.get().os_error, ECONNRESET);
    }
}

TEST_F(ExchangeServerTest, FinishWaitsNoLongerThanItsPatience) {
    OPEN_AND_START(2);
    std::vector<std::future<NodeEnd>> running;
    running.push_back(node(0));
    running.push_back(node(1));
    const auto first = running[0].get();
    const auto second = running[1].get();
    ASSERT_TRUE(first.agreement && second.agreement);
    std::optional<StepEvidence> evidence;
    EXPECT_TRUE(ends_in_time([&] { evidence = server_->finish(milliseconds(100)); })); // no node sends evidence
    ASSERT_TRUE(evidence);
    EXPECT_EQ(evidence->unresponsive, (std::vector<std::string>{"n01", "n02"}));
    EXPECT_TRUE(ends_in_time([this] { server_->finish(10 * most_wait); })); // again: nothing is left to wait for
}

TEST_F(ExchangeServerTest, FinishWaitsForTheLastNodes) {
    OPEN_AND_START(2);
    std::vector<std::future<NodeEnd>> running;
    running.push_back(node(0));
    running.push_back(node(1));
    auto first = running[0].get();
    auto second = running[1].get();
    ASSERT_TRUE(first.agreement && second.agreement);
    EXPECT_TRUE(first.client->send_evidence(NodeEvidence()));
    auto evidence = std::async(std::launch::async, [this] { return server_->finish(10 * most_wait); });
    EXPECT_TRUE(second.client->send_alarm("late, and not too late"));
    EXPECT_TRUE(second.client->send_evidence(NodeEvidence()));
    ASSERT_EQ(evidence.wait_for(most_wait), std::future_status::ready);
    EXPECT_EQ(evidence.get()->nodes.size(), 2U);
    EXPECT_EQ(told().back(), "n02: warning: late, and not too late");
}

TEST_F(ExchangeServerTest, FinishWithoutANodeDoesNotWait) {
    OPEN_AND_START(2);
    EXPECT_TRUE(ends_in_time([this] { server_->finish(10 * most_wait); }));
}

TEST_F(ExchangeServerTest, EndsWithoutHavingListened) {
    open();
    if (!server_) {
        return;
    }
    EXPECT_FALSE(connect_to(endpoint_.port)); // refused
    EXPECT_TRUE(ends_in_time([this] {
        server_->finish(10 * most_wait);
        server_.reset();
    }));
}

TEST_F(ExchangeServerTest, ItsThreadHasAllSignalsBlocked) {
    open();
    if (!server_) {
        return;
    }
    sigset_t before{};
    ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, nullptr, &before), 0);
    struct Mask {
        std::promise<sigset_t> promise;
        std::atomic<bool> first = true;
    };
    const auto mask = std::make_shared<Mask>();
    start(1, [mask](std::string_view) {
        sigset_t blocked{};
        (void)::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
        if (mask->first.exchange(false)) {
            mask->promise.set_value(blocked);
        }
    });
    expect_agreement(1);
    auto future = mask->promise.get_future();
    ASSERT_EQ(future.wait_for(most_wait), std::future_status::ready);
    const sigset_t blocked = future.get();
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGCHLD, SIGPIPE, SIGUSR1, SIGUSR2, SIGCONT,
                             SIGTSTP, SIGWINCH, SIGRTMIN, SIGRTMAX}) {
        EXPECT_EQ(sigismember(&blocked, signal), 1) << signal;
    }
    sigset_t after{};
    ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, nullptr, &after), 0);
    EXPECT_EQ(std::memcmp(&before, &after, sizeof before), 0);
}

TEST_F(ExchangeServerTest, TakesAPortOfTheRange) {
    const auto busy = bind_port(0, PortSharing::Alone).value();
    const std::uint16_t port = local_port(busy.get());
    const auto none = ExchangeServer::open(PortRange{port, port}, 30, key_);
    ASSERT_FALSE(none);
    const auto last = static_cast<std::uint16_t>(std::min(65535, port + 50));
    open(PortRange{port, last});
    if (!server_) {
        return;
    }
    EXPECT_GT(endpoint_.port, port);
    EXPECT_LE(endpoint_.port, last);
    start(1);
    expect_agreement(1);
}

// --- Strangers ---

TEST_F(ExchangeServerTest, StrangersAreSentAway) {
    OPEN_AND_START(3);
    const auto silent = connect_to(endpoint_.port);
    const auto slow = connect_to(endpoint_.port);
    EXPECT_TRUE(say(slow, "RDMANCL2 and half a nonce"));
    const auto almost = connect_to(endpoint_.port);
    EXPECT_TRUE(say(almost, "RDMANCL1" + std::string(32, 'n')));
    const auto browser = connect_to(endpoint_.port);
    EXPECT_TRUE(say(browser, "GET / HTTP/1.1\r\nHost: n01\r\n\r\n"));
    const auto flood = connect_to(endpoint_.port);
    (void)say(flood, std::string(1U << 20U, 'x'));
    (void)connect_to(endpoint_.port); // and ends at once
    end_with_reset(connect_to(endpoint_.port).get());
    for (const auto* socket : {&almost, &browser, &flood}) {
        EXPECT_EQ(hear(*socket, 1), ""); // not a word
        EXPECT_TRUE(is_ended(*socket));
    }
    expect_agreement(3);
    EXPECT_EQ(told().size(), 1U);
}

TEST_F(ExchangeServerTest, WithoutTheKeyNothingIsHeardAndNothingSaid) {
    OPEN_AND_START(2);
    const auto end = take_part(endpoint_, random_key().value(), 1, milliseconds(300));
    EXPECT_FALSE(end.agreement || end.disagreement);
    EXPECT_EQ(end.code, ETIMEDOUT);
    for (const auto purpose : {KeyPurpose::Reachability, KeyPurpose::Tasks}) { // that others of the step may have
        Channel other(connect_to(endpoint_.port),
                      Session(Session::Role::Worker, derive_key(key_, purpose), "", most_with_hosts));
        EXPECT_FALSE(other.shake_hands());
    }
    // Whoever sends srun's own proof back has not proved anything.
    const auto mirror = connect_to(endpoint_.port);
    constexpr std::size_t hello = 40;
    constexpr std::size_t nonce = 32;
    constexpr std::size_t proof = 24 + 2 + 17;
    EXPECT_TRUE(say(mirror, "RDMANCL2" + std::string(hello - 8, 'n')));
    const auto heard = hear(mirror, nonce + proof);
    EXPECT_EQ(heard.size(), nonce + proof);
    EXPECT_TRUE(say(mirror, heard.substr(nonce)));
    EXPECT_EQ(hear(mirror, 1), "");
    EXPECT_TRUE(is_ended(mirror));
    expect_agreement(2);
    EXPECT_EQ(told().size(), 1U);
}

TEST_F(ExchangeServerTest, TheSilentAreSentAwayInTheEnd) {
    OPEN_AND_START(2);
    const auto silent = connect_to(endpoint_.port);
    const auto slow = connect_to(endpoint_.port);
    EXPECT_TRUE(say(slow, "R"));
    const auto trusted = trusted_connection(); // this one may stay
    EXPECT_TRUE(is_ended(silent));
    EXPECT_TRUE(is_ended(slow));
    EXPECT_TRUE(is_open(trusted.socket()));
}

TEST_F(ExchangeServerTest, ManyStrangers) {
    const test::DescriptorLimit limit(8192);
    OPEN_AND_START(3);
    auto early = node(1); // reports before all of them
    const std::size_t most_open = std::min<std::size_t>(2000, (limit.count() - 100) / 3);
    std::vector<UniqueFd> strangers;
    for (unsigned i = 0; i < 2000; ++i) {
        if (strangers.size() >= most_open) {
            strangers.erase(strangers.begin());
        }
        strangers.push_back(connect_to(endpoint_.port));
        ASSERT_TRUE(strangers.back()) << i << ": " << std::strerror(errno);
        if (i % 3 != 0) {
            (void)say(strangers.back(), std::string("RDMANCL2and no nonce").substr(0, i % 16));
        }
    }
    std::vector<std::future<NodeEnd>> running;
    EXPECT_TRUE(strangers.size() < 1500 || is_ended(strangers.front())); // there is room for some of them only
    running.push_back(std::move(early));
    running.push_back(node(0));
    running.push_back(node(2));
    expect_agreement(running);
}

/// In a process of its own: strangers that stay, then a node that agrees.
[[noreturn]] void crowd(const ExchangeEndpoint& endpoint, const Key& key) {
    std::vector<UniqueFd> strangers;
    for (unsigned i = 0; i < 60; ++i) {
        strangers.push_back(connect_to(endpoint.port));
    }
    const auto end = take_part(endpoint, key, 0);
    ::_exit(end.agreement ? 0 : 1);
}

TEST_F(ExchangeServerTest, StrangersMakeRoomWhenDescriptorsRunOut) {
    OPEN_AND_START(1);
    expect_agreement(1); // UBSan needs descriptors to check a virtual call for the first time
    server_.reset();
    open();
    std::array<int, 2> ready{};
    ASSERT_EQ(::pipe(ready.data()), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        ::close(ready[1]);
        char byte = 0;
        (void)!::read(ready[0], &byte, 1); // until the server listens
        crowd(endpoint_, key_);
    }
    ::close(ready[0]);
    start(1);
    const test::DescriptorLimit limit(test::DescriptorLimit::so_many_more(5));
    ::close(ready[1]);
    int status = -1;
    const auto deadline = Clock::now() + 2 * most_wait;
    while (::waitpid(child, &status, WNOHANG) == 0 && Clock::now() < deadline) {
        std::this_thread::sleep_for(milliseconds(10));
    }
    (void)::kill(child, SIGKILL);
    EXPECT_EQ(status, 0);
}

// --- Nodes that have the key, and say what is none of the protocol ---

TEST_F(ExchangeServerTest, ASlowNodeIsANode) {
    OPEN_AND_START(2);
    auto head = node(0);
    auto slow = trusted_connection(Channel::Pace::ByteByByte);
    ASSERT_TRUE(slow.say(write_message(NodeMessage(local_report(1)))));
    const auto body = slow.hear();
    ASSERT_TRUE(body);
    const auto test = test::from_server<ReachTest>(*body);
    ASSERT_TRUE(slow.say(write_message(NodeMessage(Reached{try_to_reach(test, key_)}))));
    EXPECT_TRUE(head.get().agreement);
}

TEST_F(ExchangeServerTest, NonsenseOfATrustedOneEndsItsConnectionOnly) {
    OPEN_AND_START(3);
    for (const auto& nonsense :
         {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(), std::string(R"({"report":{"job":"x"}})"),
          std::string(1000, '\xff'), write_message(NodeMessage(Reached{{0}})), // before any report
          write_message(NodeMessage(NodeAlarm{"x"})), write_message(NodeMessage(NodeEvidence())),
          write_message(NodeMessage(test::plain_report(17))), // no node of the step
          std::string(most_from_node, '['), std::string(most_from_node + 1, 'x')}) {
        auto trusted = trusted_connection();
        (void)trusted.say(nonsense);
        EXPECT_TRUE(is_ended(trusted.socket())) << nonsense.substr(0, 40);
    }
    for (const auto& raw : {std::string("\xff\xff\xff\xff"), std::string(1000, '\0'), std::string("GET /")}) {
        const auto trusted = trusted_connection();
        (void)say(trusted.socket(), raw); // behind the proof, and no frame
        EXPECT_TRUE(is_ended(trusted.socket()));
    }
    expect_agreement(3);
    EXPECT_EQ(told().size(), 1U);
}

TEST_F(ExchangeServerTest, WhatALaterVersionAlsoSaysIsPassedOver) {
    OPEN_AND_START(2);
    auto later = trusted_connection();
    ASSERT_TRUE(later.say(R"({"later":{"x":[1]}})"));
    ASSERT_TRUE(later.say(write_message(NodeMessage(local_report(1)))));
    auto head = node(0);
    const auto body = later.hear();
    ASSERT_TRUE(body);
    const auto test = test::from_server<ReachTest>(*body);
    ASSERT_TRUE(later.say(R"({"later":{}})"));
    ASSERT_TRUE(later.say(write_message(NodeMessage(Reached{try_to_reach(test, key_)}))));
    EXPECT_TRUE(head.get().agreement);
}

// The rest of what it has sent at the same time does not make it a new node.
TEST_F(ExchangeServerTest, WhoIsRefusedHasNoSecondTry) {
    OPEN_AND_START(2);
    auto refused = trusted_connection();
    refused.queue(write_message(NodeMessage(Reached{{0}})));
    EXPECT_TRUE(refused.say(write_message(NodeMessage(local_report(1))))); // all in one write
    EXPECT_EQ(refused.hear(), std::nullopt);
    EXPECT_TRUE(is_ended(refused.socket()));
    expect_agreement(2); // else the second node would be one that has reported already
}

TEST_F(ExchangeServerTest, ASecondReportEndsTheNode) {
    OPEN_AND_START(2);
    auto head = node(0);
    auto twice = trusted_connection();
    twice.queue(write_message(NodeMessage(local_report(1))));
    EXPECT_TRUE(twice.say(write_message(NodeMessage(local_report(1)))));
    EXPECT_TRUE(is_ended(twice.socket()));
    EXPECT_EQ(head.get().disagreement->why, "n02 was lost before the nodes of the step had agreed");
}

TEST_F(ExchangeServerTest, ANodeThatDoesNotReadDoesNotHoldUpTheOthers) {
    OPEN_AND_START(3);
    auto deaf = trusted_connection();
    EXPECT_TRUE(deaf.say(write_message(NodeMessage(local_report(1)))));
    std::vector<std::future<NodeEnd>> running;
    running.push_back(node(0));
    running.push_back(node(2));
    expect_agreement(running);    // after the time that a silent test has
    EXPECT_EQ(told().size(), 2U); // one of them that it was silent
}

TEST_F(ExchangeServerTest, AnAlarmIsToldWithTheNodesName) {
    OPEN_AND_START(1);
    auto end = take_part(endpoint_, key_, 0);
    ASSERT_TRUE(end.agreement) << end.error;
    EXPECT_TRUE(end.client->send_alarm("mlx5_0 port 1 is down\n"));
    EXPECT_TRUE(end.client->send_evidence(NodeEvidence()));
    EXPECT_TRUE(ends_in_time([this] { server_->finish(10 * most_wait); }));
    EXPECT_EQ(told().back(), "n01: warning: mlx5_0 port 1 is down?");
}

TEST_F(ExchangeServerTest, AnAlarmEndsAStrictStep) {
    open();
    if (!server_) {
        return;
    }
    ExchangeStep step;
    step.node_count = 1;
    step.settings.strict = true;
    std::promise<void> ended;
    ASSERT_TRUE(server_->start([step] { return step; }, [](std::string_view) {}, [&ended] { ended.set_value(); }));
    auto end = take_part(endpoint_, key_, 0);
    ASSERT_TRUE(end.agreement) << end.error;
    EXPECT_TRUE(end.client->send_alarm("mlx5_0 port 1 is down"));
    EXPECT_EQ(ended.get_future().wait_for(most_wait), std::future_status::ready);
}

// It needs no descriptor for that: there may be none.
TEST_F(ExchangeServerTest, ACancelledStepWaitsForNobody) {
    open();
    if (!server_) {
        return;
    }
    ExchangeStep step;
    step.node_count = 2;
    struct Slurm {
        std::atomic<bool> cancelled = false;
        std::atomic<bool> first = true;
        std::promise<void> asked;
    };
    const auto slurm = std::make_shared<Slurm>();
    ASSERT_TRUE(server_->start([step] { return step; }, [](std::string_view) {}, [] {},
                               [slurm] {
                                   if (slurm->first.exchange(false)) {
                                       slurm->asked.set_value();
                                   }
                                   return slurm->cancelled.load();
                               }));
    auto node = trusted_connection();
    const test::DescriptorLimit limit(test::DescriptorLimit::so_many_more(0));
    ASSERT_TRUE(node.say(write_message(NodeMessage(local_report(1)))));
    ASSERT_EQ(slurm->asked.get_future().wait_for(most_wait), std::future_status::ready);
    slurm->cancelled = true;
    const auto answer = node.hear();
    ASSERT_TRUE(answer);
    EXPECT_EQ(test::from_server<Disagreement>(*answer).why, "the step is cancelled");
    EXPECT_TRUE(ends_in_time([this] { server_->finish(milliseconds(0)); }));
}

TEST_F(ExchangeServerTest, TheEndDoesNotWaitForTheQuestionWhetherItIsCancelled) {
    open();
    if (!server_) {
        return;
    }
    ExchangeStep step;
    step.node_count = 2;
    std::promise<void> asked;
    std::atomic<bool> first = true;
    ASSERT_TRUE(server_->start([step] { return step; }, [](std::string_view) {}, [] {},
                               [&] {
                                   if (first.exchange(false)) {
                                       asked.set_value();
                                   }
                                   return false;
                               }));
    auto node = trusted_connection();
    const test::DescriptorLimit limit(test::DescriptorLimit::so_many_more(0));
    ASSERT_TRUE(node.say(write_message(NodeMessage(local_report(1))))); // before that nobody waits
    ASSERT_EQ(asked.get_future().wait_for(most_wait), std::future_status::ready);
    EXPECT_TRUE(ends_in_time([this] { server_->finish(milliseconds(0)); }));
}

/// In a process that may have no more threads: 0 when nobody listens after the failure.
int start_without_threads(ExchangeServer& server) {
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) {
        return 10;
    }
    const rlimit none{0, 0};
    if (::setrlimit(RLIMIT_NPROC, &none) != 0) {
        return 11;
    }
    const auto started = server.start([] { return ExchangeStep(); }, [](std::string_view) {});
    if (started) {
        return 12;
    }
    if (started.error().message.find("thread") == std::string::npos || started.error().os_error != EAGAIN) {
        return 13;
    }
    return connect_to(server.endpoint().port) || server.finish(milliseconds(0)) ? 14 : 0;
}

TEST_F(ExchangeServerTest, WithoutAThreadNobodyListens) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        auto server = ExchangeServer::open(std::nullopt, 30, key_);
        ::_exit(server ? start_without_threads(*server) : 15);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 15 || WEXITSTATUS(status) == 12) {
        GTEST_SKIP() << "this host has no address, or no limit of threads";
    }
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

// --- The node's side, with others that listen in srun's place ---

/// Takes connections one after the other, and does with each what the test says.
class Impostor {
public:
    explicit Impostor(std::function<void(UniqueFd socket)> work)
        : listener_(listen_on(0, PortSharing::Alone).value()), work_(std::move(work)), thread_([this] {
              while (!over_) {
                  pollfd waiting{listener_.get(), POLLIN, 0};
                  (void)::poll(&waiting, 1, -1);
                  UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
                  test::limit_waits(socket);
                  if (socket && !over_) {
                      work_(std::move(socket));
                  }
              }
          }) {}
    Impostor(const Impostor&) = delete;
    Impostor& operator=(const Impostor&) = delete;
    Impostor(Impostor&&) = delete;
    Impostor& operator=(Impostor&&) = delete;
    ~Impostor() {
        over_ = true;
        (void)connect_to(endpoint().port);
        thread_.join();
    }

    [[nodiscard]] ExchangeEndpoint endpoint() const { return {{ip("127.0.0.1")}, local_port(listener_.get()), 30}; }

private:
    UniqueFd listener_;
    std::function<void(UniqueFd)> work_;
    std::atomic<bool> over_ = false;
    std::thread thread_;
};

/// What a node says in the end that looks for srun until every address has been tried.
std::string problem_of(const ExchangeEndpoint& endpoint, const Key& key) {
    for (auto limit = milliseconds(100);; limit *= 2) {
        const auto end = take_part(endpoint, key, 1, limit);
        if (end.error.find("no answer") == std::string::npos || limit > most_wait) {
            EXPECT_EQ(end.code, ETIMEDOUT);
            return end.error;
        }
    }
}

TEST(ExchangeClientTest, AnotherProgramIsNotSrun) {
    const auto key = random_key().value();
    for (const auto& said : {std::string(1000, 'x'), std::string("SSH-2.0-OpenSSH_9.2p1\r\n"), std::string("220 "),
                             std::string(56, 'x') + std::string("\0\x11", 2) + std::string(17, 'x'), std::string()}) {
        const Impostor impostor([said](const UniqueFd& socket) {
            (void)hear(socket, 40);
            (void)say(socket, said);
        });
        EXPECT_EQ(problem_of(impostor.endpoint(), key),
                  "127.0.0.1 port " + std::to_string(impostor.endpoint().port) +
                      ": what listens there has closed the connection, or does not have the key of this step");
    }
}

TEST(ExchangeClientTest, WhatItSaysItselfIsNoProof) {
    const Impostor mirror([](const UniqueFd& socket) {
        const auto hello = hear(socket, 40);
        (void)say(socket, hello + hello);
    });
    EXPECT_NE(problem_of(mirror.endpoint(), random_key().value()).find("does not have the key"), std::string::npos);
}

TEST(ExchangeClientTest, AnSrunOfAnotherStepIsNotOurs) {
    const Impostor other([](UniqueFd socket) {
        Channel channel(std::move(socket),
                        Session(Session::Role::Coordinator, random_key().value(), "", most_from_node));
        EXPECT_FALSE(channel.shake_hands());
    });
    EXPECT_NE(problem_of(other.endpoint(), random_key().value()).find("does not have the key"), std::string::npos);
}

TEST(ExchangeClientTest, ASilentOneIsGivenUp) {
    const Impostor silent([](const UniqueFd& socket) { (void)is_ended(socket); });
    const auto end = take_part(silent.endpoint(), random_key().value(), 1, milliseconds(200));
    EXPECT_EQ(end.error, "127.0.0.1 port " + std::to_string(silent.endpoint().port) + ": no answer");
    EXPECT_EQ(end.code, ETIMEDOUT);
}

TEST(ExchangeClientTest, NobodyListens) {
    const auto key = random_key().value();
    const auto taken = bind_port(0, PortSharing::Alone).value(); // and does not listen
    ExchangeEndpoint endpoint{{ip("127.0.0.1"), ip("127.0.0.2")}, local_port(taken.get()), 30};
    const std::string refused = " port " + std::to_string(endpoint.port) + ": Connection refused";
    EXPECT_EQ(problem_of(endpoint, key), "127.0.0.1" + refused + "; 127.0.0.2" + refused);
    endpoint.addresses.clear();
    EXPECT_EQ(problem_of(endpoint, key), "no address");
}

/// What an srun does that has the key, and what the node has of it.
NodeEnd end_of(const std::function<void(Channel&)>& after_proof, Clock::duration limit = most_wait) {
    const auto key = random_key().value();
    const Impostor impostor([&](UniqueFd socket) {
        Channel channel(std::move(socket),
                        Session(Session::Role::Coordinator, derive_key(key, KeyPurpose::Exchange), "", most_from_node));
        EXPECT_TRUE(channel.shake_hands());
        after_proof(channel);
    });
    auto end = take_part(impostor.endpoint(), key, 1, limit);
    end.client.reset();
    EXPECT_FALSE(end.agreement || end.disagreement);
    return end;
}

TEST(ExchangeClientTest, NonsenseOfSrunIsAnError) {
    const auto after = [](const std::vector<std::string>& bodies) {
        return end_of([bodies](Channel& node) {
                   for (const auto& body : bodies) {
                       (void)node.say(body);
                   }
                   (void)is_ended(node.socket());
               })
            .error;
    };
    EXPECT_EQ(after({""}), "not a message of rdma-nccl");
    EXPECT_EQ(after({R"({"agreed":{"head":"n01"}})"}), "a message \"agreed\" is malformed");
    // What a later srun may say is passed over.
    EXPECT_EQ(after({"{\"\\u001b[1m\":{}}", R"({"report":{}})", R"({"agreed":{"head":"n01"}})"}),
              "a message \"agreed\" is malformed");
}

TEST(ExchangeClientTest, WhatBreaksTheSessionIsAnSrunThatIsGone) {
    for (const auto& raw :
         {std::string("\xff\xff\xff\xff"), std::string(1000, '\0'), std::string("\0\x11", 2) + std::string(17, 'x')}) {
        const auto end = end_of([raw](Channel& node) {
            (void)say(node.socket(), raw);
            (void)is_ended(node.socket());
        });
        EXPECT_EQ(end.code, ECONNRESET) << end.error;
    }
    const auto end = end_of([](Channel& node) {
        (void)node.say(std::string(most_from_server + 1, 'x'));
        (void)is_ended(node.socket());
    });
    EXPECT_EQ(end.code, ECONNRESET) << end.error;
}

TEST(ExchangeClientTest, SrunThatEndsIsAnError) {
    const std::vector<std::function<void(Channel&)>> ends = {
        [](Channel& /*node*/) {},
        [](Channel& node) { EXPECT_TRUE(node.hear()); },
        [](Channel& node) { end_with_reset(node.take_socket().get()); },
        [](Channel& node) {
            EXPECT_TRUE(node.hear());
            node.queue(R"({"agreed":{}})");
            EXPECT_TRUE(node.say_almost());
        },
        [](Channel& node) {
            EXPECT_TRUE(node.hear());
            EXPECT_TRUE(node.say(write_message(ServerMessage(Hosts()))));
        },
    };
    for (const auto& way : ends) {
        const auto end = end_of(way);
        EXPECT_EQ(end.error, "srun has ended, or closed the connection");
        EXPECT_EQ(end.code, ECONNRESET);
    }
}

TEST(ExchangeClientTest, ASilentSrunIsGivenUp) {
    const auto end = end_of([](Channel& node) { (void)is_ended(node.socket()); }, milliseconds(500));
    EXPECT_EQ(end.error, "srun did not answer in time");
    EXPECT_EQ(end.code, ETIMEDOUT);
}

// Each byte is something, and no end of it: the node waits until its limit, and no longer.
TEST(ExchangeClientTest, ASlowSrunIsGivenUp) {
    const auto end = end_of(
        [](Channel& node) {
            node.queue(write_message(ServerMessage(Disagreement{std::string(400, 'w'), false, {}, {}})));
            (void)node.say_almost();
            (void)is_ended(node.socket());
        },
        milliseconds(500));
    EXPECT_EQ(end.code, ETIMEDOUT) << end.error;
}

TEST(ExchangeClientTest, AnSrunThatOnlyAsksIsGivenUp) {
    for (const bool listens : {true, false}) {
        const auto end = end_of(
            [listens](Channel& node) {
                const std::string test = write_message(ServerMessage(ReachTest()));
                while (node.say(test) && (!listens || node.hear())) {
                }
            },
            milliseconds(500));
        EXPECT_EQ(end.code, ETIMEDOUT) << end.error;
    }
}

// The head's listener is open to all, and is readable without end where its process can take nobody in.
TEST(ExchangeClientTest, AVisitorThatCannotBeTakenDoesNotKeepTheHead) {
    const auto key = random_key().value();
    const Impostor srun([&](UniqueFd socket) {
        Channel channel(std::move(socket),
                        Session(Session::Role::Coordinator, derive_key(key, KeyPurpose::Exchange), "", most_from_node));
        EXPECT_TRUE(channel.shake_hands());
        (void)is_ended(channel.socket());
    });
    const auto far = Clock::now() + most_wait;
    auto client = ExchangeClient::connect(srun.endpoint(), key, most_from_server, far, far);
    ASSERT_TRUE(client) << client.error().message;
    auto listener = ReachListener::open(0, key).value();
    const auto visitor = connect_to(listener.port());
    std::optional<test::DescriptorLimit> limit(test::DescriptorLimit::so_many_more(0));
    auto answer = std::async(std::launch::async, [&] {
        return client->agree(local_report(0), std::move(listener), Clock::now() + milliseconds(300)).has_value();
    });
    EXPECT_EQ(answer.wait_for(most_wait / 2), std::future_status::ready);
    limit.reset();
    EXPECT_FALSE(answer.get());
}

} // namespace
} // namespace rdma_nccl
