#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the command says of RDMA devices, against the devices: usage: test_fabric.py SUITE [TEST...]. As root.

Soft-RoCE in two virtual machines: real sysfs, real GID tables, real verbs, a network between them.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import shutil
import sys
import tempfile
import time
import unittest

from testbed import SOON, End, Lab, LabTest, pingpong, write_bandwidth
from project import run_inside

SUITE = "bookworm"
ZERO = ipaddress.IPv6Address(0)

# Rules by which an entry would not work at all; by all others it would, but a better entry of its port is used.
UNUSABLE = {"not-unicast", "wrong-version", "type-unknown", "netdev-unknown", "loopback", "netdev-down"}
WORKS_TOO = {"less-preferred", "stacked", "later"}

# Every kind of entry: a second IPv4 address, IPv6, a VLAN, a hole where an address was, a VLAN that is down and one that
# another network namespace has.
MANY_ADDRESSES = """
ip address add 10.77.1.$((200 + NUMBER))/24 dev eth1
ip address add 10.77.1.$((100 + NUMBER))/24 dev eth1
ip address add fd77:1::$NUMBER/64 dev eth1 nodad
ip link add link eth1 name eth1.100 type vlan id 100
ip link set eth1.100 up
ip address add 192.168.100.$NUMBER/24 dev eth1.100
ip link add link eth1 name eth1.101 type vlan id 101
ip address add 192.168.101.$NUMBER/24 dev eth1.101
ip address delete 10.77.1.$((200 + NUMBER))/24 dev eth1
"""
NUMBER = "NUMBER=${HOSTNAME#n0}\n"


def prefix(gid: str) -> str:
    return str(ipaddress.IPv6Address(gid))


class Fabric(LabTest):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab("--suite", SUITE)

    @classmethod
    def tearDownClass(cls):
        cls.lab.down()

    # --- What the command says ---

    def gids(self, node: str, *options: str) -> dict:
        return json.loads(self.lab.run(node, "rdma-nccl", "gids", "--json", *options).out)

    def port(self, node: str, device: str) -> dict:
        (hca,) = [hca for hca in self.gids(node)["hcas"] if hca["name"] == device]
        (port,) = hca["ports"]
        return port

    def used(self, node: str, device: str = "mlx5_0") -> End:
        port = self.port(node, device)
        self.assertTrue(port["selected"], port["reason"])
        return End(node, device, port["gid_index"])

    def variables(self, node: str, *environment: str, **options) -> dict[str, str]:
        """What `rdma-nccl env` sets."""
        said = json.loads(self.lab.run(node, "env", *environment, "rdma-nccl", "env", "--json", **options).out)
        return {each["name"]: each["value"] for each in said["variables"] if each["value"] is not None}

    # --- The table ---

    def test_table_is_what_the_kernel_says(self):
        """Against sysfs, libibverbs and `rdma link`, with every kind of entry in it."""
        self.lab.everywhere(NUMBER + MANY_ADDRESSES)
        for node in self.lab.nodes:
            ours = {
                (hca["name"], gid["index"]): (gid["gid"], gid["type"], gid["netdev"])
                for hca in self.gids(node)["hcas"]
                for gid in hca["ports"][0]["gids"]
            }
            self.assertGreaterEqual(len(ours), 8)
            self.assertEqual(ours, self.gids_of_sysfs(node))
            verbs = {key: (ipaddress.IPv6Address(gid), kind) for key, (gid, kind, _) in ours.items()}
            self.assertEqual(verbs, self.gids_of_verbs(node))
            states = {
                (hca["name"], hca["ports"][0]["state"], hca["netdevs"][0]) for hca in self.gids(node)["hcas"]
            }
            links = re.findall(r"^link (\S+)/1 state (\S+) .*netdev (\S+)", self.lab.good(node, "rdma", "link"), re.M)
            self.assertEqual(states, set(links))

    def gids_of_sysfs(self, node: str) -> dict:
        lines = self.lab.script(
            node,
            """cd /sys/class/infiniband; for device in *; do cd /sys/class/infiniband/$device/ports/1
            for index in $(grep -rv 0000:0000:0000:0000:0000:0000:0000:0000 gids | sed 's/[^0-9]*\\([0-9]*\\):.*/\\1/'); do
            echo "$device $index $(< gids/$index) $(< gid_attrs/ndevs/$index) $(< gid_attrs/types/$index)"; done; done""",
        ).splitlines()
        words = [line.split(maxsplit=4) for line in lines]
        return {(device, int(index)): (gid, kind, netdev) for device, index, gid, netdev, kind in words}

    def gids_of_verbs(self, node: str) -> dict:
        found = {}
        device = ""
        for line in self.lab.good(node, "ibv_devinfo", "-v").splitlines():
            if name := re.match(r"hca_id:\s*(\S+)", line):
                device = name[1]
            if entry := re.match(r"\s*GID\[\s*(\d+)\]:\s*(\S+), (.*)", line):
                found[device, int(entry[1])] = (ipaddress.IPv6Address(entry[2]), entry[3])
        return found

    def test_table_of_show_gids(self):
        """As the tool prints it: DEV PORT INDEX GID IPv4 VER DEV."""
        self.lab.everywhere(NUMBER + MANY_ADDRESSES)
        lines = self.lab.good("n01", "rdma-nccl", "gids", "--show-gids").splitlines()
        rows = [line.split("\\t") for line in lines if line.startswith("mlx5_")]
        shown = {(row[0], int(row[2])): (row[3], row[-1]) for row in rows}
        wanted = {key: (gid, netdev) for key, (gid, _, netdev) in self.gids_of_sysfs("n01").items()}
        self.assertEqual(shown, wanted)
        self.assertIn(f"n_gids_found={len(wanted)}", lines)

    # --- The choice, and what it is worth ---

    def test_used_entry_works_and_unusable_ones_do_not(self):
        self.lab.everywhere(NUMBER + MANY_ADDRESSES)
        ports = {node: self.port(node, "mlx5_0") for node in self.lab.nodes}
        self.assertEqual(*[port["gid_index"] for port in ports.values()])
        self.assert_transfer(*[self.used(node) for node in self.lab.nodes])
        rules = {}
        for gid in ports["n01"]["gids"]:
            ends = [End(node, "mlx5_0", gid["index"]) for node in self.lab.nodes]
            rules[gid["rule"]] = True
            if gid["rule"] in UNUSABLE:
                self.assert_no_transfer(*ends)
            elif gid["rule"] in WORKS_TOO:
                done = pingpong(self.lab, *ends)
                self.assertTrue(done.good, f"{gid}:\\n{done.text}")
        self.assertEqual(set(rules), {"used", "less-preferred", "stacked", "later", "netdev-down"})
        empty = next(index for index in range(256) if index not in {gid["index"] for gid in ports["n01"]["gids"]})
        self.assertLess(empty, max(gid["index"] for gid in ports["n01"]["gids"]), "the table has a hole")
        self.assert_no_transfer(*[End(node, "mlx5_0", empty) for node in self.lab.nodes])

    def test_index_follows_the_addresses(self):
        """The first address goes, another comes: the index that was right is wrong then."""
        before = self.used("n01")
        self.lab.script("n01", "ip address add 10.77.1.101/24 dev eth1; ip address delete 10.77.1.1/24 dev eth1")
        after, other = self.used("n01"), self.used("n02")
        self.assertNotEqual(after.gid, before.gid)
        self.assertNotEqual(after.gid, other.gid, "the nodes' indices differ")
        self.assert_transfer(after, other)
        self.assert_no_transfer(before, other)
        self.lab.script("n01", "ip address add 10.77.1.1/24 dev eth1; ip address delete 10.77.1.101/24 dev eth1")
        self.assertEqual(self.used("n01"), before, "the slot is taken again")

    def test_ports_whose_indices_differ(self):
        """No one index fits, so NCCL is told the rule; its own choice by it carries data."""
        self.lab.everywhere(NUMBER + "ip address add 10.77.2.$((100 + NUMBER))/24 dev eth2; ip address delete 10.77.2.$NUMBER/24 dev eth2")
        variables = self.variables("n01")
        self.assertEqual(variables["NCCL_IB_HCA"], "=mlx5_0:1,mlx5_1:1")
        self.assertNotIn("NCCL_IB_GID_INDEX", variables)
        self.assertEqual(variables["NCCL_IB_ROCE_VERSION_NUM"], "2")
        self.assertEqual(variables["NCCL_IB_ADDR_FAMILY"], "AF_INET")
        for device in ("mlx5_0", "mlx5_1"):
            port = self.port("n01", device)
            self.assertEqual(port["nccl_told"], port["gid_index"])
            self.assert_transfer(*[End(node, device, self.port(node, device)["nccl_told"]) for node in self.lab.nodes])

    def test_ipv6_alone(self):
        self.lab.everywhere(NUMBER + "ip address flush dev eth1 scope global; ip address add fd77:1::$NUMBER/64 dev eth1 nodad\\n"
            "ip address flush dev eth2 scope global; ip address add fd77:2::$NUMBER/64 dev eth2 nodad")
        self.assertEqual(self.variables("n01").get("NCCL_IB_ADDR_FAMILY"), "AF_INET6")
        ends = [self.used(node) for node in self.lab.nodes]
        for end in ends:
            gids = {gid["index"]: gid["gid"] for gid in self.port(end.node, "mlx5_0")["gids"]}
            self.assertTrue(gids[end.gid].startswith("fd77"))
        self.assert_transfer(*ends)

    def test_link_local_alone(self):
        """Works on one wire; there is a warning."""
        self.lab.everywhere("ip address flush dev eth1 scope global; ip address flush dev eth2 scope global")
        ends = [self.used(node) for node in self.lab.nodes]
        self.assertTrue(any("fe80" in text for text in self.gids("n01")["warnings"]), self.gids("n01")["warnings"])
        self.assert_transfer(*ends)

    def test_one_rail_without_an_address(self):
        """That rail is left out by name, and the other one works."""
        self.lab.script("n01", "ip address flush dev eth2 scope global")
        self.assertEqual(self.port("n01", "mlx5_1")["rule"], "link-local")
        self.assertEqual(self.variables("n01")["NCCL_IB_HCA"], "=mlx5_0:1")
        self.assert_transfer(*[self.used(node) for node in self.lab.nodes])

    # --- Names, stacks and speeds ---

    def test_any_name(self):
        self.lab.everywhere("rdma dev set mlx5_0 name rocep1s0f0; rdma link delete mlx5_1; rdma link add mlx5_bond_0 type rxe netdev eth2")
        self.assertEqual(self.variables("n02")["NCCL_IB_HCA"], "=mlx5_bond_0:1,rocep1s0f0:1")
        self.assert_transfer(*[self.used(node, "rocep1s0f0") for node in self.lab.nodes])
        self.assert_transfer(*[self.used(node, "mlx5_bond_0") for node in self.lab.nodes])

    def test_vlan_alone(self):
        """The rail's addresses are on a VLAN."""
        self.lab.everywhere(
            NUMBER + "ip address flush dev eth1 scope global; ip link add link eth1 name eth1.100 type vlan id 100\\n"
            "ip link set eth1.100 up; ip address add 192.168.100.$NUMBER/24 dev eth1.100"
        )
        ends = [self.used(node) for node in self.lab.nodes]
        gids = {gid["index"]: gid for gid in self.port("n01", "mlx5_0")["gids"]}
        self.assertEqual((gids[ends[0].gid]["netdev"], gids[ends[0].gid]["ipv4"]), ("eth1.100", "192.168.100.1"))
        self.assert_transfer(*ends)

    def test_bond(self):
        """One device on a bond of both rails, which fails over while data flows."""
        self.lab.everywhere(
            NUMBER + "rdma link delete mlx5_0; rdma link delete mlx5_1\\n"
            "ip link add bond0 type bond mode active-backup miimon 100\\n"
            "for rail in eth1 eth2; do ip address flush dev $rail; ip link set $rail down; ip link set $rail master bond0; done\\n"
            "ip link set bond0 up; ip address add 10.77.9.$NUMBER/24 dev bond0; rdma link add mlx5_bond_0 type rxe netdev bond0\\n"
            "until grep -q ACTIVE /sys/class/infiniband/mlx5_bond_0/ports/1/state; do sleep 0.1; done"
        )
        self.assertEqual(self.variables("n01")["NCCL_IB_HCA"], "=mlx5_bond_0:1")
        self.assert_transfer(*[self.used(node, "mlx5_bond_0") for node in self.lab.nodes])

    def test_mtu(self):
        """RDMA's MTU follows the interface's, and data goes through at both."""
        for mtu, active in ((9000, 4096), (1500, 1024)):
            self.lab.everywhere(f"ip link set eth1 mtu {mtu}")
            shown = self.lab.good("n01", "ibv_devinfo", "-d", "mlx5_0")
            self.assertRegex(shown, rf"active_mtu:\\s+{active} ")
            self.assert_transfer(*[self.used(node) for node in self.lab.nodes])

    # --- Faults ---

    def test_link_down_and_up(self):
        self.lab.script("n01", "ip link set eth1 down")
        port = self.port("n01", "mlx5_0")
        self.assertEqual(port["rule"], "not-active")
        self.assertIn("DOWN", port["reason"])
        self.assertEqual(self.variables("n01")["NCCL_IB_HCA"], "=mlx5_1:1")
        self.assert_no_transfer(End("n01", "mlx5_0", 1), End("n02", "mlx5_0", 1))
        self.lab.script("n01", "ip link set eth1 up")
        self.assert_transfer(*[self.used(node) for node in self.lab.nodes])

    def test_all_links_down(self):
        """Nothing to use: NCCL is to use sockets, and is told so, with a warning."""
        self.lab.script("n01", "ip link set eth1 down; ip link set eth2 down")
        said = self.lab.run("n01", "rdma-nccl", "gids")
        self.assertEqual(said.status, 2)
        self.assertIn("mlx5_0", said.out)
        self.assertNotIn("mlx5_0", self.variables("n01").get("NCCL_IB_HCA", ""))

    def test_no_device_at_all(self):
        self.lab.script("n01", "rdma link delete mlx5_0; rdma link delete mlx5_1")
        self.assertEqual(self.gids("n01")["hcas"], [])
        self.assertNotIn("NCCL_IB_HCA", self.variables("n01"))

    def test_bad_links(self):
        """Loss, delay and a slow link change no choice, and nothing is lost; the device counts what it sent again."""
        ends = [self.used(node) for node in self.lab.nodes]
        for fault in ("loss 2%", "delay 5ms", "rate 50mbit"):
            self.lab.script("n02", f"tc qdisc replace dev eth1 root netem {fault}")
            self.assertEqual([self.used(node) for node in self.lab.nodes], ends)
            done = pingpong(self.lab, *ends, seconds=2 * SOON)
            self.assertTrue(done.good, f"{fault}:\\n{done.text}")
            done = write_bandwidth(self.lab, *ends, "-n", "100", "-s", "16384", seconds=2 * SOON)
            self.assertTrue(done.good, f"{fault}:\\n{done.text}")
            if fault.startswith("loss"):
                counters = "cd /sys/class/infiniband/mlx5_0/ports/1/hw_counters; cat out_of_seq_request completer_retry_err rcvd_seq_err"
                counted = [int(word) for node in self.lab.nodes for word in self.lab.script(node, counters).split()]
                self.assertGreater(sum(counted), 0)

    def test_device_removed_under_load(self):
        """Traffic ends; the plan knows at once; both nodes live on, and the device comes back."""
        server, client = [self.used(node) for node in self.lab.nodes]
        port = self.lab.next_port()
        common = ["timeout", "--kill-after=2", "30", "ib_write_bw", "-d", "mlx5_0", "-x", str(server.gid), "-p", str(port), "-F"]
        common += ["-D", "20", "-s", "65536"]
        serving = self.lab.start("n01", *common)
        self.lab.good("n01", "/lab/guest/await-port", str(port), "20")
        asking = self.lab.start("n02", *common, self.lab.state.machines()["n01"]["address"])
        counter = "/sys/class/infiniband/mlx5_0/ports/1/hw_counters/rcvd_pkts"
        self.lab.script("n01", f"begin=$(< {counter}); until (($(< {counter}) > begin + 100)); do sleep 0.1; done")
        self.lab.script("n01", "rdma link delete mlx5_0")
        self.assertEqual([hca["name"] for hca in self.gids("n01")["hcas"]], ["mlx5_1"])
        self.assertEqual(self.variables("n01")["NCCL_IB_HCA"], "=mlx5_1:1")
        for command in (serving, asking):
            command.kill()
            command.wait(PATIENCE)
        self.lab.script("n01", "rdma link add mlx5_0 type rxe netdev eth1; chmod 666 /dev/infiniband/uverbs*")
        self.assert_transfer(*[self.used(node) for node in self.lab.nodes])

    def test_device_file_that_may_not_be_opened(self):
        """Of the devices, the one that this user cannot open is left out; verbs itself agrees."""
        self.lab.script("n01", "chmod 600 /dev/infiniband/$(basename /sys/class/infiniband/mlx5_0/device/infiniband_verbs/uverbs* 2> /dev/null || grep -l '^mlx5_0$' /sys/class/infiniband_verbs/uverbs*/ibdev | sed 's,.*/\\\\(uverbs[0-9]*\\\\)/ibdev,\\\\1,')")
        said = json.loads(self.lab.run("n01", "rdma-nccl", "gids", "--json", user="alice").out)
        rules = {hca["name"]: hca["ports"][0]["rule"] for hca in said["hcas"]}
        self.assertEqual(rules, {"mlx5_0": "no-device-file", "mlx5_1": "used"})
        self.assertNotEqual(self.lab.run("n01", "ibv_devinfo", "-d", "mlx5_0", user="alice").status, 0)
        self.assertEqual(self.lab.run("n01", "ibv_devinfo", "-d", "mlx5_1", user="alice").status, 0)
        self.assertEqual(self.port("n01", "mlx5_0")["rule"], "used", "root may open it")

    def test_netdev_of_another_namespace(self):
        """Its device stays visible, its addresses are none of ours."""
        self.lab.script("n01", "ip netns add other; ip link set eth2 netns other")
        try:
            port = self.port("n01", "mlx5_1")
            self.assertFalse(port["selected"], port)
            self.assertEqual(self.variables("n01")["NCCL_IB_HCA"], "=mlx5_0:1")
        finally:
            self.lab.script("n01", "ip netns exec other ip link set eth2 netns 1; ip netns delete other")

    def test_device_on_the_loopback(self):
        self.lab.script("n01", "rdma link add rxe_lo type rxe netdev lo")
        port = self.port("n01", "rxe_lo")
        self.assertFalse(port["selected"], port)
        self.assertNotIn("rxe_lo", self.variables("n01")["NCCL_IB_HCA"])

    # --- The whole plan ---

    def test_saved_machine_gives_the_same_plan(self):
        """`explain --save`, replayed outside of the machine."""
        self.lab.everywhere(NUMBER + MANY_ADDRESSES)
        here = json.loads(self.lab.run("n01", "rdma-nccl", "explain", "--json").out)
        self.lab.run("n01", "rdma-nccl", "explain", "--save", "/lab/saved-n01")
        with tempfile.TemporaryDirectory() as scratch:
            tree = shutil.copytree(self.lab.state.path("lab", "saved-n01"), os.path.join(scratch, "tree"), symlinks=True)
            replayed = json.loads(run_inside(self.image, tree, "explain", "--json").stdout)
        self.assertEqual(replayed, here)


def main() -> int:
    global SUITE
    SUITE = sys.argv.pop(1)
    unittest.main(verbosity=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
