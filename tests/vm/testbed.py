# SPDX-License-Identifier: Apache-2.0
"""What the tests inside virtual machines have in common: a lab, commands in it, and RDMA between two of its ports."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import unittest
from dataclasses import dataclass

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "common")]

from images import get_image  # noqa: E402, F401
from lab import Command, Result, put, start  # noqa: E402
from project import build_folder, run_inside  # noqa: E402, F401
from state import State  # noqa: E402

VM = os.path.join(HERE, "vm")
PATIENCE = 60  # seconds for one command in a guest; most take less than one
SOON = 20  # seconds for a transfer that ought to fail, some do so by waiting


class Lab:
    """Two guests with Slurm, of a suite; they go down with this process. $VM_LAB names one that is up instead."""

    def __init__(self, suite: str):
        self._ours = "VM_LAB" not in os.environ
        directory = self._up("--suite", suite, "--slurm") if self._ours else os.environ["VM_LAB"]
        self.state = State.find("vm", directory)
        self.nodes = list(self.state.machines())
        self.changed = True  # since the last reset of the fabric
        self._port = 18600  # of the next transfer: no two share one

    def _up(self, *arguments: str) -> str:
        command = [VM, "up", "--owner", str(os.getpid()), *arguments]
        result = subprocess.run(command, text=True, capture_output=True, check=False)
        if result.returncode != 0:
            raise RuntimeError(result.stdout + result.stderr)
        return result.stdout.split()[-1]

    def down(self) -> None:
        if self._ours:
            subprocess.run([VM, "down", "--dir", self.state.directory], check=True)

    def start(self, node: str, *command: str, user: str | None = None) -> Command:
        return start(self.state, node, list(command), user)

    def run(self, node: str, *command: str, user: str | None = None, seconds: float = PATIENCE) -> Result:
        return self.start(node, *command, user=user).wait(seconds)

    def good(self, node: str, *command: str, **options) -> str:
        result = self.run(node, *command, **options)
        if result.status != 0:
            raise AssertionError(f"{node}: {command}: exit status {result.status}\n{result.out}{result.err}")
        return result.out

    def script(self, node: str, text: str, **options) -> str:
        """Several commands for the cost of one; all must succeed. They may change the fabric."""
        self.changed = True
        return self.good(node, "bash", "-euc", text, **options)

    def everywhere(self, text: str) -> None:
        """A script on all nodes at a time."""
        self.changed = True
        for command in [self.start(node, "bash", "-euc", text) for node in self.nodes]:
            result = command.wait(PATIENCE)
            if result.status != 0:
                raise AssertionError(f"{command.node}: {text}: exit status {result.status}\n{result.out}{result.err}")

    def put(self, source: str, target: str) -> None:
        for node in self.nodes:
            put(self.state, node, source, target)

    def next_port(self) -> int:
        self._port += 1
        return self._port


@dataclass(frozen=True)
class End:
    """One side of a transfer."""

    node: str
    device: str
    gid: int


@dataclass(frozen=True)
class Transfer:
    good: bool
    text: str  # what both sides said


def pingpong(lab: Lab, server: End, client: End, seconds: float = SOON) -> Transfer:
    """RC SEND by libibverbs' own example; it checks what arrives."""
    port = lab.next_port()

    def command(end: End) -> list[str]:
        return ["ibv_rc_pingpong", "-d", end.device, "-g", str(end.gid), "-p", str(port), "-n", "20", "-c"]

    return _transfer(lab, server, client, command, port, seconds)


def write_bandwidth(lab: Lab, server: End, client: End, *options: str, seconds: float = SOON) -> Transfer:
    """RDMA WRITE by perftest."""
    port = lab.next_port()

    def command(end: End) -> list[str]:
        sizes = [] if options else ["-n", "100", "-s", "65536"]
        return ["ib_write_bw", "-d", end.device, "-x", str(end.gid), "-p", str(port), "-F", *sizes, *options]

    return _transfer(lab, server, client, command, port, seconds)


def _transfer(lab: Lab, server: End, client: End, command, port: int, seconds: float) -> Transfer:
    """Both sides are over, one way or the other, when this returns."""
    limit = ["timeout", "--kill-after=2", str(seconds)]
    serving = lab.start(server.node, *limit, *command(server))
    listening = lab.run(server.node, "lab-agent", "await-port", str(port), str(seconds))
    if listening.status != 0:
        serving.kill()
        return Transfer(False, f"the server does not listen:\n{serving.out}{serving.err}")
    address = lab.state.machines()[server.node]["address"]
    asking = lab.run(client.node, *limit, *command(client), address, seconds=seconds + PATIENCE)
    if asking.status != 0:
        serving.kill()
    served = serving.wait(seconds + PATIENCE)
    text = f"client: {asking.status}\n{asking.out}{asking.err}server: {served.status}\n{served.out}{served.err}"
    return Transfer(asking.status == 0 and served.status == 0, text)


class LabTest(unittest.TestCase):
    """A class of tests that share a lab, which is as after boot at the start of each."""

    lab: Lab

    def setUp(self):
        began = time.monotonic()
        self.addCleanup(lambda: print(f"{time.monotonic() - began:.1f} s", end=" ", file=sys.stderr))
        if self.lab.changed:
            self.lab.everywhere("/lab/guest/fabric")
            self.lab.changed = False

    def assert_transfer(self, server: End, client: End, transfer=pingpong) -> None:
        done = transfer(self.lab, server, client)
        self.assertTrue(done.good, f"{transfer.__name__} {server} {client}:\n{done.text}")

    def assert_no_transfer(self, server: End, client: End) -> None:
        done = pingpong(self.lab, server, client, 3)
        self.assertFalse(done.good, f"{server} {client}:\n{done.text}")
