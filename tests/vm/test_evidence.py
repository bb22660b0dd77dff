# SPDX-License-Identifier: Apache-2.0
"""Whose traffic an HCA carries, and what the plugin says at the end of steps that send by RDMA, by TCP, or not at all."""

from __future__ import annotations

import json
import re
import time

from lab import Command
from test_slurm import SlurmTest
from testbed import PATIENCE, SHELL, LabTest, on_each_suite

MIB = 1 << 20
PORT = "/sys/class/infiniband/mlx5_0/ports/1"
PORT_COUNTERS = f"{PORT}/hw_counters"
STATISTICS = "/sys/class/net/eth1/statistics"
RDMA_MTU = 4096
SITE_FILE = "/etc/rdma-nccl.conf"
VERDICTS = "/var/lib/rdma-nccl"
SAID = re.compile("rdma-nccl: ((?:warning: )?RDMA (?:USED|MIXED|NOT USED|IDLE|use UNKNOWN).*)")
# The device goes when the last of its users has ended.
FAULTS = ("ip link set eth1 down", "rdma link delete mlx5_0 > /dev/null 2>&1 &")


class Owners(LabTest):
    """What the library reads of the kernel, against what `rdma` does."""

    def owners(self, node: str, *step: str, user: str | None = None) -> dict:
        return json.loads(self.lab.good(node, "owners", *step, user=user))

    def by_port(self, node: str, user: str | None = None) -> dict[tuple[str, int, int], int]:
        found = self.owners(node, user=user)["owners"]
        return {(each["hca"], each["port"], each["pid"]): each["count"] for each in found}

    def by_rdma(self, node: str) -> dict[tuple[str, int, int], int]:
        counts: dict[tuple[str, int, int], int] = {}
        for each in json.loads(self.lab.good(node, "rdma", "-j", "resource", "show", "qp")):
            if each["type"] not in ("GSI", "SMI") and "port" in each:
                key = (each["ifname"], each["port"], each.get("pid", 0))
                counts[key] = counts.get(key, 0) + 1
        return counts

    def flood(self, device: str, rail: int, pairs: int) -> list[Command]:
        """A server on n01, a client on n02, each with so many queue pairs; they go on until they are killed."""
        port = str(self.lab.next_port())
        program = ["ib_write_bw", "-d", device, "-x", "1", "-p", port, "-F", "-D", "60", "-s", "4096", "-q", str(pairs)]
        program += ["--rate_limit_type", "SW", "--rate_limit", "1"]  # or it takes all of the guest
        commands = [self.lab.start("n01", *program, user="alice")]
        self.addCleanup(self.end, commands)
        self.lab.good("n01", "lab-agent", "await-port", port, "20")
        commands.append(self.lab.start("n02", *program, f"10.77.{rail}.1", user="alice"))
        return commands

    def end(self, commands: list[Command]) -> None:
        for command in commands:
            command.kill()
        for command in commands:
            command.wait_after_kill()

    def await_pairs(self, node: str, count: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while sum(self.by_rdma(node).values()) < count:
            self.assertLess(time.monotonic(), deadline, f"{node}: {self.by_rdma(node)}")
            time.sleep(0.1)

    @on_each_suite
    def test_are_what_rdma_shows(self):
        """Of two programs on two ports, for root and for other users; nothing before and nothing afterwards."""
        for node in self.lab.nodes:
            self.assertEqual(self.by_port(node), {})
        floods = self.flood("mlx5_0", 1, 1) + self.flood("mlx5_1", 2, 3)
        for node in self.lab.nodes:
            self.await_pairs(node, 4)
            expected = self.by_rdma(node)
            self.assertEqual(sorted((hca, port, n) for (hca, port, _), n in expected.items()), [("mlx5_0", 1, 1), ("mlx5_1", 1, 3)])
            for user in (None, "bob"):
                self.assertEqual(self.by_port(node, user), expected, user)
            for owner in self.owners(node)["owners"]:
                self.assertEqual((owner["owner"], owner["name"]), ("system", "ib_write_bw"))
                self.assertEqual(self.lab.read(node, f"/proc/{owner['pid']}/comm"), "ib_write_bw")
        self.end(floods)
        for node in self.lab.nodes:
            self.assertEqual(self.by_port(node), {})

    def test_device_that_goes_away(self):
        """There is nothing of it, and no trouble."""
        self.flood("mlx5_1", 2, 1)
        self.await_pairs("n01", 1)
        self.lab.script("n01", "rdma link delete mlx5_0")
        self.assertEqual({hca for hca, _, _ in self.by_port("n01")}, {"mlx5_1"})

    def test_no_rdma_at_all(self):
        self.lab.script("n01", "rdma link delete mlx5_0; rdma link delete mlx5_1")
        self.assertEqual(self.by_port("n01"), {})


class StepsTest(SlurmTest):
    """Steps of two tasks, one on each node, that send from n02 to n01."""

    def start_step(self, kind: str, mib: int, *options: str, program: tuple[str, ...] = ()) -> Command:
        port = self.lab.next_port()
        self.lab.next_port()
        transfer = ("/lab/guest/transfer", kind, str(mib), str(port), *program)
        return self.lab.start("n01", "srun", "-N2", *options, *transfer, user="alice")

    def step(self, kind: str, mib: int, *options: str, program: tuple[str, ...] = ()):
        done = self.start_step(kind, mib, *options, program=program).wait(2 * PATIENCE)
        self.assertEqual(done.status, 0, done.out + done.err)
        return done

    def counted(self) -> dict[str, int]:
        """What n02 has sent."""
        files = (f"{PORT_COUNTERS}/sent_pkts", f"{STATISTICS}/tx_bytes")
        packets, octets = self.lab.good("n02", "busybox", "cat", *files).split()
        return {"packets": int(packets), "bytes": int(octets)}

    def await_traffic(self, step: Command, mib: int = 2) -> None:
        """Until n02 has sent so much more by RDMA. A step that ends before fails, and says why."""
        enough = self.counted()["packets"] + mib * MIB // RDMA_MTU
        deadline = time.monotonic() + PATIENCE
        while self.counted()["packets"] < enough:
            self.assertIsNone(step.status(), step.out + step.err)
            self.assertLess(time.monotonic(), deadline, step.out + step.err)
            time.sleep(0.1)

    def lose(self, fault: str, *options: str):
        """In the middle of a step, which fails then, as it must; the next one works."""
        program = ("--seconds", "50")  # it ends itself where a node that is gone does not end it
        began = time.monotonic()
        step = self.start_step("verbs", 4000, "--kill-on-bad-exit=1", *options, program=program)
        self.await_traffic(step)
        seen = time.monotonic()
        self.await_traffic(step, 80)
        # The queue pairs are looked for when the step has run twice as long, or 5 s later (lib/evidence/step_watch.h).
        while time.monotonic() < seen + 1.5 * min(seen - began, 5):
            self.await_traffic(step, 1)
        self.lab.script("n02", fault)
        done = step.wait(2 * PATIENCE)
        self.assertNotEqual(done.status, 0, done.err)
        self.good("true")
        return done

    def jobs(self) -> list[str]:
        return sorted(self.lab.good("n01", "squeue", "--noheader", "--format=%A").split(), key=int)


class StepTraffic(StepsTest):
    """The steps do what the verdicts are about, and their processes are found."""

    def test_transfers(self):
        """Each kind sends what it says, where it says."""
        for kind, mib, rdma in (("verbs", 64, 64), ("tcp", 64, 0), ("both", 32, 32), ("nothing", 64, 0)):
            before, again = self.counted(), self.sent_again()
            self.step(kind, mib)
            sent = {name: value - before[name] for name, value in self.counted().items()}
            again = self.sent_again() > again
            total = {"nothing": 0, "both": 2 * mib}.get(kind, mib)
            with self.subTest(kind, sent=sent):
                self.assert_counted(sent["packets"] * RDMA_MTU, rdma * MIB, again, besides=100 * RDMA_MTU)
                self.assert_counted(sent["bytes"], total * MIB, again, besides=MIB)

    def test_lost_in_the_middle(self):
        for fault in FAULTS:
            with self.subTest(fault):
                self.lose(fault)
                self.lab.reset()

    @on_each_suite
    def test_owners_by_step(self):
        """Two jobs on the same nodes, one by RDMA and one by TCP: each queue pair is one job's, and both see the other."""
        self.assertEqual(self.jobs(), [])
        steps = [self.start_step("verbs", 500, program=("--seconds", "110"))]  # longer than the questions below take
        self.await_traffic(steps[0])
        steps.append(self.start_step("tcp", 20))
        first, second = self.await_jobs(2)
        for node in self.lab.nodes:
            for job, owner, name in ((first, "step", "ib_write_bw"), (second, "other step", f"job {first} step 0")):
                said = json.loads(self.lab.good(node, "owners", job, "0"))
                self.assertEqual([(each["owner"], each["name"]) for each in said["owners"]], [(owner, name)], said)
        self.assertTrue(said["other_jobs"])
        # Linux 6.12 may refuse an RDMA WRITE that its Soft-RoCE had to send again: that is not what is asked here.
        done = [step.wait(2 * PATIENCE) for step in steps]
        self.assertEqual(done[1].status, 0, done[1].out + done[1].err)
        said = json.loads(self.lab.good("n01", "owners", first, "0"))
        self.assertEqual(said, {"owners": [], "other_jobs": False})

    def await_jobs(self, count: int) -> list[str]:
        deadline = time.monotonic() + PATIENCE
        while len(jobs := self.jobs()) < count:
            self.assertLess(time.monotonic(), deadline, jobs)
        return jobs


class Verdicts(StepsTest):
    """The line of srun, and the file that a site can have of it. Soft-RoCE of Linux 6.1 and 6.12 counts packets: its
    evidence is D. That of Linux 7.2 counts bytes, too, as hardware does."""

    def setUp(self):
        super().setUp()
        counts_bytes = self.lab.run("n01", "busybox", "test", "-e", f"{PORT}/counters/port_xmit_data").status == 0
        self.grade, self.about = ("A", "") if counts_bytes else ("D", "about ")
        self.addCleanup(self.lab.good, "n01", "sed", "-i", "/^verify_dir/d", SITE_FILE)
        make = f"rm -rf {VERDICTS}; mkdir -m 1777 {VERDICTS}; echo verify_dir = {VERDICTS} >> {SITE_FILE}"
        self.lab.good("n01", *SHELL, make)

    def tearDown(self):
        super().tearDown()
        self.lab.good("n01", "/lab/guest/await-idle", str(len(self.lab.nodes)))

    def line(self, err: str) -> str:
        """Of the verdict, behind "rdma-nccl: "; empty when there is none."""
        lines = err.splitlines()
        said = [number for number, line in enumerate(lines) if SAID.match(line)]
        if not said:
            return ""
        self.assertEqual(said, [len(lines) - 1], f"it is said once, at the end:\n{err}")
        return SAID.match(lines[-1])[1]

    def stored(self) -> list[dict]:
        """The verdicts since the last time, in the order of jobs."""
        names = self.lab.good("n01", "busybox", "ls", VERDICTS).split()
        verdicts = [json.loads(self.lab.read("n01", f"{VERDICTS}/{name}")) for name in names]
        self.lab.good("n01", *SHELL, f"rm -f {VERDICTS}/*")
        return sorted(verdicts, key=lambda verdict: verdict["job"])

    def assert_amounts(self, verdict: dict, rdma: int, sockets: int) -> None:
        """In MiB, of what n02 sent and n01 received; within 10 % of all. What Soft-RoCE on a busy machine sends again by
        RDMA is counted again, too."""
        receiver, sender = verdict["nodes"]
        self.assertEqual((receiver["node"], sender["node"]), ("n01", "n02"))
        for node, way in ((sender, "sent"), (receiver, "received")):
            for kind, mib in (("rdma", rdma), ("sockets", sockets)):
                delta = 0.1 * (rdma + sockets) * MIB + MIB
                again = 0.4 * rdma * MIB if kind == "rdma" else 0
                self.assertGreaterEqual(node[kind][way], mib * MIB - delta, f"{node['node']} {kind}")
                self.assertLessEqual(node[kind][way], mib * MIB + delta + again, f"{node['node']} {kind}")

    @on_each_suite
    def test_each_kind(self):
        """Of real transfers; and nothing is said of a step that sent nothing."""
        used = rf"RDMA USED: {self.about}\d+\.\d % of 2\d\d MB between 2 nodes "
        mixed = rf"warning: RDMA MIXED: {self.about}\d\d\.\d % of 2\d\d MB between 2 nodes "
        kinds = (
            ("verbs", "USED", self.grade, used, 200, 0),
            ("tcp", "NOT USED", "B", r"warning: RDMA NOT USED: 2\d\d MB between 2 nodes went over sockets, 0 B ", 0, 200),
            ("both", "MIXED", self.grade, mixed, 100, 100),
            ("nothing", "IDLE", "B", "$", 0, 0),
        )
        for kind, expected, grade, line, rdma, sockets in kinds:
            with self.subTest(kind):
                done = self.step(kind, max(rdma, sockets), "--rdma-nccl")
                [verdict] = self.stored()
                self.assertRegex(self.line(done.err), "^" + line)
                self.assertEqual((verdict["verdict"], verdict["evidence"]), (expected, grade))
                self.assertEqual(verdict["gpu_direct"], "unknown")
                self.assert_amounts(verdict, rdma, sockets)

    @on_each_suite
    def test_names_what_a_script_has_set(self):
        """The plan did not know of it."""
        done = self.step("tcp", 400, "--rdma-nccl", "env", "NCCL_IB_DISABLE=1")
        self.assertNotIn("NCCL_IB_DISABLE", done.err.replace(self.line(done.err), ""))
        self.assertRegex(self.line(done.err), r"RDMA NOT USED: .*; in the ranks' environment: NCCL_IB_DISABLE=1 ")

    @on_each_suite
    def test_profile(self):
        """The bytes of a communicator over both nodes, as NCCL's profiler plugin in each rank has counted them."""
        command = ("srun", "-N2", "--rdma-nccl=profile=on", "--ntasks-per-node=2", "profiled", "100")
        done = self.lab.start("n01", *command, user="alice").wait(2 * PATIENCE)
        self.assertEqual(done.status, 0, done.err)
        self.assertRegex(done.err, r"(?m)^rdma-nccl: communicator tp \(4 ranks\) +419 MB +419 MB +slowest peer \d -> \d, ")
        [totals] = self.stored()[0]["communicators"]
        self.assertEqual((totals["processes"], totals["sent"], totals["received"]), (4, 400 * MIB, 400 * MIB))
        self.assertEqual(self.lab.good("n02", "find", "/tmp", "/dev/shm", "-maxdepth", "1", "-name", "rdma-nccl-*"), "")

    @on_each_suite
    def test_best_grade(self):
        """A+ where the counters are the step's own and NCCL's count agrees: real bytes by RDMA from n02 to n01, of which
        `profiled` says that NCCL has sent them. Packets of 4 KiB, so headers are 1 %, and none is sent and counted again."""
        play = 'if [ "$SLURM_PROCID" = 0 ]; then profiled 100 || exit; fi; exec "$@"'
        done = self.step("verbs", 100, "--rdma-nccl=profile=on", "sh", "-c", play, "sh", program=("--gently",))
        [verdict] = self.stored()
        [totals] = verdict["communicators"]
        self.assertEqual(totals["sent"], 100 * MIB)
        self.assertEqual(verdict["evidence"], "A+" if self.grade == "A" else self.grade, done.err)

    def test_two_steps_at_once(self):
        """On the same nodes: each queue pair is one step's, and the other did not use RDMA. How much of what went over
        sockets the first has seen depends on when they end; it says so when that makes it doubtful."""
        verbs = self.start_step("verbs", 400, "--rdma-nccl")
        self.await_traffic(verbs)
        other = self.step("tcp", 100, "--rdma-nccl=verify=full")
        done = verbs.wait(2 * PATIENCE)
        self.assertEqual(done.status, 0, done.err)
        first, second = self.stored()
        said = self.line(done.err)
        self.assertIn(first["verdict"], ("USED", "UNKNOWN"), said)
        if first["verdict"] == "UNKNOWN":
            self.assertRegex(said, "may include those of another step")
        self.assertEqual(second["verdict"], "NOT USED", other.err)
        for mine, others in zip(first["nodes"], second["nodes"]):
            self.assertEqual((mine["queue_pairs"]["most_own"], mine["queue_pairs"]["others"]), (1, []))
            self.assertEqual(others["queue_pairs"]["most_own"], 0)
            self.assertEqual(others["queue_pairs"]["others"], [f"job {first['job']} step 0"])
            self.assertEqual((mine["exclusive"], others["exclusive"]), (False, False))
        self.assertIn(f"the RDMA traffic was not this step's, which had no queue pair (job {first['job']} ", other.err)
        self.assert_amounts(second, 0, 100)

    def test_lost_in_the_middle(self):
        """srun says what it has seen until then, and does not wait for what is gone."""
        for fault in FAULTS:
            with self.subTest(fault):
                done = self.lose(fault, "--rdma-nccl")
                self.lab.reset()
                said = rf"^RDMA USED: {self.about}[\d.]+ % of [\d.]+ [MG]B between 2 nodes "
                self.assertRegex(self.line(done.err), said)
                verdict = self.stored()[0]
                self.assertEqual((verdict["verdict"], verdict["unresponsive"]), ("USED", []))
                for node in verdict["nodes"]:
                    self.assertEqual(node["queue_pairs"]["own_ports"], ["mlx5_0:1"])
