// SPDX-License-Identifier: Apache-2.0
// NCCL's own choice of interfaces, as ncclFindInterfaces() makes it; the rows marked * were compared with what
// ncclGetUniqueId() of NCCL 2.28.9 prints ("Bootstrap: Using ...") in a network namespace with such interfaces.
#include "lib/nccl/model.h"

#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

struct Interface {
    std::string name;
    std::vector<std::string> addresses;
    bool up = true;
};

/// Numbered from 1 in the order given.
Fabric machine(const std::vector<Interface>& interfaces) {
    Fabric fabric;
    for (const auto& interface : interfaces) {
        Netdev netdev;
        netdev.name = interface.name;
        netdev.order = static_cast<unsigned>(fabric.netdevs.size() + 1);
        netdev.up = interface.up;
        netdev.loopback = interface.name == "lo";
        for (const auto& address : interface.addresses) {
            netdev.addresses.push_back({IpAddress::parse(address).value(), 24});
        }
        fabric.netdevs.push_back(std::move(netdev));
    }
    return fabric;
}

using Names = std::vector<std::string>;

struct Row {
    const char* what;
    std::vector<Interface> interfaces;
    NcclInterfaceEnvironment environment;
    Names expected;
};

const Interface lo{"lo", {"127.0.0.1", "::1"}};

const std::vector<Row>& rows() {
    static const std::vector<Row> table = {
        {"all but lo, in the order of their numbers *",
         {lo, {"eth1", {"10.1.0.1"}}, {"eth0", {"10.0.0.1"}}},
         {},
         {"eth1", "eth0"}},
        {"ib* alone, where there is one *", {lo, {"eth0", {"10.0.0.1"}}, {"ib0", {"10.9.0.1"}}}, {}, {"ib0"}},
        {"also what only begins so *", {lo, {"eth0", {"10.0.0.1"}}, {"ibmgmt", {"10.9.0.1"}}}, {}, {"ibmgmt"}},
        {"no docker *", {lo, {"docker0", {"172.17.0.1"}}, {"eth0", {"10.0.0.1"}}}, {}, {"eth0"}},
        {"but other bridges *", {lo, {"br-1a2b", {"172.18.0.1"}}, {"eth0", {"10.0.0.1"}}}, {}, {"br-1a2b", "eth0"}},
        {"docker before lo *", {lo, {"docker0", {"172.17.0.1"}}}, {}, {"docker0"}},
        {"lo at last *", {lo}, {}, {"lo"}},
        {"no virbr from 2.28 on *", {lo, {"virbr0", {"192.168.122.1"}}, {"eth0", {"10.0.0.1"}}}, {}, {"eth0"}},
        {"virbr before",
         {lo, {"virbr0", {"192.168.122.1"}}, {"eth0", {"10.0.0.1"}}},
         {.ipv6 = {}, .before_2_28 = true},
         {"virbr0", "eth0"}},
        {"virbr after lo only, so never *", {lo, {"virbr0", {"192.168.122.1"}}}, {}, {"lo"}},
        {"IPv4 before IPv6 *", {lo, {"eth0", {"fd00::1"}}, {"eth1", {"10.1.0.1"}}}, {}, {"eth1", "eth0"}},
        {"IPv6 where asked *",
         {lo, {"eth1", {"10.1.0.1"}}, {"eth0", {"fd00::1"}}},
         {.ipv6 = true, .before_2_28 = false},
         {"eth0"}},
        {"no IPv6 loopback: nothing is left", {{"lo", {"::1"}}}, {}, {}},
        {"link-local counts *", {lo, {"eth0", {"fe80::1"}}}, {}, {"eth0"}},
        {"no link, no use from 2.28 on *", {lo, {"eth0", {"10.0.0.1"}, false}, {"eth1", {"10.1.0.1"}}}, {}, {"eth1"}},
        {"no link, still used before",
         {lo, {"eth0", {"10.0.0.1"}, false}, {"eth1", {"10.1.0.1"}}},
         {.ipv6 = {}, .before_2_28 = true},
         {"eth0", "eth1"}},
        {"nothing at all", {}, {}, {}},
    };
    return table;
}

TEST(NcclInterfaces, Table) {
    for (const auto& row : rows()) {
        EXPECT_EQ(nccl_interfaces(machine(row.interfaces), row.environment), row.expected) << row.what;
    }
}

TEST(NcclInterfaces, AtMostSixteen) {
    std::vector<Interface> interfaces;
    for (unsigned i = 0; i < 20; ++i) {
        interfaces.push_back({"eth" + std::to_string(i), {"10.0." + std::to_string(i) + ".1"}});
    }
    const auto names = nccl_interfaces(machine(interfaces), {});
    EXPECT_EQ(names.size(), 16U);
    EXPECT_EQ(names.back(), "eth15");
}

} // namespace
} // namespace rdma_nccl
