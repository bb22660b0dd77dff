# SPDX-License-Identifier: Apache-2.0
"""Bringing a cluster up, and what stays of it.

Two processes stay. *init* is process 1 of a PID namespace that holds everything: when it ends, for whatever reason, the
kernel ends all processes of the cluster, and with them go its namespaces, netdevs and mounts. The *keeper* is init's
parent outside: it ends init, and removes the state directory, when the cluster's owner is gone.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time

from keep import new_keeper
from layout import Cluster
from linux import (
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUTS,
    MS_BIND,
    MS_NOSUID,
    MS_PRIVATE,
    MS_REC,
    Process,
    detach,
    die_with_parent,
    kill_and_wait,
    mount,
    unshare,
)
from member import Holder, enter, namespaces_of
from network import create_networks
from slurm_config import CONTROLLER_PORT, program
from state import TestBedError, State

_PATIENCE = 60  # seconds for any one thing to happen


def bring_up(state: State, cluster: Cluster, owner: int | None) -> None:
    """Returns when all nodes are idle. When it fails, nothing of the cluster runs any more."""
    with new_keeper(lambda creator, watched: _keep(state, cluster, creator, watched), owner) as (_, keeper):
        _await_boot(state, keeper)


def _await_boot(state: State, channel: socket.socket) -> None:
    answer = b""
    while chunk := channel.recv(65536):
        answer += chunk
        if answer.endswith(b"\n"):
            break
    result = json.loads(answer) if answer.endswith(b"\n") else {"error": "the cluster's process 1 has ended"}
    if "error" in result:
        raise TestBedError(result["error"] + _log_tails(state))


def _log_tails(state: State) -> str:
    text = ""
    for name in sorted(os.listdir(state.make("log"))):
        with open(state.path("log", name), encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()[-8:]
        text += "".join(f"\n  {name}: {line}" for line in lines)
    return text


def _keep(state: State, cluster: Cluster, creator: socket.socket, watched: list[int]) -> None:
    """The keeper. It ends with init; it ends init when the owner or, before all is up, the creator is gone."""
    detach(state.path("log/cluster.log"), watched)
    unshare(CLONE_NEWPID)  # for children; the first of them is process 1
    pid = os.fork()
    if pid == 0:
        _run_init(state, cluster, creator)  # never returns
    init = Process.of(pid)
    state.write_processes([init, Process.of(os.getpid())])
    init_fd = os.pidfd_open(pid)
    poll = select.poll()
    for descriptor in (init_fd, *watched):
        poll.register(descriptor, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if init_fd in ready:
            os._exit(0)
        if creator.fileno() in ready and creator.recv(1) == b".":
            poll.unregister(creator)
            creator.close()
            continue
        kill_and_wait(init)
        state.remove()
        os._exit(0)


def _run_init(state: State, cluster: Cluster, channel: socket.socket) -> None:
    try:
        die_with_parent(signal.SIGKILL)
        init = Init(state, cluster)
        init.boot()
        channel.send(b"{}\n")
        channel.close()
        init.reap_forever()
    except BaseException as error:
        print(f"init: {error!r}", file=sys.stderr, flush=True)
        text = str(error) if isinstance(error, TestBedError) else f"the cluster could not be set up: {error}"
        channel.send(json.dumps({"error": text}).encode() + b"\n")
    finally:
        os._exit(1)


def _listens(pid: int, port: int) -> bool:
    """Whether someone listens on a TCP port in that process's network namespace."""
    fields = []
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}", encoding="ascii") as file:
            fields += [line.split() for line in file]
    return any(field[1].endswith(f":{port:04X}") and field[3] == "0A" for field in fields)  # 0A: TCP_LISTEN


class Init:
    """Process 1 of the cluster."""

    def __init__(self, state: State, cluster: Cluster):
        self._state = state
        self._cluster = cluster
        self._holders: dict[str, Holder] = {}
        self._daemons: dict[int, str] = {}

    def boot(self) -> None:
        self._isolate()
        self._holders = {member.name: Holder(member, self._state) for member in self._cluster.members}
        create_networks(self._cluster, {name: holder.pid for name, holder in self._holders.items()})
        for holder in self._holders.values():
            holder.go_on()
        self._start_controller()
        for node in self._cluster.nodes:
            self._holders[node.name].wait()
            self._start_munged(node.name)
            self._start(f"slurmd-{node.name}", node.name, ["slurmd", "-D", "-f", self._conf()])
        self._await_nodes()
        self._state.write_machines(
            {m.name: {"pid": self._holders[m.name].pid, "address": m.address} for m in self._cluster.members}
        )

    def reap_forever(self) -> None:
        while True:
            try:
                self._note_end(*os.wait())
            except ChildProcessError:
                signal.pause()

    def _note_end(self, pid: int, status: int) -> None:
        if pid in self._daemons:
            code = os.waitstatus_to_exitcode(status)
            print(f"init: {self._daemons.pop(pid)} ended: {code}", file=sys.stderr, flush=True)

    def _isolate(self) -> None:
        unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC)
        mount("none", "/", flags=MS_REC | MS_PRIVATE)
        mount("proc", "/proc", "proc")
        mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID, "mode=1777")
        for name in ("passwd", "group", "hosts", "nsswitch.conf"):
            if os.path.exists(f"/etc/{name}"):
                mount(self._state.path("etc", name), f"/etc/{name}", flags=MS_BIND)

    def _conf(self) -> str:
        return self._state.path("etc/slurm.conf")

    def _start_controller(self) -> None:
        state = self._state
        login = self._cluster.login
        self._holders[login.name].wait()
        self._start_munged(login.name)
        self._start("slurmctld", login.name, ["slurmctld", "-D", "-f", self._conf()])
        # Whoever asks before it listens, slurmd and sinfo, sleeps before it asks again.
        self._await("slurmctld", lambda: _listens(self._holders[login.name].pid, CONTROLLER_PORT))

    def _start_munged(self, machine: str) -> None:
        """Each machine has its own, as on a real cluster. One for all would call a step's credential replayed on every node
        but the first, and slurmd 22.05 now and then crashes on that (its threads share libmunge's context)."""
        state = self._state
        files = {"key": "etc/munge.key", "pid": f"run/{machine}/munged.pid", "seed": f"run/{machine}/munged.seed"}
        files["log"] = f"log/munged-{machine}.log"
        munged = ["munged", "--foreground", "--force", f"--socket={state.path('run/munge/socket')}"]
        self._start(f"munged-{machine}", machine, [*munged, *(f"--{what}-file={state.path(file)}" for what, file in files.items())])
        self._await(f"{machine}'s munged", lambda: os.path.exists(state.path("run", machine, "socket")))

    def _start(self, name: str, machine: str, command: list[str]) -> None:
        """A daemon on a machine, its output in log/NAME.log."""
        path = program(command[0])
        pid = os.fork()
        if pid:
            self._daemons[pid] = name
            return
        try:
            log = os.open(self._state.path("log", name + ".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.dup2(log, 1)
            os.dup2(log, 2)
            enter(namespaces_of(self._holders[machine].pid))
            os.chdir("/")
            system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
            os.execve(path, command, {"PATH": f"{self._state.path('bin')}:{system}"})
        finally:
            os._exit(127)

    def _await(self, what: str, happened) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not happened():
            self._fail_when_ended()
            if time.monotonic() > deadline:
                raise TestBedError(f"{what} did not come in {_PATIENCE} s")
            time.sleep(0.02)

    def _fail_when_ended(self) -> None:
        for pid, name in self._daemons.items():
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                raise TestBedError(f"{name} ended at once: {os.waitstatus_to_exitcode(status)}")

    def _await_nodes(self) -> None:
        try:
            self._await("all nodes idle", self._all_idle)
        except TestBedError as error:
            raise TestBedError(f"{error}: {'; '.join(self._nodes('%N is %T (%E)'))}") from None

    def _all_idle(self) -> bool:
        states = dict(line.split() for line in self._nodes("%N %t"))  # a line for each partition that a node is in
        return len(states) == len(self._cluster.nodes) and all(state == "idle" for state in states.values())

    def _nodes(self, form: str) -> list[str]:
        """What sinfo on the login node says, a line for each node."""
        command = [program("sinfo"), "--noheader", "--Node", f"--format={form}"]
        login = namespaces_of(self._holders[self._cluster.login.name].pid)
        shown = subprocess.run(
            command,
            env={"SLURM_CONF": self._conf(), "PATH": "/usr/bin:/bin"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=False,
            pass_fds=login,
            preexec_fn=lambda: enter(login),
        ).stdout
        for descriptor in login:
            os.close(descriptor)
        return shown.splitlines()
