# SPDX-License-Identifier: Apache-2.0
"""Where emulated machines lie: in memory, as sysfs does. On a disk their thousands of files take ten times as long.

usage: memory.py: prints the folder, for shell scripts"""

from __future__ import annotations

import os
import tempfile

FOLDER = "/dev/shm"
NEEDED = 1 << 30  # bytes: all machines of tests/data/fabric at once; in a container there are often only 64 MiB


def has_room(folder: str) -> bool:
    if not os.access(folder, os.W_OK | os.X_OK):
        return False
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize >= NEEDED


# For tempfile's `dir`: None is its own default.
MEMORY = FOLDER if has_room(FOLDER) else None

if __name__ == "__main__":
    print(MEMORY or tempfile.gettempdir())
