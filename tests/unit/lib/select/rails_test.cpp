// SPDX-License-Identifier: Apache-2.0
#include "lib/select/rails.h"

#include "tests/unit/fabric_values.h"

#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

using test::add_infiniband;
using test::add_roce;

/// "by network: mlx5_0:1=0 mlx5_1:1=1 "
std::string rails(const Fabric& fabric) {
    const auto choice = choose_fabric(fabric, {});
    const auto found = rails_of(fabric, choice);
    std::string text = std::string(found.why) + ": ";
    for (const auto& [port, rail] : found.by_port) {
        text += port + "=" + std::to_string(rail) + " ";
    }
    return text;
}

/// Their PCI addresses are in the order of their names.
Fabric four_rails(const std::vector<std::string>& addresses) {
    Fabric fabric;
    for (std::size_t i = 0; i < addresses.size(); ++i) {
        const auto number = std::to_string(i);
        add_roce(fabric, "mlx5_" + number, "eth" + number, addresses[i],
                 "/sys/devices/pci0000:" + number + "0/0000:" + number + "1:00.0");
    }
    return fabric;
}

TEST(Rails, FollowTheNetworks) {
    EXPECT_EQ(rails(four_rails({"10.1.0.7", "10.2.0.7", "10.3.0.7", "10.10.0.7"})),
              "by network: mlx5_0:1=0 mlx5_1:1=1 mlx5_2:1=2 mlx5_3:1=3 ")
        << "by number, not as text";
    EXPECT_EQ(rails(four_rails({"10.1.0.7", "10.3.0.7", "10.2.0.7", "10.4.0.7"})),
              "by network: mlx5_0:1=0 mlx5_1:1=2 mlx5_2:1=1 mlx5_3:1=3 ")
        << "crossed";
    EXPECT_EQ(rails(four_rails({"10.1.0.7", "10.2.0.7", "10.1.0.8", "10.2.0.8"})),
              "by network: mlx5_0:1=0 mlx5_1:1=1 mlx5_2:1=0 mlx5_3:1=1 ")
        << "two networks";
}

TEST(Rails, FollowNcclWithoutNetworksOfTheirOwn) {
    EXPECT_EQ(rails(four_rails({"10.1.0.8", "10.1.0.7"})), "by PCI address: mlx5_0:1=0 mlx5_1:1=1 ") << "one network";
    auto routed = four_rails({"10.2.0.7", "10.1.0.7"});
    for (auto& netdev : routed.netdevs) {
        netdev.addresses[0].prefix_length = 31;
    }
    EXPECT_EQ(rails(routed), "by PCI address: mlx5_0:1=0 mlx5_1:1=1 ") << "links to routers";
    Fabric infiniband;
    add_infiniband(infiniband, "mlx5_1", "/sys/devices/pci0000:50/0000:53:00.0");
    add_infiniband(infiniband, "mlx5_0", "/sys/devices/pci0000:60/0000:63:00.0");
    EXPECT_EQ(rails(infiniband), "by PCI address: mlx5_0:1=1 mlx5_1:1=0 ");
    infiniband.hcas[0].pci = "";
    EXPECT_EQ(rails(infiniband), "by PCI address: mlx5_0:1=0 mlx5_1:1=1 ") << "without a PCI function: last";
}

TEST(Rails, AreOnlyOfSeveralPortsInUse) {
    auto fabric = four_rails({"10.1.0.7", "10.2.0.7"});
    fabric.hcas[0].ports[0].state = "DOWN";
    EXPECT_EQ(rails(fabric), ": ");
    EXPECT_EQ(rails(Fabric()), ": ");
}

} // namespace
} // namespace rdma_nccl
