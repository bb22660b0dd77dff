#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`rdma-nccl pairs` in a real Slurm, with the verbs of tests/fake_verbs: usage: test_pairs.py BUILD_DIR [TEST...]. As root.

The emulated verbs know processes by their number, and every node of the cluster has numbers of its own: what is written
stays on the node (loopback), and between nodes nothing arrives, as with a firewall."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time

from cluster_test import BUILD, CHECKOUT, TIME_LIMIT, ClusterTest, main

FAKE = os.path.join(BUILD, "tests", "fake_verbs", "libibverbs.so.1")
NODES = ["n01", "n02", "n03", "n04"]
OTHER_VERSION = r"it runs rdma-nccl 9\.8\.7 \(protocol 99\), the head runs .*: install the same on all nodes$"
QUICK = ["--floor", "0", "--slow-below", "0.01", "--deviations", "1000", "--latency-factor", "1000000"]
QUICK += ["-D", "0.2", "-q", "1", "--no-both"]


class Pairs(ClusterTest):
    arguments = ["--nodes", "4"]

    def setUp(self):
        self.shared = tempfile.mkdtemp(prefix="rdma-nccl-pairs-")
        os.chmod(self.shared, 0o777)
        self.addCleanup(shutil.rmtree, self.shared)
        shutil.copy(FAKE, self.shared)
        self.root = f"{self.cluster.dir}/root"
        self.variables = {"LD_LIBRARY_PATH": self.shared, "FAKE_VERBS_DIR": self.shared, "FAKE_VERBS_ROOT": self.root}

    def pairs(self, *options: str, srun: tuple[str, ...] = ("-N4", "--ntasks-per-node=1"), program: tuple[str, ...] = ()):
        program = program or ("rdma-nccl", "pairs", "--root", self.root, "--set", "hca=mlx5_1+mlx5_2", *QUICK, *options)
        return self.cluster.run("srun", "--rdma-nccl=verify=off", *srun, *program, **self.variables)

    def report(self, *options: str, code: int = 0, **more) -> dict:
        result = self.pairs("--json", *options, **more)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return json.loads(result.stdout)

    def test_each_node_with_itself(self):
        for layout in (("-N4", "--ntasks-per-node=1"), ("-N4", "--ntasks-per-node=2"), ("-N4", "-n7")):
            with self.subTest(layout=layout):
                report = self.report("--schedule", "loopback", srun=layout)
                self.assertEqual([node["name"] for node in report["nodes"]], NODES)
                ends = sorted((result["a"]["node"], result["a"]["port"]) for result in report["results"])
                self.assertEqual(ends, [(node, port) for node in NODES for port in ("mlx5_1:1", "mlx5_2:1")])
                self.assertEqual({result["data_correct"] for result in report["results"]}, {True})

    def test_what_does_not_arrive_is_a_result(self):
        report = self.report("--rails", "0", code=2)
        self.assertEqual(len(report["results"]), 6)
        for result in report["results"]:
            self.assertIn("RETRY_EXC_ERR", result["problem"])
        self.assertEqual(report["ended_early"], "")

    def test_one_node(self):
        report = self.report(srun=("-N1", "-n1"))
        self.assertEqual(report["schedule"], "loopback")

    def test_without_the_plugin(self):
        result = self.cluster.run("srun", "-N2", "rdma-nccl", "pairs", "--root", self.root, **self.variables)
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("srun --rdma-nccl", result.stderr)

    def test_a_node_without_libibverbs(self):
        script = 'if [ "$SLURM_NODEID" = 2 ]; then export LD_LIBRARY_PATH=$1; fi; shift; exec "$@"'
        broken = f"{self.shared}/broken"
        os.mkdir(broken)
        with open(f"{broken}/libibverbs.so.1", "w", encoding="ascii"):
            pass
        command = ("rdma-nccl", "pairs", "--json", "--root", self.root, "--set", "hca=mlx5_1", *QUICK)
        result = self.pairs(program=("bash", "-c", script, "bash", broken, *command, "--schedule", "loopback"))
        self.assertEqual(result.returncode, 2, result.stderr)
        report = json.loads(result.stdout)
        self.assertIn("cannot be loaded", report["nodes"][2]["problem"])
        self.assertEqual([r["a"]["node"] for r in report["results"]], ["n01", "n02", "n04"])

    def test_a_node_of_another_version(self):
        self.install_later("rdma-nccl", "n03")
        report = self.report("--schedule", "loopback", code=2)
        self.assertEqual({result["a"]["node"] for result in report["results"]}, {"n01", "n02", "n04"})
        self.assertEqual(report["nodes"][2]["name"], "n03")
        self.assertRegex(report["nodes"][2]["problem"], OTHER_VERSION)

    def test_the_batch_script(self):
        with open(f"{CHECKOUT}/etc/sbatch/pairs.sbatch", encoding="utf-8") as file:
            text = file.read()
        script = f"{self.shared}/pairs.sbatch"
        with open(script, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(script, 0o755)
        command = ["sbatch", "--wait", "--exclusive", "--chdir", self.shared, script, "--root", self.root, "--set"]
        command += ["hca=mlx5_1", *QUICK, "--schedule", "loopback"]
        result = self.cluster.run(*command, **self.variables)
        outputs = [name for name in os.listdir(self.shared) if name.endswith(".out")]
        self.assertEqual(len(outputs), 1, result.stderr)
        with open(f"{self.shared}/{outputs[0]}", encoding="utf-8") as file:
            output = file.read()
        self.assertEqual(result.returncode, 0, result.stderr + output)
        self.assertIn("4 nodes, loopback: 4 of 4 pairings", output)
        self.assertIn("Verdict: good", output)
        self.assertEqual(len([name for name in os.listdir(self.shared) if name.endswith(".html")]), 1)

    def test_a_signal_tells_what_is_known(self):
        output = f"{self.shared}/out"
        command = ["sbatch", "--parsable", "-N4", "--ntasks-per-node=1", "--rdma-nccl", "-o", output, "--wrap"]
        words = ["srun", "rdma-nccl", "pairs", "--root", self.root, "--set", "hca=mlx5_1", "-D", "60", "--schedule"]
        command += [" ".join([*words, "loopback"])]
        job = self.good(*command, **self.variables).strip()
        deadline = time.monotonic() + TIME_LIMIT

        def text() -> str:
            if not os.path.exists(output):
                return ""
            with open(output, encoding="utf-8") as file:
                return file.read()

        while "4 pairings, about" not in text():
            self.assertLess(time.monotonic(), deadline, text())
            time.sleep(0.1)
        self.good("scancel", "--signal=TERM", f"{job}.0")  # without, Slurm kills a step at once
        while "Verdict" not in text():
            self.assertLess(time.monotonic(), deadline, text())
            time.sleep(0.1)
        self.assertIn("Ended early: interrupted by SIGTERM", text())
        self.good("scancel", job)


if __name__ == "__main__":
    if not os.path.exists(FAKE):
        print("test_pairs.py: no emulated verbs: built without libibverbs")
        sys.exit(0)
    main()
