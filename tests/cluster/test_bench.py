#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`srun --rdma-nccl rdma-nccl bench` in a real Slurm, on machines whose GPUs, NCCL and counters are emulated:
usage: test_bench.py BUILD_DIR [TEST...]. As root."""

from __future__ import annotations

import json
import os
import sys

from cluster_test import BUILD, CHECKOUT, ClusterTest, main

FAKE_NCCL = os.path.join(BUILD, "tests", "fake_nccl")
MOVE = os.path.join(CHECKOUT, "tests", "data", "move-traffic")
GIB = 1 << 30
SMALL = ["-b", "4K", "-e", "16K", "-n", "2", "-w", "1", "--repeats", "2"]


class Bench(ClusterTest):
    arguments = ["--nodes", "2", "--gpus", "8", "--bin", os.path.join(BUILD, "rdma-nccl-bench")]

    def bench(self, srun: list[str], *options: str, gpus: int = 8, code: int = 0) -> dict:
        root = f"{self.cluster.dir}/root"
        rails = " ".join(f"mlx5_{n}:1 {GIB // 8} {GIB // 8}" for n in range(1, 9))
        variables = {
            "LD_LIBRARY_PATH": FAKE_NCCL,
            "FAKE_CUDA_GPUS": str(gpus),
            "FAKE_NCCL_RDMA": f"flock {root} {MOVE} {root} {rails}",
            "FAKE_NCCL_SOCKETS": f"flock {root} {MOVE} {root} eth1 {GIB} {GIB}",
        }
        command = ["srun", "-N2", *srun, "--rdma-nccl", "rdma-nccl", "bench", "--root", root, "--json", *SMALL, *options]
        result = self.cluster.run(*command, user="root", **variables)
        # On a machine that is busy, A and A' may differ.
        if not (code == 0 and result.returncode == 1 and "A and A' differ" in result.stdout):
            self.assertEqual(result.returncode, code, result.stderr)
        return json.loads(result.stdout)

    def judge(self, report: dict) -> None:
        self.assertEqual(report["nodes"], ["n01", "n02"])
        for run in report["runs"]:
            self.assertEqual(run["problem"], "")
            self.assertEqual([row["out_of_place"]["nwrong"] for row in run["results"]], [0, 0])
            if run["nodes"] == 2:
                self.assertEqual(run["verdict"]["verdict"], "USED" if run["rdma_meant"] else "NOT USED", run["name"])

    def test_a_task_for_each_node(self):
        report = self.bench(["--ntasks-per-node=1"], "--gpus", "2,4,16")
        self.judge(report)
        shape = [(run["name"], run["ranks"], run["nodes"]) for run in report["runs"]]
        self.assertEqual(shape, [("A", 2, 2), ("B", 2, 2), ("A'", 2, 2), ("A", 4, 1), ("A", 16, 2), ("B", 16, 2), ("A'", 16, 2)])

    def test_a_task_for_each_gpu(self):
        report = self.bench(["--ntasks-per-node=8"], "--gpus", "16")
        self.judge(report)
        self.assertEqual([run["name"] for run in report["runs"]], ["A", "B", "A'"])

    def test_a_node_of_another_version(self):
        self.install_later("rdma-nccl", "n02")
        report = self.bench(["--ntasks-per-node=1"], "--gpus", "2", code=3)
        self.assertRegex(report["ended_early"], r"^n02: it runs rdma-nccl 9\.8\.7 .*: install the same on all nodes$")

    def test_no_gpu(self):
        report = self.bench(["--ntasks-per-node=1"], gpus=0, code=3)
        self.assertRegex(report["ended_early"], r"^n0\d: no GPU: ")

    def test_without_the_plugin(self):
        result = self.cluster.run("srun", "-N2", "--ntasks-per-node=1", "rdma-nccl", "bench", user="alice")
        self.assertEqual(result.returncode, 3)
        self.assertIn("srun --rdma-nccl ... rdma-nccl bench", result.stderr)


if __name__ == "__main__":
    if not os.path.exists(os.path.join(FAKE_NCCL, "libnccl.so.2")):
        print("no emulated NCCL: configure found no CUDA and NCCL headers")
        sys.exit(0)
    main()
