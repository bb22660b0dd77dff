#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of `rdma-nccl check` in a real Slurm: usage: test_check.py BUILD_DIR [TEST...]. As root."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import unittest

from cluster_test import Cluster, ClusterTest, main

SECONDS = 60
MARK = "rdma-nccl-7c1e: "  # tools/check/check.h
REASON = MARK + "port.count: 7 ports for NCCL, 8 expected"


class HealthCheck(ClusterTest):
    """Two nine-HCA nodes; n01 is broken and mended."""

    def setUp(self):
        self.expect = os.path.join(self.cluster.dir, "etc", "rdma-nccl-check.conf")
        self.site("ports = 8\n")
        self.tree = os.path.join(self.cluster.dir, "root")
        self.state = os.path.join(self.cluster.dir, "run", "check.json")

    def site(self, text: str) -> None:
        with open(self.expect, "w", encoding="utf-8") as file:
            file.write(text)

    def check(self, *arguments: str, **variables: str):
        command = ["rdma-nccl", "check", "--root", self.tree, "--expect", self.expect, "--node", "n01", "--after", "1"]
        command += ["--state", self.state, *arguments]
        return self.cluster.run(*command, node="n01", user="root", **variables)

    def port_state(self, text: str) -> None:
        """Of mlx5_3 on n01, whose tree is in its own mounts."""
        path = f"{self.tree}/sys/class/infiniband/mlx5_3/ports/1/state"
        result = self.cluster.run("sh", "-c", f'echo "{text}" > {path}', node="n01", user="root")
        self.assertEqual(result.returncode, 0, result.stderr)

    def slurms_view(self) -> tuple[str, str]:
        line = self.good("scontrol", "--oneliner", "show", "node", "n01", user="root")
        reason = re.search(r" Reason=(.*?) \[", line)
        # NOT_RESPONDING behind an UNDRAIN, until slurmctld has asked the node.
        state = re.search(r" State=(\S+)", line).group(1).replace("+NOT_RESPONDING", "")
        return state, reason.group(1) if reason else ""

    def drain(self, reason: str) -> None:
        """As an administrator does it."""
        self.good("scontrol", "update", "NodeName=n01", "State=DRAIN", f"Reason={reason}", user="root")

    def drained_by_check(self) -> str:
        """n01 is broken, drained by a check, and mended; the drain as the state file has it."""
        self.port_state("1: DOWN")
        self.assertIn("n01: CRITICAL: drained", self.check("--health").stdout)
        self.assertEqual(self.slurms_view()[1], REASON)
        self.port_state("4: ACTIVE")
        with open(self.state, encoding="utf-8") as file:
            return json.load(file)["drain"]

    def scontrol(self, script: str) -> None:
        """A program in scontrol's place."""
        path = os.path.join(self.cluster.dir, "bin", "other-scontrol")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{script}\n")
        os.chmod(path, 0o755)
        self.site(f"ports = 8\nscontrol = {path}\n")

    def undrain(self) -> None:
        self.cluster.run("scontrol", "update", "NodeName=n01", "State=UNDRAIN", user="root")

    def tearDown(self):
        self.port_state("4: ACTIVE")
        self.undrain()
        for name in (self.state, f"{self.state}.broken"):
            if os.path.exists(name):
                os.remove(name)
        super().tearDown()

    def test_drains_and_undrains(self):
        self.assertEqual(self.check("--health").stdout, "", "nobody reads that all is well")
        self.assertIn("would be left as it is: it is good", self.check("--health", "--dry-run").stdout)
        self.port_state("1: DOWN")
        would = self.check("--health", "--dry-run").stdout
        self.assertIn("would run 'scontrol' 'update' 'NodeName=n01' 'State=DRAIN'", would)
        self.assertNotIn("DRAIN", self.slurms_view()[0])

        self.assertIn("n01: CRITICAL: drained", self.check("--health").stdout)
        state, reason = self.slurms_view()
        self.assertIn("DRAIN", state)
        self.assertEqual(reason, REASON)
        self.assertIn("it is drained already", self.check("--health").stdout)

        self.port_state("4: ACTIVE")
        result = self.check("--health", SLURM_TIME_FORMAT="relative")
        self.assertIn("undrained: it is good again", result.stdout, result.stderr)
        self.assertNotIn("DRAIN", self.slurms_view()[0])
        with open(self.state, encoding="utf-8") as file:
            self.assertEqual(json.load(file)["drain"], "")

    def test_what_it_keeps_is_what_slurm_shows(self):
        kept = self.drained_by_check()
        self.assertIn(f" Reason={kept}", self.good("scontrol", "--oneliner", "show", "node", "n01", user="root"))
        self.assertRegex(kept, rf"^{REASON} \[root@\d{{4}}-\S+\]$")

    def test_after_a_boot_its_drain_is_undone(self):
        self.drained_by_check()
        with open(self.state, encoding="utf-8") as file:
            state = json.load(file)
        state["boot_id"] = "another"
        with open(self.state, "w", encoding="utf-8") as file:
            json.dump(state, file)
        self.assertIn("undrained: it is good again", self.check("--health").stdout)

    def test_a_person_may_write_what_they_like(self):
        self.drain("rdma-nccl: cable of mlx5_3, ask Bob")
        self.assertIn("drained by others (rdma-nccl: cable of mlx5_3, ask Bob", self.check("--health").stdout)
        self.assertIn("DRAIN", self.slurms_view()[0])

    def assert_not_undone(self) -> None:
        text = self.check("--health").stdout
        self.assertIn("n01: OK: left as it is: ", text)
        self.assertIn("scontrol update NodeName=n01 State=UNDRAIN", text)
        self.assertEqual(self.slurms_view(), ("IDLE+DRAIN", REASON))

    def test_the_same_words_by_a_person(self):
        self.drained_by_check()
        self.undrain()  # else Slurm keeps the time of a reason that stays the same
        time.sleep(1.1)  # which it tells in seconds
        self.drain(REASON)
        self.assert_not_undone()

    def test_its_words_and_more_by_a_person(self):
        kept = self.drained_by_check()
        self.drain(f"{kept} wait for Bob")
        text = self.check("--health").stdout
        self.assertIn("n01: OK: left as it is: ", text)
        self.assertIn("wait for Bob", text)
        self.assertIn("DRAIN", self.slurms_view()[0])

    def test_a_comment_changes_nothing(self):
        self.drained_by_check()
        self.good("scontrol", "update", "NodeName=n01", "Comment=see Reason=x [bob@now] and", user="root")
        self.assertIn("undrained: it is good again", self.check("--health").stdout)

    def test_a_drain_that_the_state_does_not_hold(self):
        self.drained_by_check()
        os.remove(self.state)
        self.assert_not_undone()

    def change_while_it_runs(self) -> None:
        """An administrator drains the node right after the check has asked for it."""
        done = os.path.join(self.cluster.dir, "run", "done")
        if os.path.exists(done):
            os.remove(done)
        self.scontrol(f"""scontrol "$@" || exit
            [ -e {done} ] || scontrol update NodeName=n01 State=DRAIN Reason='replace DIMM'
            touch {done}""")
        result = self.check("--health")
        self.assertEqual(self.slurms_view(), ("IDLE+DRAIN", "replace DIMM"))
        self.assertEqual(result.returncode, 3)
        self.assertIn("replace DIMM", result.stderr)
        self.assertIn("drained by others (replace DIMM", self.check("--health").stdout)

    def test_a_change_before_an_undrain(self):
        self.drained_by_check()
        self.change_while_it_runs()

    def test_a_change_before_a_drain(self):
        self.port_state("1: DOWN")
        self.change_while_it_runs()

    def test_a_drain_that_cannot_be_kept(self):
        """Of a file that cannot be written; and Slurm is away right after the drain."""
        self.port_state("1: DOWN")
        state, self.state = self.state, "/proc/no/such/file"
        drained = self.check("--health")
        self.state = state
        self.assertIn("n01: CRITICAL: drained", drained.stdout)
        self.assertIn("State=UNDRAIN", drained.stderr)
        self.undrain()
        self.scontrol("""scontrol "$@" || exit
            [ "$1" != update ] || chmod -x "$0" """)
        drained = self.check("--health")
        self.assertIn("n01: CRITICAL: drained", drained.stdout)
        self.assertIn("State=UNDRAIN", drained.stderr)
        self.site("ports = 8\n")
        self.port_state("4: ACTIVE")
        self.assert_not_undone()

    def test_a_broken_state_is_set_aside(self):
        self.port_state("1: DOWN")
        for text in ("", '{"schema": 1, "boot_id', "\0" * 300, "[]", '{"drain": 7}'):
            with self.subTest(text):
                with open(self.state, "w", encoding="utf-8") as file:
                    file.write(text)
                self.check("--health", "--dry-run")
                with open(self.state, encoding="utf-8") as file:
                    self.assertEqual(file.read(), text, "a dry run changes nothing")
                result = self.check("--health")
                self.assertIn("n01: CRITICAL: drained", result.stdout)
                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
                self.assertIn(f"{self.state}.broken", result.stderr)
                with open(f"{self.state}.broken", encoding="utf-8") as file:
                    self.assertEqual(file.read(), text)
                self.port_state("4: ACTIVE")
                result = self.check("--health")
                self.assertIn("undrained", result.stdout)
                self.assertEqual(result.stderr, "")
                self.port_state("1: DOWN")

    def test_a_humans_drain_is_left_alone(self):
        self.drain("replace DIMM")
        self.assertIn("drained by others (replace DIMM", self.check("--health").stdout)
        self.port_state("1: DOWN")
        self.assertIn("drained by others (replace DIMM", self.check("--health").stdout)
        self.assertEqual(self.slurms_view()[1], "replace DIMM")

    def test_what_cannot_be_told_changes_nothing(self):
        self.site("ports = many\n")
        self.assertIn("UNKNOWN: left as it is", self.check("--health").stdout)
        self.assertEqual(self.slurms_view()[0], "IDLE")

    def test_drains_after_several_times_in_a_row(self):
        self.port_state("1: DOWN")
        check = ["rdma-nccl", "check", "--root", self.tree, "--expect", self.expect, "--node", "n01", "--health"]
        outcomes = [self.cluster.run(*check, "--state", self.state, node="n01", user="root").stdout for _ in range(2)]
        self.assertIn("critical 1 of 2 times", outcomes[0])
        self.assertIn("n01: CRITICAL: drained", outcomes[1])

    def test_what_nobody_expects_drains_no_node(self):
        self.site("hcas = 9\n")
        modules = f"{self.tree}/sys/module/ib_uverbs"
        self.cluster.run("mv", modules, f"{modules}.away", node="n01", user="root")
        abi = f"{self.tree}/sys/class/infiniband_verbs/abi_version"
        self.cluster.run("mv", abi, f"{abi}.away", node="n01", user="root")
        try:
            self.assertEqual(self.check().returncode, 2)
            self.assertEqual(self.check("--health").stdout, "")
            self.assertEqual(self.check("--prolog").returncode, 0)
        finally:
            self.cluster.run("mv", f"{modules}.away", modules, node="n01", user="root")
            self.cluster.run("mv", f"{abi}.away", abi, node="n01", user="root")
        self.assertEqual(self.slurms_view()[0], "IDLE")

    def test_slurm_that_is_not_there(self):
        """A program in scontrol's place that never ends, and one that fails."""
        self.port_state("1: DOWN")
        self.scontrol("exec sleep 1000")
        start = time.monotonic()
        result = self.check("--health")
        self.assertLess(time.monotonic() - start, SECONDS)
        self.assertEqual(result.returncode, 3)
        self.assertIn("no action", result.stderr)
        self.assertEqual(self.slurms_view()[0], "IDLE")

    def test_in_a_step(self):
        command = ["srun", "-N1", "--nodelist=n02", "rdma-nccl", "check", "--root", self.tree, "--expect", self.expect]
        result = self.cluster.run(*command)
        self.assertRegex(result.stdout, r"^n02: OK: \d+ passed")


class AsSlurmStartsIt(ClusterTest):
    """HealthCheckProgram and Prolog by slurmd itself, with its environment."""

    program = os.path.join("etc", "health-check")
    prolog = os.path.join("etc", "prolog")

    @classmethod
    def setUpClass(cls):
        import tempfile

        cls.programs = tempfile.mkdtemp()
        os.chmod(cls.programs, 0o755)
        health, prolog = (os.path.join(cls.programs, name) for name in ("health", "prolog"))
        cls.write(health, "exit 0")
        cls.write(prolog, "exit 0")
        lines = [f"HealthCheckProgram={health}", "HealthCheckInterval=2", f"Prolog={prolog}", "PrologFlags=Alloc"]
        cls.cluster = Cluster(*[word for line in lines for word in ("--slurm-conf", line)])
        cls.site = os.path.join(cls.programs, "check.conf")
        root = os.path.join(cls.cluster.dir, "root")
        command = os.path.join(cls.cluster.dir, "bin", "rdma-nccl")
        check = f"{command} check --root {root} --expect {cls.site} --conf /dev/null"
        state = f"{cls.programs}/state.$(uname -n)"
        conf = os.path.join(cls.cluster.dir, "etc", "slurm.conf")
        cls.expect("ports = 8")
        cls.log = os.path.join(cls.programs, "log")
        cls.write(health, f"env | sort > {cls.log}.env; export SLURM_CONF={conf}; {check} --health --state {state} "
                          f">> {cls.log} 2>&1")
        cls.write(prolog, f"exec {check} --prolog")

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.programs)

    @staticmethod
    def write(path: str, command: str) -> None:
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{command}\n")
        os.chmod(f"{path}.new", 0o755)
        os.rename(f"{path}.new", path)

    @classmethod
    def expect(cls, text: str) -> None:
        with open(f"{cls.site}.new", "w", encoding="utf-8") as file:
            file.write(f"{text}\nscontrol = {shutil.which('scontrol')}\n")  # Slurm tells the program no PATH
        os.rename(f"{cls.site}.new", cls.site)

    def states(self) -> list[str]:
        return self.good("sinfo", "--noheader", "--Node", "--Format=StateLong", user="root").split()

    def eventually(self, wanted) -> None:
        deadline = time.monotonic() + SECONDS
        while not wanted(self.states()):
            if time.monotonic() > deadline:
                with open(self.log, encoding="utf-8") as file:
                    self.fail(f"{self.states()}\n{file.read()[-3000:]}")
            time.sleep(0.5)

    def test_health_check_program(self):
        self.expect("ports = 9")
        self.eventually(lambda states: all(state.startswith("drain") for state in states))
        reasons = self.good("sinfo", "--noheader", "--list-reasons", "--Format=Reason:100", user="root")
        self.assertIn(f"{MARK}port.count: 8 ports for NCCL, 9 expected", reasons)
        self.expect("ports = 8")
        self.eventually(lambda states: states == ["idle", "idle"])

    def test_prolog(self):
        self.assertEqual(self.cluster.run("srun", "-N2", "true").returncode, 0)


if __name__ == "__main__":
    main()
