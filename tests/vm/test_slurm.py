#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The installed plugin in a real Slurm on real RDMA devices: usage: test_slurm.py SUITE [TEST...]. As root.

Two virtual machines with Soft-RoCE, and the suite's Slurm; the GPUs are character devices that do nothing.
"""

from __future__ import annotations

import glob
import json
import re
import shutil
import sys
import unittest

from testbed import PATIENCE, Lab, LabTest, build_folder

SUITE = "bookworm"

# Rank 0 and rank 1 send to each other by what their own variables name, as NCCL would: the first HCA, the GID index, and
# rank 0's address. The arguments go to the program.
EXCHANGE = """
device=${NCCL_IB_HCA#=}
command=(ibv_rc_pingpong -d "${device%%:*}" -g "$NCCL_IB_GID_INDEX" -p $((MASTER_PORT + 3)) -m 4096 "$@")
if ((RANK == 0)); then exec timeout 30 "${command[@]}"; fi
until said=$(timeout 30 "${command[@]}" "$MASTER_ADDR" 2>&1); do
    [[ $said == *"Couldn't connect"* ]] && ((SECONDS < 20)) || { echo "$said"; exit 1; }
    sleep 0.1
done
echo "$said"
"""
SENT = "/sys/class/infiniband/mlx5_0/ports/1/hw_counters/sent_pkts"
AS_ALICE = ("setpriv", "--reuid=alice", "--regid=alice", "--init-groups", "--inh-caps=-all")


class InSlurm(LabTest):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(SUITE)

    @classmethod
    def tearDownClass(cls):
        cls.lab.down()

    def tearDown(self):
        """Whatever a test did, no node may be drained or down."""
        states = self.lab.good("n01", "sinfo", "--noheader", "--Node", "--Format=StateLong").split()
        self.assertEqual([state for state in states if re.match("drain|down|fail|unknown", state)], [])

    def srun(self, *command: str, prefix: tuple[str, ...] = ()):
        return self.lab.run("n01", *prefix, "srun", "-N2", *command, user="alice")

    def good(self, *command: str, **options) -> str:
        result = self.srun(*command, **options)
        self.assertEqual(result.status, 0, f"{command}:\n{result.out}{result.err}")
        return result.out

    def of_tasks(self, names: str, *options: str) -> list[dict[str, str]]:
        """These variables of each task, in the order of nodes and ranks."""
        shown = " ".join(f"{name}=${{{name}-}}" for name in ["SLURMD_NODENAME", "SLURM_PROCID", *names.split()])
        lines = self.good(*options, "bash", "-c", f"echo {shown}").splitlines()
        return [dict(word.split("=", 1) for word in line.split()) for line in sorted(lines)]

    # --- What a step gets ---

    def test_installed_as_a_site_does(self):
        self.assertIn("rdma_nccl.so", self.lab.good("n01", "cat", "/etc/slurm/plugstack.conf.d/rdma-nccl.conf"))
        self.assertIn("--rdma-nccl", self.srun("--help").out)
        plain = self.good("env")
        self.assertNotIn("NCCL", plain, "without the option nothing happens")

    def test_step_gets_what_the_node_says(self):
        """Nodes differ: each task has the index of its own node."""
        self.lab.script("n02", "ip address add 10.77.1.102/16 dev eth1; ip address add 10.77.2.102/16 dev eth2;"
            "ip address delete 10.77.1.2/24 dev eth1; ip address delete 10.77.2.2/24 dev eth2")
        tasks = self.of_tasks("NCCL_IB_HCA NCCL_IB_GID_INDEX", "--rdma-nccl", "--ntasks-per-node=2")
        self.assertEqual([task["NCCL_IB_GID_INDEX"] for task in tasks], ["1", "1", "2", "2"])
        for task in tasks:
            env = json.loads(self.lab.run(task["SLURMD_NODENAME"], "rdma-nccl", "env", "--json").out)
            said = {each["name"]: each["value"] for each in env["variables"]}
            self.assertEqual(task["NCCL_IB_HCA"], said["NCCL_IB_HCA"])
            self.assertEqual(task["NCCL_IB_GID_INDEX"], said["NCCL_IB_GID_INDEX"])
        self.exchange()

    def exchange(self, *options: str, program: tuple[str, ...] = ("-n", "10")) -> None:
        """RDMA between the ranks, by their variables; the devices count it."""
        before = [int(self.lab.good(node, "cat", SENT)) for node in self.lab.nodes]
        self.good("--rdma-nccl", *options, "/bin/bash", "-c", EXCHANGE, "exchange", *program)
        after = [int(self.lab.good(node, "cat", SENT)) for node in self.lab.nodes]
        for was, now in zip(before, after):
            self.assertGreaterEqual(now - was, 10)

    def test_ranks_reach_each_other(self):
        self.exchange()
        self.exchange("--export=NONE")

    def test_gpus(self):
        """Emulated ones, as GRES: one task with two is a launcher's, two tasks are ranks."""
        one = self.of_tasks("PET_NPROC_PER_NODE CUDA_VISIBLE_DEVICES RANK", "--rdma-nccl", "--gpus-per-node=2")
        self.assertEqual([task["PET_NPROC_PER_NODE"] for task in one], ["2", "2"])
        self.assertEqual([task["CUDA_VISIBLE_DEVICES"] for task in one], ["0,1", "0,1"])
        self.assertEqual([task["RANK"] for task in one], ["", ""])
        two = self.of_tasks("LOCAL_RANK RANK", "--rdma-nccl", "--gpus-per-node=2", "--ntasks-per-node=2")
        self.assertEqual([task["LOCAL_RANK"] for task in two], ["0", "1", "0", "1"])
        self.assertEqual([task["RANK"] for task in two], ["0", "1", "2", "3"])

    def test_pi_over_the_fabric(self):
        """The head's name on the first rail; the bytes are seen on that interface."""
        received = "/sys/class/net/eth1/statistics/rx_packets"
        before = int(self.lab.good("n01", "cat", received))
        head = "--rdma-nccl=head=suffix:-rail1"
        self.assertIn("pi = 3.14159", self.good(head, "--ntasks-per-node=2", "pi", "1000000"))
        self.assertGreater(int(self.lab.good("n01", "cat", received)), before + 10)
        (task, _) = self.of_tasks("MASTER_ADDR GLOO_SOCKET_IFNAME", head)
        self.assertEqual((task["MASTER_ADDR"], task["GLOO_SOCKET_IFNAME"]), ("10.77.1.1", "eth1"))
        self.assertIn("pi = 3.14159", self.good(head, "--gpus-per-node=2", "rdma-nccl", "run", "pi", "1000000"))

    def test_locked_memory(self):
        """What verbs can register in a step is what the step may lock: 9 MiB, with a limit below and with none."""
        size = ("-n", "1", "-s", str(9 << 20))
        for limit, good in (("8388608", False), ("unlimited", True)):
            limited = ("env", "--chdir=/tmp", "prlimit", f"--memlock={limit}:{limit}", *AS_ALICE)
            step = ("srun", "-N2", "--rdma-nccl", "bash", "-c", EXCHANGE, "exchange", *size)
            done = self.lab.run("n01", *limited, *step)
            self.assertEqual(done.status == 0, good, done.out + done.err)
            self.assertEqual("Couldn't register MR" in done.out + done.err, not good)

    # --- Faults ---

    def test_rail_down(self):
        """On one node: it uses the other rail, and says why when asked."""
        self.lab.script("n02", "ip link set eth2 down")
        tasks = self.of_tasks("NCCL_IB_HCA", "--rdma-nccl")
        self.assertEqual([task["NCCL_IB_HCA"] for task in tasks], ["=mlx5_0:1,mlx5_1:1", "=mlx5_0:1"])
        self.assertIn("n02: mlx5_1 port 1 is DOWN", self.srun("--rdma-nccl=verbose=3", "true").err)
        self.exchange()

    def test_no_device(self):
        """Nothing there: the step runs, and is told to use nothing."""
        self.lab.everywhere("rdma link delete mlx5_0; rdma link delete mlx5_1")
        done = self.srun("--rdma-nccl", "bash", "-c", "echo HCA=${NCCL_IB_HCA-}")
        self.assertEqual((done.status, sorted(done.out.split())), (0, ["HCA=", "HCA="]), done.err)
        self.assertNotEqual(self.srun("--rdma-nccl=strict", "true").status, 0)

    def test_device_removed_during_a_step(self):
        """Step and node live on; the next step does without it."""
        step = self.lab.start("n01", "srun", "-N2", "--rdma-nccl", "sleep", "4", user="alice")
        self.lab.script("n02", "until pgrep -x sleep; do command sleep 0.1; done; rdma link delete mlx5_0")
        tasks = self.of_tasks("NCCL_IB_HCA", "--rdma-nccl")
        self.assertEqual([task["NCCL_IB_HCA"] for task in tasks], ["=mlx5_0:1,mlx5_1:1", "=mlx5_1:1"])
        done = step.wait(PATIENCE)
        self.assertEqual(done.status, 0, done.err)

    def test_plugin_of_another_release(self):
        """Slurm refuses it; as it is `optional`, steps go on without."""
        others = [path for path in glob.glob(build_folder("*/build/rdma_nccl.so")) if f"/{SUITE}/" not in path]
        if not others:
            self.skipTest("there is no build for another suite")
        shutil.copy(others[0], self.lab.state.path("lab", "other.so"))
        conf = "/etc/slurm/plugstack.conf.d/rdma-nccl.conf"
        keep = self.lab.script("n01", f"cat {conf}; echo 'optional /lab/other.so' > {conf}")
        try:
            done = self.srun("true")
            self.assertEqual(done.status, 0, done.err)
            self.assertNotIn("--rdma-nccl", self.srun("--help").out)
        finally:
            self.lab.good("n01", "bash", "-c", 'echo "$1" > "$2"', "restore", keep, conf)
        self.assertIn("--rdma-nccl", self.srun("--help").out)


def main() -> int:
    global SUITE
    SUITE = sys.argv.pop(1)
    unittest.main(verbosity=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
