// SPDX-License-Identifier: Apache-2.0
// What a member of `rdma-nccl bench` does for whoever leads it, and what not.
#include "lib/base/json.h"
#include "lib/base/text.h"

#include "tools/bench/bench.h"
#include "tools/measure/channel.h"

#include <gtest/gtest.h>
#include <thread>

namespace rdma_nccl::bench {
namespace {

StartOrder example() {
    StartOrder start;
    start.run = 3;
    start.kind = RunKind::NoRdma;
    start.count = 16;
    start.ranks = {{0, 1}, {5, 0}};
    start.work.sizes = {4096, 65536};
    start.rings = 2;
    start.watch = true;
    return start;
}

/// The example with other values at a place.
Json with(const std::string& place, const Json& value) {
    auto order = start_json(example());
    auto* found = &order;
    for (const auto name : split(std::string_view(place), '/')) {
        const auto index = parse_number<std::size_t>(name);
        found = index ? &(*found)[*index] : &(*found)[name];
    }
    *found = value;
    return order;
}

TEST(BenchOrder, ComesBack) {
    const auto text = start_json(example()).dump();
    const auto read = read_start_order(*Json::parse(text), 2);
    ASSERT_TRUE(read) << read.error().message << text;
    EXPECT_EQ(*read, example());
}

TEST(BenchOrder, VariablesAndProgramsAreNotTheHeadsToChoose) {
    for (const auto& order :
         {with("variables", {{"LD_PRELOAD", "/opt/x.so"}}), with("variables", {{"NCCL_IB_DISABLE", "1"}}),
          with("variables", Json::object()), with("library", "/opt/libnccl.so.2"),
          with("command", Json::array({"/bin/sh"})), with("host", {{"address", "10.0.0.1"}}), with("work/library", "x"),
          with("ranks/0/command", "x"), with("kind", 4), with("kind", "LD_PRELOAD=x"),
          with("kind", {{"NCCL_NET_PLUGIN", "/opt/x.so"}})}) {
        EXPECT_FALSE(read_start_order(order, 2)) << order;
    }
}

TEST(BenchOrder, NumbersOutOfRange) {
    EXPECT_FALSE(read_start_order(start_json(example()), 1)) << "more ranks than places";
    const std::pair<const char*, Json> wrong[] = {
        {"run", -1},
        {"run", 1e30},
        {"count", 5},
        {"count", -1},
        {"count", 1e9},
        {"ranks", Json::object()},
        {"ranks/0/rank", 16},
        {"ranks/0/gpu", 1 << 20},
        {"rings", 65},
        {"watch", 1},
        {"work/sizes", Json::array()},
        {"work/sizes", Json::array({0})},
        {"work/sizes", Json::array({65536, 4096})},
        {"work/sizes", Json::array({std::uint64_t{1} << 50})},
        {"work/sizes", std::vector<unsigned>(2000, 4096)},
        {"work/operations", Json::array({"all_reduce", "rm"})},
        {"work/operations", Json::array()},
        {"work/type", "float128"},
        {"work/redop", "xor"},
        {"work/root", -1},
        {"work/iterations", 0},
        {"work/iterations", 1e12},
        {"work/repeats", 100000},
        {"work/batch_seconds", 1e300},
        {"work/batch_seconds", -1},
    };
    for (const auto& [place, value] : wrong) {
        EXPECT_FALSE(read_start_order(with(place, value), 2)) << place << " " << value;
    }
    const auto whole = start_json(example());
    for (const auto& [name, value] : whole.members()) {
        auto order = whole;
        order.erase(name);
        EXPECT_TRUE(name == "do" || !read_start_order(order, 2)) << name;
    }
    EXPECT_FALSE(read_start_order(Json::array(), 2));
}

TEST(BenchOrder, AMemberSaysWhyItStartsNothing) {
    measure::World world;
    world.workers = 2;
    world.node = "n01";
    world.key = *random_key();
    auto head = measure::Coordinator::listen(world);
    ASSERT_TRUE(head) << head.error().message;
    world.port = (*head)->port();
    world.worker = 1;
    Options options;
    options.host = true;
    std::thread worker([&] { EXPECT_EQ(serve_ranks(world, options), 0); });
    const auto until = measure::Clock::now() + std::chrono::seconds(60);
    EXPECT_EQ((*head)->next(until).kind, measure::Event::Kind::Joined);
    auto order = start_json(example());
    order["ranks"] = Json::array({Json{{"rank", 0}, {"gpu", 0}}});
    order["variables"] = {{"LD_PRELOAD", "/opt/x.so"}};
    (*head)->send(1, order);
    const auto event = (*head)->next(until);
    EXPECT_EQ(event.kind, measure::Event::Kind::Message);
    EXPECT_EQ(event.message.value("run", -1), 3) << event.message;
    EXPECT_NE(event.message.value("refused", "").find("refuses an order to start ranks"), std::string::npos)
        << event.message;
    (*head)->send(1, {{"do", "end"}});
    EXPECT_EQ((*head)->next(until).kind, measure::Event::Kind::Lost) << "no rank has said a word";
    worker.join();
}

} // namespace
} // namespace rdma_nccl::bench
