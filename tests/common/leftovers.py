# SPDX-License-Identifier: Apache-2.0
"""For tests that nothing stays of a test bed, and that it changes nothing outside of itself."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

PATIENCE = 60  # seconds, for what must happen at some time


def eventually(what: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def processes_naming(text: str) -> list[str]:
    """The pids of other processes that have it on their command line."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if int(pid) != os.getpid() and text.encode() in file.read():
                    found.append(pid)
        except OSError:
            continue
    return found


def host_state() -> dict[str, object]:
    """What a test bed must not change."""
    with open("/proc/self/mountinfo", "rb") as mounts, open("/proc/net/dev", encoding="ascii") as netdevs:
        return {
            "mounts": len(mounts.readlines()),
            "netdevs": sorted(line.split(":")[0] for line in netdevs.readlines()[2:]),  # after two of headings
            "named namespaces": os.path.exists("/run/netns") and os.listdir("/run/netns"),
            "slurm's cgroups": [path for path, _, _ in os.walk("/sys/fs/cgroup") if "slurm" in path],
            "devices": [name for name in os.listdir("/dev") if name.startswith("nvidia")],
        }
