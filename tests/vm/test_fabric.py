# SPDX-License-Identifier: Apache-2.0
"""What the command says of RDMA devices, against the devices: real sysfs, real GID tables, real verbs."""

from __future__ import annotations

import ipaddress
import json
import re
import tarfile
import tempfile
import time

from testbed import PATIENCE, End, LabTest, on_each_suite, pingpong, write_bandwidth

# Rules by which an entry would not work at all; by the others it would, but a better entry of its port is used.
UNUSABLE = {"not-unicast", "wrong-version", "type-unknown", "netdev-unknown", "loopback", "netdev-down"}
WORKS_TOO = {"less-preferred", "stacked", "later"}

# Every kind of entry: a second IPv4 address, IPv6, a VLAN, a hole where an address was, and a VLAN that is down.
MANY_ADDRESSES = """
ip -batch - << END
address add 10.88.1.$NUMBER/24 dev eth1
address add 10.77.1.10$NUMBER/24 dev eth1
address add fd77:1::$NUMBER/64 dev eth1 nodad
link add link eth1 name eth1.100 type vlan id 100
link set eth1.100 up
address add 192.168.100.$NUMBER/24 dev eth1.100
link add link eth1 name eth1.101 type vlan id 101
address add 192.168.101.$NUMBER/24 dev eth1.101
address delete 10.88.1.$NUMBER/24 dev eth1
END
"""


def port_of(gids: dict, device: str) -> dict:
    (hca,) = [hca for hca in gids["hcas"] if hca["name"] == device]
    (port,) = hca["ports"]
    return port


def kind_of_entry(gid: dict) -> tuple:
    """What entries of two nodes have in common; the address ends with the node's number."""
    address = ipaddress.IPv6Address(gid["gid"])
    family = "IPv4" if address.ipv4_mapped else "link-local" if address.is_link_local else "IPv6"
    return gid["netdev"], gid["type"], family, gid["rule"]


class FabricTest(LabTest):
    """What the command says."""

    def ask(self, nodes: list[str], subcommand: str, user: str | None = None) -> list[dict]:
        """All nodes at a time."""
        commands = [self.lab.start(node, "rdma-nccl", subcommand, "--json", user=user) for node in nodes]
        return [json.loads(command.wait(PATIENCE).out) for command in commands]

    def gids(self, node: str) -> dict:
        (answer,) = self.ask([node], "gids")
        return answer

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


class Fabric(FabricTest):
    # --- The table ---

    @on_each_suite
    def test_table_is_what_the_kernel_says(self):
        """Against sysfs, libibverbs and `rdma link`, with every kind of entry in it; and as show_gids prints it."""
        self.lab.everywhere(MANY_ADDRESSES)
        for node, answer in zip(self.lab.nodes, self.ask(self.lab.nodes, "gids")):
            ports = {hca["name"]: hca["ports"][0] for hca in answer["hcas"]}
            ours = {
                (device, gid["index"]): (gid["gid"], gid["type"], gid["netdev"])
                for device, port in ports.items()
                for gid in port["gids"]
            }
            self.assertGreaterEqual(len(ours), 9)
            self.assertEqual(ours, self.gids_of_sysfs(node))
            verbs = {key: (ipaddress.IPv6Address(gid), kind) for key, (gid, kind, _) in ours.items()}
            self.assertEqual(verbs, self.gids_of_verbs(node))
            states = {(hca["name"], ports[hca["name"]]["state"], hca["netdevs"][0]) for hca in answer["hcas"]}
            links = re.findall(r"^link (\S+)/1 state (\S+) .*netdev (\S+)", self.lab.good(node, "rdma", "link"), re.M)
            self.assertEqual(states, set(links))
        # Of one node, the last.
        lines = self.lab.good(node, "rdma-nccl", "gids", "--show-gids").splitlines()
        rows = [line.split("\t") for line in lines if line.startswith("mlx5_")]
        shown = {(row[0], int(row[2])): (row[3].strip(), row[-1].strip()) for row in rows}
        self.assertEqual(shown, {key: (gid, netdev) for key, (gid, _, netdev) in ours.items()})
        self.assertIn(f"n_gids_found={len(ours)}", lines)

    def gids_of_sysfs(self, node: str) -> dict:
        shown = self.lab.script(
            node,
            """for device in mlx5_0 mlx5_1; do
                cd /sys/class/infiniband/$device/ports/1
                for file in $(grep -l -r -v 0000:0000:0000:0000:0000:0000:0000:0000 gids); do
                    index=${file#gids/}
                    echo $device $index $(cat gids/$index gid_attrs/ndevs/$index gid_attrs/types/$index)
                done
            done""",
        )
        words = [line.split(maxsplit=4) for line in shown.splitlines()]
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

    # --- The choice, and what it is worth ---

    @on_each_suite
    def test_used_entry_works_and_unusable_ones_do_not(self):
        self.lab.everywhere(MANY_ADDRESSES)
        ports = self.ports_with_equal_tables("mlx5_0")
        self.assertEqual(ports[0]["gid_index"], ports[1]["gid_index"])
        self.assertEqual([port["nccl_told"] for port in ports], [port["gid_index"] for port in ports])
        rules = {gid["rule"] for gid in ports[0]["gids"]}
        self.assertEqual(rules, {"used", "less-preferred", "stacked", "later", "netdev-down"})
        for pair in zip(*[sorted(port["gids"], key=kind_of_entry) for port in ports]):
            gid = pair[0]
            ends = [End(node, "mlx5_0", entry["index"]) for node, entry in zip(self.lab.nodes, pair)]
            if gid["rule"] in UNUSABLE:
                self.assert_no_transfer(*ends)
            else:
                self.assertIn(gid["rule"], WORKS_TOO | {"used"})
                self.assert_transfer(*ends)
            if gid["rule"] == "used":
                self.assert_transfer(*ends, write_bandwidth)
        indices = {gid["index"] for port in ports for gid in port["gids"]}
        hole = next(index for index in range(256) if index not in indices)
        self.assertLess(hole, max(indices))
        self.assert_no_transfer(*[End(node, "mlx5_0", hole) for node in self.lab.nodes])

    def ports_with_equal_tables(self, device: str) -> list[dict]:
        """Waits until the nodes have the same kinds of entries: link-local ones come when their address has been tested,
        so they come at different times, and may have different indices."""
        deadline = time.monotonic() + PATIENCE
        while True:
            ports = [port_of(answer, device) for answer in self.ask(self.lab.nodes, "gids")]
            kinds = [sorted(kind_of_entry(gid) for gid in port["gids"]) for port in ports]
            if kinds[0] == kinds[1] or time.monotonic() > deadline:
                self.assertEqual(kinds[0], kinds[1])
                return ports
            time.sleep(0.2)

    def test_index_follows_the_addresses(self):
        """The first address goes, another comes: the index that was right is wrong then, and the nodes' differ."""
        before, _ = self.both_used()
        self.lab.script("n01", "ip address add 10.88.1.1/24 dev eth1; ip address delete 10.77.1.1/24 dev eth1")
        after, other = self.both_used()
        self.assertNotEqual(after.gid, before.gid)
        self.assertNotEqual(after.gid, other.gid)
        self.assert_transfer(after, other)
        self.assert_no_transfer(before, other)
        self.lab.script("n01", "ip address add 10.77.1.1/24 dev eth1; ip address delete 10.88.1.1/24 dev eth1")
        self.assertEqual(self.both_used(), [before, other], "the slot is taken again")

    def test_ports_whose_indices_differ(self):
        """No one index fits, so NCCL is told the rule; what it then takes carries data."""
        self.lab.everywhere("ip address add 10.88.2.$NUMBER/24 dev eth2; ip address delete 10.77.2.$NUMBER/24 dev eth2")
        variables = self.variables("n01")
        self.assertEqual(variables["NCCL_IB_HCA"], "=mlx5_0:1,mlx5_1:1")
        self.assertNotIn("NCCL_IB_GID_INDEX", variables)
        self.assertEqual(variables["NCCL_IB_ROCE_VERSION_NUM"], "2")
        self.assertEqual(variables["NCCL_IB_ADDR_FAMILY"], "AF_INET")
        answers = self.ask(self.lab.nodes, "gids")
        told = {device: [port_of(answer, device)["nccl_told"] for answer in answers] for device in ("mlx5_0", "mlx5_1")}
        self.assertEqual(told, {"mlx5_0": [1, 1], "mlx5_1": [2, 2]})
        for device, indices in told.items():
            self.assert_transfer(*[End(node, device, index) for node, index in zip(self.lab.nodes, indices)])

    def test_other_addresses(self):
        """A rail without an address is left out by name. None has IPv4: IPv6, and at last link-local, with a warning."""
        self.lab.script("n01", "ip address flush dev eth2 scope global")
        self.assertEqual(self.port("n01", "mlx5_1")["rule"], "link-local")
        self.assertEqual(self.variables("n01")["NCCL_IB_HCA"], "=mlx5_0:1")

        self.lab.everywhere(
            """for rail in 1 2; do
                ip address flush dev eth$rail scope global; ip address add fd77:$rail::$NUMBER/64 dev eth$rail nodad
            done"""
        )
        self.assertEqual(self.variables("n01")["NCCL_IB_ADDR_FAMILY"], "AF_INET6")
        ends = self.both_used()
        gids = {gid["index"]: gid["gid"] for gid in self.port("n01", "mlx5_0")["gids"]}
        self.assertRegex(gids[ends[0].gid], "^fd77:")
        self.assert_transfer(*ends)

        self.lab.everywhere("for rail in 1 2; do ip address flush dev eth$rail scope global; done")
        self.assertRegex(" ".join(self.gids("n01")["warnings"]), "fe80")
        self.assert_transfer(*self.both_used())

    # --- Names, stacks and speeds ---

    def test_any_name_and_vlan(self):
        """One rail's device has another vendor's name; the other's addresses are on a VLAN."""
        self.lab.everywhere(
            """rdma dev set mlx5_0 name rocep1s0f0
            ip -batch - << END
            address flush dev eth2 scope global
            link add link eth2 name eth2.100 type vlan id 100
            link set eth2.100 up
            address add 192.168.100.$NUMBER/24 dev eth2.100
END"""
        )
        self.assertEqual(self.variables("n02")["NCCL_IB_HCA"], "=mlx5_1:1,rocep1s0f0:1")
        self.assert_transfer(*self.both_used("rocep1s0f0"))
        ends = self.both_used("mlx5_1")
        gids = {gid["index"]: (gid["netdev"], gid["ipv4"]) for gid in self.port("n01", "mlx5_1")["gids"]}
        self.assertEqual(gids[ends[0].gid], ("eth2.100", "192.168.100.1"))
        self.assert_transfer(*ends)

    def test_bond(self):
        """One device on a bond of both rails; the link that carries goes down, and the other one takes over."""
        self.lab.everywhere(
            """printf 'link delete mlx5_%s\n' 0 1 | rdma --batch -
            ip -batch - << END
            link add pair type bond mode active-backup miimon 100
            address flush dev eth1
            address flush dev eth2
            link set eth1 down
            link set eth2 down
            link set eth1 master pair
            link set eth2 master pair
            link set pair up
            address add 10.77.9.$NUMBER/24 dev pair
END
            rdma link add mlx5_bond_0 type rxe netdev pair
            until grep -q ACTIVE /sys/class/infiniband/mlx5_bond_0/ports/1/state; do sleep 0.1; done"""
        )
        self.assertEqual(self.variables("n01")["NCCL_IB_HCA"], "=mlx5_bond_0:1")
        ends = self.both_used("mlx5_bond_0")
        self.assert_transfer(*ends)
        active = "/sys/class/net/pair/bonding/active_slave"
        self.lab.everywhere(f"ip link set eth1 down; while grep -q eth1 {active}; do sleep 0.1; done")
        self.assertEqual(self.both_used("mlx5_bond_0"), ends)
        self.assert_transfer(*ends)

    def test_mtu(self):
        """RDMA's MTU follows the interface's, and data goes through at both."""
        for mtu, active in ((9000, "4096"), (1500, "1024")):
            self.lab.everywhere(f"ip link set eth1 mtu {mtu}")
            shown = self.lab.good("n01", "ibv_devinfo", "-d", "mlx5_0")
            self.assertEqual(re.findall(r"active_mtu:\s+(\d+)", shown), [active])
            self.assert_transfer(*self.both_used())

    # --- Faults ---

    def test_links_down_and_devices_gone(self):
        """One, all, none: the plan has what is left, and where nothing is left it keeps NCCL from trying."""
        self.lab.script("n01", "ip link set eth1 down")
        port = self.port("n01", "mlx5_0")
        self.assertEqual(port["rule"], "not-active")
        self.assertIn("DOWN", port["reason"])
        self.assertEqual(self.variables("n01")["NCCL_IB_HCA"], "=mlx5_1:1")
        self.assert_no_transfer(End("n01", "mlx5_0", 1), End("n02", "mlx5_0", 1))
        self.lab.script("n01", "ip link set eth2 down")
        said = self.lab.run("n01", "rdma-nccl", "gids")
        self.assertEqual(said.status, 2)
        self.assertIn("mlx5_0", said.out)
        self.assertNotIn("mlx5_0", self.variables("n01").get("NCCL_IB_HCA", ""))
        self.lab.script("n01", "ip link set eth1 up; ip link set eth2 up")
        self.assert_transfer(*self.both_used())
        self.lab.script("n01", "printf 'link delete mlx5_%s\n' 0 1 | rdma --batch -")
        self.assertEqual(self.gids("n01")["hcas"], [])
        self.assertNotIn("NCCL_IB_HCA", self.variables("n01"))

    def test_bad_links(self):
        """Loss, delay and a slow link change no choice, and nothing is lost; the device counts what it sent again."""
        ends = self.both_used()
        self.addCleanup(self.lab.script, "n02", "tc qdisc delete dev eth1 root")
        for fault in ("loss 1%", "delay 5ms", "rate 50mbit"):
            self.lab.script("n02", f"tc qdisc replace dev eth1 root netem {fault}")
            before = self.sent_again()
            self.assert_transfer(*ends, write_bandwidth if fault.startswith("loss") else pingpong)
            if fault.startswith("loss"):
                self.assertGreater(self.sent_again(), before)
        self.assertEqual(self.both_used(), ends)

    def test_device_removed_under_load(self):
        """It goes when its last user is killed amid traffic; the plan then knows, and both nodes live on."""
        server, client = self.both_used()
        port = str(self.lab.next_port())
        flood = ["ib_write_bw", "-d", "mlx5_0", "-x", str(server.gid), "-p", port, "-F", "-D", "30", "-s", "65536"]
        serving = self.lab.start("n01", *flood)
        self.lab.good("n01", "lab-agent", "await-port", port, "20")
        asking = self.lab.start("n02", *flood, self.lab.state.machines()["n01"]["address"])
        received = "/sys/class/infiniband/mlx5_0/ports/1/hw_counters/rcvd_pkts"
        enough = int(self.lab.read("n01", received)) + 100
        self.lab.script("n01", f"until [ $(cat {received}) -gt {enough} ]; do sleep 0.1; done")
        removing = self.lab.start("n01", "rdma", "link", "delete", "mlx5_0")
        for command in (serving, asking):
            command.kill()
            command.wait_after_kill()
        self.assertEqual(removing.wait(PATIENCE).status, 0)
        self.assertEqual([hca["name"] for hca in self.gids("n01")["hcas"]], ["mlx5_1"])
        self.assertEqual(self.variables("n01")["NCCL_IB_HCA"], "=mlx5_1:1")
        self.lab.script("n01", "rdma link add mlx5_0 type rxe netdev eth1")
        self.assert_transfer(*self.both_used())

    def test_what_belongs_to_others(self):
        """A device file that this user may not open, a VLAN in another network namespace, a device on the loopback."""
        self.lab.script(
            "n01",
            """file=$(grep -l '^mlx5_0$' /sys/class/infiniband_verbs/*/ibdev)
            chmod 600 /dev/infiniband/$(basename $(dirname $file))
            ip link add link eth1 name eth1.102 type vlan id 102; ip netns add other; ip link set eth1.102 netns other
            ip -netns other link set eth1.102 up; ip -netns other address add 192.168.102.1/24 dev eth1.102
            rdma link add rxe_lo type rxe netdev lo""",
        )
        self.addCleanup(self.lab.script, "n01", "ip netns delete other")
        (said,) = self.ask(["n01"], "gids", user="alice")
        rules = {hca["name"]: hca["ports"][0]["rule"] for hca in said["hcas"]}
        self.assertEqual(rules, {"mlx5_0": "no-device-file", "mlx5_1": "used", "rxe_lo": "no-usable-gid"})
        for device, openable in (("mlx5_0", False), ("mlx5_1", True)):
            self.assertEqual(self.lab.run("n01", "ibv_devinfo", "-d", device, user="alice").status == 0, openable)
        port = self.port("n01", "mlx5_0")
        self.assertEqual(port["rule"], "used", "root may open it")
        gids = {gid["netdev"]: gid for gid in port["gids"]}
        self.assertEqual(gids["eth1.102"]["rule"], "netdev-unknown")
        self.assert_no_transfer(End("n01", "mlx5_0", gids["eth1.102"]["index"]), End("n02", "mlx5_0", 1))


class SavedMachine(FabricTest):
    def test_saved_machine_gives_the_same_plan(self):
        """`explain --save`, replayed outside of the machine. (Of one rail: it takes a while to copy 3,000 files.)"""
        self.lab.script("n01", "rdma link delete mlx5_1\nrm -rf /tmp/saved\n" + MANY_ADDRESSES)
        (here,) = self.ask(["n01"], "explain")
        self.lab.run("n01", "rdma-nccl", "explain", "--save", "/tmp/saved")
        self.lab.good("n01", "busybox", "tar", "-c", "-f", "/lab/saved.tar", "-C", "/tmp/saved", ".")
        with tempfile.TemporaryDirectory() as tree:
            with tarfile.open(self.lab.state.path("lab", "saved.tar")) as archive:
                archive.extractall(tree)
            replayed = self.lab.replay(tree, "explain", "--json")
        there = json.loads(replayed.stdout)
        self.assertEqual(here["places"].pop("source"), "the affinity mask of this process")
        self.assertEqual(there["places"].pop("source"), "all CPUs of the machine")
        self.assertEqual(there, here, replayed.stderr)
