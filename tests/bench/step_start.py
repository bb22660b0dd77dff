# SPDX-License-Identifier: Apache-2.0
"""The start of a step with the plugin against one without any, in a private Slurm of two nodes."""

from __future__ import annotations

import os
import statistics
import subprocess

from measure import BUILD, TESTS, LeftOut, in_turns, line

CLUSTER = os.path.join(TESTS, "cluster", "cluster")
# Times srun alone, without the entry into the node's namespaces.
TIMED = 'LC_ALL=C; begin=$EPOCHREALTIME; "$@" >&2 || exit; echo "$begin $EPOCHREALTIME"'
SIDES = {  # options of srun
    "the plugin": [],
    "--rdma-nccl": ["--rdma-nccl"],
    "exchange=off": ["--rdma-nccl=exchange=off"],
}


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
        timed = [CLUSTER, "exec", "--dir", state, "--", "bash", "-c", TIMED, "bash", *srun]
        done = subprocess.run(timed, check=True, capture_output=True, text=True)
        begin, end = map(float, done.stdout.split())
        return end - begin

    sides = [lambda options=options: step(with_plugin, *options) for options in SIDES.values()]
    try:
        plain, *ours = in_turns(25, lambda: step(""), *sides)
    finally:
        subprocess.run([CLUSTER, "down", "--dir", state], check=True)
    for name, times in zip(SIDES, ours):
        # Each against its neighbour in time: what the machine does besides comes and goes.
        ratio = statistics.median(time / peer for time, peer in zip(times, plain))
        line(
            f"step start, 2 nodes, 16 tasks, with {name}",
            f"{statistics.median(times):.3f} s",
            f"without any plugin {statistics.median(plain):.3f} s",
            f"{ratio:.3f}",
            "<= 1.03",
        )
