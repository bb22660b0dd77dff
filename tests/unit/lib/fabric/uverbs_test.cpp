// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/readers.h"

#include "lib/select/port_selection.h"
#include "tests/unit/fabric_machine.h"
#include "tests/unit/fabric_values.h"

#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

using test::below_root_port;
using test::Machine;
using test::port_of;

struct OneRail : Machine {
    OneRail() { connectx("mlx5_0", "eth0", "10.0.0.1", below_root_port("50", "53")); }
    void verbs(const std::string& name, const std::string& hca) {
        tree().file("/sys/class/infiniband_verbs/" + name + "/ibdev", hca + "\n");
    }
    [[nodiscard]] DeviceAccess access() { return read().hcas.at(0).device_access; }
};

TEST(VerbsDevice, UnknownInATreeWithoutDev) {
    OneRail machine;
    EXPECT_EQ(machine.access(), DeviceAccess::Unknown);
    EXPECT_TRUE(choose_fabric(machine.read(), {}).uses("mlx5_0"));
}

TEST(VerbsDevice, ItsFileIsFoundByTheNameOfTheHca) {
    OneRail machine;
    machine.verbs("uverbs0", "mlx5_7");
    machine.verbs("uverbs3", "mlx5_0");
    machine.tree().file("/sys/class/infiniband_verbs/abi_version", "6\n").file("/dev/infiniband/uverbs3", "");
    EXPECT_EQ(machine.access(), DeviceAccess::Open);
    EXPECT_EQ(machine.read().hcas.at(0).device_file, "/dev/infiniband/uverbs3");
}

TEST(VerbsDevice, AContainerWithoutTheFile) {
    OneRail machine;
    machine.verbs("uverbs3", "mlx5_0");
    machine.tree().directory("/dev");
    EXPECT_EQ(machine.access(), DeviceAccess::Missing);
    const auto choice = choose_fabric(machine.read(), {});
    EXPECT_EQ(port_of(choice, "mlx5_0").rule, PortRule::NoDeviceFile);
    EXPECT_EQ(port_of(choice, "mlx5_0").reason, "has no /dev/infiniband/uverbs3 here, so verbs cannot open it: left "
                                                "out; in a container, mount /dev/infiniband");
}

TEST(VerbsDevice, TheModuleIsNotLoaded) {
    OneRail machine;
    machine.tree().directory("/dev");
    EXPECT_EQ(machine.access(), DeviceAccess::NoVerbsDevice);
    EXPECT_EQ(port_of(choose_fabric(machine.read(), {}), "mlx5_0").reason,
              "has no verbs device: left out; load the module ib_uverbs");
}

TEST(VerbsDevice, PermissionDenied) {
    Fabric fabric;
    Hca& hca = test::add_roce(fabric, "mlx5_0", "eth0", "10.0.0.1");
    hca.device_file = "/dev/infiniband/uverbs0";
    hca.device_access = DeviceAccess::Denied;
    EXPECT_EQ(
        port_of(choose_fabric(fabric, {}), "mlx5_0").reason,
        "cannot be opened (/dev/infiniband/uverbs0: permission denied): left out; give users read and write access");
}

} // namespace
} // namespace rdma_nccl
