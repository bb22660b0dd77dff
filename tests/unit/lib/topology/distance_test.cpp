// SPDX-License-Identifier: Apache-2.0
#include "lib/topology/topology.h"

#include "tests/unit/tree.h"

#include <gtest/gtest.h>
#include <string>

namespace rdma_nccl {
namespace {

CpuSet cpus(std::string_view list) {
    return CpuSet::parse_list(list).value();
}

/// Two packages of two NUMA nodes of two cores: CPUs 0-1, 2-3 and 4-5, 6-7.
Topology four_nodes() {
    Topology topology;
    topology.packages = 2;
    for (unsigned core = 0; core < 8; ++core) {
        topology.cores.push_back({CpuSet::range(core, core), core / 4, core / 2, core / 4});
    }
    for (unsigned node = 0; node < 4; ++node) {
        topology.numa_nodes.push_back({node, CpuSet::range(node * 2, node * 2 + 1), 1024, node / 2, false});
    }
    return topology;
}

Distance between_paths(const std::string& a, const std::string& b) {
    return Distances(four_nodes()).between({a, {}}, {b, {}});
}

Distance between_cpus(std::string_view a, std::string_view b) {
    return Distances(four_nodes()).between({"", cpus(a)}, {"", cpus(b)});
}

Distance to_cpus(std::string_view device, std::string_view mask) {
    return Distances(four_nodes()).to_cpus({"", cpus(device)}, cpus(mask));
}

TEST(Distance, FunctionsOfOneCardAreTheSameDevice) {
    EXPECT_EQ(between_paths("/sys/devices/pci0000:50/0000:50:01.0/0000:53:00.0",
                            "/sys/devices/pci0000:50/0000:50:01.0/0000:53:00.1"),
              Distance::SameDevice);
    EXPECT_EQ(between_paths("/sys/devices/pci0000:50/0000:50:01.0/0000:51:00.0/0000:52:04.0/0000:53:00.0",
                            "/sys/devices/pci0000:50/0000:50:01.0/0000:51:00.0/0000:52:04.0/0000:53:00.1"),
              Distance::SameDevice);
}

const std::string root_port = "/sys/devices/pci0000:50/0000:50:01.0"; // NOLINT(cert-err58-cpp)
const std::string upstream = root_port + "/0000:51:00.0";             // NOLINT(cert-err58-cpp)

TEST(Distance, DownstreamPortsOfOneSwitchAreOneSwitchApart) {
    EXPECT_EQ(between_paths(upstream + "/0000:52:00.0/0000:53:00.0", upstream + "/0000:52:04.0/0000:54:00.0"),
              Distance::OneSwitch);
}

TEST(Distance, CascadedSwitchesAreSeveral) {
    const std::string inner = upstream + "/0000:52:00.0/0000:60:00.0";
    EXPECT_EQ(between_paths(inner + "/0000:61:00.0/0000:62:00.0", upstream + "/0000:52:04.0/0000:54:00.0"),
              Distance::SeveralSwitches);
    EXPECT_EQ(between_paths(inner + "/0000:61:00.0/0000:62:00.0", inner + "/0000:61:01.0/0000:63:00.0"),
              Distance::OneSwitch);
    const std::string left = inner + "/0000:61:00.0/0000:62:00.0";
    const std::string right = upstream + "/0000:52:04.0/0000:70:00.0/0000:71:00.0/0000:72:00.0";
    EXPECT_EQ(switches_between(pci_ancestors(left), pci_ancestors(right)), 3U);
}

TEST(Distance, RootPortsOfOneBridgeMeetAtTheHostBridge) {
    EXPECT_EQ(between_paths("/sys/devices/pci0000:50/0000:50:01.0/0000:53:00.0",
                            "/sys/devices/pci0000:50/0000:50:02.0/0000:54:00.0"),
              Distance::HostBridge);
    EXPECT_EQ(between_paths("/sys/devices/pci0000:50/0000:50:01.0", "/sys/devices/pci0000:50/0000:50:02.0"),
              Distance::HostBridge);
}

TEST(Distance, WhatStandsAboveTheHostBridgeSaysNothing) {
    const std::string vm = "/sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/";
    EXPECT_EQ(between_paths(vm + "pci0001:00/0001:00:00.0", vm + "pci0002:00/0002:00:00.0"), Distance::Unknown);
    EXPECT_EQ(between_paths(vm + "pci0001:00/0001:00:00.0", vm + "pci0001:00/0001:00:01.0"), Distance::HostBridge);
    EXPECT_EQ(between_paths(vm + "VMBUS:01/47505500-0001/pci0001:00/0001:00:00.0",
                            vm + "VMBUS:01/47505500-0001/pci0002:00/0002:00:00.0"),
              Distance::Unknown);
}

TEST(Distance, DomainsOfMoreThanFourDigitsAreBridgesToo) {
    const std::string vmd = "/sys/devices/pci0000:e2/0000:e2:00.5/pci10000:e2/10000:e2:02.0";
    EXPECT_EQ(between_paths(vmd + "/10000:e3:00.0", vmd + "/10000:e3:00.1"), Distance::SameDevice);
    EXPECT_EQ(between_paths("/sys/devices/pci10001:00/10001:00:00.0", "/sys/devices/pci10002:00/10002:00:00.0"),
              Distance::Unknown);
    EXPECT_EQ(between_paths("/sys/devices/pci10001:00/10001:00:00.0", "/sys/devices/pci10001:00/10001:00:01.0"),
              Distance::HostBridge);
}

TEST(Distance, UnknownPlacesAreAtNoDistance) {
    EXPECT_EQ(between_paths("", ""), Distance::Unknown);
    EXPECT_EQ(between_paths("", "/sys/devices/pci0000:50/0000:50:01.0/0000:53:00.0"), Distance::Unknown);
    EXPECT_EQ(between_cpus("", "0-1"), Distance::Unknown);
    EXPECT_EQ(to_cpus("", "0"), Distance::Unknown);
    EXPECT_EQ(to_cpus("0", ""), Distance::Unknown);
}

TEST(Distance, BridgesAreAsFarAsTheirCpus) {
    EXPECT_EQ(between_cpus("0-1", "0-1"), Distance::SameNuma);
    EXPECT_EQ(between_cpus("0-1", "0"), Distance::SameNuma); // a part of it, whoever is asked first
    EXPECT_EQ(between_cpus("0", "0-1"), Distance::SameNuma);
    EXPECT_EQ(between_cpus("0-1", "2-3"), Distance::SamePackage);
    EXPECT_EQ(between_cpus("0-1", "4-5"), Distance::Other);
    EXPECT_EQ(Distances(four_nodes())
                  .between({"/sys/devices/pci0000:10/0000:10:00.0", cpus("0-1")},
                           {"/sys/devices/pci0000:20/0000:20:00.0", cpus("4-5")}),
              Distance::Other);
}

TEST(Distance, CpusAreAsFarAsTheFarthestOfThem) {
    EXPECT_EQ(to_cpus("0-1", "0-1"), Distance::SameNuma);
    EXPECT_EQ(to_cpus("0-1", "1"), Distance::SameNuma);
    EXPECT_EQ(to_cpus("0-1", "1-2"), Distance::SamePackage);
    EXPECT_EQ(to_cpus("0-1", "3"), Distance::SamePackage);
    EXPECT_EQ(to_cpus("0-1", "0,7"), Distance::Other);
}

TEST(Distance, WordsAreThoseOfNvidiaSmi) {
    EXPECT_EQ(distance_word(Distance::OneSwitch), "PIX");
    EXPECT_EQ(distance_word(Distance::SeveralSwitches), "PXB");
    EXPECT_EQ(distance_word(Distance::HostBridge), "PHB");
    EXPECT_EQ(distance_word(Distance::SameNuma), "NODE");
    EXPECT_EQ(distance_word(Distance::Other), "SYS");
    EXPECT_EQ(distance_word(Distance::Unknown), "?");
    EXPECT_EQ(distance_text(Distance::SamePackage), "another NUMA node of the package");
    EXPECT_EQ(distance_name(Distance::SeveralSwitches), "several-switches");
}

Gpu gpu(std::string_view local, std::optional<int> node) {
    Gpu result;
    result.local_cpus = cpus(local);
    result.numa_node = node;
    return result;
}

TEST(Place, IsTheCpusThatTheKernelCallsLocal) {
    EXPECT_EQ(place_of(gpu("2-3", 1), four_nodes()).cpus.list(), "2-3");
    EXPECT_EQ(place_of(gpu("2-3", {}), four_nodes()).cpus.list(), "2-3");
}

TEST(Place, IsTheNumaNodeWhereNoCpusAreTold) {
    EXPECT_EQ(place_of(gpu("", 2), four_nodes()).cpus.list(), "4-5");
    EXPECT_EQ(place_of(gpu("", 9), four_nodes()).cpus.list(), "");
    Hca hca;
    hca.numa_node = 3;
    EXPECT_EQ(place_of(hca, four_nodes()).cpus.list(), "6-7");
}

TEST(Place, IsUnknownWhereAllNodesAreSaidToBeNear) {
    EXPECT_TRUE(place_of(gpu("0-7", {}), four_nodes()).cpus.empty());
    EXPECT_EQ(place_of(gpu("0-7", 0), four_nodes()).cpus.list(), "0-7");
    Topology one = four_nodes();
    one.numa_nodes = {{0, CpuSet::range(0, 7), 1024, 0, false}};
    EXPECT_EQ(place_of(gpu("0-7", {}), one).cpus.list(), "0-7");
    one.numa_nodes.push_back({8, CpuSet(), 4096, 0, true}); // a device's memory makes no second place
    EXPECT_EQ(place_of(gpu("0-7", {}), one).cpus.list(), "0-7");
}

TEST(Place, IsReadFromTheFunctionsDirectory) {
    test::Tree tree;
    tree.file("/d/numa_node", "1\n").file("/d/local_cpulist", "2-3,10\n");
    tree.file("/e/numa_node", "-1\n").file("/e/local_cpulist", "\n");
    tree.file("/f/numa_node", "x\n").file("/f/local_cpulist", "3-\n").directory("/empty");
    const SysRoot root = tree.root();
    EXPECT_EQ(read_numa_node(*root.directory("/d")), 1);
    EXPECT_EQ(read_local_cpus(*root.directory("/d")).list(), "2-3,10");
    for (const auto* const path : {"/e", "/f", "/empty"}) {
        const auto function = root.directory(path);
        EXPECT_EQ(read_numa_node(*function), std::nullopt) << path;
        EXPECT_TRUE(read_local_cpus(*function).empty()) << path;
    }
}

} // namespace
} // namespace rdma_nccl
