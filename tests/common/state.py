# SPDX-License-Identifier: Apache-2.0
"""The state directory of a running test bed, a cluster or virtual machines: all its files, and who keeps it."""

from __future__ import annotations

import glob
import json
import os
import shutil
import tempfile

from linux import Process, kill_and_wait

_KEEPER, _MACHINES = "keeper.json", "machines.json"
# slurmstepd's socket is spool/NODE/NODE_JOB.STEP.SOCKET; sun_path holds 107 characters (unix(7)).
_LONGEST = 60


class TestBedError(Exception):
    """What went wrong, in a sentence for the user."""


class State:
    """`kind` is the command that keeps it: cluster or vm."""

    def __init__(self, kind: str, directory: str):
        self.kind = kind
        self.directory = os.path.abspath(directory)

    @staticmethod
    def create(kind: str, directory: str | None) -> State:
        if directory is None:
            state = State(kind, tempfile.mkdtemp(prefix=_pattern(kind)))
        else:
            state = State(kind, directory)
            os.makedirs(state.directory, exist_ok=True)
            if os.listdir(state.directory):
                raise TestBedError(f"{state.directory} is not empty; name a directory that does not exist")
        try:
            state._check_length()
            os.chmod(state.directory, 0o755)  # Slurm's users must reach slurm.conf and munge's socket
            state._write(_KEEPER, {})
        except BaseException:
            os.rmdir(state.directory)
            raise
        return state

    @staticmethod
    def find(kind: str, directory: str | None) -> State:
        """The one named, or the only one there is."""
        if directory is None:
            there = State.all(kind)
            if not there:
                raise TestBedError(f"no {kind} is up; start one with `{kind} up`, or name its --dir")
            if len(there) > 1:
                names = ", ".join(state.directory for state in there)
                raise TestBedError(f"there are several ({names}); name one with --dir")
            return there[0]
        state = State(kind, directory)
        if not os.path.exists(state.path(_KEEPER)):
            raise TestBedError(f"{state.directory} is not the directory of a {kind}")
        return state

    @staticmethod
    def all(kind: str) -> list[State]:
        """Those in the default place."""
        return [State(kind, os.path.dirname(path)) for path in sorted(glob.glob(f"{_pattern(kind)}*/{_KEEPER}"))]

    def _check_length(self) -> None:
        if len(self.directory) > _LONGEST:
            raise TestBedError(
                f"{self.directory} is too long for Slurm's sockets: at most {_LONGEST} characters; "
                "name a shorter --dir or TMPDIR"
            )

    def path(self, *names: str) -> str:
        return os.path.join(self.directory, *names)

    def make(self, *names: str) -> str:
        path = self.path(*names)
        os.makedirs(path, exist_ok=True)
        return path

    def text(self, name: str, content: str, mode: int = 0o644) -> None:
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)

    def _write(self, name: str, value: dict) -> None:
        self.text(name + ".new", json.dumps(value, indent=1))
        os.rename(self.path(name + ".new"), self.path(name))

    def _read(self, name: str) -> dict:
        try:
            with open(self.path(name), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return {}

    def write_processes(self, processes: list[Process]) -> None:
        """Those that must end for everything to end, in the order in which to end them. The first one counts."""
        self._write(_KEEPER, {"processes": [vars(process) for process in processes]})

    def _processes(self) -> list[Process]:
        return [Process(**there) for there in self._read(_KEEPER).get("processes", [])]

    def write_machines(self, machines: dict[str, dict]) -> None:
        self._write(_MACHINES, machines)

    def machines(self) -> dict[str, dict]:
        """By name; empty until all are ready."""
        return self._read(_MACHINES)

    def first_process(self) -> Process:
        processes = self._processes()
        if not processes or not processes[0].alive():
            raise TestBedError(
                f"the {self.kind} of {self.directory} is not running; clean up with `{self.kind} down`"
            )
        return processes[0]

    def running(self) -> bool:
        processes = self._processes()
        return bool(processes) and processes[0].alive()

    def take_down(self) -> None:
        for process in self._processes():
            kill_and_wait(process)
        self.remove()

    def remove(self) -> None:
        _refuse_mounts(self.directory)
        for _ in range(3):  # someone else may be removing it too
            shutil.rmtree(self.directory, ignore_errors=True)
            if not os.path.exists(self.directory):
                return
        shutil.rmtree(self.directory)


def _pattern(kind: str) -> str:
    return os.path.join(os.environ.get("TMPDIR", "/tmp"), f"rdma-nccl-{kind}-{os.getuid()}-")


def _refuse_mounts(directory: str) -> None:
    real = os.path.realpath(directory)
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        points = [line.split()[4].replace("\\040", " ") for line in file]
    inside = [point for point in points if point == real or point.startswith(real + "/")]
    if inside:
        raise TestBedError(f"{inside[0]} is mounted: not removing {directory}; unmount it first")
