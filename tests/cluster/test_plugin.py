#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the plugin and the command in a real Slurm: usage: test_plugin.py BUILD_DIR [TEST...]. As root."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import unittest

from cluster_test import CHECKOUT, CLUSTER, CONTRACT, PYTHON, ClusterTest, main, show

DDP = os.path.join(CHECKOUT, "examples", "ddp.py")

# What differs between any two steps of one job, with and without a plugin.
VOLATILE = re.compile(
    r"^(SLURM_STEP_?ID|SLURM_(STEP_)?LAUNCHER_PORT|SLURM_SRUN_COMM_PORT|SLURM_TASK_PID|SLURM_STEP_RESV_PORTS"
    r"|SLURM_STEP_LAUNCHER_PORT|TMPDIR|_)="
)


# Whoever opens one of the files given waits until this ends, at the end of its input: fanotify_init(2), fanotify_mark(2).
HANG = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
CLASS_CONTENT, MARK_ADD, OPEN_PERM, AT_FDCWD = 0x4, 0x1, 0x10000, -100
group = libc.fanotify_init(CLASS_CONTENT, 0)
for path in sys.argv[1:]:
    mask = ctypes.c_uint64(OPEN_PERM)
    if libc.fanotify_mark(group, MARK_ADD, mask, AT_FDCWD, path.encode()) != 0:
        sys.exit(f"fanotify: errno {ctypes.get_errno()}")
print("ready", flush=True)
sys.stdin.read()
"""


class TwoNodes(ClusterTest):
    """Two nine-HCA nodes."""

    def test_rank_layout(self):
        lines = self.ranks(self.good("srun", "-N2", "--ntasks-per-node=2", "--rdma-nccl", *show(*CONTRACT, "NCCL_IB_HCA")))
        self.assertEqual([line["RANK"] for line in lines], ["0", "1", "2", "3"])
        self.assertEqual([line["LOCAL_RANK"] for line in lines], ["0", "1", "0", "1"])
        self.assertEqual([line["HOST"] for line in lines], ["n01", "n01", "n02", "n02"])
        self.assertEqual({line["WORLD_SIZE"] for line in lines}, {"4"})
        self.assertEqual({line["MASTER_ADDR"] for line in lines}, {"25.11.128.2"})
        self.assertEqual(len({line["MASTER_PORT"] for line in lines}), 1)
        expected = "=" + ",".join(f"mlx5_{n}:1" for n in range(1, 9))
        self.assertEqual({line["NCCL_IB_HCA"] for line in lines}, {expected})

    def test_a_device_that_hangs_holds_up_no_step(self):
        state = os.path.join(self.cluster.dir, "root/sys/class/infiniband/mlx5_3/ports/1/state")
        where = [CLUSTER, "exec", "--dir", self.cluster.dir, "--node", "n01", "--"]
        command = [*where, PYTHON, "-c", HANG, state]
        hang = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            if hang.stdout.readline() != "ready\n":
                self.skipTest("no fanotify permission events here, which make a file hang")
            result = self.cluster.run("srun", "-N2", "--rdma-nccl", *show("SLURM_NODEID", "NCCL_IB_HCA"))
        finally:
            hang.communicate()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("n01: warning: mlx5_3 port 1 does not answer (its driver hangs): left out; reset the device", result.stderr)
        first, second = sorted(self.ranks(result.stdout), key=lambda line: line["SLURM_NODEID"])
        self.assertNotIn("mlx5_3", first["NCCL_IB_HCA"])
        self.assertNotIn("mlx5_3", second["NCCL_IB_HCA"], "nobody is left whom that rail could reach")

    def test_one_line_on_stderr_and_nothing_on_stdout(self):
        result = self.cluster.run("srun", "-N2", "--ntasks-per-node=2", "--rdma-nccl", "true")
        self.assertEqual(result.stdout, "")
        self.assertRegex(
            result.stderr,
            r"\Ardma-nccl: rank layout, 4 tasks on 2 nodes, head n01 \(25\.11\.128\.2:\d+\), "
            r"8 HCA ports \(mlx5_1:1\.\.mlx5_8:1\), GID index 3\n\Z",
        )
        self.assertEqual(self.cluster.run("srun", "-N2", "--rdma-nccl=verbose=0", "true").stderr, "")

    def test_the_plan_of_both_nodes(self):
        text = self.cluster.run("srun", "-N2", "--ntasks-per-node=8", "--rdma-nccl=verbose=3", "true").stderr
        for node in ("n01", "n02"):
            for line in ("NCCL_IB_GID_INDEX=3  [fabric: the same on all used ports]", "mlx5_0 port 1 is the management port",
                         "  MASTER_PORT=", "[slurm: first of SLURM_STEP_RESV_PORTS]"):
                self.assertRegex(text, f"(?m)^rdma-nccl: {node}: .*{re.escape(line)}")

    def test_steps_without_the_option_are_untouched(self):
        """The whole environment of a step, with the plugin in plugstack.conf and without it."""
        conf = os.path.join(self.cluster.dir, "etc", "plugstack.conf")
        step = "srun -N2 --ntasks-per-node=2 -l env; "
        script = f"{step} echo =====; mv {conf} {conf}.off; touch {conf}; {step} mv {conf}.off {conf}"
        output = self.good("salloc", "-Q", "-N2", "--ntasks-per-node=2", "bash", "-c", script, user="root")
        first, second = output.split("=====\n")
        clean = [sorted(line for line in part.splitlines() if not VOLATILE.match(line.split(": ", 1)[-1]))
                 for part in (first, second)]
        self.assertGreater(len(clean[0]), 100)
        self.assertEqual(clean[0], clean[1])
        self.assertNotIn("RDMA_NCCL", first)
        # and the comparison can fail:
        self.assertIn("RDMA_NCCL_SET", self.good("srun", "--rdma-nccl", "env"))

    def test_pi_by_forty_ranks(self):
        """doc/facts/recipes.md, M17: 2 nodes x 20 processes."""
        output = self.good("srun", "-N2", "--ntasks-per-node=20", "--rdma-nccl", "pi")
        self.assertRegex(output, r"^pi = 3\.1415926535\d+ .* from 40 ranks on 2 nodes \(n01: 20, n02: 20\)")

    def test_pi_by_the_launcher(self):
        output = self.good("srun", "-N2", "--ntasks-per-node=1", "--rdma-nccl", "rdma-nccl", "run", "-n", "20", "pi")
        self.assertRegex(output, r"^\[n01 0\] pi = 3\.1415926535\d+ .* from 40 ranks on 2 nodes \(n01: 20, n02: 20\)")

    def test_the_launcher_starts_one_rank_per_gpu(self):
        output = self.good("srun", "-N2", "--gpus-per-node=3", "--rdma-nccl", "rdma-nccl", "run", "pi")
        self.assertRegex(output, r"from 6 ranks on 2 nodes")

    def test_the_launcher_without_the_plugin(self):
        output = self.good("srun", "-N1", "rdma-nccl", "run", "-n", "4", "pi")
        self.assertRegex(output, r"from 4 ranks on 1 node")
        output = self.good("srun", "-N2", "--ntasks-per-node=1", "rdma-nccl", "run", "-n", "2", "--master-addr", "10.0.60.3", "pi")
        self.assertRegex(output, r"from 4 ranks on 2 nodes")

    def test_the_launchers_exit_code_is_the_failing_ranks(self):
        script = "[ $LOCAL_RANK = 1 ] && exit 37; sleep 100"
        result = self.cluster.run("srun", "-N1", "--rdma-nccl", "rdma-nccl", "run", "-n", "4", "bash", "-c", script)
        self.assertEqual(result.returncode, 37, result.stderr)
        self.assertRegex(result.stderr, r"rank 1 \(local 1\) on n01")
        # Over several nodes Slurm's own option spreads it; srun then returns the greatest code, of the tasks it ended.
        result = self.cluster.run("srun", "-N2", "--ntasks-per-node=1", "--kill-on-bad-exit=1", "--rdma-nccl", "rdma-nccl", "run",
                                  "-n", "4", "bash", "-c", script.replace("LOCAL_RANK = 1", "RANK = 5"))
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"rank 5 \(local 1\) on n02, .* exited with code 37")

    def test_node_layout_unsets_the_ranks(self):
        lines = self.ranks(self.good("srun", "-N2", "--gpus-per-node=4", "--rdma-nccl",
                                     *show(*CONTRACT, "PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE", "PET_MASTER_ADDR")))
        for line in lines:
            self.assertEqual((line["RANK"], line["WORLD_SIZE"], line["LOCAL_RANK"]), ("", "", ""))
            self.assertEqual((line["PET_NNODES"], line["PET_NPROC_PER_NODE"], line["PET_MASTER_ADDR"]), ("2", "4", "25.11.128.2"))
        self.assertEqual(sorted(line["PET_NODE_RANK"] for line in lines), ["0", "1"])

    def test_sbatch_reaches_the_srun_inside(self):
        script = f"{self.cluster.dir}/job.sh"
        output = f"{self.cluster.dir}/job.out"
        text = "\n".join(["#!/bin/bash", "#SBATCH -N2 --ntasks-per-node=2", "#SBATCH --rdma-nccl=port=23456", f"#SBATCH -o {output}",
                          'echo "batch ${RANK-none} ${MASTER_ADDR-none} ${RDMA_NCCL_SET-none}"',
                          "srun bash -c 'echo step $RANK/$WORLD_SIZE $MASTER_ADDR:$MASTER_PORT'"])
        with open(script, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        self.good("sbatch", "--wait", script, user="root")
        with open(output, encoding="utf-8") as file:
            lines = sorted(line for line in file.read().splitlines() if not line.startswith("rdma-nccl:"))
        self.assertEqual(lines, ["batch none none none", *(f"step {rank}/4 25.11.128.2:23456" for rank in range(4))])

    def test_settings_survive_export_none(self):
        lines = self.ranks(self.good("srun", "--export=NONE", "-N2", "--ntasks-per-node=2", "--rdma-nccl", "/bin/bash", "-c",
                                     "echo RANK=$RANK MASTER_ADDR=$MASTER_ADDR MASTER_PORT=$MASTER_PORT", RDMA_NCCL_PORT="23000"))
        self.assertEqual([(line["RANK"], line["MASTER_ADDR"], line["MASTER_PORT"]) for line in lines],
                         [(str(rank), "25.11.128.2", "23000") for rank in range(4)])

    def test_arbitrary_distribution(self):
        hosts = f"{self.cluster.dir}/hosts"
        with open(hosts, "w", encoding="utf-8") as file:
            file.write("n02\nn01\nn01\n")
        output = self.good("srun", "-n3", "-m", "arbitrary", "--rdma-nccl", "pi", user="root", SLURM_HOSTFILE=hosts)
        self.assertRegex(output, r"from 3 ranks on 2 nodes")
        lines = self.ranks(self.good("srun", "-n3", "-m", "arbitrary", "--rdma-nccl", *show(*CONTRACT), user="root",
                                     SLURM_HOSTFILE=hosts))
        self.assertEqual(lines[0]["HOST"], "n02")
        self.assertEqual({line["MASTER_ADDR"] for line in lines}, {"25.11.128.3"})

    def test_node_ranks_follow_the_tasks_in_an_arbitrary_distribution(self):
        hosts = f"{self.cluster.dir}/hosts2"
        with open(hosts, "w", encoding="utf-8") as file:
            file.write("n02\nn01\n")
        lines = self.ranks(self.good("srun", "-n2", "-m", "arbitrary", "--rdma-nccl=layout=node",
                                     *show("PET_NODE_RANK", "PET_MASTER_ADDR"), user="root", SLURM_HOSTFILE=hosts))
        by_host = {line["HOST"]: line for line in lines}
        self.assertEqual(by_host["n02"]["PET_NODE_RANK"], "0")
        self.assertEqual(by_host["n01"]["PET_MASTER_ADDR"], "25.11.128.3")

    def test_heterogeneous_job(self):
        output = self.good("srun", "--rdma-nccl=layout=rank", "-w", "n02", "-n1", "pi", ":", "-w", "n01", "-n2", "pi")
        self.assertRegex(output, r"from 3 ranks on 2 nodes \(n01: 2, n02: 1\)")

    def test_heterogeneous_step(self):
        """srun's environment reaches one of the two components only, and not always the same."""
        for _ in range(3):
            output = self.good("salloc", "-Q", "-N2", "--ntasks-per-node=2", "srun", "--rdma-nccl=layout=rank", "-n1", "-w", "n02",
                               "pi", ":", "-n2", "-w", "n01", "pi")
            self.assertRegex(output, r"from 3 ranks on 2 nodes \(n01: 2, n02: 1\)")

    def test_a_step_inside_a_step(self):
        inner = "srun --overlap --jobid=$SLURM_JOB_ID -N2 -n2 --rdma-nccl " + " ".join(
            ["bash", "-c", "'echo RANK=$RANK WORLD_SIZE=$WORLD_SIZE MASTER_PORT=$MASTER_PORT NCCL_IB_TIMEOUT=$NCCL_IB_TIMEOUT'"])
        output = self.good("salloc", "-Q", "-N2", "--ntasks-per-node=2", "srun", "--overlap", "-N1", "-n1", "--rdma-nccl=layout=rank",
                           "bash", "-c", f"echo OUTER=$MASTER_PORT; export NCCL_IB_TIMEOUT=17; {inner} --layout= 2>/dev/null; "
                           f"{inner.replace('--rdma-nccl', '--rdma-nccl=layout=rank')}")
        lines = [dict(word.split("=", 1) for word in line.split()) for line in output.splitlines()]
        outer = next(line["OUTER"] for line in lines if "OUTER" in line)
        inner_lines = [line for line in lines if line.get("RANK")]
        self.assertEqual({line["WORLD_SIZE"] for line in inner_lines}, {"2"})
        self.assertEqual({line["NCCL_IB_TIMEOUT"] for line in inner_lines}, {"17"}, "the user changed it since")
        self.assertNotIn(outer, {line["MASTER_PORT"] for line in inner_lines})

    def test_two_steps_at_once_have_ports_of_their_own(self):
        script = "for i in 1 2 3; do srun --overlap -N2 -n2 --rdma-nccl=layout=rank bash -c 'echo $MASTER_PORT; sleep 0.5' & done; wait"
        ports = self.good("salloc", "-Q", "-N2", "--ntasks-per-node=2", "bash", "-c", script).split()
        self.assertEqual(len(ports), 6)
        self.assertEqual(len(set(ports)), 3)

    def test_the_users_values_stay(self):
        lines = self.ranks(self.good("srun", "-N2", "--ntasks-per-node=1", "--rdma-nccl=layout=rank", *show(*CONTRACT, "NCCL_IB_HCA"),
                                     MASTER_PORT="29500", NCCL_IB_HCA="mlx5", RANK="9"))
        self.assertEqual({(line["MASTER_PORT"], line["NCCL_IB_HCA"]) for line in lines}, {("29500", "mlx5")})
        self.assertEqual([line["RANK"] for line in lines], ["0", "1"])

    def test_bad_settings_are_refused_before_anything_is_queued(self):
        newest = self.good("srun", "bash", "-c", "echo $SLURM_JOB_ID").strip()
        for command in (["srun"], ["sbatch", "--wrap=true"], ["salloc"]):
            for option, variables, message in (
                ("--rdma-nccl=layuot=rank", {}, 'unknown key "layuot"; did you mean layout?'),
                ("--rdma-nccl=port=99999", {}, "port: expected auto or a port from 1024 to 65532"),
                ("--rdma-nccl=gid=3,bind=gpu", {}, "bind: expected "),
                ("--rdma-nccl", {"RDMA_NCCL_GID": "many"}, "gid: expected auto or a GID index from 0 to 255"),
            ):
                result = self.cluster.run(command[0], option, *command[1:], *([] if command[0] == "sbatch" else ["true"]), **variables)
                self.assertNotEqual(result.returncode, 0)
                self.assertIn(message, result.stderr)
                self.assertRegex(result.stderr, r"(?m)^rdma-nccl:  +\^+$")
        self.assertEqual(int(self.good("srun", "bash", "-c", "echo $SLURM_JOB_ID")), int(newest) + 1, "something was queued")

    def test_help(self):
        for command in (["srun"], ["sbatch", "--wrap=true"], ["salloc"]):
            output = self.good(*command, "--rdma-nccl=help")
            self.assertRegex(output, r"(?m)^layout +auto, rank, node, pod")

    def test_a_head_that_does_not_resolve(self):
        result = self.cluster.run("srun", "-N2", "--ntasks-per-node=1", "--rdma-nccl=layout=rank,head=nowhere", *show("MASTER_ADDR"))
        self.assertEqual(result.returncode, 0)
        self.assertIn("head=nowhere: nowhere: ", result.stderr)
        self.assertEqual(result.stdout.count("MASTER_ADDR=25.11.128.2"), 2)
        strict = self.cluster.run("srun", "-N2", "--ntasks-per-node=1", "--rdma-nccl=strict,head=nowhere", "echo", "ran")
        self.assertEqual(strict.returncode, 1)
        self.assertIn("strict: the step is ended: n[01-02]: head=nowhere", strict.stderr)
        self.assertEqual(strict.stdout, "")

    def test_a_master_address_that_is_not_rank_zeros(self):
        result = self.cluster.run("srun", "-N2", "--ntasks-per-node=1", "--rdma-nccl", "true", MASTER_ADDR="10.0.60.4")
        self.assertEqual(result.returncode, 0)
        self.assertIn("n01: warning: rank 0 runs on n01, but MASTER_ADDR 10.0.60.4 is no address of this node", result.stderr)

    def test_env_agrees_with_the_plugin(self):
        script = ('eval "$(rdma-nccl env --root ' + self.cluster.dir + '/root 2>/dev/null)"; '
                  "echo BEFORE=$before AFTER=$MASTER_ADDR:$MASTER_PORT:$NCCL_IB_HCA:$RANK:$NCCL_IB_GID_INDEX")
        before = "before=$MASTER_ADDR:$MASTER_PORT:$NCCL_IB_HCA:$RANK:$NCCL_IB_GID_INDEX; "
        for line in self.good("srun", "-N2", "--ntasks-per-node=2", "--rdma-nccl=gid=3", "bash", "-c", before + script).splitlines():
            words = dict(word.split("=", 1) for word in line.split())
            self.assertEqual(words["BEFORE"], words["AFTER"])

    def test_explain_beside_a_step_has_that_steps_environment(self):
        """Also what a script of the step exports; of one node, wherever it is asked."""
        started = f"{self.cluster.dir}/started"
        step = f"bash -c 'export NCCL_NET=Socket; sh -c \"touch {started}.$SLURM_PROCID; sleep 60\"; true'"
        explain = f"rdma-nccl explain --root {self.cluster.dir}/root"
        script = (f"export NCCL_IB_DISABLE=1; srun --overlap -N2 -n2 --rdma-nccl=layout=rank,verbose=0 {step} & "
                  f"unset NCCL_IB_DISABLE; while [ ! -e {started}.0 -o ! -e {started}.1 ]; do sleep 0.1; done; "
                  f"srun --overlap --jobid=$SLURM_JOB_ID -N2 -n2 {explain}; echo ===; "
                  f"srun --overlap -N1 -n1 -w n02 {explain} --step $SLURM_JOB_ID.0 --json; scancel $SLURM_JOB_ID.0; wait")
        output = self.cluster.run("salloc", "-Q", "-N2", "--ntasks-per-node=2", "bash", "-c", script, user="root").stdout
        both, second = output.split("===\n")
        self.assertEqual(re.findall(r"(?m)^host (\S+)$", both), ["n01"], "the plans of two nodes would mix")
        self.assertRegex(both, r"environment of process \d+ \(bash\), task 0 of step \d+\.0\n")
        self.assertIn("NCCL_IB_DISABLE=1 is set: NCCL uses sockets", both)
        self.assertIn("NCCL_NET=Socket is set: NCCL uses sockets", both)
        plan = json.loads(second)
        self.assertRegex(plan["step"]["environment_of"], r"task 1 of step \d+\.0$")
        self.assertIn("environment of this process (no other srun step of the job runs here)\n",
                      self.cluster.run("srun", *explain.split(), user="root").stdout)
        self.assertIn({"name": "RANK", "action": "set", "value": "1", "source": "plugin", "why": "set for this step"},
                      plan["variables"])

    def test_a_step_that_cannot_be_explained_is_said(self):
        result = self.cluster.run("srun", "rdma-nccl", "explain", "--step", "1.7")
        self.assertEqual(result.returncode, 3)
        self.assertIn("step 1.7 has no task here that this user may read; squeue --steps lists the nodes", result.stderr)

    def test_the_line_says_what_the_user_decided(self):
        text = self.cluster.run("srun", "-N2", "--ntasks-per-node=1", "--rdma-nccl=layout=rank", "true", NCCL_IB_HCA="mlx5_8",
                                MASTER_ADDR="n01").stderr
        self.assertRegex(text, r"head n01:\d+ \(MASTER_ADDR set before\), 1 HCA port \(mlx5_8:1\) by NCCL_IB_HCA=mlx5_8, "
                               r"GID index per port\n")

    def test_the_command_shows_the_emulated_node(self):
        for words in (["rdma-nccl", "gids"], ["rdma-nccl", "gids", "--device", "mlx5_1"]):
            self.assertIn("used, 200 Gb/s", self.good("srun", "-N1", *words))

    def test_interactive_shell_without_the_option(self):
        """doc/facts/recipes.md, M16."""
        script = f'eval "$(rdma-nccl env --root {self.cluster.dir}/root)"; echo $NCCL_IB_HCA $NCCL_IB_GID_INDEX $MASTER_ADDR'
        self.assertRegex(self.good("srun", "-N1", "bash", "-c", script), r"^=mlx5_1:1,.*,mlx5_8:1 3 10\.0\.60\.3\n")


class Torch(ClusterTest):
    """torch's own launcher and process group, as users start them."""

    # torch 1.13 on Python 3.11 cannot take 0 (its own default) and 3 for these two: an enum lost these members. A map that
    # is about a rank that does not exist says nothing, and avoids it.
    AVOID_BUG = {"PET_REDIRECTS": "9:1", "PET_TEE": "9:1"}
    arguments = ["--names"]  # the c10d rendezvous looks up its own host name, and publishes it to the other nodes

    @classmethod
    def setUpClass(cls):
        probe = subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False)
        if probe.returncode != 0:
            raise unittest.SkipTest("Debian's python3-torch is not installed")
        super().setUpClass()

    def trained(self, ranks: int, *command: str, **variables: str) -> None:
        output = self.good(*command, **self.AVOID_BUG, **variables)
        self.assertRegex(output, rf"ddp: {ranks} ranks, gloo on cpu, .* the same parameters on all ranks")

    def test_rank_layout(self):
        self.trained(4, "srun", "-N2", "--ntasks-per-node=2", "--rdma-nccl", PYTHON, DDP)

    def test_torchrun_that_is_told_of_one_node(self):
        """Two worlds of two ranks. With PET_NNODES=2 each would wait for a second node."""
        for option in ("--standalone", "--nnodes=1"):
            output = self.good("srun", "-N2", "--gpus-per-node=2", "--rdma-nccl", PYTHON, "-m", "torch.distributed.run", option,
                               "--nproc_per_node=2", DDP, **self.AVOID_BUG)
            self.assertEqual(len(re.findall(r"ddp: 2 ranks, gloo on cpu", output)), 2, output)

    def test_our_launcher(self):
        self.trained(4, "srun", "-N2", "--gpus-per-node=2", "--rdma-nccl", "rdma-nccl", "run", DDP, PYTHON_EXEC=PYTHON)

    def test_torchrun_without_a_flag(self):
        self.trained(4, "srun", "-N2", "--gpus-per-node=2", "--rdma-nccl", PYTHON, "-m", "torch.distributed.run", DDP)

    def test_the_pod_recipe(self):
        """doc/facts/recipes.md, M1, unchanged."""
        script = (f"{PYTHON} -m torch.distributed.run --nproc_per_node 2 --nnodes $WORLD_SIZE --node_rank $RANK "
                  f"--master_addr $MASTER_ADDR --master_port $MASTER_PORT {DDP}")
        self.trained(4, "srun", "-N2", "--gpus-per-node=2", "--rdma-nccl=layout=pod", "bash", "-c", script)

    def test_the_c10d_recipe(self):
        """doc/facts/recipes.md, M2, with `--tee 1` in the place of 3 (see AVOID_BUG)."""
        script = (f"{PYTHON} -m torch.distributed.run --nproc_per_node 2 --nnodes $NNODES --node_rank $NODE_RANK "
                  f"--rdzv_endpoint $MASTER_ADDR:$MASTER_PORT --rdzv_backend c10d --max_restarts 0 "
                  f"--role $(hostname -s|tr -dc '0-9'): --tee 1 {DDP}")
        self.trained(4, "srun", "-N2", "--gpus-per-node=2", "--rdma-nccl", "bash", "-c", script)


class SiteWide(ClusterTest):
    """A site that has the plugin on for every step. The launchers print what they would read."""

    arguments = ["--plugstack-args", "enable=on", "--nodes", "3", "--gpus", "8,8,0"]
    OF_RANKS = r"(?m)^(PET_|MASTER_|JAX_|RANK=|NODE_RANK=|WORLD_SIZE=|NNODES=|GROUP_)"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bin = os.path.join(cls.cluster.dir, "launchers")
        os.makedirs(cls.bin, exist_ok=True)
        for name in ("torchrun", "accelerate", "deepspeed", "composer", "ray", "horovodrun"):
            cls.write(name, "env")
        cls.write("own-world.sh", "echo a wrapper\nexec torchrun --nnodes=1 --nproc_per_node=2 x.py")
        cls.write("one-world.sh", "echo a wrapper\nexec torchrun --nproc_per_node=1 x.py")

    @classmethod
    def write(cls, name: str, text: str) -> None:
        path = os.path.join(cls.bin, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/bash\nPATH={cls.bin}:$PATH\n{text}\n")
        os.chmod(path, 0o755)

    def step(self, command: str, **variables: str) -> str:
        return self.good("srun", "-N2", "--ntasks-per-node=1", *[word.replace("BIN", self.bin) for word in command.split()], **variables)

    def test_launchers_that_stay_on_their_node_are_told_of_no_other(self):
        for command in ("BIN/torchrun --standalone --nproc_per_node=2 x.py", "BIN/torchrun --nnodes 1 x.py",
                        "env A=b BIN/torchrun --nproc_per_node=2 --master_addr=127.0.0.1 x.py",
                        "BIN/accelerate launch --num_machines 1 --num_processes 2 x.py", "BIN/deepspeed --num_gpus 2 x.py",
                        "BIN/composer -n 2 x.py", "BIN/ray start --head", "BIN/horovodrun -np 2 python x.py",
                        "BIN/own-world.sh", "bash BIN/own-world.sh", "-D BIN bash own-world.sh"):
            output = self.step(command)
            self.assertNotRegex(output, self.OF_RANKS, command)
            self.assertEqual(output.count("\nNCCL_IB_HCA==mlx5_1:1,"), 2, command)

    def test_others_are(self):
        for command in ("BIN/torchrun x.py", "BIN/torchrun --nnodes=2 x.py", "BIN/accelerate launch x.py",
                        "BIN/composer --world_size 4 x.py", "BIN/deepspeed --hostfile hosts x.py", "BIN/one-world.sh"):
            output = self.step(command, CUDA_VISIBLE_DEVICES="0")
            self.assertEqual(output.count("\nPET_NNODES=2\n"), 2, command)
            self.assertNotIn("\nRANK=", output, command)

    def test_a_loop_of_steps_keeps_its_ranks_and_has_one_hint(self):
        loop = (f"for i in 0 1; do NODE_RANK=$i srun -N1 -n1 -w n0$((i + 1)) {self.bin}/torchrun --nnodes=2 --node_rank=$i x.py; done")
        result = self.cluster.run("salloc", "-Q", "-N2", "--ntasks-per-node=1", "bash", "-c", loop)
        self.assertEqual(re.findall(r"(?m)^NODE_RANK=(\d)$", result.stdout), ["0", "1"])
        self.assertEqual(result.stderr.count("hint: "), 1, result.stderr)
        self.assertIn("n02: hint: this step has one of the job's 2 nodes", result.stderr)

    def test_a_program_without_gpus_keeps_its_threads(self):
        show_threads = ["bash", "-c", "echo ${OMP_NUM_THREADS-unset}"]
        self.assertEqual(self.good("srun", "-w", "n03", *show_threads), "unset\n")
        self.assertNotEqual(self.good("srun", "-w", "n03", "--rdma-nccl", *show_threads), "unset\n")


class ListedTwice(ClusterTest):
    """plugstack.conf and a file that it includes name the plugin."""

    def list_again(self, plugin: str) -> str:
        """Returns the second line's place."""
        etc = os.path.join(self.cluster.dir, "etc")
        with open(os.path.join(etc, "plugstack.conf"), encoding="utf-8") as file:
            first = file.readline()
        again = os.path.join(etc, "plugstack.conf.d", "again.conf")
        self.addCleanup(os.remove, again)
        with open(again, "w", encoding="utf-8") as file:
            file.write("# by another package\n" + first.replace(first.split()[1], plugin))
        return f"{etc}/plugstack.conf:1, {again}:2"

    def expect_one_plugin(self, places: str) -> None:
        command = ["srun", "-N2", "--ntasks-per-node=2", "--rdma-nccl", *show(*CONTRACT, "RDMA_NCCL_TOKEN")]
        result = self.cluster.run(*command)
        lines = self.ranks(result.stdout)
        self.assertEqual([line["RANK"] for line in lines], ["0", "1", "2", "3"])
        self.assertEqual({line["MASTER_ADDR"] for line in lines}, {"25.11.128.2"}, result.stderr)
        self.assertRegex(lines[0]["RDMA_NCCL_TOKEN"], "^[0-9a-f]{64}$")
        warning, summary = result.stderr.splitlines()
        self.assertEqual(warning, f"rdma-nccl: warning: plugstack.conf lists this plugin twice ({places}): the first line is "
                                  "used, remove the other")
        self.assertRegex(summary, r"^rdma-nccl: rank layout, 4 tasks on 2 nodes, head n01 \(25\.11\.128\.2:\d+\), 8 HCA ports ")
        self.assertEqual(self.cluster.run("srun", "-N2", "true").stderr, "")

    def test_the_same_file(self):
        self.expect_one_plugin(self.list_again(os.path.join(self.cluster.dir, "lib/rdma_nccl.so")))

    def test_a_copy(self):
        copy = os.path.join(self.cluster.dir, "lib/copy/rdma_nccl.so")
        os.makedirs(os.path.dirname(copy))
        shutil.copy(os.path.join(self.cluster.dir, "lib/rdma_nccl.so"), copy)
        self.expect_one_plugin(self.list_again(copy))


class OtherSlurm(ClusterTest):
    """Slurm was upgraded, the plugin was not: it is built for the feature release before."""

    REFUSED = re.compile(r"(?m)^(srun|slurmstepd): error: .*(Incompatible|incompatible).*version.*$")

    def setUp(self):
        with open(os.path.join(self.cluster.dir, "lib/rdma_nccl.so"), "rb") as file:
            content = bytearray(file.read())
        version = symbol_offset(os.path.join(self.cluster.dir, "lib/rdma_nccl.so"), "plugin_version")
        content[version + 1] -= 1  # SLURM_VERSION_NUMBER, little-endian: micro, minor, major; 22.05 becomes 22.04
        self.old = os.path.join(self.cluster.dir, "lib/old.so")
        with open(self.old, "wb") as file:
            file.write(content)
        self.addCleanup(os.remove, self.old)

    def expect_untouched(self, step) -> None:
        self.assertEqual(step.returncode, 0, step.stderr)
        self.assertEqual(sorted(step.stdout.split()), ["RANK=", "RANK="])
        self.assertRegex(step.stderr, self.REFUSED)
        self.assertNotIn("rdma-nccl: ", step.stderr)

    def test_steps_go_on_until_the_plugin_is_upgraded_too(self):
        step = ["srun", "-N2", "bash", "-c", "echo RANK=$RANK"]
        self.replace("rdma_nccl.so", self.old, "login", "n01", "n02")
        self.expect_untouched(self.cluster.run(*step))
        unknown = self.cluster.run("srun", "-N2", "--rdma-nccl", "true")
        self.assertNotEqual(unknown.returncode, 0)
        self.assertIn("unrecognized option '--rdma-nccl'", unknown.stderr)
        self.doCleanups()
        lines = self.ranks(self.good("srun", "-N2", "--rdma-nccl=layout=rank", *show("RANK")))
        self.assertEqual([line["RANK"] for line in lines], ["0", "1"])

    def test_a_node_that_is_behind(self):
        """The others set up the step without it, and say so."""
        self.replace("rdma_nccl.so", self.old, "n02")
        step = self.cluster.run("srun", "-N2", "--rdma-nccl=exchange=5", *show("RANK"))
        self.assertEqual(step.returncode, 0, step.stderr)
        self.assertRegex(step.stderr, r"warning: 1 of 2 nodes did not report within 5 s: n02 \(no plugin there\?")


def symbol_offset(library: str, symbol: str) -> int:
    """Where the symbol's value lies in the file: .rodata has the same offset there as in memory."""
    listed = subprocess.run(["nm", "-D", library], text=True, capture_output=True, check=True).stdout
    return next(int(line.split()[0], 16) for line in listed.splitlines() if line.split()[-1] == symbol)


class UnequalNodes(ClusterTest):
    """A nine-HCA node, a bond node and one without any HCA."""

    arguments = ["--nodes", "3", "--fabric", "nine-hca,bond,none", "--gpus", "4,2,1"]

    def test_each_node_has_its_own_plan(self):
        lines = self.good("srun", "-N3", "--ntasks-per-node=2", "--rdma-nccl", *show("NCCL_IB_HCA", "NCCL_IB_GID_INDEX")).splitlines()
        self.assertEqual({line for line in lines if "n02" in line}, {"HOST=n02 NCCL_IB_HCA==mlx5_bond_0:1 NCCL_IB_GID_INDEX=9"})
        self.assertEqual({line for line in lines if "n03" in line}, {"HOST=n03 NCCL_IB_HCA= NCCL_IB_GID_INDEX="})

    def test_a_node_without_hca_is_named_and_the_step_runs(self):
        result = self.cluster.run("srun", "-N3", "--ntasks-per-node=2", "--rdma-nccl", "pi")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("rdma-nccl: n03: warning: no RDMA device in /sys/class/infiniband", result.stderr)
        self.assertIn("from 6 ranks on 3 nodes", result.stdout)

    def test_strict_ends_the_step(self):
        result = self.cluster.run("srun", "-N3", "--ntasks-per-node=2", "--kill-on-bad-exit=1", "--rdma-nccl=strict", "sleep", "60")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("rdma-nccl: n01: strict: the step is ended: n03: no RDMA device", result.stderr)

    def test_an_absurd_sysfs(self):
        """Wrong types, binary garbage and 100,000 GIDs: a warning at most, and the step runs."""
        root = f"{self.cluster.dir}/root"
        port = f"{root}/sys/class/infiniband/junk_0/ports/1"
        script = (f"set -e; cp {root}/proc/net/route {root}/route.good; mkdir -p {port}/gids {port}/gid_attrs/types/3 {port}/state; cd {port}; "
                  f"head -c 100000 /dev/urandom > link_layer; head -c 100 /dev/urandom > rate; "
                  f"for i in $(seq 0 99999); do echo; done | split -a 5 -d -l 1 - gids/; "
                  f"head -c 5000 /dev/urandom > {root}/proc/net/route; echo x > {root}/sys/class/infiniband/a_file")
        self.good("bash", "-c", script, user="root", node="n03")
        result = self.cluster.run("srun", "-w", "n03", "-n2", "--rdma-nccl", "pi")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("from 2 ranks on 1 node", result.stdout)
        self.good("bash", "-c", f"rm -rf {root}/sys/class/infiniband/*; mv {root}/route.good {root}/proc/net/route", user="root",
                  node="n03")


class SiteSettings(ClusterTest):
    """Plugstack arguments of a site that has the plugin on for every step, and makes a mistake."""

    arguments = ["--plugstack-args", "enable=on gid=banana verbose=0"]

    def test_on_for_every_step_and_off_for_one(self):
        self.assertIn("RANK=1", self.good("srun", "-N2", "--ntasks-per-node=1", *show("RANK"), RDMA_NCCL_LAYOUT="rank"))
        self.assertNotIn("RANK=1", self.good("srun", "-N2", "--ntasks-per-node=1", "--rdma-nccl=off", *show("RANK")))

    def test_the_sites_mistake_is_said_to_who_wants_to_hear(self):
        result = self.cluster.run("srun", "--rdma-nccl=verbose=1", "true")
        self.assertEqual(result.returncode, 0)
        self.assertIn("plugstack.conf: gid: expected auto or a GID index from 0 to 255; argument ignored", result.stderr)

    def test_bad_environment_ends_srun(self):
        result = self.cluster.run("srun", "echo", "ran", RDMA_NCCL_GID="many")
        self.assertEqual((result.returncode, result.stdout), (1, ""))


class RealNccl(ClusterTest):
    """The interface that the real NCCL takes under the plan's environment."""

    SCRIPT = "import ctypes,sys; n=ctypes.CDLL(sys.argv[1]); print('rc', n.ncclGetUniqueId(ctypes.create_string_buffer(128)))"

    @classmethod
    def setUpClass(cls):
        cls.library = cls.find_library()
        if cls.library is None:
            raise unittest.SkipTest("no libnccl.so.2 on this machine")
        super().setUpClass()

    @staticmethod
    def find_library():
        for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/cuda/lib64", "/usr/local/cuda/lib"):
            if os.path.exists(os.path.join(folder, "libnccl.so.2")):
                return os.path.join(folder, "libnccl.so.2")
        return None

    def test_bootstrap_interface(self):
        for net, interface, address in (("auto", "eth0", "10.0.60.3"), ("eth3", "eth3", "25.11.128.66")):
            result = self.cluster.run("srun", "-N1", "-w", "n01", f"--rdma-nccl=net={net}", PYTHON, "-c", self.SCRIPT, self.library,
                                      NCCL_DEBUG="INFO")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("rc 0", result.stdout)
            self.assertRegex(result.stdout + result.stderr, rf"NCCL INFO Bootstrap.*{interface}:{re.escape(address)}")


if __name__ == "__main__":
    main()
