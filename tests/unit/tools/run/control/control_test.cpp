// SPDX-License-Identifier: Apache-2.0
// Launchers on loopback, in one process: no ranks, no Slurm.
#include "lib/net/coordinator.h"
#include "lib/net/dialer.h"
#include "lib/net/tcp.h"
#include "tests/unit/descriptor_limit.h"
#include "tools/run/control/control.h"
#include "tools/run/world/world.h"

#include <csignal>
#include <functional>
#include <gtest/gtest.h>
#include <poll.h>
#include <thread>

namespace rdma_nccl::run {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

const IpAddress loopback = *IpAddress::parse("127.0.0.1");

RankFailure failure_of(unsigned rank, int code) {
    RankFailure failure;
    failure.host = "n02";
    failure.rank = rank;
    failure.code = code;
    return failure;
}

struct Launcher {
    std::unique_ptr<Control> control;
    std::vector<Order> orders = {};
    std::vector<std::string> warnings = {};

    void work() {
        const auto more = control->process(Clock::now());
        orders.insert(orders.end(), more.begin(), more.end());
        const auto words = control->take_warnings();
        warnings.insert(warnings.end(), words.begin(), words.end());
    }
    [[nodiscard]] std::optional<int> finish() const {
        const auto* const last = orders.empty() ? nullptr : std::get_if<Finish>(&orders.back());
        return last == nullptr ? std::nullopt : std::optional(last->code);
    }
    /// After it has said that nothing moves.
    [[nodiscard]] bool suspects_hang() const {
        control->report_activity(false);
        return control->take_hang_suspicion();
    }
    template<typename T>
    [[nodiscard]] const T* order() const {
        for (const auto& one : orders) {
            if (const auto* const found = std::get_if<T>(&one)) {
                return found;
            }
        }
        return nullptr;
    }
};

class RunControl : public testing::Test {
protected:
    ControlSettings settings(unsigned node) const {
        ControlSettings wanted;
        wanted.node_rank = node;
        wanted.host = "n0" + std::to_string(node + 1);
        wanted.addresses = {loopback};
        wanted.port = port_.port;
        wanted.key = key_;
        wanted.context = "run 7.0";
        wanted.node_timeout = timeout;
        wanted.join_timeout = join_timeout;
        wanted.hang_timeout = hang_timeout;
        wanted.ends_hanging_job = true;
        return wanted;
    }
    ArbiterRules rules(unsigned nodes) const {
        return {nodes, restarts, 93, {SIGTERM}, [](unsigned attempt) { return std::uint16_t(7000 + attempt); }};
    }
    void start(unsigned nodes) {
        launchers_.push_back({make_coordinator_control(settings(0), rules(nodes))});
        for (unsigned node = 1; node < nodes; ++node) {
            launchers_.push_back({make_worker_control(settings(node), rules(nodes))});
        }
    }
    /// All work until it is so; a minute at most.
    testing::AssertionResult until(const std::function<bool()>& is_so) {
        const auto end = Clock::now() + std::chrono::minutes(1);
        while (!is_so()) {
            if (Clock::now() > end) {
                return testing::AssertionFailure() << "not within a minute";
            }
            for (auto& launcher : launchers_) {
                launcher.work();
            }
            std::this_thread::sleep_for(milliseconds(2));
        }
        return testing::AssertionSuccess();
    }
    bool all_finished() const {
        return std::all_of(launchers_.begin(), launchers_.end(), [](const auto& l) { return l.finish(); });
    }

    Key key_ = random_key().value();
    HeldPort port_ = *hold_free_port();
    std::vector<Launcher> launchers_;
    milliseconds timeout{30000};
    milliseconds join_timeout{30000};
    std::optional<milliseconds> hang_timeout;
    unsigned restarts = 0;
};

TEST_F(RunControl, AFailureReachesAllAndItsCodeToo) {
    start(4);
    launchers_[2].control->report_failure(failure_of(9, 7), Clock::now());
    ASSERT_TRUE(until([this] {
        return std::all_of(launchers_.begin(), launchers_.end(),
                           [](auto& l) { return l.template order<EndRanks>() != nullptr; });
    }));
    const RankDump dump{"n03", "/d", 0, {"2.10", 9, {}}};
    launchers_[2].control->report_dump(dump);
    for (auto& launcher : launchers_) {
        launcher.control->report_ended({});
    }
    ASSERT_TRUE(until([this] { return all_finished(); }));
    EXPECT_EQ(launchers_[0].control->arbiter()->dumps(), std::vector{dump});
    for (const auto& launcher : launchers_) {
        EXPECT_EQ(launcher.finish(), 7);
        EXPECT_EQ(launcher.warnings, std::vector<std::string>{});
    }
    EXPECT_EQ(launchers_[0].control->arbiter()->failures().at(0).rank, 9U);
    EXPECT_EQ(launchers_[0].control->arbiter()->failures().at(0).node_rank, 2U);
    EXPECT_EQ(launchers_[2].control->arbiter(), nullptr) << "one report is enough";
}

TEST_F(RunControl, AThousandNodes) {
    const test::DescriptorLimit limit(8192);
    if (limit.count() < 8192) {
        GTEST_SKIP() << "no 8192 descriptors are allowed here";
    }
    start(1000);
    const auto all_have = [this](auto has) { return std::all_of(launchers_.begin(), launchers_.end(), has); };
    launchers_[777].control->report_failure(failure_of(9, 7), Clock::now());
    ASSERT_TRUE(until([&] { return all_have([](auto& l) { return l.template order<EndRanks>() != nullptr; }); }));
    for (auto& launcher : launchers_) {
        launcher.control->report_ended({});
    }
    ASSERT_TRUE(until([this] { return all_finished(); }));
    EXPECT_TRUE(all_have([](auto& l) { return l.finish() == 7 && l.warnings.empty(); }));
}

TEST_F(RunControl, WhatTheHeadSaysLastIsTheCode) {
    start(2);
    launchers_[1].control->report_signal({SIGUSR1, 1});
    ASSERT_TRUE(until([this] { return launchers_[0].order<SignalCount>() != nullptr; }));
    launchers_[0].control->report_failure(failure_of(0, 7), Clock::now());
    launchers_[0].control->report_ended({});
    launchers_[1].control->report_ended({}); // its ranks did not fail
    ASSERT_TRUE(until([this] { return launchers_[0].finish().has_value(); }));
    launchers_.erase(launchers_.begin()); // gone before the other has heard
    for (int i = 0; i < 50; ++i) {
        launchers_[0].work();
        std::this_thread::sleep_for(milliseconds(2));
    }
    EXPECT_EQ(launchers_[0].finish(), 7);
}

TEST_F(RunControl, WhoHearsOfTheEndAndOfTheHeadsEndAtOnceReportsNothing) {
    start(2);
    launchers_[1].control->report_failure(failure_of(1, 7), Clock::now());
    ASSERT_TRUE(until([this] { return launchers_[1].order<EndRanks>() != nullptr; }));
    launchers_[0].control->report_ended({});
    launchers_[1].control->report_ended({});
    while (!launchers_[0].finish()) {
        launchers_[0].work();
        std::this_thread::sleep_for(milliseconds(2));
    }
    launchers_.erase(launchers_.begin());
    ASSERT_TRUE(until([this] { return all_finished(); }));
    launchers_[0].work();
    EXPECT_EQ(launchers_[0].finish(), 7);
    EXPECT_EQ(launchers_[0].control->arbiter(), nullptr) << "the head has reported it";
    EXPECT_EQ(launchers_[0].warnings, std::vector<std::string>{});
}

TEST_F(RunControl, SignalsReachAll) {
    start(3);
    launchers_[1].control->report_signal({SIGUSR1, 2});
    ASSERT_TRUE(until([this] { return launchers_[2].order<SignalCount>() && launchers_[0].order<SignalCount>(); }));
    EXPECT_EQ(*launchers_[2].order<SignalCount>(), (SignalCount{SIGUSR1, 2}));
}

TEST_F(RunControl, AllStartAgainWithTheSamePort) {
    restarts = 1;
    start(3);
    launchers_[1].control->report_failure(failure_of(5, 7), Clock::now());
    for (auto& launcher : launchers_) {
        launcher.control->report_ended({});
    }
    ASSERT_TRUE(until([this] {
        return std::all_of(launchers_.begin(), launchers_.end(),
                           [](auto& l) { return l.template order<Restart>() != nullptr; });
    }));
    for (auto& launcher : launchers_) {
        EXPECT_EQ(*launcher.order<Restart>(), (Restart{1, 7001}));
        launcher.control->report_ended({1, true});
    }
    ASSERT_TRUE(until([this] { return all_finished(); }));
    EXPECT_EQ(launchers_[2].finish(), 0);
}

TEST_F(RunControl, AJobHangsOnlyIfNothingMovesWhileNcclIsAsked) {
    hang_timeout = milliseconds(1);
    const Laggard laggard{"127.0.0.1", 1, "lags"};
    struct Case {
        bool moves; ///< as a node sees it
        RasAnswer answer;
        bool hangs;
        bool ends;
    };
    for (const auto& [moves, answer, hangs, ends] :
         {Case{false, {false, false, "equal", {}}, true, true},
          Case{false, {false, true, "lags", {laggard}}, true, true},
          Case{false, {true, false, "moves", {}}, false, false},
          Case{false, {true, false, "has left or not joined", {laggard}}, false, false},
          Case{false, {true, true, "lags, others move", {laggard}}, true, false},
          Case{true, {false, false, "equal", {}}, false, false},
          Case{true, {false, true, "lags", {laggard}}, true, false}}) {
        launchers_.clear();
        start(1);
        auto& launcher = launchers_[0];
        ASSERT_TRUE(until([&] { return launcher.suspects_hang(); }));
        EXPECT_FALSE(launcher.control->take_hang_suspicion()) << "once";
        launcher.work();
        EXPECT_EQ(launcher.order<ShowStacks>(), nullptr) << "it may only be slow";
        launcher.control->report_activity(moves);
        launcher.control->report_ras(answer);
        launcher.work();
        EXPECT_EQ(launcher.order<ShowStacks>() != nullptr, hangs) << answer.text;
        EXPECT_EQ(launcher.order<Laggard>() != nullptr, hangs && !answer.laggards.empty()) << answer.text;
        EXPECT_EQ(launcher.order<EndRanks>() != nullptr, ends) << answer.text;
    }
}

TEST_F(RunControl, AJobThatEndsDoesNotHang) {
    hang_timeout = milliseconds(1);
    start(1);
    auto& launcher = launchers_[0];
    launcher.control->report_failure(failure_of(0, 7), Clock::now());
    std::this_thread::sleep_for(milliseconds(2)); // longer than the timeout
    EXPECT_FALSE(launcher.suspects_hang());
    start(1);
    auto& asked = launchers_[1];
    ASSERT_TRUE(until([&] { return asked.suspects_hang(); }));
    asked.control->report_failure(failure_of(0, 7), Clock::now());
    asked.work();
    asked.warnings.clear();
    asked.control->report_ras({});
    asked.work();
    EXPECT_TRUE(asked.warnings.empty());
}

TEST_F(RunControl, TheHangOfAnEarlierAttemptDoesNotEndTheNext) {
    hang_timeout = milliseconds(1);
    restarts = 1;
    start(1);
    auto& launcher = launchers_[0];
    ASSERT_TRUE(until([&] { return launcher.suspects_hang(); }));
    launcher.control->report_failure(failure_of(0, 7), Clock::now());
    launcher.control->report_ended({});
    ASSERT_TRUE(until([&] { return launcher.order<Restart>() != nullptr; }));
    const auto before = launcher.orders.size();
    launcher.control->report_ras({});
    launcher.work();
    EXPECT_EQ(launcher.orders.size(), before);
}

TEST_F(RunControl, ALauncherThatDiesEndsTheOthers) {
    start(3);
    launchers_[1].control->report_activity(true);
    launchers_[1].control->report_signal({SIGUSR1, 1}); // to know that it is connected
    ASSERT_TRUE(until([this] { return launchers_[2].order<SignalCount>() != nullptr; }));
    launchers_.erase(launchers_.begin() + 1);
    ASSERT_TRUE(until([this] { return launchers_[1].order<EndRanks>() != nullptr; }));
    EXPECT_EQ(launchers_[1].order<EndRanks>()->why,
              "node n02 (node rank 1) is lost: its launcher is gone: it has closed the connection");
    for (auto& launcher : launchers_) {
        launcher.control->report_ended({});
    }
    ASSERT_TRUE(until([this] { return all_finished(); }));
    EXPECT_EQ(launchers_[0].finish(), 1);
}

TEST_F(RunControl, TheDeadHeadEndsTheOthers) {
    start(2);
    launchers_[1].control->report_signal({SIGUSR1, 1});
    ASSERT_TRUE(until([this] { return launchers_[0].order<SignalCount>() != nullptr; }));
    launchers_.erase(launchers_.begin());
    ASSERT_TRUE(until([this] { return launchers_[0].order<EndRanks>() != nullptr; }));
    launchers_[0].control->report_ended({});
    ASSERT_TRUE(until([this] { return all_finished(); }));
    EXPECT_EQ(launchers_[0].finish(), 1);
    ASSERT_EQ(launchers_[0].warnings.size(), 1U);
    EXPECT_TRUE(
        launchers_[0].warnings[0].starts_with("the head node, which has rank 0, is lost: its launcher is gone"));
}

TEST_F(RunControl, ASilentNodeIsLostButNotToOneThatWasStoppedItself) {
    timeout = milliseconds(1500);
    start(3);
    launchers_[1].control->report_signal({SIGUSR1, 1});
    launchers_[2].control->report_signal({SIGUSR2, 1});
    ASSERT_TRUE(until([this] { return launchers_[1].orders.size() > 1 && launchers_[2].orders.size() > 1; }));
    std::this_thread::sleep_for(timeout * 2); // all are stopped
    for (int i = 0; i < 20; ++i) {
        for (auto& launcher : launchers_) {
            launcher.work();
        }
        std::this_thread::sleep_for(milliseconds(10));
    }
    EXPECT_EQ(launchers_[0].order<EndRanks>(), nullptr);
    const auto silent = std::move(launchers_[1]); // connected, but says no more
    launchers_.erase(launchers_.begin() + 1);
    ASSERT_TRUE(until([this] { return launchers_[1].order<EndRanks>() != nullptr; }));
    EXPECT_EQ(launchers_[1].order<EndRanks>()->why, "node n02 (node rank 1) is lost: nothing heard from it for 1.5 s");
}

TEST_F(RunControl, WhoIsAloneEndsItsOwn) {
    join_timeout = milliseconds(300);
    launchers_.push_back({make_worker_control(settings(1), rules(2))}); // no head
    ASSERT_TRUE(until([this] { return !launchers_[0].warnings.empty(); }));
    EXPECT_NE(launchers_[0].warnings[0].find("no connection to the launcher of rank 0"), std::string::npos);
    EXPECT_NE(launchers_[0].warnings[0].find("Connection refused"), std::string::npos) << launchers_[0].warnings[0];
    launchers_[0].control->report_failure(failure_of(5, 7), Clock::now());
    launchers_[0].control->report_ended({});
    ASSERT_TRUE(until([this] { return all_finished(); }));
    EXPECT_EQ(launchers_[0].finish(), 7);
    EXPECT_NE(launchers_[0].control->arbiter(), nullptr);
}

TEST_F(RunControl, TheHeadDoesNotWaitForEverForWhoNeverCame) {
    join_timeout = milliseconds(300);
    launchers_.push_back({make_coordinator_control(settings(0), rules(2))});
    launchers_[0].control->report_ended({});
    ASSERT_TRUE(until([this] { return all_finished(); }));
    EXPECT_EQ(launchers_[0].finish(), 0);
    ASSERT_EQ(launchers_[0].warnings.size(), 1U);
    EXPECT_NE(launchers_[0].warnings[0].find("1 of 1 launchers did not connect"), std::string::npos);
}

TEST_F(RunControl, WhoHasThePortIsNamed) {
    const auto first = make_coordinator_control(settings(0), rules(2));
    launchers_.push_back({make_coordinator_control(settings(0), rules(2))});
    launchers_[0].work();
    ASSERT_FALSE(launchers_[0].warnings.empty());
    EXPECT_NE(launchers_[0].warnings[0].find(std::to_string(::getpid()) + ") listens there"), std::string::npos)
        << launchers_[0].warnings[0];
}

TEST_F(RunControl, WithAnotherKeyOrOfAnotherWorldNobodyJoins) {
    launchers_.push_back({make_coordinator_control(settings(0), rules(2))});
    auto another_key = settings(1);
    another_key.key = random_key().value();
    auto another_world = settings(1);
    another_world.context = "run 7.1";
    for (auto* const wrong : {&another_key, &another_world}) {
        wrong->join_timeout = milliseconds(300);
        Launcher stranger{make_worker_control(*wrong, rules(2))};
        stranger.control->report_failure(failure_of(1, 9), Clock::now());
        ASSERT_TRUE(until([&] {
            stranger.work();
            return !stranger.warnings.empty();
        }));
        EXPECT_NE(stranger.warnings[0].find("does not have the key"), std::string::npos) << stranger.warnings[0];
    }
    launchers_.push_back({make_worker_control(settings(1), rules(2))});
    for (auto& launcher : launchers_) {
        launcher.control->report_ended({});
    }
    ASSERT_TRUE(until([this] { return all_finished(); }));
    EXPECT_EQ(launchers_[0].finish(), 0) << "nobody heard of the stranger's failure";
}

TEST_F(RunControl, AConnectionThatWasGivenUpIsNobody) {
    launchers_.push_back({make_coordinator_control(settings(0), rules(2))});
    {
        Dialer early({{loopback}, port_.port, key_, "run 7.0", most_control_line});
        while (!early.is_connected()) {
            ASSERT_FALSE(early.work());
        }
    } // and gone, before the head looks
    launchers_.push_back({make_worker_control(settings(1), rules(2))});
    for (auto& launcher : launchers_) {
        launcher.control->report_ended({});
    }
    ASSERT_TRUE(until([this] { return all_finished(); }));
    EXPECT_EQ(launchers_[0].finish(), 0);
    EXPECT_EQ(launchers_[0].warnings, std::vector<std::string>{});
}

TEST_F(RunControl, TheSecondLauncherOfANodeIsNotTakenAndTheFirstIsTold) {
    start(3);
    launchers_[1].control->report_signal({SIGUSR1, 1}); // to know that it is connected
    ASSERT_TRUE(until([this] { return launchers_[2].order<SignalCount>() != nullptr; }));
    join_timeout = milliseconds(1000); // it tries several times
    auto second = settings(1);
    second.host = "n09";
    launchers_.push_back({make_worker_control(second, rules(3))});
    ASSERT_TRUE(until([this] { return !launchers_[3].warnings.empty(); }));
    EXPECT_NE(launchers_[3].warnings[0].find("no connection to the launcher of rank 0"), std::string::npos);
    EXPECT_EQ(launchers_[3].orders, std::vector<Order>{});
    EXPECT_EQ(launchers_[0].warnings,
              std::vector<std::string>{"two launchers say that they are node rank 1, the second "
                                       "on n09: check --node-rank there"});
    EXPECT_EQ(launchers_[0].order<EndRanks>(), nullptr);
}

/// The connection of launcher `node`, of a version that is not understood. The head answers.
class OtherLauncher {
public:
    OtherLauncher(const ControlSettings& settings, Launcher& head)
        : dialer_({{loopback}, settings.port, *settings.key, settings.context, most_control_line, true}) {
        while (!connection_) {
            head.work();
            connection_ = dialer_.work();
        }
        const Hello hello{settings.node_rank, settings.host, {"9.8.7", 99}};
        connection_->send(std::make_shared<const std::string>(write_message(hello)));
    }
    /// The next message, or "".
    std::string hear() {
        (void)connection_->write();
        (void)connection_->read();
        return connection_->next_message().value_or("");
    }

private:
    Dialer dialer_;
    std::optional<Connection> connection_;
};

TEST_F(RunControl, LaunchersThatAreNotUnderstoodAreNamedTogetherAndNotWaitedFor) {
    launchers_.push_back({make_coordinator_control(settings(0), rules(4))});
    std::vector<std::string> heard(2);
    OtherLauncher second(settings(1), launchers_[0]);
    OtherLauncher third(settings(2), launchers_[0]);
    ASSERT_TRUE(until([&] {
        heard[0] += second.hear();
        heard[1] += third.hear();
        return !heard[0].empty() && !heard[1].empty();
    }));
    EXPECT_EQ(heard, std::vector(2, write_message(Refused{})));
    EXPECT_EQ(launchers_[0].warnings, std::vector<std::string>{}) << "there may be more of them";
    launchers_.push_back({make_worker_control(settings(3), rules(4))});
    ASSERT_TRUE(until([this] { return !launchers_[0].warnings.empty(); }));
    for (auto& launcher : launchers_) {
        launcher.control->report_ended({});
    }
    ASSERT_TRUE(until([this] { return all_finished(); }));
    EXPECT_EQ(launchers_[0].finish(), 0);
    EXPECT_EQ(launchers_[0].warnings,
              std::vector{only_through_slurm("n[02-03] run rdma-nccl 9.8.7 (protocol 99), n01 runs " +
                                             own_release().version + " (protocol 2): install the same on all nodes")});
    EXPECT_EQ(launchers_[1].warnings, std::vector<std::string>{});
}

TEST_F(RunControl, ALauncherThatIsRefusedEndsItsOwnAndLeavesTheWarningToTheHead) {
    CoordinatorRules rules_of_head;
    rules_of_head.key = key_;
    rules_of_head.context = "run 7.0";
    rules_of_head.longest_message = most_control_line;
    rules_of_head.expected_workers = 1;
    auto head = Coordinator::make(listen_on(port_.port, PortSharing::Reuse).value(), rules_of_head).value();
    launchers_.push_back({make_worker_control(settings(1), rules(2))});
    launchers_[0].control->report_failure(failure_of(5, 7), Clock::now());
    launchers_[0].control->report_ended({});
    ASSERT_TRUE(until([&] {
        for (const auto& event : head.work()) {
            if (event.kind == CoordinatorEvent::Kind::Message) {
                head.send(event.worker, std::make_shared<const std::string>(write_message(Refused{})));
            }
        }
        return all_finished();
    }));
    EXPECT_EQ(launchers_[0].finish(), 7);
    EXPECT_EQ(launchers_[0].warnings, std::vector<std::string>{});
    EXPECT_NE(launchers_[0].control->arbiter(), nullptr) << "it reports its own failure";
}

TEST_F(RunControl, WithoutAKeyEachIsAloneAndSaysWhy) {
    for (unsigned node = 0; node < 2; ++node) {
        auto keyless = settings(node);
        keyless.key = fail("RDMA_NCCL_TOKEN is not set");
        launchers_.push_back(
            {node == 0 ? make_coordinator_control(keyless, rules(2)) : make_worker_control(keyless, rules(2))});
    }
    launchers_[1].control->report_failure(failure_of(1, 7), Clock::now());
    for (auto& launcher : launchers_) {
        launcher.control->report_ended({});
    }
    ASSERT_TRUE(until([this] { return all_finished(); }));
    EXPECT_EQ(launchers_[0].finish(), 0);
    EXPECT_EQ(launchers_[1].finish(), 7);
    for (const auto& launcher : launchers_) {
        EXPECT_EQ(launcher.warnings,
                  std::vector<std::string>{"a failure here reaches other nodes only through Slurm "
                                           "(srun --kill-on-bad-exit=1): RDMA_NCCL_TOKEN is not set"});
        EXPECT_NE(launcher.control->arbiter(), nullptr) << "each tells how it ended";
    }
}

TEST_F(RunControl, AloneNeedsNoSocket) {
    Launcher launcher{make_coordinator_control({}, rules(1))};
    EXPECT_EQ(launcher.control->fd(), -1);
    EXPECT_FALSE(launcher.control->deadline());
    launcher.control->report_failure(failure_of(0, 7), Clock::now());
    launcher.control->report_ended({});
    launcher.work();
    EXPECT_EQ(launcher.finish(), 7);
}

} // namespace

} // namespace rdma_nccl::run
