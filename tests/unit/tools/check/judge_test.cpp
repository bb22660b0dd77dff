// SPDX-License-Identifier: Apache-2.0
// Each judgement: a good node passes, one change at a time makes the one check speak.
#include "tests/unit/check_values.h"

#include <gtest/gtest.h>
#include <limits>

namespace rdma_nccl::test {
namespace {

using namespace check;

using enum Status;

TEST(CheckJudge, AGoodNodeIsGood) {
    const auto results = judge_node(good_node(), {});
    for (const auto& result : results) {
        EXPECT_TRUE(result.status == Pass) << result.id << " " << result.item << ": " << result.message;
    }
    EXPECT_EQ(overall(results), NodeStatus::Ok);
}

TEST(CheckJudge, EveryResultIsOfAKnownCheckAndEveryFaultHasAHint) {
    auto facts = good_node();
    facts.fabric.hcas[0].answers = false;
    facts.fabric.hcas[0].firmware = "1.0";
    facts.fabric.hcas[1].ports[0].state = "DOWN";
    facts.kernel = {};
    facts.limits.shm_mib = 0;
    facts.limits.memlock = {65536, 65536};
    choose_again(facts);
    for (const auto& result : judge_node(facts, {})) {
        const auto names = check_names();
        EXPECT_TRUE(std::any_of(names.begin(), names.end(), [&](const CheckName& name) {
            return name.id == result.id;
        })) << result.id;
        EXPECT_EQ(result.hint.empty(), result.status == Pass || result.status == Skip) << result.id << result.message;
        EXPECT_FALSE(result.message.empty()) << result.id;
        EXPECT_FALSE(result.evidence.empty()) << result.id;
    }
}

TEST(CheckJudge, TheFabricProfile) {
    auto facts = good_node();
    facts.fabric_profiles.list = {parse_fabric_profile("driver = mlx5_core\nNCCL_IB_TC = 41\n", "p.conf").value()};
    EXPECT_EQ(result_of(facts, "fabric.profile").status, Pass);
    EXPECT_EQ(result_of(facts, "fabric.profile").message,
              "p.conf is for this machine (driver mlx5_core): fabric_profile=on sets its NCCL values, and rdma-nccl "
              "explain shows them");
    facts.settings.fabric_profile = true;
    EXPECT_NE(result_of(facts, "fabric.profile").message.find("its NCCL values are set where all"), std::string::npos);
    facts.fabric_profiles.faults = {"q.conf:1: a fault\n    x\n    ^"};
    EXPECT_EQ(result_of(facts, "fabric.profile").status, Warn);
    EXPECT_EQ(result_of(facts, "fabric.profile").message, "q.conf:1: a fault");
}

TEST(CheckJudge, HcaCount) {
    auto facts = good_node();
    Expectations expected;
    expected.hcas = 2;
    EXPECT_EQ(result_of(facts, "hca.count", "", expected).status, Pass);
    expected.hcas = 3;
    EXPECT_EQ(result_of(facts, "hca.count", "", expected).status, Fail);
    expected.hcas = 1;
    EXPECT_EQ(result_of(facts, "hca.count", "", expected).status, Warn);
    Facts none;
    EXPECT_EQ(result_of(none, "hca.count").status, Warn);
    expected.hcas = 0;
    EXPECT_EQ(result_of(none, "hca.count", "", expected).status, Pass);
    none.fabric.problems = {"/sys/class/infiniband: Input/output error"};
    EXPECT_EQ(result_of(none, "hca.count").status, Error);
}

TEST(CheckJudge, ADriverThatHangsFails) {
    auto facts = good_node();
    facts.fabric.hcas[1].answers = false;
    EXPECT_EQ(result_of(facts, "hca.answers", "mlx5_1").status, Pass);
    EXPECT_EQ(result_of(facts, "hca.answers", "mlx5_2").status, Fail);
    facts.not_asked = {"mlx5_2"};
    EXPECT_EQ(result_of(facts, "hca.answers", "mlx5_2").status, Error) << "nobody knows";
}

TEST(CheckJudge, OnlyWhatIsExpectedTakesANodeAway) {
    auto facts = good_node();
    facts.verbs.load_error = "libibverbs.so.1: cannot open shared object file";
    facts.kernel.modules = {};
    facts.limits.of_step = true;
    facts.root = false;
    facts.limits.memlock = {65536, 65536};
    for (auto& hca : facts.fabric.hcas) {
        hca.answers = false;
        hca.ports[0].state = "DOWN";
    }
    choose_again(facts);
    const auto status_with = [&facts](const Expectations& expected) {
        auto results = judge_node(facts, expected);
        EXPECT_EQ(overall(results), NodeStatus::Critical);
        warn_of_the_unexpected(results, expected);
        return overall(results);
    };
    EXPECT_EQ(status_with({}), NodeStatus::Warning);
    Expectations expected;
    expected.gpus = 2;
    EXPECT_EQ(status_with(expected), NodeStatus::Warning) << "met";
    expected.ports = 2;
    EXPECT_EQ(status_with(expected), NodeStatus::Critical);
}

TEST(CheckJudge, EachExpectationThatFailsCounts) {
    auto facts = good_node();
    facts.limits.memlock = facts.limits.open_files = {65536, 65536};
    facts.kernel.peer_memory.clear();
    facts.kernel.nvidia_open = false;
    const auto outcome = parse_expectations("hcas = 3\nports = 3\ngpus = 3\nrate = 400\nlink = infiniband\n"
                                            "mtu = 9100\npcie_width = 32\npcie_speed = 64\nmemlock = unlimited\n"
                                            "shm = 1T\nnofile = 100000\ngdr = on\n",
                                            "f", "n01");
    ASSERT_TRUE(outcome.faults.empty());
    auto results = judge_node(facts, outcome.expectations);
    const auto before = count(results, Fail);
    warn_of_the_unexpected(results, outcome.expectations);
    EXPECT_EQ(count(results, Fail), before);
    std::set<std::string> failed;
    for (const auto& result : results) {
        if (result.status == Fail) {
            failed.insert(result.id);
        }
    }
    EXPECT_EQ(failed.size(), 12U) << "each key can fail";
}

TEST(CheckJudge, FirmwareOfOneModelIsTheSame) {
    auto facts = good_node();
    facts.fabric.hcas[1].firmware = "20.31.1014";
    EXPECT_EQ(result_of(facts, "hca.firmware", "mlx5_1").status, Warn);
    facts.fabric.hcas[1].board = "MT_0000000838"; // another model
    EXPECT_EQ(result_of(facts, "hca.firmware", "mlx5_1").status, Pass);
}

TEST(CheckJudge, Modules) {
    auto facts = good_node();
    facts.kernel.modules = {"ib_uverbs"};
    EXPECT_EQ(result_of(facts, "modules", "ib_uverbs").status, Pass);
    EXPECT_EQ(result_of(facts, "modules", "rdma_ucm").status, Warn);
    facts.kernel.modules = {};
    EXPECT_EQ(result_of(facts, "modules", "ib_uverbs").status, Fail);
    facts.kernel.modules_known = false;
    EXPECT_EQ(result_of(facts, "modules", "ib_uverbs").status, Skip);
}

TEST(CheckJudge, DeviceFiles) {
    auto facts = good_node();
    facts.fabric.hcas[0].device_access = DeviceAccess::Missing;
    EXPECT_EQ(result_of(facts, "device.file", "mlx5_1").status, Warn) << "a container may have some of them";
    facts.fabric.hcas[1].device_access = DeviceAccess::Denied;
    EXPECT_EQ(result_of(facts, "device.file", "mlx5_1").status, Fail);
    EXPECT_EQ(result_of(facts, "device.file", "mlx5_2").status, Fail);
    facts.kernel.rdma_cm_file = false;
    EXPECT_EQ(result_of(facts, "device.file", "rdma_cm").status, Warn);
}

TEST(CheckJudge, Verbs) {
    auto facts = good_node();
    facts.verbs.devices = {"mlx5_1"};
    facts.verbs.warnings = "libibverbs: Warning: couldn't load driver 'libmlx5-rdmav34.so'";
    EXPECT_EQ(result_of(facts, "verbs.provider", "mlx5_1").status, Pass);
    const auto missing = result_of(facts, "verbs.provider", "mlx5_2");
    EXPECT_EQ(missing.status, Fail);
    EXPECT_NE(missing.message.find("couldn't load driver"), std::string::npos);
    facts.fabric.hcas[1].device_access = DeviceAccess::Missing;
    EXPECT_EQ(result_of(facts, "verbs.provider", "mlx5_2").status, Skip);
    facts.verbs.load_error = "libibverbs.so.1: cannot open shared object file";
    EXPECT_EQ(result_of(facts, "verbs.library").status, Fail);
    facts.verbs.problem = "did not come back";
    EXPECT_EQ(result_of(facts, "verbs.library").status, Error);
    facts.verbs.asked = false;
    EXPECT_EQ(result_of(facts, "verbs.library").status, Skip);
}

TEST(CheckJudge, PortCount) {
    auto facts = good_node();
    Expectations expected;
    expected.ports = 2;
    EXPECT_EQ(result_of(facts, "port.count", "", expected).status, Pass);
    expected.ports = 3;
    EXPECT_EQ(result_of(facts, "port.count", "", expected).status, Fail);
    expected.ports = 1;
    EXPECT_EQ(result_of(facts, "port.count", "", expected).status, Warn);
    for (auto& hca : facts.fabric.hcas) {
        hca.ports[0].state = "DOWN";
    }
    choose_again(facts);
    EXPECT_EQ(result_of(facts, "port.count").status, Fail);
    facts.fabric.gpus.clear();
    EXPECT_EQ(result_of(facts, "port.count").status, Warn) << "without GPUs nobody may need it";
    for (auto& hca : facts.fabric.hcas) {
        hca.ports[0].state = "ACTIVE";
        hca.driver = "efa";
    }
    choose_again(facts);
    EXPECT_EQ(result_of(facts, "port.count").status, Pass) << "NCCL has a plugin for EFA";
}

TEST(CheckJudge, PortState) {
    auto facts = good_node();
    auto& port = facts.fabric.hcas[1].ports[0];
    port.state = "DOWN";
    port.physical_state = "Polling";
    choose_again(facts);
    const auto down = result_of(facts, "port.state", "mlx5_2:1");
    EXPECT_EQ(down.status, Warn);
    EXPECT_EQ(down.message, "is DOWN (Polling)");
    Expectations expected;
    expected.ports = 1;
    EXPECT_EQ(result_of(facts, "port.state", "mlx5_2:1", expected).status, Skip) << "one is enough";
    facts.fabric.hcas[1].system_image_guid = "mlx5_1";
    EXPECT_EQ(result_of(facts, "port.state", "mlx5_2:1").status, Skip) << "the second port of a card that is used";
    facts.fabric.hcas[1].system_image_guid = "mlx5_2";
    facts.fabric.hcas[1].pci_path = "/sys/devices/pci0000:90/0000:90:01.0/0000:91:00.0";
    EXPECT_EQ(result_of(facts, "port.state", "mlx5_2:1").status, Skip) << "not beside a GPU";
}

TEST(CheckJudge, PortRate) {
    auto facts = good_node();
    Expectations expected;
    expected.rate_gbps = 400;
    EXPECT_EQ(result_of(facts, "port.rate", "mlx5_1:1", expected).status, Fail);
    expected.rate_gbps = 200;
    EXPECT_EQ(result_of(facts, "port.rate", "mlx5_1:1", expected).status, Pass);
    facts.fabric.hcas[1].ports[0].rate_gbps = 100;
    choose_again(facts);
    EXPECT_EQ(result_of(facts, "port.rate", "mlx5_2:1").status, Warn) << "a rail that is slower than the other";
    EXPECT_EQ(result_of(facts, "port.rate", "mlx5_1:1").status, Pass);
    facts.fabric.hcas[0].ports[0].rate_is_default = true;
    EXPECT_EQ(result_of(facts, "port.rate", "mlx5_1:1").status, Skip);
}

TEST(CheckJudge, InfiniBand) {
    Facts facts;
    add_infiniband(facts.fabric, "mlx5_0", "/sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0");
    choose_again(facts);
    facts.pkeys["mlx5_0:1"] = {0x7fff};
    EXPECT_EQ(result_of(facts, "port.pkey", "mlx5_0:1").status, Warn);
    facts.pkeys["mlx5_0:1"] = {0x7fff, 0x8001};
    EXPECT_EQ(result_of(facts, "port.pkey", "mlx5_0:1").status, Pass);
    facts.pkeys.clear();
    EXPECT_EQ(result_of(facts, "port.pkey", "mlx5_0:1").status, Skip);
    Expectations expected;
    expected.link = LinkLayer::Ethernet;
    EXPECT_EQ(result_of(facts, "link.layer", "mlx5_0:1", expected).status, Fail);
    expected.link = LinkLayer::InfiniBand;
    EXPECT_EQ(result_of(facts, "link.layer", "mlx5_0:1", expected).status, Pass);
    facts.fabric.hcas[0].ports[0].state = "INIT";
    choose_again(facts);
    const auto init = result_of(facts, "port.state", "mlx5_0:1");
    EXPECT_EQ(init.status, Warn);
    EXPECT_NE(init.hint.find("subnet manager"), std::string::npos);
    EXPECT_TRUE(of_check(judge_node(facts, {}), "mtu").empty()) << "the subnet manager sets it";
}

TEST(CheckJudge, Gids) {
    auto facts = good_node();
    facts.before->gid_indices["mlx5_1:1"] = 5;
    EXPECT_EQ(result_of(facts, "gid.index", "mlx5_1:1").status, Warn);
    EXPECT_EQ(result_of(facts, "gid.index", "mlx5_2:1").status, Pass);
    facts.before.reset();
    EXPECT_EQ(result_of(facts, "gid.index", "mlx5_1:1").status, Skip);
    facts.fabric.hcas[1].ports[0].gids.clear();
    choose_again(facts);
    EXPECT_EQ(result_of(facts, "gid.usable", "mlx5_1:1").status, Pass);
    EXPECT_EQ(result_of(facts, "gid.usable", "mlx5_2:1").status, Warn);
}

TEST(CheckJudge, Mtu) {
    auto facts = good_node();
    facts.fabric.netdevs[1].mtu = 4200;
    EXPECT_EQ(result_of(facts, "mtu", "eth2").status, Warn) << "less than the other rail";
    facts.fabric.netdevs[0].mtu = 4200;
    EXPECT_EQ(result_of(facts, "mtu", "eth2").status, Pass);
    facts.fabric.netdevs[0].mtu = facts.fabric.netdevs[1].mtu = 1500;
    const auto small = result_of(facts, "mtu", "eth2");
    EXPECT_EQ(small.status, Warn);
    EXPECT_NE(small.message.find("1024"), std::string::npos);
    Expectations expected;
    expected.mtu = 1500;
    EXPECT_EQ(result_of(facts, "mtu", "eth2", expected).status, Pass);
    expected.mtu = 9000;
    EXPECT_EQ(result_of(facts, "mtu", "eth2", expected).status, Fail);
    facts.fabric.netdevs[1].mtu = 0;
    EXPECT_EQ(result_of(facts, "mtu", "eth2").status, Error);
}

TEST(CheckJudge, TrafficClassAndEcn) {
    auto facts = good_node();
    Expectations expected;
    expected.traffic_class = 106;
    EXPECT_EQ(result_of(facts, "roce.traffic_class", "mlx5_1:1", expected).status, Skip);
    facts.quality["mlx5_1:1"].traffic_class = 106;
    facts.quality["mlx5_1:1"].ecn = false;
    EXPECT_EQ(result_of(facts, "roce.traffic_class", "mlx5_1:1", expected).status, Pass);
    EXPECT_EQ(result_of(facts, "roce.ecn", "eth1").value, "off");
    facts.quality["mlx5_1:1"].traffic_class = 0;
    EXPECT_EQ(result_of(facts, "roce.traffic_class", "mlx5_1:1", expected).status, Warn);
}

TEST(CheckJudge, RailsThatShareANetwork) {
    auto facts = good_node();
    EXPECT_TRUE(of_check(judge_node(facts, {}), "arp").empty());
    for (auto& netdev : facts.fabric.netdevs) {
        netdev.addresses[0].prefix_length = 16;
    }
    EXPECT_EQ(result_of(facts, "arp", "eth1").status, Warn);
    EXPECT_EQ(result_of(facts, "rp_filter", "eth1").status, Pass);
    facts.sysctls["eth1"] = {1, 1, 2};
    EXPECT_EQ(result_of(facts, "arp", "eth1").status, Pass);
    EXPECT_EQ(result_of(facts, "rp_filter", "eth1").status, Warn);
    facts.sysctls.clear();
    EXPECT_EQ(result_of(facts, "arp", "eth1").status, Skip);
}

TEST(CheckJudge, Changes) {
    auto facts = good_node();
    facts.now.counts["mlx5_1:1 link_downed"] += 1;
    facts.now.counts["mlx5_1:1 symbol_error"] += 12;
    facts.now.counts["mlx5_1:1 local_ack_timeout_err"] += 101;
    EXPECT_EQ(result_of(facts, "link.flaps", "mlx5_1:1").status, Warn);
    const auto errors = result_of(facts, "port.errors", "mlx5_1:1");
    EXPECT_EQ(errors.status, Warn);
    EXPECT_EQ(errors.message, "symbol_error +12 in 10 min");
    EXPECT_EQ(result_of(facts, "port.timeouts", "mlx5_1:1").status, Warn);
    EXPECT_EQ(result_of(facts, "port.timeouts", "mlx5_2:1").status, Pass);
    Expectations expected;
    expected.errors = 12;
    expected.timeouts = 101;
    EXPECT_EQ(result_of(facts, "port.errors", "mlx5_1:1", expected).status, Pass);
    EXPECT_EQ(result_of(facts, "port.timeouts", "mlx5_1:1", expected).status, Pass);
    facts.now.counts["mlx5_1:1 symbol_error"] = 0; // reset
    EXPECT_EQ(result_of(facts, "port.errors", "mlx5_1:1").status, Pass);
    facts.now.counts.erase("mlx5_1:1 symbol_error");
    EXPECT_EQ(result_of(facts, "port.errors", "mlx5_1:1").status, Skip);
    facts.before.reset();
    EXPECT_EQ(result_of(facts, "link.flaps").status, Skip);
}

TEST(CheckJudge, AnInterfaceThatWentDownAndUpIsAFlap) {
    auto facts = good_node();
    facts.before->counts["eth1 carrier_changes"] = 2;
    facts.now.counts["eth1 carrier_changes"] = 4;
    EXPECT_EQ(result_of(facts, "link.flaps", "mlx5_1:1").status, Warn);
    EXPECT_EQ(result_of(facts, "link.flaps", "mlx5_1:1").evidence, "/sys/class/net/eth1/carrier_changes");
    EXPECT_EQ(result_of(facts, "link.flaps", "mlx5_2:1").status, Pass);
    facts.now.counts["mlx5_2:1 link_downed"] += 1;
    facts.fabric.hcas[1].ports[0].state = "DOWN";
    choose_again(facts);
    EXPECT_EQ(result_of(facts, "link.flaps", "mlx5_2:1").status, Warn) << "one that is down, and so not used";
}

TEST(CheckJudge, Memlock) {
    auto facts = good_node();
    facts.limits.memlock = {65536, 8 << 20};
    EXPECT_EQ(result_of(facts, "memlock").status, Warn);
    facts.limits.memlock.hard.reset();
    EXPECT_EQ(result_of(facts, "memlock").status, Pass) << "who submits may raise the soft one";
    facts.limits.of_step = true;
    facts.root = false;
    EXPECT_EQ(result_of(facts, "memlock").status, Fail) << "in a step its own soft limit counts";
    facts.root = true;
    EXPECT_EQ(result_of(facts, "memlock").status, Warn) << "the kernel asks root for no limit";
    Expectations expected;
    expected.memlock = std::numeric_limits<std::uint64_t>::max();
    facts.limits.memlock.soft = std::uint64_t{1} << 40;
    EXPECT_EQ(result_of(facts, "memlock", "", expected).status, Fail);
    facts.limits.memlock.soft.reset();
    EXPECT_EQ(result_of(facts, "memlock", "", expected).status, Pass);
    facts.limits.memlock.soft = 1;
    facts.settings.memlock = MemlockChoice::Ignore;
    EXPECT_TRUE(of_check(judge_node(facts, {}), "memlock").empty());
    facts.settings.memlock = MemlockChoice::Raise;
    facts.limits.of_step = false;
    EXPECT_EQ(result_of(facts, "memlock").status, Pass);
}

TEST(CheckJudge, FilesAndSharedMemory) {
    auto facts = good_node();
    facts.limits.open_files = {256, 512};
    EXPECT_EQ(result_of(facts, "limits.nofile").status, Warn);
    Expectations expected;
    expected.open_files = 4096;
    expected.shm_mib = 1 << 20;
    EXPECT_EQ(result_of(facts, "limits.nofile", "", expected).status, Fail);
    EXPECT_EQ(result_of(facts, "shm", "", expected).status, Fail);
    facts.limits.shm_mib = 63;
    EXPECT_EQ(result_of(facts, "shm").status, Warn);
    facts.limits.shm_mib.reset();
    EXPECT_EQ(result_of(facts, "shm").status, Warn);
    facts.limits.shm_known = false;
    facts.limits.shm_problem = "does not answer";
    EXPECT_EQ(result_of(facts, "shm").status, Error);
    facts.live = false;
    EXPECT_EQ(result_of(facts, "shm").status, Skip);
}

TEST(CheckJudge, Gpus) {
    auto facts = good_node();
    Expectations expected;
    expected.gpus = 3;
    EXPECT_EQ(result_of(facts, "gpu.count", "", expected).status, Fail);
    facts.kernel.nvidia_gpus.erase(facts.fabric.gpus[1].pci);
    EXPECT_EQ(result_of(facts, "gpu.count").status, Warn);
    facts.fabric.hcas[1].numa_node = 0;
    EXPECT_EQ(result_of(facts, "gpu.hca", facts.fabric.gpus[0].pci).status, Pass);
    EXPECT_EQ(result_of(facts, "gpu.hca", facts.fabric.gpus[1].pci).status, Warn);
    facts.fabric.hcas[1].numa_node.reset();
    EXPECT_EQ(result_of(facts, "gpu.hca", facts.fabric.gpus[1].pci).status, Skip);
}

TEST(CheckJudge, PartitionsOfAGpuAreJudgedOnce) {
    auto facts = good_node();
    facts.fabric.gpus.insert(facts.fabric.gpus.end(), 5, facts.fabric.gpus[0]);
    EXPECT_EQ(result_of(facts, "gpu.count").value, "7");
    const auto results = judge_node(facts, {});
    for (const std::string_view id : {"gpu.hca", "pcie.width", "iommu"}) {
        EXPECT_LE(std::ranges::count_if(results,
                                        [&](const Finding& finding) {
                                            return finding.id == id && finding.item == facts.fabric.gpus[0].pci;
                                        }),
                  1)
            << id;
    }
}

TEST(CheckJudge, FabricsOfGpus) {
    using State = GpuFabric::State;
    auto facts = good_node();
    const auto& gpu = facts.fabric.gpus[0].pci;
    const auto judged = [&](const GpuFabric& fabric) {
        facts.gpu_fabrics = {fabric};
        return result_of(facts, "gpu.fabric", gpu);
    };
    constexpr unsigned healthy = 0x1aa;
    EXPECT_EQ(judged({gpu, "", 0, State::Joined, 0, healthy}).message, "has joined the NVLink fabric of the node");
    EXPECT_EQ(judged({gpu, "5a01", 7, State::Joined, 0, 0}).message, "is in clique 7 of NVLink domain 5a01");
    EXPECT_EQ(judged({gpu, "", 0, State::NotStarted, 15, 0}).status, Fail);
    EXPECT_EQ(judged({gpu, "", 0, State::Joining, 15, 0}).status, Warn);
    EXPECT_EQ(judged({gpu, "5a01", 7, State::Joined, 15, healthy}).status, Fail);
    for (const auto& [health, problem] : {std::pair{0xa9U, "less bandwidth"},
                                          {0xa6U, "a route in recovery"},
                                          {0x9aU, "an unhealthy route"},
                                          {0xbaU, "an unhealthy route"},
                                          {0x6aU, "timeouts to recover from"},
                                          {0x2aaU, "a wrong configuration (2)"},
                                          {0x2a5U, "less bandwidth, a route in recovery, a wrong configuration (2)"}}) {
        const auto result = judged({gpu, "", 0, State::Joined, 0, health});
        EXPECT_EQ(result.status, Warn);
        EXPECT_EQ(result.message, std::string("its NVLink fabric has ") + problem);
        EXPECT_FALSE(result.hint.empty() || result.evidence.empty());
    }
}

TEST(CheckJudge, AnNvmlThatDoesNotAnswer) {
    auto facts = good_node();
    facts.nvml_timeout = true;
    EXPECT_EQ(result_of(facts, "gpu.fabric").status, Warn);
    EXPECT_EQ(result_of(facts, "gpu.fabric").message, "NVML has failed, or has not answered within 5 s");
}

TEST(CheckJudge, ImexChannelsWhereNvlinkConnectsNodes) {
    auto facts = good_node();
    const auto& gpu = facts.fabric.gpus[0].pci;
    const auto has_result = [&] { return std::ranges::count(judge_node(facts, {}), "gpu.imex", &Finding::id) > 0; };
    facts.limits.of_step = true;
    EXPECT_FALSE(has_result());
    facts.gpu_fabrics = {{gpu, "", 0, GpuFabric::State::Joined, 0, 0}};
    EXPECT_FALSE(has_result()) << "it ends at the node";
    facts.gpu_fabrics = {{gpu, "5a01", 0, GpuFabric::State::Joining, 0, 0}};
    EXPECT_FALSE(has_result()) << "NCCL does not try it";
    facts.gpu_fabrics = {{gpu, "5a01", 0, GpuFabric::State::Joined, 0, 0}};
    EXPECT_EQ(result_of(facts, "gpu.imex").status, Warn);
    facts.limits.of_step = false;
    EXPECT_EQ(result_of(facts, "gpu.imex").status, Skip);
    facts.kernel.imex_channel = true;
    EXPECT_EQ(result_of(facts, "gpu.imex").status, Pass);
}

TEST(CheckJudge, GpuDirect) {
    auto facts = good_node();
    EXPECT_EQ(result_of(facts, "gdr").value, "peermem");
    facts.kernel.peer_memory.clear();
    EXPECT_EQ(result_of(facts, "gdr").status, Warn) << "not the open kernel modules";
    facts.kernel.nvidia_open = true;
    EXPECT_EQ(result_of(facts, "gdr").value, "dmabuf");
    facts.verbs.dmabuf = false;
    facts.verbs.dmabuf_device = "mlx5_1";
    EXPECT_EQ(result_of(facts, "gdr").status, Warn);
    facts.verbs.dmabuf = true;
    EXPECT_EQ(result_of(facts, "gdr").status, Pass);
    facts.kernel.release = "5.10.0-32-amd64";
    EXPECT_EQ(result_of(facts, "gdr").status, Warn);
    Expectations expected;
    expected.gdr = true;
    EXPECT_EQ(result_of(facts, "gdr", "", expected).status, Fail);
    expected.gdr = false;
    EXPECT_EQ(result_of(facts, "gdr", "", expected).status, Pass);
    facts.kernel.release = "5.12";
    facts.kernel.nvidia_version = "510.47.03";
    EXPECT_EQ(result_of(facts, "gdr").status, Warn);
}

TEST(CheckJudge, PcieLinks) {
    auto facts = good_node();
    auto& hca = facts.pci.at(facts.fabric.hcas[0].pci);
    hca.width = 8;
    EXPECT_EQ(result_of(facts, "pcie.width", "mlx5_1").status, Warn);
    EXPECT_EQ(result_of(facts, "pcie.bandwidth", "mlx5_1").status, Warn) << "126 Gb/s for 200";
    EXPECT_EQ(result_of(facts, "pcie.bandwidth", "mlx5_2").status, Pass);
    facts.pci.at("0000:12:00.0").max_width = 8; // the slot has no more
    EXPECT_EQ(result_of(facts, "pcie.width", "mlx5_1").status, Pass);
    Expectations expected;
    expected.pcie_width = 16;
    EXPECT_EQ(result_of(facts, "pcie.width", "mlx5_1", expected).status, Fail);
    hca.speed = 8;
    EXPECT_EQ(result_of(facts, "pcie.speed", "mlx5_1").status, Warn);
    hca.width.reset();
    hca.speed.reset();
    EXPECT_EQ(result_of(facts, "pcie.width", "mlx5_1").status, Skip);
    EXPECT_EQ(result_of(facts, "pcie.speed", "mlx5_1").status, Skip);
    hca.relaxed_orders = false;
    EXPECT_EQ(result_of(facts, "pcie.relaxed_ordering", "mlx5_1").status, Warn);
    hca.config_known = false;
    EXPECT_EQ(result_of(facts, "pcie.relaxed_ordering", "mlx5_1").message, "its configuration space is not there");
    facts.root = false;
    EXPECT_EQ(result_of(facts, "pcie.relaxed_ordering", "mlx5_1").message, "only root sees it");
}

TEST(CheckJudge, LinksOfSwitchesCountAndIdleGpusDoNot) {
    auto facts = good_node();
    facts.pci.at("0000:11:00.0").speed = 8; // upstream port of the switch above mlx5_1
    EXPECT_EQ(result_of(facts, "pcie.speed", "0000:11:00.0").status, Warn);
    EXPECT_TRUE(of_check(judge_node(facts, {}), "pcie.speed").size() == 4) << "two HCAs, two switches";
    facts.pci.at(facts.fabric.gpus[0].pci).speed = 2.5;
    EXPECT_EQ(result_of(facts, "pcie.speed", facts.fabric.gpus[0].pci).id, "");
    facts.pci.at(facts.fabric.gpus[0].pci).width = 8;
    EXPECT_EQ(result_of(facts, "pcie.width", facts.fabric.gpus[0].pci).status, Warn);
}

TEST(CheckJudge, Isolation) {
    auto facts = good_node();
    auto& port = facts.pci.at("0000:12:00.0");
    port.acs_redirects = true;
    EXPECT_EQ(result_of(facts, "pci.acs", "0000:12:00.0").status, Warn);
    facts.kernel.virtual_machine = true;
    EXPECT_EQ(result_of(facts, "pci.acs", "0000:12:00.0").status, Pass);
    port.config_extended = false;
    EXPECT_EQ(result_of(facts, "pci.acs", "0000:12:00.0").status, Skip);
    EXPECT_EQ(result_of(facts, "pci.acs", "0000:10:01.0").id, "") << "root ports do not matter";
    auto& hca = facts.pci.at(facts.fabric.hcas[0].pci);
    hca.iommu_type = "DMA-FQ";
    EXPECT_EQ(result_of(facts, "iommu", "mlx5_1").status, Skip);
    facts.kernel.virtual_machine = false;
    EXPECT_EQ(result_of(facts, "iommu", "mlx5_1").status, Warn);
    hca.iommu_type.clear();
    EXPECT_EQ(result_of(facts, "iommu", "mlx5_1").status, Pass);
}

TEST(CheckJudge, TheSiteIgnoresAndSoftens) {
    auto facts = good_node();
    facts.fabric.hcas[0].answers = false;
    Expectations expected;
    expected.warn = {"hca.answers"};
    EXPECT_EQ(result_of(facts, "hca.answers", "mlx5_1", expected).status, Warn);
    expected.ignore = {"hca.answers"};
    const auto ignored = result_of(facts, "hca.answers", "mlx5_1", expected);
    EXPECT_EQ(ignored.status, Skip);
    EXPECT_EQ(ignored.message, "is ignored, as the file of expectations says");
    EXPECT_EQ(ignored.hint, "");
}

TEST(CheckJudge, PortsThatAreLeftOutAreListed) {
    auto facts = good_node();
    facts.fabric.default_route_netdevs = {facts.fabric.hcas[0].netdevs.at(0)};
    facts.fabric.gpus.clear();
    choose_again(facts);
    const auto name = facts.choice.ports.at(0).name();
    ASSERT_FALSE(facts.choice.ports.at(0).used());
    const auto left_out = result_of(facts, "port.count", name);
    EXPECT_EQ(left_out.status, Skip);
    EXPECT_NE(left_out.message.find("is the management port"), std::string::npos) << left_out.message;
    EXPECT_EQ(result_of(facts, "port.count", facts.choice.ports.at(1).name()).id, "") << "it is used";
}

} // namespace
} // namespace rdma_nccl::test
