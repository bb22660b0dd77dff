# SPDX-License-Identifier: Apache-2.0
"""What rdma-nccl sees in guests with two sockets: GPUs and HCAs near the one or the other, which QEMU cannot give them.

Their CPUs, NUMA nodes and addresses are those of the guest, so that what is planned by them can be done there.
"""

from __future__ import annotations

import os
import subprocess

from guest import Guest
from images import CHECKOUT, HERE

EMULATED_RAILS = 4  # of the description
EMULATED_GPUS = 8
_DESCRIPTION = os.path.join(HERE, "two-sockets.json")
_MKTREE = os.path.join(CHECKOUT, "tests", "data", "mktree")


def install_machines(install: str, guests: list[Guest]) -> None:
    """Below `install`, which guests have over their root; tests/vm/guest/start makes /machine of /machines/NAME."""
    for guest in guests:
        tree = os.path.join(install, "machines", guest.name)
        command = [_MKTREE, _DESCRIPTION, "--node", str(guest.number - 1), "--host", guest.name, "--out", tree]
        os.makedirs(os.path.dirname(tree), exist_ok=True)
        subprocess.run(command, check=True)
    with open(os.path.join(install, "etc", "rdma-nccl.conf"), "a", encoding="ascii") as conf:
        conf.write("root = /machine\n")
