# SPDX-License-Identifier: Apache-2.0
"""What the tests inside virtual machines have in common: a lab, commands in it, and RDMA between two of its ports."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import unittest
from dataclasses import dataclass

from images import ARM64, HERE, get_image
from keeper import has_ended, tail
from lab import Command, Result, start
from project import build_project, run_inside
from state import State

VM = os.path.join(HERE, "vm")
PATIENCE = 60  # seconds for one command in a guest; most take less than one
SOON = 20  # seconds for a transfer
NEVER = 2  # seconds for a transfer that cannot succeed; some fail only by waiting
# A guest takes 13 ms to start this shell, 150 ms for bash. `ip` and `tc` would be busybox's own.
SHELL = ("busybox", "sh", "-euc")
REFUSED = ("Failed status 9:", "REM_INV_REQ_ERR")  # as ib_write_bw and rdma-nccl print it
PRELUDE = 'ip() { /sbin/ip "$@"; }\ntc() { /sbin/tc "$@"; }\nNUMBER=${HOSTNAME#n0}\n'


class Lab:
    """Guests with Slurm, of a suite. They go down with this process; $VM_LAB names some that are up instead."""

    def __init__(self, suite: str, options: tuple[str, ...] = ()):
        self.suite = suite
        self._options = options
        self._ours = "VM_LAB" not in os.environ
        self._port = 18600  # of the last transfer: no two share one
        self._enter(self._up() if self._ours else os.environ["VM_LAB"])

    def _enter(self, directory: str) -> None:
        self.state = State.find("vm", directory)
        self.nodes = list(self.state.machines())
        self.changed = True  # since the last reset of the fabric
        self._broken = False  # its fabric cannot be reset
        self._stuck = ""  # what waits for good in kernels that do not let their devices go

    def _up(self) -> str:
        command = [VM, "up", "--owner", str(os.getpid()), "--suite", self.suite, "--slurm", *self._options]
        result = subprocess.run(command, text=True, capture_output=True, check=False)
        if result.returncode != 0:
            raise RuntimeError(result.stdout + result.stderr)
        return result.stdout.rstrip("\n")

    def down(self) -> None:
        if self._ours:
            subprocess.run([VM, "down", "--dir", self.state.directory], check=True)

    def restart_if_broken(self) -> None:
        """Starts new guests for the next tests after a guest has ended, or its kernel keeps the devices."""
        if self._ours and (self._broken or any(has_ended(self.state, node) for node in self.nodes)):
            self.down()
            self._enter(self._up())

    def kernel_fault(self, failures: list[str]) -> str:
        """What the guests' kernels did wrong, given the texts of a test's failures; empty if nothing. On a busy machine,
        Linux 6.12 panics when a Soft-RoCE device goes away amid traffic or never lets it go, Linux 6.1 spins when packets
        are dropped, and 6.12 refuses an RDMA WRITE that Soft-RoCE had to send again."""
        ended = [node for node in self.nodes if has_ended(self.state, node)]
        crashed = [node for node in ended if "Kernel panic" in tail(self.state, f"log/{node}.console", 200)]
        if crashed:
            return f"the kernel of {', '.join(crashed)} has panicked"
        if self._stuck:
            return f"a kernel does not let an RDMA device go ({self._stuck})"
        if any(refused in text for refused in REFUSED for text in failures):
            return "Soft-RoCE has refused a write that it sent again"
        return ""

    def start(self, node: str, *command: str, user: str | None = None) -> Command:
        return start(self.state, node, list(command), user)

    def run(self, node: str, *command: str, user: str | None = None, seconds: float = PATIENCE) -> Result:
        return self.start(node, *command, user=user).wait(seconds)

    def good(self, node: str, *command: str, **options) -> str:
        return _expect_good(self.start(node, *command, **options))

    def read(self, node: str, path: str) -> str:
        return self.good(node, "busybox", "cat", path).strip()

    def script(self, node: str, text: str) -> str:
        """$NUMBER is the node's. The script may change the fabric."""
        self.changed = True
        return self.good(node, *SHELL, PRELUDE + text)

    def everywhere(self, text: str) -> None:
        """A script on all nodes at a time."""
        self.changed = True
        for command in [self.start(node, *SHELL, PRELUDE + text) for node in self.nodes]:
            _expect_good(command)

    def reset(self) -> None:
        if self.changed:
            try:
                self.everywhere("/lab/guest/fabric")
            except TimeoutError:
                self._broken = True
                self._stuck = "; ".join(filter(None, map(self._waiting, self.nodes)))
                raise
            self.changed = False

    def _waiting(self, node: str) -> str:
        """A node's processes that cannot be interrupted, and where in the kernel they are; empty if there are none."""
        script = """
            for process in /proc/[0-9]*; do
                if grep -qs '^State:.D' $process/status; then
                    echo "$(cat $process/comm): $(head -n 4 $process/stack | tr '\\n' ' ')"
                fi
            done"""
        processes = self.run(node, *SHELL, script).out.strip()
        return f"{node}: {processes}" if processes else ""

    def replay(self, tree: str, *arguments: str) -> subprocess.CompletedProcess:
        """The guests' rdma-nccl, outside of them, on a copied machine; for those of aarch64 the suite's for x86."""
        image = get_image(self.suite.removeprefix(ARM64))
        if image.suite != self.suite:
            build_project(image)
        return run_inside(image, tree, *arguments)

    def next_port(self) -> int:
        self._port += 1
        return self._port


def _expect_good(command: Command) -> str:
    result = command.wait(PATIENCE)
    if result.status != 0:
        raise AssertionError(f"{command.node}: {command.text}: exit status {result.status}\n{result.out}{result.err}")
    return result.out


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
    return _transfer(lab, server, client, ["ibv_rc_pingpong", "-c", "-n", "10", "-r", "16"], "-g", seconds)


def write_bandwidth(lab: Lab, server: End, client: End, seconds: float = SOON) -> Transfer:
    """RDMA WRITE by perftest, 100 times 64 KiB."""
    return _transfer(lab, server, client, ["ib_write_bw", "-F", "-n", "100", "-s", "65536"], "-x", seconds)


def _transfer(lab: Lab, server: End, client: End, program: list[str], gid: str, seconds: float) -> Transfer:
    """Both sides have ended, one way or the other, when this returns."""
    port = str(lab.next_port())

    def command(end: End) -> list[str]:
        return [*program, "-d", end.device, gid, str(end.gid), "-p", port]

    serving = lab.start(server.node, *command(server))
    if lab.run(server.node, "lab-agent", "await-port", port, str(SOON)).status != 0:
        serving.kill()
        serving.wait_after_kill()
        raise AssertionError(f"the server does not listen:\n{serving.out}{serving.err}")  # nothing was tried
    asking = lab.start(client.node, *command(client), lab.state.machines()[server.node]["address"])
    statuses = [_end(asking, seconds), _end(serving, 2)]
    text = f"client: {statuses[0]}\n{asking.out}{asking.err}server: {statuses[1]}\n{serving.out}{serving.err}"
    return Transfer(statuses == [0, 0], text)


def _end(command: Command, seconds: float) -> int | None:
    try:
        return command.wait(seconds).status
    except TimeoutError:
        command.wait_after_kill()
        return None


def on_each_suite(test):
    """Marks a test that depends on the suite; `tests/vm/check` runs the others on one only."""
    test.on_each_suite = True
    return test


class LabTest(unittest.TestCase):
    """A test with the lab, which is as after boot when it begins."""

    lab: Lab
    options: tuple[str, ...] = ()  # of `vm up`, for the lab that these tests need
    kernel_faults = 0  # of guests

    def run(self, result=None):
        """A test in which a guest's kernel fails has no result: it runs again, twice at most, in new guests after a panic."""
        errors, failures = len(result.errors), len(result.failures)
        for _ in range(2):
            super().run(result)
            texts = [text for _, text in result.errors[errors:] + result.failures[failures:]]
            fault = self.lab.kernel_fault(texts) if texts else ""
            if not fault:
                return result
            LabTest.kernel_faults += 1
            result.stream.write(f"{fault}: again\n")
            result.testsRun -= 1
            del result.errors[errors:], result.failures[failures:]
        return super().run(result)

    def setUp(self):
        began = time.monotonic()
        self.addCleanup(lambda: print(f"{time.monotonic() - began:.1f} s", end=" ", file=sys.stderr))
        self.lab.restart_if_broken()
        self.lab.reset()

    def sent_again(self) -> int:
        """What the devices of all nodes counted of packets that came late or never: a driver sends these once more."""
        names = "duplicate_request out_of_seq_request send_rnr_err completer_retry_err rcvd_seq_err"
        script = f"for name in {names}; do cat /sys/class/infiniband/*/ports/1/hw_counters/$name; done"
        return sum(int(word) for node in self.lab.nodes for word in self.lab.good(node, *SHELL, script).split())

    def assert_counted(self, counted: float, sent: float, again: bool, besides: float = 0) -> None:
        """All of it once, and at most `besides` more. `again`: the driver sent some of it once more, as it does on a busy
        machine, where acknowledgements come late."""
        self.assertGreaterEqual(counted, 0.9 * sent)
        if not again:
            self.assertLess(counted, 1.1 * sent + besides)

    def assert_transfer(self, server: End, client: End, transfer=pingpong) -> None:
        done = transfer(self.lab, server, client)
        self.assertTrue(done.good, f"{transfer.__name__} {server} {client}:\n{done.text}")

    def assert_no_transfer(self, server: End, client: End) -> None:
        done = pingpong(self.lab, server, client, NEVER)
        self.assertFalse(done.good, f"{server} {client}:\n{done.text}")
