# SPDX-License-Identifier: Apache-2.0
"""What all benchmarks share: the table's lines, and what one run of a command costs."""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(os.getcwd(), "build")
COMMAND = os.path.join(BUILD, "rdma-nccl")


class LeftOut(Exception):
    """This machine cannot measure it; the text says what it lacks."""


@dataclass(frozen=True, order=True)
class Cost:
    """Of one run, in seconds."""

    wall: float
    cpu: float  # user and system, of its children too


def line(what: str, measured: str, peer: str = "", ratio: str = "", budget: str = "") -> None:
    print(f"{what:<52} {measured:>12} {peer:>34} {ratio:>9}  {budget}", flush=True)


def need(program: str) -> None:
    if not shutil.which(program):
        raise LeftOut(f"{program} is not installed")


def run(command: list[str], environment: dict[str, str] | None = None, check: bool = False) -> Cost:
    """Without input and output. Spawned and waited for directly, as subprocess costs time of its own; `check`: its exit
    status must be 0 (of `env` and `gids`, 1 only means that there are warnings)."""
    silence = [(os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_RDWR, 0) for descriptor in range(3)]
    began = time.perf_counter()
    pid = os.posix_spawnp(command[0], command, environment or os.environ, file_actions=silence)
    _, status, usage = os.wait4(pid, 0)
    wall = time.perf_counter() - began
    if status != 0 and (check or os.WIFSIGNALED(status)):
        raise subprocess.CalledProcessError(os.waitstatus_to_exitcode(status), command)
    return Cost(wall, usage.ru_utime + usage.ru_stime)


def in_turns(rounds: int, *sides: Callable[[], float | Cost]) -> list[list]:
    """The results of each side. They take turns, so that a machine that gets slower does so for all, in another order
    each time, so that none always follows the same one."""
    results: list[list] = [[] for _ in sides]
    for _ in range(rounds):
        for result, side in random.sample(list(zip(results, sides)), len(sides)):
            result.append(side())
    return results


def medians(rounds: int, *sides: Callable[[], float]) -> list[float]:
    return [statistics.median(results) for results in in_turns(rounds, *sides)]


def make_tree(folder: str, machine: str) -> str:
    """The emulated /sys and /proc of a machine: a name of tests/data/fabric or the path of a description."""
    tree = os.path.join(folder, os.path.basename(machine).removesuffix(".json"))
    subprocess.run([os.path.join(TESTS, "data", "mktree"), machine, "--out", tree], check=True)
    save_addresses(tree)
    return tree


def save_addresses(tree: str) -> None:
    """Saves the addresses that a live node reports: with them, GID tables need not be read to their end."""
    explain = [COMMAND, "explain", "--json", "--conf", "/dev/null", "--root", tree]
    facts = json.loads(subprocess.run(explain, stdout=subprocess.PIPE, check=False).stdout)
    with open(os.path.join(tree, "ip-addresses"), "w", encoding="ascii") as file:
        for netdev in facts["fabric"]["netdevs"]:
            file.writelines(f"{netdev['name']} {address}\n" for address in netdev["addresses"])
