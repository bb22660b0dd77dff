#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks and launchers in containers: usage: test_container.py BUILD_DIR [TEST...]. As root.

A container is a set of new namespaces: by unshare(1) in front of a rank or of the launcher, as with Apptainer and
bubblewrap, or by tests/fake_container, which emulates pyxis."""

from __future__ import annotations

import os
import re
import unittest

import test_run
from cluster_test import BUILD, PYTHON
from test_run import RunTest, failing

# New user, PID and mount namespaces, and /proc of the PID namespace.
CONTAINER = ("unshare", "--user", "--map-current-user", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc")
SLEEP = "echo ready $$; exec sleep 1000"
HANG = ("--root", "/", "--hang-timeout", "10", "--hang-action", "kill", "--shutdown-timeout", "1")
LOCK = """
import ctypes, mmap, sys
libc = ctypes.CDLL(None, use_errno=True)
size = 4 << 20
memory = mmap.mmap(-1, size)
locked = libc.mlock(ctypes.byref(ctypes.c_char.from_buffer(memory)), ctypes.c_size_t(size)) == 0
print("locked" if locked else "refused", flush=True)
"""


class ContainerTest(test_run.MemoryTest):
    arguments = [*RunTest.arguments, "--real-cpus"]
    image: str

    @classmethod
    def setUpClass(cls):
        first = not test_run.clusters
        super().setUpClass()
        cls.image = f"{cls.cluster.dir}/image"
        if first:
            cls.load_container_plugin()
            for node in ("n01", "n02"):
                cls.make_image(node)

    @classmethod
    def load_container_plugin(cls) -> None:
        conf = f"{cls.cluster.dir}/etc/plugstack.conf"  # read for each step
        with open(conf, encoding="utf-8") as file:
            ours = file.read()
        with open(conf, "w", encoding="utf-8") as file:
            file.write(f"required {BUILD}/tests/fake_container.so\n{ours}")

    @classmethod
    def make_image(cls, node: str) -> None:
        """The machine's own programs, seen from another root directory; with the cluster's folder, which may be in /tmp."""
        script = f"""
        mkdir -p {cls.image}/usr {cls.image}/etc {cls.image}/proc {cls.image}/sys {cls.image}/dev {cls.image}/tmp
        mkdir -p {cls.image}{cls.cluster.dir}
        for folder in bin lib lib64 sbin; do ln -sfn usr/$folder {cls.image}/$folder; done
        for folder in /usr /etc {cls.cluster.dir}; do mount --bind $folder {cls.image}$folder; done
        """
        done = cls.cluster.run("bash", "-ec", script, user="root", node=node)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)

    def srun(self, *words: str, status: int = 0, **variables: str) -> list[str]:
        """The lines of its stdout, sorted, without the ranks' prefixes; self.messages has its stderr."""
        done = self.cluster.run("srun", *words, **variables)
        self.messages = done.stderr
        self.assertEqual(done.returncode, status, f"{words}\n{done.stdout}{done.stderr}")
        return sorted(line[line.startswith("[") and line.find("] ") + 2:] for line in done.stdout.splitlines())

    def run_in(self, before: tuple[str, ...], run: tuple[str, ...], rank: tuple[str, ...], **options) -> test_run.Step:
        """A step of two nodes with two ranks each; `before`: in front of the launcher."""
        return self.step("srun", "-N2", "--ntasks-per-node=1", "--rdma-nccl", *before, "rdma-nccl", "run", "--no-preflight",
                         "-n", "2", *run, *rank, **options)


class Hangs(ContainerTest):
    """The process that is named is the one that hangs, by its number where the launcher is."""

    STATE = r"state S \(sleeping\), 1 threads"

    def test_of_ranks_in_containers(self):
        step = self.run_in((), HANG, (*CONTAINER, "bash", "-c", SLEEP)).ready(4)

        def asleep() -> list:
            return [process for process in step.processes() if process.name == "sleep"]

        step.until("4 ranks sleep", lambda: len(asleep()) == 4)
        sleeping = asleep()
        numbers = {process.rank: self.number_on_node(process.pid) for process in sleeping}
        starters = {process.rank: self.number_on_node(process.parent) for process in sleeping}
        step.end("ranks in containers hang", 1, 137)
        for rank in range(4):
            node = f"n0{1 + rank // 2}"
            step.says(f"rank {rank} on {node}, pid {numbers[rank]} in the container of {starters[rank]}: {self.STATE}")

    def number_on_node(self, pid: int) -> str:
        """The nodes have PID namespaces of their own, the containers further ones."""
        of_test = len(self.namespaced("self"))
        return self.namespaced(str(pid))[of_test]

    def namespaced(self, pid: str) -> list[str]:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
            return next(line.split()[1:] for line in status if line.startswith("NSpid:"))

    def test_of_launchers_in_containers(self):
        step = self.run_in(CONTAINER, HANG, ("bash", "-c", SLEEP)).ready(4)
        own = re.findall(r"ready (\d+)", step.out)
        step.end("launchers in containers, ranks hang", 1)
        told = re.findall(rf"rank \d on n0[12], pid (\d+): {self.STATE}", step.err)
        self.assertEqual(sorted(told), sorted(own), step.text())


class OutOfMemory(ContainerTest):
    """The cgroup tells of it, whatever PID namespace the rank lives in."""

    # A program that is process 1 of its PID namespace ignores SIGTERM.
    RUN = ("--shutdown-timeout", "1")
    # unshare(1) ends with 1 where it cannot end by its program's signal.
    SAID = (r"rank 3 \(local 1\) on n02 failed first: (killed by signal 9 \(Killed\), out of memory"
            r"|exited with code 1, after the kernel killed for want of memory) in its cgroup")

    def test_of_a_rank_in_a_container(self):
        rank = (*CONTAINER, "bash", "-c", failing(3, self.EAT))
        step = self.run_in(self.moved_to(self.new_group()), self.RUN, rank).go(4)
        step.end("rank in a container killed for want of memory", 1, 137).says(self.SAID)

    def test_of_a_launcher_in_a_container(self):
        before = (*self.moved_to(self.new_group()), *CONTAINER)
        step = self.run_in(before, self.RUN, ("bash", "-c", failing(3, self.EAT))).go(4)
        step.end("launcher in a container, rank killed for want of memory", 137).says(self.SAID)


class Limits(ContainerTest):
    """memlock=raise: limits stay when a task enters namespaces."""

    def lock(self, *before: str) -> list[str]:
        srun = ("srun", "-N1", "--propagate=MEMLOCK", "--rdma-nccl=verbose=0", *before, PYTHON, "-c", LOCK)
        done = self.cluster.run("bash", "-c", "ulimit -l 64; exec \"$@\"", "-", *srun)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split()

    def test_memlock(self):
        conf = f"{self.cluster.dir}/etc/plugstack.conf"
        containers = ((), CONTAINER, (f"--container-image={self.image}",), (f"--container-image={self.image}", *CONTAINER))
        for before in containers:
            self.assertEqual(self.lock(*before), ["refused"], before)
        with open(conf, encoding="utf-8") as file:
            text = file.read()
        self.addCleanup(self.write, conf, text)
        self.write(conf, text.replace("memlock=ignore", "memlock=raise"))
        for before in containers:
            self.assertEqual(self.lock(*before), ["locked"], before)

    def write(self, path: str, text: str) -> None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


@unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "needs two CPUs")
class Binding(ContainerTest):
    """CPUs and GPUs of a rank in namespaces are those that it has without."""

    SHOW = "echo $RANK $LOCAL_RANK $CUDA_VISIBLE_DEVICES $NCCL_IB_HCA $(grep Cpus_allowed_list /proc/self/status)"
    STEP = ("-N1", "-c2", "--cpu-bind=none", "--gpus-per-node=2", "--rdma-nccl=verbose=0")
    RUN = ("rdma-nccl", "run", "--no-preflight", "--root", "/", "-n", "2", "--bind", "cpu")

    def test_by_the_launcher(self):
        plain = self.srun(*self.STEP, *self.RUN, "bash", "-c", self.SHOW)
        self.assertEqual(len({line.split()[-1] for line in plain}), 2, plain)
        for what, words in (
            ("ranks in containers", (*self.RUN, *CONTAINER)),
            ("a launcher in a container", (*CONTAINER, *self.RUN)),
            ("a launcher in an image", (f"--container-image={self.image}", *self.RUN)),
        ):
            with self.subTest(what):
                self.assertEqual(self.srun(*self.STEP, *words, "bash", "-c", self.SHOW), plain, self.messages)
                self.assertNotIn("not bound", self.messages)

    def test_of_tasks(self):
        step = ("-N1", "-n2", "--cpu-bind=none", "--gpus-per-node=2", "--rdma-nccl=verbose=0")
        plain = self.srun(*step, "bash", "-c", self.SHOW)
        for before in (CONTAINER, (f"--container-image={self.image}",)):
            self.assertEqual(self.srun(*step, *before, "bash", "-c", self.SHOW), plain, self.messages)


class Networks(ContainerTest):
    def test_without_the_interfaces(self):
        """What the plugin says of a container with a network namespace of its own."""
        image = f"--container-image={self.image}"
        self.srun("-N2", "--rdma-nccl", image, "--container-unshare=net", "true")
        for node in ("n01", "n02"):
            self.assertIn(f"{node}: warning: the container's network lacks interfaces (eth1, ", self.messages)
        self.srun("-N2", "--rdma-nccl", image, "true")
        self.assertNotIn("lacks interfaces", self.messages)


class ByVariable(ContainerTest):
    """PYXIS_CONTAINER_IMAGE names an image as the option does."""

    def test_what_it_lacks(self):
        out = self.srun("-N1", "--rdma-nccl", "ls", "/", PYXIS_CONTAINER_IMAGE=self.image)
        self.assertNotIn("root", out)
        self.assertIn("n01: warning: the container's /sys/class/infiniband lacks HCAs", self.messages)

    def test_logs_for_the_verdict(self):
        """verify=full: where a container has them, too; where there is none, in /tmp as ever."""
        show = ("--rdma-nccl=verify=full", "bash", "-c", "echo ${NCCL_DEBUG_FILE%/rdma-nccl-*}")
        self.assertEqual(self.srun("-N2", *show), ["/tmp"] * 2, self.messages)
        self.assertEqual(self.srun("-N2", *show, PYXIS_CONTAINER_IMAGE=self.image), ["/dev/shm"] * 2, self.messages)
        self.assertEqual(self.srun("-N2", f"--container-image={self.image}", *show), ["/dev/shm"] * 2, self.messages)


if __name__ == "__main__":
    test_run.run()
