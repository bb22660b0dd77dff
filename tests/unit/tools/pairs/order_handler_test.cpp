// SPDX-License-Identifier: Apache-2.0
// The orders of a pairing on one node, on emulated verbs (tests/fake_verbs).
#include "config.h"
#include "lib/base/json.h"
#include "tests/unit/emulated_verbs.h"
#include "tools/pairs/order_handler.h"

#ifdef HAVE_IBVERBS

namespace rdma_nccl::pairs {
namespace {

const StopAsked never = [] { return false; };
const StopAsked at_once = [] { return true; };

class OrderHandlerTest : public test::EmulatedVerbs {
protected:
    [[nodiscard]] HandlerContext site() const {
        HandlerContext site;
        site.node.name = "login-alias";
        for (const auto* const hca : {"mlx5_0", "mlx5_9"}) {
            auto& rail = site.node.rails.emplace_back();
            rail.hca = hca;
            site.counters.push_back(PortCounters::of(tree_.root(), {}, hca, 1));
            site.gpus.emplace_back();
        }
        site.root = tree_.root();
        site.longest_stop = std::chrono::milliseconds(100);
        return site;
    }
    static Json prepare(unsigned rail) {
        return {{"do", "prepare"},    {"pairing", 1},         {"step", 0},        {"rail", rail},
                {"ends", 2},          {"message_size", 4096}, {"queue_pairs", 1}, {"depth", 64},
                {"traffic_class", 0}, {"service_level", 0},   {"pkey_index", 0},  {"gpu", false}};
    }
};

TEST_F(OrderHandlerTest, AnErrorNamesTheNodeAndItsPortOnce) {
    OrderHandler work(site());
    const auto error = work.carry_out(prepare(1), never).at("error").get<std::string>();
    EXPECT_EQ(error.find("login-alias mlx5_9:1: libibverbs knows no such device"), 0U) << error;
    EXPECT_EQ(error.find("mlx5_9", 20), std::string::npos) << error;
}

TEST_F(OrderHandlerTest, BothEndsOfALoopback) {
    OrderHandler work(site());
    const auto answer = work.carry_out(prepare(0), never);
    EXPECT_EQ(answer.at("addresses").size(), 2U) << answer;
    EXPECT_FALSE(work.carry_out({{"do", "finish"}, {"step", 14}}, never).contains("error"));
}

TEST_F(OrderHandlerTest, WhatNoHeadOrdersIsRefused) {
    OrderHandler work(site());
    (void)work.carry_out(prepare(0), never);
    for (const auto& order : {Json{{"do", "tcp send"}, {"address", "127.0.0.1"}, {"port", 22}, {"time_ms", 1}},
                              Json{{"do", "tcp send"}, {"address", "n01"}, {"port", 2000}, {"time_ms", 1}},
                              Json{{"do", "connect"}, {"mtu", 1024}, {"peers", Json::array()}},
                              Json{{"do", "bandwidth"}, {"time_ms", std::uint64_t{1} << 60}}, Json{{"do", 5}}}) {
        EXPECT_TRUE(work.carry_out(order, never).contains("error")) << order;
    }
    auto huge = prepare(0);
    huge["queue_pairs"] = 1 << 20;
    EXPECT_TRUE(work.carry_out(huge, never).contains("error"));
}

TEST_F(OrderHandlerTest, ADistantCpuIsTold) {
    auto distant = site();
    distant.node.rails[0].local_cpus = "8000"; // no machine has it
    OrderHandler work(std::move(distant));
    const auto notes = work.carry_out(prepare(0), never).at("notes");
    ASSERT_EQ(notes.size(), 1U);
    EXPECT_EQ(notes[0].get<std::string>().find("login-alias mlx5_0:1 was driven from a distant CPU"), 0U) << notes;
    OrderHandler near(site());
    EXPECT_FALSE(near.carry_out(prepare(0), never).contains("notes")) << "nothing is known of its CPUs";
}

TEST_F(OrderHandlerTest, ADriverThatDoesNotLetGoEndsTheProcess) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    fault("hang");
    const auto finish = [this](bool by_order) {
        OrderHandler work(site());
        (void)work.carry_out(prepare(0), never);
        if (by_order) {
            (void)work.carry_out({{"do", "finish"}}, at_once);
        }
    };
    EXPECT_EXIT(finish(true), testing::ExitedWithCode(3), "hangs; this process exits");
    EXPECT_EXIT(finish(false), testing::ExitedWithCode(3), "hangs; this process exits");
}

} // namespace
} // namespace rdma_nccl::pairs

#endif
