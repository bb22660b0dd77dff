// SPDX-License-Identifier: Apache-2.0
// AMD's GPUs, as KFD numbers them.
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/fabric/readers.h"
#include "tests/unit/fabric_machine.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace rdma_nccl {
namespace {

using test::below_root_port;
using test::Machine;
using Texts = std::vector<std::string>;

std::string node_file(unsigned node, const std::string& name) {
    return format_text("{}/{}/{}", kfd_nodes, node, name);
}

/// A GPU's node, with the fields that are read, and others that a kernel has before and after them.
void add_node(Machine& machine, unsigned node, unsigned location, unsigned render_minor, unsigned unique = 0,
              unsigned simds = 440) {
    machine.tree().file(node_file(node, "gpu_id"), "51100\n");
    machine.tree().file(node_file(node, "properties"),
                        format_text("cpu_cores_count 0\nsimd_count {}\nvendor_id 4098\nlocation_id {}\ndomain 0\n"
                                    "drm_render_minor {}\nhive_id 0\nunique_id {}\nnum_xcc 8\n",
                                    simds, location, render_minor, unique));
}

/// Three MI cards at bus 0x13, 0x23 and 0x33; node 0 is the CPUs.
void add_cards(Machine& machine) {
    for (const std::string bus : {"1", "2", "3"}) {
        machine.gpu(below_root_port(bus + "0", bus + "3"), "0x1002", "0x038000");
    }
    machine.tree().file(node_file(0, "gpu_id"), "0\n");
    machine.tree().file(node_file(0, "properties"), "cpu_cores_count 64\nsimd_count 0\nlocation_id 0\n");
}

Texts addresses(const Fabric& fabric) {
    return mapped(fabric.gpus, &Gpu::pci);
}

TEST(AmdGpus, AreInTheOrderOfKfdsNodes) {
    Machine machine;
    add_cards(machine);
    add_node(machine, 9, 0x2300, 129, 0xbeef);
    add_node(machine, 10, 0x1300, 128); // by number, not by name
    add_node(machine, 2, 0x3300, 130);
    const Fabric fabric = machine.read();
    EXPECT_EQ(addresses(fabric), (Texts{"0000:33:00.0", "0000:23:00.0", "0000:13:00.0"}));
    EXPECT_EQ(fabric.gpus[1].pci_path, "/sys/devices/" + below_root_port("20", "23"));
    EXPECT_EQ(fabric.gpus[1].device_file, "/dev/dri/renderD129");
    EXPECT_EQ(fabric.gpus[1].uuid, "GPU-000000000000beef");
    EXPECT_EQ(fabric.gpus[1].kfd_node, 9U);
}

TEST(AmdGpus, AreByAddressWithoutKfd) {
    Machine machine;
    add_cards(machine);
    EXPECT_EQ(addresses(machine.read()), (Texts{"0000:13:00.0", "0000:23:00.0", "0000:33:00.0"}));
}

TEST(AmdGpus, ThatKfdDoesNotKnowAreNotCounted) { // a display card, or one that belongs to a virtual machine
    Machine machine;
    add_cards(machine);
    add_node(machine, 1, 0x3300, 129);
    add_node(machine, 2, 0x1300, 128, 0, 0); // no compute units
    const Fabric fabric = machine.read();
    EXPECT_EQ(addresses(fabric), Texts{"0000:33:00.0"});
    EXPECT_EQ(fabric.problems,
              (Texts{"0000:13:00.0 (AMD) is left out: amdkfd does not list it, so HIP cannot use it",
                     "0000:23:00.0 (AMD) is left out: amdkfd does not list it, so HIP cannot use it"}));
}

TEST(AmdGpus, PartitionsAreCountedEach) {
    Machine machine;
    add_cards(machine);
    add_node(machine, 1, 0x2300, 128);
    add_node(machine, 2, 0x10002300, 129); // partition 1 in the highest bits
    add_node(machine, 3, 0x1300, 130);
    add_node(machine, 4, 0x1301, 131); // older kernels: as if it were a function
    const Fabric fabric = machine.read();
    EXPECT_EQ(addresses(fabric), (Texts{"0000:23:00.0", "0000:23:00.0", "0000:13:00.0", "0000:13:00.0"}));
    EXPECT_EQ(fabric.gpus[3].device_file, "/dev/dri/renderD131");
    EXPECT_EQ(fabric.gpus[3].pci_path, "/sys/devices/" + below_root_port("10", "13"));
    EXPECT_EQ(fabric.count_gpus(), 4U);
}

TEST(AmdGpus, ThatTheDeviceCgroupHidesAreThereButNotCounted) {
    Machine machine;
    add_cards(machine);
    machine.tree().directory(node_file(1, "gpu_id")); // refuses to be read, as a kernel does with EPERM
    add_node(machine, 2, 0x3300, 130);
    machine.tree().directory(node_file(3, "gpu_id"));
    const Fabric fabric = machine.read();
    EXPECT_EQ(addresses(fabric), (Texts{"0000:33:00.0", "0000:13:00.0", "0000:23:00.0"}));
    EXPECT_EQ(fabric.count_gpus(), 1U);
    EXPECT_FALSE(fabric.gpus[0].hidden);
    EXPECT_TRUE(fabric.problems.empty()); // a job's cgroup hides the GPUs of others as a rule
}

TEST(AmdGpus, AreTheOnesThatCountWhereTheyAreMore) {
    Machine machine;
    add_cards(machine);
    machine.gpu(below_root_port("50", "53")); // NVIDIA's, for a display
    const auto fabric = machine.read();
    EXPECT_EQ(fabric.gpus.size(), 3U);
    EXPECT_EQ(fabric.problems, Texts{"0000:53:00.0 (NVIDIA) is left out: ranks use AMD's"});
}

TEST(AmdGpus, KfdsNumbersAreFoundByTheirWholeName) {
    EXPECT_EQ(kfd_number("location_id 5\ndomain 7\n", "domain"), 7U);
    EXPECT_EQ(kfd_number("location_id 5", "location"), 0U);
    EXPECT_EQ(kfd_number("domain x\n", "domain"), 0U);
    EXPECT_EQ(kfd_number("", "domain"), 0U);
}

} // namespace
} // namespace rdma_nccl
