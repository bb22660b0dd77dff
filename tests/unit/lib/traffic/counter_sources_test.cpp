// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/traffic/traffic.h"
#include "tests/unit/fabric_machine.h"

#include <gtest/gtest.h>
#include <initializer_list>
#include <sys/stat.h>

namespace rdma_nccl {
namespace {

using namespace std::chrono_literals;
using Paths = std::vector<std::string>;

const std::string hca = "/sys/class/infiniband/mlx5_0";
const std::string port = hca + "/ports/1";

class Sources : public testing::Test {
protected:
    Sources() { machine_.connectx("mlx5_0", "eth1", "10.0.1.1", test::below_root_port("20", "21")); }

    void counters(const std::string& directory, std::initializer_list<const char*> names,
                  const std::string& value = "7") {
        for (const auto* name : names) {
            machine_.tree().file(format_text("{}/{}", directory, name), value + "\n");
        }
    }
    PortSource first() {
        const auto found = find();
        return found.ports.empty() ? PortSource{} : found.ports.front();
    }
    TrafficSources find(const Paths& expected = {}) {
        const auto fabric = machine_.read();
        return traffic_sources(machine_.tree().root(), fabric, expected);
    }
    Paths netdevs() {
        Paths names;
        for (const auto& netdev : find().netdevs) {
            names.push_back(netdev.name);
        }
        return names;
    }
    NetdevSource netdev(const std::string& name) {
        for (auto& netdev : find().netdevs) {
            if (netdev.name == name) {
                return netdev;
            }
        }
        return {};
    }
    /// One more interface on hardware.
    void nic(const std::string& name, const std::string& upper = {}) {
        machine_.netdev({.name = name,
                         .pci_path = test::below_root_port("30", name.substr(name.size() - 1) + "1"),
                         .upper = upper});
    }
    void software(const std::string& name, const std::string& node_type, const std::string& on) {
        machine_.hca({.name = name, .pci_path = "", .node_type = node_type});
        machine_.port({.hca = name});
        if (!on.empty()) {
            machine_.gid(name, 0, "10.0.2.1", "RoCE v2", on);
        }
    }

    test::Machine machine_;
};

TEST_F(Sources, WordsOfPortData) {
    counters(port + "/counters", {"port_xmit_data", "port_rcv_data", "unicast_xmit_packets"});
    counters(port + "/hw_counters", {"tx_bytes", "rx_bytes"});
    counters(port + "/hw_counters", {"lifespan"}, "12");
    const auto source = first();
    EXPECT_EQ(source.source, ByteSource::PortData);
    EXPECT_EQ(source.name(), "mlx5_0:1");
    EXPECT_EQ(source.tx.paths, Paths{port + "/counters/port_xmit_data"});
    EXPECT_EQ(source.rx.paths, Paths{port + "/counters/port_rcv_data"});
    EXPECT_EQ(source.tx.unit, 4U);
    EXPECT_FALSE(source.rx.saturates);
    EXPECT_EQ(source.counter_latency, 12ms);
    EXPECT_EQ(source.why_none, "");
}

TEST_F(Sources, WithoutExtendedCountersTheyStop) {
    counters(port + "/counters", {"port_xmit_data", "port_rcv_data"});
    const auto source = first();
    EXPECT_EQ(source.source, ByteSource::PortData);
    for (const auto& files : {source.tx, source.rx}) {
        EXPECT_EQ(files.unit, 4U);
        EXPECT_TRUE(files.saturates);
    }
}

TEST_F(Sources, ExtendedOnesOfOldKernels) {
    counters(port + "/counters", {"port_xmit_data", "port_rcv_data"});
    counters(port + "/counters_ext", {"port_xmit_data_64", "port_rcv_data_64"});
    const auto source = first();
    EXPECT_EQ(source.tx.paths, Paths{port + "/counters_ext/port_xmit_data_64"});
    EXPECT_EQ(source.tx.unit, 4U);
    EXPECT_FALSE(source.tx.saturates);
}

TEST_F(Sources, BytesOfDrivers) {
    const std::string directory = port + "/hw_counters";
    struct Driver {
        std::vector<const char*> files;
        ByteSource source;
        Paths tx, rx;
    };
    const std::vector<Driver> drivers{
        {{"active_qps", "rx_bytes", "tx_bytes", "rx_pkts", "rx_roce_good_bytes"},
         ByteSource::HwBytes,
         {"tx_bytes"},
         {"rx_bytes"}},
        {{"tx_bytes", "rx_bytes", "send_bytes", "recv_bytes", "rdma_read_bytes"},
         ByteSource::HwBytes,
         {"tx_bytes"},
         {"rx_bytes"}},
        {{"ip4InOctets", "ip4OutOctets", "ip6InOctets", "ip6OutOctets", "ip4InMcastOctets", "ip4OutMcastOctets"},
         ByteSource::HwOctets,
         {"ip4OutOctets", "ip6OutOctets"},
         {"ip4InOctets", "ip6InOctets"}},
        {{"ip4InOctets", "ip4OutOctets", "ip6InOctets"}, ByteSource::HwOctets, {"ip4OutOctets"}, {"ip4InOctets"}},
        {{"rx_rdma_ucast_bytes", "tx_rdma_ucast_bytes", "rx_rdma_mcast_bytes", "tx_rdma_mcast_bytes",
          "tx_rdma_retx_bytes"},
         ByteSource::HwBytes,
         {"tx_rdma_ucast_bytes", "tx_rdma_mcast_bytes"},
         {"rx_rdma_ucast_bytes", "rx_rdma_mcast_bytes"}},
        {{"hw_tx_bytes_cnt", "hw_rx_bytes_cnt", "hw_tx_reqs_cnt"},
         ByteSource::HwBytes,
         {"hw_tx_bytes_cnt"},
         {"hw_rx_bytes_cnt"}},
        {{"qp_tx_long_bytes", "qp_rx_long_bytes", "p_tx_bytes", "p_rx_bytes", "a_tx_bytes"}, // nobody's
         ByteSource::HwBytes,
         {"p_tx_bytes"},
         {"p_rx_bytes"}},
        {{"totalOutOctets", "totalInOctets"}, ByteSource::HwBytes, {"totalOutOctets"}, {"totalInOctets"}},
        {{"sent_pkts", "rcvd_pkts", "rdma_sends"}, ByteSource::Packets, {"sent_pkts"}, {"rcvd_pkts"}},
        {{"hw_rx_pkts_cnt", "tx_bytes"}, ByteSource::None, {}, {}},
    };
    for (const auto& driver : drivers) {
        machine_.tree().remove(directory);
        for (const auto* file : driver.files) {
            counters(directory, {file});
        }
        const auto source = first();
        EXPECT_EQ(source.source, driver.source) << driver.files.front();
        Paths tx;
        Paths rx;
        for (const auto& name : driver.tx) {
            tx.push_back(format_text("{}/{}", directory, name));
        }
        for (const auto& name : driver.rx) {
            rx.push_back(format_text("{}/{}", directory, name));
        }
        EXPECT_EQ(source.tx.paths, tx) << driver.files.front();
        EXPECT_EQ(source.rx.paths, rx) << driver.files.front();
        const bool slow = driver.source == ByteSource::HwOctets;
        EXPECT_EQ(source.counter_latency, slow ? 2000ms : 0ms) << driver.files.front();
    }
}

TEST_F(Sources, OfTheDeviceWhereThePortHasNone) {
    counters(hca + "/hw_counters", {"ip4OutOctets", "ip4InOctets"});
    EXPECT_EQ(first().tx.paths, Paths{hca + "/hw_counters/ip4OutOctets"});
    machine_.port({.hca = "mlx5_0", .number = 2});
    EXPECT_EQ(first().source, ByteSource::None);
}

TEST_F(Sources, EfaIsSlowToo) {
    machine_.hca({.name = "rdmap0",
                  .pci_path = test::below_root_port("40", "41"),
                  .driver = "efa",
                  .node_type = "7: unspecified"});
    machine_.port({.hca = "rdmap0", .link_layer = "Unknown"});
    counters("/sys/class/infiniband/rdmap0/ports/1/hw_counters", {"tx_bytes", "rx_bytes"});
    EXPECT_EQ(find().ports.back().counter_latency, 2000ms);
    EXPECT_EQ(find().counter_latency(), 2000ms);
}

TEST_F(Sources, PacketsOfSoftRoce) {
    software("rxe0", "1: CA", "eth1");
    const std::string directory = "/sys/class/infiniband/rxe0/ports/1/hw_counters";
    counters(directory, {"sent_pkts", "rcvd_pkts"});
    const auto source = find().ports.back();
    EXPECT_EQ(source.source, ByteSource::Packets);
    EXPECT_EQ(source.tx.unit, 4096U) << "MTU 9000";
    machine_.tree().file("/sys/class/net/eth1/mtu", "1500\n");
    EXPECT_EQ(find().ports.back().rx.unit, 1024U);
}

TEST_F(Sources, PathMtuFitsWithHeaders) {
    EXPECT_EQ(path_mtu(0), 1024U);
    EXPECT_EQ(path_mtu(1), 256U);
    EXPECT_EQ(path_mtu(591), 256U);
    EXPECT_EQ(path_mtu(592), 512U);
    EXPECT_EQ(path_mtu(1500), 1024U);
    EXPECT_EQ(path_mtu(4175), 2048U);
    EXPECT_EQ(path_mtu(4176), 4096U);
    EXPECT_EQ(path_mtu(9000), 4096U);
    EXPECT_EQ(path_mtu(4294967295), 4096U);
}

TEST_F(Sources, SaysWhyThereIsNone) {
    EXPECT_EQ(first().why_none, "no counters (a container's view of the device)");
    counters(port + "/hw_counters", {"out_of_buffer"});
    EXPECT_EQ(first().why_none, "its driver counts no bytes");
    counters(port + "/counters", {"port_xmit_data", "port_rcv_data"}, "N/A (no PMA)");
    EXPECT_EQ(first().why_none, "counters/port_xmit_data: N/A (no PMA)");
    counters(port + "/counters", {"port_xmit_data"});
    EXPECT_EQ(first().why_none, "counters/port_rcv_data: no number");
    machine_.tree().remove(port + "/counters/port_xmit_data").directory(port + "/counters/port_xmit_data");
    EXPECT_NE(first().why_none.find("Is a directory"), std::string::npos) << first().why_none;
    software("siw0", "4: RNIC", "eth1");
    EXPECT_EQ(find().ports.back().why_none, "siw counts no bytes");
    EXPECT_EQ(find().ports.back().source, ByteSource::None);
}

TEST_F(Sources, JunkIsNoCounter) {
    const std::string counter = port + "/counters/port_xmit_data";
    counters(port + "/counters", {"port_xmit_data", "port_rcv_data"});
    ASSERT_EQ(first().source, ByteSource::PortData);
    for (const std::string text : {"", "-1", "18446744073709551616", "0x10", "7 8", "seven", "7\n8"}) {
        machine_.tree().file(counter, text);
        EXPECT_EQ(first().source, ByteSource::None) << text;
    }
    machine_.tree().file(counter, std::string(1 << 20, '1'));
    EXPECT_EQ(first().source, ByteSource::None);
    machine_.tree().remove(counter);
    ASSERT_EQ(::mkfifo(machine_.tree().at(counter).c_str(), 0600), 0);
    EXPECT_EQ(first().source, ByteSource::None) << "and does not wait for a writer";
}

TEST_F(Sources, AskNothingOfASilentDriver) {
    counters(port + "/counters", {"port_xmit_data", "port_rcv_data"});
    (void)machine_.read();
    const auto root = machine_.tree().root();
    const auto sources = traffic_sources(root, read_fabric(root, {"mlx5_0"}), {});
    ASSERT_EQ(sources.ports.size(), 1U);
    EXPECT_EQ(sources.ports[0].source, ByteSource::None);
    EXPECT_EQ(sources.ports[0].why_none, "its driver does not answer");
}

TEST_F(Sources, ExpectedPorts) {
    machine_.connectx("mlx5_1", "eth2", "10.0.2.1", test::below_root_port("50", "51"));
    const auto sources = find({"mlx5_1:1", "mlx5_7:1"});
    ASSERT_EQ(sources.ports.size(), 2U);
    EXPECT_FALSE(sources.ports[0].expected);
    EXPECT_TRUE(sources.ports[1].expected);
}

TEST_F(Sources, ABondedHcaIsLookedAtOnce) {
    machine_.connectx("mlx5_1", "eth2", "", test::below_root_port("50", "51"));
    machine_.netdev({.name = "bond0", .lowers = {"eth1", "eth2"}});
    machine_.tree().directory("/sys/class/net/bond0/bonding");
    machine_.netdev({.name = "eth1", .pci_path = test::below_root_port("20", "21"), .upper = "bond0"});
    machine_.netdev({.name = "eth2", .pci_path = test::below_root_port("50", "51"), .upper = "bond0"});
    EXPECT_EQ(find().ports.size(), 2U) << "each for itself";
    machine_.gid("mlx5_0", 4, "10.0.3.1", "RoCE v2", "bond0");
    const auto sources = find();
    ASSERT_EQ(sources.ports.size(), 1U);
    EXPECT_EQ(sources.ports[0].hca, "mlx5_0");
    EXPECT_EQ(netdevs(), Paths{"bond0"});
}

TEST_F(Sources, InterfacesOnHardwareAndBonds) {
    nic("eth2", "br0");
    nic("eth3", "bond0");
    nic("eth4");
    machine_.netdev({.name = "br0", .lowers = {"eth2"}});
    machine_.tree().directory("/sys/class/net/br0/bridge");
    machine_.netdev({.name = "bond0", .lowers = {"eth3"}});
    machine_.tree().directory("/sys/class/net/bond0/bonding");
    machine_.netdev({.name = "bond0.7", .lowers = {"bond0"}});
    machine_.netdev({.name = "eth4.9", .lowers = {"eth4"}});
    machine_.netdev({.name = "veth12"});
    machine_.netdev({.name = "docker0"});
    nic("rep5");
    machine_.tree().file("/sys/class/net/rep5/phys_port_name", "pf0vf5\n");
    machine_.tree().file("/sys/class/net/eth4/phys_port_name", "p0\n");
    EXPECT_EQ(netdevs(), (Paths{"bond0", "eth1", "eth2", "eth4"}));
}

TEST_F(Sources, AVirtualFunctionBelowNetvsc) {
    nic("eth2");
    nic("eth3", "eth2");
    EXPECT_EQ(netdevs(), (Paths{"eth1", "eth2"}));
}

TEST(ContainerSources, WhatReachesOut) {
    test::Machine machine;
    machine.netdev({.name = "eth0"});
    machine.netdev({.name = "macvlan1"});
    machine.netdev({.name = "br0", .lowers = {"veth1"}});
    machine.tree().directory("/sys/class/net/br0/bridge");
    machine.netdev({.name = "tap0"});
    machine.tree().file("/sys/class/net/tap0/tun_flags", "0x1001\n");
    const auto sources = traffic_sources(machine.tree().root(), machine.read(), {});
    ASSERT_EQ(sources.netdevs.size(), 2U);
    EXPECT_EQ(sources.netdevs[0].name, "eth0");
    EXPECT_EQ(sources.netdevs[1].name, "macvlan1");
    EXPECT_TRUE(sources.ports.empty());
    EXPECT_EQ(sources.counter_latency(), 0ms);
}

TEST_F(Sources, InterfacesThatCountSoftwareRdma) {
    software("rxe0", "1: CA", "");
    machine_.tree().file("/sys/class/infiniband/rxe0/parent", "eth1\n");
    auto eth1 = netdev("eth1");
    EXPECT_EQ(eth1.role, NetdevRole::IncludesRdma);
    EXPECT_EQ(eth1.port, "rxe0:1");
    EXPECT_EQ(eth1.packet, 4096U);
    EXPECT_EQ(eth1.headers, 78U) << "IPv6, for all that is known";
    machine_.gid("rxe0", 1, "10.0.1.1", "RoCE v2", "eth1");
    EXPECT_EQ(netdev("eth1").headers, 58U);
    nic("eth2");
    EXPECT_EQ(netdev("eth2").role, NetdevRole::Plain);
}

TEST_F(Sources, SoftwareRdmaOverVlanAndBond) {
    nic("eth2", "bond0");
    machine_.netdev({.name = "bond0", .lowers = {"eth2"}});
    machine_.tree().directory("/sys/class/net/bond0/bonding");
    machine_.netdev({.name = "bond0.7", .lowers = {"bond0"}});
    software("rxe0", "1: CA", "bond0.7");
    EXPECT_EQ(netdev("bond0").port, "rxe0:1");
    EXPECT_EQ(netdev("eth1").port, "");
}

TEST_F(Sources, SiwIsFoundByItsMac) {
    software("siw0", "4: RNIC", "");
    machine_.tree().file("/sys/class/net/eth1/address", "52:54:00:12:34:56\n");
    machine_.tree().file("/sys/class/infiniband/siw0/ports/1/gids/0", "5254:0012:3456:0000:0000:0000:0000:0000\n");
    EXPECT_EQ(netdev("eth1").role, NetdevRole::IncludesRdma);
    EXPECT_EQ(netdev("eth1").port, "siw0:1");
}

TEST_F(Sources, IpOverInfiniband) {
    machine_.hca({.name = "mlx5_4", .pci_path = test::below_root_port("60", "61"), .netdevs = {"ib0"}});
    machine_.port({.hca = "mlx5_4", .link_layer = "InfiniBand"});
    machine_.netdev({.name = "ib0", .pci_path = test::below_root_port("60", "61"), .upper = "bond0"});
    machine_.netdev({.name = "ib0.8001"});
    machine_.netdev({.name = "bond0", .lowers = {"ib0"}});
    machine_.tree().directory("/sys/class/net/bond0/bonding");
    for (const auto* name : {"ib0", "ib0.8001", "bond0"}) {
        machine_.tree().file(format_text("/sys/class/net/{}/type", name), "32\n");
        machine_.tree().file(format_text("/sys/class/net/{}/mtu", name), "4092\n");
    }
    EXPECT_EQ(netdevs(), (Paths{"eth1", "ib0", "ib0.8001"}));
    EXPECT_EQ(netdev("ib0").role, NetdevRole::Ipoib);
    EXPECT_EQ(netdev("ib0").port, "mlx5_4:1");
    EXPECT_EQ(netdev("ib0.8001").port, "mlx5_4:1");
    EXPECT_EQ(netdev("ib0").packet, 4092U);
    machine_.tree().file("/sys/class/net/ib0/mtu", "65520\n");
    EXPECT_EQ(netdev("ib0").packet, 2044U);
}

TEST(ByteSourceNames, AreWords) {
    EXPECT_EQ(name_of(ByteSource::PortData), "port data");
    EXPECT_EQ(name_of(ByteSource::HwBytes), "hw bytes");
    EXPECT_EQ(name_of(ByteSource::HwOctets), "octets");
    EXPECT_EQ(name_of(ByteSource::Packets), "packets x MTU");
    EXPECT_EQ(name_of(ByteSource::None), "none");
}

} // namespace
} // namespace rdma_nccl
