# SPDX-License-Identifier: Apache-2.0
"""`rdma-nccl run` against torchrun: eight ranks on one node."""

from __future__ import annotations

import os
import subprocess
import time

from measure import COMMAND, LeftOut, line, medians, run

PYTHON = "/usr/bin/python3"
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}


def descendants(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            children = [int(word) for word in file.read().split()]
    except OSError:
        return []
    return children + [grandchild for child in children for grandchild in descendants(child)]


def peak_memory(command: list[str], environment: dict[str, str]) -> int:
    """Of a launcher while its eight ranks (`sleep`) run: the peaks of all its processes but the ranks, in KiB."""

    def status(pid: int) -> dict[str, str]:
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            return dict(entry.split(":\t", 1) for entry in file.read().splitlines() if ":\t" in entry)

    with subprocess.Popen(command, **QUIET, env=environment) as launcher:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            processes = [(pid, status(pid)) for pid in [launcher.pid, *descendants(launcher.pid)]]
            if sum(fields["Name"] == "sleep" for _, fields in processes) == 8:
                break
            time.sleep(0.05)
        launcher.terminate()
    return sum(int(fields["VmHWM"].split()[0]) for _, fields in processes if fields["Name"] != "sleep")


def bench_launcher(folder: str) -> None:
    if subprocess.run([PYTHON, "-c", "import torch"], check=False, **QUIET).returncode != 0:
        raise LeftOut("Debian's python3-torch is not installed")
    ours = [COMMAND, "run", "-n", "8"]
    # -r and -t: torch 1.13 on Python 3.11 cannot take its own defaults for them.
    options = "--nproc_per_node=8 -r 9:1 -t 9:1 --master_port=28653 --no_python".split()
    peer = [PYTHON, "-m", "torch.distributed.run", *options]
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"}
    a, b = medians(
        3,
        lambda: run([*ours, "true"], environment, check=True).wall,
        lambda: run([*peer, "/bin/true"], environment, check=True).wall,
    )
    line(
        "rdma-nccl run until 8 ranks have run",
        f"{a * 1e3:.1f} ms",
        f"torchrun {b * 1e3:.0f} ms",
        f"1/{b / a:.0f}",
        "<= 1/200",
    )
    a = peak_memory([*ours, "sleep", "60"], environment)
    b = peak_memory([*peer, "/bin/sleep", "60"], environment)
    line("its memory", f"{a / 1024:.1f} MiB", f"torchrun {b / 1024:.0f} MiB", f"1/{b / a:.0f}", "<= 1/50")
