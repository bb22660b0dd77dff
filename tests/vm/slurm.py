# SPDX-License-Identifier: Apache-2.0
"""Slurm in the guests of a lab."""

from __future__ import annotations

import secrets

from emulated import EMULATED_GPUS
from guest import TWO_SOCKETS, Processors
from lab import start
from state import State, TestBedError

_PATIENCE = 120  # seconds; 5 are usual
# Nodes claim CPUs that are not there, and jobs share them.
_UNBOUND = """\
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
NodeName=DEFAULT CPUs=4
PartitionName=DEFAULT OverSubscribe=FORCE:8
"""
_BOUND = """\
ProctrackType={tracking}
TaskPlugin={binding}
NodeName=DEFAULT Sockets={processors.sockets} CoresPerSocket={processors.cores} ThreadsPerCore={processors.threads}
"""
_CONFINED = """\
IgnoreSystemd=yes
ConstrainCores=yes
ConstrainDevices=yes
"""


def start_slurm(state: State, processors: Processors, confined: bool) -> None:
    """Returns when all nodes are idle."""
    nodes = state.machines()
    state.text("lab/munge.key", secrets.token_hex(64), 0o600)
    state.text("lab/nodes", "".join(f"{name} {machine['address']}\n" for name, machine in nodes.items()))
    state.text("lab/slurm.conf", _slurm_conf(processors, confined))
    state.text("lab/cgroup.conf", _CONFINED if confined else "")
    command = ["/lab/guest/slurm", str(EMULATED_GPUS if processors == TWO_SOCKETS else 2)]
    for started in [start(state, node, command) for node in nodes]:
        _expect(started.node, started.wait(_PATIENCE))
    first = next(iter(nodes))
    _expect(first, start(state, first, ["/lab/guest/await-idle", str(len(nodes))]).wait(_PATIENCE))


def _slurm_conf(processors: Processors, confined: bool) -> str:
    """What differs between labs; tests/vm/guest/slurm has the rest."""
    if processors != TWO_SOCKETS:
        return _UNBOUND
    binding, tracking = "task/affinity", "proctrack/linuxproc"
    if confined:
        binding, tracking = "task/affinity,task/cgroup", "proctrack/cgroup"
    return _BOUND.format(processors=processors, binding=binding, tracking=tracking)


def _expect(node: str, result) -> None:
    if result.status != 0:
        raise TestBedError(f"Slurm did not start on {node}:\n{result.out}{result.err}")
