// SPDX-License-Identifier: Apache-2.0
#include "lib/topology/topology.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>
#include <set>

namespace rdma_nccl {
namespace {

using Orders = std::vector<std::vector<std::size_t>>;

constexpr auto near = Distance::OneSwitch;
constexpr auto far = Distance::Other;
constexpr auto unknown = Distance::Unknown;

DistanceTable all_at(Distance distance, std::size_t devices, std::size_t hcas) {
    return {devices, std::vector<HcaDistance>(hcas, distance)};
}

std::vector<std::size_t> firsts_of(const DistanceTable& distances) {
    std::vector<std::size_t> firsts;
    for (const auto& order : order_hcas(distances)) {
        firsts.push_back(order.front());
    }
    return firsts;
}

TEST(NearestHca, ComesFirstAndTheOthersFollowByDistance) {
    EXPECT_EQ(order_hcas({{far, near}, {near, far}}), (Orders{{1, 0}, {0, 1}}));
    EXPECT_EQ(order_hcas({{unknown, Distance::HostBridge, Distance::SameDevice, far}}), (Orders{{2, 1, 3, 0}}));
}

TEST(NearestHca, EquallyNearOnesGoByNumber) {
    EXPECT_EQ(firsts_of(all_at(unknown, 4, 4)), (std::vector<std::size_t>{0, 1, 2, 3}));
    EXPECT_EQ(firsts_of(all_at(near, 2, 8)), (std::vector<std::size_t>{0, 1}));
}

TEST(NearestHca, TheSecondChoiceDiffersToo) {
    EXPECT_EQ(order_hcas(all_at(near, 3, 3)), (Orders{{0, 1, 2}, {1, 2, 0}, {2, 0, 1}}));
}

TEST(NearestHca, TiesAreSpreadEvenly) {
    for (std::size_t devices = 1; devices <= 9; ++devices) {
        for (std::size_t hcas = 1; hcas <= 4; ++hcas) {
            std::vector<std::size_t> load(hcas);
            for (const auto first : firsts_of(all_at(near, devices, hcas))) {
                ++load[first];
            }
            EXPECT_EQ(*std::max_element(load.begin(), load.end()), (devices + hcas - 1) / hcas);
            EXPECT_EQ(*std::min_element(load.begin(), load.end()), devices / hcas);
        }
    }
}

TEST(NearestHca, ThousandsOfDevicesAreSpreadInTheTimeOfATest) {
    std::vector<std::size_t> load(8);
    for (const auto first : firsts_of(all_at(near, 4096, load.size()))) { // took a minute, with the cube of them
        ++load[first];
    }
    EXPECT_EQ(load, std::vector<std::size_t>(8, 512));
}

TEST(NearestHca, WhoHasNoChoiceIsNotCrowded) {
    EXPECT_EQ(firsts_of({{near, near, near}, {near, far, far}, {far, near, far}}), (std::vector<std::size_t>{2, 0, 1}));
    EXPECT_EQ(firsts_of({{near, near}, {near, far}}), (std::vector<std::size_t>{1, 0}));
}

/// By trying every way to give each device one of its nearest HCAs.
std::size_t least_load(const DistanceTable& table, std::vector<std::size_t>& load, std::size_t device) {
    if (device == table.size()) {
        return *std::max_element(load.begin(), load.end());
    }
    std::size_t least = table.size();
    const auto& row = table[device];
    for (std::size_t hca = 0; hca < row.size(); ++hca) {
        if (row[hca] == *std::min_element(row.begin(), row.end())) {
            ++load[hca];
            least = std::min(least, least_load(table, load, device + 1));
            --load[hca];
        }
    }
    return least;
}

TEST(NearestHca, IsAlwaysOfTheNearestAndSharedByAsFewAsCanBe) {
    std::mt19937 random(5);
    for (int round = 0; round < 400; ++round) {
        DistanceTable table(1 + random() % 6, std::vector<HcaDistance>(1 + random() % 4));
        for (auto& row : table) {
            std::generate(row.begin(), row.end(), [&] { return static_cast<Distance>(3 + random() % 3); });
        }
        std::vector<std::size_t> load(table.front().size());
        const auto orders = order_hcas(table);
        for (std::size_t device = 0; device < table.size(); ++device) {
            const auto& row = table[device];
            EXPECT_EQ(std::set<std::size_t>(orders[device].begin(), orders[device].end()).size(), row.size());
            EXPECT_TRUE(std::is_sorted(orders[device].begin(), orders[device].end(),
                                       [&](std::size_t a, std::size_t b) { return row[a] < row[b]; }));
            ++load[orders[device].front()];
        }
        std::vector<std::size_t> none(load.size());
        EXPECT_EQ(*std::max_element(load.begin(), load.end()), least_load(table, none, 0)) << "round " << round;
    }
}

TEST(NearestHca, OfNoHcasIsNone) {
    EXPECT_EQ(order_hcas(all_at(near, 2, 0)), (Orders{{}, {}}));
    EXPECT_TRUE(order_hcas({}).empty());
}

TEST(TellsNearness, WhereDistancesDiffer) {
    EXPECT_TRUE(nearness_known({{near, far}, {far, near}}));
    EXPECT_TRUE(nearness_known({{near, far}}));
    EXPECT_TRUE(nearness_known({{near}, {far}}));
}

TEST(TellsNearness, NotWhereSeveralAreAlikeToSeveral) {
    EXPECT_FALSE(nearness_known(all_at(Distance::HostBridge, 8, 8)));
    EXPECT_FALSE(nearness_known(all_at(unknown, 8, 8)));
    EXPECT_FALSE(nearness_known(all_at(unknown, 1, 1)));
    EXPECT_FALSE(nearness_known({}));
    EXPECT_FALSE(nearness_known(all_at(near, 2, 0)));
}

TEST(TellsNearness, OfASingleOneAsFarAsItIs) {
    EXPECT_TRUE(nearness_known(all_at(far, 1, 1)));
    EXPECT_TRUE(nearness_known(all_at(near, 8, 1)));
    EXPECT_TRUE(nearness_known(all_at(near, 1, 8)));
}

TEST(DistancesToHcas, AreAsTheirPlaces) {
    Topology topology;
    topology.cores = {{CpuSet::range(0, 0), 0, 0, 0}, {CpuSet::range(1, 1), 1, 1, 1}};
    topology.packages = 2;
    const std::vector<Place> gpus = {{"", CpuSet::range(0, 0)}, {"", CpuSet::range(1, 1)}};
    const std::vector<Place> hcas = {{"", CpuSet::range(1, 1)}, {"", CpuSet()}};
    EXPECT_EQ(Distances(topology).to_hcas(gpus, hcas),
              (DistanceTable{{Distance::Other, unknown}, {Distance::SameNuma, unknown}}));
}

/// A GPU behind a switch of its own card: all HCAs are several switches away, but two of them are at the next switch.
TEST(DistancesToHcas, BehindASwitchOfTheirOwnCardTheNextSwitchIsNearer) {
    const std::string outer = "/sys/devices/pci0000:50/0000:50:01.0/0000:51:00.0";
    const std::string left = outer + "/0000:52:00.0/0000:60:00.0";
    const std::string right = outer + "/0000:52:04.0/0000:70:00.0";
    const std::string card = "/0000:62:00.0/0000:63:00.0/0000:64:00.0";
    const std::vector<Place> gpus = {
        {left + "/0000:61:00.0" + card, {}}, {left + "/0000:61:01.0" + card, {}}, {right + "/0000:71:00.0" + card, {}}};
    const std::vector<Place> hcas = {{right + "/0000:71:08.0/0000:79:00.0", {}},
                                     {left + "/0000:61:08.0/0000:69:00.0", {}},
                                     {left + "/0000:61:09.0/0000:6a:00.0/0000:6b:00.0/0000:6c:00.0", {}}};
    const auto table = Distances(Topology()).to_hcas(gpus, hcas);
    EXPECT_EQ(table[0], (std::vector<HcaDistance>{{Distance::SeveralSwitches, 5},
                                                  {Distance::SeveralSwitches, 3},
                                                  {Distance::SeveralSwitches, 3}})); // one more switch there: as near
    EXPECT_EQ(firsts_of(table), (std::vector<std::size_t>{1, 2, 0}));
    EXPECT_TRUE(nearness_known(table));
    EXPECT_FALSE(nearness_known({{{Distance::SeveralSwitches, 5}, {Distance::SeveralSwitches, 5}},
                                 {{Distance::SeveralSwitches, 3}, {Distance::SeveralSwitches, 3}}}));
}

} // namespace
} // namespace rdma_nccl
