// SPDX-License-Identifier: Apache-2.0
// read_fabric on emulated machines: the facts, and that nothing in the tree can break it.
#include "lib/fabric/fabric.h"

#include "lib/base/format.h"
#include "tests/unit/fabric_machine.h"

#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <sched.h>
#include <string>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace rdma_nccl {
namespace {

using test::below_root_port;
using test::Machine;

bool any_contains(const std::vector<std::string>& texts, const std::string& part) {
    return std::any_of(texts.begin(), texts.end(),
                       [&](const std::string& text) { return text.find(part) != std::string::npos; });
}

TEST(ReadFabric, FactsOfAnOrdinaryCard) {
    Machine machine;
    machine.connectx("mlx5_0", "eth0", "10.1.0.5", below_root_port("50", "53"));
    const Fabric fabric = machine.read();
    ASSERT_EQ(fabric.hcas.size(), 1U);
    const Hca& hca = fabric.hcas[0];
    EXPECT_EQ(hca.name, "mlx5_0");
    EXPECT_EQ(hca.node_type, "CA");
    EXPECT_EQ(hca.driver, "mlx5_core");
    EXPECT_EQ(hca.pci, "0000:53:00.0");
    EXPECT_EQ(hca.pci_path, "/sys/devices/" + below_root_port("50", "53"));
    EXPECT_EQ(hca.numa_node, 0);
    EXPECT_EQ(hca.physical_function, "");
    EXPECT_EQ(hca.system_image_guid, "0c42:a103:002b:3c4d");
    EXPECT_EQ(hca.netdevs, std::vector<std::string>{"eth0"});
    EXPECT_TRUE(hca.problems.empty());
    ASSERT_EQ(hca.ports.size(), 1U);
    const Port& port = hca.ports[0];
    EXPECT_EQ(port.number, 1U);
    EXPECT_EQ(port.state, "ACTIVE");
    EXPECT_EQ(port.physical_state, "LinkUp");
    EXPECT_EQ(port.link_layer, LinkLayer::Ethernet);
    EXPECT_EQ(port.rate_gbps, 200);
    EXPECT_EQ(port.gid_table_length, 8U);
    EXPECT_TRUE(port.problems.empty());
    ASSERT_EQ(port.gids.size(), 4U);
    EXPECT_EQ(port.gids[3].index, 3U);
    EXPECT_EQ(port.gids[3].value, IpAddress::parse("10.1.0.5"));
    EXPECT_EQ(port.gids[3].type, GidType::RoceV2);
    EXPECT_EQ(port.gids[3].netdev, "eth0");
    EXPECT_EQ(port.gids[2].type, GidType::RoceV1);
    EXPECT_TRUE(fabric.problems.empty()) << fabric.problems.front();
}

/// How many of the port's 8 slots were read: 0 to 3 have eth0's GIDs, slot 6 one of another network namespace.
std::size_t slots_read(Machine& machine, GidTables tables) {
    const Fabric fabric = read_fabric(machine.tree().root(), {}, tables);
    const auto& port = fabric.hcas.at(0).ports.at(0);
    EXPECT_EQ(port.gids.size(), port.gid_table_length == 8 ? 5U : 4U);
    return port.gid_table_length;
}

TEST(ReadFabric, ReadsATableUntilAllExpectedEntriesWereSeen) {
    Machine machine;
    machine.connectx("mlx5_0", "eth0", "10.1.0.5", below_root_port("50", "53"));
    machine.gid("mlx5_0", 6, "10.9.9.9", "RoCE v2", "");
    machine.tree().file("/ip-addresses", "eth0 10.1.0.5/24\neth0 fe80::e42:a1ff:fe2b:3c4d/64\n");
    EXPECT_EQ(slots_read(machine, GidTables::Expected), 4U);
    EXPECT_EQ(slots_read(machine, GidTables::Whole), 8U);
    machine.tree().file("/ip-addresses", "eth0 10.1.0.5/24\neth0 10.1.0.6/24\n"); // whose GIDs are not there yet
    EXPECT_EQ(slots_read(machine, GidTables::Expected), 8U);
    machine.tree().file("/ip-addresses", "");
    EXPECT_EQ(slots_read(machine, GidTables::Expected), 8U);
}

TEST(ReadFabric, EmptyMachine) {
    const test::Tree tree;
    const Fabric fabric = read_fabric(tree.root());
    EXPECT_TRUE(fabric.hcas.empty());
    EXPECT_TRUE(fabric.gpus.empty());
    EXPECT_TRUE(fabric.default_route_netdevs.empty());
}

TEST(ReadFabric, DevicesPortsAndSlotsComeInNumericOrder) {
    Machine machine;
    for (const std::string name : {"mlx5_10", "mlx5_2", "mlx5_0"}) {
        machine.hca({.name = name, .pci_path = ""});
    }
    for (const unsigned number : {2U, 10U, 1U}) {
        machine.port({.hca = "mlx5_2", .number = number, .slots = 0});
    }
    for (const unsigned index : {10U, 9U, 100U}) {
        machine.gid("mlx5_2", index, "10.0.0.1", "RoCE v2", "eth0");
    }
    const Fabric fabric = machine.read();
    ASSERT_EQ(fabric.hcas.size(), 3U);
    EXPECT_EQ(fabric.hcas[1].name, "mlx5_2");
    EXPECT_EQ(fabric.hcas[2].name, "mlx5_10");
    ASSERT_EQ(fabric.hcas[1].ports.size(), 3U);
    EXPECT_EQ(fabric.hcas[1].ports[1].number, 2U);
    EXPECT_EQ(fabric.hcas[1].ports[2].number, 10U);
    const auto& gids = fabric.hcas[1].ports[0].gids;
    ASSERT_EQ(gids.size(), 3U);
    EXPECT_EQ(gids[0].index, 9U);
    EXPECT_EQ(gids[2].index, 100U);
    EXPECT_EQ(fabric.hcas[1].ports[0].gid_table_length, 101U);
}

TEST(ReadFabric, TypesThatCannotBeReadAreNotesOfTheirEntry) {
    Machine machine;
    machine.connectx("mlx5_0", "eth0", "10.1.0.5", below_root_port("50", "53"));
    const std::string types = "/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/";
    machine.tree().remove(types + "1").directory(types + "1"); // EISDIR stands for the kernel's EINVAL
    machine.tree().file(types + "2", "RoCE v7\n").remove(types + "0");
    const Fabric fabric = machine.read();
    const auto& gids = fabric.hcas.at(0).ports.at(0).gids;
    ASSERT_EQ(gids.size(), 4U);
    EXPECT_FALSE(gids[0].type);
    EXPECT_EQ(gids[0].type_problem, TypeProblem::Missing);
    EXPECT_FALSE(gids[1].type);
    EXPECT_EQ(gids[1].type_problem, TypeProblem::Unreadable);
    EXPECT_NE(gids[1].type_text.find("Is a directory"), std::string::npos);
    EXPECT_EQ(gids[2].type_problem, TypeProblem::Strange);
    EXPECT_EQ(gids[2].type_text, "RoCE v7");
    EXPECT_EQ(gids[3].type, GidType::RoceV2);
}

/// Reads the tree's /sys in place of this machine's, as that of a live one. Returns the length of its only GID table,
/// or 0 if this process may not hide /sys.
int live_table_length(const std::filesystem::path& sys) {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount(sys.c_str(), "/sys", nullptr, MS_BIND, nullptr) != 0) {
        return 0;
    }
    const Fabric fabric = read_fabric(SysRoot::open("/").value());
    return static_cast<int>(fabric.hcas.at(0).ports.at(0).gid_table_length);
}

TEST(ReadFabric, OnlyACopiedTableIsReadBeyondAGap) {
    Machine machine;
    machine.connectx("mlx5_0", "eth0", "10.1.0.5", below_root_port("50", "53"));
    machine.tree().remove("/sys/class/infiniband/mlx5_0/ports/1/gids/6");
    EXPECT_EQ(machine.read().hcas.at(0).ports.at(0).gid_table_length, 8U);
    const pid_t child = ::fork(); // the only one with another /sys
    ASSERT_GE(child, 0);
    if (child == 0) {
        ::_exit(live_table_length(machine.tree().at("/sys")));
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 0) {
        GTEST_SKIP() << "a mount namespace needs root";
    }
    EXPECT_EQ(WEXITSTATUS(status), 6);
}

TEST(ReadFabric, ASlotThatCannotBeReadIsANoteAndTheOthersAreRead) {
    Machine machine;
    machine.connectx("mlx5_0", "eth0", "10.1.0.5", below_root_port("50", "53"));
    const std::string slots = "/sys/class/infiniband/mlx5_0/ports/1/gids/";
    machine.tree().remove(slots + "1").directory(slots + "1"); // EISDIR, as EACCES where AppArmor forbids it
    for (const auto tables : {GidTables::Whole, GidTables::Expected}) {
        const Fabric fabric = read_fabric(machine.tree().root(), {}, tables);
        const Port& port = fabric.hcas.at(0).ports.at(0);
        ASSERT_EQ(port.gids.size(), 3U);
        EXPECT_EQ(port.gids[1].index, 2U);
        EXPECT_EQ(port.gids[2].index, 3U);
        EXPECT_EQ(port.gid_table_length, 8U);
        ASSERT_EQ(port.problems.size(), 1U);
        EXPECT_NE(port.problems[0].find("gids/1"), std::string::npos) << port.problems[0];
    }
}

TEST(ReadFabric, AVirtualFunctionNamesItsPhysicalFunction) {
    Machine machine;
    machine.hca({.name = "mlx5_4",
                 .pci_path = "pci0000:50/0000:50:01.0/0000:53:00.2",
                 .numa_node = "-1",
                 .physical_function = "pci0000:50/0000:50:01.0/0000:53:00.0"});
    const Fabric fabric = machine.read();
    EXPECT_EQ(fabric.hcas.at(0).physical_function, "0000:53:00.0");
    EXPECT_FALSE(fabric.hcas.at(0).numa_node);
}

TEST(ReadFabric, ASoftwareDeviceHasNoParent) {
    Machine machine;
    machine.netdev({.name = "eth0", .pci_path = below_root_port("00", "01")});
    machine.hca({.name = "rxe0", .pci_path = ""}).port({.hca = "rxe0", .rate = "100 Gb/sec (4X EDR)", .slots = 1024});
    machine.gid("rxe0", 1, "10.0.0.1", "RoCE v2", "eth0");
    const Fabric fabric = machine.read();
    const Hca& hca = fabric.hcas.at(0);
    EXPECT_EQ(hca.driver, "");
    EXPECT_EQ(hca.pci, "");
    EXPECT_EQ(hca.netdevs, std::vector<std::string>{"eth0"});
    EXPECT_EQ(hca.ports.at(0).gid_table_length, 1024U);
    EXPECT_EQ(hca.ports.at(0).netdev_gbps, 200);
}

TEST(ReadFabric, TheInterfaceTellsARateThatAnOldKernelCannotName) {
    Machine machine;
    const auto path = below_root_port("50", "53");
    machine.connectx("mlx5_0", "eth0", "10.1.0.5", path, "10 Gb/sec (4X)");
    machine.netdev({.name = "eth0", .pci_path = path, .speed = "400000"});
    const Port port = machine.read().hcas.at(0).ports.at(0);
    EXPECT_EQ(port.rate_gbps, 10);
    EXPECT_EQ(port.netdev_gbps, 400);
    EXPECT_EQ(port.believable_rate_gbps(), 400);
}

TEST(ReadFabric, InterfacesWithTheirLinks) {
    Machine machine;
    machine.netdev({.name = "eth0", .pci_path = below_root_port("00", "01") + "/virtio3", .upper = "bond0"});
    machine.netdev({.name = "bond0", .lowers = {"eth0"}});
    machine.netdev({.name = "eth1", .flags = "0x1002", .carrier = "1"});
    machine.netdev({.name = "eth2", .carrier = "0"});
    machine.netdev({.name = "eth3", .speed = "-1"});
    machine.tree().remove("/sys/class/net/eth3/carrier"); // EINVAL on a live machine: then operstate decides
    const Fabric fabric = machine.read();
    const Netdev* const eth0 = fabric.find_netdev("eth0");
    ASSERT_NE(eth0, nullptr);
    EXPECT_TRUE(eth0->up);
    EXPECT_EQ(eth0->mtu, 9000U);
    EXPECT_EQ(eth0->upper, "bond0");
    EXPECT_EQ(eth0->pci_path, "/sys/devices/" + below_root_port("00", "01"));
    EXPECT_EQ(fabric.find_netdev("bond0")->lowers, std::vector<std::string>{"eth0"});
    EXPECT_FALSE(fabric.find_netdev("eth1")->up);
    EXPECT_FALSE(fabric.find_netdev("eth2")->up);
    EXPECT_TRUE(fabric.find_netdev("eth3")->up);
    EXPECT_EQ(fabric.find_netdev("eth3")->speed_gbps, 0);
    EXPECT_TRUE(fabric.find_netdev("lo")->loopback);
    EXPECT_EQ(fabric.find_netdev("bonding_masters"), nullptr); // a plain file of the bonding driver
}

TEST(ReadFabric, GarbageBecomesNotesAndHarmsNothingElse) {
    Machine machine;
    machine.connectx("mlx5_0", "eth0", "10.1.0.5", below_root_port("50", "53"));
    const std::string port = "/sys/class/infiniband/mlx5_0/ports/1";
    auto& tree = machine.tree();
    tree.file(port + "/gids/README", "hello")
        .file(port + "/gids/007", "hello")
        .file(port + "/gids/5", "\x00\xff\x1b[2J");
    tree.remove(port + "/gids/6").directory(port + "/gids/6").file(port + "/gids/99999", "0");
    tree.file(port + "/gid_attrs/ndevs/3", "../../../../etc/passwd\n");
    tree.remove(port + "/rate").directory(port + "/rate").file(port + "/state", "\xff\xfe");
    tree.file("/sys/class/infiniband/mlx5_0/ports/x/state", "4: ACTIVE")
        .file("/sys/class/infiniband/mlx5_0/ports/0", "");
    tree.file("/sys/class/infiniband/a file", "")
        .directory("/sys/class/infiniband/a,b")
        .file("/sys/class/infiniband/c", "");
    tree.link("/sys/class/infiniband/dangling", "nowhere");
    const Fabric fabric = machine.read();
    ASSERT_EQ(fabric.hcas.size(), 1U);
    const Hca& hca = fabric.hcas[0];
    EXPECT_TRUE(any_contains(hca.problems, "ports/x"));
    EXPECT_TRUE(any_contains(hca.problems, "ports/0"));
    ASSERT_EQ(hca.ports.size(), 1U);
    const auto& problems = hca.ports[0].problems;
    EXPECT_TRUE(any_contains(problems, "gids/README: no slot"));
    EXPECT_TRUE(any_contains(problems, "gids/007: no slot"));
    EXPECT_TRUE(any_contains(problems, "gids/5: ")) << problems.size();
    EXPECT_TRUE(any_contains(problems, "gids/6: Is a directory"));
    EXPECT_TRUE(any_contains(problems, "gids/99999: beyond what is looked at"));
    EXPECT_TRUE(any_contains(problems, "gid_attrs/ndevs/3"));
    EXPECT_TRUE(any_contains(problems, "rate: Is a directory"));
    for (const auto& problem : problems) {
        EXPECT_EQ(problem.find('\x1b'), std::string::npos);
    }
    EXPECT_EQ(hca.ports[0].rate_gbps, 0);
    ASSERT_EQ(hca.ports[0].gids.size(), 4U);
    EXPECT_EQ(hca.ports[0].gids[3].netdev, "");
    EXPECT_TRUE(any_contains(fabric.problems, "a file: no device name"));
    EXPECT_TRUE(any_contains(fabric.problems, "a,b: no device name"));
    EXPECT_TRUE(any_contains(fabric.problems, "infiniband/c"));
    EXPECT_TRUE(any_contains(fabric.problems, "dangling"));
}

TEST(ReadFabric, ADeviceWithoutAnyFile) {
    Machine machine;
    machine.tree().directory("/sys/class/infiniband/mlx5_0/ports/1");
    machine.tree().directory("/sys/class/infiniband/mlx5_1");
    const Fabric fabric = machine.read();
    ASSERT_EQ(fabric.hcas.size(), 2U);
    EXPECT_TRUE(any_contains(fabric.hcas[0].problems, "node_type"));
    ASSERT_EQ(fabric.hcas[0].ports.size(), 1U);
    EXPECT_EQ(fabric.hcas[0].ports[0].state, "");
    EXPECT_TRUE(any_contains(fabric.hcas[0].ports[0].problems, "gids"));
    EXPECT_TRUE(fabric.hcas[1].ports.empty());
}

TEST(ReadFabric, TheClassDirectoryIsAFile) {
    test::Tree tree;
    tree.file("/sys/class/infiniband", "what").file("/sys/class/net", "what").file("/proc/net", "what");
    const Fabric fabric = read_fabric(tree.root());
    EXPECT_TRUE(fabric.hcas.empty());
    EXPECT_TRUE(any_contains(fabric.problems, "/sys/class/infiniband"));
    EXPECT_TRUE(any_contains(fabric.problems, "/sys/class/net"));
}

TEST(ReadFabric, AHundredThousandGidsAreBounded) {
    Machine machine;
    machine.hca({.name = "mlx5_0", .pci_path = below_root_port("50", "53")}).port({.hca = "mlx5_0", .slots = 0});
    const auto directory = machine.tree().at("/sys/class/infiniband/mlx5_0/ports/1/gids");
    machine.tree().file("/sys/class/infiniband/mlx5_0/ports/1/gids/0", "0000:0000:0000:0000:0000:ffff:0a00:0001\n");
    for (unsigned i = 1; i < 100000; ++i) { // hard links: as many names, without as many files
        std::filesystem::create_hard_link(directory / (i < 60000 ? "0" : "60000"), directory / std::to_string(i));
        if (i == 59999) {
            machine.tree().file("/sys/class/infiniband/mlx5_0/ports/1/gids/60000", "garbage");
            ++i;
        }
    }
    const Port port = machine.read().hcas.at(0).ports.at(0);
    EXPECT_EQ(port.gid_table_length, 65536U);
    EXPECT_EQ(port.gids.size(), 60000U);
    EXPECT_LT(port.problems.size(), 20U);
    EXPECT_TRUE(any_contains(port.problems, "more of this kind"));
}

/// A file of which each reading gives the next text.
class ChangingFile {
public:
    ChangingFile(const std::filesystem::path& path, const std::vector<std::string>& texts) {
        std::filesystem::remove(path);
        EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
        fd_.reset(::open(path.c_str(), O_RDWR | O_CLOEXEC));
        EXPECT_EQ(::fcntl(fd_.get(), F_SETFL, O_DIRECT), 0); // packets, pipe(2)
        for (const auto& text : texts) {
            EXPECT_TRUE(write_all(fd_.get(), text));
        }
    }

private:
    UniqueFd fd_;
};

TEST(ReadFabric, AGidThatChangesMeanwhileIsReadAgain) {
    Machine machine;
    machine.connectx("mlx5_0", "eth0", "10.1.0.5", below_root_port("50", "53"));
    const std::string port = "/sys/class/infiniband/mlx5_0/ports/1/";
    const auto text_of = [](const char* last) { return std::string("0000:0000:0000:0000:0000:ffff:0a01:") + last; };
    const ChangingFile gid(machine.tree().at(port + "gids/3"),
                           {text_of("0005"), text_of("0006"), text_of("0006"), text_of("0006")});
    std::filesystem::remove(machine.tree().at(port + "gid_attrs/types/3"));
    machine.tree().directory(port + "gid_attrs/types/3"); // cannot be read, as while the entry is being replaced
    const Port read = machine.read().hcas.at(0).ports.at(0);
    ASSERT_EQ(read.gids.size(), 4U);
    EXPECT_EQ(read.gids[3].value, IpAddress::parse("10.1.0.6"));
    EXPECT_EQ(read.gids[3].type_problem, TypeProblem::Unreadable);
}

TEST(ReadFabric, WhatCannotBeReadIsNotAbsent) {
    Machine machine;
    machine.connectx("mlx5_0", "eth0", "10.1.0.5", below_root_port("50", "53"));
    auto& tree = machine.tree();
    std::filesystem::remove_all(tree.at("/sys/class/net/eth0"));
    tree.link("/sys/class/net/eth0", "eth0"); // ELOOP, as any error that does not say that it is not there
    tree.directory("/dev").link("/sys/class/infiniband_verbs", "infiniband_verbs");
    const Fabric fabric = machine.read();
    const Netdev* const netdev = fabric.find_netdev("eth0");
    ASSERT_NE(netdev, nullptr);
    EXPECT_TRUE(netdev->up);
    EXPECT_EQ(fabric.hcas.at(0).device_access, DeviceAccess::Unknown);
    EXPECT_TRUE(any_contains(fabric.problems, "/sys/class/infiniband_verbs: Too many levels of symbolic links"));

    tree.link("/sys/class/infiniband/mlx5_1", "mlx5_1");
    EXPECT_NE(machine.read().find_hca("mlx5_1"), nullptr);

    std::filesystem::remove_all(tree.at("/sys/class/infiniband"));
    EXPECT_EQ(machine.read().hca_problem(), nullptr) << "none is there";
    tree.link("/sys/class/infiniband", "infiniband");
    const Fabric none = machine.read();
    ASSERT_NE(none.hca_problem(), nullptr);
    EXPECT_EQ(*none.hca_problem(), "/sys/class/infiniband: Too many levels of symbolic links");
}

TEST(ReadFabric, AnInterfaceOfUnknownStateIsNotDown) {
    Machine machine;
    machine.connectx("mlx5_0", "eth0", "10.1.0.5", below_root_port("50", "53"));
    for (const char* const file : {"carrier", "operstate"}) {
        std::filesystem::remove(machine.tree().at(std::string("/sys/class/net/eth0/") + file));
    }
    EXPECT_TRUE(machine.read().find_netdev("eth0")->up);
}

TEST(ReadFabric, HugeFilesAreCut) {
    Machine machine;
    machine.connectx("mlx5_0", "eth0", "10.1.0.5", below_root_port("50", "53"));
    const std::string huge(1 << 20, '1');
    machine.tree().file("/sys/class/infiniband/mlx5_0/ports/1/state", huge);
    machine.tree().file("/sys/class/infiniband/mlx5_0/node_type", huge);
    machine.tree().file("/sys/class/infiniband/mlx5_0/ports/1/gids/5", huge);
    const Fabric fabric = machine.read();
    EXPECT_LT(fabric.hcas.at(0).node_type.size(), 100U);
    EXPECT_LT(fabric.hcas.at(0).ports.at(0).state.size(), 100U);
    EXPECT_TRUE(any_contains(fabric.hcas.at(0).ports.at(0).problems, "gids/5"));
}

TEST(ReadFabric, Gpus) {
    Machine machine;
    machine.gpu(below_root_port("80", "92")).gpu(below_root_port("50", "53"));
    machine.gpu(below_root_port("60", "63"), "0x1002", "0x030000"); // the graphics of an AMD processor: not CUDA's
    machine.gpu(below_root_port("10", "13"), "0x1a03", "0x030000"); // the display of a BMC
    machine.gpu(below_root_port("20", "23"), "0x10de", "0x068000"); // NVSwitch
    machine.tree().file("/sys/bus/pci/devices/garbage", "");
    machine.tree().file("/proc/driver/nvidia/gpus/0000:53:00.0/information",
                        "Model: \t\t NVIDIA A100-SXM4-80GB\nGPU UUID: \t GPU-0a1b\nDevice Minor: \t 3\n");
    const Fabric fabric = machine.read();
    ASSERT_EQ(fabric.gpus.size(), 2U);
    EXPECT_EQ(fabric.gpus[0].pci, "0000:53:00.0");
    EXPECT_EQ(fabric.gpus[0].pci_path, "/sys/devices/" + below_root_port("50", "53"));
    EXPECT_EQ(fabric.gpus[0].vendor, "nvidia");
    EXPECT_EQ(fabric.gpus[0].minor, 3U);
    EXPECT_EQ(fabric.gpus[0].uuid, "GPU-0a1b");
    EXPECT_EQ(fabric.gpus[0].numa_node, 0);
    EXPECT_EQ(fabric.gpus[1].pci, "0000:92:00.0");
    EXPECT_FALSE(fabric.gpus[1].minor);
    EXPECT_TRUE(fabric.gpus[1].hidden); // the driver does not know it, so CUDA does not count it
    EXPECT_EQ(fabric.count_gpus(), 1U);
}

TEST(ReadFabric, TheMachineWeRunOn) {
    const auto root = SysRoot::open("/");
    ASSERT_TRUE(root);
    const Fabric fabric = read_fabric(*root);
    const Netdev* const loopback = fabric.find_netdev("lo");
    if (loopback != nullptr && loopback->up) {
        EXPECT_TRUE(loopback->loopback);
        EXPECT_FALSE(loopback->addresses.empty());
    }
}

} // namespace
} // namespace rdma_nccl
