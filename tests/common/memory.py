# SPDX-License-Identifier: Apache-2.0
"""Where emulated machines lie: in memory, as sysfs does. On a disk their thousands of files take ten times as long."""

from __future__ import annotations

import os

# For tempfile's `dir`: None is its own default.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
