# SPDX-License-Identifier: Apache-2.0
"""The start of a step with the plugin against one without any, and with another order of nodes, in a private Slurm."""

from __future__ import annotations

import os
import statistics
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from measure import BUILD, TESTS, LeftOut, in_turns, line

CLUSTER = os.path.join(TESTS, "cluster", "cluster")
# Times srun alone, without the entry into the node's namespaces.
TIMED = 'LC_ALL=C; begin=$EPOCHREALTIME; "$@" >&2 || exit; echo "$begin $EPOCHREALTIME"'
SIDES = {  # options of srun
    "the plugin": [],
    "--rdma-nccl": ["--rdma-nccl"],
    "exchange=off": ["--rdma-nccl=exchange=off"],
}
TWO_LEAVES = [  # Slurm's order, by name, leaves one for the other between any two nodes
    "--slurm-conf", "TopologyPlugin=topology/tree",
    "--topology", "SwitchName=s1 Nodes=n01,n03", "--topology", "SwitchName=s2 Nodes=n02,n04",
    "--topology", "SwitchName=spine Switches=s[1-2]",
]  # fmt: skip


@contextmanager
def cluster(*arguments: str) -> Iterator[str]:
    """Its state directory."""
    if os.geteuid() != 0:
        raise LeftOut("needs root")
    up = [CLUSTER, "up", "--owner", str(os.getpid()), "--plugin", os.path.join(BUILD, "rdma_nccl.so"), *arguments]
    state = subprocess.run(up, check=True, capture_output=True, text=True).stdout.split()[0]
    try:
        yield state
    finally:
        subprocess.run([CLUSTER, "down", "--dir", state], check=True)


def run_step(state: str, *options: str) -> tuple[float, str]:
    """The seconds that it took, and what srun said."""
    srun = ["srun", "--ntasks-per-node=8", *options, "true"]
    timed = [CLUSTER, "exec", "--dir", state, "--", "bash", "-c", TIMED, "bash", *srun]
    done = subprocess.run(timed, check=True, capture_output=True, text=True)
    begin, end = map(float, done.stdout.split())
    return end - begin, done.stderr


def compare(what: str, times: list[float], peer: str, peer_times: list[float], budget: str) -> None:
    """Each against its neighbour in time: what the machine does besides comes and goes."""
    ratio = statistics.median(mine / other for mine, other in zip(times, peer_times))
    line(
        f"step start, {what}",
        f"{statistics.median(times):.3f} s",
        f"{peer} {statistics.median(peer_times):.3f} s",
        f"{ratio:.3f}",
        budget,
    )


def bench_step_start(_folder: str) -> None:
    with cluster() as state:
        conf = os.path.join(state, "etc", "plugstack.conf")
        with open(conf, encoding="utf-8") as file:
            with_plugin = file.read()

        def with_plugstack(plugstack: str, *options: str) -> Callable[[], float]:
            def step() -> float:
                with open(conf, "w", encoding="utf-8") as file:
                    file.write(plugstack)
                return run_step(state, "-N2", *options)[0]

            return step

        sides = [with_plugstack(with_plugin, *options) for options in SIDES.values()]
        plain, *ours = in_turns(25, with_plugstack(""), *sides)
    for name, times in zip(SIDES, ours):
        compare(f"2 nodes, 16 tasks, with {name}", times, "without any plugin", plain, "<= 1.03")


def bench_step_order(_folder: str) -> None:
    with cluster("--nodes", "4", *TWO_LEAVES) as state:

        def with_order(order: str) -> Callable[[], float]:
            return lambda: run_step(state, "-N4", f"--rdma-nccl=order={order}")[0]

        _, said = run_step(state, "-N4", "--rdma-nccl=order=topology")
        if "order=topology: a ring of nodes leaves" not in said:
            raise LeftOut("this Slurm keeps its own order")

        slurm, topology = in_turns(200, with_order("slurm"), with_order("topology"))
    compare("4 nodes, 32 tasks, order=topology", topology, "order=slurm", slurm, "<= 1.005")
