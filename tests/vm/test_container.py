# SPDX-License-Identifier: Apache-2.0
"""Tasks in a container: a container plugin, emulated by tests/fake_container, runs them in an image."""

from __future__ import annotations

from test_slurm import SlurmTest
from testbed import on_each_suite

IMAGE = "/srv/image"
# One static program, no C library, no file but its own: no image has less.
MAKE_IMAGE = f"""
mkdir -p {IMAGE}/bin {IMAGE}/proc {IMAGE}/sys {IMAGE}/dev {IMAGE}/tmp
cp /bin/busybox {IMAGE}/bin/
ln -sf busybox {IMAGE}/bin/sh
printf '%s\n' PATH=/bin NCCL_IB_HCA=mlx4 NCCL_ALGO=Ring > {IMAGE}/environment
echo optional /usr/local/bin/fake_container.so > /etc/slurm/plugstack.conf.d/$1
"""
INSIDE = "/bin/sh", "-c"


class InContainer(SlurmTest):
    def setUp(self):
        super().setUp()
        self.load_plugin("container.conf")

    def load_plugin(self, name: str) -> None:
        """Slurm loads it before ours if this name comes before rdma-nccl.conf."""
        self.lab.everywhere(MAKE_IMAGE.replace("$1", name))
        self.addCleanup(self.lab.everywhere, f"rm -f /etc/slurm/plugstack.conf.d/{name}")

    @on_each_suite
    def test_variables_of_the_image(self):
        """Ours win over them, what the user set outside wins over both, and the rest is named."""
        show = "[ ! -e /usr ] && echo $SLURMD_NODENAME $NCCL_IB_HCA $NCCL_ALGO"
        done = self.srun("--rdma-nccl=verbose=2", f"--image={IMAGE}", *INSIDE, show)
        self.assertEqual(done.status, 0, done.err)
        for line in done.out.splitlines():
            self.assertRegex(line, r"^n0[12] =mlx5_\S+ Ring$")
        self.assertEqual(len(done.out.splitlines()), 2)
        self.assertIn("note: NCCL_IB_HCA=mlx4 of the container's image is replaced by =mlx5_", done.err)
        self.assertIn("note: NCCL_ALGO=Ring is of the container's image", done.err)
        users = self.srun("--rdma-nccl", f"--image={IMAGE}", *INSIDE, show, prefix=("env", "NCCL_IB_HCA=mlx5_1"))
        self.assertEqual(sorted(users.out.split())[:2], ["Ring", "Ring"], users.err)
        self.assertEqual(sorted(users.out.split())[2:], ["mlx5_1", "mlx5_1", "n01", "n02"])
        marker = self.srun("--rdma-nccl", f"--image={IMAGE}", *INSIDE, "echo $RDMA_NCCL_SET",
                           prefix=("env", "NCCL_IB_HCA=mlx5_1"))
        self.assertIn("NCCL_SOCKET_IFNAME:", marker.out)
        self.assertNotIn("NCCL_IB_HCA", marker.out, "a step inside would take it for ours")

    @on_each_suite
    def test_what_the_image_lacks(self):
        """A line from each node, with the cure."""
        done = self.srun("--rdma-nccl", f"--image={IMAGE}", *INSIDE, "true")
        for node in self.lab.nodes:
            self.assertIn(f"{node}: warning: the container's image has no libibverbs.so.1: NCCL will use sockets", done.err)
        self.assertNotIn("container", self.srun("--rdma-nccl", "true").err)

    @on_each_suite
    def test_spawn(self):
        """Ranks in an image that has never heard of us, whichever plugin comes first."""
        for name in ("container.conf", "z-container.conf"):
            with self.subTest(name):
                self.lab.everywhere("rm -f /etc/slurm/plugstack.conf.d/*container.conf")
                self.load_plugin(name)
                show = "[ ! -e /usr ] && echo $SLURMD_NODENAME $RANK $LOCAL_RANK $WORLD_SIZE"
                done = self.srun("--rdma-nccl=spawn", f"--image={IMAGE}", "--gpus-per-node=2", *INSIDE, show)
                if "prepend" in done.err:
                    return
                self.assertEqual(done.status, 0, done.err)
                ranks = sorted(" ".join(line.split()[-4:]) for line in done.out.splitlines() if "n0" in line)
                self.assertEqual(ranks, ["n01 0 0 4", "n01 1 1 4", "n02 2 0 4", "n02 3 1 4"], done.out + done.err)
