# SPDX-License-Identifier: Apache-2.0
"""Slurm's and munge's files of a cluster."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
from dataclasses import dataclass

from layout import Cluster, Member
from state import TestBedError, State

CONTROLLER_PORT = 6817
FIRST_ACCOUNT_UID = 20001
ACCOUNTS = ("alice", "bob")
_SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])


@dataclass(frozen=True)
class Plugstack:
    plugin: str | None  # the .so; None: no plugin
    arguments: str


@dataclass(frozen=True)
class SlurmOptions:
    extra_lines: list[str]  # of slurm.conf
    topology: list[str]  # lines of topology.conf
    real_cpus: bool  # nodes with the CPUs that there are, not those of the emulated machine
    names: bool  # every machine resolves the names of all


def program(name: str) -> str:
    path = shutil.which(name, path=_SEARCH_PATH)
    if path is None:
        raise TestBedError(f"{name} is not installed; `make deps` as root installs what the tests need")
    return path


def write_configuration(state: State, cluster: Cluster, plugstack: Plugstack, options: SlurmOptions) -> None:
    for name in ("log", "run", "spool", "slurmctld", "root", "bin", "lib", "home", "etc/plugstack.conf.d"):
        state.make(name)
    state.text("etc/slurm.conf", _slurm_conf(state, cluster, options))
    if options.topology:
        state.text("etc/topology.conf", "".join(line + "\n" for line in options.topology))
    state.text("etc/gres.conf", "".join(_gres_line(node) for node in cluster.nodes))
    state.text("etc/cgroup.conf", "CgroupPlugin=cgroup/v1\n")  # none is used; without this slurmd looks for one
    state.text("etc/plugstack.conf", _plugstack_conf(state, plugstack))
    state.text("etc/rdma-nccl.conf", "# The site's settings of rdma-nccl.\n")
    state.text("etc/passwd", _with_accounts("/etc/passwd", state, "{name}:x:{id}:{id}::{home}:/bin/bash\n"))
    state.text("etc/group", _with_accounts("/etc/group", state, "{name}:x:{id}:\n"))
    state.text("etc/hosts", _hosts(cluster, options))
    # Nothing here answers DNS, and looking up a name must not wait for it.
    state.text("etc/nsswitch.conf", "".join(f"{name}: files\n" for name in ("passwd", "group", "shadow", "hosts")))
    _write_munge_key(state)


def _hosts(cluster: Cluster, options: SlurmOptions) -> str:
    # slurmctld tells the host of an allocation that it has ended. 24.11 tries ten times, a second apart, to resolve its
    # name, and answers no request in that time.
    known = cluster.members if options.names else (cluster.login,)
    return "127.0.0.1 localhost\n" + "".join(f"{member.address} {member.name}\n" for member in known)


def _slurm_conf(state: State, cluster: Cluster, options: SlurmOptions) -> str:
    lines = [
        "ClusterName=rdma-nccl",
        f"SlurmctldHost={cluster.login.name}({cluster.login.address})",
        "SlurmUser=root",
        "SlurmdUser=root",
        "AuthType=auth/munge",
        f"AuthInfo=socket={state.path('run/munge/socket')}",
        "CredType=cred/munge",
        f"SlurmctldPort={CONTROLLER_PORT}",
        f"SlurmctldPidFile={state.path('run/slurmctld.pid')}",
        f"SlurmdPidFile={state.path('run/slurmd-%n.pid')}",
        f"StateSaveLocation={state.path('slurmctld')}",
        f"SlurmdSpoolDir={state.path('spool/%n')}",
        "SlurmctldDebug=verbose",
        "SlurmdDebug=verbose",
        f"PlugStackConfig={state.path('etc/plugstack.conf')}",
        # Below ip_local_port_range, so that no outgoing connection takes one.
        "MpiDefault=none",
        "MpiParams=ports=12000-12999",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/affinity",
        "JobAcctGatherType=jobacct_gather/none",
        "AccountingStorageType=accounting_storage/none",
        "SwitchType=switch/none",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core",
        "GresTypes=gpu",
        # The nodes claim the CPUs of the machine they emulate, whatever this one has.
        "SlurmdParameters=config_overrides",
        "ReturnToService=2",
        "KillWait=2",
        "WaitTime=0",
        "TCPTimeout=20",  # a slurmstepd may get no CPU for longer than the usual 2 s
        "UnkillableStepTimeout=60",
        "SchedulerParameters=batch_sched_delay=0,sched_interval=2,sched_min_interval=0,bf_interval=2",
        *(["CommunicationParameters=EnableIPv6,DisableIPv4"] if cluster.ipv6 else []),
        *options.extra_lines,
        *[_node_line(node, options.real_cpus) for node in cluster.nodes],
        "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:16",
    ]
    return "\n".join(lines) + "\n"


def _node_line(node: Member, real_cpus: bool) -> str:
    machine = node.machine
    cpus = f"CPUs={len(os.sched_getaffinity(0))}"
    if not real_cpus:
        # Steps that ask for no binding get none: Slurm cannot bind to cores that do not exist.
        cpus = f"{_shape(node)} CpuBind=none"
    gres = f" Gres=gpu:a100:{node.gpu_count}" if node.gpu_count else ""
    memory = f"RealMemory={machine.processors.memory_kib >> 10}"
    return f"NodeName={node.name} NodeAddr={node.address} {cpus} {memory}{gres} State=UNKNOWN"


def _shape(node: Member) -> str:
    """Slurm knows only machines that are even; of others it gets to know how many CPUs they have."""
    processors = node.machine.processors
    count = len(processors.cpus)
    sockets = len({cpu.package for cpu in processors.cpus})
    cores = len({(cpu.package, cpu.core) for cpu in processors.cpus})
    if cores % sockets or count % cores:
        return f"CPUs={count}"
    return f"Sockets={sockets} CoresPerSocket={cores // sockets} ThreadsPerCore={count // cores}"


def _gres_line(node: Member) -> str:
    if node.gpu_count == 0:
        return ""
    numbers = "0" if node.gpu_count == 1 else f"[0-{node.gpu_count - 1}]"
    return f"NodeName={node.name} Name=gpu Type=a100 File=/dev/nvidia{numbers}\n"


def _plugstack_conf(state: State, plugstack: Plugstack) -> str:
    lines = []
    if plugstack.plugin:
        copy = shutil.copy(plugstack.plugin, state.path("lib"))
        # Whoever starts a cluster may have a low limit of locked memory, and no right to raise it.
        settings = f"root={state.path('root')} conf={state.path('etc/rdma-nccl.conf')} memlock=ignore"
        lines.append(f"optional {copy} {settings} {plugstack.arguments}".rstrip())
    lines.append(f"include {state.path('etc/plugstack.conf.d')}/*")
    return "\n".join(lines) + "\n"


def _with_accounts(path: str, state: State, line: str) -> str:
    """The machine's own file, and the cluster's accounts."""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        own = file.read()
    accounts = [
        line.format(name=name, id=_account_uid(name), home=state.path("home", name))
        for name in ACCOUNTS
        if not _is_account_here(name)
    ]
    return own.rstrip("\n") + "\n" + "".join(accounts)


def _is_account_here(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _account_uid(name: str) -> int:
    return FIRST_ACCOUNT_UID + ACCOUNTS.index(name)


def _write_munge_key(state: State) -> None:
    path = state.path("etc/munge.key")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secrets.token_bytes(128))
