// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"
#include "tests/unit/pairs_report.h"
#include "tools/pairs/pair_run.h"
#include "tools/verbs/rail.h"

#include <gtest/gtest.h>
#include <map>

namespace rdma_nccl::pairs {
namespace {

using std::chrono::seconds;

constexpr measure::Clock::time_point start{};

PairingJob job_of(unsigned a, unsigned b) {
    PairingJob job;
    job.pairing = {a, b, 0, 0};
    job.round = 3;
    job.names = {"n01", "n02"};
    job.rails = {test::rail(1), test::rail(2)};
    job.number = 7;
    return job;
}

Json address(unsigned mtu) {
    VerbsAddress address;
    address.mtu = mtu;
    address.queue_pairs = {17};
    address.packet_numbers = {1};
    address.memory = 4096;
    address.size = 1 << 20;
    address.key = 5;
    address.mailbox = 8192;
    return address_json(address);
}

/// Both members, who answer all orders as members that work do, but for what a test says.
class Members {
public:
    std::map<unsigned, unsigned> mtu{{0, 4096}, {1, 4096}};
    bool correct = true;
    std::map<std::string, Json> instead; ///< "SIDE WHAT": merged into the answer
    std::vector<std::string> log;        ///< "SIDE WHAT" of all orders

    Json answer(const SideOrder& order) {
        const auto what = order.what.at("do").get<std::string>();
        const auto key = std::to_string(order.side) + " " + what;
        log.push_back(key);
        Json answer = {{"pairing", order.what.at("pairing")}, {"step", order.what.at("step")}};
        if (what == "prepare") {
            answer["addresses"] = Json::array();
            for (unsigned i = 0; i < order.what.at("ends").get<unsigned>(); ++i) {
                answer["addresses"].push_back(address(mtu[order.side]));
            }
        } else if (what == "check") {
            answer["correct"] = correct;
        } else if (what == "latency") {
            answer["latency"] = {{"min_us", 1},  {"median_us", 2}, {"p99_us", 3},
                                 {"p999_us", 4}, {"max_us", 5},    {"round_trips", 100}};
        } else if (what == "bandwidth") {
            answer.update({{"gbps", order.side == 0 ? 380 : 390}, {"bytes", 1000}, {"counted", 1010}});
        } else if (what == "listen") {
            answer["port"] = 4000 + order.side;
        } else if (what == "tcp receive") {
            answer["gbps"] = 30;
        }
        if (const auto found = instead.find(key); found != instead.end()) {
            answer.update(found->second);
        }
        return answer;
    }

    /// Until the run is done, or waits for what `silent` does not answer.
    void carry_out(PairingRun& run, SideOrders orders, const std::string& silent = "") {
        while (!orders.empty()) {
            const auto order = orders.front();
            orders.erase(orders.begin());
            const auto said = answer(order);
            if (log.back() != silent) {
                const auto more = run.take(order.side, said, start);
                orders.insert(orders.end(), more.begin(), more.end());
            }
        }
    }
};

PairingResult measured(PairingJob job, Members& workers) {
    PairingRun run(std::move(job));
    workers.carry_out(run, run.start(start));
    EXPECT_TRUE(run.done());
    return run.result();
}

TEST(PairsPairing, MeasuresAllInOrder) {
    Members workers;
    auto job = job_of(4, 9);
    job.measure.tcp = true;
    const auto result = measured(job, workers);
    EXPECT_EQ(result.problem, "");
    EXPECT_EQ(result.pairing, (Pairing{4, 9, 0, 0}));
    EXPECT_EQ(result.round, 3U);
    EXPECT_EQ(result.path_mtu, 4096U);
    EXPECT_EQ(result.data_correct, true);
    EXPECT_EQ(result.latency, (PairLatency{1, 2, 3, 4, 5, 100}));
    EXPECT_EQ(result.forward, (Bandwidth{380, 1000, 1.01, 30}));
    EXPECT_EQ(result.backward, (Bandwidth{390, 1000, 1.01, 30}));
    EXPECT_EQ(result.both, (Bandwidth{770, 2000, 1.01, {}}));
    EXPECT_EQ(workers.log,
              (std::vector<std::string>{"0 prepare",   "1 prepare",     "0 connect",   "1 connect",   "0 write",
                                        "1 check",     "1 write",       "0 check",     "0 latency",   "1 latency",
                                        "0 bandwidth", "1 bandwidth",   "0 bandwidth", "1 bandwidth", "1 listen",
                                        "0 tcp send",  "1 tcp receive", "0 listen",    "1 tcp send",  "0 tcp receive",
                                        "0 finish",    "1 finish"}));
}

TEST(PairsPairing, LeavesOutWhatIsNotWanted) {
    Members workers;
    auto job = job_of(0, 1);
    job.measure.latency = job.measure.both = false;
    const auto result = measured(job, workers);
    EXPECT_FALSE(result.latency);
    EXPECT_FALSE(result.both);
    EXPECT_TRUE(result.backward);
}

TEST(PairsPairing, TcpNeedsAddresses) {
    Members workers;
    auto job = job_of(0, 1);
    job.measure.tcp = true;
    job.rails[1].address.clear();
    EXPECT_FALSE(measured(job, workers).forward->tcp_gbps);
}

TEST(PairsPairing, OneMemberHasBothEndsOfALoopback) {
    Members workers;
    auto job = job_of(2, 2);
    job.rails[1] = job.rails[0];
    const auto result = measured(job, workers);
    EXPECT_EQ(result.problem, "");
    EXPECT_EQ(result.forward->gbps, 380);
    EXPECT_FALSE(result.backward);
    EXPECT_EQ(workers.log, (std::vector<std::string>{"0 prepare", "0 connect", "0 write", "0 check", "0 latency",
                                                     "0 bandwidth", "0 finish"}));
}

TEST(PairsPairing, TheSmallerMtuIsAgreedAndTold) {
    Members workers;
    workers.mtu = {{0, 4096}, {1, 1024}};
    const auto result = measured(job_of(0, 1), workers);
    EXPECT_EQ(result.path_mtu, 1024U);
    EXPECT_EQ(result.notes, std::vector<std::string>{"path MTU 1024: n01 mlx5_1:1 has 4096, n02 mlx5_2:1 has 1024"});
}

TEST(PairsPairing, WrongDataIsNoReasonToStop) {
    Members workers;
    workers.correct = false;
    const auto result = measured(job_of(0, 1), workers);
    EXPECT_EQ(result.problem, "");
    EXPECT_EQ(result.data_correct, false);
    EXPECT_TRUE(result.forward);
    EXPECT_EQ(result.notes.size(), 2U);
}

TEST(PairsPairing, OneDirectionWithWrongDataIsEnough) {
    Members workers;
    workers.instead["1 check"] = {{"correct", false}};
    EXPECT_EQ(measured(job_of(0, 1), workers).data_correct, false);
    workers.instead = {{"0 check", {{"correct", false}}}};
    EXPECT_EQ(measured(job_of(0, 1), workers).data_correct, false);
}

TEST(PairsPairing, WhoCannotOpenItsHcaIsAtFault) {
    Members workers;
    workers.instead["1 prepare"] = {{"error", "n02 mlx5_2:1: no memory can be registered"}};
    const auto result = measured(job_of(4, 9), workers);
    EXPECT_EQ(result.problem, "n02 mlx5_2:1: no memory can be registered");
    EXPECT_EQ(result.fault_of, 9U);
    EXPECT_EQ(workers.log.back(), "1 finish");
    EXPECT_EQ(workers.log[workers.log.size() - 2], "0 finish");
}

TEST(PairsPairing, WhoseFaultALostPacketIsIsNotKnown) {
    Members workers;
    workers.instead["0 bandwidth"] = {{"error", "n01 mlx5_1:1: no answer (RETRY_EXC_ERR)"}, {"own", false}};
    const auto result = measured(job_of(0, 1), workers);
    EXPECT_EQ(result.problem, "n01 mlx5_1:1: no answer (RETRY_EXC_ERR)");
    EXPECT_FALSE(result.fault_of);
    EXPECT_TRUE(result.latency) << "what was measured before stays";
}

TEST(PairsPairing, AnErrorThatIsOnesOwnNamesIt) {
    Members workers;
    workers.instead["1 write"] = {{"error", "x"}, {"own", true}};
    EXPECT_EQ(measured(job_of(4, 9), workers).fault_of, 9U);
}

TEST(PairsPairing, TcpThatFailsIsANote) {
    Members workers;
    auto job = job_of(0, 1);
    job.measure.tcp = true;
    workers.instead["0 tcp send"] = {{"error", "n01: 10.0.0.1 port 4001: Connection refused"}};
    const auto result = measured(job, workers);
    EXPECT_EQ(result.problem, "");
    EXPECT_EQ(result.notes,
              std::vector<std::string>{"TCP was not measured: n01: 10.0.0.1 port 4001: Connection refused"});
    EXPECT_EQ(workers.log.back(), "1 finish");
}

TEST(PairsPairing, NotesOfBothAreKept) {
    Members workers;
    workers.instead["0 finish"] = {{"notes", Json::array({"retransmits: 120 at n01 mlx5_1:1"})}};
    workers.instead["1 finish"] = {{"notes", Json::array({"ECN marks: 7 at n02 mlx5_2:1"})}};
    EXPECT_EQ(measured(job_of(0, 1), workers).notes.size(), 2U);
}

TEST(PairsPairing, TheSilentOneIsNamedAtTheDeadline) {
    for (const auto* silent : {"1 prepare", "1 connect", "1 check", "1 latency", "1 bandwidth"}) {
        Members workers;
        PairingRun run(job_of(4, 9));
        workers.carry_out(run, run.start(start), silent);
        ASSERT_FALSE(run.done()) << silent;
        EXPECT_EQ(run.awaited(), std::vector<unsigned>{1}) << silent;
        EXPECT_GT(run.deadline(), start + seconds(5));
        EXPECT_LE(run.deadline(), start + seconds(30));
        const auto orders = run.expire();
        EXPECT_EQ(orders.size(), 2U) << "both are told to stop";
        EXPECT_TRUE(run.done());
        EXPECT_EQ(run.result().problem.find("n02 has not answered in "), 0U) << run.result().problem;
        EXPECT_EQ(run.result().fault_of, 9U);
    }
}

TEST(PairsPairing, WhenBothAreSilentNoneIsBlamed) {
    PairingRun run(job_of(0, 1));
    (void)run.start(start);
    (void)run.expire();
    EXPECT_EQ(run.result().problem, "neither n01 nor n02 has answered in 30 s while opening its HCA");
    EXPECT_FALSE(run.result().fault_of);
}

TEST(PairsPairing, ASilentFinishCostsNothing) {
    Members workers;
    PairingRun run(job_of(0, 1));
    workers.carry_out(run, run.start(start), "1 finish");
    EXPECT_FALSE(run.done());
    (void)run.expire();
    EXPECT_TRUE(run.done());
    EXPECT_EQ(run.result().problem, "");
}

TEST(PairsPairing, TheLostOneIsNamedAtOnce) {
    Members workers;
    PairingRun run(job_of(4, 9));
    workers.carry_out(run, run.start(start), "1 latency");
    const auto orders = run.lose(1, "its process has ended");
    EXPECT_TRUE(run.done());
    EXPECT_EQ(run.result().problem, "n02 is gone while measuring latency: its process has ended");
    EXPECT_EQ(run.result().fault_of, 9U);
    EXPECT_EQ(orders.size(), 2U);
    EXPECT_TRUE(run.lose(0, "too").empty()) << "it is over";
}

TEST(PairsPairing, LateAnswersArePassedOver) {
    PairingRun run(job_of(0, 1));
    const auto orders = run.start(start);
    Members workers;
    auto late = workers.answer(orders[0]);
    late["pairing"] = 6;
    EXPECT_TRUE(run.take(0, late, start).empty());
    EXPECT_EQ(run.awaited().size(), 2U);
    late["pairing"] = 7;
    late["step"] = 5;
    EXPECT_TRUE(run.take(0, late, start).empty());
    EXPECT_EQ(run.awaited().size(), 2U);
    EXPECT_TRUE(run.take(0, Json{{"pairing", "x"}, {"step", Json::object()}}, start).empty());
    EXPECT_TRUE(run.take(0, Json::object(), start).empty());
    EXPECT_EQ(run.awaited().size(), 2U);
}

TEST(PairsPairing, AnswersThatAreNoneAreAProblemAndNoMore) {
    for (const auto& [key, wrong] :
         std::vector<std::pair<std::string, Json>>{{"0 prepare", {{"addresses", 5}}},
                                                   {"0 prepare", {{"addresses", Json::array({Json{{"gid", "x"}}})}}},
                                                   {"0 prepare", {{"addresses", Json::array()}}},
                                                   {"1 check", {{"correct", "yes"}}},
                                                   {"0 latency", {{"latency", nullptr}}},
                                                   {"0 bandwidth", {{"gbps", "fast"}}},
                                                   {"0 bandwidth", {{"counted", "many"}}}}) {
        Members workers;
        workers.instead[key] = wrong;
        const auto result = measured(job_of(0, 1), workers);
        EXPECT_EQ(result.problem.find("an answer that this version does not understand"), 0U) << key << wrong;
    }
}

TEST(PairsPairing, NotesOfAllStepsStay) {
    Members workers;
    workers.instead["1 prepare"] = {{"notes", Json::array({"n02 mlx5_2:1 was driven from a distant CPU"})}};
    workers.instead["0 finish"] = {{"notes", Json::array({"retransmits: 3"})}};
    const auto result = measured(job_of(0, 1), workers);
    EXPECT_EQ(result.notes, (std::vector<std::string>{"n02 mlx5_2:1 was driven from a distant CPU", "retransmits: 3"}));
}

TEST(PairsPairing, DifferentNetworksAreNotTried) {
    auto job = job_of(0, 1);
    job.rails[1].ethernet = false;
    PairingRun run(job);
    (void)run.start(start);
    EXPECT_TRUE(run.done());
    EXPECT_NE(run.result().problem.find("n01 mlx5_1:1 is RoCE, n02 mlx5_2:1 is InfiniBand"), std::string::npos);
}

TEST(PairsPairing, StoppedItKeepsWhatItHas) {
    Members workers;
    PairingRun run(job_of(0, 1));
    workers.carry_out(run, run.start(start), "1 bandwidth"); // of the way back
    EXPECT_TRUE(run.has_values());
    EXPECT_EQ(run.stop().size(), 2U);
    EXPECT_TRUE(run.done());
    EXPECT_EQ(run.result().problem, "");
    EXPECT_TRUE(run.result().forward);
    EXPECT_FALSE(run.result().backward);
    EXPECT_TRUE(run.stop().empty());
}

TEST(PairsPairing, LargeMessagesHaveMoreTime) {
    Measurement measure;
    const auto usual = limit_of(PairStep::WriteForward, measure);
    EXPECT_LT(usual, seconds(22));
    EXPECT_LT(limit_of(PairStep::Forward, measure), seconds(14));
    measure.message_size = std::uint64_t{1} << 30;
    measure.queue_pairs = 2; // 17e9 bit: three minutes at the lowest rate
    EXPECT_GT(limit_of(PairStep::WriteForward, measure), seconds(170));
    EXPECT_GT(limit_of(PairStep::Forward, measure), seconds(170));
    EXPECT_GT(limit_of(PairStep::CheckForward, measure), seconds(20));
    EXPECT_EQ(limit_of(PairStep::TcpForward, measure), limit_of(PairStep::TcpForward, {}));
}

TEST(PairsPairing, TimeIsToldBefore) {
    Measurement measure;
    EXPECT_GT(expected_time(measure, false), seconds(6));
    EXPECT_LT(expected_time(measure, false), seconds(8));
    EXPECT_LT(expected_time(measure, true), seconds(3));
}

} // namespace
} // namespace rdma_nccl::pairs
