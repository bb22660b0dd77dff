# SPDX-License-Identifier: Apache-2.0
"""Links measured by verbs: sound ones, against the port's own counters, and what is said of those that are not."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from functools import partial

from lab import Command
from testbed import PATIENCE, LabTest, on_each_suite

COUNTERS = "/sys/class/infiniband/{}/ports/1/hw_counters/sent_pkts"
RDMA_MTU = 4096
SENDER, RECEIVER = "n02", "n01"  # of `forward`
QUICK = {"size": "262144", "qps": "2"}  # guests are slow
LIMIT = 15  # seconds until an end that goes on for two has said what ails the link; RDMA's retries take four
CLEAR = "tc qdisc del dev eth1 clsact 2> /dev/null || true; tc qdisc del dev eth1 root 2> /dev/null || true"
# Packets as a firewall or a switch sees them: RoCE's port; IPv4 packets of 4096 to 8191 bytes.
ROCE = "match ip protocol 17 0xff match ip dport 4791 0xffff"
LARGE = "match u16 0x1000 0xf000 at 2"


@dataclass
class Ends:
    """What both said, by step."""

    said: dict[str, dict[str, dict]] = field(default_factory=dict)
    seconds: float = 0

    def of(self, node: str, step: str) -> dict:
        if step not in self.said[node]:
            raise AssertionError(f"{node} has said nothing of {step}: {self.said}")
        return self.said[node][step]


class PairsLinks(LabTest):
    """By the engine of `rdma-nccl pairs` alone."""

    def tearDown(self):
        for node in (SENDER, RECEIVER):
            self.lab.script(node, CLEAR)

    def start(self, steps: str, rail: int = 1, **options: str) -> list[Command]:
        """Of both ends; options that begin with the name of a node are that node's."""
        port = str(self.lab.next_port())
        commands = []
        for node, whom in ((RECEIVER, "listen"), (SENDER, f"10.77.0.{RECEIVER[-1]}")):
            mine = QUICK | {name: value for name, value in options.items() if name[:4] not in ("n01_", "n02_")}
            mine |= {name[4:]: value for name, value in options.items() if name.startswith(node + "_")}
            words = [f"{name}={value}" for name, value in {"hca": f"mlx5_{rail - 1}", "steps": steps, **mine}.items()]
            commands.append(self.lab.start(node, "verbs-pair", whom, port, *words))
        return commands

    def finish(self, commands: list[Command]) -> Ends:
        began = time.monotonic()
        ends = Ends()
        for command in commands:
            command.wait(PATIENCE)
            lines = [json.loads(line) for line in command.out.splitlines()]
            self.assertEqual(command.err, "")
            ends.said[command.node] = {line["step"]: line for line in lines}
        ends.seconds = time.monotonic() - began
        return ends

    def measure(self, steps: str, rail: int = 1, **options: str) -> Ends:
        return self.finish(self.start(steps, rail, **options))

    def sent(self, rail: int) -> int:
        return int(self.lab.read(SENDER, COUNTERS.format(f"mlx5_{rail - 1}"))) * RDMA_MTU

    def await_traffic(self, rail: int = 1) -> None:
        enough = self.sent(rail) + (4 << 20)
        deadline = time.monotonic() + PATIENCE
        while self.sent(rail) < enough:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)

    def drop(self, node: str, match: str, way: str = "egress") -> None:
        """Drops matching packets that the node sends (or with "ingress" receives) on eth1."""
        self.lab.script(node, f"tc qdisc add dev eth1 clsact; tc filter add dev eth1 {way} protocol ip u32 {match} action drop")

    def assert_says(self, said: dict, cause: str, *words: str) -> None:
        self.assertEqual(said.get("cause"), cause, said)
        for word in words:
            self.assertIn(word, said["error"])
        self.assertLess(said["seconds"], LIMIT)

    def rate(self, said: dict) -> float:
        """In Gb/s; a step that ended without one fails with its reason."""
        self.assertNotIn("error", said)
        self.assertGreater(said["gbps"], 0)
        return said["gbps"]

    @on_each_suite
    def test_sound_link(self):
        """On both rails: all of it, and the sender's port has counted what was sent. Little is in flight: a Soft-RoCE
        that gets no CPU for long loses packets of a full queue until its retries end."""
        for rail in (1, 2):
            with self.subTest(rail):
                ends = self.measure("pattern,latency,backward,both", rail, seconds="2", round_trips="300", depth="2")
                for node in (SENDER, RECEIVER):
                    self.assertTrue(ends.of(node, "pattern")["correct"])
                    latency = ends.of(node, "latency")
                    ordered = [latency[name] for name in ("min", "median", "p99", "p999", "max")]
                    self.assertEqual(ordered, sorted(ordered))
                    self.assertGreater(latency["min"], 0)
                    self.assertGreater(latency["round_trips"], 0)
                    self.rate(ends.of(node, "both"))
                self.rate(ends.of(RECEIVER, "backward"))
                before, again = self.sent(rail), self.sent_again()
                forward = self.measure("forward", rail, seconds="2").of(SENDER, "forward")
                self.rate(forward)
                self.assert_counted(self.sent(rail) - before, forward["bytes"], self.sent_again() > again)

    def test_wrong_gid(self):
        """Empty; another one than the plan had; of another family than the peer's."""
        empty = self.measure("pattern", n02_gid="9").of(SENDER, "open")
        self.assertRegex(empty["error"], "^n02 mlx5_0:1: wrong GID: index 9 is empty")
        stale = self.measure("pattern", n02_address="10.77.1.99").of(SENDER, "open")
        self.assertRegex(stale["error"], "wrong GID: index 1 is 10.77.1.2 now, and was 10.77.1.99")
        for node, said in self.measure("pattern", n02_gid="0").said.items():
            self.assert_says(said["connect"], "wrong-gid", f"{node} mlx5_0:1", "IPv4 does not meet IPv6")

    def test_nobody_answers_arp(self):
        """As in another VLAN."""
        self.addCleanup(self.lab.script, RECEIVER, "ip link set eth1 arp on")
        self.lab.script(RECEIVER, "ip link set eth1 arp off")
        self.lab.script(SENDER, "ip neigh flush dev eth1")
        said = self.measure("pattern").of(SENDER, "connect")
        self.assert_says(said, "no-route", "10.77.1.1", "ARP", "VLAN")

    @on_each_suite
    def test_firewall(self):
        """On either side: both say it, though one of them can send."""
        for node in (SENDER, RECEIVER):
            with self.subTest(node):
                # On ingress: Linux 6.1's rxe may hang in the kernel when it cannot send its own packets.
                self.drop(node, ROCE, "ingress")
                ends = self.measure("pattern")
                for each in (SENDER, RECEIVER):
                    self.assert_says(ends.of(each, "pattern"), "filtered", "UDP port 4791", "firewall")
                self.lab.script(node, CLEAR)

    def test_small_mtu_on_the_way(self):
        """Both ports have a larger one than the way between them."""
        self.drop(SENDER, LARGE)
        for step in ("pattern", "forward"):
            said = self.measure(step).of(SENDER, step)
            self.assert_says(said, "mtu", "packets of 4096 bytes", "MTU")

    def test_peer_is_killed(self):
        """In the middle of either measurement, whoever it is."""
        for step, victim in (("forward", RECEIVER), ("latency", RECEIVER), ("latency", SENDER)):
            with self.subTest(step, victim=victim):
                commands = self.start(step, seconds="110", round_trips="1000000")
                self.await_traffic()
                killed, left = sorted(commands, key=lambda command: command.node != victim)
                killed.kill()
                killed.wait_after_kill()
                done = left.wait(LIMIT)
                self.assertNotEqual(done.status, 0, done.out)
                said = json.loads(done.out.splitlines()[-1])
                self.assertIn(said["cause"], ("peer-gone", "refused"), said)
                self.assertIn("process", said["error"])

    def test_link_goes_down(self):
        commands = self.start("forward", seconds="110")
        self.await_traffic()
        self.lab.script(RECEIVER, "ip link set eth1 down")
        done = commands[1].wait(LIMIT)
        said = json.loads(done.out.splitlines()[-1])
        self.assertEqual(said["cause"], "peer-gone", said)
        commands[0].wait(PATIENCE)

    def test_slow_link(self):
        """It takes the time that was asked for, and shows. A sixth of what this machine just did: little is in flight, and
        the queue holds all of it, so that nothing is lost and waits for RDMA's retries."""
        measure = partial(self.measure, "pattern,forward", seconds="3", size="65536", qps="1", depth="2")
        usual = self.rate(measure().of(SENDER, "forward"))
        rate = f"{usual * 1e6 / 6:.0f}kbit"
        self.lab.script(SENDER, f"tc qdisc replace dev eth1 root tbf rate {rate} burst 64k limit 8m")
        slow = measure().of(SENDER, "forward")
        self.assertLess(self.rate(slow), 0.5 * usual)
        self.assertLess(slow["seconds"], LIMIT)


class PairsCommand(LabTest):
    """`rdma-nccl pairs` and `rdma-nccl bench --host` on both nodes, as tasks of a step would be."""

    def tearDown(self):
        for node in (SENDER, RECEIVER):
            self.lab.script(node, CLEAR + "; tc qdisc del dev eth2 root 2> /dev/null || true")

    def start(self, *arguments: str) -> dict[str, Command]:
        """n01 is the head."""
        port = self.lab.next_port()
        variables = ["NNODES=2", "MASTER_ADDR=10.77.0.1", f"MASTER_PORT={port}", f"RDMA_NCCL_TOKEN={'7' * 64}"]
        return {
            node: self.lab.start(node, "env", f"NODE_RANK={rank}", *variables, "rdma-nccl", *arguments)
            for rank, node in enumerate(("n01", "n02"))
        }

    def report(self, commands: dict[str, Command]) -> dict:
        for command in commands.values():
            command.wait(2 * PATIENCE)
        self.assertTrue(commands["n01"].out, commands["n01"].err)
        return json.loads(commands["n01"].out)

    def pairs(self, *options: str, size: str = "262144", queues: str = "2") -> dict:
        return self.report(self.start("pairs", "--json", "-D", "1", "-s", size, "-q", queues, *options))

    def by_port(self, report: dict) -> dict[str, dict]:
        return {result["a"]["port"]: result for result in report["results"]}

    def test_two_nodes_with_two_devices(self):
        before = self.sent_again()
        results = self.by_port(self.pairs())
        again = self.sent_again() > before
        self.assertEqual(sorted(results), ["mlx5_0:1", "mlx5_1:1"])
        for result in results.values():
            self.assertEqual((result["problem"], result["data_correct"], result["path_mtu"]), ("", True, RDMA_MTU))
            self.assertGreater(result["latency"]["round_trips"], 0)
            for way in ("forward", "backward"):
                self.assert_counted(result[way]["counted_share"], 1, again)

    def speeds(self, report: dict) -> dict[str, float]:
        """Gb/s by "PORT WAY"."""
        results = self.by_port(report)
        self.assertEqual([result["problem"] for result in results.values()], [""] * len(results))
        return {f"{port} {way}": result[way]["gbps"] for port, result in results.items() for way in ("forward", "backward")}

    def test_slow_link_is_named(self):
        # A sixth of what this machine just did. Little is in flight, and the queue holds all of it: nothing waits there
        # for as long as a timeout, and nothing is lost, the acknowledgements of the other way neither.
        measure = partial(self.pairs, "--no-latency", "--no-both", "--depth", "2", size="65536", queues="1")
        usual = min(self.speeds(measure()).values())
        rate = f"{usual * 1e6 / 6:.0f}kbit"
        self.lab.script("n02", f"tc qdisc add dev eth2 root tbf rate {rate} burst 64k limit 8m")
        for _ in range(10):  # something else on this machine may slow a sound way down as well: that is another result
            report = measure()
            sound = [gbps for way, gbps in self.speeds(report).items() if way != "mlx5_1:1 backward"]
            if min(sound) > 0.7 * max(sound):
                break
        self.assertEqual(report["judgement"]["exit_code"], 1)
        [fault] = report["judgement"]["faults"]
        self.assertRegex(fault["text"], r"n02 (mlx5_1:1 )?to n01 (mlx5_1:1 )?is slow")
        slow = self.by_port(report)["mlx5_1:1"]
        self.assertLess(slow["backward"]["gbps"], 0.5 * slow["forward"]["gbps"])

    def test_firewall(self):
        drop = f"tc qdisc add dev eth1 clsact; tc filter add dev eth1 ingress protocol ip u32 {ROCE} action drop"
        self.lab.script("n02", drop)
        results = self.by_port(self.pairs("--no-latency", "--no-both"))
        self.assertIn("4791", results["mlx5_0:1"]["problem"])
        self.assertEqual(results["mlx5_1:1"]["problem"], "")

    def test_a_node_that_is_killed(self):
        commands = self.start("pairs", "--json", "-D", "30", "-s", "262144", "-q", "2", "--no-latency")
        before = int(self.lab.read("n01", COUNTERS.format("mlx5_0")))
        deadline = time.monotonic() + PATIENCE
        while int(self.lab.read("n01", COUNTERS.format("mlx5_0"))) < before + 1000:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.2)
        commands["n02"].kill()
        report = self.report({"n01": commands["n01"]})
        commands["n02"].wait_after_kill()
        self.assertEqual(len(report["results"]), 2)
        for result in report["results"]:
            self.assertIn("n02", result["problem"])
        self.assertEqual(report["judgement"]["exit_code"], 2)

    def test_host_bench(self):
        """RDMA and TCP in turns, each certified by its counters."""
        options = ("-b", "4M", "-e", "4M", "-n", "10", "-w", "1", "--repeats", "2", "--rings", "1", "--batch-seconds", "60")
        report = self.report(self.start("bench", "--host", "--json", *options))
        runs = {run["name"]: run for run in report["runs"]}
        self.assertEqual(sorted(runs), ["A", "A'", "B"])
        for name, run in runs.items():
            self.assertEqual(run["problem"], "")
            self.assertEqual(run["results"][0]["out_of_place"]["nwrong"], 0)
            self.assertEqual(run["verdict"]["verdict"], "NOT USED" if name == "B" else "USED", run["verdict"])
