# SPDX-License-Identifier: Apache-2.0
"""Lines per second of eight ranks through a prefix and through tee, against torchrun's tee, and against `cat`, which
does nothing to the bytes. Each side writes to a pipe that something reads."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time

from measure import BUILD, COMMAND, LeftOut, line, medians

PYTHON = "/usr/bin/python3"
EMITTER = os.path.join(BUILD, "tests", "bench", "output")
RANKS = 8
LINES = 500_000  # of each rank
PEER_LINES = 100_000  # the peer is slower by far
OPTIONS = ["--tee", "1", "--log-dir"]  # as torchrun's


def lines_per_second(command: list[str], lines: int, environment: dict[str, str] | None = None) -> float:
    """The command's output is counted: none may be lost."""
    began = time.perf_counter()
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    ) as process:
        assert process.stdout
        seen = 0
        while block := os.read(process.stdout.fileno(), 1 << 20):
            seen += block.count(b"\n")
    wall = time.perf_counter() - began
    if process.returncode != 0 or seen != RANKS * lines:
        raise AssertionError(f"{' '.join(command)}: exit code {process.returncode}, {seen} lines of {RANKS * lines}")
    return seen / wall


def in_new_folder(folder: str, command: list[str], lines: int, environment: dict[str, str] | None = None) -> float:
    """`command` has FOLDER where the log directory is meant, removed afterwards: they are hundreds of MB."""
    logs = tempfile.mkdtemp(dir=folder)
    try:
        return lines_per_second([logs if word == "FOLDER" else word for word in command], lines, environment)
    finally:
        shutil.rmtree(logs)


def millions(rate: float) -> str:
    return f"{rate / 1e6:.2f} M/s"


def bench_output(folder: str) -> None:
    if not os.access(EMITTER, os.X_OK):
        raise LeftOut(f"{EMITTER} is not there: make bench builds it")
    ranks = [COMMAND, "run", "-n", str(RANKS)]
    if subprocess.run([*ranks, "--prefix", "", "true"], check=False, capture_output=True).returncode != 0:
        raise LeftOut("rdma-nccl run has no --prefix here")
    emit = [EMITTER, "emit", str(LINES)]
    bare = f"for i in $(seq {RANKS}); do {' '.join(emit)} & done | cat; wait"
    prefix, tee, cat = medians(
        3,
        lambda: lines_per_second([*ranks, *emit], LINES),
        lambda: in_new_folder(folder, [*ranks, *OPTIONS, "FOLDER", *emit], LINES),
        lambda: lines_per_second(["sh", "-c", bare], LINES),
    )
    line("lines of 8 ranks through prefix", millions(prefix), f"cat {millions(cat)}", f"{prefix / cat:.2f}", ">= 1 M/s")
    line("through prefix and tee", millions(tee), f"cat {millions(cat)}", f"{tee / cat:.2f}", ">= 1 M/s")
    bench_peer(folder, tee)


def bench_peer(folder: str, tee: float) -> None:
    if subprocess.run([PYTHON, "-c", "import torch"], check=False, capture_output=True).returncode != 0:
        raise LeftOut("Debian's python3-torch, for torchrun, is not installed")
    # torch 1.13 on Python 3.11 takes 1 and 2 alone, neither its own default 0 nor 3; a map of no rank stands for 0.
    options = [f"--nproc_per_node={RANKS}", "-r", "9:1", "-t", "1", "--master_port=28654", "--log_dir", "FOLDER"]
    command = [PYTHON, "-m", "torch.distributed.run", *options, "--no_python", EMITTER, "emit", str(PEER_LINES)]
    environment = {name: value for name, value in os.environ.items() if name not in ("PET_REDIRECTS", "PET_TEE")}
    environment.update(MASTER_ADDR="127.0.0.1", OMP_NUM_THREADS="1")
    (peer,) = medians(3, lambda: in_new_folder(folder, command, PEER_LINES, environment))
    line("", "", f"torchrun {millions(peer)}", f"{tee / peer:.0f}", ">= 10")
