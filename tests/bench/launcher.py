# SPDX-License-Identifier: Apache-2.0
"""`rdma-nccl run` against torchrun, eight ranks: how soon they run, what the launchers need meanwhile, and how soon all
are gone after one has died. Two nodes are two launchers on loopback."""

from __future__ import annotations

import glob
import os
import re
import secrets
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from measure import COMMAND, TESTS, LeftOut, in_turns, line

sys.path.insert(0, os.path.join(TESTS, "common"))
from ports import free_port  # noqa: E402

PYTHON = "/usr/bin/python3"
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
RANKS = 8
PATIENCE = 60  # seconds for ranks to start
IDLE = 10  # seconds of idle watching
PEER_BOUND = 40  # seconds after which a rank of the peer's counts as never ended

# What this machine says about another world must not count.
FOREIGN = re.compile(r"SLURM|PET_|RDMA_NCCL|MASTER_|NNODES$|NODE_RANK$|CUDA_VISIBLE|TORCH")
ENVIRONMENT = {name: value for name, value in os.environ.items() if not FOREIGN.match(name)} | {
    "OMP_NUM_THREADS": "1",
    "RDMA_NCCL_TOKEN": secrets.token_hex(32),
}


def world_options(nodes: int, node: int, port: int) -> list[str]:
    return [
        f"--nnodes={nodes}",
        f"--node_rank={node}",
        f"--nproc_per_node={RANKS // nodes}",
        "--master_addr=127.0.0.1",
        f"--master_port={port}",
        "--no_python",
    ]


def ours(nodes: int, node: int, port: int) -> list[str]:
    return [COMMAND, "run", *world_options(nodes, node, port)]


def torchrun(nodes: int, node: int, port: int) -> list[str]:
    # -r and -t: torch 1.13 on Python 3.11 cannot take its own defaults for them. The interval is that of newer torch.
    options = ["-r", "9:1", "-t", "9:1", "--monitor_interval=0.1", *world_options(nodes, node, port)]
    return [PYTHON, "-m", "torch.distributed.run", *options]


def read_word(path: str, field: int = 0) -> str:
    with open(path, encoding="ascii") as file:
        return file.read().split()[field]


def descendants(pid: int) -> list[int]:
    children: list[int] = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            with open(path, encoding="ascii") as file:
                children += map(int, file.read().split())
        except OSError:
            pass
    return children + [grandchild for child in children for grandchild in descendants(child)]


def is_rank(pid: int) -> bool:
    try:
        return read_word(f"/proc/{pid}/comm") == "sleep"
    except OSError:
        return False


class World:
    """Eight ranks that sleep, and their launchers; `started`: seconds until the last of the ranks was executed."""

    def __init__(self, launcher, nodes: int, folder: str) -> None:
        fifo = os.path.join(tempfile.mkdtemp(dir=folder), "ranks")
        os.mkfifo(fifo)
        self.ready = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
        rank = ["/bin/sh", "-c", f"echo >{fifo}; exec sleep 600"]
        port = free_port()
        began = time.perf_counter()
        self.launchers = [
            subprocess.Popen([*launcher(nodes, node, port), *rank], **QUIET, env=ENVIRONMENT, start_new_session=True)
            for node in range(nodes)
        ]
        try:
            self.started = self.wait_for_ranks(began)
            self.ranks = self.find_ranks()
        except BaseException:
            self.stop()
            raise

    def wait_for_ranks(self, began: float) -> float:
        there = 0
        while there < RANKS:
            if not select.select([self.ready], [], [], PATIENCE)[0]:
                raise AssertionError(f"{there} of {RANKS} ranks of {self.launchers[0].args} after {PATIENCE} s")
            there += len(os.read(self.ready, RANKS))
        return time.perf_counter() - began

    def find_ranks(self) -> list[int]:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            found = [pid for pid in self.processes() if is_rank(pid)]
            if len(found) == RANKS:
                return found
            time.sleep(0.02)
        raise AssertionError(f"the ranks of {self.launchers[0].args} are not found below it")

    def processes(self) -> list[int]:
        return [pid for launcher in self.launchers for pid in [launcher.pid, *descendants(launcher.pid)]]

    def of_launchers(self, measured) -> float:
        return sum(measured(pid) for pid in set(self.processes()) - set(self.ranks))

    def memory(self) -> float:
        """In MiB; pages that several processes share count in parts (PSS)."""

        def proportional(pid: int) -> int:
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
                return int(re.search(r"^Pss: +(\d+) kB$", file.read(), re.MULTILINE)[1])

        return self.of_launchers(proportional) / 1024

    def idle_cpu(self) -> float:
        """Of one node's launcher, in seconds per hour; nanoseconds are counted (/proc/PID/task/TID/schedstat)."""

        def used(pid: int) -> int:
            return sum(int(read_word(path)) for path in glob.glob(f"/proc/{pid}/task/*/schedstat"))

        time.sleep(1)  # what the start has left to do
        before = self.of_launchers(used)
        time.sleep(IDLE)
        return (self.of_launchers(used) - before) / 1e9 / IDLE * 3600 / len(self.launchers)

    def kill_one(self, bound: float) -> float | None:
        """Seconds from the death of a rank of the last node until no rank of any node is left; None: later."""
        handles = {os.pidfd_open(pid): pid for pid in self.ranks}
        began = time.perf_counter()
        os.kill(self.ranks[-1], signal.SIGKILL)
        try:
            ended = began
            while handles and time.perf_counter() - began < bound:
                for handle in select.select(list(handles), [], [], 1)[0]:
                    del handles[handle]
                    os.close(handle)
                    ended = time.perf_counter()
            return None if handles else ended - began
        finally:
            for handle in handles:
                os.close(handle)

    def stop(self) -> None:
        for launcher in self.launchers:
            if launcher.poll() is None:
                os.killpg(launcher.pid, signal.SIGTERM)
        for launcher in self.launchers:
            launcher.wait(PATIENCE)
        os.close(self.ready)

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_) -> None:
        self.stop()


def bare(nodes: int, node: int, port: int) -> list[str]:
    """The same processes without a launcher: what the machine itself takes."""
    del nodes, node, port
    return ["/bin/sh", "-c", f"for i in $(seq {RANKS}); do \"$@\" & done; wait", "sh"]


def start(launcher, folder: str) -> tuple[float, float]:
    with World(launcher, 1, folder) as world:
        return world.started, world.memory()


def idle(launcher, nodes: int, folder: str) -> float:
    with World(launcher, nodes, folder) as world:
        return world.idle_cpu()


def death(launcher, folder: str, bound: float) -> float | None:
    with World(launcher, 2, folder) as world:
        return world.kill_one(bound)


def ratio(a: float, b: float) -> str:
    return f"1/{b / a:.0f}" if a > 0 else ""


def bench_launcher(folder: str) -> None:
    if subprocess.run([PYTHON, "-c", "import torch"], check=False, **QUIET).returncode != 0:
        raise LeftOut("Debian's python3-torch is not installed")
    columns = in_turns(5, *(lambda side=side: start(side, folder) for side in (ours, torchrun, bare)))
    (a, a_memory), (b, b_memory), (c, _) = ([statistics.median(values) for values in zip(*each)] for each in columns)
    what = f"rdma-nccl run until {RANKS} ranks run"
    line(what, f"{a * 1e3:.1f} ms", f"torchrun {b * 1e3:.0f} ms", ratio(a, b), "<= 1/200")
    line("", "", f"sh, {RANKS} times & {c * 1e3:.1f} ms", f"{a / c:.2f}", "<= 1.2")
    line("memory of the launcher", f"{a_memory:.1f} MiB", f"torchrun {b_memory:.0f} MiB", ratio(a_memory, b_memory),
         "<= 1/50, 4 MiB")
    a, b = idle(ours, 1, folder), idle(torchrun, 1, folder)
    line("CPU per hour of idle watching, one node", f"{a:.2f} s", f"torchrun {b:.2f} s", ratio(a, b))
    a, b = idle(ours, 2, folder), idle(torchrun, 2, folder)
    line("per node of two, which keep a connection alive", f"{a:.2f} s", f"torchrun {b:.2f} s", ratio(a, b))
    ends = [death(ours, folder, PEER_BOUND) or PEER_BOUND for _ in range(3)]
    peer = death(torchrun, folder, PEER_BOUND)
    # torchrun leaves the other nodes' ranks to the timeout of their next collective.
    line(
        "a rank dies: all ranks of 2 nodes gone",
        f"{statistics.median(ends) * 1e3:.1f} ms",
        f"torchrun {peer:.1f} s" if peer else f"torchrun not in {PEER_BOUND} s",
        ratio(statistics.median(ends), peer) if peer else "",
        "< 1 s",
    )
