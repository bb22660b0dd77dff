# SPDX-License-Identifier: Apache-2.0
"""A gigabyte of NCCL's log: judged in seconds, and in how much memory; beside a search for the usual words."""

from __future__ import annotations

import os
import shutil
import subprocess

from measure import COMMAND, LeftOut, in_turns, line, need, run

SIZE = 1_000_000_000
LEAST = 50_000_000  # with less room, nothing that this says would hold
RANKS = 128
ROUNDS = 3
BUDGET = 3.0  # seconds for SIZE


def connection(number: int) -> str:
    rank, peer = number % RANKS, (number + 8) % RANKS
    return (
        f"n{rank // 8:02d}:{4000 + rank}:{4400 + rank} [{rank % 8}] NCCL INFO Channel {number % 32:02d}/0 : "
        f"{rank}[{rank % 8}] -> {peer}[{peer % 8}] [send] via NET/IB/{number % 8}/GDRDMA\n"
    )


def queue_pair(number: int) -> str:
    rank = number % RANKS
    return (
        f"n{rank // 8:02d}:{4000 + rank}:{4400 + rank} [{rank % 8}] NCCL INFO NET/IB: NCCL Dev {number % 8} IbDev "
        f"{number % 8} Port 1 qpn {number} mtu 5 GID 3 (0/100000AFFFF0000) fifoRkey=0x1800ef fifoLkey=0x1800ef\n"
    )


def output(number: int) -> str:
    return f"[n{number % 16:02d} {number % 8}] step {number} loss 2.{number} tokens/s 123456 grad norm 0.53 lr 3e-4\n"


def write_log(path: str, size: int, kinds: list) -> None:
    """Of lines of these kinds, in turns."""
    block = "".join(kinds[number % len(kinds)](number) for number in range(20_000)).encode()
    with open(path, "wb") as file:
        for _ in range(size // len(block)):
            file.write(block)


def most_memory(path: str) -> float:
    """In MiB, while the log comes through a pipe. (What wait4() tells has Python's own in it.)"""
    with subprocess.Popen([COMMAND, "verify", "--log", "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as judge:
        assert judge.stdin
        with open(path, "rb") as file:
            shutil.copyfileobj(file, judge.stdin, 1 << 20)
        judge.stdin.flush()
        with open(f"/proc/{judge.pid}/status", encoding="ascii") as status:
            return next(int(text.split()[1]) for text in status if text.startswith("VmHWM:")) / 1024


def bench_log(path: str, what: str, size: int) -> None:
    if subprocess.run([COMMAND, "verify", "--help"], check=False, capture_output=True).returncode != 0:
        raise LeftOut("rdma-nccl has no verify here")
    # grep ends at the first line that fits when its output goes to /dev/null.
    search = ["sh", "-c", "grep -c 'via NET/IB' \"$0\" | cat", path]
    costs = in_turns(
        ROUNDS, lambda: run([COMMAND, "verify", "--log", path], check=True), lambda: run(search, check=True)
    )
    mine, peer = (sorted(cost.cpu for cost in side)[ROUNDS // 2] for side in costs)
    line(
        f"verify --log, {size / 1e9:.2f} GB {what}",
        f"{mine:.2f} s CPU",
        f"grep -c {peer:.2f} s CPU",
        f"{mine / peer:.1f}",
        f"<= {BUDGET * size / SIZE:.2f} s",
    )
    line("its memory", f"{most_memory(path):.1f} MiB")


def bench_nccl_log(folder: str) -> None:
    need("grep")
    size = min(SIZE, shutil.disk_usage(folder).free // 3)
    if size < LEAST:
        raise LeftOut(f"{folder} has too little room")
    path = os.path.join(folder, "nccl.log")
    for what, kinds in (
        ("of connections", [connection]),
        ("of connections, QPs and output", [connection, queue_pair, output, output]),
    ):
        write_log(path, size, kinds)
        bench_log(path, what, size)
        os.remove(path)
