# SPDX-License-Identifier: Apache-2.0
"""A running lab: commands in its guests, and files into them."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from guest import control_path
from keeper import has_ended, tail
from state import State, TestBedError

_TICK = 0.01  # seconds between looks at a command's files
_PATIENCE = 60  # seconds for a guest to take a command


class GuestGone(TestBedError):
    """The virtual machine has ended: trouble of the test bed, not a result."""


@dataclass(frozen=True)
class Result:
    status: int
    out: str
    err: str


class Command:
    """A command that runs in a guest. Its output grows in two files that can be read meanwhile."""

    def __init__(self, state: State, node: str, number: int, text: str):
        self._state = state
        self.node = node
        self.text = text
        self._base = state.path("lab", node, str(number))
        self._number = number

    def output(self, ending: str, begin: int = 0) -> bytes:
        """Of the file with this ending, what there is from this byte on."""
        try:
            with open(f"{self._base}.{ending}", "rb") as file:
                file.seek(begin)
                return file.read()
        except FileNotFoundError:
            return b""

    @property
    def out(self) -> str:
        return self.output("out").decode(errors="replace")

    @property
    def err(self) -> str:
        return self.output("err").decode(errors="replace")

    def status(self) -> int | None:
        """The exit status, as a shell has it; None while the command runs."""
        if text := self.output("status"):
            return int(text)
        _fail_when_gone(self._state, self.node)
        return None

    def wait(self, seconds: float) -> Result:
        """Kills the command when it takes longer; TimeoutError then."""
        deadline = time.monotonic() + seconds
        while (status := self.status()) is None:
            if time.monotonic() > deadline:
                self.kill()
                raise TimeoutError(f"{self.node}: {self.text}: still runs after {seconds} s:\n{self.out}{self.err}")
            time.sleep(_TICK)
        return Result(status, self.out, self.err)

    def kill(self) -> None:
        if self.status() is None:
            _tell(self._state, self.node, "kill", self._number)

    def wait_after_kill(self) -> None:
        """A process in the middle of a system call may take its time."""
        deadline = time.monotonic() + _PATIENCE
        while self.status() is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.node}: {self.text} does not end when it is killed")
            time.sleep(_TICK)


def start(state: State, node: str, command: list[str], user: str | None = None) -> Command:
    if node not in state.machines():
        raise TestBedError(f"no node {node}; there are: {', '.join(state.machines()) or 'none yet'}")
    number = _write_command(state, node, [user or "", *command])
    _tell(state, node, "run", number)
    return Command(state, node, number, " ".join(command))


def put(state: State, node: str, source: str, target: str) -> None:
    """Copies a file or directory into a guest."""
    inbox = state.make("lab", "inbox")
    name = os.path.basename(os.path.abspath(source))
    passing = os.path.join(inbox, f"{os.getpid()}-{name}")
    try:
        (shutil.copytree if os.path.isdir(source) else shutil.copy)(source, passing)
        copy = ["cp", "-rT", f"/lab/inbox/{os.path.basename(passing)}", target]
        if target.endswith("/"):
            copy[-1] += name
        result = start(state, node, copy).wait(60)
        if result.status != 0:
            raise TestBedError(f"{node}: {result.err.strip()}")
    finally:
        if os.path.isdir(passing):
            shutil.rmtree(passing)
        elif os.path.exists(passing):
            os.unlink(passing)


def _write_command(state: State, node: str, texts: list[str]) -> int:
    """As tests/vm/guest/agent.cpp reads it."""
    number = 1
    while True:
        try:
            with open(state.path("lab", node, f"{number}.command"), "xb") as file:
                file.write(b"".join(os.fsencode(text) + b"\0" for text in texts))
            return number
        except FileExistsError:
            number += 1


def _tell(state: State, node: str, verb: str, number: int) -> None:
    """On the guest's second serial line, which has one user at a time."""
    path = control_path(state, node)
    with open(path + ".lock", "w", encoding="ascii") as lock, socket.socket(socket.AF_UNIX) as control:
        fcntl.flock(lock, fcntl.LOCK_EX)
        control.settimeout(_PATIENCE)
        try:
            control.connect(path)
            control.sendall(f"{verb} {number}\n".encode())
            answer = b""
            while not answer.endswith(f"{number}\n".encode()):
                if not (new := control.recv(64)):
                    raise ConnectionResetError(errno.ECONNRESET, "hung up")
                answer += new
        except OSError as error:
            _fail_when_gone(state, node)
            raise GuestGone(f"{node} takes no commands: {error}" + tail(state, f"log/{node}.console")) from None


def _fail_when_gone(state: State, node: str) -> None:
    if has_ended(state, node) or not state.running():
        raise GuestGone(f"{node} has ended" + tail(state, f"log/{node}.console"))


def stream(starting: Iterator[Command], prefix: bool) -> int:
    """Shows what the commands write as it comes; the greatest of their exit statuses. Interrupted, it kills them."""
    commands: list[Command] = []
    shown: dict[tuple[Command, str], int] = {}
    worst = 0
    try:
        for command in starting:
            commands.append(command)
        for command in commands:
            while (status := command.status()) is None:
                for each in commands:
                    _show_new(each, shown, prefix)
                time.sleep(_TICK)
            worst = max(worst, status)
        for each in commands:
            _show_new(each, shown, prefix, final=True)
    except BaseException:
        for command in commands:
            with suppress(TestBedError):  # its guest is gone; those of others may not be
                command.kill()
        raise
    return worst


def _show_new(command: Command, shown: dict, prefix: bool, final: bool = False) -> None:
    """Whole lines, when several share the output; all there is, as it is, when not."""
    for ending, stream_ in (("out", sys.stdout.buffer), ("err", sys.stderr.buffer)):
        begin = shown.get((command, ending), 0)
        new = command.output(ending, begin)
        if prefix and not final:
            new = new[: new.rfind(b"\n") + 1]
        shown[command, ending] = begin + len(new)
        if prefix:
            new = b"".join(b"%s: %s\n" % (command.node.encode(), line) for line in new.splitlines())
        stream_.write(new)
        stream_.flush()
