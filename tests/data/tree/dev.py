# SPDX-License-Identifier: Apache-2.0
"""/dev/infiniband: empty regular files stand for the device nodes."""

from __future__ import annotations

from .files import Tree
from .values import Machine


def write_dev(tree: Tree, machine: Machine) -> None:
    if not machine.hcas:
        return
    if not machine.dev_infiniband:
        tree.directory("dev")  # it is there, which tells it from a copy without /dev
        return
    tree.write("dev/infiniband/rdma_cm", b"")
    for hca in machine.hcas:
        if hca.uverbs:
            tree.write(f"dev/infiniband/uverbs{hca.number}", b"")
