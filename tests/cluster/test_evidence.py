#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether RDMA was used, as srun says it at the end of a step, in a real Slurm on machines whose counters are emulated:
usage: test_evidence.py BUILD_DIR [TEST...]. As root."""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from cluster_test import CHECKOUT, CLUSTER, TIME_LIMIT, ClusterTest, killed_on_failure, main

MOVE = os.path.join(CHECKOUT, "tests", "data", "move-traffic")
LOGS = os.path.join(CHECKOUT, "tests", "data", "nccl-logs")
GIB = 1 << 30
RAILS = [f"mlx5_{n}:1" for n in range(1, 9)]

# Each task says that it runs, and waits until it may end.
WAIT = 'touch "$1/started.$SLURM_PROCID"; until [ -e "$1/go" ]; do sleep 0.05; done; '
STEP_DIRECTORIES = "/tmp/rdma-nccl-[0-9]*.[0-9]*-*"
OTHERS = frozenset(glob.glob(STEP_DIRECTORIES))  # of other users of this machine


class EvidenceTest(ClusterTest):
    arguments = ["--nodes", "2", "--gpus", "8"]

    def setUp(self):
        self.shared = tempfile.mkdtemp(prefix="rdma-nccl-evidence-")
        os.chmod(self.shared, 0o777)
        self.addCleanup(shutil.rmtree, self.shared)

    def move(self, node: str, *traffic: object) -> None:
        """While the step runs: PORT-OR-INTERFACE SENT RECEIVED ... on one node."""
        where = [CLUSTER, "exec", "--dir", self.cluster.dir, "--node", node, "--", MOVE, f"{self.cluster.dir}/root"]
        subprocess.run([*where, *map(str, traffic)], check=True)

    def step(self, option: str, moves: dict[str, list], program: str = "true", tasks: int = 8, **variables: str):
        """The exit code and what srun says last, behind the line about the plan."""
        command = [CLUSTER, "exec", "--dir", self.cluster.dir, "--user", "alice", "--", "env"]
        command += [f"{name}={value}" for name, value in variables.items()]
        command += ["srun", "-N2", f"--ntasks-per-node={tasks}", option]
        command += ["bash", "-c", WAIT + program, "bash", self.shared]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as srun, killed_on_failure(srun):
            deadline = time.monotonic() + TIME_LIMIT
            while len(glob.glob(f"{self.shared}/started.*")) < 2 * tasks:
                self.assertLess(time.monotonic(), deadline)
                self.assertIsNone(srun.poll(), srun.stderr.read() if srun.poll() is not None else "")
                time.sleep(0.05)
            for node, traffic in moves.items():
                self.move(node, *traffic)
            with open(f"{self.shared}/go", "w", encoding="ascii"):
                pass
            output, messages = srun.communicate(timeout=TIME_LIMIT)
        for path in glob.glob(f"{self.shared}/*"):
            os.unlink(path)
        self.assertEqual(output, "", "a step's stdout is its own")
        self.assert_nothing_is_left()
        self.messages = messages
        return srun.returncode, messages.splitlines()

    def assert_nothing_is_left(self) -> None:
        deadline = time.monotonic() + 20
        while left := (set(glob.glob(STEP_DIRECTORIES)) - OTHERS) | self.in_memory():
            self.assertLess(time.monotonic(), deadline, left)
            time.sleep(0.1)

    def in_memory(self) -> set[str]:
        """The steps' directories there: each node has a /dev/shm of its own."""
        names = " ".join(self.good("ls", "/dev/shm", node=node) for node in ("n01", "n02")).split()
        return {name for name in names if name.startswith("rdma-nccl-")}

    @staticmethod
    def everywhere(*traffic: object) -> dict[str, list]:
        return {"n01": list(traffic), "n02": list(traffic)}


class Verdicts(EvidenceTest):
    def test_used(self):
        rails = [word for rail in RAILS for word in (rail, GIB, GIB)]
        code, lines = self.step("--rdma-nccl", self.everywhere(*rails, "eth1", 10 << 20, 10 << 20))
        self.assertEqual(code, 0)
        used = "RDMA USED: 99.9 % of 17.2 GB between 2 nodes went over RDMA (evidence B), GPUDirect possible"
        self.assertEqual(lines[-1], f"rdma-nccl: {used}")

    def test_used_where_all_run_another_version(self):
        self.install_later("rdma_nccl.so", "login", "n01", "n02")
        rails = [word for rail in RAILS for word in (rail, GIB, GIB)]
        code, lines = self.step("--rdma-nccl", self.everywhere(*rails))
        self.assertEqual(code, 0)
        self.assertRegex(lines[-1], "^rdma-nccl: RDMA USED: .* between 2 nodes went over RDMA")

    def test_not_used(self):
        moved = self.everywhere("eth1", 2 * GIB, 2 * GIB, "mlx5_1:1", 4096, 4096)
        code, lines = self.step("--rdma-nccl", moved, NCCL_IB_DISABLE="1")
        self.assertEqual(code, 0)
        self.assertRegex(
            lines[-1],
            r"^rdma-nccl: warning: RDMA NOT USED: 4.29 GB between 2 nodes went over sockets, 8.19 kB over RDMA "
            r"\(evidence B\); NCCL_IB_DISABLE=1 is set: NCCL uses sockets$",
        )

    def test_mixed(self):
        rails = [word for rail in RAILS for word in (rail, GIB // 8, GIB // 8)]
        code, lines = self.step("--rdma-nccl", self.everywhere(*rails, "eth1", GIB, GIB))
        self.assertEqual(code, 0)
        self.assertRegex(lines[-1], r"^rdma-nccl: warning: RDMA MIXED: 50.0 % of 4.29 GB between 2 nodes went over RDMA")

    def test_what_only_one_node_sent_by_rdma_was_not_for_the_step(self):
        rails = [word for rail in RAILS for word in (rail, GIB, GIB)]
        _, lines = self.step("--rdma-nccl", {"n01": rails + ["eth1", GIB, GIB], "n02": ["eth1", GIB, GIB]})
        self.assertRegex(lines[-1], r"^rdma-nccl: warning: RDMA NOT USED: 2.15 GB between 2 nodes went over sockets")

    def test_a_rail_that_stayed_idle_is_named(self):
        rails = [word for rail in RAILS if rail != "mlx5_3:1" for word in (rail, GIB, GIB)]
        _, lines = self.step("--rdma-nccl", self.everywhere(*rails))
        self.assertRegex(lines[-1], r"^rdma-nccl: warning: RDMA MIXED: 100.0 % of .*; mlx5_3:1 stayed idle$")

    def test_a_port_that_went_down_is_named(self):
        counter = f"{self.cluster.dir}/root/sys/class/infiniband/mlx5_3/ports/1/counters/link_downed"
        for node in ("n01", "n02"):
            self.good("chmod", "666", counter, user="root", node=node)
        rails = [word for rail in RAILS for word in (rail, GIB, GIB)]
        program = f'[ "$SLURMD_NODENAME:$SLURM_LOCALID" != n02:0 ] || echo 2 > {counter}'
        _, lines = self.step("--rdma-nccl", self.everywhere(*rails), program)
        self.assertRegex(lines[-1], "^rdma-nccl: RDMA USED: .*; mlx5_3:1 of n02 went down 2 times during the step: ")
        _, lines = self.step("--rdma-nccl", self.everywhere(*rails))
        self.assertNotIn("went down", lines[-1], "that was before")

    def test_what_was_read_from_a_file_system_does_not_count(self):
        rails = [word for rail in RAILS for word in (rail, GIB, GIB)]
        _, lines = self.step("--rdma-nccl=verify=full", self.everywhere(*rails, "eth0", GIB // 64, 50 * GIB))
        verdict = [line for line in lines if "RDMA USED" in line]
        self.assertEqual(len(verdict), 1, lines)
        self.assertIn("elsewhere", self.messages)

    def test_nothing_to_say(self):
        for option, moves in (
            ("--rdma-nccl", self.everywhere("eth1", 1 << 20, 1 << 20)), # idle
            ("--rdma-nccl=verify=off", self.everywhere("eth1", GIB, GIB)),
            ("--rdma-nccl=verbose=0", self.everywhere("eth1", GIB, GIB)),
            ("--rdma-nccl=verify=full,verbose=0", self.everywhere("eth1", GIB, GIB)),
        ):
            code, lines = self.step(option, moves, tasks=1)
            self.assertEqual(code, 0)
            self.assertEqual([line for line in lines if "over sockets" in line], [], option)

    def test_strict(self):
        sockets = self.everywhere("eth1", GIB, GIB)
        code, lines = self.step("--rdma-nccl=strict", sockets)
        self.assertEqual(code, 1, lines)
        self.assertEqual(lines[-1], "rdma-nccl: strict: srun exits with 1 because RDMA was not used")
        code, lines = self.step("--rdma-nccl=strict", sockets, program="exit 7")
        self.assertEqual(code, 7, lines)
        rails = [word for rail in RAILS for word in (rail, GIB, GIB)]
        code, lines = self.step("--rdma-nccl=strict", self.everywhere(*rails))
        self.assertEqual(code, 0, lines)

    def test_full(self):
        log = os.path.join(LOGS, "sockets-no-verbs.log")
        program = f'file=${{NCCL_DEBUG_FILE/\\%h/$SLURMD_NODENAME}}; cp {log} "${{file/\\%p/$$}}"'
        code, lines = self.step("--rdma-nccl=verify=full", self.everywhere("eth1", GIB, GIB), program)
        self.assertEqual(code, 0)
        verdict = next(line for line in lines if "RDMA NOT USED" in line)
        self.assertIn("libibverbs", verdict, "the cause that NCCL's log tells")
        self.assertIn("rdma-nccl: NODE, PORT", self.messages)
        self.assertRegex(self.messages, r"(?m)^rdma-nccl: n01 +1.07 GB +1.07 GB +NOT USED")

    def test_logs_take_no_memory(self):
        """NCCL's logs lie on the disk even where its counters need memory; nothing stays in either place."""
        show = 'ls -d /dev/shm/rdma-nccl-"$SLURM_JOB_ID".0-* > /dev/null && echo "${NCCL_DEBUG_FILE%/rdma-nccl-*}"'
        logs = self.good("srun", "-N2", "--rdma-nccl=verify=full,profile=on", "bash", "-c", show)
        self.assertEqual(logs.split(), ["/tmp", "/tmp"])
        self.assert_nothing_is_left()

    def test_profile_where_the_library_is_not_installed(self):
        """The tasks get none of its variables, and srun says why. tests/vm has the library."""
        rails = [word for rail in RAILS for word in (rail, GIB, GIB)]
        program = '[ -z "$NCCL_PROFILER_PLUGIN$RDMA_NCCL_PROFILES" ]'
        if glob.glob("/usr/libexec/rdma-nccl/*profiler.so") or glob.glob("/usr/local/libexec/rdma-nccl/*profiler.so"):
            self.skipTest("the library is installed here")
        code, _ = self.step("--rdma-nccl=profile=on", self.everywhere(*rails), program)
        self.assertEqual(code, 0, self.messages)
        unseen = r"(?m)^rdma-nccl: n0\d: warning: the tasks do not see \S+/librdma_nccl_profiler.so: without counters"
        self.assertEqual(len(re.findall(unseen, self.messages)), 2, self.messages)

    def test_inspector(self):
        """Where both nodes have the library, it is told to write into a directory of the user's, whose files stay; where
        they have not, the step runs without it."""
        library = f"{self.shared}/libnccl-profiler-inspector.so"
        for node in ("n01", "n02"):  # where the plugin looks, and where the tasks do
            for path in (f"{self.cluster.dir}/root{library}", library):
                self.good("install", "-D", "/dev/null", path, user="root", node=node)
        write = ('[ -r "$NCCL_PROFILER_PLUGIN" ] && [ "$NCCL_INSPECTOR_ENABLE" = 1 ] && '
                 'hostname > "$NCCL_INSPECTOR_DUMP_DIR/$(hostname)-pid1.log" && echo "$NCCL_INSPECTOR_DUMP_DIR"')
        step = ("srun", "-N2", "--rdma-nccl=profile=inspector", "bash", "-c")
        directories = self.good(*step, write, LD_LIBRARY_PATH=self.shared).split()
        for directory in directories:
            self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        written = [path for directory in directories for path in glob.glob(f"{directory}/n0?-pid1.log")]
        self.assertEqual(sorted(self.good("cat", *written).split()), ["n01", "n02"])
        self.assertEqual([os.stat(directory).st_mode & 0o777 for directory in directories], [0o700, 0o700])
        absent = self.cluster.run(*step, 'echo "[$NCCL_PROFILER_PLUGIN$NCCL_INSPECTOR_DUMP_DIR]"')
        self.assertEqual((absent.returncode, absent.stdout), (0, "[]\n[]\n"))
        said = r"(?m)^rdma-nccl: n0\d: warning: profile=inspector: libnccl-profiler-inspector.so is not found: build it"
        self.assertEqual(len(re.findall(said, absent.stderr)), 2, absent.stderr)

    def test_a_machine_that_is_too_busy_to_report_for_a_second(self):
        """The process on n02 that watches, slurmstepd's other child, is stopped there until after the task has ended."""
        program = ('[ $SLURM_PROCID = 1 ] || exit 0; children=$(cat /proc/$PPID/task/*/children); watch=${children/$$/}; '
                   'kill -STOP $watch && { (sleep 1.3; kill -CONT $watch) & }')
        rails = [word for rail in RAILS for word in (rail, GIB, GIB)]
        code, lines = self.step("--rdma-nccl", self.everywhere(*rails), program, tasks=1)
        self.assertEqual(code, 0)
        self.assertRegex(lines[-1], "^rdma-nccl: RDMA USED: .* between 2 nodes went over RDMA")

    def test_a_cancelled_step_leaves_nothing(self):
        code, _ = self.step("--rdma-nccl=verify=full,profile=on", {}, program="scancel $SLURM_JOB_ID.$SLURM_STEP_ID; sleep 60", tasks=1)
        self.assertNotEqual(code, 0)


class Watched(EvidenceTest):
    """rdma-nccl verify --step, from the login node."""

    def verify(self, *options: str) -> list[str]:
        command = [CLUSTER, "exec", "--dir", self.cluster.dir, "--user", "alice", "--"]
        return [*command, "rdma-nccl", "verify", "--root", f"{self.cluster.dir}/root", *options]

    def watched(self, moves: list[object], tasks: int = 1, interrupted: bool = False, **variables: str) -> tuple[str, str]:
        """What `verify --step` and srun say of the same step, which moves these bytes on both nodes."""
        command = [CLUSTER, "exec", "--dir", self.cluster.dir, "--user", "alice", "--", "env"]
        command += [f"{name}={value}" for name, value in variables.items()]
        command += ["srun", "-N2", f"--ntasks-per-node={tasks}", "--rdma-nccl=verify=full"]
        command += ["bash", "-c", WAIT, "bash", self.shared]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as srun, killed_on_failure(srun):
            deadline = time.monotonic() + TIME_LIMIT
            while len(glob.glob(f"{self.shared}/started.*")) < 2 * tasks:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
            step = self.good("squeue", "--noheader", "--steps", "--format=%i").split()
            step = next(name for name in step if re.fullmatch(r"\d+\.\d+", name))
            with subprocess.Popen(self.verify("--step", step, "--seconds", "1000" if interrupted else "3"), stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True) as verify, killed_on_failure(verify):
                if interrupted:
                    self.until_watched(verify)
                moved = 0
                while verify.poll() is None:
                    for node in ("n01", "n02"):
                        self.move(node, *moves)
                    moved += 1
                    if interrupted and moved == 3:
                        verify.send_signal(signal.SIGINT)
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.1)
                output, messages = verify.communicate()
            with open(f"{self.shared}/go", "w", encoding="ascii"):
                pass
            _, verdict = srun.communicate(timeout=TIME_LIMIT)
        self.assertEqual((verify.returncode, messages), (0, ""), output)
        return output, verdict

    def until_watched(self, verify: subprocess.Popen) -> None:
        """The processes on both nodes heed signals, and take the first sample next."""
        count = ("for p in $(pgrep -f '^[^ ]*rdma-nccl verify --on-this-node'); do "
                 "ls -l /proc/$p/fd | grep -q signalfd && readlink /proc/$p/ns/net; done | sort -u | wc -l")
        deadline = time.monotonic() + TIME_LIMIT
        while self.cluster.run("bash", "-c", count, user="root").stdout.strip() != "2":
            self.assertIsNone(verify.poll())
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)

    def test_a_step_that_runs(self):
        output, _ = self.watched(["mlx5_1:1", GIB // 4, GIB // 4, "eth1", 1000, 1000])
        self.assertRegex(output, r"^RDMA USED: (99.9|100.0) % of .* between 2 nodes went over RDMA")
        self.assertRegex(output, r"(?m)^n02 .* USED")

    def test_nodes_have_slurms_names(self):
        """Host names may have a domain."""
        self.good("hostname", "n02.example.org", user="root", node="n02")
        self.addCleanup(self.cluster.run, "hostname", "n02", user="root", node="n02")
        output, _ = self.watched(["mlx5_1:1", GIB // 4, GIB // 4, "eth1", 1000, 1000])
        self.assertRegex(output, r"(?m)^n02 .* USED")

    def test_an_interrupt_ends_the_watch_with_a_verdict(self):
        output, _ = self.watched(["mlx5_1:1", GIB // 4, GIB // 4, "eth1", 1000, 1000], interrupted=True)
        self.assertRegex(output, r"^RDMA USED: (99.9|100.0) % of .* between 2 nodes went over RDMA")
        self.assertRegex(output, r"(?m)^n02 .* USED")

    def test_it_judges_as_srun_does(self):
        """By what the step's tasks were told, not by what they would be told in the place where verify was called."""
        rails = [word for rail in ("mlx5_1:1", "mlx5_2:1") for word in (rail, GIB // 4, GIB // 4)]
        said = self.watched(rails, tasks=8, NCCL_IB_HCA="=mlx5_1:1,mlx5_2:1")
        for text in said:
            self.assertRegex(text, r"(?m)^(rdma-nccl: )?RDMA USED: 100.0 % of ")
            self.assertNotIn("stayed idle", text)

    def test_components_of_a_heterogeneous_job(self):
        """srun knows them by the leader and their place in its job, squeue and slurmstepd by numbers of their own."""
        command = [CLUSTER, "exec", "--dir", self.cluster.dir, "--user", "alice", "--", "salloc", "-Q", "-N1", ":", "-N1",
                   "srun", "--het-group=0,1", "bash", "-c", WAIT, "bash", self.shared]
        with subprocess.Popen(command) as job, killed_on_failure(job):
            try:
                deadline = time.monotonic() + TIME_LIMIT
                while len(glob.glob(f"{self.shared}/started.*")) < 2:
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.05)
                steps = self.good("squeue", "--noheader", "--steps", "--format=%N %i").split()
                verdicts = {node: subprocess.run(self.verify("--json", "--step", step, "--seconds", "0.1"),
                                                 capture_output=True, text=True, check=False, timeout=TIME_LIMIT)
                            for node, step in zip(steps[::2], steps[1::2]) if re.fullmatch(r"\d+\.\d+", step)}
            finally:
                with open(f"{self.shared}/go", "w", encoding="ascii"):
                    pass
            self.assertEqual(job.wait(TIME_LIMIT), 0)
        self.assertEqual(sorted(verdicts), ["n01", "n02"])
        for node, watched in verdicts.items():
            self.assertEqual((watched.returncode, watched.stderr), (0, ""), node)
            self.assertEqual([each["node"] for each in json.loads(watched.stdout)["nodes"]], [node])

    def test_a_program_in_a_component(self):
        """The component's own slurmstepd, whose number is not that of SLURM_JOB_ID, is no other job's."""
        alone = "while grep -qsx slurmstepd /proc/[0-9]*/comm; do sleep 0.05; done; "  # of steps before
        output = self.good("bash", "-c", alone + "exec salloc -Q -N1 : -N1 srun --het-group=1 rdma-nccl verify --json "
                           f"--output {self.shared}/verdict.json -- printenv SLURM_JOB_ID SLURM_JOB_ID_HET_GROUP_1")
        self.assertEqual(len(set(output.split())), 2, output)
        with open(f"{self.shared}/verdict.json", encoding="utf-8") as file:
            self.assertTrue(json.load(file)["nodes"][0]["exclusive"])

    def test_a_step_that_is_not_there(self):
        result = subprocess.run(self.verify("--step", "4711.0"), text=True, capture_output=True, check=False)
        self.assertEqual(result.returncode, 3)
        self.assertIn("there is no step 4711.0 that runs", result.stderr)


class Stored(EvidenceTest):
    """The site wants the verdicts kept."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.kept = os.path.join(cls.cluster.dir, "home", "verdicts")
        os.mkdir(cls.kept)
        os.chmod(cls.kept, 0o1777)
        with open(os.path.join(cls.cluster.dir, "etc", "rdma-nccl.conf"), "a", encoding="ascii") as site:
            site.write(f"verify_dir = {cls.kept}\n")

    def test_stored(self):
        rails = [word for rail in RAILS for word in (rail, GIB, GIB)]
        code, lines = self.step("--rdma-nccl", self.everywhere(*rails))
        self.assertEqual(code, 0)
        self.assertIn("RDMA USED", lines[-1])
        [path] = glob.glob(f"{self.kept}/*")
        self.assertRegex(os.path.basename(path), r"^\d+\.0\.json$")
        with open(path, encoding="ascii") as file:
            stored = json.load(file)
        self.assertEqual((stored["schema"], stored["verdict"], stored["evidence"]), (1, "USED", "B"))
        self.assertEqual([node["node"] for node in stored["nodes"]], ["n01", "n02"])
        self.assertEqual(stored["rdma"]["sent"], 16 * GIB)

    def test_a_directory_that_is_gone_harms_no_step(self):
        os.rename(self.kept, f"{self.kept}.away")
        self.addCleanup(os.rename, f"{self.kept}.away", self.kept)
        code, lines = self.step("--rdma-nccl", self.everywhere("eth1", GIB, GIB), tasks=1)
        self.assertEqual(code, 0)
        self.assertRegex(lines[-1], r"^rdma-nccl: warning: verify_dir: .*/verdicts: No such file or directory$")


if __name__ == "__main__":
    main()
