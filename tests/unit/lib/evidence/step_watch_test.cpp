// SPDX-License-Identifier: Apache-2.0
#include "lib/evidence/step_watch.h"

#include "lib/base/lists.h"
#include "lib/fabric/kernel_text.h"
#include "tests/unit/fabric_values.h"
#include "tests/unit/fake_nvml.h"
#include "tests/unit/tree.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <thread>

namespace rdma_nccl {
namespace {

using std::chrono::milliseconds;

TEST(CausesOf, EfaWithoutItsPlugin) {
    Plan plan;
    plan.fabric.ports.emplace_back().rule = PortRule::Efa;
    const auto causes = causes_of(NodeFacts(), plan);
    ASSERT_FALSE(causes.empty());
    EXPECT_NE(causes[0].find("NCCL reaches them through the aws-ofi-nccl plugin"), std::string::npos) << causes[0];
}

constexpr std::uint64_t much = std::uint64_t{1} << 28;

/// A node with one port, in words of four bytes, and one interface.
class Watched : public testing::Test {
protected:
    Watched() : root_(tree_.root()) {
        PortSource port;
        port.hca = "mlx5_0";
        port.source = ByteSource::PortData;
        port.tx = {{"/port_xmit_data"}, 4, false};
        port.rx = {{"/port_rcv_data"}, 4, false};
        port.expected = true;
        sources_.ports = {port};
        sources_.netdevs = {{"eth0", NetdevRole::Plain, {}, 0, 0}};
        counters(1000, 1000);
    }
    /// The port's words, and the interface's bytes, of both directions.
    void counters(std::uint64_t words, std::uint64_t bytes) {
        for (const auto* name : {"/port_xmit_data", "/port_rcv_data"}) {
            tree_.file(name, std::to_string(words) + "\n");
        }
        for (const auto* name : {"tx_bytes", "rx_bytes"}) {
            tree_.file(std::string("/sys/class/net/eth0/statistics/") + name, std::to_string(bytes) + "\n");
        }
    }
    /// How often the port went down.
    void downs(std::uint64_t count) {
        tree_.file("/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed", std::to_string(count) + "\n");
    }
    /// What is known of it when it goes from 3 to 5 during a step.
    std::optional<LinkDowned> link_downed() {
        return link_downed([this] { downs(3); }, [this] { downs(5); });
    }
    /// What is known of it at the end of a step with `before` in front and `change` amid it.
    std::optional<LinkDowned> link_downed(const std::function<void()>& before, const std::function<void()>& change) {
        before();
        auto watch = this->watch();
        change();
        watch.sample(true);
        return watch.evidence().traffic.ports.at(0).link_downed;
    }
    /// How often eth0 has lost its carrier or got it back.
    void carrier_changes(std::uint64_t count) {
        tree_.file("/sys/class/net/eth0/carrier_changes", std::to_string(count) + "\n");
    }
    /// The port's table has an address, of eth0, at an index.
    void gid(unsigned index, const std::string& address, const std::string& type = "RoCE v2") {
        const std::string port = "/sys/class/infiniband/mlx5_0/ports/1/";
        const std::string slot = std::to_string(index);
        tree_.file(port + "gids/" + slot, gid_text(IpAddress::parse(address).value()) + "\n")
            .file(port + "gid_attrs/types/" + slot, type + "\n")
            .file(port + "gid_attrs/ndevs/" + slot, "eth0\n");
    }
    /// NCCL takes 10.1.0.7 at index 3, behind the same address of RoCE v1.
    void take_gid() {
        gid(2, "10.1.0.7", "IB/RoCE v1");
        gid(3, "10.1.0.7");
        sources_.ports.front().gid = test::make_gid(3, "10.1.0.7", GidType::RoceV2, "eth0");
    }
    /// What is known of it at the end of a step in which `change` happens.
    std::optional<GidChange> gid_change(const std::function<void()>& change) {
        auto watch = this->watch();
        change();
        watch.sample(true);
        return watch.evidence().traffic.ports.at(0).gid_change;
    }
    StepWatch watch(StepProcesses processes = {}, std::span<const Gpu> gpus = {}) {
        return {root_, sources_, processes, gpus};
    }
    /// The node has an IMEX channel, and this process no child that another test has left.
    void add_channel() {
        tree_.file("/dev/nvidia-caps-imex-channels/channel7", "");
        for (int left = 3000; left > 0 && ::waitpid(-1, nullptr, WNOHANG) >= 0; --left) { // killed ones end soon
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
    }
    /// A watch after a look that finds all bytes on sockets, and so asks NVML.
    StepWatch watch_sockets(std::span<const Gpu> gpus, StepProcesses processes = {}) {
        counters(1000, 1000);
        auto watch = this->watch(processes, gpus);
        counters(1000, 1000 + much);
        watch.sample();
        return watch;
    }
    static std::vector<Gpu> gpu(const char* pci) {
        std::vector<Gpu> gpus(1);
        gpus.front().pci = pci;
        return gpus;
    }
    /// NVML is being asked, or has answered and nobody has taken the answer.
    static bool has_child() {
        siginfo_t child{};
        return ::waitid(P_ALL, 0, &child, WEXITED | WNOWAIT | WNOHANG) == 0;
    }
    static void wait_for_answer() {
        siginfo_t ended{};
        (void)::waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT);
    }

    test::Tree tree_;
    SysRoot root_;
    TrafficSources sources_;
};

IpAddress ip(std::string_view text) {
    return IpAddress::parse(text).value();
}

TEST_F(Watched, CountsWhatMovesFromItsStart) {
    auto watch = this->watch();
    EXPECT_EQ(watch.evidence().traffic.rdma, Bytes{});
    counters(1000 + 10, 1000 + 7);
    watch.sample();
    EXPECT_EQ(watch.evidence().traffic.rdma, (Bytes{40, 40, false}));
    EXPECT_EQ(watch.evidence().traffic.sockets, (Bytes{7, 7, false}));
    counters(1000 + 20, 1000 + 8);
    watch.sample(true);
    const auto evidence = watch.evidence();
    EXPECT_EQ(evidence.traffic.rdma, (Bytes{80, 80, false}));
    EXPECT_EQ(evidence.traffic.sockets, (Bytes{8, 8, false}));
    EXPECT_TRUE(evidence.exclusive);
    EXPECT_TRUE(evidence.traffic.ports.at(0).expected);
}

TEST_F(Watched, AResetMakesItAtLeast) {
    auto watch = this->watch();
    counters(2000, 1000);
    watch.sample();
    counters(5, 1000);
    watch.sample();
    counters(15, 1000);
    watch.sample();
    EXPECT_EQ(watch.evidence().traffic.rdma, (Bytes{4040, 4040, true}));
    EXPECT_FALSE(watch.evidence().traffic.ports.at(0).problem.empty());
}

TEST_F(Watched, APortThatGoesAwayIsAProblemOfItself) {
    auto watch = this->watch();
    counters(1000 + much, 1000);
    watch.sample();
    tree_.remove("/port_xmit_data").remove("/port_rcv_data").remove("/sys/class/net/eth0");
    watch.sample();
    const auto evidence = watch.evidence();
    EXPECT_EQ(evidence.traffic.rdma.tx, 4 * much);
    EXPECT_FALSE(evidence.traffic.ports.at(0).problem.empty());
    EXPECT_TRUE(evidence.problem.empty());
}

TEST_F(Watched, SaysWhyNothingIsKnownOfQueuePairs) {
    auto watch = this->watch();
    EXPECT_FALSE(watch.evidence().qps.known);
    EXPECT_EQ(watch.evidence().qps.unknown_why, "the step ended before they were looked at");
    watch.sample(true);
    EXPECT_EQ(watch.evidence().qps.unknown_why, "the step ended before they were looked at");
    watch.sample();
    EXPECT_FALSE(watch.evidence().qps.known);
    EXPECT_EQ(watch.evidence().qps.unknown_why, "of another machine's files nobody has queue pairs");
}

TEST_F(Watched, LooksSoonAndThenSeldom) {
    const auto before = StepWatch::Clock::now();
    auto watch = this->watch();
    EXPECT_GE(watch.next_sample(), before + milliseconds(100));
    const auto started = StepWatch::Clock::now();
    EXPECT_LE(watch.next_sample(), started + milliseconds(100));
    std::this_thread::sleep_for(milliseconds(150)); // more than the first pause
    const auto looks = StepWatch::Clock::now();
    watch.sample();
    const auto looked = StepWatch::Clock::now();
    const auto pause = [](auto run) { return std::min(std::chrono::floor<milliseconds>(run), milliseconds(5000)); };
    EXPECT_GE(watch.next_sample(), looks + pause(looks - started)) << "it pauses as long as the step has run";
    EXPECT_LE(watch.next_sample(), looked + pause(looked - before));
}

TEST_F(Watched, ReadsAtStartAndEndHowOftenAPortWentDown) {
    downs(3);
    auto watch = this->watch();
    downs(4);
    watch.sample();
    EXPECT_EQ(watch.evidence().traffic.ports.at(0).link_downed, std::nullopt) << "the step has not ended";
    downs(5);
    watch.sample(true);
    EXPECT_EQ(watch.evidence().traffic.ports.at(0).link_downed, (LinkDowned{3, 5}));
}

TEST_F(Watched, WhatGoesDownWhileItWaitsForLateCountersIsNotTheSteps) {
    sources_.ports.front().counter_latency = milliseconds(1);
    downs(3);
    auto watch = this->watch();
    downs(5);
    counters(1000, 1000 + much);
    watch.sample(true);
    NodeFacts facts;
    Plan plan;
    downs(6);
    counters(1000 + much, 1000 + much);
    const auto evidence = collect_evidence({root_, facts, plan}, watch, StepWatch::Clock::now());
    EXPECT_EQ(evidence.traffic.rdma.tx, 4 * much) << "the late counters are read";
    EXPECT_EQ(evidence.traffic.ports.at(0).link_downed, (LinkDowned{3, 5}));
}

TEST_F(Watched, LateCountersCountFromTheStepsEndAndNoneIsWaitedForLonger) {
    sources_.ports.front().counter_latency = std::chrono::hours(1);
    auto watch = this->watch();
    counters(1000, 1000 + much);
    watch.sample(true);
    counters(1000 + much, 1000 + much);
    watch.settle(StepWatch::Clock::now() - milliseconds(2000)); // returns at once, else this test never ends
    const auto traffic = watch.evidence().traffic;
    EXPECT_EQ(traffic.rdma.tx, 4 * much);
    EXPECT_TRUE(traffic.rdma.at_least) << "the rest may come later";
    EXPECT_TRUE(traffic.ports.at(0).bytes.at_least);
}

TEST_F(Watched, ReadsNoLinksOfOtherPortsAndDevices) {
    EXPECT_EQ(link_downed(), (LinkDowned{3, 5}));
    sources_.ports.front().expected = false;
    EXPECT_EQ(link_downed(), std::nullopt) << "NCCL was not told to use it";
    sources_.ports.front().expected = true;
    sources_.ports.front().source = ByteSource::HwBytes;
    EXPECT_EQ(link_downed(), std::nullopt) << "such a device has no counters/";
}

TEST_F(Watched, ACounterOfLinksThatIsMissingIsNoProblem) {
    for (const bool missing_at_start : {true, false}) {
        downs(3);
        if (missing_at_start) {
            tree_.remove("/sys/class/infiniband");
        }
        auto watch = this->watch();
        if (missing_at_start) {
            downs(5);
        } else {
            tree_.remove("/sys/class/infiniband");
        }
        watch.sample(true);
        const auto port = watch.evidence().traffic.ports.at(0);
        EXPECT_EQ(port.link_downed, std::nullopt) << missing_at_start;
        EXPECT_EQ(port.problem, "") << missing_at_start;
    }
}

TEST_F(Watched, ReadsTheCarrierOfTheInterfaceWhereLinkDownedHasNotGrown) {
    const auto known = [this](std::uint64_t downs_after) {
        return link_downed(
            [this] {
                downs(3);
                carrier_changes(2);
            },
            [&] {
                downs(downs_after);
                carrier_changes(6);
            });
    };
    EXPECT_EQ(known(3), (LinkDowned{3, 3})) << "InfiniBand";
    take_gid();
    EXPECT_EQ(known(4), (LinkDowned{3, 4})) << "the link is counted";
    EXPECT_EQ(known(3), (LinkDowned{2, 6, "eth0"})) << "mlx5's may stay 0";
    EXPECT_EQ(known(1), (LinkDowned{2, 6, "eth0"})) << "it was reset";
    sources_.ports.front().source = ByteSource::HwOctets;
    EXPECT_EQ(known(4), (LinkDowned{2, 6, "eth0"})) << "such a device has no counters/";
    sources_.ports.front().expected = false;
    EXPECT_EQ(known(4), std::nullopt) << "NCCL was not told to use it";
}

TEST_F(Watched, ACarrierOfWhichNothingIsKnownIsNoLoss) {
    take_gid();
    downs(3);
    const auto no_file = [this] { tree_.remove("/sys/class/net/eth0/carrier_changes"); };
    const auto two = [this] { carrier_changes(2); };
    const auto four = [this] { carrier_changes(4); };
    EXPECT_EQ(link_downed(no_file, four), (LinkDowned{3, 3}));
    EXPECT_EQ(link_downed(two, no_file), (LinkDowned{3, 3}));
    sources_.ports.front().source = ByteSource::HwOctets;
    EXPECT_EQ(link_downed(two, no_file), std::nullopt);
    EXPECT_EQ(link_downed(four, two)->times(), std::nullopt) << "it is another interface";
    EXPECT_EQ(link_downed(four, four)->times(), 0);
}

TEST_F(Watched, ReadsTheCarrierAtStartAndEnd) {
    take_gid();
    carrier_changes(2);
    auto watch = this->watch();
    carrier_changes(3);
    watch.sample();
    EXPECT_EQ(watch.evidence().traffic.ports.at(0).link_downed, std::nullopt) << "the step has not ended";
    carrier_changes(4);
    watch.sample(true);
    carrier_changes(8);
    watch.sample(true);
    EXPECT_EQ(watch.evidence().traffic.ports.at(0).link_downed, (LinkDowned{2, 4, "eth0"})) << "not of the step";
}

TEST_F(Watched, ReadsAtTheEndWhetherTheGidOfNcclHasChanged) {
    take_gid();
    auto watch = this->watch();
    gid(3, "fe80::1");
    watch.sample();
    EXPECT_EQ(watch.evidence().traffic.ports.at(0).gid_change, std::nullopt) << "the step has not ended";
    watch.sample(true);
    const GidChange wanted{3, ip("10.1.0.7"), ip("fe80::1")};
    EXPECT_EQ(watch.evidence().traffic.ports.at(0).gid_change, wanted) << "10.1.0.7 at index 2 is of RoCE v1";
    gid(3, "10.1.0.7");
    watch.sample(true);
    EXPECT_EQ(watch.evidence().traffic.ports.at(0).gid_change, wanted) << "a later sample is not of the step";
}

TEST_F(Watched, FindsAGidThatHasMoved) {
    take_gid();
    const auto moved = gid_change([this] {
        gid(3, "::");
        gid(4, "10.1.0.8");
        gid(5, "10.1.0.7");
    });
    EXPECT_EQ(moved, (GidChange{3, ip("10.1.0.7"), ip("::"), 5}));
    tree_.file("/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/5", "eth0.100\n");
    EXPECT_EQ(gid_change([] {}), (GidChange{3, ip("10.1.0.7"), ip("::")})) << "that is another interface's";
}

TEST_F(Watched, SaysNothingOfAGidThatIsThereOrCannotBeRead) {
    take_gid();
    EXPECT_EQ(gid_change([this] { gid(4, "10.1.0.8"); }), std::nullopt) << "another entry";
    EXPECT_EQ(gid_change([this] { gid(3, "10.1.0.8"); }), (GidChange{3, ip("10.1.0.7"), ip("10.1.0.8")}));
    const std::string file = "/sys/class/infiniband/mlx5_0/ports/1/gids/3";
    EXPECT_EQ(gid_change([&] { tree_.file(file, "no GID\n"); }), std::nullopt);
    EXPECT_EQ(gid_change([&] { tree_.remove(file); }), std::nullopt);
    EXPECT_EQ(gid_change([this] { tree_.remove("/sys/class/infiniband"); }), std::nullopt) << "the device is gone";
    take_gid();
    sources_.ports.front().gid.reset();
    EXPECT_EQ(gid_change([this] { gid(3, "10.1.0.8"); }), std::nullopt) << "which one NCCL takes is not known";
}

TEST_F(Watched, KnowsByThePlanWhichGidNcclTakes) {
    NodeFacts facts;
    test::add_roce(facts.fabric, "mlx5_0", "eth0", "10.1.0.7");
    test::add_roce(facts.fabric, "mlx5_1", "eth1", "10.2.0.7");
    test::add_infiniband(facts.fabric, "mlx5_2");
    Plan plan;
    for (const auto* const hca : {"mlx5_0", "mlx5_1", "mlx5_2"}) {
        plan.fabric.ports.emplace_back().hca = hca;
    }
    const auto changes = [&] {
        auto watch = watch_step({root_, facts, plan}, {});
        watch.sample(true);
        return mapped(watch.evidence().traffic.ports, &PortTraffic::gid_change);
    };
    gid(1, "fe80::1");
    gid(3, "10.1.0.8");
    plan.fabric.ports[0].nccl_effective = 3;
    plan.fabric.ports[1].nccl_effective = 3; // which cannot be read
    const GidChange wanted{3, ip("10.1.0.7"), ip("10.1.0.8")};
    EXPECT_EQ(changes(), (std::vector<std::optional<GidChange>>{wanted, std::nullopt, std::nullopt}));
    plan.fabric.ports[0].nccl_effective = 1;
    EXPECT_EQ(changes().at(0), (GidChange{1, ip(test::link_local_gid), ip("fe80::1")}));
    plan.fabric.ports[0].nccl_effective = 7;
    EXPECT_EQ(changes().at(0), std::nullopt) << "the plan has no such entry";
    plan.fabric.ports[0].nccl_effective.reset();
    EXPECT_EQ(changes().at(0), std::nullopt);
    plan.fabric.ports[0].nccl_effective = 3;
    facts.environment.set("NCCL_IB_HCA", "mlx5_1");
    EXPECT_EQ(changes().at(0), std::nullopt) << "NCCL was told to use another port";
}

TEST_F(Watched, WaitsForLateCountersOnlyWhereTheyCouldChangeTheVerdict) {
    sources_.ports.front().counter_latency = milliseconds(1500);
    auto watch = this->watch();
    EXPECT_EQ(watch.counter_latency(), milliseconds(1500));
    EXPECT_FALSE(watch.should_wait_for_counters()); // IDLE
    counters(1000, 1000 + much);
    watch.sample();
    EXPECT_TRUE(watch.should_wait_for_counters()); // NOT USED, as yet
    counters(1000 + much / 4, 1000 + much);
    watch.sample();
    EXPECT_TRUE(watch.should_wait_for_counters()); // MIXED, as yet
    counters(1000 + 100 * much, 1000 + much);
    watch.sample();
    EXPECT_FALSE(watch.should_wait_for_counters()); // USED
    sources_.ports.front().counter_latency = milliseconds(0);
    counters(1000, 1000);
    auto prompt = this->watch();
    counters(1000, 1000 + much);
    prompt.sample();
    EXPECT_FALSE(prompt.should_wait_for_counters());
}

TEST_F(Watched, NvlinkMayBeUsedWhereThereAreAChannelAndAClique) {
    ASSERT_EQ(test::load_fake_nvml(), "");
    NodeFacts facts;
    Plan plan;
    plan.visible_gpus = 1;
    const WatchedStep watched{root_, facts, plan};
    const auto may_use_nvlink = [&](const char* pci) {
        const auto gpus = gpu(pci);
        auto watch = watch_sockets(gpus);
        wait_for_answer();
        watch.sample(true);
        EXPECT_FALSE(has_child()) << "one that has ended stays";
        return collect_evidence(watched, watch, StepWatch::Clock::now()).may_use_nvlink;
    };
    const auto beyond = gpu("0000:9d:00.0");
    EXPECT_FALSE(watch_sockets(beyond).may_use_nvlink()) << "there is no IMEX channel";
    add_channel();
    EXPECT_TRUE(may_use_nvlink("0000:9d:00.0"));
    EXPECT_FALSE(may_use_nvlink("0000:52:00.0")) << "it is in no clique";
}

TEST_F(Watched, AsksNvmlOnceAndOnlyWhereRdmaFallsShort) {
    ASSERT_EQ(test::load_fake_nvml(), "");
    add_channel();
    const auto gpus = gpu("0000:9d:00.0");
    auto watch = this->watch({}, gpus);
    EXPECT_FALSE(has_child()) << "nothing is known yet";
    counters(1000 + much, 1000);
    watch.sample();
    EXPECT_FALSE(has_child()) << "USED";
    EXPECT_TRUE(watch.may_use_nvlink()) << "the channel alone decides";
    counters(1000 + much, 1000 + 4 * much);
    watch.sample();
    ASSERT_TRUE(has_child()) << "MIXED";
    wait_for_answer();
    watch.sample();
    EXPECT_TRUE(watch.may_use_nvlink()) << "it is in a clique";
    EXPECT_FALSE(has_child()) << "it is asked again, or the one that has ended stays";
    const auto alone = gpu("0000:52:00.0");
    auto other = watch_sockets(alone);
    wait_for_answer();
    other.sample();
    EXPECT_FALSE(other.may_use_nvlink()) << "the answer is taken before the step ends";
}

TEST_F(Watched, DoesNotAskNvmlWhereTheStepHasEndedOrATaskDoesWithoutNvlink) {
    using namespace std::string_literals;
    ASSERT_EQ(test::load_fake_nvml(), "");
    add_channel();
    const auto gpus = gpu("0000:52:00.0");
    const auto asks = [&](const std::string& variable) {
        tree_.file("/proc/30/environ", "SLURM_JOB_ID=12\0SLURM_STEP_ID=3\0SLURM_PROCID=0\0"s + variable + "\0"s)
            .file("/proc/30/stat", "30 (x) S 1 1")
            .file("/proc/30/status", "Uid:\t1000\t0\t0\t0\n");
        const auto watch = watch_sockets(gpus, {12, 3, 0, 1000});
        return has_child();
    };
    EXPECT_FALSE(asks("NCCL_MNNVL_ENABLE=0"));
    auto watch = this->watch({}, gpus);
    counters(1000, 1000 + 2 * much);
    watch.sample(true);
    EXPECT_FALSE(has_child()) << "nothing would wait for it";
    EXPECT_TRUE(asks("NCCL_MNNVL_ENABLE=2"));
}

TEST_F(Watched, DoesNotWaitForAnNvmlThatHangs) {
    ASSERT_EQ(test::load_fake_nvml(), "");
    add_channel();
    const auto gpus = gpu("0000:ff:00.0");
    auto watch = watch_sockets(gpus);
    ASSERT_TRUE(has_child());
    const auto before = StepWatch::Clock::now();
    watch.sample();
    watch.sample(true);
    EXPECT_LT(StepWatch::Clock::now(), before + nvml_limit / 2);
    EXPECT_TRUE(watch.may_use_nvlink()) << "the channel alone decides";
    EXPECT_TRUE(has_child()) << "it has time until the end";
}

TEST_F(Watched, NvlinkIsNotUsedWhereNcclWasToldSo) {
    tree_.file("/dev/nvidia-caps-imex-channels/channel7", "");
    Plan plan;
    plan.visible_gpus = 1;
    const std::vector<Gpu> gpus(1);
    struct Row {
        const char *name, *off, *on;
    };
    const auto may_use_nvlink = [&](const char* name, const char* value) {
        NodeFacts facts;
        facts.environment.set(name, value);
        auto watch = this->watch({}, gpus);
        return collect_evidence({root_, facts, plan}, watch, StepWatch::Clock::now()).may_use_nvlink;
    };
    for (const auto& row : std::initializer_list<Row>{{"NCCL_MNNVL_ENABLE", "0", "2"},
                                                      {"NCCL_CUMEM_ENABLE", "0", "1"},
                                                      {"NCCL_P2P_DISABLE", "1", "0"},
                                                      {"NCCL_P2P_LEVEL", "LOC", "NVL"},
                                                      {"NCCL_P2P_LEVEL", "0", "5"},
                                                      {"NCCL_MNNVL_ENABLE", "off", ""}, // numbers, as NCCL reads them
                                                      {"NCCL_CUMEM_ENABLE", "00", "-2"},
                                                      {"NCCL_P2P_DISABLE", "01", "true"},
                                                      {"NCCL_P2P_LEVEL", "00", "PHB"}}) {
        EXPECT_FALSE(may_use_nvlink(row.name, row.off)) << row.name;
        EXPECT_TRUE(may_use_nvlink(row.name, row.on)) << row.name;
    }
}

TEST_F(Watched, NamesWhatTheTaskHasSetWhenItsBytesGoOverSockets) {
    using namespace std::string_literals;
    const std::string step = "SLURM_JOB_ID=12\0SLURM_STEP_ID=3\0SLURM_PROCID=0\0NCCL_NET=IB\0"s;
    tree_.file("/proc/30/environ", step + "RDMA_NCCL_SET=@12.3," + marker_entry("NCCL_NET", "IB") + "\0"s)
        .file("/proc/30/stat", "30 (x) S 1 1")
        .file("/proc/30/status", "Uid:\t1000\t0\t0\t0\n")
        .file("/proc/31/environ", step + "NCCL_IB_DISABLE=1\0"s)
        .file("/proc/31/stat", "31 (x) S 30 1")
        .file("/proc/31/status", "Uid:\t1000\t0\t0\t0\n");
    NodeFacts facts;
    Plan plan;
    plan.fabric.ports.emplace_back().rule = PortRule::Used;
    const WatchedStep watched{root_, facts, plan};
    std::vector<std::string> of_container;
    const auto causes = [&](std::uint64_t words, std::optional<uid_t> user) {
        counters(1000, 1000);
        auto watch = this->watch({12, 3, 0, user});
        counters(1000 + words, 1000 + much);
        watch.sample();
        return collect_evidence(watched, watch, StepWatch::Clock::now(), of_container).causes;
    };
    const std::string cause = "in the ranks' environment: NCCL_IB_DISABLE=1 is set: NCCL uses sockets";
    EXPECT_EQ(causes(0, 1000).at(0), cause);
    EXPECT_FALSE(contains(causes(100 * much, 1000), cause)) << "RDMA was used";
    EXPECT_FALSE(contains(causes(0, 1001), cause)) << "another user's processes";
    of_container = {"in the container: NCCL_IB_DISABLE=1 is set: NCCL uses sockets"};
    EXPECT_EQ(causes(0, 1000).at(0), of_container.front());
    EXPECT_FALSE(contains(causes(0, 1000), cause)) << "the image has set it, and the plugin has seen that";
    facts.environment.set("NCCL_IB_DISABLE", "1");
    EXPECT_FALSE(contains(causes(0, 1000), cause)) << "it is the step's, and said as that";
}

} // namespace
} // namespace rdma_nccl
