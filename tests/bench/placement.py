# SPDX-License-Identifier: Apache-2.0
"""The placement of ranks: what it costs, and where it puts them beside its peers."""

from __future__ import annotations

import os
import subprocess
import sys

from measure import BUILD, COMMAND, TESTS, LeftOut, line, make_tree

sys.path.insert(0, os.path.join(TESTS, "placement"))

from compare import Worth, compare, is_worse, pair  # noqa: E402
from machine import path_of, read_machine, topologies  # noqa: E402
from peers import PEERS  # noqa: E402

PROGRAM = os.path.join(BUILD, "tests", "bench", "placement")
LARGEST = "dgx-a100"  # 256 CPUs, 8 GPUs

READS = (
    ("this machine", "live", "with devices", "live_devices"),
    ("a tree", "tree", "with devices", "tree_devices"),
    ("a tree", "tree", "as XML, with devices", "xml"),
)

METRICS = {
    "gpu_cpu": "GPU-CPU distance",
    "gpu_hca": "GPU-HCA distance",
    "ranks_per_hca": "most ranks at an HCA",
    "overlap": "CPUs of several ranks",
    "idle_cores": "cores without a rank",
}


def bench_placement(folder: str) -> None:
    if not os.access(PROGRAM, os.X_OK):
        raise LeftOut(f"make {os.path.relpath(PROGRAM)} first")
    command = [PROGRAM, path_of(LARGEST), make_tree(folder, LARGEST)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    cost = {key: float(value) for key, value in map(str.split, output.splitlines())}
    for masks in ("open", "bound"):
        line(f"placement, 256 CPUs, 8 GPUs, masks {masks}", f"{cost[masks]:.2f} ms CPU", "", "", "<= 10 ms")
    for what, mine, other, peer in READS:
        ratio = f"{cost[mine] / cost[peer]:.2f}"
        line(f"hwloc reads {what}", f"{cost[mine]:.1f} ms CPU", f"{other} {cost[peer]:.1f} ms CPU", ratio)


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def row(machine: str, method: str, *cells: str) -> str:
    return f"{machine:<18}{method:<24}" + "".join(f"{cell:>10}" for cell in cells)


HEADER = row("machine", "method", "GPU-CPU", "GPU-HCA", "ranks/HCA", "overlap", "idle", "cores")


def cells_of(worth: Worth | str) -> list[str]:
    if isinstance(worth, str):
        return [f"  ({worth})"]
    numbers = [number(value) for value in (worth.gpu_cpu, worth.gpu_hca, worth.ranks_per_hca)]
    return [*numbers, f"{worth.overlap:.0%}", f"{worth.idle_cores}", f"{worth.least_cores}-{worth.most_cores}"]


def verdict(metric: str, peer: str, table: dict[str, dict[str, Worth | str]]) -> str:
    """The machines on which rdma-nccl's number is greater."""
    pairs = {name: pair(worths, peer, metric) for name, worths in table.items()}
    worse = [name for name, numbers in pairs.items() if is_worse(*numbers)]
    known = sum(None not in numbers for numbers in pairs.values())
    return f"worse on {', '.join(worse)}" if worse else f"never worse ({known} machines)"


def bench_placement_peers(folder: str) -> None:
    """As many ranks as GPUs (8 without GPUs), all CPUs; "bound": inside what Slurm's block:cyclic has bound."""
    table = {}
    print(HEADER)
    for name in topologies():
        machine = read_machine(COMMAND, name)
        table[name] = compare(COMMAND, machine, len(machine.gpus) or 8)
        for method, worth in table[name].items():
            print(row(name, method, *cells_of(worth)), flush=True)
    for metric, text in METRICS.items():
        for peer in PEERS:
            print(f"{text} beside {peer}: {verdict(metric, peer, table)}", flush=True)
