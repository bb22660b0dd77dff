// SPDX-License-Identifier: Apache-2.0
// Both sides of the exchange over real sockets of this host, and strangers between them.
#include "lib/exchange_server.h"

#include "lib/exchange_client.h"
#include "lib/socket_address.h"
#include "lib/tcp.h"
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
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <utility>

namespace rdma_nccl {
namespace {

using namespace std::string_literals;
using std::chrono::milliseconds;
using std::chrono::seconds;
using test::ip;
using Clock = ExchangeClient::Clock;

constexpr seconds most_wait(30); // of this test for anything

/// A blocking connection to a port of this host that gives up after most_wait.
UniqueFd connect_to(std::uint16_t port) {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval limit{most_wait.count(), 0};
    (void)::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    (void)::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    watch_connection(socket.get());
    const auto peer = socket_address(ip("127.0.0.1"), port, AF_INET);
    if (::connect(socket.get(), peer.get(), peer.length) != 0) {
        return {};
    }
    return socket;
}

bool say(const UniqueFd& socket, std::string_view bytes) {
    return ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

/// Exactly so many bytes; fewer when the connection ends.
std::string hear(const UniqueFd& socket, std::size_t count) {
    std::string bytes(count, '\0');
    const ssize_t got = ::recv(socket.get(), bytes.data(), bytes.size(), MSG_WAITALL);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
}

/// True when the other side ends the connection, whatever it says before.
bool is_ended(const UniqueFd& socket) {
    std::array<char, 1024> buffer;
    ssize_t count = 0;
    while ((count = ::recv(socket.get(), buffer.data(), buffer.size(), 0)) > 0) {
    }
    return count == 0 || errno == ECONNRESET;
}

bool is_open(const UniqueFd& socket) {
    char byte = 0;
    return ::recv(socket.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
}

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
};

NodeEnd take_part(const ExchangeEndpoint& endpoint, unsigned index, Clock::duration limit = most_wait) {
    NodeEnd end;
    NodeReport report = local_report(index);
    std::optional<ReachListener> listener;
    if (index == 0) {
        listener.emplace(ReachListener::open(0, endpoint.secret).value());
        report.listener = listener->port();
        report.block = PortBlock{29400, 29401, "derived", "of job 7", {}};
    }
    auto client = ExchangeClient::connect(endpoint, Clock::now() + limit, Clock::now() + limit);
    if (!client) {
        end.error = client.error().message;
        return end;
    }
    end.client.emplace(std::move(*client));
    auto answer = end.client->agree(report, std::move(listener), most_from_server, Clock::now() + limit);
    if (!answer) {
        end.error = answer.error().message;
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
        auto server = ExchangeServer::open(range, 60);
        if (!server) {
            GTEST_SKIP() << server.error().message;
        }
        server_.emplace(std::move(*server));
        endpoint_ = server_->endpoint();
        endpoint_.addresses = {ip("127.0.0.1")};
    }

    void start(unsigned nodes, ExchangeRounds::Tell tell = {}) {
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
        return std::async(std::launch::async, [this, index] { return take_part(endpoint_, index); });
    }

    /// A connection that has shown the secret, as a node has it.
    [[nodiscard]] UniqueFd trusted_connection() const {
        auto socket = connect_to(endpoint_.port);
        EXPECT_TRUE(say(socket, bytes_of(endpoint_.secret.question)));
        EXPECT_EQ(hear(socket, sizeof(Token)), bytes_of(endpoint_.secret.answer));
        return socket;
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

    std::vector<std::string> told() {
        const std::lock_guard lock(mutex_);
        return told_;
    }

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
    ASSERT_EQ(told().size(), 1U) << told()[1];
    EXPECT_EQ(told()[0].substr(0, 42), "rank layout, 3 tasks on 3 nodes, head n01 ");
    for (auto& end : ends) {
        EXPECT_TRUE(end.client->send_evidence(NodeEvidence()));
    }
    std::optional<StepEvidence> evidence;
    EXPECT_TRUE(
        ends_in_time([&] { evidence = server_->finish(10 * most_wait); })); // all have sent it: it need not wait
    ASSERT_TRUE(evidence);
    EXPECT_EQ(evidence->nodes.size(), 3U);
    EXPECT_TRUE(evidence->silent.empty());
    EXPECT_FALSE(ends[0].client->send_evidence({}) && ends[0].client->send_evidence({}));
}

TEST_F(ExchangeServerTest, ANodeThatIsGoneIsToldToTheOthers) {
    OPEN_AND_START(3);
    auto first = node(0);
    auto second = node(2);
    {
        const auto lost = trusted_connection();
        EXPECT_TRUE(say(lost, write_message(NodeMessage(local_report(1)))));
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
    ASSERT_TRUE(say(lost, write_message(NodeMessage(local_report(1)))));
    const auto head = trusted_connection();
    std::vector<UniqueFd> strangers(events_at_a_time - 1);
    for (auto& stranger : strangers) {
        stranger = connect_to(endpoint_.port);
        ASSERT_TRUE(stranger);
    }
    ASSERT_EQ(pause->begun.get_future().wait_for(most_wait), std::future_status::ready);
    // In this order they wait for the server: the head's report, as many others as it takes at a time, and the loss.
    NodeReport report = local_report(0);
    report.listener = 9;
    ASSERT_TRUE(say(head, write_message(NodeMessage(report))));
    for (const auto& stranger : strangers) {
        ASSERT_TRUE(say(stranger, std::string(sizeof(Token), 'x')));
    }
    close_without_trace(std::move(lost));
    pause->over.set_value();
    const auto length = hear(head, 4);
    ASSERT_EQ(length.size(), 4U);
    const auto body = hear(head, static_cast<unsigned char>(length[3]));
    EXPECT_EQ(test::from_server<Disagreement>(length + body).why,
              "n02 was lost before the nodes of the step had agreed");
}

TEST_F(ExchangeServerTest, SrunsEndEndsTheNodesWait) {
    OPEN_AND_START(3);
    auto first = node(0);
    auto second = node(1);
    const auto third = trusted_connection();
    EXPECT_TRUE(ends_in_time([this] { server_.reset(); }));
    EXPECT_TRUE(is_ended(third));
    for (auto* one : {&first, &second}) {
        ASSERT_EQ(one->wait_for(most_wait / 2), std::future_status::ready); // half of their own limit
        const auto end = one->get();
        EXPECT_FALSE(end.agreement || end.disagreement);
        EXPECT_FALSE(end.error.empty());
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
    const auto start = Clock::now();
    EXPECT_TRUE(ends_in_time([this] { server_->finish(milliseconds(300)); })); // no node sends evidence
    EXPECT_GE(Clock::now() - start, milliseconds(300));
    EXPECT_TRUE(ends_in_time([this] { server_->finish(10 * most_wait); })); // again: nothing is left to wait for
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
    const auto none = ExchangeServer::open(PortRange{port, port}, 60);
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
    EXPECT_TRUE(say(slow, bytes_of(endpoint_.secret.question).substr(0, 15)));
    const auto wrong = connect_to(endpoint_.port);
    EXPECT_TRUE(say(wrong, bytes_of(random_secret()->question)));
    const auto almost = connect_to(endpoint_.port);
    auto question = endpoint_.secret.question;
    question.back() = static_cast<std::uint8_t>(question.back() ^ 1U);
    EXPECT_TRUE(say(almost, bytes_of(question)));
    const auto mirror = connect_to(endpoint_.port); // who has heard the answer cannot ask with it
    EXPECT_TRUE(say(mirror, bytes_of(endpoint_.secret.answer)));
    const auto browser = connect_to(endpoint_.port);
    EXPECT_TRUE(say(browser, "GET / HTTP/1.1\r\nHost: n01\r\n\r\n"));
    const auto flood = connect_to(endpoint_.port);
    (void)say(flood, std::string(1U << 20U, 'x'));
    (void)connect_to(endpoint_.port); // and ends at once
    close_without_trace(connect_to(endpoint_.port));
    for (const auto* socket : {&wrong, &almost, &mirror, &browser, &flood}) {
        EXPECT_EQ(hear(*socket, 1), ""); // not a word
        EXPECT_TRUE(is_ended(*socket));
    }
    expect_agreement(3);
    EXPECT_EQ(told().size(), 1U);
}

TEST_F(ExchangeServerTest, TheSilentAreSentAwayInTheEnd) {
    OPEN_AND_START(2);
    const auto silent = connect_to(endpoint_.port);
    const auto slow = connect_to(endpoint_.port);
    EXPECT_TRUE(say(slow, "x"));
    const auto trusted = trusted_connection(); // this one may stay
    EXPECT_TRUE(is_ended(silent));
    EXPECT_TRUE(is_ended(slow));
    EXPECT_TRUE(is_open(trusted));
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
            (void)say(strangers.back(), std::string(i % 16, 'x'));
        }
    }
    std::vector<std::future<NodeEnd>> running;
    EXPECT_TRUE(strangers.size() <= 1500 || is_ended(strangers.front())); // there is room for some of them only
    running.push_back(std::move(early));
    running.push_back(node(0));
    running.push_back(node(2));
    expect_agreement(running);
}

/// In a process of its own: strangers that stay, then a node that agrees.
[[noreturn]] void crowd(const ExchangeEndpoint& endpoint) {
    std::vector<UniqueFd> strangers;
    for (unsigned i = 0; i < 60; ++i) {
        strangers.push_back(connect_to(endpoint.port));
    }
    const auto end = take_part(endpoint, 0);
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
        crowd(endpoint_);
    }
    ::close(ready[0]);
    start(1);
    const test::DescriptorLimit limit(test::DescriptorLimit::so_many_more(3));
    ::close(ready[1]);
    int status = -1;
    const auto deadline = Clock::now() + 2 * most_wait;
    while (::waitpid(child, &status, WNOHANG) == 0 && Clock::now() < deadline) {
        std::this_thread::sleep_for(milliseconds(10));
    }
    (void)::kill(child, SIGKILL);
    EXPECT_EQ(status, 0);
}

// --- Nodes that have the secret, and say what is none of the protocol ---

TEST_F(ExchangeServerTest, ASlowNodeIsANode) {
    OPEN_AND_START(2);
    auto head = node(0);
    const auto slow = connect_to(endpoint_.port);
    for (const char byte : bytes_of(endpoint_.secret.question)) {
        ASSERT_TRUE(say(slow, {&byte, 1}));
    }
    EXPECT_EQ(hear(slow, sizeof(Token)), bytes_of(endpoint_.secret.answer));
    for (const char byte : write_message(NodeMessage(local_report(1)))) {
        ASSERT_TRUE(say(slow, {&byte, 1}));
    }
    const auto length = hear(slow, 4);
    ASSERT_EQ(length.size(), 4U);
    const auto body = hear(slow, static_cast<unsigned char>(length[3]));
    const auto test = read_server_message(body);
    ASSERT_TRUE(test) << body;
    ASSERT_TRUE(std::holds_alternative<ReachTest>(*test));
    ASSERT_TRUE(say(slow, write_message(NodeMessage(try_to_reach(std::get<ReachTest>(*test), endpoint_.secret)))));
    EXPECT_TRUE(head.get().agreement);
}

TEST_F(ExchangeServerTest, NonsenseOfATrustedOneEndsItsConnectionOnly) {
    OPEN_AND_START(3);
    const auto with_length = [](const std::string& body) {
        return std::string(2, '\0') + static_cast<char>(body.size() >> 8U) + static_cast<char>(body.size() & 0xffU) +
               body;
    };
    for (const auto& nonsense :
         {"\xff\xff\xff\xff"s, "GET / HTTP/1.1\r\n\r\n"s, with_length(""), with_length("report\njob x\n"),
          with_length("agreed\n"), with_length(std::string(1000, '\xff')),
          write_message(NodeMessage(ReachResult{0})), // before any report
          write_message(NodeMessage(NodeEvidence())),
          write_message(NodeMessage(test::plain_report(17))), // no node of the step
          with_length("report\ntasks 9\n" + std::string(30000, 'x')) + "\xff\xff\xff\xff"s,
          std::string("\0\10\0\1", 4) + std::string(524289, 'x')}) {
        const auto trusted = trusted_connection();
        (void)say(trusted, nonsense);
        EXPECT_TRUE(is_ended(trusted)) << nonsense.substr(0, 40);
    }
    expect_agreement(3);
}

TEST_F(ExchangeServerTest, ANodeThatDoesNotReadDoesNotHoldUpTheOthers) {
    OPEN_AND_START(3);
    const auto deaf = connect_to(endpoint_.port);
    NodeReport report = local_report(1);
    EXPECT_TRUE(say(deaf, bytes_of(endpoint_.secret.question)));
    EXPECT_TRUE(say(deaf, write_message(NodeMessage(report))));
    std::vector<std::future<NodeEnd>> running;
    running.push_back(node(0));
    running.push_back(node(2));
    expect_agreement(running); // after the time that a silent test has
    EXPECT_EQ(told().size(), 3U);
}

// --- The node's side, with others that listen in srun's place ---

/// Takes one connection, and does with it what the test says.
class Impostor {
public:
    explicit Impostor(std::function<void(const UniqueFd&)> work) : listener_(listen_on(0, PortSharing::Alone).value()) {
        endpoint_.addresses = {ip("127.0.0.1")};
        endpoint_.port = local_port(listener_.get());
        endpoint_.secret = random_secret().value();
        endpoint_.seconds = 60;
        done_ = std::async(std::launch::async, [this, work = std::move(work)] {
            pollfd waiting{listener_.get(), POLLIN, 0};
            (void)::poll(&waiting, 1, static_cast<int>(milliseconds(most_wait).count()));
            const UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
            const timeval limit{most_wait.count(), 0};
            (void)::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
            work(socket);
        });
    }
    Impostor(const Impostor&) = delete;
    Impostor& operator=(const Impostor&) = delete;
    Impostor(Impostor&&) = delete;
    Impostor& operator=(Impostor&&) = delete;
    ~Impostor() { done_.get(); }

    [[nodiscard]] const ExchangeEndpoint& endpoint() const { return endpoint_; }

private:
    UniqueFd listener_;
    ExchangeEndpoint endpoint_;
    std::future<void> done_;
};

TEST(ExchangeClientTest, AnotherProgramIsNotSrun) {
    const Token wrong = random_secret()->answer;
    for (const auto& [said, problem] : {std::pair(std::string(bytes_of(wrong)), "another program listens there"),
                                        std::pair("SSH-2.0-OpenSSH_9.2p1\r\n"s, "another program listens there"),
                                        std::pair("220 "s, "srun has ended, or another program listens there"),
                                        std::pair(""s, "srun has ended, or another program listens there")}) {
        const Impostor impostor([said = said](const UniqueFd& socket) {
            (void)hear(socket, sizeof(Token));
            (void)say(socket, said);
        });
        const auto end = take_part(impostor.endpoint(), 1);
        EXPECT_EQ(end.error, "127.0.0.1 port " + std::to_string(impostor.endpoint().port) + ": " + problem);
    }
}

TEST(ExchangeClientTest, TheQuestionIsNoAnswer) {
    const Impostor mirror([](const UniqueFd& socket) { (void)say(socket, hear(socket, sizeof(Token))); });
    EXPECT_NE(take_part(mirror.endpoint(), 1).error.find("another program listens there"), std::string::npos);
}

TEST(ExchangeClientTest, ASilentOneIsGivenUp) {
    const Impostor silent([](const UniqueFd& socket) { (void)is_ended(socket); });
    EXPECT_NE(take_part(silent.endpoint(), 1, milliseconds(200)).error.find("timed out"), std::string::npos);
}

TEST(ExchangeClientTest, NobodyListens) {
    ExchangeEndpoint endpoint;
    {
        const auto port = bind_port(0, PortSharing::Alone).value();
        endpoint.port = local_port(port.get());
    }
    endpoint.addresses = {ip("127.0.0.1"), ip("127.0.0.2")};
    const std::string refused = " port " + std::to_string(endpoint.port) + ": Connection refused";
    EXPECT_EQ(take_part(endpoint, 1).error, "127.0.0.1" + refused + "; 127.0.0.2" + refused);
    endpoint.addresses.clear();
    EXPECT_EQ(take_part(endpoint, 1).error, "no address");
}

/// What an srun says that the client has asked, after its answer; the error the node has of it.
std::string error_of(const std::function<void(const UniqueFd&)>& after_answer, Clock::duration limit = most_wait) {
    std::promise<Token> answer;
    const Impostor impostor([&](const UniqueFd& socket) {
        (void)hear(socket, sizeof(Token));
        const auto token = answer.get_future().get();
        (void)say(socket, bytes_of(token));
        after_answer(socket);
    });
    answer.set_value(impostor.endpoint().secret.answer);
    const auto end = take_part(impostor.endpoint(), 1, limit);
    EXPECT_FALSE(end.agreement || end.disagreement);
    return end.error;
}

TEST(ExchangeClientTest, NonsenseOfSrunIsAnError) {
    const auto after = [](const std::string& bytes) {
        return error_of([bytes](const UniqueFd& socket) {
            (void)say(socket, bytes);
            (void)is_ended(socket);
        });
    };
    EXPECT_EQ(after("\xff\xff\xff\xff"), "a message of 4294967295 bytes is longer than the limit of 32768");
    EXPECT_EQ(after("\0\0\x80\1"s), "a message of 32769 bytes is longer than the limit of 32768");
    EXPECT_EQ(after("\0\0\0\0"s), "a message \"\" is not known");
    EXPECT_EQ(after("\0\0\0\x4\x1b[1m"s), "a message \"?[1m\" is not known");
    EXPECT_EQ(after("\0\0\0\x10"s + "agreed\nhead n01 "),
              "the line \"head n01 \" of a message \"agreed\" is malformed");
    EXPECT_EQ(after("\0\0\0\7report\n"s), "a message \"report\" is not known");
}

TEST(ExchangeClientTest, SrunThatEndsIsAnError) {
    EXPECT_EQ(error_of([](const UniqueFd&) {}).substr(0, 4), "srun");
    EXPECT_EQ(error_of([](const UniqueFd& socket) {
                  const std::string report = hear(socket, 40);
                  (void)say(socket, "\0\0\0\x10"s + "agreed\n");
              }),
              "srun has ended, or closed the connection");
}

TEST(ExchangeClientTest, ASilentSrunIsGivenUp) {
    EXPECT_EQ(error_of([](const UniqueFd& socket) { (void)is_ended(socket); }, milliseconds(300)),
              "srun did not answer in time");
}

// Each byte is something, and no end of it: the node waits until its limit, and no longer.
TEST(ExchangeClientTest, ASlowSrunIsGivenUp) {
    EXPECT_EQ(error_of(
                  [](const UniqueFd& socket) {
                      (void)say(socket, "\0\0\x7f\0"s);
                      const auto end = Clock::now() + most_wait;
                      while (Clock::now() < end && say(socket, "x")) {
                          std::this_thread::sleep_for(milliseconds(1));
                      }
                  },
                  milliseconds(300)),
              "srun did not answer in time");
}

TEST(ExchangeClientTest, AnSrunThatOnlyAsksIsGivenUp) {
    EXPECT_EQ(error_of(
                  [](const UniqueFd& socket) {
                      const std::string test = write_message(ServerMessage(ReachTest()));
                      const auto end = Clock::now() + most_wait;
                      while (Clock::now() < end && say(socket, test)) {
                      }
                  },
                  milliseconds(300)),
              "srun did not answer in time");
}

// The head's listener is open to all, and is readable without end where its process can take nobody in.
TEST(ExchangeClientTest, AVisitorThatCannotBeTakenDoesNotKeepTheHead) {
    std::promise<Token> answer;
    const Impostor srun([&](const UniqueFd& socket) {
        (void)hear(socket, sizeof(Token));
        const auto token = answer.get_future().get();
        (void)say(socket, bytes_of(token));
        (void)is_ended(socket);
    });
    answer.set_value(srun.endpoint().secret.answer);
    auto client = ExchangeClient::connect(srun.endpoint(), Clock::now() + most_wait, Clock::now() + most_wait).value();
    auto listener = ReachListener::open(0, srun.endpoint().secret).value();
    const auto visitor = connect_to(listener.port());
    std::optional<test::DescriptorLimit> limit;
    std::atomic<bool> over = false;
    std::atomic<bool> too_late = false;
    std::thread watch([&] {
        const auto end = Clock::now() + most_wait / 2;
        while (!over && !too_late) {
            too_late = Clock::now() >= end;
            std::this_thread::sleep_for(milliseconds(10));
        }
        limit.reset();
    });
    (void)write_message(NodeMessage(local_report(0))); // UBSan needs descriptors to check a virtual call the first time
    limit.emplace(test::DescriptorLimit::so_many_more(0));
    const bool answered =
        client.agree(local_report(0), std::move(listener), most_from_server, Clock::now() + milliseconds(300))
            .has_value();
    over = true;
    watch.join();
    EXPECT_FALSE(answered);
    EXPECT_FALSE(too_late);
}

} // namespace
} // namespace rdma_nccl
