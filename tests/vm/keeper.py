# SPDX-License-Identifier: Apache-2.0
"""Starting a lab, and the process that stays of it.

The *keeper* is the guests' parent and their switch. When it ends, for whatever reason, the kernel ends the guests too.
It ends itself, and removes the state directory, when the lab's owner is gone, or its creator before all is up.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import time

from guest import MANAGEMENT, Guest, Shape, qemu_command
from images import GUEST
from keep import new_keeper
from linux import Process, detach, die_with_parent, kill_and_wait
from state import State, TestBedError
from switch import Switch, port_path

_PATIENCE = 180  # seconds until all guests must be ready; 10 are usual
_LOG = "log/keeper.log"


def bring_up(state: State, guests: list[Guest], shape: Shape, owner: int | None) -> None:
    """Returns when all guests take commands. When it fails, nothing of the lab runs any more."""
    _lay_out(state, guests)
    with new_keeper(lambda creator, watched: _keep(state, guests, shape, creator, watched), owner) as (pid, _):
        _await_guests(state, guests, Process.of(pid))
        state.write_machines({guest.name: {"address": guest.address(MANAGEMENT)} for guest in guests})


def _lay_out(state: State, guests: list[Guest]) -> None:
    """lab/ is what the guests see as /lab, and write to."""
    for name in ("log", "run", "net", *(f"lab/{guest.name}" for guest in guests)):
        state.make(name)
    shutil.copytree(GUEST, state.path("lab", "guest"))
    lines = ["127.0.0.1 localhost"]
    for guest in guests:
        lines += [f"{guest.address(MANAGEMENT)} {guest.name}", f"{guest.address(1)} {guest.name}-rail1"]
    state.text("lab/hosts", "\n".join(lines) + "\n")


def _await_guests(state: State, guests: list[Guest], keeper: Process) -> None:
    deadline = time.monotonic() + _PATIENCE
    while missing := [guest.name for guest in guests if not os.path.exists(state.path("lab", guest.name, "ready"))]:
        time.sleep(0.02)
        if not keeper.alive():
            raise TestBedError("the lab's keeper has ended" + tail(state, _LOG))
        gone = [name for name in missing if has_ended(state, name)]
        if gone or time.monotonic() > deadline:
            names, what = (gone, "ended while booting") if gone else (missing, f"not ready after {_PATIENCE} s")
            logs = tail(state, f"log/{names[0]}.qemu") + tail(state, f"log/{names[0]}.console")
            raise TestBedError(f"{', '.join(names)}: {what}{logs}")


def has_ended(state: State, name: str) -> bool:
    return os.path.exists(state.path("run", name + ".ended"))


def tail(state: State, name: str, lines: int = 25) -> str:
    try:
        with open(state.path(name), encoding="utf-8", errors="replace") as file:
            return "".join(f"\n  {name}: {line.rstrip()}" for line in file.readlines()[-lines:])
    except OSError:
        return ""


def _keep(state: State, guests: list[Guest], shape: Shape, creator: socket.socket, watched: list[int]) -> None:
    detach(state.path(_LOG), watched + [shape.image.in_use, shape.kernel.in_use])
    switches = [_switch(state, guests, network) for network in range(shape.rails + 1)]
    running = {guest.name: _start(state, guest, shape) for guest in guests}
    processes = {name: Process.of(process.pid) for name, process in running.items()}
    state.write_processes([Process.of(os.getpid()), *processes.values()])

    handlers = {switch.fileno(): switch.forward for switch in switches}
    poll = select.epoll()
    ends = {os.pidfd_open(process.pid): name for name, process in running.items()}
    for descriptor in (*handlers, *ends, *watched):
        poll.register(descriptor, select.EPOLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if handler := handlers.get(descriptor):
                handler()
            elif name := ends.get(descriptor):
                poll.unregister(descriptor)
                state.text(f"run/{name}.ended", f"{running[name].wait()}\n")
            elif descriptor == creator.fileno() and creator.recv(1) == b".":
                poll.unregister(creator)
                creator.close()
            else:  # the creator, or the owner, is gone
                for process in processes.values():
                    kill_and_wait(process)
                state.remove()
                return


def _switch(state: State, guests: list[Guest], network: int) -> Switch:
    ports = [port_path(state.directory, network, guest.number) for guest in guests]
    return Switch(port_path(state.directory, network), ports)


def _start(state: State, guest: Guest, shape: Shape) -> subprocess.Popen:
    with open(state.path("log", guest.name + ".qemu"), "w", encoding="utf-8") as log:
        return subprocess.Popen(
            qemu_command(guest, shape, state),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=lambda: die_with_parent(signal.SIGKILL),
        )
