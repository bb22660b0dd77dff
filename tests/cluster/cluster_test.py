# SPDX-License-Identifier: Apache-2.0
"""What the tests in a private Slurm share: a cluster for a test class, commands in it, and what they print."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import subprocess
import sys
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
CHECKOUT = os.path.dirname(os.path.dirname(HERE))
CLUSTER = os.path.join(HERE, "cluster")
PYTHON = "/usr/bin/python3"  # Debian's, which Debian's torch is for
TIME_LIMIT = 120  # seconds for one command in the cluster, and for its nodes to be idle after a test
TEST_LIMIT = 900  # seconds for one test; it hangs if it takes longer
OUT_OF_SERVICE = "drain|down|fail|unknown"

CONTRACT = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "NNODES", "MASTER_ADDR", "MASTER_PORT")


def build_directory() -> str:
    """The first argument of the test program, where that is a directory."""
    given = len(sys.argv) > 1 and os.path.isdir(sys.argv[1])
    return os.path.abspath(sys.argv[1]) if given else os.path.join(CHECKOUT, "build")


BUILD = build_directory()


@contextlib.contextmanager
def killed_on_failure(process: subprocess.Popen):
    """A test that fails while the process runs must not wait for it: what would end it does not come any more."""
    try:
        yield process
    except BaseException:
        process.kill()
        raise


class Cluster:
    """A private cluster for one test class; goes down with this process."""

    def __init__(self, *arguments: str):
        command = [CLUSTER, "up", "--owner", str(os.getpid()), "--plugin", os.path.join(BUILD, "rdma_nccl.so")]
        command += ["--bin", os.path.join(BUILD, "rdma-nccl"), "--bin", os.path.join(BUILD, "examples", "pi")]
        result = subprocess.run([*command, *arguments], text=True, capture_output=True, check=False, timeout=TEST_LIMIT)
        if result.returncode != 0:
            raise RuntimeError(result.stdout + result.stderr)
        self.dir = result.stdout.split()[0]

    def down(self) -> None:
        subprocess.run([CLUSTER, "down", "--dir", self.dir], check=True, timeout=TIME_LIMIT)

    def run(self, *command: str, user: str = "alice", node: str = "login", **variables: str):
        where = [CLUSTER, "exec", "--dir", self.dir, "--user", user, "--node", node, "--"]
        if variables:
            where += ["env", *(f"{name}={value}" for name, value in variables.items())]
        return subprocess.run(
            [*where, *command], text=True, capture_output=True, check=False, timeout=TIME_LIMIT, stdin=subprocess.DEVNULL
        )


class LimitedTest(unittest.TestCase):
    """A test that hangs says where, and what runs, and ends this program; its clusters go down with it."""

    def run(self, result=None):
        watch = threading.Timer(TEST_LIMIT, self.give_up)
        watch.daemon = True
        watch.start()
        try:
            return super().run(result)
        finally:
            watch.cancel()

    def give_up(self) -> None:
        try:
            print(f"\n{self.id()} has not ended after {TEST_LIMIT} s", file=sys.stderr)
            faulthandler.dump_traceback()
            print(self.what_runs(), file=sys.stderr, flush=True)
        finally:
            os._exit(1)

    def what_runs(self) -> str:
        processes = subprocess.run(["ps", "-eo", "pid,ppid,stat,wchan:20,etimes,args"], text=True, capture_output=True, check=False).stdout
        return "\n".join(line for line in processes.splitlines() if re.search("slurmstepd|slurmd|slurmctld|srun|salloc|sbatch", line))


class ClusterTest(LimitedTest):
    arguments: list[str] = []

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(*cls.arguments)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.down()

    def tearDown(self):
        """Whatever a test did, its jobs end, and no node may be drained or down: the next test finds the cluster idle."""
        end = time.monotonic() + TIME_LIMIT
        while (states := self.node_states()) != {"idle"} and not any(re.match(OUT_OF_SERVICE, state) for state in states):
            if time.monotonic() > end:
                break
            time.sleep(0.2)
        if states != {"idle"}:
            self.fail(f"the nodes are {', '.join(sorted(states))}:\n{self.what_runs()}")

    def node_states(self) -> set[str]:
        return set(self.cluster.run("sinfo", "--noheader", "--Node", "--Format=StateLong", user="root").stdout.split())

    def what_runs(self) -> str:
        logs = subprocess.run(["bash", "-c", f"tail -n 30 {self.cluster.dir}/log/*"], capture_output=True, check=False).stdout
        try:
            jobs = self.cluster.run("bash", "-c", "sinfo --Node --long; squeue; squeue --steps", user="root").stdout
        except subprocess.TimeoutExpired:
            jobs = "slurmctld does not answer"
        return "\n".join([jobs, super().what_runs(), logs.decode(errors="replace")])

    def good(self, *command: str, **options) -> str:
        result = self.cluster.run(*command, **options)
        self.assertEqual(result.returncode, 0, f"{command}:\n{result.stdout}{result.stderr}")
        return result.stdout

    def install_later(self, name: str, *machines: str) -> None:
        """The version of lib/NAME that others do not understand (tests/fake_release), as these machines see it; until the
        test ends."""
        self.replace(name, os.path.join(BUILD, "tests/fake_release", name), *machines)

    def replace(self, name: str, file: str, *machines: str) -> None:
        """FILE is lib/NAME, as these machines see it; until the test ends."""
        path = os.path.join(self.cluster.dir, "lib", name)
        for machine in machines:
            self.good("mount", "--bind", file, path, user="root", node=machine)
            self.addCleanup(self.good, "umount", path, user="root", node=machine)

    def ranks(self, output: str) -> list[dict[str, str]]:
        """Lines of A=B words, sorted by RANK where there is one."""
        lines = [dict(word.split("=", 1) for word in line.split()) for line in output.splitlines()]
        return sorted(lines, key=lambda line: int(line.get("RANK") or 0))


def show(*names: str) -> list[str]:
    """A command that prints these variables, and the host name as HOST, on one line."""
    text = " ".join(f"{name}=${{{name}-}}" for name in names)
    return ["bash", "-c", f"echo HOST=$(hostname) {text}"]


def main() -> None:
    if os.geteuid() != 0:
        print("needs root, for network namespaces")
        sys.exit(77)
    if len(sys.argv) > 1 and os.path.isdir(sys.argv[1]):
        del sys.argv[1]
    unittest.main(module="__main__")
