# SPDX-License-Identifier: Apache-2.0
"""What inspect + plan cost: CPU time and processes."""

from __future__ import annotations

import os
import re
import statistics
import subprocess

from measure import COMMAND, LeftOut, in_turns, line, make_tree, need, run

STARTS = ("execve", "execveat", "fork", "vfork", "clone", "clone3")


def bench_plan(folder: str) -> None:
    """`env` but for what `--version` costs too: loading the command."""
    tree = make_tree(folder, "nine-hca")
    env, nothing = in_turns(
        100, lambda: run([COMMAND, "env", "--root", tree]).cpu, lambda: run([COMMAND, "--version"]).cpu
    )
    for which, choose in (("median", statistics.median), ("least", min)):
        line(
            f"inspect + plan, 9 HCAs, 8 GPUs: {which} of {len(env)}",
            f"{(choose(env) - choose(nothing)) * 1e3:.1f} ms CPU",
            f"start of the command {choose(nothing) * 1e3:.1f} ms",
            "",
            "<= 10 ms",
        )


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
