// SPDX-License-Identifier: Apache-2.0
// `rdma-nccl gids`
#include "tools/gids.h"

#include "tests/unit/fabric_machine.h"
#include "tests/unit/fabric_values.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>

namespace rdma_nccl {
namespace {

using test::add_infiniband;
using test::add_roce;
using test::below_root_port;
using test::Machine;

Fabric machine() {
    Fabric fabric;
    add_roce(fabric, "mlx5_0", "eth0", "10.0.0.1");
    add_roce(fabric, "mlx5_1", "eth1", "10.0.1.1");
    fabric.default_route_netdevs = {"eth0"};
    return fabric;
}

std::string table(const Fabric& fabric, const GidsFilter& filter = {}) {
    return gids_table(fabric, choose_fabric(fabric, {}), filter);
}

TEST(GidsTable, UsedEntriesThenPortsLeftOut) {
    EXPECT_EQ(
        table(machine()),
        "DEV     PORT  INDEX  GID                                      IPv4      VER      NETDEV  USED/REASON\n"
        "mlx5_1  1     3      0000:0000:0000:0000:0000:ffff:0a00:0101  10.0.1.1  RoCE v2  eth1    used, 200 Gb/s\n"
        "mlx5_0  1     -      -                                        -         -        eth0    is the management "
        "port (eth0 has the default route): left out; hca= can name it\n");
}

TEST(GidsTable, AllEntriesOfOneDevice) {
    EXPECT_EQ(
        table(machine(), {.all = true, .device = "mlx5_1", .port = 1}),
        "DEV     PORT  INDEX  GID                                      IPv4      VER      NETDEV  USED/REASON\n"
        "mlx5_1  1     0      fe80:0000:0000:0000:0e42:a1ff:fe2b:3c4d  -         RoCE v1  eth1    not used: RoCE v1\n"
        "mlx5_1  1     1      fe80:0000:0000:0000:0e42:a1ff:fe2b:3c4d  -         RoCE v2  eth1    not used: index 3 is "
        "preferred: IPv4\n"
        "mlx5_1  1     2      0000:0000:0000:0000:0000:ffff:0a00:0101  10.0.1.1  RoCE v1  eth1    not used: RoCE v1\n"
        "mlx5_1  1     3      0000:0000:0000:0000:0000:ffff:0a00:0101  10.0.1.1  RoCE v2  eth1    used, 200 Gb/s\n");
}

TEST(GidsTable, InfinibandShowsItsOwnGid) {
    Fabric fabric;
    add_infiniband(fabric, "mlx5_0");
    EXPECT_EQ(table(fabric),
              "DEV     PORT  INDEX  GID                                      IPv4  VER  NETDEV  USED/REASON\n"
              "mlx5_0  1     0      fe80:0000:0000:0000:0000:0000:0000:0001  -     IB   -       used, 400 Gb/s\n");
}

TEST(GidsTable, AllTellsWhatCouldNotBeRead) {
    Fabric fabric = machine();
    fabric.hcas[0].problems = {"node_guid: broken"};
    fabric.hcas[0].ports[0].problems = {"gids/7: broken"};
    fabric.problems = {"/sys/class/net: broken"};
    const auto text = table(fabric, {.all = true, .device = {}, .port = {}});
    EXPECT_NE(text.find("note: /sys/class/net: broken\nnote: mlx5_0: node_guid: broken\n"
                        "note: mlx5_0 port 1: gids/7: broken\n"),
              std::string::npos)
        << text;
    EXPECT_EQ(table(fabric).find("note:"), std::string::npos);
}

TEST(GidsJson, HasTheSchema) {
    const Fabric fabric = machine();
    const auto json = gids_json("n01", fabric, choose_fabric(fabric, {}));
    const auto expected = nlohmann::json::parse(R"({"schema": 1, "host": "n01", "hcas": [
        {"name": "mlx5_0", "driver": "mlx5_core", "pci": "", "numa_node": null, "netdevs": ["eth0"], "selected": false,
         "reason": "is the management port (eth0 has the default route): left out; hca= can name it", "ports": [
           {"port": 1, "state": "ACTIVE", "link_layer": "Ethernet", "rate_gbps": 200.0, "selected": false,
            "reason": "is the management port (eth0 has the default route): left out; hca= can name it",
            "gid_index": null, "gids": [
              {"index": 0, "gid": "fe80:0000:0000:0000:0e42:a1ff:fe2b:3c4d", "ipv4": null, "type": "RoCE v1",
               "netdev": "eth0", "used": false, "reason": "RoCE v1"},
              {"index": 1, "gid": "fe80:0000:0000:0000:0e42:a1ff:fe2b:3c4d", "ipv4": null, "type": "RoCE v2",
               "netdev": "eth0", "used": false, "reason": "index 3 is preferred: IPv4"},
              {"index": 2, "gid": "0000:0000:0000:0000:0000:ffff:0a00:0001", "ipv4": "10.0.0.1", "type": "RoCE v1",
               "netdev": "eth0", "used": false, "reason": "RoCE v1"},
              {"index": 3, "gid": "0000:0000:0000:0000:0000:ffff:0a00:0001", "ipv4": "10.0.0.1", "type": "RoCE v2",
               "netdev": "eth0", "used": false, "reason": "the port is left out"}]}]},
        {"name": "mlx5_1", "driver": "mlx5_core", "pci": "", "numa_node": null, "netdevs": ["eth1"], "selected": true,
         "reason": "is used: RoCE, GID 3 (10.0.1.1), 200 Gb/s", "ports": [
           {"port": 1, "state": "ACTIVE", "link_layer": "Ethernet", "rate_gbps": 200.0, "selected": true,
            "reason": "is used: RoCE, GID 3 (10.0.1.1), 200 Gb/s", "gid_index": 3, "gids": [
              {"index": 0, "gid": "fe80:0000:0000:0000:0e42:a1ff:fe2b:3c4d", "ipv4": null, "type": "RoCE v1",
               "netdev": "eth1", "used": false, "reason": "RoCE v1"},
              {"index": 1, "gid": "fe80:0000:0000:0000:0e42:a1ff:fe2b:3c4d", "ipv4": null, "type": "RoCE v2",
               "netdev": "eth1", "used": false, "reason": "index 3 is preferred: IPv4"},
              {"index": 2, "gid": "0000:0000:0000:0000:0000:ffff:0a00:0101", "ipv4": "10.0.1.1", "type": "RoCE v1",
               "netdev": "eth1", "used": false, "reason": "RoCE v1"},
              {"index": 3, "gid": "0000:0000:0000:0000:0000:ffff:0a00:0101", "ipv4": "10.0.1.1", "type": "RoCE v2",
               "netdev": "eth1", "used": true, "reason": "RoCE v2, IPv4"}]}]}]})");
    EXPECT_EQ(json, expected) << json.dump(2);
}

TEST(GidsJson, FiltersByDeviceAndPort) {
    const Fabric fabric = machine();
    const auto choice = choose_fabric(fabric, {});
    const auto one = gids_json("", fabric, choice, {.all = false, .device = "mlx5_0", .port = {}});
    ASSERT_EQ(one["hcas"].size(), 1U);
    EXPECT_EQ(one["hcas"][0]["ports"].size(), 1U);
    const auto none = gids_json("", fabric, choice, {.all = false, .device = "mlx5_0", .port = 2});
    EXPECT_TRUE(none["hcas"][0]["ports"].empty());
}

TEST(GidsJson, BytesOfFilesBecomeValidText) {
    Fabric fabric = machine();
    fabric.hcas[0].driver = "\xff\xfe\x1b";
    fabric.hcas[0].ports[0].state = "\xc3\x28";
    const auto json = gids_json("host\xff", fabric, choose_fabric(fabric, {}));
    EXPECT_NO_THROW((void)json.dump());
    EXPECT_EQ(json["host"], "host?");
}

/// Runs the command with its output caught.
struct Run {
    int code;
    std::string out;
    std::string err;
};
Run run(const GidsOptions& options) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = gids_command(options);
    (void)std::fflush(stdout);
    return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

TEST(GidsCommand, GoodMachine) {
    Machine machine;
    machine.connectx("mlx5_0", "eth0", "10.0.0.1", below_root_port("50", "53")).tree().file("/etc/hostname", "n07\n");
    (void)machine.read();
    GidsOptions options;
    options.root = machine.tree().path().string();
    const auto text = run(options);
    EXPECT_EQ(text.code, 0);
    EXPECT_NE(text.out.find("mlx5_0"), std::string::npos);
    EXPECT_EQ(text.err, "");
    options.json = true;
    EXPECT_EQ(nlohmann::json::parse(run(options).out)["host"], "n07");
    options.device = "mlx5_9";
    const auto absent = run(options);
    EXPECT_EQ(absent.code, 3);
    EXPECT_EQ(absent.out, "");
    EXPECT_EQ(absent.err, "rdma-nccl: no RDMA device mlx5_9 on this node; there are mlx5_0\n");
    options.device = "mlx5_0";
    options.port = 4;
    EXPECT_EQ(run(options).code, 3);
}

TEST(GidsCommand, ExitCodes) {
    Machine machine;
    (void)machine.read();
    GidsOptions options;
    options.root = machine.tree().path().string();
    EXPECT_EQ(run(options).code, 3); // no RDMA at all
    EXPECT_NE(run(options).err.find("rdma-nccl: no RDMA device"), std::string::npos);
    machine.connectx("mlx5_0", "eth0", "", below_root_port("50", "53"));
    const auto warning = run(options);
    EXPECT_EQ(warning.code, 1); // link-local only
    EXPECT_NE(warning.err.find("rdma-nccl: warning: mlx5_0 port 1 has only a link-local address"), std::string::npos);
    machine.tree().file("/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
    EXPECT_EQ(run(options).code, 2);
    options.root = "/does/not/exist";
    EXPECT_EQ(run(options).code, 3);
}

} // namespace
} // namespace rdma_nccl
