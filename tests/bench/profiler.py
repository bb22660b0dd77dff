# SPDX-License-Identifier: Apache-2.0
"""What the profiler plugin takes of NCCL's proxy thread, at 100,000 network steps a second."""

from __future__ import annotations

import os
import subprocess

from measure import BUILD, line

STEPS = 100_000  # per second
BUDGET = 1.0  # per cent


def bench_profiler(_folder: str) -> None:
    command = [os.path.join(BUILD, "tests", "bench", "profiler"), os.path.join(BUILD, "librdma_nccl_profiler.so")]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    mine, empty = (float(word) for word in output.split())
    line("profiler plugin, one network step", f"{mine:.0f} ns", f"plugin that does nothing {empty:.0f} ns")
    share = (mine - empty) * STEPS / 1e7
    line("  of a thread with 100,000 steps/s", f"{share:.2f} %", "", "", f"<= {BUDGET:g} %")
