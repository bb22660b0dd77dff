# SPDX-License-Identifier: Apache-2.0
"""What the attacks share: programs that run in the cluster, as alice whose step it is or as bob the stranger, and what
they say. Tests wait for what is said, with a limit that is far beyond what it takes."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "cluster"))
sys.dont_write_bytecode = True

from cluster_test import CLUSTER, ClusterTest, main  # noqa: E402, F401

FABRICS = os.path.join(os.path.dirname(HERE), "data", "fabric")
TIME_LIMIT = 100  # seconds for anything to happen
PAUSE = 0.05  # between two looks
ALICE = "20001"  # her uid

LOGIN = "10.0.60.1"
BRIDGE = "172.17.0.1"  # of containers, the same on all hosts
HEAD = {"25.11.128.2", "25.11.128.34", "25.11.128.66", "25.11.128.98", "25.11.128.130", "25.11.128.162", "25.11.128.194",
        "25.11.128.226", "10.0.60.3"}  # n01's own addresses: any of them may be MASTER_ADDR


class Program:
    """A command in the cluster, and the lines that it has printed."""

    def __init__(self, test: AttackTest, command: list[str], user: str, node: str, variables: dict[str, str]):
        self._test = test
        where = [CLUSTER, "exec", "--dir", test.cluster.dir, "--user", user, "--node", node, "--", "env"]
        self._process = subprocess.Popen(
            [*where, *(f"{name}={value}" for name, value in variables.items()), *command],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
        self.out: list[str] = []
        self.err: list[str] = []
        self._command = command
        self._threads = [threading.Thread(target=lines.extend, args=(stream,), daemon=True)
                         for lines, stream in ((self.out, self._process.stdout), (self.err, self._process.stderr))]
        for thread in self._threads:
            thread.start()

    @property
    def text(self) -> str:
        return "".join(self.out + self.err)

    def ended(self) -> bool:
        return self._process.poll() is not None

    def said(self, pattern: str, count: int = 1) -> bool:
        return len(re.findall(pattern, self.text, re.M)) >= count

    def until_said(self, pattern: str, count: int = 1) -> re.Match:
        def happened() -> bool:
            done = self.ended()
            if not self.said(pattern, count) and done:
                self._finish_reading()
                if not self.said(pattern, count):
                    self._test.fail(f"{self._command}: ended without {pattern}:\n{self.text}")
            return self.said(pattern, count)

        self._test.until(f"{pattern} of {self._command}", happened, lambda: self.text)
        return re.search(pattern, self.text, re.M)

    def wait(self) -> int:
        self._test.until(f"the end of {self._command}", self.ended, lambda: self.text)
        self._finish_reading()
        return self._process.returncode

    def end(self) -> None:
        """Now, and what it has started. A stranger ends with its input."""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        if not self.ended():
            self._process.terminate()
        self._process.wait()
        self._finish_reading()
        self._process.stdout.close()
        self._process.stderr.close()

    def _finish_reading(self) -> None:
        for thread in self._threads:
            thread.join()


class AttackTest(ClusterTest):
    programs = [os.path.join(HERE, name) for name in ("stranger.py", "forge.py")]
    arguments = ["--nodes", "2", "--bin", programs[0], "--bin", programs[1]]

    def setUp(self) -> None:
        self.shared = tempfile.mkdtemp(dir=self.cluster.dir)
        os.chmod(self.shared, 0o1777)
        self._serial = 0

    def start(self, *command: str, user: str = "alice", node: str = "login", **variables: str) -> Program:
        program = Program(self, list(command), user, node, variables)
        self.addCleanup(program.end)
        return program

    def stranger(self, node: str, *words: object, program: str = "stranger.py") -> Program:
        return self.start(program, *map(str, words), user="bob", node=node)

    def until(self, what: str, happened, text=lambda: "", limit: float = TIME_LIMIT) -> None:
        deadline = time.monotonic() + limit
        while not happened():
            if time.monotonic() > deadline:
                self.fail(f"{what}: not in {limit} s\n{text()}")
            time.sleep(PAUSE)

    def until_in(self, step: Program, what: str, happened) -> None:
        """While the step is there, which may not end before."""

        def look() -> bool:
            done = step.ended()
            if found := happened():
                return found
            if done:
                self.fail(f"{what}: the step has ended\n{step.text}")
            return False

        self.until(what, look, lambda: step.text)

    def happens(self, seconds: float, happened) -> bool:
        """For what need not happen: whether it does in this time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if happened():
                return True
            time.sleep(PAUSE)
        return False

    def path(self, name: str) -> str:
        return os.path.join(self.shared, name)

    def touch(self, name: str) -> None:
        with open(self.path(name), "w", encoding="ascii"):
            pass

    def listeners(self, node: str = "login") -> list[str]:
        """The ports on which alice's programs listen there."""
        return self.good("stranger.py", "listeners", ALICE, user="bob", node=node).split()

    def until_listening(self, step: Program, node: str) -> list[str]:
        self.until_in(step, f"alice's programs listen on {node}", lambda: self.listeners(node))
        return self.listeners(node)

    @contextlib.contextmanager
    def stopped(self, name: str, node: str):
        """A daemon of that machine does nothing meanwhile. There is one process table for the whole cluster."""
        command = ["pkill", "--ns", "$$", "--nslist", "net", "-x", name]
        self.good("bash", "-c", " ".join([*command, "--signal", "STOP"]), user="root", node=node)
        try:
            yield
        finally:
            self.good("bash", "-c", " ".join([*command, "--signal", "CONT"]), user="root", node=node)

    def heads(self, output: str) -> set[str]:
        """The addresses in lines of MASTER_ADDR=."""
        return set(re.findall(r"MASTER_ADDR=(\S*)", output))


def describe_bridged(directory: str) -> str:
    """The fabrics of two nodes without HCAs that both have the bridge's address, as container runtimes give it."""
    with open(os.path.join(FABRICS, "none.json"), encoding="utf-8") as file:
        machine = json.load(file)
    paths = []
    for number in range(2):  # node i has the address that is written there, plus i
        bridge = {"name": "docker0", "kind": "bridge", "ipv4": f"{ipaddress.ip_address(BRIDGE) - number}/16"}
        paths.append(os.path.join(directory, f"bridged-{number}.json"))
        with open(paths[-1], "w", encoding="utf-8") as file:
            json.dump({**machine, "netdevs": [*machine["netdevs"], bridge]}, file)
    return ",".join(paths)


def build_shim(directory: str) -> str:
    """What alice puts into her own srun (shim.c)."""
    path = os.path.join(directory, "shim.so")
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, os.path.join(HERE, "shim.c"), "-ldl"], check=True)
    os.chmod(path, 0o755)
    return path
