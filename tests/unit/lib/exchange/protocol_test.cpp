// SPDX-License-Identifier: Apache-2.0
#include "lib/exchange/protocol.h"

#include "tests/unit/exchange_nodes.h"

#include <cerrno>
#include <gtest/gtest.h>
#include <utility>

namespace rdma_nccl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::fabric_report;
using test::ip;
using test::plain_report;

/// An exchange whose time is the test's; connection 10 is of node 0, 11 of node 1, ...
class ExchangeRoundsTest : public testing::Test {
protected:
    using Clock = ExchangeRounds::Clock;

    void begin(unsigned nodes) {
        ExchangeStep step;
        for (unsigned i = 0; i < nodes; ++i) {
            step.nodes.push_back({plain_report(i).node, 1, i, i, 0});
        }
        step.node_count = nodes;
        begin(std::move(step));
    }

    void begin(ExchangeStep step) {
        rounds_ = std::make_unique<ExchangeRounds>(
            std::move(step), [this](std::string_view line) { told_.emplace_back(line); }, [this] { ++ended_; },
            [this](int connection, const SharedBody& message) { sent_.emplace_back(connection, message); }, now_);
    }

    bool report(unsigned index) { return rounds_->take(connection(index), fabric_report(index), now_); }
    bool result(unsigned index, ReachResult codes = {0, 0}) {
        return rounds_->take(connection(index), Reached{std::move(codes)}, now_);
    }
    bool alarm(unsigned index, std::string text) {
        return rounds_->take(connection(index), NodeAlarm{std::move(text)}, now_);
    }
    bool evidence(unsigned index) { return rounds_->take(connection(index), NodeEvidence(), now_); }
    static int connection(unsigned index) { return static_cast<int>(index) + 10; }

    void pass(Clock::duration time) {
        now_ += time;
        rounds_->pass_time(now_);
    }

    /// The connections that got a message of this kind since the last call, in order; others must not have come.
    template<typename Message>
    std::vector<int> take_sent() {
        std::vector<int> connections;
        for (const auto& [connection, text] : std::exchange(sent_, {})) {
            (void)test::from_server<Message>(*text);
            connections.push_back(connection);
        }
        return connections;
    }

    /// Three nodes that have agreed.
    void agree() {
        begin(3);
        for (const unsigned i : {0U, 1U, 2U}) {
            ASSERT_TRUE(report(i));
        }
        ASSERT_TRUE(result(1));
        ASSERT_TRUE(result(2));
        ASSERT_TRUE(rounds_->answered());
        sent_.clear();
        told_.clear();
    }

    Clock::time_point now_{seconds(1000)};
    std::unique_ptr<ExchangeRounds> rounds_;
    std::vector<std::string> told_;
    unsigned ended_ = 0; ///< how often the step was to be ended
    std::vector<std::pair<int, SharedBody>> sent_;
};

using Connections = std::vector<int>;
using Texts = std::vector<std::string>;

TEST_F(ExchangeRoundsTest, ACompleteExchange) {
    begin(3);
    EXPECT_TRUE(report(0));
    EXPECT_TRUE(report(1));
    EXPECT_TRUE(sent_.empty());
    EXPECT_TRUE(report(2));
    ASSERT_EQ(sent_.size(), 2U);
    const auto test = test::from_server<ReachTest>(*sent_[0].second);
    EXPECT_EQ(test.port, 29400);
    EXPECT_EQ(test.addresses, (std::vector<IpAddress>{ip("10.1.0.1"), ip("10.2.0.1")}));
    EXPECT_EQ(take_sent<ReachTest>(), (Connections{11, 12}));

    EXPECT_TRUE(result(2));
    EXPECT_FALSE(rounds_->answered());
    EXPECT_EQ(rounds_->still_running(), 0U);
    EXPECT_TRUE(result(1));
    EXPECT_TRUE(rounds_->answered());
    ASSERT_EQ(sent_.size(), 3U);
    EXPECT_EQ(test::from_server<Agreement>(*sent_[1].second).head, ip("10.1.0.1"));
    EXPECT_EQ(take_sent<Agreement>(), (Connections{10, 11, 12}));
    ASSERT_EQ(told_.size(), 1U);
    EXPECT_EQ(told_[0].substr(0, 34), "rank layout, 3 tasks on 3 nodes, h");
    EXPECT_EQ(rounds_->next_time(), Clock::time_point::max());

    EXPECT_EQ(rounds_->still_running(), 3U);
    EXPECT_TRUE(evidence(1));
    EXPECT_TRUE(evidence(0));
    EXPECT_EQ(rounds_->still_running(), 1U);
    EXPECT_TRUE(evidence(2));
    EXPECT_EQ(rounds_->still_running(), 0U);
    EXPECT_EQ(told_.size(), 1U) << "the verdict is not for the exchange to tell";
}

TEST_F(ExchangeRoundsTest, EvidenceIsKeptInTheOrderOfTheRanks) {
    begin(3);
    for (unsigned i = 0; i < 3; ++i) {
        EXPECT_TRUE(report(i));
    }
    EXPECT_TRUE(result(1));
    EXPECT_TRUE(result(2));
    NodeEvidence last;
    last.node = "someone else";
    last.gpus = 7;
    EXPECT_TRUE(rounds_->take(connection(2), last, now_));
    EXPECT_TRUE(evidence(0));
    rounds_->lose(11);
    const auto step = rounds_->take_step_evidence();
    ASSERT_EQ(step.nodes.size(), 2U);
    EXPECT_EQ(step.nodes[0].node, "n01");
    EXPECT_EQ(step.nodes[1].node, "n03");
    EXPECT_EQ(step.nodes[1].gpus, 7U);
    EXPECT_EQ(step.unresponsive, Texts{"n02"});
}

TEST_F(ExchangeRoundsTest, NodesThatAreNotUnderstoodAreNamedTogetherOnceAllHaveReported) {
    const Release later{"9.8.7", 99};
    const auto report_of = [&](unsigned index, const Release& release) {
        auto message = plain_report(index);
        message.gpus = 8;
        message.release = release;
        return rounds_->take(connection(index), message, now_);
    };
    begin(4);
    EXPECT_TRUE(report_of(1, later));
    EXPECT_TRUE(report(0));
    EXPECT_TRUE(report_of(3, {"9.9", 100}));
    EXPECT_TRUE(told_.empty());
    EXPECT_TRUE(report_of(2, later));
    const std::string own = own_release().version;
    const std::string why = "n[02-03] run rdma-nccl 9.8.7 (protocol 99), n04 runs rdma-nccl 9.9 (protocol 100), srun "
                            "runs " +
                            own + " (protocol 2): install the same on all nodes";
    EXPECT_EQ(told_, Texts{"warning: " + why + ": each node plans alone"});
    ASSERT_EQ(sent_.size(), 4U);
    const auto answer = test::from_server<Disagreement>(*sent_[0].second);
    EXPECT_EQ(answer.why, why);
    EXPECT_EQ(answer.head_node, "n01");
    EXPECT_FALSE(answer.unequal_gpus);
    EXPECT_EQ(take_sent<Disagreement>(), (Connections{10, 11, 12, 13}));

    EXPECT_TRUE(alarm(1, "a stranger"));
    EXPECT_EQ(told_.back(), "n02: warning: a stranger");
    EXPECT_EQ(rounds_->still_running(), 1U) << "the others' evidence cannot be read";
    EXPECT_TRUE(evidence(1));
    EXPECT_TRUE(evidence(0));
    EXPECT_EQ(rounds_->still_running(), 0U);
    rounds_->lose(11);
    EXPECT_EQ(rounds_->still_running(), 0U);
    const auto step = rounds_->take_step_evidence();
    EXPECT_EQ(step.nodes.size(), 1U);
    EXPECT_EQ(step.unresponsive, (Texts{"n02", "n03", "n04"}));
}

TEST_F(ExchangeRoundsTest, NodesThatAreNotUnderstoodAreNamedBesideThoseThatAreMissing) {
    begin(3);
    auto later = plain_report(1);
    later.release = {"9.8.7", 99};
    EXPECT_TRUE(rounds_->take(connection(1), later, now_));
    EXPECT_TRUE(report(0));
    pass(seconds(30));
    ASSERT_FALSE(told_.empty());
    EXPECT_NE(told_.back().find("n02 runs rdma-nccl 9.8.7"), std::string::npos) << told_.back();
    EXPECT_NE(told_.back().find("; 1 of 3 nodes did not report within 30 s: n03"), std::string::npos) << told_.back();
}

// Plugins that are on the login node only: Slurm itself gives up a launch after ten minutes.
TEST_F(ExchangeRoundsTest, NodesThatNeverReportAreNotWaitedForWithoutEnd) {
    begin(2);
    pass(seconds(2));
    pass(seconds(8));
    pass(seconds(20));
    EXPECT_EQ(told_.size(), 3U);
    EXPECT_NE(told_.back().find("is the plugin installed there"), std::string::npos) << told_.back();
    pass(seconds(600));
    EXPECT_TRUE(rounds_->answered());
    EXPECT_EQ(rounds_->next_time(), Clock::time_point::max());
    EXPECT_TRUE(report(0));
    EXPECT_EQ(take_sent<Disagreement>(), (Connections{10}));
    EXPECT_EQ(rounds_->still_running(), 0U);
}

TEST_F(ExchangeRoundsTest, ReportsInAnyOrderGetIntoRankOrder) {
    ExchangeStep step;
    step.nodes = {{"n01", 1, 0, 0, 0}, {"n02", 1, 1, 1, 0}, {"n03", 1, 2, 2, 0}};
    step.node_count = 3;
    step.settings.hosts = HostsChoice::File;
    begin(std::move(step));
    for (const unsigned i : {2U, 0U, 1U}) {
        auto of_node = fabric_report(i);
        of_node.layout = Layout::Node;
        of_node.gpus = i + 1;
        EXPECT_TRUE(rounds_->take(connection(i), of_node, now_));
    }
    EXPECT_EQ(take_sent<ReachTest>(), (Connections{11, 12}));
    EXPECT_TRUE(result(1));
    EXPECT_TRUE(result(2));
    ASSERT_EQ(sent_.size(), 6U); // the hosts come before each answer
    const auto hosts = test::from_server<Hosts>(*sent_[0].second).table;
    ASSERT_EQ(hosts.size(), 3U);
    EXPECT_EQ(hosts[0].name, "n01");
    EXPECT_EQ(hosts[2].name, "n03");
    const std::vector<RankShare> shares = {{0, 1, 6}, {1, 2, 6}, {3, 3, 6}};
    for (unsigned i = 0; i < 3; ++i) {
        const auto& [number, bytes] = sent_[2 * i + 1];
        EXPECT_EQ(number, connection(i));
        EXPECT_EQ(test::from_server<Agreement>(*bytes).ranks, shares[i]);
        EXPECT_EQ(test::from_server<Agreement>(*bytes).head_node, "n01");
    }
}

TEST_F(ExchangeRoundsTest, WithoutATestThereIsAnAnswerAtOnce) {
    begin(2);
    EXPECT_TRUE(rounds_->take(10, fabric_report(0, 0), now_)); // no listener
    EXPECT_TRUE(report(1));
    EXPECT_EQ(take_sent<Agreement>(), (Connections{10, 11}));
    EXPECT_EQ(told_.size(), 1U);
    begin(2);
    EXPECT_TRUE(rounds_->take(10, plain_report(0), now_)); // no address
    EXPECT_TRUE(rounds_->take(11, plain_report(1), now_));
    EXPECT_EQ(take_sent<Agreement>(), (Connections{10, 11}));
}

TEST_F(ExchangeRoundsTest, WhoIsMissingIsToldAfterTwoSeconds) {
    begin(4);
    EXPECT_TRUE(report(1));
    EXPECT_EQ(rounds_->next_time(), now_ + seconds(2));
    pass(milliseconds(1999));
    EXPECT_TRUE(told_.empty());
    pass(milliseconds(1));
    EXPECT_EQ(told_, (Texts{"waiting for 3 of 4 nodes: n[01,03-04] (2 s)"}));
    pass(milliseconds(1));
    EXPECT_EQ(told_.size(), 1U);
    EXPECT_TRUE(report(3));
    pass(seconds(8));
    EXPECT_EQ(told_.back(), "waiting for 2 of 4 nodes: n[01,03] (10 s)");
}

TEST_F(ExchangeRoundsTest, QuietSaysNothing) {
    ExchangeStep step;
    step.node_count = 2;
    step.settings.verbose = 0;
    begin(std::move(step));
    pass(seconds(5));
    EXPECT_TRUE(report(0));
    pass(seconds(61));
    EXPECT_EQ(take_sent<Disagreement>(), (Connections{10}));
    EXPECT_TRUE(told_.empty());
}

TEST_F(ExchangeRoundsTest, AtTheTimeLimitAllAreToldToPlanAlone) {
    begin(3);
    pass(seconds(300)); // the limit counts from the first report on: a step may wait for its launch
    EXPECT_FALSE(rounds_->answered());
    EXPECT_TRUE(report(0));
    auto other = fabric_report(2);
    other.gpus = 4;
    EXPECT_TRUE(rounds_->take(12, other, now_));
    told_.clear();
    pass(seconds(29));
    EXPECT_FALSE(rounds_->answered());
    EXPECT_LE(rounds_->next_time(), now_ + seconds(1));
    pass(seconds(1));
    EXPECT_TRUE(rounds_->answered());
    ASSERT_EQ(sent_.size(), 2U);
    const auto answer = test::from_server<Disagreement>(*sent_[0].second);
    EXPECT_EQ(
        answer.why,
        "1 of 3 nodes did not report within 30 s: n02 (no plugin there? a slow prolog needs a greater exchange=)");
    EXPECT_TRUE(answer.unequal_gpus);
    EXPECT_EQ(take_sent<Disagreement>(), (Connections{10, 12}));
    EXPECT_EQ(told_.back(), "warning: 1 of 3 nodes did not report within 30 s: n02 (no plugin there? a slow prolog "
                            "needs a greater exchange=): each node plans alone");
    EXPECT_EQ(rounds_->still_running(), 2U);
}

TEST_F(ExchangeRoundsTest, EqualGpusAreToldAsEqual) {
    begin(3);
    EXPECT_TRUE(report(0));
    EXPECT_TRUE(report(1));
    pass(seconds(60));
    ASSERT_EQ(sent_.size(), 2U);
    EXPECT_FALSE(test::from_server<Disagreement>(*sent_[0].second).unequal_gpus);
}

TEST_F(ExchangeRoundsTest, AReportAfterThatHearsWhy) {
    begin(3);
    EXPECT_TRUE(report(0));
    pass(seconds(60));
    sent_.clear();
    EXPECT_TRUE(report(1));
    ASSERT_EQ(sent_.size(), 1U);
    EXPECT_EQ(sent_[0].first, 11);
    EXPECT_EQ(
        test::from_server<Disagreement>(*sent_[0].second).why,
        "2 of 3 nodes did not report within 30 s: n[02-03] (no plugin there? a slow prolog needs a greater exchange=)");
    agree();
    EXPECT_TRUE(rounds_->take(20, fabric_report(1), now_));
    ASSERT_EQ(sent_.size(), 1U);
    EXPECT_EQ(test::from_server<Disagreement>(*sent_[0].second).why, "it reported too late");
    EXPECT_EQ(rounds_->still_running(), 3U);
    rounds_->lose(20);
    EXPECT_EQ(rounds_->still_running(), 3U);
}

// A step that began without them may have thousands: all get one message.
TEST_F(ExchangeRoundsTest, ManyLateNodesShareTheirAnswer) {
    constexpr unsigned many = 3000;
    begin(many);
    EXPECT_TRUE(report(0));
    pass(seconds(60));
    ASSERT_EQ(sent_.size(), 1U);
    for (unsigned i = 1; i < many; ++i) {
        ASSERT_TRUE(rounds_->take(connection(i), plain_report(i), now_));
    }
    ASSERT_EQ(sent_.size(), many);
    EXPECT_EQ(test::from_server<Disagreement>(*sent_[0].second).why.substr(0, 44),
              "2999 of 3000 nodes did not report within 30 ");
    for (unsigned i = 0; i < many; ++i) {
        ASSERT_EQ(sent_[i].first, connection(i));
        ASSERT_EQ(sent_[i].second, sent_[0].second) << "the same object, written once";
    }
    EXPECT_EQ(rounds_->still_running(), 1U);
}

TEST_F(ExchangeRoundsTest, WhatAllGetIsWrittenOnce) {
    ExchangeStep step;
    step.node_count = 3;
    step.settings.hosts = HostsChoice::File;
    begin(std::move(step));
    for (unsigned i = 0; i < 3; ++i) {
        EXPECT_TRUE(report(i));
    }
    ASSERT_EQ(sent_.size(), 2U);
    EXPECT_EQ(sent_[0].second, sent_[1].second) << "the test";
    EXPECT_TRUE(result(1));
    EXPECT_TRUE(result(2));
    ASSERT_EQ(sent_.size(), 8U);
    EXPECT_EQ(test::from_server<Hosts>(*sent_[2].second).table.size(), 3U);
    EXPECT_EQ(sent_[2].second, sent_[4].second);
    EXPECT_EQ(sent_[2].second, sent_[6].second);
    sent_.clear();
    for (const int connection : {20, 21}) {
        EXPECT_TRUE(rounds_->take(connection, fabric_report(1), now_));
    }
    ASSERT_EQ(sent_.size(), 2U);
    EXPECT_EQ(sent_[0].second, sent_[1].second) << "the answer to late ones";
}

TEST_F(ExchangeRoundsTest, ALostNodeEndsIt) {
    begin(3);
    EXPECT_TRUE(report(0));
    EXPECT_TRUE(report(1));
    rounds_->lose(11);
    EXPECT_TRUE(rounds_->answered());
    ASSERT_EQ(sent_.size(), 1U);
    EXPECT_EQ(test::from_server<Disagreement>(*sent_[0].second).why,
              "n02 was lost before the nodes of the step had agreed");
    EXPECT_EQ(take_sent<Disagreement>(), (Connections{10}));
    EXPECT_EQ(rounds_->still_running(), 1U);
    rounds_->lose(11);
    EXPECT_EQ(rounds_->still_running(), 1U);
    rounds_->lose(10);
    EXPECT_EQ(rounds_->still_running(), 0U);
    EXPECT_TRUE(report(2));
    EXPECT_EQ(take_sent<Disagreement>(), (Connections{12}));
}

TEST_F(ExchangeRoundsTest, SlurmsOrderStaysWithoutAnAgreement) {
    for (const auto origin : {Origin::Option, Origin::SiteFile}) {
        ExchangeStep step;
        step.node_count = 2;
        step.settings.order = OrderChoice::Topology;
        step.settings.given["order"] = {"topology", origin, ""};
        begin(std::move(step));
        told_.clear();
        ASSERT_TRUE(report(0));
        rounds_->lose(connection(0));
        const Texts stays{"order=topology: Slurm's stays: the nodes have not agreed"};
        EXPECT_EQ(Texts(told_.begin() + 1, told_.end()), origin == Origin::Option ? stays : Texts());
    }
}

TEST_F(ExchangeRoundsTest, OrderAutoOnlySaysThatSlurmsStaysWhereDetailsAreWanted) {
    for (const unsigned verbose : {1U, 2U}) {
        ExchangeStep step;
        step.node_count = 2;
        step.settings.order = OrderChoice::Auto;
        step.settings.given["order"] = {"auto", Origin::Option, ""};
        step.settings.verbose = verbose;
        begin(std::move(step));
        told_.clear();
        ASSERT_TRUE(report(0));
        rounds_->lose(connection(0));
        const Texts stays{"order=auto: Slurm's stays: the nodes have not agreed"};
        EXPECT_EQ(Texts(told_.begin() + 1, told_.end()), verbose == 2 ? stays : Texts());
    }
}

TEST_F(ExchangeRoundsTest, NoFabricProfileIsSetWithoutAnAgreement) {
    for (const auto origin : {Origin::Option, Origin::SiteFile}) {
        ExchangeStep step;
        step.node_count = 2;
        step.settings.fabric_profile = true;
        step.settings.given["fabric_profile"] = {"on", origin, ""};
        begin(std::move(step));
        told_.clear();
        ASSERT_TRUE(report(0));
        rounds_->lose(connection(0));
        const Texts none{"fabric_profile=on sets nothing: the nodes have not agreed"};
        EXPECT_EQ(Texts(told_.begin() + 1, told_.end()), origin == Origin::Option ? none : Texts());
    }
}

TEST_F(ExchangeRoundsTest, ACancelledStepWaitsForNobody) {
    begin(3);
    EXPECT_TRUE(report(0));
    EXPECT_TRUE(report(1));
    rounds_->cancel();
    EXPECT_TRUE(rounds_->answered());
    ASSERT_EQ(sent_.size(), 2U);
    EXPECT_EQ(test::from_server<Disagreement>(*sent_[0].second).why, "the step is cancelled");
    EXPECT_EQ(take_sent<Disagreement>(), (Connections{10, 11}));
    EXPECT_TRUE(report(2));
    EXPECT_EQ(take_sent<Disagreement>(), (Connections{12}));
    agree();
    rounds_->cancel(); // too late to matter
    EXPECT_TRUE(sent_.empty());
    EXPECT_TRUE(told_.empty());
}

TEST_F(ExchangeRoundsTest, ALostNodeEndsTheTests) {
    begin(3);
    for (const unsigned i : {0U, 1U, 2U}) {
        EXPECT_TRUE(report(i));
    }
    EXPECT_TRUE(result(1));
    sent_.clear();
    rounds_->lose(10); // the head
    EXPECT_EQ(take_sent<Disagreement>(), (Connections{11, 12}));
    EXPECT_TRUE(result(2)); // was under way
    EXPECT_TRUE(sent_.empty());
}

TEST_F(ExchangeRoundsTest, AConnectionWithoutAReportIsNoLoss) {
    begin(2);
    rounds_->lose(99);
    EXPECT_FALSE(rounds_->answered());
    EXPECT_TRUE(report(0));
    EXPECT_TRUE(report(1));
    EXPECT_TRUE(result(1));
    EXPECT_EQ(rounds_->still_running(), 2U);
}

TEST_F(ExchangeRoundsTest, SilentTestsHaveALimit) {
    begin(3);
    for (const unsigned i : {0U, 1U, 2U}) {
        EXPECT_TRUE(report(i));
    }
    EXPECT_TRUE(result(1));
    sent_.clear();
    pass(seconds(2));
    EXPECT_EQ(told_, (Texts{"waiting for connection tests of 1 of 3 nodes (2 s)"}));
    told_.clear();
    const auto limit = rounds_->next_time();
    EXPECT_GT(limit, now_ - seconds(2) + reach_timeout);
    now_ = limit;
    pass(milliseconds(0));
    EXPECT_EQ(take_sent<Agreement>(), (Connections{10, 11, 12}));
    // The node has said nothing: that counts as an address that it did not reach.
    EXPECT_EQ(told_.at(1), "n03: warning: cannot connect to 10.1.0.1 of n01, on the fabric (eth0): Connection timed "
                           "out; MASTER_ADDR stays 10.1.0.1, because no address is reached by all nodes: check "
                           "routes and firewalls, or set net= or head=");
    EXPECT_TRUE(result(2)); // too late, and nothing wrong
    EXPECT_TRUE(sent_.empty());
    EXPECT_EQ(rounds_->still_running(), 3U);
}

TEST_F(ExchangeRoundsTest, WhatIsNotToBeSentNowIsRefused) {
    begin(2);
    EXPECT_FALSE(result(0)); // before any report
    EXPECT_FALSE(evidence(0));
    EXPECT_TRUE(report(0));
    EXPECT_FALSE(report(0));                                 // twice
    EXPECT_FALSE(result(0, {}));                             // not asked
    EXPECT_FALSE(evidence(0));                               // not answered
    EXPECT_FALSE(rounds_->take(11, fabric_report(5), now_)); // not of this step
    EXPECT_FALSE(rounds_->take(12, fabric_report(0), now_)); // reported already, by another connection
    EXPECT_TRUE(report(1));
    EXPECT_FALSE(result(1, {})); // two addresses were asked for
    EXPECT_FALSE(result(1, {0, 0, 0}));
    EXPECT_FALSE(result(99)); // of nobody
    EXPECT_FALSE(evidence(1));
    EXPECT_TRUE(result(1));
    EXPECT_TRUE(rounds_->answered());
    EXPECT_FALSE(result(1));
    EXPECT_TRUE(evidence(1));
    EXPECT_FALSE(evidence(1));
    EXPECT_FALSE(evidence(99));
    EXPECT_EQ(rounds_->still_running(), 1U);
}

// The head does not test itself; a result of its own must not count as one of the others'.
TEST_F(ExchangeRoundsTest, AResultOfTheHeadIsRefused) {
    begin(2);
    EXPECT_TRUE(report(0));
    EXPECT_TRUE(report(1));
    EXPECT_FALSE(result(0));
    EXPECT_FALSE(rounds_->answered());
    EXPECT_TRUE(result(1));
    EXPECT_TRUE(rounds_->answered());
}

TEST_F(ExchangeRoundsTest, LossesAndEvidenceEndTheRun) {
    agree();
    EXPECT_TRUE(evidence(0));
    rounds_->lose(10); // ends its connection after the evidence
    EXPECT_EQ(rounds_->still_running(), 2U);
    rounds_->lose(11);
    rounds_->lose(11);
    EXPECT_EQ(rounds_->still_running(), 1U);
    EXPECT_FALSE(evidence(1));
    EXPECT_TRUE(evidence(2));
    EXPECT_EQ(rounds_->still_running(), 0U);
    EXPECT_TRUE(sent_.empty());
}

TEST_F(ExchangeRoundsTest, AlarmsAreToldWithTheNodesName) {
    agree();
    EXPECT_TRUE(alarm(1, "mlx5_0 port 1 is down"));
    EXPECT_TRUE(alarm(1, "mlx5_0 port 1 is up again"));
    EXPECT_EQ(told_, (Texts{"n02: warning: mlx5_0 port 1 is down", "n02: warning: mlx5_0 port 1 is up again"}));
    EXPECT_EQ(rounds_->still_running(), 3U);
    EXPECT_TRUE(sent_.empty());
}

TEST_F(ExchangeRoundsTest, AnAlarmEndsAStrictStep) {
    for (const bool strict : {false, true}) {
        ExchangeStep step;
        step.node_count = 1;
        step.settings.strict = strict;
        begin(std::move(step));
        told_.clear();
        EXPECT_FALSE(alarm(0, "before any report"));
        EXPECT_TRUE(report(0));
        EXPECT_EQ(ended_, 0U);
        told_.clear();
        EXPECT_TRUE(alarm(0, "mlx5_0 port 1 is down"));
        EXPECT_EQ(ended_, strict ? 1U : 0U);
        EXPECT_EQ(told_.size(), strict ? 2U : 1U);
        EXPECT_EQ(told_.front(), "n01: warning: mlx5_0 port 1 is down");
    }
    EXPECT_EQ(told_.back(), "strict: the step is ended");
}

// Slurm's name of the node is told, not what it calls itself.
TEST_F(ExchangeRoundsTest, AnAlarmNamesTheNodeThatSlurmKnows) {
    begin(1);
    auto other = plain_report(0);
    other.node = "n02.evil";
    EXPECT_TRUE(rounds_->take(10, other, now_));
    EXPECT_TRUE(alarm(0, "x"));
    EXPECT_EQ(told_.back(), "n01: warning: x");
}

TEST_F(ExchangeRoundsTest, AlarmsOutOfPlaceAreRefused) {
    begin(2);
    EXPECT_FALSE(alarm(0, "before any report"));
    EXPECT_TRUE(report(0));
    EXPECT_FALSE(alarm(0, "before the answer"));
    EXPECT_TRUE(report(1));
    EXPECT_TRUE(result(1));
    told_.clear();
    EXPECT_FALSE(alarm(7, "of nobody"));
    EXPECT_TRUE(evidence(1));
    EXPECT_FALSE(alarm(1, "after the end"));
    rounds_->lose(10);
    EXPECT_FALSE(alarm(0, "lost"));
    EXPECT_TRUE(rounds_->take(20, fabric_report(0), now_)); // late, and told to plan alone
    EXPECT_FALSE(rounds_->take(20, NodeAlarm{"late"}, now_));
    EXPECT_TRUE(told_.empty());
}

// --- Steps of which Slurm tells little ---

TEST_F(ExchangeRoundsTest, NodesKnowTheSizeWhereSrunDoesNot) {
    ExchangeStep step;
    step.node_count = 5;
    begin(std::move(step));
    for (const unsigned i : {1U, 0U}) {
        auto of_node = fabric_report(i);
        of_node.step_nodes = 2;
        EXPECT_TRUE(rounds_->take(connection(i), of_node, now_));
    }
    EXPECT_EQ(take_sent<ReachTest>(), (Connections{11}));
}

// srun lists the nodes of all components; the step is of its own component only.
TEST_F(ExchangeRoundsTest, OtherComponentsMayHaveNoPart) {
    ExchangeStep step;
    step.nodes = {{"n11", 1, 0, 0, 0}, {"n01", 1, 0, 1, 1}, {"n02", 1, 1, 2, 1}};
    step.component = 1;
    step.node_count = 3;
    begin(std::move(step));
    auto first = fabric_report(0);
    auto second = fabric_report(1);
    first.step_nodes = second.step_nodes = 2;
    EXPECT_TRUE(rounds_->take(11, second, now_));
    pass(seconds(2));
    EXPECT_EQ(told_, (Texts{"waiting for 1 of 2 nodes: n01 (2 s)"}));
    EXPECT_TRUE(rounds_->take(10, first, now_));
    EXPECT_EQ(take_sent<ReachTest>(), (Connections{11}));
}

TEST_F(ExchangeRoundsTest, AllComponentsInTheOrderOfTheirRanks) {
    ExchangeStep step;
    step.nodes = {{"n01", 1, 0, 0, 0}, {"n02", 1, 0, 1, 1}};
    step.component = 1;
    step.node_count = 2;
    begin(std::move(step));
    auto first = fabric_report(0);
    auto second = fabric_report(1);
    second.first_task = 0; // each component counts from 0
    second.block = PortBlock{30000, 30001, "derived", "", {}};
    second.listener = 30000;
    first.step_nodes = second.step_nodes = 2;
    EXPECT_TRUE(rounds_->take(11, second, now_));
    EXPECT_TRUE(rounds_->take(10, first, now_));
    ASSERT_EQ(sent_.size(), 1U);
    EXPECT_EQ(test::from_server<ReachTest>(*sent_[0].second).port, 29400);
    EXPECT_EQ(take_sent<ReachTest>(), (Connections{11}));
}

// Two say that they have task 0, and no layout says which of them has rank 0.
TEST_F(ExchangeRoundsTest, AHeterogeneousStepOfUnknownLayout) {
    ExchangeStep step;
    step.nodes = {{"n01", 1, 0, 0, 0}};
    step.node_count = 1;
    begin(std::move(step));
    for (const unsigned i : {0U, 1U}) {
        auto of_node = fabric_report(i);
        of_node.step_nodes = 2;
        of_node.first_task = 0;
        EXPECT_TRUE(rounds_->take(connection(i), of_node, now_));
    }
    ASSERT_EQ(sent_.size(), 2U);
    EXPECT_EQ(test::from_server<Disagreement>(*sent_[0].second).why, "Slurm does not tell which node has rank 0");
}

TEST_F(ExchangeRoundsTest, WithoutANodeOfTaskZero) {
    ExchangeStep step;
    step.node_count = 2;
    begin(std::move(step));
    EXPECT_TRUE(report(1));
    EXPECT_TRUE(report(2));
    EXPECT_EQ(take_sent<Disagreement>(), (Connections{11, 12}));
}

TEST_F(ExchangeRoundsTest, AStepOfOneNode) {
    begin(1);
    EXPECT_TRUE(report(0));
    EXPECT_EQ(take_sent<Agreement>(), (Connections{10}));
}

// --- What is told ---

TEST_F(ExchangeRoundsTest, ManyFindingsAreCutToAFew) {
    for (const unsigned verbose : {1U, 2U}) {
        ExchangeStep step;
        step.node_count = 2;
        step.settings.verbose = verbose;
        begin(std::move(step));
        told_.clear();
        auto head = fabric_report(0, 0);
        for (unsigned i = 0; i < 9; ++i) {
            head.warnings.push_back("fault " + std::to_string(i));
        }
        EXPECT_TRUE(rounds_->take(10, head, now_));
        EXPECT_TRUE(report(1));
        ASSERT_EQ(told_.size(), verbose == 1 ? 8U : 10U);
        EXPECT_EQ(told_[1], "n01: warning: fault 0");
        EXPECT_EQ(told_.back(),
                  verbose == 1 ? "and 3 more warnings, see --rdma-nccl=verbose=2" : "n01: warning: fault 8");
    }
}

TEST_F(ExchangeRoundsTest, AThousandMissingNodesAreALineOfBoundedLength) {
    ExchangeStep step;
    for (unsigned i = 0; i < 1000; ++i) {
        step.nodes.push_back({"n" + std::to_string(7 * i), 1, i, i, 0});
    }
    step.node_count = 1000;
    begin(std::move(step));
    pass(seconds(2));
    ASSERT_EQ(told_.size(), 1U);
    EXPECT_LT(told_[0].size(), 500U);
}

} // namespace
} // namespace rdma_nccl
