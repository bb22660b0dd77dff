// SPDX-License-Identifier: Apache-2.0
#include "lib/base/text.h"
#include "lib/fabric/kernel_text.h"

#include "lib/fabric/fabric.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace rdma_nccl {
namespace {

TEST(ParseGid, ReadsTheFormOfSysfsAndPrintsItBack) {
    const auto* const mapped = "0000:0000:0000:0000:0000:ffff:0a01:02fe";
    EXPECT_EQ(parse_gid(mapped), IpAddress::parse("10.1.2.254"));
    EXPECT_EQ(gid_text(*IpAddress::parse("10.1.2.254")), mapped);
    EXPECT_EQ(parse_gid("FE80:0000:0000:0000:0E42:A1FF:FE2B:3C4D"), IpAddress::parse("fe80::e42:a1ff:fe2b:3c4d"));
    EXPECT_EQ(gid_text(IpAddress()), "0000:0000:0000:0000:0000:0000:0000:0000");
}

TEST(ParseGid, RefusesEverythingElse) {
    for (const std::string text :
         {"", "fe80::1", "10.0.0.1", "0000:0000:0000:0000:0000:ffff:0a01:02f",
          "0000:0000:0000:0000:0000:ffff:0a01:02feX", "0000:0000:0000:0000:0000:ffff:0a01-02fe",
          "g000:0000:0000:0000:0000:ffff:0a01:02fe", "00000000000000000000ffff0a0102fe00000000"}) {
        EXPECT_FALSE(parse_gid(text)) << text;
    }
    EXPECT_FALSE(parse_gid(std::string(39, '\0')));
}

TEST(ParseRate, TakesNumberAndUnit) {
    EXPECT_EQ(parse_rate("200 Gb/sec (4X HDR)").value_or(Rate()).gbps, 200);
    EXPECT_EQ(parse_rate("2.5 Gb/sec (1X SDR)").value_or(Rate()).gbps, 2.5);
    EXPECT_EQ(parse_rate("10 Gb/sec (4X)").value_or(Rate()).gbps, 10);
    for (const std::string text : {"", "Gb/sec", "-10 Gb/sec", "inf Gb/sec", "nan Gb/sec", "0 Gb/sec", "1e3 Gb/sec",
                                   "100 Mb/sec", "99999999999 Gb/sec", "100"}) {
        EXPECT_FALSE(parse_rate(text)) << text;
    }
}

TEST(ParseEnumName, TakesTheNameAndKeepsForeignTextPrintable) {
    EXPECT_EQ(parse_enum_name("4: ACTIVE"), "ACTIVE");
    EXPECT_EQ(parse_enum_name("6: usNIC UDP"), "usNIC UDP");
    EXPECT_EQ(parse_enum_name("strange"), "strange");
    EXPECT_EQ(parse_enum_name("1: \x1b[31mCA"), "?[31mCA");
    EXPECT_EQ(parse_enum_name(""), "");
}

TEST(ParseGidType, KnowsBothSpellingsOfV1) {
    EXPECT_EQ(parse_gid_type("IB/RoCE v1"), GidType::RoceV1);
    EXPECT_EQ(parse_gid_type("RoCE v1"), GidType::RoceV1);
    EXPECT_EQ(parse_gid_type("RoCE v2"), GidType::RoceV2);
    EXPECT_FALSE(parse_gid_type("RoCE v3"));
    EXPECT_FALSE(parse_gid_type(""));
}

TEST(ParseLinkLayer, KnowsTwo) {
    EXPECT_EQ(parse_link_layer("InfiniBand"), LinkLayer::InfiniBand);
    EXPECT_EQ(parse_link_layer("Ethernet"), LinkLayer::Ethernet);
    EXPECT_EQ(parse_link_layer("Unspecified"), LinkLayer::Unknown);
}

TEST(Names, OfDevicesCanStandInAPathAndInNcclIbHca) {
    for (const std::string name : {"mlx5_0", "rocep1s0", "mlx5_bond_0", "rdmap0s6", "a", "dev.1"}) {
        EXPECT_TRUE(is_device_name(name)) << name;
    }
    for (const std::string name : {"", ".", "..", "a/b", "a,b", "a:1", "^a", "=a", "a b", "m\xc3\xbc"}) {
        EXPECT_FALSE(is_device_name(name)) << name;
    }
    EXPECT_FALSE(is_device_name(std::string(64, 'a')));
}

TEST(Names, OfInterfacesFollowTheKernel) {
    for (const std::string name : {"eth0", "enp1s0f0np0.100", "br-1234", "a@b"}) {
        EXPECT_TRUE(is_netdev_name(name)) << name;
    }
    for (const std::string name : {"", ".", "..", "../etc/passwd", "a:1", "a b", "sixteen-letters-", "\x01"}) {
        EXPECT_FALSE(is_netdev_name(name)) << name;
    }
}

TEST(ParseIndex, IsCanonical) {
    EXPECT_EQ(parse_index("0"), 0U);
    EXPECT_EQ(parse_index("255"), 255U);
    for (const std::string text : {"", "00", "03", "-1", "+1", "1 ", "0x1", "99999999999"}) {
        EXPECT_FALSE(parse_index(text)) << text;
    }
}

TEST(NaturalNameLess, ComparesNumbersAsNumbers) {
    std::vector<std::string> names = {"mlx5_10", "mlx5_2", "mlx5_bond_0", "a", "mlx5_0", "mlx5_1", "mlx5"};
    std::sort(names.begin(), names.end(), natural_name_less);
    EXPECT_EQ(names, (std::vector<std::string>{"a", "mlx5", "mlx5_0", "mlx5_1", "mlx5_2", "mlx5_10", "mlx5_bond_0"}));
    EXPECT_TRUE(natural_name_less("a99999999999999999999", "a100000000000000000000"));
    EXPECT_FALSE(natural_name_less("a1", "a1"));
    EXPECT_NE(natural_name_less("a01", "a1"), natural_name_less("a1", "a01")); // an order, whichever
}

TEST(Pci, AddressesAreRecognised) {
    EXPECT_TRUE(is_pci_address("0000:53:00.0"));
    EXPECT_TRUE(is_pci_address("10000:e1:00.1"));
    for (const std::string text : {"", "53:00.0", "0000:53:00", "0000:53:00.00", "pci0000:50", "0000:5g:00.0"}) {
        EXPECT_FALSE(is_pci_address(text)) << text;
    }
}

TEST(Pci, FunctionOfADevicePath) {
    EXPECT_EQ(pci_function_path("/sys/devices/pci0000:00/0000:00:03.0/virtio0"),
              "/sys/devices/pci0000:00/0000:00:03.0");
    EXPECT_EQ(pci_function_path("/sys/devices/pci0000:00/0000:00:03.0"), "/sys/devices/pci0000:00/0000:00:03.0");
    EXPECT_EQ(pci_function_path("/sys/devices/virtual/net/lo"), "");
    EXPECT_EQ(pci_function_path(""), "");
}

TEST(Pci, CommonAncestorsBeginAtTheHostBridge) {
    const std::string gpu = "/sys/devices/pci0000:50/0000:50:01.0/0000:51:00.0/0000:52:00.0/0000:53:00.0";
    const std::string same_switch = "/sys/devices/pci0000:50/0000:50:01.0/0000:51:00.0/0000:52:04.0/0000:56:00.0";
    const std::string same_bridge = "/sys/devices/pci0000:50/0000:50:02.0/0000:60:00.0";
    const std::string elsewhere = "/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0";
    const auto above = pci_ancestors(gpu);
    EXPECT_EQ(common_pci_ancestors(above, pci_ancestors(same_switch)), 3U);
    EXPECT_EQ(common_pci_ancestors(above, pci_ancestors(same_bridge)), 1U);
    EXPECT_EQ(common_pci_ancestors(above, pci_ancestors(elsewhere)), 0U);
    EXPECT_EQ(common_pci_ancestors(above, {}), 0U);
    EXPECT_TRUE(share_pcie_switch(gpu, same_switch));
    EXPECT_FALSE(share_pcie_switch(gpu, same_bridge));
    // A flat virtual machine, and one whose devices all hang below one ACPI node: no nearness.
    EXPECT_FALSE(share_pcie_switch("/sys/devices/pci0000:00/0000:00:05.0", "/sys/devices/pci0000:00/0000:00:06.0"));
    const std::string vmbus = "/sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00";
    EXPECT_FALSE(share_pcie_switch(vmbus + "/a/pci0001:00/0001:00:00.0", vmbus + "/b/pci0002:00/0002:00:02.0"));
}

TEST(FabricParse, RatesThatStandForUnknown) {
    for (const auto* text : {"10 Gb/sec (4X)", "10 Gb/sec (4X SDR)", "2.5 Gb/sec (1X SDR)"}) {
        EXPECT_TRUE(parse_rate(text).value_or(Rate()).is_default) << text;
    }
    for (const auto* text : {"100 Gb/sec (4X EDR)", "10 Gb/sec (1X QDR)", "10 Gb/sec (4X SDR", ""}) {
        EXPECT_FALSE(parse_rate(text).value_or(Rate()).is_default) << text;
    }
}

} // namespace
} // namespace rdma_nccl
