// SPDX-License-Identifier: Apache-2.0
// `rdma-nccl gids`
#include "lib/base/json.h"
#include "lib/base/text.h"
#include "tools/gids/gids.h"

#include "tests/unit/fabric_machine.h"
#include "tests/unit/fabric_values.h"
#include "tools/common/command_line.h"
#include "tools/common/settings_options.h"

#include <gtest/gtest.h>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace rdma_nccl {
namespace {

using test::add_both;
using test::add_infiniband;
using test::add_roce;
using test::below_root_port;
using test::Machine;
using test::make_gid;
using test::make_netdev;
using test::make_port;

Fabric machine() {
    Fabric fabric;
    add_roce(fabric, "mlx5_0", "eth0", "10.0.0.1");
    add_roce(fabric, "mlx5_1", "eth1", "10.0.1.1");
    fabric.default_route_netdevs = {"eth0"};
    return fabric;
}

std::string table(const Fabric& fabric, const GidsFilter& filter = {}) {
    const auto choice = choose_fabric(fabric, {});
    return gids_table(view_gids(fabric, choice, filter));
}

std::string full_table(const Fabric& fabric, const GidsFilter& filter = {}) {
    const auto choice = choose_fabric(fabric, {});
    return gids_full_table(view_gids(fabric, choice, filter));
}

std::string show_gids(const Fabric& fabric, const GidsFilter& filter = {}) {
    const auto choice = choose_fabric(fabric, {});
    return show_gids_text(view_gids(fabric, choice, filter));
}

Json json(const Fabric& fabric, const GidsFilter& filter = {}, const std::string& host = "n01") {
    const auto choice = choose_fabric(fabric, {});
    return gids_json(host, view_gids(fabric, choice, filter));
}

std::vector<std::string> warnings(const FabricChoice& choice, const Fabric& fabric, const GidsFilter& filter) {
    return view_gids(fabric, choice, filter).warnings;
}

/// Of each line the columns up to INDEX, for who asks which rows there are.
std::string places(const std::string& table) {
    std::istringstream lines(table);
    std::string result;
    std::string line;
    std::getline(lines, line); // the header
    while (std::getline(lines, line)) {
        std::istringstream words(line);
        std::string device;
        std::string port;
        std::string index;
        words >> device >> port >> index;
        result += device + ":" + port + ":" + index + " ";
    }
    return result;
}

TEST(GidsTable, UsedEntriesThenPortsLeftOut) {
    EXPECT_EQ(
        table(machine()),
        "DEV     PORT  INDEX  GID                                      IPv4      VER      NETDEV  USED/REASON\n"
        "mlx5_1  1     3      0000:0000:0000:0000:0000:ffff:0a00:0101  10.0.1.1  RoCE v2  eth1    used, 200 Gb/s\n"
        "mlx5_0  1     -      -                                        -         -        eth0    is the management "
        "port (eth0 has the default route): left out; hca= can name it\n");
}

TEST(GidsTable, HasTheRailsOfSeveralPorts) {
    Fabric fabric = machine();
    fabric.default_route_netdevs.clear();
    EXPECT_EQ(
        table(fabric),
        "DEV     PORT  INDEX  GID                                      IPv4      VER      NETDEV  RAIL  USED/REASON\n"
        "mlx5_0  1     3      0000:0000:0000:0000:0000:ffff:0a00:0001  10.0.0.1  RoCE v2  eth0    0     used, 200 "
        "Gb/s\n"
        "mlx5_1  1     3      0000:0000:0000:0000:0000:ffff:0a00:0101  10.0.1.1  RoCE v2  eth1    1     used, 200 "
        "Gb/s\n");
    EXPECT_NE(table(fabric, {.device = "mlx5_1"}).find("eth1    1     used"), std::string::npos) << "as without filter";
    EXPECT_EQ(json(fabric)["hcas"][1]["ports"][0]["rail"], 1);
    EXPECT_EQ(show_gids(fabric).find("RAIL"), std::string::npos) << "scripts parse it";
}

TEST(GidsTable, DeviceWithoutPortIsLeftOut) {
    Fabric fabric = machine();
    fabric.hcas.insert(fabric.hcas.begin(), Hca());
    fabric.hcas[0].name = "mlx4_0";
    fabric.hcas[0].netdevs = {"ens3"};
    const std::string row = "mlx4_0  -     -      -                                        -         -        ens3    "
                            "has no port: left out\n";
    EXPECT_EQ(places(table(fabric)), "mlx5_1:1:3 mlx4_0:-:- mlx5_0:1:- ");
    EXPECT_NE(table(fabric).find(row), std::string::npos) << table(fabric);
    EXPECT_NE(full_table(fabric).find(row), std::string::npos) << full_table(fabric);
    EXPECT_EQ(places(table(fabric, {.device = "mlx4_0"})), "mlx4_0:-:- ");
    EXPECT_EQ(places(table(fabric, {.port = 1})), "mlx5_1:1:3 mlx5_0:1:- ");
    EXPECT_EQ(json(fabric)["hcas"][0]["reason"], "has no port: left out");
}

TEST(GidsTable, AllEntriesOfOneDevice) {
    EXPECT_EQ(
        full_table(machine(), {.device = "mlx5_1", .port = 1}),
        "DEV     PORT  INDEX  GID                                      IPv4      VER      NETDEV  USED/REASON\n"
        "mlx5_1  1     0      fe80:0000:0000:0000:0e42:a1ff:fe2b:3c4d  -         RoCE v1  eth1    not used: RoCE v1\n"
        "mlx5_1  1     1      fe80:0000:0000:0000:0e42:a1ff:fe2b:3c4d  -         RoCE v2  eth1    not used: index 3 is "
        "preferred: IPv4\n"
        "mlx5_1  1     2      0000:0000:0000:0000:0000:ffff:0a00:0101  10.0.1.1  RoCE v1  eth1    not used: RoCE v1\n"
        "mlx5_1  1     3      0000:0000:0000:0000:0000:ffff:0a00:0101  10.0.1.1  RoCE v2  eth1    used, 200 Gb/s\n");
}

TEST(GidsTable, AllKeepsTheOrderOfDevicesPortsAndIndices) {
    Fabric fabric = machine();
    fabric.hcas[0].ports.push_back(make_port());
    fabric.hcas[0].ports[1].number = 2; // its table is empty
    EXPECT_EQ(places(full_table(fabric)), "mlx5_0:1:- mlx5_0:1:0 mlx5_0:1:1 mlx5_0:1:2 mlx5_0:1:3 mlx5_0:2:- "
                                          "mlx5_1:1:0 mlx5_1:1:1 mlx5_1:1:2 mlx5_1:1:3 ");
    EXPECT_NE(full_table(fabric, {.device = "mlx5_0", .port = 2}).find("has no GID at all"), std::string::npos);
}

TEST(GidsTable, InfinibandShowsItsOwnGid) {
    Fabric fabric;
    add_infiniband(fabric, "mlx5_0").netdevs = {"ib0"};
    EXPECT_EQ(table(fabric),
              "DEV     PORT  INDEX  GID                                      IPv4  VER  NETDEV  USED/REASON\n"
              "mlx5_0  1     0      fe80:0000:0000:0000:0000:0000:0000:0001  -     IB   ib0     used, 400 Gb/s\n");
    EXPECT_EQ(full_table(fabric),
              "DEV     PORT  INDEX  GID                                      IPv4  VER  NETDEV  USED/REASON\n"
              "mlx5_0  1     -      -                                        -     -    ib0     used, 400 Gb/s\n"
              "mlx5_0  1     0      fe80:0000:0000:0000:0000:0000:0000:0001  -     IB   -       only RoCE needs a GID "
              "index\n");
}

TEST(GidsTable, PortInUseWithoutReadableGidHasARow) {
    Fabric fabric;
    add_infiniband(fabric, "mlx5_0").ports[0].gids.clear();
    EXPECT_EQ(table(fabric), "DEV     PORT  INDEX  GID  IPv4  VER  NETDEV  USED/REASON\n"
                             "mlx5_0  1     -      -    -     -    -       used, 400 Gb/s\n");
}

TEST(GidsTable, AllTellsWhatCouldNotBeRead) {
    Fabric fabric = machine();
    fabric.hcas[0].problems = {"node_guid: broken"};
    fabric.hcas[0].ports[0].problems = {"gids/7: broken"};
    fabric.problems = {"/sys/class/net: broken"};
    const auto text = full_table(fabric);
    EXPECT_NE(text.find("note: /sys/class/net: broken\nnote: mlx5_0: node_guid: broken\n"
                        "note: mlx5_0 port 1: gids/7: broken\n"),
              std::string::npos)
        << text;
    EXPECT_EQ(table(fabric).find("note:"), std::string::npos);
    const auto other = full_table(fabric, {.device = "mlx5_1"});
    EXPECT_NE(other.find("note: /sys/class/net: broken\n"), std::string::npos);
    EXPECT_EQ(other.find("note: mlx5_0"), std::string::npos);
    fabric.hcas[1].ports.clear();
    fabric.hcas[1].problems = {"ports: broken"};
    EXPECT_NE(full_table(fabric).find("note: mlx5_1: ports: broken\n"), std::string::npos);
}

/// The NETDEV column of a port that is left out.
std::string interface_shown(const Fabric& fabric) {
    const auto choice = choose_fabric(fabric, {});
    const auto view = view_gids(fabric, choice);
    return interface_of(fabric, view.hcas.at(0).ports.back());
}

TEST(GidsTable, InterfaceOfAPortIsTheOneOfItsAddresses) {
    Fabric bond;
    add_roce(bond, "mlx5_bond_0", "bond0", "10.0.0.1").netdevs = {"eth1", "bond0"};
    bond.hcas[0].ports[0].state = "DOWN";
    EXPECT_EQ(interface_shown(bond), "bond0");
    bond.hcas[0].ports[0].gids.clear();
    EXPECT_EQ(interface_shown(bond), "eth1"); // nothing tells of the bond

    Fabric vlan; // default entries on the base, the address on the VLAN
    add_roce(vlan, "mlx5_0", "eth0", "");
    add_both(vlan.hcas[0].ports[0], 2, "10.0.0.1", "eth0.100");
    vlan.netdevs.push_back(make_netdev("eth0.100"));
    vlan.hcas[0].ports[0].state = "DOWN";
    EXPECT_EQ(interface_shown(vlan), "eth0.100");
}

TEST(GidsTable, InterfaceOfASecondPortIsNotThatOfTheFirst) {
    Fabric fabric;
    auto& hca = add_infiniband(fabric, "mlx4_0");
    hca.ports.push_back(make_port(LinkLayer::InfiniBand));
    hca.ports[1].number = 2;
    hca.netdevs = {"ib0", "ib1"};
    fabric.netdevs = {make_netdev("ib0"), make_netdev("ib1")};
    EXPECT_EQ(interface_shown(fabric), ""); // it is not known which is which
    fabric.netdevs[0].port = 1;
    fabric.netdevs[1].port = 2;
    EXPECT_EQ(interface_shown(fabric), "ib1");
}

// --- Filters --------------------------------------------------------------------------------------------------------

TEST(GidsFilter, VersionAndFamilyHideRowsOnly) {
    const Fabric fabric = machine();
    EXPECT_EQ(places(full_table(fabric, {.device = "mlx5_1", .version = RoceVersion::V1})), "mlx5_1:1:0 mlx5_1:1:2 ");
    EXPECT_EQ(places(full_table(fabric, {.device = "mlx5_1", .version = RoceVersion::V2})), "mlx5_1:1:1 mlx5_1:1:3 ");
    EXPECT_EQ(places(full_table(fabric, {.device = "mlx5_1", .family = FamilyChoice::Ipv4})), "mlx5_1:1:2 mlx5_1:1:3 ");
    EXPECT_EQ(places(full_table(fabric, {.device = "mlx5_1", .family = FamilyChoice::Ipv6})), "mlx5_1:1:0 mlx5_1:1:1 ");
    EXPECT_EQ(places(table(fabric, {.version = RoceVersion::V2})), "mlx5_1:1:3 mlx5_0:1:- ");
    EXPECT_EQ(places(table(fabric, {.version = RoceVersion::V1})), "mlx5_0:1:- "); // the entry in use is hidden
    const auto hidden = json(fabric, {.device = "mlx5_1", .version = RoceVersion::V1})["hcas"][0]["ports"][0];
    EXPECT_EQ(hidden["gid_index"], 3);
    ASSERT_EQ(hidden["gids"].size(), 2U);
    EXPECT_EQ(hidden["gids"][1]["index"], 2);
    EXPECT_EQ(hidden["gids"][1]["rule"], "wrong-version"); // and not the rule of its neighbour
}

TEST(GidsFilter, InfinibandAndUnknownTypesHaveNoVersion) {
    Fabric fabric;
    add_infiniband(fabric, "mlx5_0");
    add_roce(fabric, "mlx5_1", "eth1", "");
    fabric.hcas[1].ports[0].gids = {make_gid(0, "10.0.0.1", std::nullopt, "eth1")};
    for (const auto version : {RoceVersion::V1, RoceVersion::V2}) {
        EXPECT_EQ(places(full_table(fabric, {.version = version})), "mlx5_0:1:- mlx5_1:1:- ");
        EXPECT_EQ(places(table(fabric, {.version = version})), "mlx5_1:1:- ");
    }
}

TEST(GidsFilter, HidesWarningsOnOtherPorts) {
    Fabric fabric;
    add_roce(fabric, "mlx5_1", "eth1", "10.0.0.1").ports.push_back(make_port());
    fabric.hcas[0].ports[1].number = 12;
    add_roce(fabric, "mlx5_11", "eth2", "10.0.1.1");
    auto choice = choose_fabric(fabric, {});
    choice.warnings = {"general", "mlx5_1 port 1 is bad", "mlx5_1 port 12 is bad", "mlx5_11 port 1: bad",
                       "the GID index differs: mlx5_1 port 1, mlx5_11 port 1"};
    using Texts = std::vector<std::string>;
    const Texts on_all = {choice.warnings[0], choice.warnings[4]};
    EXPECT_EQ(warnings(choice, fabric, {}), choice.warnings);
    EXPECT_EQ(warnings(choice, fabric, {.device = "mlx5_1"}),
              (Texts{"general", "mlx5_1 port 1 is bad", "mlx5_1 port 12 is bad", on_all[1]}));
    EXPECT_EQ(warnings(choice, fabric, {.device = "mlx5_1", .port = 12}),
              (Texts{"general", "mlx5_1 port 12 is bad", on_all[1]}));
    EXPECT_EQ(warnings(choice, fabric, {.device = "mlx5_11"}), (Texts{"general", "mlx5_11 port 1: bad", on_all[1]}));
    EXPECT_EQ(warnings(choice, fabric, {.port = 1}),
              (Texts{"general", "mlx5_1 port 1 is bad", "mlx5_11 port 1: bad", on_all[1]}));
    EXPECT_EQ(warnings(choice, fabric, {.version = RoceVersion::V1}), choice.warnings);
    const auto printed = gids_json("", view_gids(fabric, choice, {.device = "mlx5_11"}))["warnings"];
    EXPECT_EQ(printed, Json::array({"general", "mlx5_11 port 1: bad", on_all[1]}));
}

TEST(GidsFilter, KeepsWarningsThatNameAShownPortFurtherOn) {
    const Fabric fabric = machine();
    auto choice = choose_fabric(fabric, {});
    choice.warnings = {
        "mlx5_0 port 1 is bad (likewise mlx5_1 port 1)", "mlx5_0 port 1 is bad (likewise mlx5_1 port 12)",
        "mlx5_0 port 1 is bad (likewise xmlx5_1 port 1)", "mlx5_0 port 1 is bad (likewise a, b and 2 more)"};
    EXPECT_EQ(warnings(choice, fabric, {.device = "mlx5_1"}),
              (std::vector{choice.warnings[0], choice.warnings[3]})); // it may be one of the 2
    EXPECT_EQ(warnings(choice, fabric, {.device = "mlx5_0"}), choice.warnings);
}

TEST(GidsFilter, NamesWhatIsNotThere) {
    Fabric fabric = machine();
    EXPECT_EQ(filter_fault(fabric, {}), "");
    EXPECT_EQ(filter_fault(fabric, {.device = "mlx5_1", .port = 1}), "");
    EXPECT_EQ(filter_fault(fabric, {.device = "mlx5"}), "no RDMA device mlx5 on this node; there are mlx5_0, mlx5_1");
    EXPECT_EQ(filter_fault(fabric, {.device = "mlx5_1", .port = 2}), "mlx5_1 has no port 2; it has 1 port");
    EXPECT_EQ(filter_fault(fabric, {.port = 2}), "no RDMA device on this node has a port 2");
    fabric.hcas[0].ports.push_back(make_port());
    fabric.hcas[0].ports[1].number = 2;
    EXPECT_EQ(filter_fault(fabric, {.port = 2}), "");
    fabric.hcas[1].ports.clear();
    EXPECT_EQ(filter_fault(fabric, {.device = "mlx5_1"}), "");
    EXPECT_EQ(filter_fault(fabric, {.device = "mlx5_1", .port = 1}), "mlx5_1 has no port");
}

// --- As show_gids ---------------------------------------------------------------------------------------------------

const std::string show_gids_head = "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\n"
                                   "---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---\n";

TEST(ShowGids, ColumnsAreThoseOfTheTool) {
    EXPECT_EQ(show_gids(machine(), {.device = "mlx5_1"}),
              show_gids_head + "mlx5_1\t1\t0\tfe80:0000:0000:0000:0e42:a1ff:fe2b:3c4d\t\t\tv1\teth1\n"
                               "mlx5_1\t1\t1\tfe80:0000:0000:0000:0e42:a1ff:fe2b:3c4d\t\t\tv2\teth1\n"
                               "mlx5_1\t1\t2\t0000:0000:0000:0000:0000:ffff:0a00:0101\t10.0.1.1  \tv1\teth1\n"
                               "mlx5_1\t1\t3\t0000:0000:0000:0000:0000:ffff:0a00:0101\t10.0.1.1  \tv2\teth1\n"
                               "n_gids_found=4\n");
    EXPECT_EQ(show_gids({}), show_gids_head + "n_gids_found=0\n");
}

TEST(ShowGids, OddEntriesComeAsTheToolHasThem) {
    Fabric fabric;
    auto& port = add_roce(fabric, "mlx5_0", "eth0", "").ports[0];
    port.gids = {make_gid(0, "fe80::", GidType::RoceV2, "eth0"), // the bare prefix is not shown
                 make_gid(2, "::1:2:3", GidType::RoceV1, "eth0"), make_gid(10, "fd00::1", std::nullopt, "")};
    add_infiniband(fabric, "ib0");
    EXPECT_EQ(show_gids(fabric), show_gids_head +
                                     "ib0\t1\t0\tfe80:0000:0000:0000:0000:0000:0000:0001\t\t\tv1\t\n"
                                     "mlx5_0\t1\t10\tfd00:0000:0000:0000:0000:0000:0000:0001\t\t\t\t\n"
                                     "mlx5_0\t1\t2\t0000:0000:0000:0000:0000:0001:0002:0003\t0.2.0.3  \tv1\teth0\n"
                                     "n_gids_found=3\n");
}

TEST(ShowGids, FiltersApply) {
    const Fabric fabric = machine();
    const auto only_one =
        show_gids(fabric, {.device = "mlx5_0", .port = 1, .version = RoceVersion::V2, .family = FamilyChoice::Ipv4});
    EXPECT_EQ(only_one, show_gids_head + "mlx5_0\t1\t3\t0000:0000:0000:0000:0000:ffff:0a00:0001\t10.0.0.1  \tv2\t"
                                         "eth0\nn_gids_found=1\n");
}

// --- JSON -----------------------------------------------------------------------------------------------------------

TEST(GidsJson, HasTheSchemaInReadingOrder) {
    Fabric fabric = machine();
    fabric.default_route_netdevs.clear();
    auto& hca = fabric.hcas[1];
    hca.pci = "0000:53:00.1";
    hca.numa_node = 1;
    hca.firmware = "20.35.1012";
    hca.board = "MT_0000000223";
    hca.physical_function = "0000:53:00.0";
    hca.device_file = "/dev/infiniband/uverbs1";
    fabric.hcas[0].ports[0].gids.resize(2);
    fabric.netdevs[0].addresses.clear();
    hca.ports[0].gids.erase(hca.ports[0].gids.begin(), hca.ports[0].gids.begin() + 1);
    const auto found = json(fabric);
    const auto expected = *Json::parse(R"({"schema": 1, "host": "n01", "hcas": [
        {"name": "mlx5_0", "driver": "mlx5_core", "pci": "", "numa_node": null, "node_type": "CA", "firmware": "",
         "board": "", "physical_function": "", "device_file": "", "netdevs": ["eth0"], "selected": false,
         "reason": "has no RoCE v2 address (only fe80::): left out; give eth0 an IPv4 address", "ports": [
           {"port": 1, "state": "ACTIVE", "physical_state": "LinkUp", "link_layer": "Ethernet", "rate_gbps": 200.0,
            "selected": false, "rule": "link-local",
            "reason": "has no RoCE v2 address (only fe80::): left out; give eth0 an IPv4 address",
            "gid_index": null, "nccl_alone": null, "nccl_told": null, "rail": null, "gids": [
              {"index": 0, "gid": "fe80:0000:0000:0000:0e42:a1ff:fe2b:3c4d", "ipv4": null, "type": "RoCE v1",
               "netdev": "eth0", "used": false, "rule": "wrong-version", "reason": "RoCE v1"},
              {"index": 1, "gid": "fe80:0000:0000:0000:0e42:a1ff:fe2b:3c4d", "ipv4": null, "type": "RoCE v2",
               "netdev": "eth0", "used": false, "rule": "port-left-out", "reason": "the port is left out"}]}]},
        {"name": "mlx5_1", "driver": "mlx5_core", "pci": "0000:53:00.1", "numa_node": 1, "node_type": "CA",
         "firmware": "20.35.1012", "board": "MT_0000000223", "physical_function": "0000:53:00.0",
         "device_file": "/dev/infiniband/uverbs1", "netdevs": ["eth1"], "selected": true,
         "reason": "is used: RoCE, GID 3 (10.0.1.1), 200 Gb/s", "ports": [
           {"port": 1, "state": "ACTIVE", "physical_state": "LinkUp", "link_layer": "Ethernet", "rate_gbps": 200.0,
            "selected": true, "rule": "used", "reason": "is used: RoCE, GID 3 (10.0.1.1), 200 Gb/s", "gid_index": 3,
            "nccl_alone": 3, "nccl_told": 3, "rail": null, "gids": [
              {"index": 1, "gid": "fe80:0000:0000:0000:0e42:a1ff:fe2b:3c4d", "ipv4": null, "type": "RoCE v2",
               "netdev": "eth1", "used": false, "rule": "less-preferred", "reason": "index 3 is preferred: IPv4"},
              {"index": 2, "gid": "0000:0000:0000:0000:0000:ffff:0a00:0101", "ipv4": "10.0.1.1", "type": "RoCE v1",
               "netdev": "eth1", "used": false, "rule": "wrong-version", "reason": "RoCE v1"},
              {"index": 3, "gid": "0000:0000:0000:0000:0000:ffff:0a00:0101", "ipv4": "10.0.1.1", "type": "RoCE v2",
               "netdev": "eth1", "used": true, "rule": "used", "reason": "RoCE v2, IPv4"}]}]}],
        "warnings": ["mlx5_0 port 1 has no RoCE v2 address (only fe80::): left out; give eth0 an IPv4 address"]})");
    EXPECT_EQ(found.dump(1), expected.dump(1)); // the order too
}

TEST(GidsJson, TellsWhatNcclWouldTake) {
    Fabric fabric;
    add_roce(fabric, "mlx5_0", "eth0", "fd00::1"); // IPv6 only: NCCL alone stays at index 0
    const auto port = json(fabric)["hcas"][0]["ports"][0];
    EXPECT_EQ(port["gid_index"], 3);
    EXPECT_EQ(port["nccl_alone"], 0);
    EXPECT_EQ(port["nccl_told"], 3);
}

TEST(GidsJson, FiltersByDeviceAndPort) {
    Fabric fabric = machine();
    fabric.hcas[0].ports.push_back(make_port());
    fabric.hcas[0].ports[1].number = 2;
    const auto one = json(fabric, {.device = "mlx5_0"});
    ASSERT_EQ(one["hcas"].size(), 1U);
    EXPECT_EQ(one["hcas"][0]["ports"].size(), 2U);
    const auto second = json(fabric, {.port = 2});
    ASSERT_EQ(second["hcas"].size(), 1U);
    ASSERT_EQ(second["hcas"][0]["ports"].size(), 1U);
    EXPECT_EQ(second["hcas"][0]["ports"][0]["port"], 2);
    EXPECT_EQ(second["hcas"][0]["ports"][0]["rule"], "no-gid");
}

TEST(GidsJson, BytesOfFilesBecomeValidText) {
    Fabric fabric = machine();
    fabric.hcas[0].driver = "\xff\xfe\x1b";
    fabric.hcas[0].firmware = "\xff";
    fabric.hcas[0].ports[0].state = "\xc3\x28";
    const auto broken = json(fabric, {}, "host\xff");
    EXPECT_EQ(Json::parse(broken.dump())->at("host"), "host\xef\xbf\xbd");
}

// --- The command ----------------------------------------------------------------------------------------------------

/// Runs the command with its output caught.
struct Run {
    int code;
    std::string out;
    std::string err;
};
Run run(const GidsOptions& options) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = exit_code_of(gids_command(options));
    (void)std::fflush(stdout);
    return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

TEST(GidsCommand, GoodMachine) {
    Machine machine;
    machine.connectx("mlx5_0", "eth0", "10.0.0.1", below_root_port("50", "53")).tree().file("/etc/hostname", "n07\n");
    (void)machine.read();
    GidsOptions options;
    options.settings.root = machine.tree().path().string();
    const auto text = run(options);
    EXPECT_EQ(text.code, 0);
    EXPECT_EQ(places(text.out), "mlx5_0:1:3 ");
    EXPECT_EQ(text.err, "");
    options.all = true;
    EXPECT_EQ(places(run(options).out), "mlx5_0:1:0 mlx5_0:1:1 mlx5_0:1:2 mlx5_0:1:3 ");
    options.show_gids = true;
    EXPECT_NE(run(options).out.find("n_gids_found=4\n"), std::string::npos);
    options.json = true;
    EXPECT_EQ(Json::parse(run(options).out)->at("host"), "n07");
    options.filter.device = "mlx5_9";
    const auto absent = run(options);
    EXPECT_EQ(absent.code, 3);
    EXPECT_EQ(absent.out, "");
    EXPECT_EQ(absent.err, "rdma-nccl: no RDMA device mlx5_9 on this node; there are mlx5_0\n");
    options.filter.device = "mlx5_0";
    options.filter.port = 4;
    EXPECT_EQ(run(options).code, 3);
}

TEST(GidsCommand, ExitCodes) {
    Machine machine;
    (void)machine.read();
    GidsOptions options;
    options.settings.root = machine.tree().path().string();
    EXPECT_EQ(run(options).code, 3); // no RDMA at all
    EXPECT_NE(run(options).err.find("rdma-nccl: no RDMA device"), std::string::npos);
    EXPECT_EQ(run(options).out, "");
    options.show_gids = true;
    EXPECT_EQ(run(options).out, show_gids_head + "n_gids_found=0\n");
    options.show_gids = false;
    machine.connectx("mlx5_0", "eth0", "", below_root_port("50", "53"));
    const auto warning = run(options);
    EXPECT_EQ(warning.code, 1); // link-local only
    EXPECT_NE(warning.err.find("rdma-nccl: warning: mlx5_0 port 1 has only a link-local address"), std::string::npos);
    machine.tree().file("/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
    EXPECT_EQ(run(options).code, 2);
    options.settings.root = "/does/not/exist";
    EXPECT_EQ(run(options).code, 3);
}

TEST(GidsCommand, WarningsOnPortsThatAreNotShownDoNotCount) {
    Machine machine;
    machine.connectx("mlx5_0", "eth0", "10.0.0.1", below_root_port("50", "53"));
    machine.connectx("mlx5_1", "eth1", "", below_root_port("60", "63"));
    (void)machine.read();
    GidsOptions options;
    options.settings.root = machine.tree().path().string();
    EXPECT_EQ(run(options).code, 1); // mlx5_1 lacks an address
    options.filter.device = "mlx5_0";
    const auto good = run(options);
    EXPECT_EQ(good.code, 0);
    EXPECT_EQ(good.err, "");
    options.filter.device = "mlx5_1";
    const auto bad = run(options);
    EXPECT_EQ(bad.code, 1);
    EXPECT_NE(bad.err.find("mlx5_1 port 1"), std::string::npos);
}

/// The command line, on a machine with one HCA.
Run run_line(const std::string& arguments) {
    Machine machine;
    machine.connectx("mlx5_0", "eth0", "10.0.0.1", below_root_port("50", "53"));
    (void)machine.read();
    CommandLine line("");
    int code = -1;
    add_gids_command(line.command(), code);
    const auto text = "rdma-nccl gids --conf /dev/null --root " + machine.tree().path().string() + " " + arguments;
    std::vector<std::string> words;
    for (const auto word : split_words(text)) {
        words.emplace_back(word);
    }
    std::vector<char*> pointers;
    for (auto& word : words) {
        pointers.push_back(word.data());
    }
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    (void)line.run(static_cast<int>(pointers.size()), pointers.data());
    (void)std::fflush(stdout);
    return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

TEST(GidsLine, FormsAndFilters) {
    EXPECT_EQ(places(run_line("").out), "mlx5_0:1:3 ");
    EXPECT_EQ(places(run_line("--all --version v1").out), "mlx5_0:1:0 mlx5_0:1:2 ");
    EXPECT_EQ(places(run_line("--all --version 2 --family ipv6").out), "mlx5_0:1:1 ");
    EXPECT_EQ(places(run_line("--all --version v2 --family ipv4").out), "mlx5_0:1:3 ");
    EXPECT_NE(run_line("--show-gids --version 1").out.find("n_gids_found=2\n"), std::string::npos);
    EXPECT_EQ(Json::parse(run_line("--json --device mlx5_0 --port 1").out)->at("schema"), 1);
}

TEST(GidsLine, RefusesWhatItDoesNotKnow) {
    EXPECT_TRUE(run_line("--version v3").err.starts_with("--version: is v1 or v2, not v3\n"));
    EXPECT_TRUE(run_line("--family ip").err.starts_with("--family: is ipv4 or ipv6, not ip\n"));
    EXPECT_EQ(run_line("--port one").out, "");
    EXPECT_EQ(run_line("--json --show-gids").out, "");
    EXPECT_EQ(run_line("--device mlx5_7").code, 3);
}

} // namespace
} // namespace rdma_nccl
