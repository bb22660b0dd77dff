#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Faults of `rdma-nccl run` in a real Slurm: usage: test_run.py BUILD_DIR [TEST...]. As root.

Every fault ends, or does not end, a step of two nodes with four ranks each. The tests look at srun's exit code, at what
is said, and for processes of the step that are still there; how long it took is printed at the end, and not judged.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

from cluster_test import CHECKOUT, CLUSTER, PYTHON, Cluster, ClusterTest, main

JOB = os.path.join(CHECKOUT, "tests", "hang", "fake-job")
MARK = "TEST_OF_RUN"
IDLE = "echo ready; exec sleep 1000"  # what a rank does that waits for a fault
PAUSE = 0.02  # seconds between two looks

# What a notice finds. Slurm signals the ranks too here (proctrack/linuxproc): one program heeds both signals, and saves
# its state until it may go; the other dies.
NOTICE = ("--on-signal", "TERM=USR1", "--max-restarts", "2", "--no-restart-code", "85")
WAITS = "while :; do read -rt 0.1 <> <(:); done"
SAVES = f"trap : TERM; trap 'echo saved; until [ -e $GO ]; do read -rt 0.1 <> <(:); done; exit 85' USR1; echo ready; {WAITS}"
DIES = f"trap 'echo saved' USR1; echo ready; {WAITS}"

TIME_LIMIT = 40  # seconds for anything to happen

clusters: list[Cluster] = []
times: list[tuple[str, object, float, float]] = []


def failing(rank: int, command: str) -> str:
    """A shell's words for ranks of which one does something else, once the test says so."""
    return f"[ $RANK != {rank} ] || {{ echo ready; until [ -e $GO ]; do sleep 0.02; done; {command}; }}; {IDLE}"


@dataclass(frozen=True)
class Process:
    """A process of a step. One with a rank is that rank's, or a descendant of it."""

    pid: int
    parent: int
    node: str
    name: str
    rank: int | None


def read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:  # it has just ended
        return b""


class Step:
    """srun in the cluster, its output in files; or what else starts a step. A batch job may write to $OUT and $ERR."""

    def __init__(self, test: RunTest, number: int, command: list[str], variables: dict[str, str]):
        self._test = test
        self._mark = f"{os.getpid()}-{number}"
        self._paths = [os.path.join(test.cluster.dir, f"step-{number}.{kind}") for kind in ("out", "err")]
        where = [CLUSTER, "exec", "--dir", test.cluster.dir, "--user", "alice", "--"]
        self._go = os.path.join(test.cluster.dir, f"step-{number}.go")
        variables = {MARK: self._mark, "GO": self._go, "OUT": self._paths[0], "ERR": self._paths[1], **variables}
        variables["TMPDIR"] = os.path.join(test.cluster.dir, "home", "alice")  # who is killed leaves files there
        where += ["env", *(f"{name}={value}" for name, value in variables.items())]
        with open(self._paths[0], "a", encoding="ascii") as out, open(self._paths[1], "a", encoding="ascii") as err:
            for path in self._paths:
                os.chmod(path, 0o666)
            self._srun = subprocess.Popen([*where, *command], stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        self._fault: float | None = None

    @property
    def out(self) -> str:
        return read(self._paths[0]).decode(errors="replace")

    @property
    def err(self) -> str:
        return read(self._paths[1]).decode(errors="replace")

    def processes(self, node: str | None = None) -> list[Process]:
        """On this node, or on all; those that only wait to be reaped have no environment any more."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            environment = read(f"/proc/{pid}/environ").split(b"\0")
            if f"{MARK}={self._mark}".encode() not in environment:
                continue
            try:
                where = self._test.nodes.get(os.readlink(f"/proc/{pid}/ns/uts"))
                name, fields = read(f"/proc/{pid}/stat").decode().split("(", 1)[1].rsplit(") ", 1)
            except (OSError, IndexError):
                continue
            if where is None or node not in (None, where):
                continue
            ranks = [int(value[5:]) for value in environment if value.startswith(b"RANK=")]
            found.append(Process(int(pid), int(fields.split()[1]), where, name, ranks[0] if ranks else None))
        return found

    def launchers(self, node: str) -> list[Process]:
        """The one that slurmstepd started, and its child, which does the work."""
        found = [process for process in self.processes(node) if process.name == "rdma-nccl" and process.rank is None]
        pids = {process.pid for process in found}
        return sorted(found, key=lambda process: process.parent in pids)

    def until(self, what: str, happened) -> None:
        deadline = time.monotonic() + TIME_LIMIT
        while not happened():
            if time.monotonic() > deadline:
                self._test.fail(f"{what}: not in {TIME_LIMIT} s\n{self.text()}")
            time.sleep(PAUSE)

    def until_said(self, pattern: str, count: int = 1, of_ranks: bool = True) -> None:
        def said() -> bool:
            if len(re.findall(pattern, self.out if of_ranks else self.err)) >= count:
                return True
            if self._srun.poll() is not None:
                self._test.fail(f"not said: {pattern}\n{self.text()}")
            return False

        self.until(f"{count} times {pattern}", said)

    def ready(self, ranks: int = 8) -> Step:
        self.until_said(r"\] ready\b", ranks)
        self.fault()
        return self

    def unmeasured(self) -> Step:
        self._fault = None
        return self

    def fault(self) -> None:
        """Now."""
        self._fault = time.monotonic()

    def joined(self) -> Step:
        """Ready, and the launchers have found each other: after 0.2 s at the latest where one came first."""
        self.ready()
        time.sleep(0.5)
        return self.ready()

    def go(self, ranks: int = 8) -> Step:
        """Once all ranks are there, the one that fails does so."""
        self.ready(ranks)
        with open(self._go, "w", encoding="ascii"):
            pass
        return self

    def text(self) -> str:
        left = "\n".join(map(str, self.processes()))
        return f"--- stdout\n{self.out}--- stderr\n{self.err}--- processes\n{left}"

    def kill(self, number: int, processes: list[Process]) -> None:
        self._test.assertTrue(processes, "nobody to be signalled")
        for process in processes:
            with contextlib.suppress(ProcessLookupError): # Slurm may have ended it meanwhile
                os.kill(process.pid, number)

    def interrupt(self) -> None:
        """Ctrl-C at srun."""
        self._srun.send_signal(signal.SIGINT)

    def gone(self, node: str | None = None) -> float:
        """Seconds from the fault until none of its processes is left there."""
        self.until("all processes are gone", lambda: not self.processes(node))
        return self.since_fault()

    def since_fault(self) -> float:
        return time.monotonic() - self._fault if self._fault else float("nan")

    def end(self, what: str, *codes: int) -> Step:
        """What must be so after any fault."""
        gone = self.gone() if self._fault else float("nan")
        try:
            ended = self._srun.wait(TIME_LIMIT)
        except subprocess.TimeoutExpired:
            self._test.fail(f"srun does not end\n{self.text()}")
        times.append((what, ended, gone, self.since_fault()))
        self.gone()
        self._test.assertIn(ended, codes, f"{what}\n{self.text()}")
        return self

    def says(self, *patterns: str) -> Step:
        for pattern in patterns:
            self._test.assertRegex(self.err, pattern)
        return self

    def abandon(self) -> None:
        for process in self.processes():
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if self._srun.poll() is None:
            self._srun.kill()
            self._srun.wait()


class RunTest(ClusterTest):
    arguments = ["--gpus", "4", "--names",
                 "--slurm-conf", "PreemptType=preempt/partition_prio", "--slurm-conf", "PreemptMode=CANCEL",
                 "--slurm-conf", "PartitionName=low Nodes=ALL PriorityTier=1 GraceTime=60 OverSubscribe=NO State=UP",
                 "--slurm-conf", "PartitionName=high Nodes=ALL PriorityTier=9 OverSubscribe=NO State=UP"]
    nodes: dict[str, str]  # by their UTS namespace
    numbers = iter(range(1, 1000))

    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.shared_cluster()
        names = ("n01", "n02")
        cls.nodes = {cls.cluster.run("readlink", "/proc/self/ns/uts", node=name).stdout.strip(): name for name in names}

    @classmethod
    def shared_cluster(cls) -> Cluster:
        """One for all classes; it goes down with this process."""
        if not clusters:
            clusters.append(Cluster(*cls.arguments))
        return clusters[0]

    @classmethod
    def tearDownClass(cls):
        pass

    def start(self, rank: str, *run: str, plugin: bool = True, srun: tuple[str, ...] = (), count: int = 4,
              launcher: tuple[str, ...] = (), **variables: str) -> Step:
        """Starts a step whose ranks are shells; `launcher`: what is put in front of the launcher."""
        command = ["srun", "-N2", "--ntasks-per-node=1", *(["--rdma-nccl"] if plugin else []), *srun]
        command += [*launcher, "rdma-nccl", "run", "--no-preflight", "-n", str(count), *run, "bash", "-c", rank]
        if not plugin:
            variables = {"RDMA_NCCL_TOKEN": secrets.token_hex(32), **variables}
        return self.step(*command, **variables)

    def step(self, *command: str, **variables: str) -> Step:
        step = Step(self, next(self.numbers), list(command), variables)
        self.addCleanup(step.abandon)
        return step

    def submit(self, script: str, *options: str) -> Step:
        """A batch job, which does not end before it is over."""
        submit = 'exec sbatch --parsable --wait --output="$OUT" --error="$ERR" --open-mode=append "$@"'
        return self.step("bash", "-c", submit, "-", *options, script)

    def both(self, rank: str, *run: str, **options) -> list[tuple[str, Step]]:
        """With and without the plugin."""
        return [(name, self.start(rank, *run, plugin=bool(name == "plugin"), **options)) for name in ("plugin", "plain")]

    def job_of(self, step: Step) -> str:
        return next(value[13:].decode() for value in read(f"/proc/{step.launchers('n01')[0].pid}/environ").split(b"\0")
                    if value.startswith(b"SLURM_JOB_ID="))

    def file(self, name: str, text: str) -> str:
        path = os.path.join(self.cluster.dir, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def on_node(self, node: str, *command: str) -> str:
        return self.good(*command, user="root", node=node)

    def died(self, step: Step, what: str) -> None:
        """Of a notice: no failure to start again after."""
        step.end(what, 128 + signal.SIGTERM, 128 + signal.SIGUSR1).says("failed first: killed by signal", "advice  ")
        self.assertNotIn("starting all ranks again", step.err)


class Ranks(RunTest):
    """A rank fails."""

    def test_exits_with_7(self):
        for name, step in self.both(failing(5, "echo oh no >&2; exit 7")):
            step.go().end(f"rank exits 7 ({name})", 7)
            step.says(r"(?m)^rdma-nccl: rank 5 \(local 1\) on n02 failed first: exited with code 7$", r"\| oh no")
            self.assertEqual(step.err.count("failed first"), 1, step.err)

    def test_segmentation_fault(self):
        for name, step in self.both(failing(2, "ulimit -c 0; kill -SEGV $$")):
            step.go().end(f"rank segfaults ({name})", 139)
            step.says(r"rank 2 \(local 2\) on n01 failed first: killed by signal 11 \(Segmentation fault\)")

    def test_a_daemon_that_a_rank_leaves_behind(self):
        step = self.start("(setsid bash -c 'trap \"\" HUP; echo ready; sleep 1000' &); sleep 0.3").ready()
        step.end("ranks fork daemons and end", 0).says(r"n02: ending \d+ processes that the ranks left behind")
        step = self.start("(setsid bash -c 'trap \"\" TERM HUP; sleep 1000' &); " + failing(5, "exit 9"),
                          "--shutdown-timeout", "1")
        step.go().end("rank exits 9, daemons ignore TERM, grace 1 s", 9).says("rank 5 .* exited with code 9")

    def test_fork_bomb(self):
        bomb = "trap '' TERM; bomb() { bomb | bomb & sleep 1000; }; bomb 2>/dev/null"
        step = self.start(failing(6, "bash -c \"$BOMB\" & sleep 1; exit 3"), "--shutdown-timeout", "1",
                          launcher=("bash", "-c", "ulimit -u 300; exec \"$@\"", "-"), BOMB=bomb)
        step.go().end("fork bomb at ulimit -u", 3).says("rank 6 .* failed first: exited with code 3")

    def test_error_file_and_report_file(self):
        error = {"message": {"message": "ValueError: too cold", "extraInfo": {
            "py_callstack": "Traceback (most recent call last):\n  File \"train.py\", line 3, in main\nValueError: too cold\n",
            "timestamp": "1700000000"}}}
        rank = failing(7, f"echo '{json.dumps(error)}' > $TORCHELASTIC_ERROR_FILE; exit 1")
        report = os.path.join(self.cluster.dir, "home/alice/report.json")
        self.start(rank, "--json", report).go().end("rank writes error.json", 1).says(
            r"rank 7 \(local 3\) on n02 failed first", "error +ValueError: too cold", "line 3, in main")
        with open(report, encoding="utf-8") as file:
            told = json.load(file)
        self.assertIn("too cold", json.dumps(told))
        self.assertIn('"rank": 7', json.dumps(told))
        self.assertIn('"n02"', json.dumps(told))


class Programs(RunTest):
    """Several programs in one world."""

    def folder(self) -> str:
        folder = os.path.join(self.cluster.dir, "programs")
        os.makedirs(folder, exist_ok=True)
        for name in ("learner", "actor"):
            path = self.file(f"programs/{name}", f'#!/bin/bash\necho "{name} of $RANK: $*."\n')
            os.chmod(path, 0o755)
        return folder

    def ran(self, step: Step) -> list[str]:
        return sorted(re.findall(r"\w+ of \d: .*", step.out))

    def test_the_manuals_example(self):
        with open(os.path.join(CHECKOUT, "doc", "rdma-nccl-run.1"), encoding="utf-8") as file:
            example = re.search(r"^srun .*\n.*run --rank 0-7 .*", file.read(), re.M)[0].replace("\\e\n", "")
        for typed, here in (("-N4", "-N2"), ("=8", "=4"), ("0-7", "0-3")):  # two nodes of four GPUs
            self.assertIn(typed, example)
            example = example.replace(typed, here)
        step = self.step("bash", "-c", f"cd {self.folder()} && {example}")
        step.end("the manual's example of several programs", 0)
        self.assertEqual(self.ran(step), [*(f"actor of {rank}: --seed 1." for rank in range(4, 8)),
                                          *(f"learner of {rank}: ." for rank in range(4))], step.text())

    def test_colons(self):
        run = "rdma-nccl run -n 4 --rank 0-3 ./learner"
        for words in (f"{run} :: 'a : b' --and ./actor", f"bash -c \"{run} :: 'a : b' : ./actor\""):
            step = self.step("bash", "-c", f"cd {self.folder()} && srun --rdma-nccl -N2 --ntasks-per-node=1 {words}")
            step.end("colons in arguments", 0)
            self.assertEqual(self.ran(step), [*(f"actor of {rank}: ." for rank in range(4, 8)),
                                              *(f"learner of {rank}: : a : b." for rank in range(4))], step.text())

    def test_a_colon_that_srun_takes(self):
        run = "rdma-nccl run -n 4 --rank 0-1 ./learner : ./actor"
        step = self.step("bash", "-c", f"cd {self.folder()} && srun -N1 --ntasks-per-node=1 {run}")
        step.end("srun takes the colon", 2).says("have no program", "--and PROGRAM", 'srun takes a word ":"')


class Launchers(RunTest):
    """What runs the ranks fails."""

    def test_killed_launcher(self):
        for node in ("n02", "n01"):
            for which, victims in (("guard", [0]), ("worker", [1]), ("guard and worker", [0, 1])):
                step = self.start(IDLE).joined()
                there = step.launchers(node)
                self.assertEqual(len(there), 2, there)
                step.kill(signal.SIGKILL, [there[victim] for victim in victims])
                step.end(f"launcher of {node} SIGKILLed ({which})", 137)

    def test_killed_slurmstepd(self):
        for name, step in self.both(IDLE, srun=("--kill-on-bad-exit=1",)):
            job = self.job_of(step.joined())
            os.kill(step.launchers("n02")[0].parent, signal.SIGKILL)
            elapsed = step.gone()
            # Slurm itself waits for tasks of a slurmstepd that is gone.
            self.good("scancel", job, user="root")
            step.end(f"slurmstepd of n02 SIGKILLed ({name}): {elapsed:.2f} s", 0, 1, 137, 143).says("n02.* is lost")

    def test_paused_node(self):
        step = self.start(IDLE, "--node-timeout", "2", srun=("--kill-on-bad-exit=1",)).joined()
        step.kill(signal.SIGSTOP, step.processes("n02"))
        # srun sends SIGTERM, and SIGCONT, to what is there.
        step.end("n02 paused, srun -K, --node-timeout 2", 1, 143).says(r"node n02 \(node rank 1\) is lost: nothing heard from it for 2 s")

    def test_paused_node_that_goes_on(self):
        step = self.start(IDLE, "--node-timeout", "2").joined()
        paused = step.processes("n02")
        step.kill(signal.SIGSTOP, paused)
        step.until("n01 has ended", lambda: not step.processes("n01"))
        step.kill(signal.SIGCONT, paused)
        step.end("n02 paused, goes on later, --node-timeout 2", 1).says(r"node n02 .* is lost: nothing heard")

    def test_a_short_pause_is_no_loss(self):
        step = self.start("echo ready; sleep 3", "--node-timeout", "4").joined()
        paused = step.processes("n02")
        step.kill(signal.SIGSTOP, paused)
        time.sleep(1)
        step.kill(signal.SIGCONT, paused)
        step.end("n02 paused for 1 s, --node-timeout 4", 0)

    def test_a_node_that_is_late(self):
        late = ("bash", "-c", "[ $SLURM_NODEID = 0 ] || sleep 3; exec \"$@\"", "-")
        for name, step in self.both("echo ready; sleep 0.5", launcher=late):
            step.ready().end(f"n02 comes 3 s late ({name})", 0)
            self.assertNotIn("did not connect", step.err)
        step = self.start("[ $RANK != 1 ] || exit 4; " + IDLE, launcher=late)
        step.end("rank of n01 exits 4 before n02 is there", 4).says("rank 1 .* exited with code 4")


class Signals(RunTest):
    COUNTS = "trap 'echo got USR1' USR1; trap 'echo got TERM; exit 0' TERM; echo ready; while :; do read -rt 0.1 <> <(:); done"

    def until_all_got(self, step: Step, name: str) -> None:
        step.until_said(f"got {name}", 8)
        time.sleep(0.5)
        self.assertEqual(step.out.count(f"got {name}"), 8, step.text())

    def test_scancel(self):
        step = self.start(self.COUNTS).joined()
        self.good("scancel", self.job_of(step))
        step.end("scancel", 143)
        self.assertEqual(step.out.count("got TERM"), 8, step.text())

    def test_scancel_signal(self):
        step = self.start(self.COUNTS).joined()
        self.good("scancel", "--signal=USR1", self.job_of(step))
        self.until_all_got(step, "USR1")
        self.assertEqual(len(step.launchers("n01") + step.launchers("n02")), 4)
        self.good("scancel", self.job_of(step))
        step.end("scancel --signal=USR1, then scancel", 143)

    def test_notice_on_one_node_reaches_all(self):
        for node in ("n01", "n02"):
            step = self.start(self.COUNTS).joined()
            step.kill(signal.SIGUSR1, step.launchers(node)[:1])
            self.until_all_got(step, "USR1")
            step.kill(signal.SIGTERM, step.launchers(node)[:1])
            step.end(f"USR1, then TERM to the launcher of {node}", 143)

    def test_on_signal(self):
        step = self.start(self.COUNTS, "--on-signal", "TERM=USR1").joined()
        step.kill(signal.SIGTERM, step.launchers("n02")[:1])
        self.until_all_got(step, "USR1")
        step.kill(signal.SIGINT, step.launchers("n02")[:1])
        step.end("--on-signal TERM=USR1, then INT", 130)

    def saved(self, step: Step, what: str) -> None:
        step.until_said(r"\] saved\b", 8)
        step.go().end(what, 85)
        self.assertNotIn("starting all ranks again", step.err)

    def test_notice_by_scancel(self):
        for name, rank, ended in (("TERM", SAVES, self.saved), ("TERM", DIES, self.died),
                                  ("USR1", SAVES, self.saved), ("USR1", IDLE, self.died)):
            step = self.start(rank, *NOTICE).joined()
            self.good("scancel", f"--signal={name}", self.job_of(step))
            ended(step, f"notice: scancel --signal={name}")

    def test_notice_of_a_preemption(self):
        for rank, ended in ((SAVES, self.saved), (DIES, self.died)):
            step = self.start(rank, *NOTICE, srun=("--partition=low", "--exclusive")).joined()
            other = self.step("srun", "--partition=high", "--exclusive", "-N2", "true")
            ended(step, "notice: pre-emption")
            other.end("the job that pre-empts", 0)

    def test_requeue_script(self):
        train = """
import os, signal, sys, time
told = []
for number in (signal.SIGUSR1, signal.SIGTERM):
    signal.signal(number, lambda *which: told.append(which))
print("ready", flush=True)
while not told:
    time.sleep(0.02)
for number in (signal.SIGUSR1, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN) # it may come once more while Python ends, when it has no handlers
print("saved", flush=True)
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.02)
sys.exit(85)
"""
        os.makedirs(os.path.join(self.cluster.dir, "requeue"), exist_ok=True)
        folder = os.path.dirname(self.file("requeue/train.py", train))
        for name in ("TERM", "USR1"):
            step = self.submit(os.path.join(CHECKOUT, "etc/sbatch/requeue.sbatch"), "--gpus-per-node=4", "--cpus-per-task=4",
                               f"--chdir={folder}").joined()
            job = self.job_of(step)
            self.good("scancel", f"--signal={name}", job)
            step.until_said(r"\] saved\b", 8)
            step.go()
            step.until("requeued", lambda: "Restarts=1" in self.good("scontrol", "show", "job", job)) # pylint: disable=cell-var-from-loop
            self.good("scancel", job)
            self.assertNotIn("starting all ranks again", step.err)
            step.gone()

    def test_interrupted_srun(self):
        step = self.start("trap 'echo got INT; exit 0' INT; echo ready; while :; do read -rt 0.1 <> <(:); done",
                          srun=("--quit-on-interrupt",)).ready()
        step.interrupt()
        # srun sends INT, and may send KILL right after it ("forcing job termination").
        step.end("Ctrl-C at srun --quit-on-interrupt", 130, 137)
        self.assertLessEqual(step.out.count("got INT"), 8, step.text())


class Restarts(RunTest):
    # The ranks meet at MASTER_PORT, as torch's do; rank 5 fails in the first attempt, once the test says so.
    MEET = """
import os, socket, sys, time
env = os.environ
rank, attempt, port = int(env["RANK"]), int(env["TORCHELASTIC_RESTART_COUNT"]), int(env["MASTER_PORT"])
if rank == 0:
    listener = socket.create_server((env["MASTER_ADDR"], port))
    others = [listener.accept()[0] for _ in range(7)]
else:
    end = time.monotonic() + 30
    while True:
        try:
            store = socket.create_connection((env["MASTER_ADDR"], port), 5)
            break
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
print("ready" if attempt == 0 else "met", attempt, port, flush=True)
while attempt == 0:
    if rank == 5 and os.path.exists(env["GO"]):
        sys.exit(6)
    time.sleep(0.02)
"""
    LISTEN = """
import socket, sys
listeners = []
for port in sys.argv[1:]:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("", int(port)))
    listener.listen()
    listeners.append(listener)
print("ready", flush=True)
sys.stdin.read()
"""

    def meet(self, *run: str, **options) -> Step:
        program = self.file("meet.py", self.MEET)
        return self.start(f"exec {PYTHON} -u {program}", "--max-restarts", "1", *run, **options)

    def ports(self, step: Step, word: str) -> list[int]:
        ports = re.findall(rf"\] {word} \d (\d+)", step.out)
        self.assertEqual((len(ports), len(set(ports))), (8, 1), step.text())
        return [int(ports[0])]

    def test_all_ranks_start_again(self):
        for name in ("plugin", "plain"):  # not at once: the port of the one may be the next one of the other
            step = self.meet(plugin=name == "plugin")
            step.go().end(f"rank exits 6, --max-restarts 1 ({name})", 0).says(r"starting all ranks again \(1 of 1 restarts\), port \d+")
            self.assertNotEqual(self.ports(step, "ready"), self.ports(step, "met"))

    def test_a_port_that_was_taken_meanwhile(self):
        # Of a port that Slurm reserved, the next ones may be other steps'; of one that is given, they are the block.
        step = self.meet("--master-port", "23470").ready()
        first = self.ports(step, "ready")[0]
        self.assertEqual(first, 23470)
        where = [CLUSTER, "exec", "--dir", self.cluster.dir, "--user", "bob", "--node", "n01", "--"]
        taker = subprocess.Popen([*where, PYTHON, "-c", self.LISTEN, str(first + 2)], text=True,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            self.assertEqual(taker.stdout.readline(), "ready\n")
            step.go().end("next port taken between restarts", 0)
            self.assertNotIn(self.ports(step, "met")[0], (first + 2, 0))
        finally:
            taker.communicate()

    def test_no_more_restarts(self):
        step = self.start("[ $RANK != 3 ] || exit $((40 + TORCHELASTIC_RESTART_COUNT)); " + IDLE, "--max-restarts", "2")
        step.end("rank fails in all 3 attempts", 42).says(r"rank 3 .* failed first: exited with code 42", "attempt 3 of 3")


class Output(RunTest):
    def test_closed_stdout(self):
        step = self.start("echo ready; sleep 0.3; echo more; exit 5", launcher=("bash", "-c", "exec \"$@\" >&-", "-"))
        step.end("stdout closed", 5).says("exited with code 5")

    def test_reader_of_stdout_is_gone(self):
        reader = ("bash", "-o", "pipefail", "-c", "\"$@\" | head -n 1", "-")
        # As in a shell's pipe: the ranks get SIGPIPE, which Slurm 26.05 has its tasks ignore.
        # One line from each node, which ends its reader: only then the ranks write more.
        first = "[ $LOCAL_RANK != 0 ] || echo ready"
        lines = f"{first}; until [ -e $GO ]; do sleep 0.02; done; exec yes"
        step = self.start(f"exec env --default-signal=PIPE bash -c '{lines}'", launcher=reader)
        step.go(2)
        step.end("reader of stdout goes away", 141).says("stdout is closed", r"failed first: killed by signal 13 \(Broken pipe\)")
        self.assertEqual(re.findall(r"(?m)\] (.*)$", step.out), ["ready"] * 2, step.text())

    def test_full_log_disk(self):
        logs = os.path.join(self.cluster.dir, "home/alice/logs")
        self.good("mkdir", "-p", logs)
        self.on_node("n02", "mount", "-t", "tmpfs", "-o", "size=64k,mode=1777", "none", logs)
        try:
            step = self.start("echo ready; head -c 300000 /dev/zero | tr '\\0' x | fold -w 99; echo; echo the end", "--log-dir", logs, "-t", "3")
            step.end("log disk of n02 full", 0).says(r"warning: n02: cannot write .*: No space left on device")
            self.assertEqual(step.out.count("] the end"), 8, step.err)
        finally:
            self.on_node("n02", "umount", "-l", logs)


class Hangs(RunTest):
    def test_hang_is_told_and_ended(self):
        step = self.start("echo ready; exec sleep 1000", "--hang-timeout", "3", "--hang-action", "kill")
        step.ready().end("hang, --hang-timeout 3 --hang-action kill", 1)
        step.says("the job hangs: nothing has moved on any node for", "rank 0 on n01, pid", "rank 4 on n02, pid")
        if os.path.exists("/usr/bin/gdb"):
            step.says("nanosleep")

    def play(self, case: str, *run: str, **variables: str) -> Step:
        """A job whose NCCL is emulated."""
        return self.start(f"echo ready; exec {PYTHON} {JOB} {case}", *run, **variables).ready()

    def test_the_rank_that_lags_is_named(self):
        step = self.play("leaves", "--hang-timeout", "3", "--hang-action", "kill")
        step.end("rank 7 leaves an all-reduce", 1)
        step.says(r"rank 7 on n02 has not entered all-reduce 5 of communicator 0x9d1c7e0b5a \(7 of 8 ranks wait 3 s\); "
                  r"pid \d+: state S \(sleeping\)")

    def test_the_rank_that_lags_is_named_by_hand(self):
        step = self.play("leaves", "--hang-timeout", "1000")
        job = self.job_of(step)
        ask = ("srun", "--overlap", f"--jobid={job}", "-N1", "-n1", "rdma-nccl", "hang", "--step", f"{job}.0", "--interval", "0.2")
        said: list[str] = []

        def is_named() -> bool:
            said.append(self.cluster.run(*ask).stdout)
            return bool(re.match(r"communicator rank 7 \(pid \d+ on \S+\) has not entered all-reduce 5 of", said[-1]))

        step.until("rank 7 is named", is_named)
        self.good("scancel", job)
        step.unmeasured().gone()

    def test_a_job_that_is_only_slow_goes_on(self):
        step = self.play("healthy 40", "--hang-timeout", "3", "--hang-action", "kill", FAKE_STEP_SECONDS="0.35")
        step.end("a slow job, --hang-timeout 3", 0).says(r"nothing has moved on any node for \d+ s\n +NCCL's RAS: NCCL's collectives move on")
        self.assertNotIn("hangs", step.err)


class MemoryTest(RunTest):
    """With a rank that takes more memory than its cgroup may have."""

    LIMIT = 200 << 20
    EAT = f"exec {PYTHON} -c 'x = [bytearray(1 << 20) for _ in range(1000)]'"

    def new_group(self) -> str:
        """A memory cgroup of alice's with a limit, of version 1 or 2; none can be made: the test is left out."""
        for top, limit in (("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")):
            group = os.path.join(top, f"rdma-nccl-test-{os.getpid()}")
            try:
                os.mkdir(group)
            except OSError:
                continue
            self.addCleanup(os.rmdir, group)
            if os.path.exists(os.path.join(group, limit)):
                with open(os.path.join(group, limit), "w", encoding="ascii") as file:
                    file.write(str(self.LIMIT))
                os.chmod(os.path.join(group, "cgroup.procs"), 0o666)
                return group
        self.skipTest("no cgroup with a limit of memory can be made here")

    def moved_to(self, group: str) -> tuple[str, ...]:
        """What is put in front of the launcher: that of n02 goes into the group."""
        return ("bash", "-c", f"[ $SLURM_NODEID = 0 ] || echo $$ > {group}/cgroup.procs; exec \"$@\"", "-")


class Memory(MemoryTest):
    def test_out_of_memory(self):
        step = self.start(failing(6, self.EAT), launcher=self.moved_to(self.new_group())).go()
        step.end("rank killed for want of memory", 137)
        step.says(r"rank 6 \(local 2\) on n02 failed first: killed by signal 9 \(Killed\), out of memory in its cgroup", "give the job more memory")


class Cut(RunTest):
    """A node without its network; in a cluster of its own, as it has fewer routes afterwards."""

    @classmethod
    def shared_cluster(cls) -> Cluster:
        return Cluster(*cls.arguments)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.down()

    def devices(self, node: str, state: str) -> None:
        self.on_node(node, "bash", "-c", f"for d in $(ip -o link | sed 's/^[0-9]*: //; s/[@:].*//'); do [ $d = lo ] || ip link set $d {state}; done")

    def test_network_cut(self):
        step = self.start(IDLE, "--node-timeout", "2").joined()
        step.fault()
        self.devices("n02", "down")
        gone = step.gone()
        self.devices("n02", "up")
        step.end(f"network of n02 cut, --node-timeout 2: {gone:.2f} s", 1)
        step.says(r"node n02 \(node rank 1\) is lost: nothing heard from it for 2 s")


class TimeLimit(RunTest):
    """Slurm looks at limits of time twice a minute: so these begin first and, by their class's name, end last."""

    RANK = "trap 'echo got TERM; exit 0' TERM; echo ready; while :; do read -rt 0.1 <> <(:); done"
    begun: dict[str, Step] = {}

    def batch(self, name: str, on_signal: str) -> Step:
        """Slurm signals the script alone, which passes it on."""
        run = ["rdma-nccl", "run", "--no-preflight", "-n", "4", *NOTICE, "bash", "-c", SAVES]
        script = self.file(f"notice-{name}.sh", "\n".join([
            "#!/bin/bash", f"trap '{on_signal}' {name}", f"srun --rdma-nccl {shlex.join(run)} &", "step=$!",
            "wait $step", "wait $step", ""]))  # the trap ends the first
        return self.submit(script, "-N2", "--ntasks-per-node=1", f"--signal=B:{name}@60")

    def begin(self) -> None:
        saves = (SAVES, *NOTICE)
        self.begun.update({
            "time limit": self.start(self.RANK),
            "notice: time limit": self.start(*saves),
            "notice: --signal=TERM@60": self.start(*saves, srun=("--signal=TERM@60",)),
            "notice: --signal=TERM@60, ranks die": self.start(DIES, *NOTICE, srun=("--signal=TERM@60",)),
            "notice: --signal=B:TERM@60": self.batch("TERM", "scancel --signal=TERM $SLURM_JOB_ID"),
            "notice: --signal=B:USR1@60": self.batch("USR1", "kill -USR1 $step")})
        for step in self.begun.values():
            step.go()
        self._cleanups.clear()  # they live on
        for name, step in self.begun.items():
            # The signal is due 60 to 90 seconds before the end. An end in the past is refused by Slurm 26.05.
            end = "now+80" if "--signal" in name else "now+5"
            self.good("scontrol", "update", f"jobid={self.job_of(step)}", f"EndTime={end}", user="root")

    def step_of(self, name: str) -> Step:
        step = self.begun[name].unmeasured()
        self.addCleanup(step.abandon)
        return step

    def test_notices(self):
        for name in self.begun:
            step = self.step_of(name)
            if name.endswith("die"):
                self.died(step, name)
            elif name.startswith("notice"):
                # At the limit itself, Slurm signals twice, and kills whoever is still there after KillWait, 2 s here.
                step.end(name, 85, *([137] if name.endswith("limit") else []))
                self.assertEqual(len(set(re.findall(r"\[(n\d+ \d)\] saved\b", step.out))), 8, step.text())
                self.assertNotIn("starting all ranks again", step.err)

    def test_time_limit(self):
        step = self.step_of("time limit")
        step.end("time limit", 143).says("DUE TO TIME LIMIT")
        # Some may get it twice: Slurm signals the ranks as well as the launchers here.
        told = set(re.findall(r"\[(n\d+ \d)\] got TERM", step.out))
        self.assertEqual(len(told), 8, step.text())


def setUpModule() -> None:  # pylint: disable=invalid-name
    if len(sys.argv) < 2 or any(name.startswith("TimeLimit") for name in sys.argv[1:]):
        TimeLimit.setUpClass()
        TimeLimit("test_time_limit").begin()


def run() -> None:
    try:
        main()
    finally:
        print("\nfault: exit code, seconds to the last process, seconds to srun's end")
        for what, code, gone, ended in times:
            print(f"{what:60} {code:>4} {gone:6.2f} {ended:6.2f}")


if __name__ == "__main__":
    run()
