// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"
#include "tests/unit/pairs_report.h"
#include "tools/measure/channel.h"
#include "tools/measure/rails.h"
#include "tools/pairs/pairs.h"
#include "tools/verbs/endpoint.h"

#include <deque>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace rdma_nccl::pairs {
namespace {

Json good_answer(const Json& order) {
    Json answer = {{"pairing", order.at("pairing")}, {"step", order.at("step")}};
    const auto what = order.at("do").get<std::string>();
    if (what == "prepare") {
        VerbsAddress address;
        address.mtu = 4096;
        address.queue_pairs = {17};
        address.packet_numbers = {1};
        address.memory = 4096;
        address.size = 1 << 20;
        address.mailbox = 8192;
        answer["addresses"] = std::vector<Json>(order.at("ends").get<std::size_t>(), address_json(address));
    } else if (what == "check") {
        answer["correct"] = true;
    } else if (what == "latency") {
        answer["latency"] = {{"min_us", 1},  {"median_us", 2}, {"p99_us", 3},
                             {"p999_us", 4}, {"max_us", 5},    {"round_trips", 100}};
    } else if (what == "bandwidth") {
        answer.update({{"gbps", 380}, {"bytes", 1000}, {"counted", 1000}});
    }
    return answer;
}

/// Members that answer at once, without a network.
class SimulatedHead final : public measure::Coordinator {
public:
    explicit SimulatedHead(unsigned workers) {
        for (unsigned worker = 0; worker < workers; ++worker) {
            join(worker, worker, 0);
        }
    }

    std::function<std::optional<Json>(unsigned worker, const Json& order)> answer = [](unsigned, const Json& order) {
        return std::optional(good_answer(order));
    };
    std::deque<measure::Event> events;
    std::set<unsigned> connected;
    std::map<std::string, unsigned> orders; ///< how many
    unsigned waited = 0;                    ///< how often nothing happened

    void join(unsigned worker, unsigned node, unsigned local) {
        connected.insert(worker);
        events.push_back({measure::Event::Kind::Joined,
                          worker,
                          {{"local", local}, {"node", written(test::node_with_rails(node))}},
                          ""});
    }

    void lose(unsigned worker) {
        connected.erase(worker);
        events.push_back({measure::Event::Kind::Lost, worker, {}, "its process has ended"});
    }

    measure::Event next(measure::Clock::time_point /*deadline*/) override {
        if (events.empty()) {
            ++waited;
            return {};
        }
        auto event = std::move(events.front());
        events.pop_front();
        return event;
    }

    void send(unsigned worker, const Json& order) override {
        if (!connected.contains(worker)) {
            return;
        }
        const auto what = order.at("do").get<std::string>();
        ++orders[what];
        if (what == "end") {
            connected.erase(worker);
        } else if (auto said = answer(worker, order)) {
            events.push_back({measure::Event::Kind::Message, worker, std::move(*said), ""});
        }
    }

    [[nodiscard]] bool has(unsigned worker) const override { return connected.contains(worker); }
    [[nodiscard]] std::uint16_t port() const override { return 1; }
};

Report lead(SimulatedHead& head, unsigned workers, const Options& options = {}, std::vector<std::string> nodes = {}) {
    measure::World world;
    world.workers = workers;
    world.nodes = std::move(nodes);
    measure::Progress progress(-1, true);
    return coordinate(head, world, options, progress);
}

TEST(PairsHead, MeasuresEachPairOnce) {
    SimulatedHead head(64);
    const auto report = lead(head, 64);
    std::set<Pairing> pairings;
    for (const auto& result : report.results) {
        EXPECT_EQ(result.problem, "");
        EXPECT_TRUE(result.both);
        pairings.insert(result.pairing);
    }
    EXPECT_EQ(pairings.size(), 64U * 63 / 2);
    EXPECT_EQ(report.results.size(), pairings.size());
    EXPECT_EQ(report.planned, pairings.size());
    EXPECT_EQ(report.ended_early, "");
    EXPECT_EQ(head.orders["end"], 64U);
}

TEST(PairsHead, AThousandNodesQuickly) {
    SimulatedHead head(1000);
    Options options;
    options.schedule = "quick";
    const auto report = lead(head, 1000, options);
    EXPECT_EQ(report.results.size(), 1500U);
}

TEST(PairsHead, ThousandsOfTasksJoinAtOnce) {
    constexpr unsigned nodes = 1000;
    constexpr unsigned tasks = 8;
    SimulatedHead head(0);
    std::vector<std::string> names;
    for (unsigned worker = nodes * tasks; worker-- > 0;) { // the last ones first: all others are missing
        head.join(worker, worker / tasks, worker % tasks);
    }
    for (unsigned node = 0; node < nodes; ++node) {
        names.insert(names.end(), tasks, test::node_with_rails(node).name);
    }
    Options options;
    options.schedule = "ring";
    const auto report = lead(head, nodes * tasks, options, names); // minutes, when each event looks at all of them
    EXPECT_EQ(report.nodes.size(), nodes);
    EXPECT_EQ(report.results.size(), nodes);
    EXPECT_EQ(head.orders["end"], nodes * tasks);
}

TEST(PairsHead, ALostMemberCostsItsPairsAlone) {
    SimulatedHead head(8);
    unsigned seen = 0;
    head.answer = [&](unsigned worker, const Json& order) -> std::optional<Json> {
        if (worker == 5 && order.at("do") == "bandwidth" && ++seen == 1) {
            head.lose(5);
            return std::nullopt;
        }
        return good_answer(order);
    };
    const auto report = lead(head, 8);
    EXPECT_EQ(report.results.size(), 28U);
    unsigned gone = 0;
    unsigned skipped = 0;
    for (const auto& result : report.results) {
        const bool with_it = result.pairing.a == 5 || result.pairing.b == 5;
        EXPECT_EQ(result.problem.empty(), !with_it);
        gone += result.problem.starts_with("n06 is gone while ") ? 1U : 0U;
        skipped += result.problem == "skipped: n06 is gone: its process has ended" ? 1U : 0U;
        EXPECT_EQ(result.fault_of, with_it ? std::optional(5U) : std::nullopt);
    }
    EXPECT_EQ(gone, 1U);
    EXPECT_EQ(skipped, 6U);
}

TEST(PairsHead, AnInterruptEndsItWithWhatIsKnown) {
    SimulatedHead head(4);
    unsigned seen = 0;
    head.answer = [&](unsigned, const Json& order) -> std::optional<Json> {
        if (order.at("do") == "connect" && ++seen == 5) { // in the second round
            head.events.push_back({measure::Event::Kind::Interrupted, 0, {}, "SIGINT"});
        }
        return good_answer(order);
    };
    const auto report = lead(head, 4);
    EXPECT_EQ(report.ended_early, "interrupted by SIGINT");
    EXPECT_EQ(report.results.size(), 2U) << "the first round";
    EXPECT_EQ(report.planned, 6U);
    EXPECT_TRUE(head.connected.empty()) << "all are told to end";
}

TEST(PairsHead, TheTimeLimitHoldsWhenNobodyAnswers) {
    SimulatedHead head(4);
    head.answer = [](unsigned, const Json&) { return std::nullopt; };
    Options options;
    options.time_limit_s = 0.05;
    const auto report = lead(head, 4, options);
    EXPECT_EQ(report.ended_early, "time limit");
    EXPECT_TRUE(report.results.empty());
}

TEST(PairsHead, WhoIsNotThereTakesNoPart) {
    SimulatedHead head(3);
    Options options;
    options.join_s = 0.05;
    const auto report = lead(head, 4, options);
    EXPECT_EQ(report.nodes.size(), 4U);
    EXPECT_EQ(report.nodes[3].name, "member 3");
    EXPECT_EQ(report.nodes[3].problem, "it did not come within 1 s");
    EXPECT_EQ(report.results.size(), 3U);
}

TEST(PairsHead, OneNodeIsMeasuredWithItself) {
    SimulatedHead head(1);
    const auto report = lead(head, 1);
    EXPECT_EQ(report.schedule, "loopback");
    ASSERT_EQ(report.results.size(), 1U);
    EXPECT_EQ(report.results[0].pairing, (Pairing{0, 0, 0, 0}));
    EXPECT_EQ(report.results[0].problem, "");
}

TEST(PairsHead, SuspectsAreMeasuredAgain) {
    SimulatedHead head(8);
    head.answer = [](unsigned worker, const Json& order) {
        auto said = good_answer(order);
        if (worker == 3 && said.contains("gbps")) {
            said["gbps"] = 100;
        }
        return std::optional(said);
    };
    Options options;
    options.schedule = "quick";
    options.rules.floor_share = 0;
    const auto report = lead(head, 8, options);
    std::size_t again = 0;
    bool of_suspect = false;
    for (const auto& result : report.results) {
        again += result.retest ? 1 : 0;
        of_suspect = of_suspect || (result.retest && (result.pairing.a == 3 || result.pairing.b == 3));
    }
    EXPECT_GT(again, 0U);
    EXPECT_TRUE(of_suspect);
    EXPECT_EQ(report.planned, report.results.size());
    options.retest = false;
    SimulatedHead other(8);
    other.answer = head.answer;
    EXPECT_EQ(lead(other, 8, options).results.size(), report.results.size() - again);
}

TEST(MeasureDismiss, WhoComesLaterIsLetGoToo) {
    SimulatedHead head(0);
    head.join(1, 1, 0);
    head.events.clear(); // it has been heard of before
    head.join(2, 2, 0);
    measure::shutdown_workers(head, 3, std::chrono::seconds(5), false);
    EXPECT_EQ(head.orders["end"], 2U);
    head.join(1, 1, 0);
    head.connected.clear(); // still on its way
    measure::shutdown_workers(head, 3, std::chrono::milliseconds(50), true);
    EXPECT_GT(head.waited, 0U) << "2 has not come again";
    head.events.push_back({measure::Event::Kind::Interrupted, 0, {}, "SIGINT"});
    measure::shutdown_workers(head, 3, std::chrono::hours(1), true);
}

TEST(MeasureProgress, Durations) {
    using std::chrono::milliseconds;
    EXPECT_EQ(measure::format_duration(milliseconds(0)), "0 s");
    EXPECT_EQ(measure::format_duration(milliseconds(1)), "1 s");
    EXPECT_EQ(measure::format_duration(milliseconds(119000)), "119 s");
    EXPECT_EQ(measure::format_duration(milliseconds(120000)), "2 min");
    EXPECT_EQ(measure::format_duration(milliseconds(7200000)), "2 h 0 min");
}

} // namespace
} // namespace rdma_nccl::pairs
