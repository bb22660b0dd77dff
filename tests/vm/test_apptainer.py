# SPDX-License-Identifier: Apache-2.0
"""Steps in containers of the real Apptainer, without root and setuid: `check --apptainer` runs these."""

from __future__ import annotations

from test_container import BROKEN, COMMAND, IMAGE, INSIDE, MAKE_USERS_IMAGE, STATIC_COMMAND, ProgramsTest

APPTAINER = "/mnt/build/apptainer"
# Mounted: it finds its other files by the path of its own.
INSTALL = f"""
if [ ! -e /usr/bin/apptainer ]; then
    touch /usr/bin/apptainer
    cd {APPTAINER}/usr/lib/*/apptainer/..
    mkdir /usr/lib/${{PWD##*/}}/apptainer
    mount --bind apptainer /usr/lib/${{PWD##*/}}/apptainer
    mount --bind {APPTAINER}/usr/bin/apptainer /usr/bin/apptainer
    cp -r {APPTAINER}/etc/apptainer /etc/
    mkdir -p /var/lib/apptainer/mnt/session
fi
"""
# An image without mounts, which it would refuse; it mounts the node's programs there, or those without libibverbs.
SANDBOX = "/srv/sandbox"
MAKE_SANDBOX = f"""
mkdir -p {SANDBOX}/usr {SANDBOX}/etc/libibverbs.d {SANDBOX}/lab {SANDBOX}/proc {SANDBOX}/sys {SANDBOX}/dev
mkdir -p {SANDBOX}/tmp {SANDBOX}/var/tmp
for folder in bin lib lib64 sbin; do ln -s usr/$folder {SANDBOX}/$folder; done
"""
EXEC = ("apptainer", "--quiet", "exec", "--userns", "--no-home")
FULL = (*EXEC, "--bind=/usr,/etc/libibverbs.d,/lab", SANDBOX)
WITHOUT_VERBS = (*EXEC, f"--bind={BROKEN}/usr:/usr,/lab", SANDBOX)
MOUNTED = (*EXEC, f"--bind={STATIC_COMMAND}:{COMMAND}", IMAGE, COMMAND)
# It would take the file for the image's variables, as Singularity 2 did.
MAKE_IMAGE = f"{MAKE_USERS_IMAGE}\nrm environment"
# As of an image made from one of Docker, and of %environment.
MAKE_ENVIRONMENT = f"""
for image in {IMAGE} {SANDBOX}; do
    mkdir -p $image/.singularity.d/env
    echo 'export NCCL_IB_HCA="${{NCCL_IB_HCA:-"mlx4"}}"' > $image/.singularity.d/env/10-docker2singularity.sh
    echo 'export NCCL_IB_DISABLE=1' > $image/.singularity.d/env/90-environment.sh
done
"""


class RealApptainer(ProgramsTest):
    def setUp(self):
        super().setUp()
        self.lab.everywhere(INSTALL + MAKE_SANDBOX)

    def test_used(self):
        self.assert_used(*FULL)

    def test_not_used(self):
        """The plugin does not know this image: the verdict is right, and who asks in the container is told the cause."""
        done = self.step("tcp", 100, "--rdma-nccl", *WITHOUT_VERBS)
        self.assertRegex(done.err, r"warning: RDMA NOT USED: 1\d\d MB between 2 nodes went over sockets")
        done = self.srun("--rdma-nccl", *WITHOUT_VERBS, "rdma-nccl", "check")
        self.assertIn("libibverbs.so.1", done.out)

    def test_check(self):
        self.assert_check(*FULL)

    def test_ranks(self):
        """In an image that has one static program."""
        self.lab.everywhere(MAKE_IMAGE)
        self.assert_ranks("rdma-nccl", "run", *EXEC, IMAGE)
        self.assert_ranks(*EXEC, IMAGE, option="--rdma-nccl=spawn")
        self.assert_ranks(*MOUNTED, "run")

    def test_variables_of_the_image(self):
        """They win over the step's, also those that are defaults. Only the verdict names them."""
        self.lab.everywhere(MAKE_IMAGE + MAKE_ENVIRONMENT)
        done = self.srun("--rdma-nccl", *EXEC, IMAGE, *INSIDE, "echo ${NCCL_IB_HCA%%_*} $NCCL_IB_DISABLE")
        self.assertEqual(done.out.split(), ["mlx4", "1"] * 2, done.err)
        done = self.step("tcp", 400, "--rdma-nccl", *FULL)
        self.assertRegex(done.err, r"RDMA NOT USED: .*in the ranks' environment: NCCL_IB_DISABLE=1 ")
