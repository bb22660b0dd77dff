# SPDX-License-Identifier: Apache-2.0
"""What it costs to sample the bytes of ports and interfaces once a second."""

from __future__ import annotations

import statistics

from measure import COMMAND, Cost, in_turns, line, make_tree, run

SAMPLES = 100


def bench_traffic(folder: str) -> None:
    """`top` with many samples but for one with a single one: what is left is reading, summing up and printing."""
    tree = make_tree(folder, "nine-hca")

    def top(samples: int) -> Cost:
        command = [COMMAND, "top", "--conf", "/dev/null", "--root", tree, "--json", "-i", "0.1", "-n", str(samples)]
        return run(command, check=True)

    many, one = in_turns(3, lambda: top(1 + SAMPLES).cpu, lambda: top(1).cpu)
    each = (statistics.median(many) - statistics.median(one)) / SAMPLES
    line("sampling at 1 Hz, 9 HCAs, 9 interfaces, with JSON", f"{each * 100:.3f} %", "of a core", "", "< 0.1 %")
