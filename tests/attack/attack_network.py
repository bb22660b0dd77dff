# SPDX-License-Identifier: Apache-2.0
"""A stranger at the ports of a step while its nodes agree, and between them and srun: floods, nonsense, changes."""

from __future__ import annotations

import os
import re

from attack_test import HEAD, LOGIN, AttackTest, Program, build_shim

# srun's, so that somebody else can be in its place. Below ip_local_port_range, so that no outgoing connection holds one.
PORTS = "21000-21063"
STEP = ["srun", "-N2", "-w", "n01,n02", "--ntasks-per-node=1"]
SHOW = ["bash", "-c", "echo MASTER_ADDR=$MASTER_ADDR MASTER_PORT=$MASTER_PORT"]
FAKE = "25.11.128.9"
CHANGES = ["drip", "flip", "twice", "swap", "cut", "grow", f"head 25.11.128.2=head {FAKE}"]


class FromTheNetwork(AttackTest):
    """The steps are on two nodes; he is on the third, whose addresses are the relays'."""

    arguments = [*AttackTest.arguments, "--nodes", "3", "--names", "--slurm-conf", f"SrunPortRange={PORTS}",
                 "--slurm-conf", "MessageTimeout=100"]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.shim = build_shim(cls.cluster.dir)

    def step(self, *options: str, verify: str = "off", **variables: str) -> Program:
        chosen = ",".join(["layout=rank", f"verify={verify}", *options])
        return self.start(*STEP, f"--rdma-nccl={chosen}", *SHOW, LD_PRELOAD=self.shim, **variables)

    def check(self, step: Program, text: str = "") -> None:
        self.assertEqual(step.wait(), 0, text + step.text)
        found = re.findall(r"^MASTER_ADDR=(\S*) MASTER_PORT=\d+$", step.text, re.M)
        self.assertEqual(len(found), 2, step.text)
        self.assertLessEqual(set(found), HEAD, text + step.text)

    def check_agreement(self, step: Program) -> None:
        self.check(step)
        self.assertEqual(self.heads(step.text), {"25.11.128.2"}, step.text)
        self.assertFalse(step.said("plans? alone"), step.text)

    def attacked(self, attack) -> Program:
        """A step whose second node does not come before attack() is over, which is given where srun and the head listen."""
        log = self.path("log")
        with self.stopped("slurmd", "n02"):
            step = self.step("exchange=30", verify="full", SHIM_LOG=log)
            head = [("25.11.128.2", port) for port in self.until_listening(step, "n01")]
            with open(log, encoding="ascii") as file:
                told = re.search(r"SLURM_RDMA_NCCL_EXCHANGE=(.*)", file.read()).group(1)
            srun = [(LOGIN, port) for port in self.listeners() if re.search(rf"\b{port}\b", told)]
            self.assertEqual((len(srun), len(head)), (1, 1), told)
            attack(srun + head)
        return step

    def test_a_thousand_connections_held_open(self):
        def flood(targets: list[tuple[str, str]]) -> None:
            strangers = [self.stranger("n03", "flood", 1000, *target) for target in targets]
            for bob in strangers:
                bob.until_said("^held")

        step = self.attacked(flood)
        self.check_agreement(step)
        self.assertTrue(step.said("RDMA IDLE: .* between 2 nodes"), f"not judged at its end: {step.text}")

    def record(self) -> str:
        """Another step's words, in both directions."""
        directory = self.path("recorded")
        os.mkdir(directory)
        os.chmod(directory, 0o777)
        bob = self.stranger("n03", "--record", directory, "relay", "pass", "10.0.60.5", PORTS, LOGIN)
        bob.until_said("^listening 64")
        self.check(self.step("exchange=10", SHIM_FROM=LOGIN, SHIM_TO="10.0.60.5"))
        bob.until_said("^heard", 2)
        bob.end()
        return directory

    def test_nonsense_and_what_another_step_has_said(self):
        directory = self.record()

        def talk(targets: list[tuple[str, str]]) -> None:
            strangers = [self.stranger("n03", "--record", directory, "noise", *target) for target in targets]
            for bob in strangers:
                bob.until_said("^done")

        self.check_agreement(self.attacked(talk))
        bob = self.stranger("n03", "--record", directory, "squat", "10.0.60.5", PORTS)
        bob.until_said("^listening 64")
        self.check(self.step("exchange=2", SHIM_FROM=LOGIN, SHIM_TO="10.0.60.5"), bob.text)

    def test_changes_between_the_nodes_and_srun(self):
        """Each change by a relay of its own, all at a time."""
        steps = []
        for number, change in enumerate(CHANGES):
            address = f"10.0.60.{101 + number}"
            self.good("ip", "addr", "add", f"{address}/24", "dev", "eth0", user="root", node="n03")
            bob = self.stranger("n03", "relay", change, address, PORTS, LOGIN)
            bob.until_said("^listening 64")
            steps.append((change, bob, self.step("exchange=2", SHIM_FROM=LOGIN, SHIM_TO=address)))
        for change, bob, step in steps:
            with self.subTest(change=change):
                bob.until_said("^heard")
                self.check(step, bob.text)

    def test_ports_that_are_taken_before(self):
        ports = self.stranger("n01", "squat", "0.0.0.0", "12000-12007", "23456-23459")
        ports.until_said("^listening 12")
        for options in ([], ["port=23456"]):
            step = self.step(*options)
            self.check(step)
            self.assertEqual(self.heads(step.text), {"25.11.128.2"}, step.text)
            if not options:
                taken = set(re.findall(r"MASTER_PORT=(\d+)", step.text)) & {str(port) for port in range(12000, 12008)}
                self.assertEqual(taken, set(), step.text)

    def test_who_listens_beside_rank_zero_is_named(self):
        for options in ([], ["strict"]):
            step = self.start(*STEP, f"--rdma-nccl={','.join(['layout=rank', *options])}", "bash", "-c",
                              "echo MASTER_PORT=$MASTER_PORT; exec sleep 1000")
            step.until_said("^MASTER_PORT=", 2)
            port = re.search(r"^MASTER_PORT=(\d+)", step.text, re.M).group(1)
            bob = self.stranger("n01", "squat", "0.0.0.0", port)
            bob.until_said("^listening 1")
            step.until_said(rf"n01: warning: uid \d+[^:]* listens on port {port} of this step")
            if options:
                self.assertNotEqual(step.wait(), 0, step.text)
                self.assertTrue(step.said("strict: the step is ended"), step.text)
            else:
                self.good("scancel", "--user=alice", user="root")
                step.wait()
            bob.end()
