# SPDX-License-Identifier: Apache-2.0
"""The whole tree of a machine."""

from __future__ import annotations

from .changes import apply_changes
from .cpu import write_cpus
from .dev import write_dev
from .files import Tree
from .infiniband import write_infiniband
from .kernel import write_kernel, write_ofed
from .kfd import write_kfd
from .net import write_net
from .nvidia import write_nvidia
from .pci import write_pci
from .procnet import write_procnet
from .values import Machine


def write_tree(machine: Machine, directory: str) -> None:
    """Writes below `directory`, which is made, or is empty."""
    tree = Tree(directory)
    tree.directory("etc")
    write_kernel(tree, machine)
    write_cpus(tree, machine)
    write_pci(tree, machine)
    write_net(tree, machine)
    write_infiniband(tree, machine)
    write_ofed(tree, machine)
    write_nvidia(tree, machine)
    write_kfd(tree, machine)
    write_procnet(tree, machine)
    write_dev(tree, machine)
    apply_changes(directory, machine.changes)
