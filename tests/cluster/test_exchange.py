#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the exchange in a real Slurm: usage: test_exchange.py BUILD_DIR [TEST...]. As root."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import schemas  # noqa: E402
from cluster_test import BUILD, CLUSTER, CONTRACT, PYTHON, TIME_LIMIT, ClusterTest, main, show  # noqa: E402

SUMMARY = re.compile(r"(?m)^rdma-nccl: (\w+) layout, (\d+) tasks? on (\d+) nodes?(?:, (\d+) ranks?)?, head (\w+) \((.*):(\d+)\), (.*)$")

# Prints whether the port after MASTER_PORT's block, and those in it, are bound on this host: what holds them is not us.
BOUND = """
import errno, os, socket
first = int(os.environ["MASTER_PORT"])
states = []
for port in range(first, first + 4):
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
            states.append("free")
        except OSError as error:
            states.append(errno.errorcode[error.errno])
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("", port))
        listener.listen()
print(os.environ["SLURM_PROCID"], first, *states)
"""


class ExchangeTest(ClusterTest):
    def step(self, *command: str, **options) -> tuple[str, str]:
        """Output and messages of a command that must succeed."""
        result = self.cluster.run(*command, **options)
        self.assertEqual(result.returncode, 0, f"{command}:\n{result.stdout}{result.stderr}")
        return result.stdout, result.stderr

    def start(self, *command: str, node: str = "login", user: str = "alice", stdin: int | None = None) -> subprocess.Popen:
        where = [CLUSTER, "exec", "--dir", self.cluster.dir, "--user", user, "--node", node, "--"]
        return subprocess.Popen([*where, *command], text=True, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def hear(self, step: subprocess.Popen, pattern: str) -> str:
        """The first line of messages that matches; a step that ends without one fails, and one that says none in time."""
        heard = []
        limit = threading.Timer(TIME_LIMIT, self.cluster.run, ("pkill", "-KILL", "-x", "srun"), {"user": "root"})
        limit.start()
        try:
            for line in step.stderr:
                heard.append(line)
                if re.search(pattern, line):
                    return line
        finally:
            limit.cancel()
        self.fail(f"not said: {pattern}; but: {heard}")

    def file(self, name: str, *lines: str) -> str:
        path = os.path.join(self.cluster.dir, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in lines))
        return path

    @contextlib.contextmanager
    def crossed_rails(self, node: str):
        """The cables of two HCAs of a node are exchanged."""
        swap = ("set -e; cd {}/root/sys/class/infiniband; mv mlx5_2/ports crossed; mv mlx5_3/ports mlx5_2/ports; "
                "mv crossed mlx5_3/ports").format(self.cluster.dir)
        self.good("bash", "-c", swap, user="root", node=node)
        try:
            yield
        finally:
            self.good("bash", "-c", swap, user="root", node=node)

    def leftovers(self) -> list[str]:
        """Files of ours that no step needs any more."""
        directories = ("/tmp", "/run", os.path.join(self.cluster.dir, "home/alice"))
        return [f"{d}/{name}" for d in directories if os.path.isdir(d) for name in os.listdir(d)
                if re.match(r"rdma-nccl(\.\d+\.\d+|-hosts)", name)]


class UnequalNodes(ExchangeTest):
    """Nodes with 4, 2 and 1 GPUs (doc/facts/recipes.md, M4), and one more."""

    arguments = ["--nodes", "4", "--gpus", "4,2,1,1"]

    def test_ranks_follow_the_gpus(self):
        output, messages = self.step("srun", "-N3", "--ntasks-per-node=1", "--rdma-nccl", "rdma-nccl", "run",
                                     *show("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"))
        found = [(line["HOST"], int(line["RANK"]), int(line["LOCAL_RANK"]), line["LOCAL_WORLD_SIZE"])
                 for line in self.ranks(re.sub(r"(?m)^\[[^]]*\] ?", "", output))]
        wanted = [("n01", rank, rank, "4") for rank in range(4)] + [("n02", 4, 0, "2"), ("n02", 5, 1, "2"), ("n03", 6, 0, "1")]
        self.assertEqual(found, wanted)
        self.assertIn("WORLD_SIZE=7", output)
        self.assertRegex(messages, r"node layout, 3 tasks on 3 nodes, 7 ranks, head n01 \(25\.11\.128\.2:")
        self.assertIn("rdma-nccl: n02: 2 GPUs; n01 has 4 GPUs", messages)

    def test_a_program_meets_over_unequal_nodes(self):
        output, _ = self.step("srun", "-N3", "--ntasks-per-node=1", "--rdma-nccl", "rdma-nccl", "run", "pi")
        self.assertRegex(output, r"from 7 ranks on 3 nodes \(n01: 4, n02: 2, n03: 1\)")

    def test_without_the_exchange_unequal_nodes_are_refused(self):
        command = ["srun", "-N3", "--ntasks-per-node=1", "--gpus=7", "--rdma-nccl=exchange=off", "rdma-nccl", "run"]
        result = self.cluster.run(*command, "true")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("the nodes of this step have different numbers of GPUs", result.stderr)
        self.assertIn("give -n N", result.stderr)
        output, _ = self.step(*command, "-n", "2", "pi")
        self.assertIn("from 6 ranks on 3 nodes", output)

    def test_hosts_files(self):
        script = "cat $RDMA_NCCL_HOSTS $RDMA_NCCL_HOSTFILE; stat -c '%U %a' $RDMA_NCCL_HOSTS"
        output, _ = self.step("srun", "-N3", "--ntasks-per-node=1", "--rdma-nccl=hosts=file", "bash", "-c",
                              f"[ $SLURM_PROCID != 2 ] || {{ {script}; }}")
        self.assertEqual(output.splitlines(), ["25.11.128.2\tn01", "25.11.128.3\tn02", "25.11.128.4\tn03",
                                               "n01 slots=4", "n02 slots=2", "n03 slots=1", "alice 644"])
        self.assertEqual(self.leftovers(), [])

    def test_steps_of_a_batch_job_name_the_right_nodes(self):
        """In a batch script the environment is of the batch node, SLURMD_NODENAME too."""
        script = self.file("table.sh", "#!/bin/bash", "#SBATCH --rdma-nccl=hosts=file -N3 --ntasks-per-node=1",
                           "srun bash -c '[ $SLURM_PROCID != 2 ] || cat $RDMA_NCCL_HOSTS $RDMA_NCCL_HOSTFILE' 2>&1",
                           "RDMA_NCCL_HOSTS=mount srun --rdma-nccl true 2>&1",
                           "srun --rdma-nccl --export=ALL,RDMA_NCCL_HOSTS=mount grep -c rdma-nccl /etc/hosts 2>/dev/null")
        output = self.file("table.out")
        self.cluster.run("sbatch", "--wait", "-o", output, script, user="root")  # grep -c of nothing ends with 1
        with open(output, encoding="utf-8") as file:
            text = file.read()
        self.assertIn("25.11.128.2\tn01\n25.11.128.3\tn02\n25.11.128.4\tn03\nn01 slots=4\nn02 slots=2\nn03 slots=1\n", text)
        self.assertIn("rdma-nccl: n02: 2 GPUs; n01 has 4 GPUs", text)
        self.assertIn("hosts=mount is not allowed here", text)
        self.assertEqual(text.splitlines()[-3:], ["0"] * 3, "mounted without the site's leave")

    def test_a_step_inside_a_step_with_hosts_files(self):
        """RDMA_NCCL_HOSTS is the name of a setting, too."""
        output = self.good("salloc", "-Q", "-N2", "--ntasks-per-node=2", "srun", "--overlap", "-N1", "-n1",
                           "--rdma-nccl=hosts=file", "bash", "-c",
                           "srun --overlap -N2 -n2 --rdma-nccl bash -c 'echo inner $RDMA_NCCL_HOSTS'")
        self.assertEqual(output.splitlines(), ["inner", "inner"])

    def test_a_hosts_file_that_cannot_be_written_is_said(self):
        result = self.cluster.run("srun", "-N2", "--rdma-nccl=hosts=file", "--chdir=/proc", "true", TMPDIR="/proc")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"rdma-nccl: n01: warning: hosts=file: /proc/rdma-nccl\S+: ")

    def with_lines(self, name: str, *lines: str) -> None:
        """More lines in a file of the cluster, in place, until the test ends."""
        path = os.path.join(self.cluster.dir, name)
        with open(path, encoding="utf-8") as file:
            before = file.read()

        def restore() -> None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(before)

        self.addCleanup(restore)
        with open(path, "a", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in lines))

    def program_of_root(self) -> str:
        """`id` with root's set-user-ID bit, in a file system that heeds the bit."""
        path = os.path.join(self.cluster.dir, "home/id-of-root")
        self.addCleanup(os.unlink, path)
        shutil.copy("/usr/bin/id", path)
        os.chown(path, 0, 0)
        os.chmod(path, 0o4755)
        self.assertEqual(self.good(path, "-u").split(), ["0"], "the test needs a file system without nosuid")
        return path

    def assert_nothing_left(self) -> None:
        """Other clusters of this machine share /run: their files go as well."""
        deadline = time.monotonic() + 20
        while self.leftovers() and time.monotonic() < deadline:
            time.sleep(0.2)
        self.assertEqual(self.leftovers(), [])

    def test_mounted_hosts(self):
        refused = self.cluster.run("srun", "-N2", "--rdma-nccl=hosts=mount", "true")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("hosts=mount is not allowed here", refused.stderr)
        self.with_lines("etc/rdma-nccl.conf", "hosts_mount=on")
        output, messages = self.step("srun", "-N2", "--ntasks-per-node=1", "--rdma-nccl=hosts=mount", "bash", "-c",
                                     "getent hosts n01; grep -c rdma-nccl /etc/hosts")
        lines = output.splitlines()
        self.assertEqual(sum(bool(re.match(r"25\.11\.128\.2 +n01", line)) for line in lines), 2)
        self.assertEqual(lines.count("1"), 2, output)
        self.assertNotIn("hosts=mount", messages)
        self.assertNotIn("rdma-nccl", self.good("cat", "/etc/hosts", node="n01"))
        self.assert_nothing_left()

    def test_mounted_hosts_leave_the_sites_lines_as_they_are(self):
        """What the site says of a name holds, whatever the user says: here by `head`."""
        self.with_lines("etc/rdma-nccl.conf", "hosts_mount=on")
        self.with_lines("etc/hosts", "25.11.128.200 ldap N01")
        forged = ["srun", "-N1", "-n1", "-w", "n01", "--rdma-nccl=hosts=mount,head=25.11.128.66"]
        output, _ = self.step(*forged, "getent", "hosts", "n01", "ldap")
        self.assertEqual([line.split()[0] for line in output.splitlines()], ["25.11.128.200"] * 2)
        output, _ = self.step("srun", "-N2", "-n2", "-w", "n[01-02]", "--rdma-nccl=hosts=mount", "bash", "-c",
                              "[ $SLURM_PROCID != 1 ] || cat /etc/hosts")
        self.assertEqual(output.splitlines(), ["127.0.0.1 localhost", "10.0.60.1 login", "25.11.128.200 ldap N01",
                                               "# the nodes of this step, by rdma-nccl", "25.11.128.3\tn02"])
        self.assert_nothing_left()

    def test_mounted_hosts_of_heterogeneous_steps(self):
        """Of one job, and of a job for each component: both layouts are slurmctld's to tell."""
        self.with_lines("etc/rdma-nccl.conf", "hosts_mount=on")
        step = "--rdma-nccl=hosts=mount,layout=rank"
        script = "[ $SLURM_PROCID != 1 ] || tail -n2 /etc/hosts"
        table = ["25.11.128.2\tn01", "25.11.128.3\tn02"]
        output, messages = self.step("salloc", "-Q", "-N2", "-w", "n[01-02]", "srun", step, "-n1", "-w", "n01", "bash", "-c",
                                     script, ":", "-n1", "-w", "n02", "bash", "-c", script)
        self.assertEqual(output.splitlines(), table, messages)
        output, messages = self.step("salloc", "-Q", "-N1", "-w", "n01", ":", "-N1", "-w", "n02", "srun",
                                     "--het-group=0,1", step, "bash", "-c", script)
        self.assertEqual(output.splitlines(), table, messages)
        self.assert_nothing_left()

    def test_with_mounted_hosts_no_program_gains_privileges(self):
        self.with_lines("etc/rdma-nccl.conf", "hosts_mount=on")
        program = self.program_of_root()
        script = f"grep NoNewPrivs /proc/self/status; {program} -u"
        output, _ = self.step("srun", "-N2", "--ntasks-per-node=1", "--rdma-nccl=hosts=file", "bash", "-c", script)
        self.assertEqual(sorted(output.split()), sorted(["NoNewPrivs:", "0", "0"] * 2))
        user = self.good("id", "-u").strip()
        output, _ = self.step("srun", "-N2", "--ntasks-per-node=1", "--rdma-nccl=hosts=mount", "bash", "-c", script)
        self.assertEqual(sorted(output.split()), sorted(["NoNewPrivs:", "1", user] * 2))

    def test_the_tasks_of_a_node_see_one_mounted_file(self):
        self.with_lines("etc/rdma-nccl.conf", "hosts_mount=on")
        output, _ = self.step("srun", "-N1", "-n4", "-w", "n01", "--rdma-nccl=hosts=mount", "stat", "-c", "%d:%i %U %a",
                              "/etc/hosts")
        self.assertEqual(len(output.splitlines()), 4)
        self.assertEqual(len(set(output.splitlines())), 1, output)
        self.assertEqual(output.split()[1:3], ["root", "644"])
        self.assert_nothing_left()


class Agreement(ExchangeTest):
    """Equal nodes."""

    arguments = ["--nodes", "8", "--gpus", "4"]

    def test_eight_nodes(self):
        output, messages = self.step("srun", "-N8", "--ntasks-per-node=2", "--rdma-nccl=verbose=3", "pi")
        self.assertIn("from 16 ranks on 8 nodes", output)
        self.assertIn("rank layout, 16 tasks on 8 nodes, head n01 (25.11.128.2:", messages)
        self.assertRegex(messages, r"(?m)^rdma-nccl: RDMA IDLE: too little to judge: .* between 8 nodes$")

    def test_one_node_has_nobody_to_ask(self):
        for option in ("--ntasks-per-node=2", "--ntasks-per-node=1"):
            _, messages = self.step("srun", "-N1", option, "--rdma-nccl", "true")
            self.assertEqual(len(messages.splitlines()), 1, messages)
            self.assertRegex(messages, r"^rdma-nccl: n01: (rank|node) layout")

    def test_the_head_is_on_the_fabric(self):
        output, messages = self.step("srun", "-N2", "--ntasks-per-node=2", "--rdma-nccl", *show(*CONTRACT, "GLOO_SOCKET_IFNAME"))
        self.assertEqual({(line["MASTER_ADDR"], line["GLOO_SOCKET_IFNAME"]) for line in self.ranks(output)}, {("25.11.128.2", "eth1")})
        self.assertEqual(len(messages.splitlines()), 1, messages)
        self.assertRegex(messages, SUMMARY)

    def test_net_moves_the_head(self):
        for net, address in (("eth0", "10.0.60.3"), ("25.11.128.64/27", "25.11.128.66"), ("eth5", "25.11.128.130")):
            output, _ = self.step("srun", "-N2", f"--rdma-nccl=net={net}", "bash", "-c", "echo $MASTER_ADDR")
            self.assertEqual(set(output.split()), {address}, net)

    def test_quiet(self):
        for command in (["srun", "-Q", "-N2", "--rdma-nccl"], ["srun", "-N2", "--rdma-nccl=verbose=0"]):
            self.assertEqual(self.step(*command, "true"), ("", ""))

    def test_export_none(self):
        output, _ = self.step("srun", "--export=NONE", "-N2", "--rdma-nccl", "/bin/bash", "-c", "echo $MASTER_ADDR")
        self.assertEqual(output.split(), ["25.11.128.2"] * 2)

    def test_nothing_of_the_exchange_reaches_the_program(self):
        output, _ = self.step("srun", "-N2", "--rdma-nccl", "env")
        self.assertNotRegex(output, "SLURM_RDMA_NCCL")
        self.assertEqual(self.good("srun", "-N2", "--rdma-nccl", "bash", "-c", "ls -l /proc/self/fd | grep -c socket || true").split(),
                         ["0", "0"])

    def test_the_block_is_held_until_the_step_ends(self):
        output, _ = self.step("srun", "-N2", "--ntasks-per-node=1", "--rdma-nccl=port=23456", PYTHON, "-c", BOUND)
        self.assertEqual(sorted(output.splitlines()), ["0 23456 " + " ".join(["EADDRINUSE"] * 4), "1 23456 " + " ".join(["free"] * 4)])
        output, _ = self.step("srun", "-N2", "--ntasks-per-node=1", "--rdma-nccl=port=23456,hold=off", PYTHON, "-c", BOUND)
        self.assertEqual({" ".join(line.split()[2:]) for line in output.splitlines()}, {" ".join(["free"] * 4)})

    def test_a_busy_block_is_passed_over(self):
        """Without ports from Slurm: the derived block is taken, so another one is published."""
        command = ["srun", "--resv-ports=0", "-N2", "--ntasks-per-node=1", "--rdma-nccl=port_range=24000-24015"]
        busy = self.start(PYTHON, "-c", "import socket, time\nheld = []\nfor port in (24001, 24005, 24010):\n"
                          "    s = socket.socket(); s.bind(('', port)); s.listen(); held.append(s)\nprint('ready', flush=True)\n"
                          "time.sleep(60)", node="n01")
        try:
            self.assertEqual(busy.stdout.readline(), "ready\n")
            output, _ = self.step(*command, "bash", "-c", "echo $MASTER_PORT $JAX_COORDINATOR_ADDRESS")
        finally:
            busy.kill()
            busy.communicate()
        self.assertEqual(set(output.splitlines()), {"24012 25.11.128.2:24013"})

    def test_fifty_steps_at_once(self):
        # Each stays until all have started, so that all ports are taken at a time.
        task = ("touch $d/$SLURM_STEP_ID; for i in $(seq 240); do "
                "[ $(ls $d | wc -l) = 50 ] && { echo $SLURM_STEP_ID $RANK $MASTER_PORT; exit; }; sleep 0.5; done")
        script = ("export d=$(mktemp -d); for i in $(seq 50); do srun --overlap --resv-ports=0 -N2 -n2 "
                  f"--rdma-nccl=layout=rank,port_range=24000-24399 bash -c '{task}' & done; wait; rm -r $d")
        output = self.good("salloc", "-Q", "-N2", "--ntasks-per-node=2", "bash", "-c", script)
        ports = {}
        for step, _, port in (line.split() for line in output.splitlines()):
            ports.setdefault(step, set()).add(port)
        self.assertEqual(len(ports), 50)
        self.assertTrue(all(len(own) == 1 for own in ports.values()), "nodes of one step have different ports")
        self.assertEqual(len(set().union(*ports.values())), 50)

    def test_steps_on_a_subset(self):
        output = self.good("salloc", "-Q", "-N4", "--ntasks-per-node=1", "bash", "-c",
                           "for n in n02,n03 n04,n01; do srun --overlap -N2 -n2 -w $n --rdma-nccl=layout=rank "
                           "bash -c 'echo $(hostname) $RANK $MASTER_ADDR'; done")
        self.assertEqual(sorted(output.splitlines()), ["n01 0 25.11.128.2", "n02 0 25.11.128.3", "n03 1 25.11.128.3", "n04 1 25.11.128.2"])

    def test_arbitrary_distribution(self):
        hosts = self.file("hosts", "n03", "n01", "n01", "n02")
        output, messages = self.step("srun", "-n4", "-m", "arbitrary", "--rdma-nccl", *show(*CONTRACT), user="root", SLURM_HOSTFILE=hosts)
        lines = self.ranks(output)
        self.assertEqual([line["HOST"] for line in lines], ["n03", "n01", "n01", "n02"])
        self.assertEqual({line["MASTER_ADDR"] for line in lines}, {"25.11.128.4"})
        self.assertIn("head n03 (25.11.128.4:", messages)
        self.assertNotIn("warning", messages)

    def test_heterogeneous_steps(self):
        pi = ["--rdma-nccl=layout=rank", "-n1", "-w", "n02", "pi", ":", "-n2", "-w", "n01", "pi"]
        for command in (["salloc", "-Q", "-N2", "--ntasks-per-node=2", "srun", *pi], ["srun", *pi]):
            output, messages = self.step(*command)
            self.assertRegex(output, r"from 3 ranks on 2 nodes \(n01: 2, n02: 1\)")
            self.assertIn("rank layout, 3 tasks on 2 nodes, head n02 (25.11.128.3:", messages)
            self.assertNotIn("warning", messages)

    def test_one_component_of_a_heterogeneous_job(self):
        output = self.good("salloc", "-Q", "-N1", "-w", "n02", ":", "-N2", "-w", "n03,n04", "bash", "-c",
                           "srun --het-group=1 --rdma-nccl=layout=rank bash -c 'echo $RANK $WORLD_SIZE $MASTER_ADDR'")
        self.assertEqual(sorted(output.splitlines()), ["0 2 25.11.128.4", "1 2 25.11.128.4"])

    def job(self, name: str, wanted: int, *options: str) -> list[str]:
        """The lines that the tasks of a batch job printed, `wanted` of all runs and all tasks of an array."""
        output = f"{self.cluster.dir}/{name}-%a-%A.out"
        script = self.file(f"{name}.sh", "#!/bin/bash", "#SBATCH --rdma-nccl=layout=rank",
                           "srun bash -c 'echo $SLURM_ARRAY_TASK_ID:${SLURM_RESTART_COUNT-0} $RANK/$WORLD_SIZE $MASTER_ADDR'",
                           "if [ $1 = again ] && [ ${SLURM_RESTART_COUNT:-0} = 0 ]; then",
                           "    scontrol requeue $SLURM_JOB_ID; sleep 60", "fi")
        command = ["sbatch", "--parsable", "--requeue", "--open-mode=append", "-N2", "--ntasks-per-node=1", "-o", output, *options[1:]]
        job = self.good(*command, script, options[0], user="root").strip()
        deadline = time.monotonic() + 90
        lines: list[str] = []
        while len(lines) < wanted and time.monotonic() < deadline:
            # A job that was requeued waits two minutes, for its credential to expire, unless it is told not to. But in
            # the second of its revocation slurmd still refuses the new one (slurm_cred.c compares whole seconds): so
            # not before the first run's lines are two seconds old.
            time.sleep(2)
            if lines:
                self.cluster.run("scontrol", "update", f"jobid={job}", "StartTime=now", user="root")
            lines = self.lines_of(name)
        if len(lines) < wanted:
            self.fail(f"{len(lines)} of {wanted} lines; {self.cluster.run('scontrol', 'show', 'job', job).stdout}")
        return sorted(lines)

    def lines_of(self, name: str) -> list[str]:
        lines = []
        for found in os.listdir(self.cluster.dir):
            if found.startswith(f"{name}-"):
                with open(os.path.join(self.cluster.dir, found), encoding="utf-8") as file:
                    lines += [line for line in file.read().splitlines() if re.match(r"\d*:\d", line)]
        return lines

    def test_array(self):
        lines = self.job("array", 6, "once", "-a", "1-3")
        self.assertEqual([line.split()[:2] for line in lines], [[f"{task}:0", f"{rank}/2"] for task in "123" for rank in "01"])
        self.assertTrue(all(line.split()[2].startswith("25.11.128.") for line in lines), lines)

    def test_requeue(self):
        lines = self.job("requeued", 4, "again")
        self.assertEqual([line.split()[:2] for line in lines], [[f":{run}", f"{rank}/2"] for run in "01" for rank in "01"])

    def test_srun_of_another_user_cannot_join(self):
        """The variable with the secret is seen by nobody but the step's own slurmstepd."""
        step = self.start("srun", "-N2", "--rdma-nccl", "sleep", "5")
        self.hear(step, "head n01")
        found = self.cluster.run("bash", "-c", "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep SLURM_RDMA_NCCL", user="bob")
        self.assertEqual(found.stdout, "")
        step.communicate(timeout=60)

    def test_strangers_at_the_port(self):
        """Whoever connects to srun's ports while a step starts, and says nothing, or nonsense, changes nothing. (Not to
        slurmctld's, 6817: that of 25.11.7 grew by it to 23 GB of memory.)"""
        noise = self.start("bash", "-c", "end=$((SECONDS + 6)); while ((SECONDS < end)); do for port in $(ss -Hltn | awk '{sub(/.*:/, \"\", $4); "
                           "print $4}' | grep -vx 6817 | sort -u); do (exec 3<>/dev/tcp/127.0.0.1/$port && head -c 3000 /dev/urandom >&3) 2>/dev/null; done; done",
                           user="bob")
        for _ in range(5):
            _, messages = self.step("srun", "-N4", "--rdma-nccl", "true")
            self.assertRegex(messages, SUMMARY)
            self.assertNotIn("warning", messages)
        noise.communicate(timeout=60)


class Trouble(ExchangeTest):
    """What goes wrong between nodes."""

    arguments = ["--nodes", "3", "--gpus", "2"]

    def on_node(self, node: str, *command: str) -> None:
        self.good(*command, user="root", node=node)

    def test_an_unreachable_fabric_address_on_one_node(self):
        self.on_node("n02", "ip", "route", "add", "unreachable", "25.11.128.2/32")
        try:
            output, messages = self.step("srun", "-N3", "--ntasks-per-node=1", "--rdma-nccl=layout=rank", "bash", "-c", "echo $MASTER_ADDR")
        finally:
            self.on_node("n02", "ip", "route", "del", "unreachable", "25.11.128.2/32")
        self.assertEqual(set(output.split()), {"25.11.128.34"})
        self.assertIn("rdma-nccl: n02: warning: cannot connect to 25.11.128.2 of n01, on the fabric (eth1): No route to host; "
                      "MASTER_ADDR is 25.11.128.34", messages)

    def test_no_fabric_address_can_be_reached(self):
        self.on_node("n02", "ip", "route", "add", "unreachable", "25.11.128.2/32")
        self.on_node("n02", "ip", "route", "add", "unreachable", "25.11.128.34/32")
        try:
            output, messages = self.step("srun", "-N3", "--ntasks-per-node=1", "--rdma-nccl=layout=rank", "bash", "-c", "echo $MASTER_ADDR")
        finally:
            self.on_node("n02", "ip", "route", "del", "unreachable", "25.11.128.2/32")
            self.on_node("n02", "ip", "route", "del", "unreachable", "25.11.128.34/32")
        self.assertEqual(set(output.split()), {"10.0.60.3"})
        self.assertIn("cannot connect to 25.11.128.34 of n01", messages)

    def test_a_node_that_does_not_come_in_time(self):
        hang = self.slow_node("n03")
        try:
            output, messages = self.step("srun", "-N3", "--ntasks-per-node=1", "--rdma-nccl=layout=rank,exchange=3", "bash", "-c",
                                         "echo $MASTER_ADDR")
        finally:
            hang.communicate()
        self.assertEqual(output.split(), ["10.0.60.3"] * 3)
        self.assertIn("rdma-nccl: waiting for 1 of 3 nodes: n03 (2 s)", messages)
        self.assertIn("rdma-nccl: warning: 1 of 3 nodes did not report within 3 s: n03 (no plugin there?", messages)
        self.assertEqual(messages.count("each node plans alone"), 1, messages)
        strict = self.slow_strict_step()
        self.assertEqual((strict.returncode, strict.stdout), (1, ""), strict.stderr)

    def slow_strict_step(self):
        hang = self.slow_node("n03")
        try:
            return self.cluster.run("srun", "-N3", "--ntasks-per-node=1", "--rdma-nccl=strict,exchange=1", "echo", "ran")
        finally:
            hang.communicate()

    def test_differences_are_told_once_and_end_a_strict_step(self):
        port = os.path.join("root/sys/class/infiniband/mlx5_3/ports/1/state")
        self.on_node("n02", "bash", "-c", f"echo '1: DOWN' > {self.cluster.dir}/{port}")
        try:
            _, messages = self.step("srun", "-N3", "--ntasks-per-node=1", "--rdma-nccl", "true")
            strict = self.cluster.run("srun", "-N3", "--ntasks-per-node=1", "--rdma-nccl=strict", "echo", "ran")
        finally:
            self.on_node("n02", "bash", "-c", f"echo '4: ACTIVE' > {self.cluster.dir}/{port}")
        self.assertEqual(messages.count("7 HCA ports in use (without mlx5_3:1); 2 nodes have 8 HCA ports in use"), 1, messages)
        self.assertRegex(messages, r"(?m)^rdma-nccl: n02: warning: 7 HCA ports")
        self.assertEqual((strict.returncode, strict.stdout), (1, ""))
        self.assertIn("strict: the step is ended: n02: ", strict.stderr)

    def test_crossed_rails_are_named_and_do_not_end_a_strict_step(self):
        with self.crossed_rails("n02"):
            output, messages = self.step("srun", "-N3", "--ntasks-per-node=1", "--rdma-nccl=strict", "echo", "ran")
        self.assertEqual(output.split(), ["ran"] * 3)
        self.assertRegex(messages, r"(?m)^rdma-nccl: n02: mlx5_2:1 in [0-9./]+, mlx5_3:1 in [0-9./]+; 2 nodes have these networks"
                                   " in another order, so NCCL may connect HCAs of different rails")
        self.assertEqual(messages.count("another order"), 1, messages)

    def test_the_same_warning_of_all_nodes_is_one_line(self):
        _, messages = self.step("srun", "-N3", "--ntasks-per-node=1", "--rdma-nccl=hca=mlx5_77+mlx5_1", "true")
        self.assertEqual(messages.count("no HCA mlx5_77 on this node"), 1)
        self.assertIn("rdma-nccl: n[01-03]: warning: ", messages)

    def slow_node(self, node: str) -> subprocess.Popen:
        """Something on `node` that takes as long to open as this process lives (see test_plugin.py)."""
        from test_plugin import HANG
        state = os.path.join(self.cluster.dir, "root/sys/class/infiniband/mlx5_3/ports/1/state")
        where = [CLUSTER, "exec", "--dir", self.cluster.dir, "--node", node, "--"]
        hang = subprocess.Popen([*where, PYTHON, "-c", HANG, state], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if hang.stdout.readline() != "ready\n":
            hang.communicate()
            self.skipTest("no fanotify permission events here, which make a node slow")
        return hang

    def test_a_slurmstepd_that_is_killed_in_the_middle(self):
        # There is one process table for all nodes of a cluster, but a network for each. The program waits for its input:
        # n02 does not wait long for what hangs, and the nodes have agreed then.
        kill = r"echo ready; read && exec pkill -KILL --ns $$ --nslist net -f 'slurmstepd: \[[0-9]+\.[0-9]+\]'"
        killer = self.start("bash", "-c", kill, user="root", node="n03", stdin=subprocess.PIPE)
        self.assertEqual(killer.stdout.readline(), "ready\n")
        hang = self.slow_node("n02")
        try:
            step = self.start("srun", "-N3", "--ntasks-per-node=1", "--rdma-nccl", "true")
            self.hear(step, r"waiting for 1 of 3 nodes: n02 \(2 s\)")
            killer.communicate("\n")
            self.assertEqual(killer.returncode, 0)
            told = self.hear(step, "n03 was lost")
        finally:
            hang.communicate()
        self.assertEqual(told, "rdma-nccl: warning: n03 was lost before the nodes of the step had agreed: each node plans alone\n")
        # srun itself waits for tasks of a slurmstepd that is gone, with and without us: since 23.11 for minutes.
        self.settle()
        self.cluster.run("pkill", "-KILL", "-x", "srun")
        step.communicate(timeout=60)

    def test_an_srun_that_is_killed(self):
        hang = self.slow_node("n02")
        try:
            step = self.start("bash", "-c", "echo $$ >&2; exec srun -N3 --ntasks-per-node=1 --rdma-nccl sleep 1000")
            self.hear(step, r"waiting for 1 of 3 nodes: n02 \(2 s\)")
            self.good("pkill", "-KILL", "-x", "srun")
            step.communicate(timeout=60)
        finally:
            hang.communicate()
        self.settle()
        self.assertEqual(self.leftovers(), [])

    def test_a_signal_while_nodes_wait(self):
        hang = self.slow_node("n02")
        try:
            step = self.start("srun", "-N3", "--ntasks-per-node=1", "--rdma-nccl", "sleep", "1000")
            self.hear(step, r"waiting for 1 of 3 nodes: n02 \(2 s\)")
            deadline = time.monotonic() + 60
            while step.poll() is None and time.monotonic() < deadline:  # two within a second end a step
                self.cluster.run("bash", "-c", "pkill -INT -x srun; sleep 0.1; pkill -INT -x srun; sleep 0.3")
            step.communicate(timeout=60)
        finally:
            hang.communicate()
            self.settle()

    def settle(self) -> None:
        """No job is left, and nobody of it lives."""
        self.good("scancel", "--user=alice")
        deadline = time.monotonic() + 60
        while self.good("squeue", "--noheader", user="root").strip() and time.monotonic() < deadline:
            time.sleep(0.2)
        self.assertEqual(self.good("squeue", "--noheader", user="root"), "")
        self.assertEqual(self.cluster.run("pgrep", "-fa", r"slurmstepd: \[|sleep 1000", user="root").stdout, "")
        self.good("scontrol", "reconfigure", user="root")  # a node that did not answer in time is asked now, not in 100 s
        self.assertIn("head n01", self.step("srun", "-N3", "--rdma-nccl", "true")[1])

    def test_hosts_are_listed_without_a_topology_too(self):
        result = self.cluster.run("salloc", "-Q", "-N3", "--ntasks-per-node=2", "rdma-nccl", "order")
        self.assertEqual(result.stdout.split(), ["n01", "n01", "n02", "n02", "n03", "n03"])
        self.assertRegex(result.stderr, r"\Ardma-nccl: order: 3 nodes, scontrol show topology: the order stays as given: .*\n\Z")
        self.assertEqual(result.returncode, 1)

    def test_exchange_off(self):
        output, messages = self.step("srun", "-N3", "--ntasks-per-node=1", "--rdma-nccl=layout=rank,exchange=off", "bash", "-c", "echo $MASTER_ADDR")
        self.assertEqual(output.split(), ["10.0.60.3"] * 3)
        self.assertRegex(messages, r"\Ardma-nccl: n01: rank layout, 3 tasks on 3 nodes, head n01 \(10\.0\.60\.3:\d+\), .*\n\Z")


RAILS_OF_N02 = json.dumps({"why": "by network", "ports": [{"port": "mlx5_1:1", "rail": 7}], "node": "n02"})


class Topology(ExchangeTest):
    """Two leaf switches, whose nodes have names in turn: s1 has n01 and n03, s2 has n02 and n04."""

    arguments = ["--nodes", "4", "--gpus", "1,2,1,1", "--slurm-conf", "TopologyPlugin=topology/tree", "--slurm-conf", "KillOnBadExit=1",
                 "--topology", "SwitchName=s1 Nodes=n01,n03", "--topology", "SwitchName=s2 Nodes=n02,n04",
                 "--topology", "SwitchName=spine Switches=s[1-2]"]
    by_topology = "--rdma-nccl=order=topology"
    changed = "rdma-nccl: order=topology: a ring of nodes leaves its switches or blocks 2 times, not 4\n"

    def ranks_of(self, *command: str, **variables: str) -> tuple[list[str], str]:
        """Each task's host, RANK, NODE_RANK and SLURM_PROCID, by RANK; and the messages."""
        output, messages = self.step(*command, *show("RANK", "NODE_RANK", "SLURM_PROCID", "MASTER_ADDR"), **variables)
        lines = self.ranks(output)
        self.assertEqual({line["MASTER_ADDR"] for line in lines}, {"25.11.128.2"}, "n01, where RANK and SLURM_PROCID are 0")
        return [f"{line['HOST']} {line['RANK']} {line['NODE_RANK']} {line['SLURM_PROCID']}" for line in lines], messages

    def test_slurm_says_where_nodes_are(self):
        output, _ = self.step("srun", "-N4", "bash", "-c", "echo $SLURM_TOPOLOGY_ADDR $SLURM_TOPOLOGY_ADDR_PATTERN")
        self.assertEqual(sorted(output.splitlines()), [f"spine.{place} switch.switch.node" for place in ("s1.n01", "s1.n03", "s2.n02", "s2.n04")])

    def test_ranks_of_a_switch_are_in_a_row(self):
        wanted = ["n01 0 0 0", "n01 1 0 1", "n03 2 1 4", "n03 3 1 5", "n02 4 2 2", "n02 5 2 3", "n04 6 3 6", "n04 7 3 7"]
        found, messages = self.ranks_of("srun", "-N4", "--ntasks-per-node=2", self.by_topology)
        self.assertEqual(found, wanted)
        self.assertIn(self.changed, messages)
        found, messages = self.ranks_of("srun", "-N4", "--ntasks-per-node=2", "--rdma-nccl=order=auto")
        self.assertEqual(found, wanted)
        self.assertIn(self.changed.replace("topology", "auto"), messages)
        found, messages = self.ranks_of("srun", "-N4", "--ntasks-per-node=2", "--rdma-nccl=order=slurm")
        self.assertEqual(found, [f"n0{i // 2 + 1} {i} {i // 2} {i}" for i in range(8)])
        self.assertNotIn("order=", messages)

    def test_slurms_own_choice_of_a_distribution_does_not_count_as_the_users(self):
        """In a job of salloc, srun exports the distribution that it chose: cyclic for one task per node."""
        step = ["salloc", "-Q", "-N4", "srun", "--rdma-nccl=layout=rank,order=topology"]
        self.assertIn("cyclic", self.good(*step, *show("SLURM_DISTRIBUTION")))
        found, messages = self.ranks_of(*step)
        self.assertEqual(found, ["n01 0 0 0", "n03 1 1 2", "n02 2 2 1", "n04 3 3 3"])
        self.assertIn(self.changed, messages)

    def test_slurms_order_stays_where_something_else_numbers_the_tasks(self):
        both = ["srun", "-N4", "--ntasks-per-node=2", self.by_topology]
        stays = "order=topology: Slurm's stays: "
        found, messages = self.ranks_of(*both, "-m", "cyclic")
        self.assertEqual(found, [f"n0{i % 4 + 1} {i} {i % 4} {i}" for i in range(8)])
        self.assertIn(f"{stays}a node's tasks are not in a row: give --distribution=block\n", messages)
        hostfile = self.file("hostfile", "n02", "n01", "n04", "n03")
        output, messages = self.step("srun", "-m", "arbitrary", "-n4", "--rdma-nccl=layout=rank,order=topology",
                                     *show("RANK", "SLURM_PROCID"), SLURM_HOSTFILE=hostfile)
        self.assertEqual([line["HOST"] for line in self.ranks(output)], ["n02", "n01", "n04", "n03"])
        self.assertIn(f"{stays}n02: --distribution=arbitrary was asked for\n", messages)
        found, messages = self.ranks_of(*both, "--mpi=pmi2")
        self.assertEqual(found, [f"n0{i // 2 + 1} {i} {i // 2} {i}" for i in range(8)])
        self.assertIn(f"{stays}MPI (pmi2) numbers the ranks: give --mpi=none\n", messages)
        component = ["-N2", "--ntasks-per-node=1", *show("RANK")]
        output, messages = self.step("srun", "--rdma-nccl=layout=rank,order=topology", "-w", "n01,n02", *component, ":",
                                     "-w", "n03,n04", *component)
        self.assertEqual([line["HOST"] for line in self.ranks(output)], ["n01", "n02", "n03", "n04"])
        self.assertRegex(messages, f"{stays}n0[1-4]: the step is heterogeneous\n")
        for nodes in ("n01,n03", "n01,n02"):
            _, messages = self.ranks_of("srun", "-N2", "-w", nodes, self.by_topology)
            self.assertIn(f"{stays}the nodes of each switch or block are together\n", messages)
        _, messages = self.ranks_of("srun", "-N2", "-w", "n01,n03", "--rdma-nccl=order=auto")
        self.assertNotIn("order=", messages)
        _, messages = self.step(*both[:-1], "--rdma-nccl=order=topology,exchange=off", "true")
        self.assertIn(f"{stays}the nodes have not agreed\n", messages)

    def test_launchers_number_their_ranks_by_it(self):
        """Nodes with 1, 2, 1 and 1 GPUs."""
        step = ["srun", "-N4", "--ntasks-per-node=1", "--rdma-nccl=order=topology,hosts=file"]
        output, _ = self.step(*step, "bash", "-c", "echo $(hostname) $RDMA_NCCL_RANKS $PET_NODE_RANK $PET_RDZV_CONF; "
                              "[ $SLURM_PROCID != 3 ] || cat $RDMA_NCCL_HOSTFILE")
        self.assertEqual(sorted(line for line in output.splitlines() if "slots" not in line),
                         ["n01 0:1:5 0 is_host=1", "n02 2:2:5 2", "n03 1:1:5 1", "n04 4:1:5 3"])
        self.assertEqual([line for line in output.splitlines() if "slots" in line],
                         ["n01 slots=1", "n03 slots=1", "n02 slots=2", "n04 slots=1"])
        output, _ = self.step(*step, "rdma-nccl", "run", "--", *show("RANK"))
        hosts = [line["HOST"] for line in self.ranks(re.sub(r"(?m)^\[[^]]*\] ?", "", output))]
        self.assertEqual(hosts, ["n01", "n03", "n02", "n02", "n04"])
        slurms = self.cluster.run(*step, "bash", "-c", "[ $SLURM_NODEID != 1 ] || rdma-nccl run --node-rank $SLURM_NODEID -- true")
        self.assertIn('--node-rank "1": the order by the network gave this node another number', slurms.stderr)
        output, _ = self.step(*step, "rdma-nccl", "run", "pi")
        self.assertRegex(output, r"from 5 ranks on 4 nodes \(n01: 1, n02: 2, n03: 1, n04: 1\)")

    def test_a_list_of_hosts_in_the_order_of_the_network(self):
        hosts = self.file("hosts")
        os.chmod(hosts, 0o666)
        output, messages = self.step("salloc", "-Q", "-N4", "--ntasks-per-node=2", "bash", "-c",
                                     f"rdma-nccl order > {hosts}; SLURM_HOSTFILE={hosts} srun -m arbitrary --rdma-nccl=layout=rank \"$@\"",
                                     "bash", *show("RANK", "SLURM_PROCID"), SLURM_TOPO_LEN="30")
        self.assertEqual([f"{line['HOST']} {line['RANK']} {line['SLURM_PROCID']}" for line in self.ranks(output)],
                         [f"n0{'1324'[i // 2]} {i} {i}" for i in range(8)])
        self.assertIn("rdma-nccl: order: 4 nodes, scontrol show topology: a ring of nodes leaves its switches or blocks 2 times, not 4\n", messages)
        output, _ = self.step("salloc", "-Q", "-N3", "rdma-nccl", "order", "--json")
        schemas.check("order", json.loads(output))

    def test_the_network_is_shown(self):
        """In a job, whose variables are no options of the step that asks the nodes; and in a task."""
        with self.crossed_rails("n02"):
            output, messages = self.step("salloc", "-Q", "-N4", "--ntasks-per-node=2", "--cpus-per-task=2", "rdma-nccl", "topo", "--network",
                                         SRUN_CPUS_PER_TASK="3", SLURM_DISTRIBUTION="arbitrary")
            report, _ = self.step("salloc", "-Q", "-w", "n01,n02", "rdma-nccl", "topo", "--network", "--json")
        self.assertEqual(messages, "")
        table, usual, crossed = output.split("\n\n")
        self.assertEqual([line.split() for line in table.splitlines()[1:]],
                         [["spine", "4", "n[01-04]"], ["s1", "2", "n[01,03]"], ["s2", "2", "n[02,04]"]])
        self.assertIn("rails of n[01,03-04] by network: mlx5_1:1=0, mlx5_2:1=1, mlx5_3:1=2, ", usual)
        self.assertIn("rails of n02 by network: mlx5_1:1=0, mlx5_2:1=2, mlx5_3:1=1, ", crossed)
        schemas.check("network", json.loads(report))
        self.assertEqual([node["rails"]["ports"][1]["rail"] for node in json.loads(report)["nodes"]], [1, 2])
        output, _ = self.step("srun", "-N1", "-w", "n01", "rdma-nccl", "topo", "--network")
        self.assertIn("n01\n\nrails of n01 by network: mlx5_1:1=0, mlx5_2:1=1, ", output, "a node knows its own")

    def test_a_node_whose_rails_are_not_known(self):
        """What one node does harms none of the others."""
        other = self.file("other", "#!/bin/sh", f"echo 'rdma-nccl-report .{RAILS_OF_N02}'", "exit 127")
        os.chmod(other, 0o755)
        for program, unknown in (("/bin/false", "n03"), (other, "n[02-03]")):
            with self.subTest(program):
                self.replace("rdma-nccl", program, "n03")
                output, messages = self.step("salloc", "-Q", "-N4", "rdma-nccl", "topo", "--network")
                self.doCleanups()
                self.assertIn(f"\n\nrails of n[{'01-02' if unknown == 'n03' else '01'},04] by network: ", output)
                self.assertEqual(messages.splitlines()[-1],
                                 f"rdma-nccl: topo --network: no rails of {unknown}: is rdma-nccl installed there?")

    def test_a_node_that_hangs_is_not_waited_for(self):
        """When the user has enough: the others' rails are shown, and no step is left."""
        done = f"{self.cluster.dir}/home/alice/done"
        program = self.file("hangs", "#!/bin/sh", "[ $SLURMD_NODENAME != n03 ] || exec sleep 1000",
                            f"{BUILD}/rdma-nccl \"$@\"; touch {done}.$SLURMD_NODENAME")
        os.chmod(program, 0o755)
        self.replace("rdma-nccl", program, "n01", "n02", "n03", "n04")
        topo = self.start("salloc", "-Q", "-N4", "sh", "-c", "rdma-nccl topo --network & echo $!; wait $!; echo ended with $?; "
                          "until [ -z \"$(squeue --noheader --steps)\" ]; do sleep 0.1; done")
        asking = int(topo.stdout.readline())
        deadline = time.monotonic() + TIME_LIMIT
        while not all(os.path.exists(f"{done}.{node}") for node in ("n01", "n02", "n04")):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        self.good("kill", "-TERM", str(asking))  # a shell's background job ignores INT
        output, messages = topo.communicate(timeout=TIME_LIMIT)
        self.assertIn("\n\nrails of n[01-02,04] by network: ", output)
        self.assertIn("rdma-nccl: topo --network: no rails of n03: interrupted\n", messages)
        self.assertIn("\nended with 143\n", output)

    def test_an_interrupt_before_the_nodes_are_asked(self):
        """slurmctld is slow, so squeue is."""
        slow = self.file("squeue", "#!/bin/sh", "kill -TERM $PPID", "exec sleep 1000")
        os.chmod(slow, 0o755)
        topo = f"PATH={os.path.dirname(slow)}:$PATH rdma-nccl topo --network; echo ended with $?"
        result = self.cluster.run("salloc", "-Q", "-N2", "sh", "-c", topo)
        self.assertIn("rdma-nccl: topo --network: no rails of n[01,03]: interrupted\n", result.stderr)
        self.assertIn("\nended with 143\n", result.stdout)

    def test_explain_tells_the_order(self):
        output, _ = self.step("srun", "-N4", "--ntasks-per-node=1", "--rdma-nccl=layout=rank,order=topology", "bash", "-c",
                              "[ $SLURM_PROCID != 2 ] || rdma-nccl explain")
        self.assertRegex(output, r"(?m)^  order of nodes: topology \(SLURM_TOPOLOGY_ADDR is spine\.s1\.n03\)$")
        self.assertIn("\n  RANK=1  [plugin: set for this step]\n", output)
        output, _ = self.step("srun", "-N2", "-w", "n01,n03", "--rdma-nccl=layout=rank", "bash", "-c",
                              "[ $SLURM_PROCID != 1 ] || rdma-nccl explain",
                              RDMA_NCCL_ORDER="topology", RDMA_NCCL_NODE_ORDER="topology")
        self.assertIn("\n  order of nodes: Slurm's (srun says why when the step starts, with verbose=2)\n", output)
        heterogeneous = self.cluster.run("salloc", "-Q", "-N1", ":", "-N1", "rdma-nccl", "explain", "--set", "order=topology")
        self.assertIn("\norder by the network\n  not known: a heterogeneous job has several lists of nodes\n\n", heterogeneous.stdout)
        before = self.cluster.run("salloc", "-Q", "-N4", "rdma-nccl", "explain", "--set", "order=topology")
        self.assertIn("\n  order of nodes: open (its nodes agree when a step starts, and srun says why with verbose=2)\n", before.stdout)
        self.assertIn("\norder by the network\n  n01,n03,n02,n04\n  4 nodes, scontrol show topology: a ring of nodes leaves its switches or "
                      "blocks 2 times, not 4\n  DEPTH  CROSSINGS  IN SLURM'S ORDER\n  1      0          0\n  2      2          4\n", before.stdout)


def nodes_at_random_in_leaves() -> dict[str, str]:
    """The leaf switch of each of 64 nodes; the same in each run."""
    leaves = [f"l{i % 8}" for i in range(64)]
    random.Random(64).shuffle(leaves)
    return {f"n{i + 1:02}": leaf for i, leaf in enumerate(leaves)}


def topology_of(leaves: dict[str, str]) -> list[str]:
    """Options of `cluster up`."""
    lines = [f"SwitchName={leaf} Nodes=" + ",".join(node for node in leaves if leaves[node] == leaf) for leaf in set(leaves.values())]
    return [word for line in [*lines, "SwitchName=spine Switches=l[0-7]"] for word in ("--topology", line)]


class ManyLeaves(ExchangeTest):
    leaf_of = nodes_at_random_in_leaves()
    arguments = ["--nodes", "64", "--gpus", "1", "--fabric", "bond", "--slurm-conf", "TopologyPlugin=topology/tree",
                 *topology_of(leaf_of)]

    def leaves(self, hosts: list[str]) -> list[str]:
        """Of each host in turn, without repeats."""
        self.assertEqual(sorted(hosts), sorted(self.leaf_of))
        self.assertEqual(hosts[0], "n01")
        return [leaf for leaf, _ in itertools.groupby(self.leaf_of[host] for host in hosts)]

    def test_each_leaf_has_its_ranks_in_a_row(self):
        output, messages = self.step("srun", "-N64", "--ntasks-per-node=1", "--rdma-nccl=layout=rank,order=topology", *show("RANK"))
        hosts = [line["HOST"] for line in self.ranks(output)]
        self.assertEqual(len(self.leaves(hosts)), 8)
        leaves = list(self.leaf_of.values())
        before = sum(leaf != leaves[i - 1] for i, leaf in enumerate(leaves))
        self.assertIn(f"rdma-nccl: order=topology: a ring of nodes leaves its switches or blocks 8 times, not {before}\n", messages)
        output, _ = self.step("salloc", "-Q", "-N64", "rdma-nccl", "order")
        self.assertEqual(output.split(), hosts)


def slurm_release() -> tuple[int, ...]:
    version = subprocess.run(["slurmd", "-V"], text=True, capture_output=True, check=True).stdout
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


@unittest.skipIf(slurm_release() < (24, 5), "this Slurm does not say which block a node is in")
class Blocks(ExchangeTest):
    """Two NVLink blocks, whose nodes have names in turn. Slurm 26.05 numbers the tasks by block itself."""

    arguments = ["--nodes", "8", "--gpus", "1", "--slurm-conf", "TopologyPlugin=topology/block",
                 "--topology", "BlockName=b1 Nodes=n01,n03,n05,n07", "--topology", "BlockName=b2 Nodes=n02,n04,n06,n08",
                 "--topology", "BlockSizes=4"]
    hosts = ["n01", "n03", "n05", "n07", "n02", "n04", "n06", "n08"]

    def test_ranks_of_a_block_are_in_a_row(self):
        step = ["srun", "-N8", "--ntasks-per-node=1", "--rdma-nccl=layout=rank,order=topology"]
        output, messages = self.step(*step, *show("RANK", "NODE_RANK", "SLURM_TOPOLOGY_ADDR", "SLURM_TOPOLOGY_ADDR_PATTERN"))
        self.assertEqual([f"{line['RANK']} {line['NODE_RANK']} {line['SLURM_TOPOLOGY_ADDR']} {line['SLURM_TOPOLOGY_ADDR_PATTERN']}"
                          for line in self.ranks(output)],
                         [f"{i} {i} b{i // 4 + 1}.{host} block.node" for i, host in enumerate(self.hosts)])
        said = "stays: the nodes of each" if slurm_release() >= (26, 5) else "a ring of nodes leaves its switches or blocks 2 times, not 8"
        self.assertIn(said, messages)

    def test_a_list_of_hosts_by_block(self):
        output, messages = self.step("salloc", "-Q", "-N8", "rdma-nccl", "order")
        self.assertEqual(output.split(), self.hosts)
        self.assertIn("a ring of nodes leaves its switches or blocks 2 times, not 8\n", messages)
        output, messages = self.step("salloc", "-Q", "-N8", "rdma-nccl", "topo", "--network")
        self.assertEqual(messages, "")
        table, rails = output.split("\n\n")
        self.assertEqual([line.split() for line in table.splitlines()[1:]],
                         [["b1", "4", "n[01,03,05,07]"], ["b2", "4", "n[02,04,06,08]"]])
        self.assertIn("rails of n[01-08] by network: ", rails)


class FabricProfiles(ExchangeTest):
    """Two machines of Oracle's shape with H100 GPUs, by their firmware, and one that only has the same hardware."""

    arguments = ["--nodes", "3", "--gpus", "8"]
    values = ["bash", "-c", "echo $SLURMD_NODENAME ${NCCL_IB_TC-none} ${NCCL_IB_SPLIT_DATA_ON_QPS-none}"]

    def setUp(self):
        dmi = os.path.join(self.cluster.dir, "root/sys/class/dmi/id")
        for node in ("n01", "n02"):
            self.good("bash", "-c", f"mkdir -p {dmi}; echo OracleCloud.com > {dmi}/chassis_asset_tag", node=node, user="root")

    def test_nodes_that_agree_have_its_values(self):
        output, messages = self.step("srun", "-w", "n01,n02", "--rdma-nccl=fabric_profile=on", *self.values)
        self.assertEqual(sorted(output.splitlines()), ["n01 41 0", "n02 41 0"])
        self.assertEqual(len(messages.splitlines()), 1, messages)
        output, _ = self.step("srun", "-w", "n01,n02", "--rdma-nccl", *self.values)
        self.assertEqual(sorted(output.splitlines()), ["n01 none none", "n02 none none"])
        output, _ = self.step("srun", "-w", "n01,n02", "--rdma-nccl=fabric_profile=on", *self.values, NCCL_IB_TC="105")
        self.assertEqual(sorted(output.splitlines()), ["n01 105 0", "n02 105 0"])

    def test_another_node_in_the_step_takes_them_from_all(self):
        output, messages = self.step("srun", "-N3", "--rdma-nccl=fabric_profile=on", *self.values)
        self.assertEqual(sorted(output.splitlines()), ["n01 none none", "n02 none none", "n03 none none"])
        self.assertRegex(messages, r"(?m)^rdma-nccl: n03: no value of a fabric profile; .*5 values of oci-h100\.conf:\w+: none is set")

    def test_without_the_exchange_nothing_is_agreed(self):
        output, messages = self.step("srun", "-w", "n01,n02", "--rdma-nccl=fabric_profile=on,exchange=off", *self.values)
        self.assertEqual(sorted(output.splitlines()), ["n01 none none", "n02 none none"])
        self.assertIn("fabric_profile=on sets nothing without exchange=on", messages)


class MixedVersions(ExchangeTest):
    """Machines with a plugin or a command whose messages the others do not understand (tests/fake_release)."""

    arguments = ["--nodes", "3", "--gpus", "2"]
    LATER = r"rdma-nccl 9\.8\.7 \(protocol 99\)"
    OWN = r"\d+\.\d+\.\d+ \(protocol 2\)"

    def expect_one_warning(self, messages: str, pattern: str, about: str = "") -> None:
        warnings = [line for line in messages.splitlines() if "warning" in line and about in line]
        self.assertEqual(len(warnings), 1, messages)
        self.assertRegex(warnings[0], pattern)
        self.assertNotIn("did not report", messages)

    def expect_one_world(self, output: str) -> None:
        lines = self.ranks(output)
        self.assertEqual([(line["HOST"], line["RANK"]) for line in lines], [("n01", "0"), ("n02", "1"), ("n03", "2")])
        self.assertEqual({(line["WORLD_SIZE"], line["MASTER_ADDR"]) for line in lines}, {("3", "10.0.60.3")})
        self.assertEqual(len({line["MASTER_PORT"] for line in lines}), 1)

    def test_nodes_of_another_version_are_named_and_the_step_runs(self):
        self.install_later("rdma_nccl.so", "n02", "n03")
        step = ["srun", "-N3", "--ntasks-per-node=1", "--rdma-nccl=layout=rank"]
        output, messages = self.step(*step, *show(*CONTRACT))
        self.expect_one_warning(messages, rf"^rdma-nccl: warning: n\[02-03\] run {self.LATER}, srun runs {self.OWN}: "
                                "install the same on all nodes: each node plans alone$")
        self.expect_one_world(output)
        self.assertIn("from 3 ranks on 3 nodes", self.good(*step, "pi"))
        strict = self.cluster.run("srun", "-N3", "--ntasks-per-node=1", "--rdma-nccl=strict", "true")
        self.assertNotEqual(strict.returncode, 0)
        self.assertIn("install the same on all nodes", strict.stderr)

    def test_an_srun_of_another_version(self):
        self.install_later("rdma_nccl.so", "login")
        output, messages = self.step("srun", "-N3", "--ntasks-per-node=1", "--rdma-nccl=layout=rank", *show(*CONTRACT))
        self.expect_one_warning(messages, rf"^rdma-nccl: warning: n\[01-03\] run rdma-nccl {self.OWN}, srun runs 9\.8\.7 ")
        self.expect_one_world(output)

    def test_launchers_of_two_versions(self):
        self.install_later("rdma-nccl", "n02", "n03")
        launch = ["srun", "-N3", "--ntasks-per-node=1", "--kill-on-bad-exit=1", "--rdma-nccl", "rdma-nccl", "run"]
        output, messages = self.step(*launch, "pi")
        self.assertIn("from 6 ranks on 3 nodes", output)
        self.expect_one_warning(messages, rf"n01: .*: n\[02-03\] run {self.LATER}, n01 runs {self.OWN}: install",
                                about="only through Slurm")  # launchers also find no HCA of the plan on this machine
        failed = self.cluster.run(*launch, "bash", "-c", "[ $RANK != 3 ] || exit 37; sleep 1000")
        self.assertNotEqual(failed.returncode, 0)
        self.assertRegex(failed.stderr, r"rank 3 \(local 1\) on n02, .* exited with code 37")


class OnlyIpv6(ExchangeTest):
    """Nodes, and a Slurm, without IPv4."""

    arguments = ["--fabric", "bnxt-ipv6"]

    def test_they_meet(self):
        output, messages = self.step("srun", "-N2", "--ntasks-per-node=2", "--rdma-nccl", "pi")
        self.assertIn("from 4 ranks on 2 nodes", output)
        self.assertIn("head n01 ([fd93:16d3:59b6::5]:", messages)

    def test_net(self):
        output, _ = self.step("srun", "-N2", "--rdma-nccl=net=2001:db8:60::/64", "bash", "-c", "echo $MASTER_ADDR $PET_MASTER_ADDR")
        self.assertEqual(set(output.splitlines()), {"2001:db8:60::5 [2001:db8:60::5]"})


class PortRange(ExchangeTest):
    arguments = ["--slurm-conf", "SrunPortRange=21000-21040"]

    def test_srun_keeps_to_the_range(self):
        step = self.start("srun", "-N2", "--rdma-nccl", "sleep", "3")
        self.hear(step, "head n01")
        ports = {int(line.split()[3].rpartition(":")[2]) for line in
                 self.good("ss", "-Hltnp", user="root").splitlines() if '"srun"' in line}
        step.communicate(timeout=30)
        self.assertGreater(len(ports), 1)
        self.assertTrue(all(21000 <= port <= 21040 for port in ports), ports)


if __name__ == "__main__":
    main()
