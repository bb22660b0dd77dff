// SPDX-License-Identifier: Apache-2.0
// Builds the sysfs and proc of small machines, file by file, for tests of the fabric code.
#pragma once

#include "lib/fabric/fabric.h"
#include "tests/unit/tree.h"

#include <string>
#include <vector>

namespace rdma_nccl::test {

struct HcaSpec {
    std::string name;
    std::string pci_path; ///< below /sys/devices; "" makes a software device, without a device link
    std::string driver = "mlx5_core";
    std::string node_type = "1: CA";
    std::string numa_node = "0";
    std::string physical_function = {};    ///< PCI path of the PF
    std::vector<std::string> netdevs = {}; ///< device/net
};

struct PortSpec {
    std::string hca;
    unsigned number = 1;
    std::string state = "4: ACTIVE";
    std::string physical_state = "5: LinkUp";
    std::string link_layer = "Ethernet";
    std::string rate = "200 Gb/sec (4X HDR)";
    unsigned slots = 8;
};

struct NetdevSpec {
    std::string name;
    std::string pci_path = {};
    std::string flags = "0x1003";
    std::string carrier = "1";
    std::string operstate = "up";
    std::string speed = "200000";
    std::string upper = {};
    std::vector<std::string> lowers = {};
    bool bridge = false;
};

class Machine {
public:
    Machine();

    Machine& hca(const HcaSpec& spec);
    Machine& port(const PortSpec& spec);
    /// `value`: a GID in sysfs's form or an address; `type` or `netdev` "" leave the file out.
    Machine& gid(const std::string& hca, unsigned index, const std::string& value, const std::string& type,
                 const std::string& netdev, unsigned port = 1);
    Machine& netdev(const NetdevSpec& spec);
    /// "10.0.0.1/24" or "fd00::1/64"; `subnet_route` false leaves out the route that the kernel adds for its subnet.
    Machine& address(const std::string& netdev, const std::string& cidr, bool subnet_route = true);
    Machine& gateway_route(const std::string& netdev, const std::string& cidr);
    Machine& default_route(const std::string& netdev, unsigned metric = 0);
    Machine& ipv6_default_route(const std::string& netdev);
    Machine& gpu(const std::string& pci_path, const std::string& vendor = "0x10de",
                 const std::string& pci_class = "0x030200");

    /// A ConnectX with one port, its interface and the usual table: fe80 v1 and v2, then `ipv4` v1 and v2 (index 3).
    Machine& connectx(const std::string& hca, const std::string& netdev, const std::string& ipv4,
                      const std::string& pci_path, const std::string& rate = "200 Gb/sec (4X HDR)");

    [[nodiscard]] Tree& tree() { return tree_; }
    [[nodiscard]] Fabric read();

private:
    Tree tree_;
    std::string routes_ = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n";
    std::string fib_trie_ = "Main:\n";
    std::string if_inet6_;
    std::string ipv6_routes_;
};

/// Path below /sys/devices of function 0 of a device that has bus `bus` ("53") for itself, below root port 01.0 of host
/// bridge `bridge` ("50"): "pci0000:50/0000:50:01.0/0000:53:00.0".
std::string below_root_port(const std::string& bridge, const std::string& bus);

} // namespace rdma_nccl::test
