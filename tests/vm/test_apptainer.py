# SPDX-License-Identifier: Apache-2.0
"""Steps in containers of the real Apptainer, without root and setuid: `check --apptainer` runs these."""

from __future__ import annotations

from test_container import BROKEN, COMMAND, FULL, IMAGE, INSIDE, MAKE_USERS_IMAGE, STATIC_COMMAND, ProgramsTest

APPTAINER = "/mnt/build/apptainer"
INSTALL = f"""
ln -sfn {APPTAINER}/usr/bin/apptainer /usr/bin/
ln -sfn {APPTAINER}/usr/lib/*/apptainer /usr/lib/*-linux-gnu/
cp -r {APPTAINER}/etc/apptainer /etc/
mkdir -p /var/lib/apptainer/mnt/session
"""
EXEC = ("apptainer", "--quiet", "exec", "--userns", "--no-home")
FULL_EXEC = (*EXEC, "--bind=/lab")
MOUNTED = (*EXEC, f"--bind={STATIC_COMMAND}:{COMMAND}", IMAGE, COMMAND)
# An image made from one of Docker gives way to the step's variables, one with an %environment of its own does not.
MAKE_ENVIRONMENT = f"""
mkdir -p {IMAGE}/.singularity.d/env
echo 'export NCCL_IB_HCA="${{NCCL_IB_HCA:-"mlx4"}}"' > {IMAGE}/.singularity.d/env/10-docker2singularity.sh
echo 'export NCCL_IB_DISABLE=1' > {IMAGE}/.singularity.d/env/90-environment.sh
"""


class RealApptainer(ProgramsTest):
    def setUp(self):
        super().setUp()
        self.lab.everywhere(INSTALL)

    def test_used(self):
        self.assertNotIn("container", self.assert_used(*FULL_EXEC, FULL))

    def test_not_used(self):
        """The plugin does not know this image: the verdict is right, and who asks in the container is told the cause."""
        done = self.step("tcp", 100, "--rdma-nccl", *FULL_EXEC, BROKEN)
        self.assertRegex(done.err, r"warning: RDMA NOT USED: 1\d\d MB between 2 nodes went over sockets")
        done = self.srun("--rdma-nccl", *FULL_EXEC, BROKEN, "rdma-nccl", "check")
        self.assertIn("libibverbs.so.1", done.out)

    def test_check(self):
        self.assert_check(*FULL_EXEC, FULL)

    def test_ranks(self):
        """In an image that has one static program."""
        self.lab.everywhere(MAKE_USERS_IMAGE)
        self.assert_ranks("rdma-nccl", "run", *EXEC, IMAGE)
        self.assert_ranks(*EXEC, IMAGE, option="--rdma-nccl=spawn")
        self.assert_ranks(*MOUNTED, "run")

    def test_variables_of_the_image(self):
        self.lab.everywhere(MAKE_USERS_IMAGE + MAKE_ENVIRONMENT)
        done = self.srun("--rdma-nccl", *EXEC, IMAGE, *INSIDE, "echo ${NCCL_IB_HCA%%_*} $NCCL_IB_DISABLE")
        self.assertEqual(done.out.split(), ["=mlx5", "1"] * 2, done.err)
        done = self.srun("--rdma-nccl", *MOUNTED, "run", "-n", "1", "true")
        self.assertIn("NCCL_IB_DISABLE=1", done.err)
