# SPDX-License-Identifier: Apache-2.0
"""A stranger between the nodes of a step and its srun, while they agree: he hears, repeats, relays, changes, holds up."""

from __future__ import annotations

import os
import tempfile

from attack_test import BRIDGE, HEAD, LOGIN, AttackTest, Program, describe_bridged

PORTS = "21000-21015"  # below ip_local_port_range
CONF = ["--slurm-conf", f"SrunPortRange={PORTS}", "--slurm-conf", "MessageTimeout=100"]
TWO = ["srun", "-N2", "--ntasks-per-node=1"]
SHOW = ["bash", "-c", "echo MASTER_ADDR=$MASTER_ADDR"]
FAKE = "25.11.128.9"

HELD = 23456  # MASTER_PORT; what the head's slurmstepd answers the others' tests at
LATE = '[ $SLURM_NODEID = 0 ] || until [ -e $GO ]; do sleep 0.05; done; exec "$@"'
RANK = 'echo "runs $RANK"; until [ -e $GO ]; do sleep 0.05; done; echo "good $RANK"'

# srun waits behind the creation of its step until it is told to go on.
PROLOG = '#!/bin/bash\ntouch {0}/created\nuntil [ -e {0}/go ]; do sleep 0.05; done\n'


class OnTheBridge(AttackTest):
    """On an address that every machine has, he is on a node what srun and the head node are elsewhere."""

    @classmethod
    def setUpClass(cls) -> None:
        with tempfile.TemporaryDirectory() as directory:
            cls.arguments = [*AttackTest.arguments, *CONF, "--names", "--fabric", describe_bridged(directory)]
            super().setUpClass()
        cls.cluster.run("ip", "link", "add", "docker0", "type", "bridge", user="root")
        cls.cluster.run("ip", "addr", "add", f"{BRIDGE}/16", "dev", "docker0", user="root")
        cls.cluster.run("ip", "link", "set", "docker0", "up", user="root")

    def busy_step(self) -> Program:
        """srun answers late, as slurmctld does: then nodes try its further addresses. And the head comes late."""
        prolog = self.path("prolog")
        with open(prolog, "w", encoding="ascii") as file:
            file.write(PROLOG.format(self.shared))
        os.chmod(prolog, 0o755)
        step = self.start(*TWO, "--rdma-nccl=layout=rank,exchange=30,verify=off", f"--prolog={prolog}", *SHOW)
        self.until_in(step, "its creation", lambda: os.path.exists(self.path("created")))
        return step

    def test_srun_is_told_nothing_by_who_hears_a_node(self):
        bob = self.stranger("n02", "node", FAKE, BRIDGE, PORTS, LOGIN, program="forge.py")
        bob.until_said("^listening")
        step = self.busy_step()
        with self.stopped("slurmd", "n01"):
            with self.stopped("slurmctld", "login"):
                self.touch("go")
                heard = self.happens(3, lambda: bob.said("^asked"))
            self.happens(3, lambda: not heard or bob.said("^(answered|refused)"))
        self.assertEqual(step.wait(), 0, step.text)
        self.assertEqual(len([line for line in step.out if line.startswith("MASTER_ADDR")]), 2, step.text)
        self.assertLessEqual(self.heads(step.text), HEAD, bob.text + step.text)

    def test_nonsense_in_the_place_of_srun(self):
        bob = self.stranger("n02", "squat", BRIDGE, PORTS)
        bob.until_said("^listening 16")
        step = self.busy_step()
        with self.stopped("slurmctld", "login"):
            self.touch("go")
            self.happens(3, lambda: bob.said("^heard"))
        self.assertEqual(step.wait(), 0, step.text)
        self.assertLessEqual(self.heads(step.text), HEAD, bob.text + step.text)

    def hear_test(self) -> Program:
        bob = self.stranger("n02", "test", BRIDGE, HELD, LOGIN, PORTS, "10.0.60.3", HELD + 3, program="forge.py")
        bob.until_said("^listening 1")
        return bob

    def pass_test(self, bob: Program) -> None:
        """A node cannot connect to the head but by an address where he answers."""
        bob.until_said("^listening 1")
        route = ("unreachable", "10.0.60.3/32")
        self.good("ip", "route", "add", *route, user="root", node="n02")
        try:
            step = self.start(*TWO, f"--rdma-nccl=layout=rank,port={HELD},exchange=20,verify=off", *SHOW)
            self.assertEqual(step.wait(), 0, step.text)
        finally:
            self.good("ip", "route", "del", *route, user="root", node="n02")
        self.assertLessEqual(self.heads(step.text), HEAD, bob.text + step.text)

    def test_no_address_passes_the_test_because_srun_answers_him(self):
        self.pass_test(self.hear_test())

    def test_no_address_passes_the_test_because_the_head_answers_him(self):
        other = ("10.0.60.99/24", "dev", "eth0")
        self.good("ip", "addr", "add", *other, user="root", node="n01")
        try:
            self.pass_test(self.stranger("n02", "relay", "pass", BRIDGE, HELD, "10.0.60.99"))
        finally:
            self.good("ip", "addr", "del", *other, user="root", node="n01")

    def test_launchers_are_not_ended_by_who_hears_the_test(self):
        bob = self.hear_test()
        run = ["rdma-nccl", "run", "-n", "1", "--join-timeout", "5", "bash", "-c", RANK]
        step = self.start(*TWO, f"--rdma-nccl=port={HELD},verify=off", "bash", "-c", LATE, "bash", *run, GO=self.path("go"))
        step.until_said("runs 0")
        self.happens(3, lambda: bob.said("^(joined|refused)"))
        self.touch("go")
        self.assertEqual(step.wait(), 0, bob.text + step.text)
        self.assertTrue(step.said(r"good \d", 2), step.text)
