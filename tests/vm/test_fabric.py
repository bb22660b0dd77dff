#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the command says of RDMA devices, against the devices: usage: test_fabric.py SUITE [TEST...]. As root.

Soft-RoCE in two virtual machines: real sysfs, real GID tables, real verbs, a network between them.
"""

from __future__ import annotations

import ipaddress
import json
import re
import sys
import tarfile
import tempfile
import unittest

from testbed import PATIENCE, SOON, End, Lab, LabTest, get_image, pingpong, run_inside, write_bandwidth

SUITE = "bookworm"

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
UVERBS = "basename $(dirname $(grep -l '^mlx5_0$' /sys/class/infiniband_verbs/*/ibdev))"
NUMBER = "NUMBER=${HOSTNAME#n0}\n"


def port_of(gids: dict, device: str) -> dict:
    (hca,) = [hca for hca in gids["hcas"] if hca["name"] == device]
    (port,) = hca["ports"]
    return port


class Fabric(LabTest):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(SUITE)
        cls.image = get_image(SUITE)

    @classmethod
    def tearDownClass(cls):
        cls.lab.down()

    # --- What the command says ---

    def gids(self, node: str) -> dict:
        (answer,) = self.ask([node], "gids")
        return answer

    def ask(self, nodes: list[str], subcommand: str) -> list[dict]:
        """All at a time."""
        commands = [self.lab.start(node, "rdma-nccl", subcommand, "--json") for node in nodes]
        return [json.loads(command.wait(PATIENCE).out) for command in commands]

    def port(self, node: str, device: str) -> dict:
        return port_of(self.gids(node), device)

    def both_used(self, device: str = "mlx5_0") -> list[End]:
        """The device of each node, with the entry that the plan uses."""
        ports = [port_of(answer, device) for answer in self.ask(self.lab.nodes, "gids")]
        for port in ports:
            self.assertTrue(port["selected"], port["reason"])
        return [End(node, device, port["gid_index"]) for node, port in zip(self.lab.nodes, ports)]

    def variables(self, node: str) -> dict[str, str]:
        """What `rdma-nccl env` sets."""
        (answer,) = self.ask([node], "env")
        return {each["name"]: each["value"] for each in answer["variables"] if each["value"] is not None}

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
            """for device in mlx5_0 mlx5_1; do
                cd /sys/class/infiniband/$device/ports/1
                for file in $(grep -l -r -v 0000:0000:0000:0000:0000:0000:0000:0000 gids); do
                    index=${file#gids/}
                    echo "$device $index $(< gids/$index) $(< gid_attrs/ndevs/$index) $(< gid_attrs/types/$index)"
                done
            done""",
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
        rows = [line.split("\t") for line in lines if line.startswith("mlx5_")]
        shown = {(row[0], int(row[2])): (row[3], row[-1]) for row in rows}
        wanted = {key: (gid, netdev) for key, (gid, _, netdev) in self.gids_of_sysfs("n01").items()}
        self.assertEqual(shown, wanted)
        self.assertIn(f"n_gids_found={len(wanted)}", lines)

    # --- The choice, and what it is worth ---

    def test_used_entry_works_and_unusable_ones_do_not(self):
        self.lab.everywhere(NUMBER + MANY_ADDRESSES)
        ports = {node: self.port(node, "mlx5_0") for node in self.lab.nodes}
        self.assertEqual(*[port["gid_index"] for port in ports.values()])
        for transfer in (pingpong, write_bandwidth):
            self.assert_transfer(*self.both_used(), transfer)
        rules = {}
        for gid in ports["n01"]["gids"]:
            ends = [End(node, "mlx5_0", gid["index"]) for node in self.lab.nodes]
            rules[gid["rule"]] = True
            if gid["rule"] in UNUSABLE:
                self.assert_no_transfer(*ends)
            elif gid["rule"] in WORKS_TOO:
                done = pingpong(self.lab, *ends)
                self.assertTrue(done.good, f"{gid}:\n{done.text}")
        self.assertEqual(set(rules), {"used", "less-preferred", "stacked", "later", "netdev-down"})
        empty = next(index for index in range(256) if index not in {gid["index"] for gid in ports["n01"]["gids"]})
        self.assertLess(empty, max(gid["index"] for gid in ports["n01"]["gids"]), "the table has a hole")
        self.assert_no_transfer(*[End(node, "mlx5_0", empty) for node in self.lab.nodes])

    def test_index_follows_the_addresses(self):
        """The first address goes, another comes: the index that was right is wrong then."""
        before, _ = self.both_used()
        # Of one network, the later address goes with the first one: these are of two.
        self.lab.script("n01", "ip address add 10.77.1.101/16 dev eth1; ip address delete 10.77.1.1/24 dev eth1")
        after, other = self.both_used()
        self.assertNotEqual(after.gid, before.gid)
        self.assertNotEqual(after.gid, other.gid, "the nodes' indices differ")
        self.assert_transfer(after, other)
        self.assert_no_transfer(before, other)
        self.lab.script("n01", "ip address add 10.77.1.1/24 dev eth1; ip address delete 10.77.1.101/16 dev eth1")
        self.assertEqual(self.both_used(), [before, other], "the slot is taken again")

    def test_ports_whose_indices_differ(self):
        """No one index fits, so NCCL is told the rule; its own choice by it carries data."""
        self.lab.everywhere(
            NUMBER + "ip address add 10.77.2.$((100 + NUMBER))/16 dev eth2; ip address delete 10.77.2.$NUMBER/24 dev eth2"
        )
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
        self.lab.everywhere(NUMBER + "ip address flush dev eth1 scope global; ip address add fd77:1::$NUMBER/64 dev eth1 nodad\n"
            "ip address flush dev eth2 scope global; ip address add fd77:2::$NUMBER/64 dev eth2 nodad")
        self.assertEqual(self.variables("n01").get("NCCL_IB_ADDR_FAMILY"), "AF_INET6")
        ends = self.both_used()
        for end in ends:
            gids = {gid["index"]: gid["gid"] for gid in self.port(end.node, "mlx5_0")["gids"]}
            self.assertTrue(gids[end.gid].startswith("fd77"))
        self.assert_transfer(*ends)

    def test_link_local_alone(self):
        """Works on one wire; there is a warning."""
        self.lab.everywhere("ip address flush dev eth1 scope global; ip address flush dev eth2 scope global")
        ends = self.both_used()
        self.assertTrue(any("fe80" in text for text in self.gids("n01")["warnings"]), self.gids("n01")["warnings"])
        self.assert_transfer(*ends)

    def test_one_rail_without_an_address(self):
        """That rail is left out by name, and the other one works."""
        self.lab.script("n01", "ip address flush dev eth2 scope global")
        self.assertEqual(self.port("n01", "mlx5_1")["rule"], "link-local")
        self.assertEqual(self.variables("n01")["NCCL_IB_HCA"], "=mlx5_0:1")
        self.assert_transfer(*self.both_used())

    # --- Names, stacks and speeds ---

    def test_any_name(self):
        self.lab.everywhere("rdma dev set mlx5_0 name rocep1s0f0; rdma link delete mlx5_1; rdma link add mlx5_bond_0 type rxe netdev eth2")
        self.assertEqual(self.variables("n02")["NCCL_IB_HCA"], "=mlx5_bond_0:1,rocep1s0f0:1")
        self.assert_transfer(*self.both_used("rocep1s0f0"))
        self.assert_transfer(*self.both_used("mlx5_bond_0"))

    def test_vlan_alone(self):
        """The rail's addresses are on a VLAN."""
        self.lab.everywhere(
            NUMBER + "ip address flush dev eth1 scope global; ip link add link eth1 name eth1.100 type vlan id 100\n"
            "ip link set eth1.100 up; ip address add 192.168.100.$NUMBER/24 dev eth1.100"
        )
        ends = self.both_used()
        gids = {gid["index"]: gid for gid in self.port("n01", "mlx5_0")["gids"]}
        self.assertEqual((gids[ends[0].gid]["netdev"], gids[ends[0].gid]["ipv4"]), ("eth1.100", "192.168.100.1"))
        self.assert_transfer(*ends)

    def test_bond(self):
        """One device on a bond of both rails, which fails over while data flows."""
        self.lab.everywhere(
            NUMBER + "rdma link delete mlx5_0; rdma link delete mlx5_1\n"
            "ip link add pair type bond mode active-backup miimon 100\n"
            "for rail in eth1 eth2; do ip address flush dev $rail; ip link set $rail down; ip link set $rail master pair; done\n"
            "ip link set pair up; ip address add 10.77.9.$NUMBER/24 dev pair; rdma link add mlx5_bond_0 type rxe netdev pair\n"
            "until grep -q ACTIVE /sys/class/infiniband/mlx5_bond_0/ports/1/state; do sleep 0.1; done"
        )
        self.assertEqual(self.variables("n01")["NCCL_IB_HCA"], "=mlx5_bond_0:1")
        self.assert_transfer(*self.both_used("mlx5_bond_0"))

    def test_mtu(self):
        """RDMA's MTU follows the interface's, and data goes through at both."""
        for mtu, active in ((9000, 4096), (1500, 1024)):
            self.lab.everywhere(f"ip link set eth1 mtu {mtu}")
            shown = self.lab.good("n01", "ibv_devinfo", "-d", "mlx5_0")
            self.assertRegex(shown, rf"active_mtu:\s+{active} ")
            self.assert_transfer(*self.both_used())

    # --- Faults ---

    def test_link_down_and_up(self):
        self.lab.script("n01", "ip link set eth1 down")
        port = self.port("n01", "mlx5_0")
        self.assertEqual(port["rule"], "not-active")
        self.assertIn("DOWN", port["reason"])
        self.assertEqual(self.variables("n01")["NCCL_IB_HCA"], "=mlx5_1:1")
        self.assert_no_transfer(End("n01", "mlx5_0", 1), End("n02", "mlx5_0", 1))
        self.lab.script("n01", "ip link set eth1 up")
        self.assert_transfer(*self.both_used())

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
        ends = self.both_used()
        self.addCleanup(self.lab.script, "n02", "tc qdisc delete dev eth1 root")
        for fault in ("loss 1%", "delay 5ms", "rate 50mbit"):
            self.lab.script("n02", f"tc qdisc replace dev eth1 root netem {fault}")
            if fault.startswith("loss"):
                before = self.sent_again()
                self.assert_transfer(*ends, write_bandwidth)
                self.assertGreater(self.sent_again(), before)
            else:
                self.assert_transfer(*ends)
        self.assertEqual(self.both_used(), ends)

    def sent_again(self) -> int:
        """What the devices of both nodes counted of lost packets."""
        counters = "cd /sys/class/infiniband/mlx5_0/ports/1/hw_counters; cat out_of_seq_request completer_retry_err rcvd_seq_err"
        return sum(int(word) for node in self.lab.nodes for word in self.lab.script(node, counters).split())

    def test_device_removed_under_load(self):
        """Traffic ends; the plan knows at once; both nodes live on, and the device comes back."""
        server, client = self.both_used()
        port = self.lab.next_port()
        common = ["timeout", "--kill-after=2", "30", "ib_write_bw", "-d", "mlx5_0", "-x", str(server.gid), "-p", str(port), "-F"]
        common += ["-D", "20", "-s", "65536"]
        serving = self.lab.start("n01", *common)
        self.lab.good("n01", "lab-agent", "await-port", str(port), "20")
        asking = self.lab.start("n02", *common, self.lab.state.machines()["n01"]["address"])
        counter = "/sys/class/infiniband/mlx5_0/ports/1/hw_counters/rcvd_pkts"
        self.lab.script("n01", f"begin=$(< {counter}); until (($(< {counter}) > begin + 100)); do sleep 0.1; done")
        deleting = self.lab.start("n01", "rdma", "link", "delete", "mlx5_0")  # waits until nobody has it open
        self.lab.script("n01", "while [[ -e /sys/class/infiniband/mlx5_0 ]]; do sleep 0.05; done")
        self.assertEqual([hca["name"] for hca in self.gids("n01")["hcas"]], ["mlx5_1"])
        self.assertEqual(self.variables("n01")["NCCL_IB_HCA"], "=mlx5_1:1")
        for command in (serving, asking):
            command.kill()
            command.wait(PATIENCE)
        self.assertEqual(deleting.wait(PATIENCE).status, 0)
        self.lab.script("n01", "rdma link add mlx5_0 type rxe netdev eth1")
        self.assert_transfer(*self.both_used())

    def test_device_file_that_may_not_be_opened(self):
        """Of the devices, the one that this user cannot open is left out; verbs itself agrees."""
        self.lab.script("n01", f"chmod 600 /dev/infiniband/$({UVERBS})")
        said = json.loads(self.lab.run("n01", "rdma-nccl", "gids", "--json", user="alice").out)
        rules = {hca["name"]: hca["ports"][0]["rule"] for hca in said["hcas"]}
        self.assertEqual(rules, {"mlx5_0": "no-device-file", "mlx5_1": "used"})
        self.assertNotEqual(self.lab.run("n01", "ibv_devinfo", "-d", "mlx5_0", user="alice").status, 0)
        self.assertEqual(self.lab.run("n01", "ibv_devinfo", "-d", "mlx5_1", user="alice").status, 0)
        self.assertEqual(self.port("n01", "mlx5_0")["rule"], "used", "root may open it")

    def test_interface_of_another_namespace(self):
        """A VLAN of the rail belongs to somebody else, with an address that the table shows us."""
        self.lab.script(
            "n01",
            """ip link add link eth1 name eth1.102 type vlan id 102; ip netns add other; ip link set eth1.102 netns other
            ip -netns other link set eth1.102 up; ip -netns other address add 192.168.102.1/24 dev eth1.102""",
        )
        try:
            rules = {gid["netdev"]: gid["rule"] for gid in self.port("n01", "mlx5_0")["gids"]}
            self.assertEqual(rules["eth1.102"], "netdev-unknown")
            self.assertEqual(self.port("n01", "mlx5_0")["gid_index"], 1)
        finally:
            self.lab.script("n01", "ip netns delete other")

    def test_device_on_the_loopback(self):
        self.lab.script("n01", "rdma link add rxe_lo type rxe netdev lo")
        port = self.port("n01", "rxe_lo")
        self.assertFalse(port["selected"], port)
        self.assertNotIn("rxe_lo", self.variables("n01")["NCCL_IB_HCA"])

    # --- The whole plan ---

    def test_saved_machine_gives_the_same_plan(self):
        """`explain --save`, replayed outside of the machine. (Of one rail: it takes a while to copy 3,000 files.)"""
        self.lab.script("n01", "rdma link delete mlx5_1\n" + NUMBER + MANY_ADDRESSES)
        (here,) = self.ask(["n01"], "explain")
        self.lab.run("n01", "rdma-nccl", "explain", "--save", "/tmp/saved")
        self.lab.script("n01", "tar --create --file=/lab/saved.tar --directory=/tmp/saved .")
        with tempfile.TemporaryDirectory() as tree:
            with tarfile.open(self.lab.state.path("lab", "saved.tar")) as archive:
                archive.extractall(tree)
            replayed = json.loads(run_inside(self.image, tree, "explain", "--json").stdout)
        self.assertEqual(replayed, here)


def main() -> int:
    global SUITE
    SUITE = sys.argv.pop(1)
    unittest.main(verbosity=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
