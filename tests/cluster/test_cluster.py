#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the test cluster itself: that it is what it claims to be, and that it leaves nothing behind. As root."""

from __future__ import annotations

import ipaddress
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from dataclasses import replace
from unittest import mock

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "common")]

from boot import Init  # noqa: E402
from cluster_test import LimitedTest  # noqa: E402
from layout import _as_gateway, make_cluster  # noqa: E402
from memory import MEMORY  # noqa: E402
from leftovers import eventually, host_state, processes_naming  # noqa: E402
from state import TestBedError  # noqa: E402

CLUSTER = os.path.join(HERE, "cluster")
MKTREE = os.path.join(os.path.dirname(HERE), "data", "mktree")


def cluster(*arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run([CLUSTER, *arguments], text=True, capture_output=True, check=False, **options)


def read(*names: str) -> str:
    with open(os.path.join(*names), encoding="utf-8") as file:
        return file.read()


def own_processes(state: str) -> list[int]:
    """The pids of a cluster's process 1 and of its keeper."""
    return [process["pid"] for process in json.loads(read(state, "keeper.json"))["processes"]]


class OneCluster(LimitedTest):
    """One cluster for all tests here: n01 nine-hca with 8 GPUs, n02 bond with 2."""

    @classmethod
    def setUpClass(cls):
        cls.before = host_state()
        cls.parent = tempfile.mkdtemp()
        os.chmod(cls.parent, 0o755)  # for alice
        cls.state = os.path.join(cls.parent, "s")
        up = cluster(
            *["up", "--dir", cls.state, "--owner", str(os.getpid()), "--plugin", "none"],
            *["--fabric", "nine-hca,bond", "--gpus", "8,2"],
        )
        if up.returncode != 0:
            raise AssertionError(up.stderr)

    @classmethod
    def tearDownClass(cls):
        cluster("down", "--dir", cls.state)
        os.rmdir(cls.parent)

    def run_there(self, *command: str, node: str = "login", user: str = "root") -> subprocess.CompletedProcess:
        return cluster("exec", "--dir", self.state, "--node", node, "--user", user, "--", *command)

    def output(self, *command: str, **where) -> str:
        result = self.run_there(*command, **where)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def root(self, node: str) -> str:
        """The node's emulated root, as seen from outside: through init's /proc into the node's mounts."""
        init = own_processes(self.state)[0]
        inside = json.loads(read(self.state, "machines.json"))[node]["pid"]
        return f"/proc/{init}/root/proc/{inside}/root{self.state}/root"

    def test_host_is_untouched(self):
        self.assertEqual(host_state(), self.before)

    def test_every_node_has_its_name_and_its_tree(self):
        script = f"hostname; ls {self.state}/root/sys/class/infiniband"
        shown = self.output("srun", "--label", "--nodes=2", "sh", "-c", script)
        lines = sorted(shown.splitlines())
        self.assertEqual(lines, ["0: mlx5_%d" % n for n in range(9)] + ["0: n01", "1: mlx5_bond_0", "1: n02"])

    def test_gpus_are_devices_and_gres(self):
        script = "echo $CUDA_VISIBLE_DEVICES; ls -d /dev/nvidia*; test -c /dev/nvidia0 && echo x > /dev/nvidia0"
        for node, count in (("n01", 8), ("n02", 2)):
            shown = self.output("srun", "-w", node, f"--gpus={count}", "sh", "-c", script).split()
            numbers = [str(number) for number in range(count)]
            self.assertEqual(shown, [",".join(numbers)] + ["/dev/nvidia" + number for number in numbers])
        self.assertNotEqual(self.run_there("srun", "-N1", "-w", "n02", "--gpus=3", "true").returncode, 0)

    def test_tree_says_what_the_kernel_says_of_the_netdevs(self):
        for node in ("n01", "n02"):
            links = {link["ifname"]: link for link in json.loads(self.output("ip", "-j", "address", node=node))}
            names = set(os.listdir(f"{self.root(node)}/sys/class/net")) - {"bonding_masters"}
            self.assertEqual(set(links), names)
            for name, link in links.items():
                directory = f"{self.root(node)}/sys/class/net/{name}"
                said = [read(directory, key).strip() for key in ("address", "ifindex", "mtu")]
                self.assertEqual(said, [link["address"], str(link["ifindex"]), str(link["mtu"])])

    def test_every_gid_is_an_address_of_its_netdev(self):
        for node in ("n01", "n02"):
            links = json.loads(self.output("ip", "-j", "address", node=node))
            real = {
                (link["ifname"], ipaddress.ip_address(info["local"])) for link in links for info in link["addr_info"]
            }
            gids = list(self.gids(node))
            self.assertGreater(len(gids), 5)
            for netdev, address in gids:
                self.assertIn((netdev, address), real)

    def gids(self, node: str):
        devices = f"{self.root(node)}/sys/class/infiniband"
        for device in os.listdir(devices):
            port = f"{devices}/{device}/ports/1"
            for index in os.listdir(f"{port}/gid_attrs/ndevs"):
                gid = ipaddress.IPv6Address(read(port, "gids", index).strip())
                yield read(port, "gid_attrs/ndevs", index).strip(), gid.ipv4_mapped or gid

    def test_generated_proc_net_is_the_kernels(self):
        for node, fabric, index in (("n01", "nine-hca", 0), ("n02", "bond", 1)):
            with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
                generated = os.path.join(directory, "tree")
                subprocess.run([MKTREE, fabric, "--node", str(index), "--out", generated], check=True)
                kernels = self.root(node)
                self.assertEqual(read(generated, "proc/net/route"), read(kernels, "proc/net/route"))
                for name, parse in (("fib_trie", local_addresses), ("if_inet6", inet6), ("ipv6_route", default_routes)):
                    self.assertEqual(parse(read(generated, "proc/net", name)), parse(read(kernels, "proc/net", name)))

    def test_tcp_between_the_nodes_over_a_fabric(self):
        answer = self.output("srun", "--nodes=2", sys.executable, "-c", _PING, "10.0.60.3")
        self.assertEqual(answer.splitlines(), ["hello from n02"])

    def test_many_tasks_start_on_few_cpus(self):
        shown = self.output("srun", "--nodes=2", "--ntasks-per-node=20", "printenv", "SLURM_PROCID")
        self.assertEqual(sorted(map(int, shown.split())), list(range(40)))

    def test_steps_of_several_shapes(self):
        self.assertRegex(self.output("srun", "-N2", "printenv", "SLURM_STEP_RESV_PORTS"), r"^12\d\d\d-12\d\d\d\n")
        het = self.output("srun", "-n1", "-w", "n02", "hostname", ":", "-n1", "-w", "n01", "hostname")
        self.assertEqual(sorted(het.split()), ["n01", "n02"])
        hosts = os.path.join(self.state, "home", "hosts")
        with open(hosts, "w", encoding="ascii") as file:
            file.write("n02\nn01\n")
        script = "echo $SLURM_PROCID $(hostname)"
        arbitrary = self.output("env", f"SLURM_HOSTFILE={hosts}", "srun", "-n2", "-m", "arbitrary", "sh", "-c", script)
        self.assertEqual(sorted(arbitrary.splitlines()), ["0 n02", "1 n01"])

    def test_batch_job_of_an_ordinary_user(self):
        out = os.path.join(self.state, "home", "alice", "out")
        self.output("true", user="alice")  # makes her home
        self.output("sbatch", "--wait", "-N2", "--output", out, "--wrap", "srun id -un", user="alice")
        self.assertEqual(read(out).split(), ["alice", "alice"])

    def test_exec_passes_on_how_the_command_ended(self):
        self.assertEqual(self.run_there("sh", "-c", "exit 7").returncode, 7)
        self.assertEqual(self.run_there("sh", "-c", "kill -TERM $$").returncode, -signal.SIGTERM)
        self.assertEqual(self.run_there("no-such-program").returncode, 127)

    def test_exec_passes_on_signals_once(self):
        command = [CLUSTER, "exec", "--dir", self.state, "--", sys.executable, "-u", "-c", _COUNT_INTERRUPTS]
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
        with subprocess.Popen(command, text=True, start_new_session=True, **streams) as run:
            self.assertEqual(run.stdout.readline(), "ready\n")
            os.killpg(run.pid, signal.SIGINT)  # all of the group, as a terminal does
            self.assertEqual(run.stdout.read(), "interrupted\n")
        self.assertEqual(run.returncode, 3)

    def test_only_the_login_hosts_name_is_resolved(self):
        self.assertEqual(self.run_there("getent", "hosts", "n02").returncode, 2)
        self.assertEqual(self.run_there("getent", "hosts", "login").returncode, 0)

    def test_another_cluster_beside_it(self):
        with tempfile.TemporaryDirectory() as parent:
            other, tree = os.path.join(parent, "s"), os.path.join(parent, "tree")
            subprocess.run([MKTREE, "bond", "--out", tree], check=True)
            up = cluster("up", "--dir", other, "--nodes", "1", "--fabric", tree, "--plugin", "none")
            self.assertEqual(up.returncode, 0, up.stderr)
            try:
                shown = cluster("exec", "--dir", other, "--", "srun", "ls", f"{other}/root/sys/class/infiniband")
                self.assertEqual(shown.stdout, "mlx5_bond_0\n")
                self.assertEqual(self.output("srun", "-N2", "hostname").split().count("n01"), 1)
            finally:
                cluster("down", "--dir", other)
            self.assertFalse(os.path.exists(other))
        self.assertEqual(self.output("srun", "-w", "n01", "hostname"), "n01\n")

    def test_nodes_of_other_networks(self):
        """The login node is the gateway of a cloud's nodes, and through it they reach a node of its own network."""
        with tempfile.TemporaryDirectory() as parent:
            other = os.path.join(parent, "s")
            up = cluster("up", "--dir", other, "--fabric", "aws-p5,nine-hca", "--plugin", "none")
            self.assertEqual(up.returncode, 0, up.stderr)
            try:
                shown = cluster("exec", "--dir", other, "--", "srun", "-N2", "hostname")
                self.assertEqual(sorted(shown.stdout.split()), ["n01", "n02"], shown.stderr)
                shown = cluster("exec", "--dir", other, "--node", "n01", "--", "ip", "route", "get", "10.0.60.4")
                self.assertIn("via 172.31.0.1", shown.stdout)
            finally:
                cluster("down", "--dir", other)


_COUNT_INTERRUPTS = """
import signal, sys, time
signal.signal(signal.SIGINT, lambda *_: print("interrupted"))
print("ready")
signal.pause()
time.sleep(1)
sys.exit(3)
"""

_PING = """
import os, socket, sys, time
address, port = sys.argv[1], int(os.environ["SLURM_STEP_RESV_PORTS"].split("-")[0])
if os.environ["SLURM_PROCID"] == "0":
    server = socket.create_server((address, port))
    connection, _ = server.accept()
    print("hello from", connection.recv(100).decode())
else:
    while True:
        try:
            socket.create_connection((address, port)).send(socket.gethostname().encode())
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
"""


def local_addresses(fib_trie: str) -> set[str]:
    lines = [line.split() for line in fib_trie.splitlines()]
    return {
        previous[1]
        for previous, line in zip(lines, lines[1:])
        if line[:3] == ["/32", "host", "LOCAL"] and previous[0] == "|--"
    }


def inet6(text: str) -> set[tuple[str, ...]]:
    """All but the flags: the test cluster skips duplicate address detection, and the kernel shows that."""
    return {tuple(line.split()[:4] + line.split()[5:]) for line in text.splitlines()}


def default_routes(ipv6_route: str) -> set[tuple[str, ...]]:
    """Direct routes and default routes: destination, prefix length, flags, netdev."""
    fields = [line.split() for line in ipv6_route.splitlines()]
    return {(f[0], f[1], f[8], f[9]) for f in fields if f[1] in ("00", "40", "08")}


class Ends(LimitedTest):
    """Whatever ends a cluster, nothing of it is left."""

    def setUp(self):
        self.before = host_state()
        self.parent = tempfile.mkdtemp()
        self.state = os.path.join(self.parent, "s")

    def tearDown(self):
        cluster("down", "--dir", self.state)
        os.rmdir(self.parent)

    def up(self, *arguments: str) -> list[str]:
        return [CLUSTER, "up", "--dir", self.state, "--nodes", "1", "--plugin", "none", *arguments]

    def assert_nothing_left(self):
        self.assertTrue(eventually(lambda: not os.path.exists(self.state)), "the state directory is still there")
        self.assertTrue(eventually(lambda: not processes_naming(self.state)), processes_naming(self.state))
        self.assertEqual(host_state(), self.before)

    def interrupt(self, number: int, stage: str) -> int:
        """Sends the signal to `cluster up` as soon as this file of the state directory is there.

        A node that nobody starts keeps `up` from ending before the signal comes.
        """
        command = self.up("--slurm-conf", "NodeName=absent NodeAddr=127.0.0.9 CPUs=1")
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            path = os.path.join(self.state, stage)
            self.assertTrue(eventually(lambda: os.path.exists(path) or process.poll() is not None))
            process.send_signal(number)
        return process.returncode

    def test_interrupted(self):
        for stage in ("log/cluster.log", "run/login/socket", "log/slurmd-n01.log"):
            with self.subTest(stage):
                self.assertEqual(self.interrupt(signal.SIGINT, stage), 130)
                self.assert_nothing_left()

    def test_terminated(self):
        self.assertEqual(self.interrupt(signal.SIGTERM, "log/slurmctld.log"), 143)
        self.assert_nothing_left()

    def test_killed(self):
        for stage in ("log/cluster.log", "log/slurmctld.log"):
            with self.subTest(stage):
                self.assertEqual(self.interrupt(signal.SIGKILL, stage), -signal.SIGKILL)
                self.assert_nothing_left()

    def test_a_daemon_that_fails(self):
        failed = subprocess.run(self.up("--slurm-conf", "NoSuchKey=1"), text=True, capture_output=True, check=False)
        self.assertEqual(failed.returncode, 1)
        self.assertIn("NoSuchKey", failed.stderr)
        self.assert_nothing_left()

    def test_owner_gone(self):
        with subprocess.Popen(["sleep", "1000"]) as owner:
            subprocess.run(self.up("--owner", str(owner.pid)), check=True, capture_output=True)
            running = subprocess.Popen(
                [CLUSTER, "exec", "--dir", self.state, "--", "srun", "sleep", "1000"], stderr=subprocess.DEVNULL
            )
            owner.kill()
        self.assert_nothing_left()
        running.wait()

    def test_down(self):
        subprocess.run(self.up(), check=True, capture_output=True)
        for _ in range(2):
            self.assertEqual(cluster("down", "--dir", self.state).returncode, 0)
            self.assert_nothing_left()

    def test_down_after_its_keeper_was_killed(self):
        subprocess.run(self.up(), check=True, capture_output=True)
        os.kill(own_processes(self.state)[1], signal.SIGKILL)
        self.assertTrue(eventually(lambda: not processes_naming(self.state)))
        self.assertEqual(cluster("down", "--dir", self.state).returncode, 0)
        self.assert_nothing_left()

    def test_a_recycled_pid_is_not_killed(self):
        os.mkdir(self.state)
        with subprocess.Popen(["sleep", "1000"]) as bystander:
            there = {"pid": bystander.pid, "start": 1}
            with open(os.path.join(self.state, "keeper.json"), "w", encoding="ascii") as file:
                json.dump({"processes": [there, there]}, file)
            self.assertEqual(cluster("down", "--dir", self.state).returncode, 0)
            self.assertIsNone(bystander.poll())
            bystander.kill()
        self.assert_nothing_left()

    def test_foreign_directories_are_kept(self):
        foreign = os.path.join(self.state, "file")
        os.mkdir(self.state)
        with open(foreign, "w", encoding="ascii"):
            pass
        for command in (["down", "--dir", self.state], ["up", "--dir", self.state]):
            self.assertEqual(cluster(*command).returncode, 1)
            self.assertTrue(os.path.exists(foreign))
        os.unlink(foreign)
        os.rmdir(self.state)

    def test_mounts_are_not_removed(self):
        os.makedirs(os.path.join(self.state, "mounted"))
        with open(os.path.join(self.state, "keeper.json"), "w", encoding="ascii") as file:
            file.write("{}")
        script = """mount -t tmpfs none "$1/mounted" && touch "$1/mounted/precious" &&
            ! "$2" down --dir "$1" && ls "$1/mounted" """
        command = ["unshare", "--mount", "sh", "-c", script, "sh", self.state, CLUSTER]
        shown = subprocess.run(command, text=True, capture_output=True, check=False)
        self.assertEqual(shown.stdout, "precious\n", shown.stderr)

    def test_wrong_use(self):
        for arguments in (["--nodes", "0"], ["--fabric", "nosuch"], ["--gpus", "9"], ["--plugin", "/nonexistent"]):
            wrong = subprocess.run(self.up(*arguments), text=True, capture_output=True, check=False)
            self.assertEqual(wrong.returncode, 1, arguments)
            self.assertNotIn("Traceback", wrong.stderr)
        self.assert_nothing_left()


class Reasons(LimitedTest):
    """Why a cluster does not come up."""

    def test_nodes_that_are_not_idle_are_named(self):
        late = mock.patch.object(Init, "_await", side_effect=TestBedError("all nodes idle did not come in 60 s"))
        nodes = mock.patch.object(Init, "_nodes", return_value=["n01 is down* (Not responding)", "n02 is idle (none)"])
        with late, nodes:
            with self.assertRaisesRegex(TestBedError, r"60 s: n01 is down\* \(Not responding\); n02"):
                Init.__new__(Init)._await_nodes()

    def test_a_node_that_cannot_reach_the_others_is_refused(self):
        one = make_cluster(1, ["aws-p5"], [])
        node = replace(one.nodes[0], machine=replace(one.nodes[0].machine, default_routes=()))
        login = make_cluster(1, ["nine-hca"], []).login
        with self.assertRaisesRegex(TestBedError, r"^n01: 172\.31\.\S+ is not in 10\.0\.60\.0/24, and it has no"):
            _as_gateway(login, [node])


class Descriptions(LimitedTest):
    """The GID table of facts that people have printed of the nine-HCA node."""

    def test_gids_of_the_nine_hca_node(self):
        addresses = ["10.0.60.3"] + [f"25.11.128.{2 + 32 * rail}" for rail in range(8)]
        with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
            subprocess.run([MKTREE, "nine-hca", "--out", f"{directory}/t"], check=True)
            for number, address in enumerate(addresses):
                port = f"{directory}/t/sys/class/infiniband/mlx5_{number}/ports/1"
                gids = [ipaddress.IPv6Address(read(port, "gids", str(index)).strip()) for index in range(256)]
                types = [read(port, "gid_attrs/types", str(index)).strip() for index in range(4)]
                self.assertTrue(gids[0] == gids[1] and gids[0].is_link_local)
                self.assertEqual([str(gid.ipv4_mapped) for gid in gids[2:4]], [address] * 2)
                self.assertEqual(types, ["IB/RoCE v1", "RoCE v2"] * 2)
                self.assertTrue(all(int(gid) == 0 for gid in gids[4:]))
                self.assertEqual(read(port, "gid_attrs/ndevs/3"), f"eth{number}\n")


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("needs root")
        sys.exit(77)
    unittest.main()
