# SPDX-License-Identifier: Apache-2.0
"""The system calls that Python 3.9 to 3.11 do not wrap, and process identities that survive the reuse of a pid."""

from __future__ import annotations

import ctypes
import os
import select
import signal
from dataclasses import dataclass

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID = 0x2
MS_BIND = 0x1000
MS_MOVE = 0x2000
MS_REC = 0x4000
MS_PRIVATE = 0x40000

_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def set_namespace(descriptor: int) -> None:
    _check(_libc.setns(descriptor, 0), "setns")


def mount(source: str, target: str, kind: str = "none", flags: int = 0, options: str = "") -> None:
    arguments = [text.encode() for text in (source, target, kind)]
    _check(_libc.mount(*arguments, ctypes.c_ulong(flags), options.encode()), f"mount {source} on {target}")


def die_with_parent(signal_number: int) -> None:
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl")


@dataclass(frozen=True)
class Process:
    """A process by pid and start time: a later process with the same pid is another one."""

    pid: int
    start: int  # clock ticks since boot: field 22 of /proc/PID/stat, proc(5)

    @staticmethod
    def of(pid: int) -> Process:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return Process(pid, int(fields[19]))

    def open(self) -> int | None:
        """A pidfd, or None when the process is gone."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return None
        try:
            if Process.of(self.pid) == self:
                return descriptor
        except OSError:
            pass
        os.close(descriptor)
        return None

    def alive(self) -> bool:
        descriptor = self.open()
        if descriptor is None:
            return False
        gone = wait_for_end(descriptor, 0)
        os.close(descriptor)
        return not gone


def wait_for_end(pidfd: int, seconds: float) -> bool:
    """True when the process has ended within `seconds`."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def kill_and_wait(process: Process, seconds: float = 20) -> None:
    descriptor = process.open()
    if descriptor is None:
        return
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        if not wait_for_end(descriptor, seconds):
            raise TimeoutError(f"process {process.pid} does not end")
    except ProcessLookupError:
        pass
    finally:
        os.close(descriptor)


def raise_when_ended() -> None:
    """From here on SIGTERM and SIGHUP clean up, as SIGINT does: they raise SystemExit."""

    def end(number: int, _frame) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)


def detach(log: str, kept: list[int]) -> None:
    """Makes this process a daemon: of the open files only those in `kept` stay, and the log as output."""
    os.setsid()
    os.chdir("/")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    last = 2
    for descriptor in sorted(kept):
        os.closerange(last + 1, descriptor)
        last = descriptor
    os.closerange(last + 1, os.sysconf("SC_OPEN_MAX"))
