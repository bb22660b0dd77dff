// SPDX-License-Identifier: Apache-2.0
// That all of it equals hwloc's on every emulated machine is shown by tests/golden.
#include "lib/topology/sysfs_topology.h"

#include "lib/base/format.h"
#include "tests/unit/tree.h"

#include <algorithm>
#include <filesystem>
#include <gtest/gtest.h>
#include <memory>

namespace rdma_nccl {
namespace {

const std::string cpu_folder = "/sys/devices/system/cpu";

/// Adds a CPU with the files of its core and package.
void add_cpu(test::Tree& tree, unsigned cpu, const std::string& core, const std::string& package) {
    const auto topology = format_text("{}/cpu{}/topology/", cpu_folder, cpu);
    tree.file(topology + "core_cpus_list", core).file(topology + "package_cpus_list", package);
}

std::string cores_of(const Topology& topology) {
    std::string text;
    for (const auto& core : topology.cores) {
        text += format_text("{}@{}.{} ", core.cpus.list(), core.package, core.numa_node.value_or(99));
    }
    return text;
}

/// Two packages whose CPUs alternate, each with a NUMA node and two cores of two threads.
void add_two_packages(test::Tree& tree) {
    tree.file(cpu_folder + "/online", "0-7");
    for (unsigned cpu = 0; cpu < 8; ++cpu) {
        const unsigned first = cpu % 4;
        add_cpu(tree, cpu, format_text("{},{}", first, first + 4), cpu % 2 == 0 ? "0,2,4,6" : "1,3,5,7");
    }
    tree.file("/sys/devices/system/node/node0/cpulist", "0,2,4,6");
    tree.file("/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:       4096 kB\nNode 0 MemFree: 1 kB\n");
    tree.file("/sys/devices/system/node/node1/cpulist", "1,3,5,7");
    tree.file("/sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:       2048 kB\n");
}

TEST(SysfsTopology, HasCoresPackageByPackage) {
    test::Tree tree;
    add_two_packages(tree);
    const auto read = read_sysfs_topology(tree.root());
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(cores_of(*read), "0,4@0.0 2,6@0.0 1,5@1.1 3,7@1.1 ");
    EXPECT_EQ(read->packages, 2U);
    ASSERT_EQ(read->numa_nodes.size(), 2U);
    EXPECT_EQ(read->numa_nodes[0].memory_mib, 4U);
    EXPECT_EQ(read->numa_nodes[1].package, 1U);
    EXPECT_FALSE(read->numa_nodes[1].special);
}

TEST(SysfsTopology, LeavesOutCpusThatAreOffline) {
    test::Tree tree;
    add_two_packages(tree);
    tree.file(cpu_folder + "/online", "1-6");
    const auto read = read_sysfs_topology(tree.root());
    ASSERT_TRUE(read);
    EXPECT_EQ(cores_of(*read), "1,5@0.1 3@0.1 2,6@1.0 4@1.0 ");
}

TEST(SysfsTopology, HasTheDiesOfANumaNodeTogether) {
    test::Tree tree;
    tree.file(cpu_folder + "/online", "0-3");
    for (unsigned cpu = 0; cpu < 4; ++cpu) {
        add_cpu(tree, cpu, std::to_string(cpu), "0-3");
        tree.file(format_text("{}/cpu{}/topology/die_cpus_list", cpu_folder, cpu), std::to_string(cpu));
    }
    tree.file("/sys/devices/system/node/node0/cpulist", "0,2");
    tree.file("/sys/devices/system/node/node1/cpulist", "1,3");
    EXPECT_EQ(cores_of(read_sysfs_topology(tree.root()).value()), "0@0.0 2@0.0 1@0.1 3@0.1 ");
}

TEST(SysfsTopology, EachCpuIsACoreWhereNothingTells) {
    test::Tree tree;
    tree.file(cpu_folder + "/online", "0-2");
    const auto read = read_sysfs_topology(tree.root());
    ASSERT_TRUE(read);
    EXPECT_EQ(cores_of(*read), "0@0.0 1@0.0 2@0.0 ");
    EXPECT_EQ(read->packages, 1U);
}

TEST(SysfsTopology, DoesNotAskEachCpuForAFileThatTheKernelLacks) {
    test::Tree tree;
    add_two_packages(tree);
    const auto log = std::make_shared<AccessLog>();
    ASSERT_TRUE(read_sysfs_topology(SysRoot::open(tree.root().path(), log).value()));
    EXPECT_EQ(std::ranges::count_if(*log, [](const std::string& path) { return path.ends_with("die_cpus_list"); }), 1);
    EXPECT_EQ(log->count(cpu_folder + "/cpu0/topology/core_siblings_list"), 0U) << "an older name";
}

TEST(SysfsTopology, ACpuThatGoesOfflineMeanwhileTakesNothingFromTheOthers) {
    test::Tree tree;
    add_two_packages(tree);
    std::filesystem::remove_all(tree.at(cpu_folder + "/cpu1/topology"));
    add_cpu(tree, 5, "5", "3,5,7");
    const auto read = read_sysfs_topology(tree.root());
    ASSERT_TRUE(read);
    EXPECT_EQ(cores_of(*read), "0,4@0.0 2,6@0.0 1@0.1 3,7@1.1 5@1.1 ");
    std::filesystem::remove_all(tree.at(cpu_folder + "/cpu0/topology"));
    add_cpu(tree, 4, "4", "2,4,6");
    EXPECT_EQ(cores_of(read_sysfs_topology(tree.root()).value()), "0@0.0 2,6@0.0 4@0.0 1@0.1 3,7@1.1 5@1.1 ");
}

TEST(SysfsTopology, FailsWithoutCpus) {
    test::Tree tree;
    EXPECT_FALSE(read_sysfs_topology(tree.root()));
    tree.file(cpu_folder + "/online", "junk");
    EXPECT_FALSE(read_sysfs_topology(tree.root()));
}

} // namespace
} // namespace rdma_nccl
