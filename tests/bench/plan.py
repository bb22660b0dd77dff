# SPDX-License-Identifier: Apache-2.0
"""Cost of inspect + plan: CPU time compared with only reading the files, and processes."""

from __future__ import annotations

import os
import re
import statistics
import subprocess

from measure import BUILD, COMMAND, LeftOut, line, make_tree, need, run

STARTS = ("execve", "execveat", "fork", "vfork", "clone", "clone3")


def bench_plan(folder: str) -> None:
    program = os.path.join(BUILD, "tests", "bench", "plan")
    output = subprocess.run([program, make_tree(folder, "nine-hca")], check=True, stdout=subprocess.PIPE, text=True).stdout
    cost = {name: float(milliseconds) for name, milliseconds in map(str.split, output.splitlines())}
    for what, name, budget in (("inspect + plan", "plan", "<= 0.5"), ("all of its GID tables", "gids", "<= 1.2")):
        line(
            f"{what}, 9 HCAs, 8 GPUs",
            f"{cost[name]:.2f} ms CPU",
            f"reading 2,304 GID files {cost['files']:.2f} ms",
            f"{cost[name] / cost['files']:.2f}",
            budget,
        )
    start = statistics.median(run([COMMAND, "--version"]).wall for _ in range(50))
    line("rdma-nccl --version", f"{start * 1e3:.1f} ms", "", "", "< 5 ms")


def bench_processes(folder: str) -> None:
    need("strace")
    log = os.path.join(folder, "processes")
    tree = make_tree(folder, "nine-hca")
    traced = ["strace", "-f", "-qq", "-o", log, "-e", f"trace={','.join(STARTS)}", COMMAND, "env", "--root", tree]
    subprocess.run(traced, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    with open(log, encoding="utf-8", errors="replace") as file:
        starts = [entry for entry in file if re.match(rf"\d+ +({'|'.join(STARTS)})\(", entry)]
    if not starts:
        raise LeftOut("strace cannot trace here")
    line("processes that inspect + plan start", f"{len(starts) - 1}", "", "", "0")  # but the command itself
