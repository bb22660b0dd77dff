# SPDX-License-Identifier: Apache-2.0
"""Slurm in the guests of a lab."""

from __future__ import annotations

import secrets

from lab import start
from state import State, TestBedError

_PATIENCE = 120  # seconds; 5 are usual


def start_slurm(state: State) -> None:
    """Returns when all nodes are idle."""
    nodes = state.machines()
    state.text("lab/munge.key", secrets.token_hex(64), 0o600)
    state.text("lab/nodes", "".join(f"{name} {machine['address']}\n" for name, machine in nodes.items()))
    for command in [start(state, node, ["/lab/guest/slurm"]) for node in nodes]:
        _expect(command.node, command.wait(_PATIENCE))
    first = next(iter(nodes))
    _expect(first, start(state, first, ["/lab/guest/await-idle", str(len(nodes))]).wait(_PATIENCE))


def _expect(node: str, result) -> None:
    if result.status != 0:
        raise TestBedError(f"Slurm did not start on {node}:\n{result.out}{result.err}")
