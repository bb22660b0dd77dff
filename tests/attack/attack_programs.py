# SPDX-License-Identifier: Apache-2.0
"""A stranger among the processes of `rdma-nccl bench`, `pairs` and `run`: he knows all that is public of the step, and
takes the place of the head, or of a member that comes late."""

from __future__ import annotations

import json
import os
import subprocess

from attack_test import AttackTest, Program

LAYOUT = "--rdma-nccl=layout=rank,verify=off,port=23456"
PORT = 23456
CONTROL = PORT + 3  # of the launchers
TWO = ["srun", "-N2", "--ntasks-per-node=1"]

# Says what the stranger sees too, and goes on when it is told.
HELD = 'echo "ready $SLURM_JOB_ID.$SLURM_STEP_ID"; until [ -e $GO ]; do sleep 0.05; done; exec "$@"'
LATE = 'echo "ready $SLURM_JOB_ID.$SLURM_STEP_ID"; [ $SLURM_NODEID = 0 ] || until [ -e $GO ]; do sleep 0.05; done; exec "$@"'
RANK = 'echo "runs $RANK"; until [ -e $DONE ]; do sleep 0.05; done; echo "good $RANK"'

PRELOADED = """
#include <fcntl.h>
#include <stdlib.h>
__attribute__((constructor)) static void leave_a_mark(void) { creat(getenv("MARKER"), 0644); }
"""


class AmongPrograms(AttackTest):
    arguments = [*AttackTest.arguments, "--gpus", "2"]

    def begin(self, waiting: str, *command: str, options: tuple[str, ...] = (LAYOUT,)) -> tuple[Program, str]:
        """The step, and its number: all its tasks are there."""
        step = self.start(*TWO, *options, "bash", "-c", waiting, "bash", *command, GO=self.path("go"), DONE=self.path("done"))
        number = step.until_said(r"^ready (\S+)").group(1)
        step.until_said("^ready", 2)
        return step, number

    def forge(self, *words: object) -> Program:
        return self.stranger("n01", *words, program="forge.py")

    def test_bench_starts_nothing_for_a_stranger(self):
        """On the head's port before the head itself, he orders a rank with a library of his own."""
        marker = self.path("marker")
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-o", f"{marker}.so", "-"], input=PRELOADED, text=True, check=True)
        root = os.path.join(self.cluster.dir, "root")
        step, number = self.begin(HELD, "rdma-nccl", "bench", "--host", "--root", root, "--json", "--join", "5")
        bob = self.forge("head", PORT, number, "bench", marker)
        bob.until_said("^listening")
        self.touch("go")
        step.wait()
        owner = os.stat(marker).st_uid if os.path.exists(marker) else None
        self.assertIsNone(owner, f"a stranger's code was run, by this user\n{bob.text}{step.text}")

    def test_pairs_takes_nothing_of_a_stranger(self):
        """He is there before a node that comes late, and says that he is it."""
        root = os.path.join(self.cluster.dir, "root")
        options = ["--json", "--join", "10", "--schedule", "loopback", "-D", "0.1"]
        step, number = self.begin(LATE, "rdma-nccl", "pairs", "--root", root, *options)
        bob = self.forge("member", "10.0.60.3", PORT, number, "pairs")
        bob.until_said("^(joined|refused)")
        self.touch("go")
        step.wait()
        report = "".join(line for line in step.out if not line.startswith("ready"))
        self.assertNotIn("FORGED", report, f"{bob.text}{step.text}")
        self.assertEqual([node["name"] for node in json.loads(report)["nodes"]], ["n01", "n02"])

    def late_launcher(self, *options: str, run: tuple[str, ...] = ()) -> None:
        launcher = ["rdma-nccl", "run", "-n", "1", "--join-timeout", "5", *run, "bash", "-c", RANK]
        step, number = self.begin(LATE, *launcher, options=options)
        step.until_said("runs 0")
        bob = self.forge("member", "10.0.60.3", CONTROL, number, "run")
        bob.until_said("^(joined|refused)")
        self.touch("go")
        step.until_said("runs 1")
        self.touch("done")
        self.assertEqual(step.wait(), 0, bob.text + step.text)
        self.assertTrue(step.said(r"good \d", 2), step.text)

    def test_run_is_not_ended_by_a_stranger_who_leaves(self):
        """He is there before a node that comes late, says that he is it, and is lost."""
        self.late_launcher("--rdma-nccl=exchange=off,verify=off,port=23456")

    def test_run_without_the_plugin_is_not_ended_by_a_stranger_who_leaves(self):
        self.late_launcher(run=("--master-addr", "10.0.60.3", "--master-port", str(PORT)))

    def test_run_obeys_no_stranger(self):
        """On the port of the head's launcher before that, he tells the others to end, and that all was good."""
        step, number = self.begin(HELD, "rdma-nccl", "run", "-n", "1", "--join-timeout", "5", "bash", "-c", RANK,
                                  options=("--rdma-nccl=exchange=off,verify=off,port=23456",))
        bob = self.forge("head", CONTROL, number, "run", "-")
        bob.until_said("^listening")
        self.touch("go")
        step.until_said("runs 1")
        self.happens(2, lambda: bob.said("^heard") and (step.ended() or step.said("end|lost")))
        self.touch("done")
        step.wait()
        self.assertTrue(step.said(r"good 1"), bob.text + step.text)
