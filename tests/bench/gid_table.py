# SPDX-License-Identifier: Apache-2.0
"""The GID table of a node against the method of show_gids: one process for each file."""

from __future__ import annotations

import os
import statistics

from measure import COMMAND, TESTS, line, make_tree, run

METHOD = os.path.join(TESTS, "bench", "one-process-per-file")


def bench_gid_table(folder: str) -> None:
    tree = make_tree(folder, "nine-hca")
    ours = [COMMAND, "gids", "--all", "--root", tree]
    run(ours)  # the first one reads the tree's inodes
    rounds = [run(ours) for _ in range(15)]
    peer = run([METHOD, tree])  # takes seconds: once is enough, in the middle of ours
    rounds += [run(ours) for _ in range(15)]
    for what, a, b in (
        ("time", statistics.median(cost.wall for cost in rounds), peer.wall),
        ("CPU", statistics.median(cost.cpu for cost in rounds), peer.cpu),
    ):
        line(
            f"gids --all, 9 HCAs, 256-entry tables: {what}",
            f"{a * 1e3:.1f} ms",
            f"a process for each file {b:.2f} s",
            f"1/{b / a:.0f}",
            "<= 1/500",
        )
