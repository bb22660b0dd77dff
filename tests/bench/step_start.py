# SPDX-License-Identifier: Apache-2.0
"""The start of a step with the plugin against one without any, in a private Slurm of two nodes."""

from __future__ import annotations

import os
import subprocess

from measure import BUILD, TESTS, LeftOut, line, medians, run

CLUSTER = os.path.join(TESTS, "cluster", "cluster")


def bench_step_start(folder: str) -> None:
    if os.geteuid() != 0:
        raise LeftOut("needs root")
    up = [CLUSTER, "up", "--owner", str(os.getpid()), "--plugin", os.path.join(BUILD, "rdma_nccl.so")]
    state = subprocess.run(up, check=True, capture_output=True, text=True).stdout.split()[0]
    conf = os.path.join(state, "etc", "plugstack.conf")
    with open(conf, encoding="utf-8") as file:
        with_plugin = file.read()

    def step(plugstack: str, *options: str) -> float:
        with open(conf, "w", encoding="utf-8") as file:
            file.write(plugstack)
        srun = ["srun", "-N2", "--ntasks-per-node=8", *options, "true"]
        return run([CLUSTER, "exec", "--dir", state, "--", *srun], check=True).wall

    try:
        ours, plain = medians(25, lambda: step(with_plugin, "--rdma-nccl"), lambda: step(""))
    finally:
        subprocess.run([CLUSTER, "down", "--dir", state], check=True)
    line(
        "step start, 2 nodes, 16 tasks, with --rdma-nccl",
        f"{ours:.3f} s",
        f"without any plugin {plain:.3f} s",
        f"{ours / plain:.2f}",
        "<= 1.03",
    )
