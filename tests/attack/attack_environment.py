# SPDX-License-Identifier: Apache-2.0
"""A user who fills the step's environment with what nobody means: too much, no text, numbers that cannot be."""

from __future__ import annotations

import os
import pathlib
import re

from attack_test import HEAD, AttackTest, Program, build_shim
from cluster_test import CHECKOUT

STEP = ["srun", "-N2", "--ntasks-per-node=1"]
SHOW = ["/bin/bash", "-c", "echo MASTER_ADDR=$MASTER_ADDR"]
OURS = ("EXCHANGE", "KEY", "NOTE")  # that srun's plugin hands to the nodes, behind SLURM_RDMA_NCCL_
HOSTILE = {
    "huge": "9" * 2000,
    "large": "18446744073709551615",
    "binary": os.fsdecode(bytes([1, 255, 254, 128, 27, 127])),
    "negative": "-1",
    "format": "%n%s%n%s/../../../../etc/passwd",
}
STRUCTURED = ["1;0;;;0;", "1;22;" + "f" * 32 + ";" + "0" * 32 + ";500;255.255.255.255", "2;65536;-1;::", ";" * 1000,
              "2;1;500;" + ",".join(["127.0.0.1"] * 100), "f" * 64, "0" * 63, "g" * 64]


def names_read() -> tuple[list[str], list[str]]:
    """Slurm's variables that the sources name, and the settings'."""
    texts = []
    for directory in ("lib", "plugin"):
        for path in sorted(pathlib.Path(CHECKOUT, directory).rglob("*.[ch]*")):
            texts.append(path.read_text(encoding="utf-8"))
    text = "\n".join(texts)
    slurms = {name for name in re.findall(r'"(SLURMD?_[A-Z_]+)"', text) if not name.startswith("SLURM_RDMA")}
    keys = pathlib.Path(CHECKOUT, "lib/settings/keys.cpp").read_text(encoding="utf-8")
    settings = {f"RDMA_NCCL_{key.upper()}" for key in re.findall(r'^    \{"(\w+)", "', keys, re.MULTILINE)}
    assert len(slurms) > 20 and len(settings) > 20, "the sources have moved"
    return sorted(slurms), sorted(settings | set(re.findall(r'"(RDMA_NCCL_[A-Z_]+)"', text)))


class HostileEnvironment(AttackTest):
    arguments = [*AttackTest.arguments, "--names"]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.shim = build_shim(cls.cluster.dir)

    def exported(self, names: list[str], value: str, *options: str) -> Program:
        """In the step's environment; srun itself reads none of it."""
        words = ",".join(["ALL", *(f"{name}={value}" for name in names)])
        return self.start(*STEP, f"--export={words}", *options, *SHOW)

    def check(self, step: Program) -> None:
        self.assertEqual(step.wait(), 0, step.text)
        self.assertEqual(len([line for line in step.out if line.startswith("MASTER_ADDR=")]), 2, step.text)
        self.assertLessEqual(self.heads(step.text), HEAD, step.text)

    def test_variables_of_slurm(self):
        names, _ = names_read()
        self.assertGreater(len(names), 20, "these are not the sources' names")
        with_plugin = "--rdma-nccl=layout=rank,verify=off"
        for kind, value in HOSTILE.items():
            with self.subTest(kind=kind):
                bare, step = self.exported(names, value), self.exported(names, value, with_plugin)
                if bare.wait() == 0:  # else Slurm itself refuses
                    self.check(step)

    def test_settings(self):
        """What cannot be meant is refused with a word; nothing else happens."""
        _, names = names_read()
        self.assertGreater(len(names), 20, "these are not the sources' names")
        for kind, value in HOSTILE.items():
            steps = [self.start(*STEP, "--rdma-nccl=verify=off", *SHOW, **dict.fromkeys(names, value)),
                     self.exported(names, value, "--rdma-nccl=verify=off")]
            for step in steps:
                with self.subTest(kind=kind, in_srun=step is steps[0]):
                    if step.wait() != 0:
                        self.assertRegex(step.text, "rdma-nccl: .*(RDMA_NCCL_|setting)")
                    self.assertNotRegex(step.text, "signal|core dumped|Segmentation|Abort")
                    self.assertLessEqual(self.heads(step.text) - {""}, HEAD, step.text)

    def test_what_srun_hands_to_the_nodes(self):
        """By a user's own srun, one of them each time."""
        values = [*HOSTILE.values(), *STRUCTURED]
        for name in OURS:
            steps = [self.start(*STEP, "--rdma-nccl=layout=rank,verify=off,exchange=2", *SHOW, LD_PRELOAD=self.shim,
                                **{f"SHIM_{name}": value}) for value in values]
            for value, step in zip(values, steps):
                with self.subTest(name=name, value=value[:80]):
                    self.check(step)
