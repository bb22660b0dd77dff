# SPDX-License-Identifier: Apache-2.0
"""Steps in containers of the real pyxis and enroot, which tests/vm/build-pyxis has built: `check --pyxis` runs these."""

from __future__ import annotations

import re

from test_evidence import StepsTest

PYXIS = "/mnt/build/pyxis"
LOAD = f"""
ln -sf {PYXIS}/enroot/bin/* /usr/local/bin/
mkdir -p /run/pyxis
echo required {PYXIS}/pyxis/spank_pyxis.so runtime_path=/run/pyxis > /etc/slurm/plugstack.conf.d/pyxis.conf
"""
BROKEN = {
    "no-provider": "the container's libibverbs has no provider for HCAs (mlx5_0, mlx5_1): ",
    "no-verbs": "the container's image has no libibverbs.so.1: NCCL will use sockets",
}


def image(name: str) -> tuple[str, ...]:
    return f"--container-image={PYXIS}/{name}.sqsh", "--container-mounts=/lab:/lab"


class RealPyxis(StepsTest):
    def setUp(self):
        super().setUp()
        self.lab.everywhere(LOAD)
        self.addCleanup(self.lab.everywhere, "rm /etc/slurm/plugstack.conf.d/pyxis.conf")

    def test_used(self):
        done = self.step("verbs", 200, "--rdma-nccl", *image("full"))
        self.assertRegex(done.err, r"rdma-nccl: RDMA USED: (about )?\d+\.\d % of 2\d\d MB between 2 nodes ")
        self.assertNotIn("the container", done.err, "it lacks nothing")

    def test_not_used(self):
        """Of images in which no verbs program works: the cause from each node before the start, the verdict at the end."""
        for name, cause in BROKEN.items():
            with self.subTest(name):
                failed = self.start_step("verbs", 1, *image(name)).wait(120)
                self.assertNotEqual(failed.status, 0, failed.out + failed.err)
                done = self.step("tcp", 100, "--rdma-nccl", *image(name))
                for node in self.lab.nodes:
                    self.assertIn(f"{node}: warning: {cause}", done.err)
                verdict = rf"warning: RDMA NOT USED: 1\d\d MB between 2 nodes went over sockets.*{re.escape(cause)}"
                self.assertRegex(done.err, verdict)

    def test_spawn(self):
        """By the node's file, which the image has not; and by the mount of the site's file."""
        spawn = ("--rdma-nccl=spawn", *image("full"))
        run = ("--rdma-nccl", *image("full"), "rdma-nccl", "run")
        show = ("sh", "-c", "[ ! -e /usr/bin/srun ] && echo $SLURMD_NODENAME $LOCAL_RANK $RANK $WORLD_SIZE ${NCCL_IB_HCA%%_*}")
        for start in (spawn, run):
            with self.subTest(start[0]):
                done = self.srun("--gpus-per-node=2", *start, *show)
                self.assertEqual(done.status, 0, done.out + done.err)
                ranks = sorted(line.split("] ")[-1] for line in done.out.splitlines())
                expected = [f"n0{1 + rank // 2} {rank % 2} {rank} 4 =mlx5" for rank in range(4)]
                self.assertEqual(ranks, expected, done.out + done.err)
