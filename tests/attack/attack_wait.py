# SPDX-License-Identifier: Apache-2.0
"""What a node waits for, and how long: whoever holds up a step's start holds up a node of the site."""

from __future__ import annotations

import re

from attack_test import HEAD, LOGIN, AttackTest, Program, build_shim

STEP = ["srun", "-N2", "--ntasks-per-node=1"]
SHOW = ["bash", "-c", "echo MASTER_ADDR=$MASTER_ADDR"]
WISHES = ("500", "40")  # seconds: the longest that was ever taken, and that is now
PORTS = {"mute": "21101", "trickle": "21102"}


class HeldUp(AttackTest):
    arguments = [*AttackTest.arguments, "--names"]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.shim = build_shim(cls.cluster.dir)

    def endpoint(self) -> list[str]:
        """What srun hands to the nodes, of which a field is PORT and one is WISH."""
        log = self.path("log")
        self.start(*STEP, "--rdma-nccl=exchange=29,verify=off", "true", LD_PRELOAD=self.shim, SHIM_LOG=log).wait()
        with open(log, encoding="ascii") as file:
            told = re.search(r"SLURM_RDMA_NCCL_EXCHANGE=(.*)", file.read()).group(1)
        fields = ["WISH" if field == "29" else re.sub(r"^\d{4,5}$", "PORT", field) for field in told.split(";")]
        self.assertLessEqual({"PORT", "WISH"}, set(fields), f"this test does not know the endpoint's fields any more: {told}")
        return fields

    def test_a_server_that_says_nothing(self):
        """Named by the user in the step's environment; one that says little likewise."""
        fields = self.endpoint()
        steps: list[Program] = []
        for kind, port in PORTS.items():
            self.start("stranger.py", kind, LOGIN, port).until_said("^listening 1")
            for wish in WISHES:
                told = ";".join({"PORT": port, "WISH": wish}.get(field, field) for field in fields)
                steps.append(self.start(*STEP, "--rdma-nccl=layout=rank,verify=off", *SHOW,
                                        LD_PRELOAD=self.shim, SHIM_EXCHANGE=told))
        for step in steps:
            step.until_said("^MASTER_ADDR=", 2)
            self.assertEqual(step.wait(), 0, step.text)
            self.assertLessEqual(self.heads(step.text), HEAD, step.text)

    def test_a_wait_ends_with_srun(self):
        """The step is cancelled while one node waits for the other, whose slurmd hangs."""
        with self.stopped("slurmd", "n02"):
            step = self.start(*STEP, "--rdma-nccl=layout=rank,exchange=30,verify=off", *SHOW)
            self.until_listening(step, "n01")
            self.good("scancel", "--user=alice", user="root")
            self.good("pkill", "-KILL", "-x", "srun", user="root")  # which would wait for that slurmd itself
            step.wait()
            # Half of what it would have waited.
            self.until("the end of the wait", lambda: not self.listeners("n01"), limit=15)

    def test_a_wait_ends_with_scancel(self):
        """srun itself waits for the slurmd that hangs."""
        with self.stopped("slurmd", "n02"):
            step = self.start(*STEP, "--rdma-nccl=layout=rank,exchange=30,verify=off", *SHOW)
            self.until_listening(step, "n01")
            self.good("scancel", "--user=alice", user="root")
            # Half of what it would have waited.
            self.until("the end of the wait", lambda: not self.listeners("n01"), limit=15)
            self.assertFalse(step.ended(), step.text)
        step.wait()
