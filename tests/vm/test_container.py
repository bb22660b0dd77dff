# SPDX-License-Identifier: Apache-2.0
"""Tasks in a container: a container plugin, emulated by tests/fake_container, runs them in an image."""

from __future__ import annotations

import re

from test_evidence import StepsTest
from test_slurm import SlurmTest
from testbed import SHELL, on_each_suite

IMAGE = "/srv/image"
# One static program, no C library, no file but its own: no image has less.
MAKE_IMAGE = f"""
mkdir -p {IMAGE}/bin {IMAGE}/proc {IMAGE}/sys {IMAGE}/dev {IMAGE}/tmp
cp /bin/busybox {IMAGE}/bin/
ln -sf busybox {IMAGE}/bin/sh
printf '%s\n' PATH=/bin NCCL_IB_HCA=mlx4 NCCL_ALGO=Ring > {IMAGE}/environment
"""
LOAD_PLUGIN = "echo optional /usr/local/bin/fake_container.so > /etc/slurm/plugstack.conf.d/$1"
INSIDE = "/bin/sh", "-c"

# The node's own programs, seen from another root directory; and the same without libibverbs.
FULL, BROKEN = "/srv/full", "/srv/broken"
MAKE_FULL_IMAGES = f"""
mount -t tmpfs tmpfs /srv
mkdir /srv/upper /srv/work
for image in {FULL} {BROKEN}; do
    mkdir -p $image/usr $image/etc $image/lab $image/proc $image/sys $image/dev $image/tmp $image/home $image/mnt
    mkdir -m 1777 $image/run
    for folder in bin lib lib64 sbin; do ln -s usr/$folder $image/$folder; done
    mount --bind /etc $image/etc
    mount --bind /lab $image/lab
done
mount --bind /usr {FULL}/usr
mount -t overlay -o lowerdir=/usr,upperdir=/srv/upper,workdir=/srv/work overlay {BROKEN}/usr
rm {BROKEN}/usr/lib/*/libibverbs.so*
"""

STATIC_COMMAND = "/usr/libexec/rdma-nccl/rdma-nccl"

# Containers that are programs, as Apptainer is: the plugin sees nothing of them.
BUBBLEWRAP = (
    *("bwrap", "--ro-bind", "/", "/", "--dev-bind", "/dev", "/dev", "--bind", "/tmp", "/tmp", "--proc", "/proc"),
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--die-with-parent"),
)
CHARLIECLOUD = ("ch-run", "--bind=/lab:/lab")
# Without root, systemd and a file system for layers; the image's folder comes behind the last word.
PODMAN = (
    *("podman", "--root=/tmp/podman", "--runroot=/tmp/podman-run", "--storage-driver=vfs"),
    *("--cgroup-manager=cgroupfs", "--events-backend=none", "run", "--rm", "--cgroups=disabled", "--log-driver=none"),
    *("--env-host", "--device=/dev/infiniband"),
)
# What the two mount over, and what podman writes, in an image of the user's that has the command by a mount.
MAKE_USERS_IMAGE = f"""{MAKE_IMAGE}
cd {IMAGE}
mkdir -p etc run usr/local/bin
touch etc/passwd etc/group etc/hosts usr/local/bin/rdma-nccl
chown -R alice .
"""
COMMAND = "/usr/local/bin/rdma-nccl"
MAKE_TUN = "modprobe tun; mkdir -p /dev/net; [ -e /dev/net/tun ] || mknod /dev/net/tun c 10 200; chmod 666 /dev/net/tun"

# A bundle for Slurm's own containers, with the static command mounted.
BUNDLE = "/srv/bundle"
MAKE_BUNDLE = f"""
mkdir -p {BUNDLE}/rootfs/usr/local/bin {BUNDLE}/rootfs/var/run/slurm
cp -a {IMAGE}/. {BUNDLE}/rootfs/
touch {BUNDLE}/rootfs/usr/local/bin/rdma-nccl
cat > {BUNDLE}/config.json << END
{{
  "ociVersion": "1.0.2",
  "process": {{"user": {{"uid": 0, "gid": 0}}, "args": ["/bin/sh"], "env": ["PATH=/bin:/usr/local/bin"], "cwd": "/"}},
  "root": {{"path": "rootfs", "readonly": true}},
  "mounts": [
    {{"destination": "/proc", "type": "proc", "source": "proc"}},
    {{"destination": "/dev", "type": "none", "source": "/dev", "options": ["rbind"]}},
    {{"destination": "/sys", "type": "none", "source": "/sys", "options": ["rbind", "ro"]}},
    {{"destination": "/tmp", "type": "none", "source": "/tmp", "options": ["rbind"]}},
    {{"destination": "/usr/local/bin/rdma-nccl", "type": "none", "source": "{STATIC_COMMAND}",
     "options": ["rbind", "ro"]}}
  ],
  "linux": {{
    "namespaces": [{{"type": "mount"}}, {{"type": "user"}}, {{"type": "pid"}}],
    "uidMappings": [{{"containerID": 0, "hostID": $(id -u alice), "size": 1}}],
    "gidMappings": [{{"containerID": 0, "hostID": $(id -g alice), "size": 1}}]
  }}
}}
END
"""
# The runtimes without root and systemd; runc takes no cgroup where a bundle names none and it may make none.
RUNTIMES = {"crun": "--cgroup-manager=disabled", "runc": ""}


def oci_conf(runtime: str) -> str:
    """Makes Slurm's file of that name."""
    start = f"{runtime} --root=/tmp/{runtime}-%u"
    container = "%n.%j.%s.%t"
    return f"""cat > /etc/slurm/oci.conf << END
RunTimeQuery="{start} state {container}"
RunTimeKill="{start} kill {container}"
RunTimeDelete="{start} delete --force {container}"
RunTimeRun="{start} {RUNTIMES[runtime]} run --bundle=%b {container}"
END
"""


class ContainerTest(SlurmTest):
    """With the plugin of an emulated container."""

    def setUp(self):
        super().setUp()
        self.load_plugin("container.conf")

    def load_plugin(self, name: str) -> None:
        """Slurm loads it before ours if this name comes before rdma-nccl.conf."""
        self.lab.everywhere(MAKE_IMAGE + LOAD_PLUGIN.replace("$1", name))
        self.addCleanup(self.lab.everywhere, f"rm -f /etc/slurm/plugstack.conf.d/{name}")


class InContainer(ContainerTest):
    @on_each_suite
    def test_variables_of_the_image(self):
        """Ours win over them, what the user set outside wins over both, and the rest is named."""
        show = "[ ! -e /usr ] && echo $SLURMD_NODENAME $NCCL_IB_HCA $NCCL_ALGO"
        done = self.srun("--rdma-nccl=verbose=2", f"--container-image={IMAGE}", *INSIDE, show)
        self.assertEqual(done.status, 0, done.err)
        for line in done.out.splitlines():
            self.assertRegex(line, r"^n0[12] =mlx5_\S+ Ring$")
        self.assertEqual(len(done.out.splitlines()), 2)
        self.assertIn("note: NCCL_IB_HCA=mlx4 of the container's image is replaced by =mlx5_", done.err)
        self.assertIn("note: NCCL_ALGO=Ring is of the container's image", done.err)
        users = self.srun("--rdma-nccl", f"--container-image={IMAGE}", *INSIDE, show, prefix=("env", "NCCL_IB_HCA=mlx5_1"))
        self.assertEqual(sorted(users.out.split())[:2], ["Ring", "Ring"], users.err)
        self.assertEqual(sorted(users.out.split())[2:], ["mlx5_1", "mlx5_1", "n01", "n02"])
        marker = self.srun("--rdma-nccl", f"--container-image={IMAGE}", *INSIDE, "echo $RDMA_NCCL_SET",
                           prefix=("env", "NCCL_IB_HCA=mlx5_1"))
        self.assertIn("NCCL_SOCKET_IFNAME:", marker.out)
        self.assertNotIn("NCCL_IB_HCA", marker.out, "a step inside would take it for ours")

    @on_each_suite
    def test_what_the_image_lacks(self):
        """A line from each node, with the cure."""
        done = self.srun("--rdma-nccl", f"--container-image={IMAGE}", *INSIDE, "true")
        for node in self.lab.nodes:
            self.assertIn(f"{node}: warning: the container's image has no libibverbs.so.1: NCCL will use sockets", done.err)
        self.assertNotIn("container", self.srun("--rdma-nccl", "true").err)
        strict = ("--propagate=NONE", "--rdma-nccl=strict")  # alice's locked memory is limited, slurmd's is not
        self.assertEqual(self.srun(*strict, "true").status, 0)
        ended = self.srun(*strict, f"--container-image={IMAGE}", *INSIDE, "true")
        self.assertNotEqual(ended.status, 0)
        for node in self.lab.nodes:
            self.assertIn(f"{node}: strict: the step is ended: the container's image has no libibverbs.so.1", ended.err)

    @on_each_suite
    def test_spawn(self):
        """Ranks in an image that has never heard of us, whichever plugin comes first."""
        for name in ("container.conf", "z-container.conf"):
            with self.subTest(name):
                self.lab.everywhere("rm -f /etc/slurm/plugstack.conf.d/*container.conf")
                self.load_plugin(name)
                show = "[ ! -e /usr ] && echo $SLURMD_NODENAME $RANK $LOCAL_RANK $WORLD_SIZE"
                done = self.srun("--rdma-nccl=spawn", f"--container-image={IMAGE}", "--gpus-per-node=2", *INSIDE, show)
                if "prepend" in done.err:
                    return
                self.assertEqual(done.status, 0, done.err)
                ranks = sorted(" ".join(line.split()[-4:]) for line in done.out.splitlines() if "n0" in line)
                self.assertEqual(ranks, ["n01 0 0 4", "n01 1 1 4", "n02 2 0 4", "n02 3 1 4"], done.out + done.err)


class FullImagesTest(StepsTest):
    """Traffic of tasks in images."""

    def setUp(self):
        super().setUp()
        self.addCleanup(self.lab.everywhere, "/bin/umount --recursive /srv")
        self.lab.everywhere(MAKE_FULL_IMAGES)

    def assert_used(self, *start: str) -> str:
        """What else srun has said."""
        done = self.step("verbs", 200, "--rdma-nccl", *start)
        self.assertRegex(done.err, r"rdma-nccl: RDMA USED: (about )?\d+\.\d % of 2\d\d MB between 2 nodes ")
        return done.err


class VerdictsOnContainers(ContainerTest, FullImagesTest):
    """What srun says of it: queue pairs of other mount, user and PID namespaces count."""

    @on_each_suite
    def test_used(self):
        """From an image, and from bubblewrap with PID and user namespaces of its own."""
        for start in ((f"--container-image={FULL}",), BUBBLEWRAP):
            with self.subTest(start[0]):
                self.assertNotIn("container", self.assert_used(*start), "it lacks nothing")

    @on_each_suite
    def test_not_used(self):
        """The cause is said before the tasks start, and the verdict at their end."""
        done = self.step("tcp", 100, "--rdma-nccl", f"--container-image={BROKEN}")
        cause = "the container's image has no libibverbs.so.1: NCCL will use sockets"
        self.assertIn(f"warning: {cause}", done.err)
        self.assertRegex(done.err, rf"warning: RDMA NOT USED: 1\d\d MB between 2 nodes went over sockets.*{cause}")

    @on_each_suite
    def test_image_that_turns_rdma_off(self):
        """The plugin sees it when the tasks start, and the ranks' environment has it: it is one cause."""
        self.lab.everywhere(f"echo NCCL_IB_DISABLE=1 > {FULL}/environment")
        done = self.step("tcp", 400, "--rdma-nccl", f"--container-image={FULL}")
        self.assertRegex(done.err, r"RDMA NOT USED: .*; in the container: NCCL_IB_DISABLE=1 is set: NCCL uses sockets")
        self.assertNotIn("in the ranks' environment", done.err)


class ProgramsTest(FullImagesTest):
    """Containers that are programs, of which the plugin knows nothing."""

    def need(self, program: str) -> None:
        if self.lab.run("n01", *SHELL, f"command -v {program}").status != 0:
            self.skipTest(f"{program} is not among the packages of {self.lab.suite}")

    def assert_ranks(self, *start: str, option: str = "--rdma-nccl") -> None:
        """Two ranks on each node, of `rdma-nccl run` in containers, or in a container each, say who is who."""
        show = "echo $SLURMD_NODENAME $LOCAL_RANK $RANK $WORLD_SIZE ${NCCL_IB_HCA%%_*}"
        done = self.srun(option, "--gpus-per-node=2", *start, *INSIDE, show)
        self.assertEqual(done.status, 0, done.out + done.err)
        ranks = sorted(line.split("] ")[-1] for line in done.out.splitlines())
        self.assertEqual(ranks, [f"n0{1 + rank // 2} {rank % 2} {rank} 4 =mlx5" for rank in range(4)], done.err)

    def assert_check(self, *container: str, lacks: tuple[str, ...] = ()) -> None:
        """`rdma-nccl check` in it finds the fabric that the node has, and only these faults."""
        done = self.srun("--rdma-nccl", "--propagate=NONE", *container, "rdma-nccl", "check", "--all")
        self.assertEqual(len(re.findall(r"(?m)^PASS +gid.usable +mlx5_0:1, mlx5_1:1: has a GID", done.out)), 2, done.out + done.err)
        self.assertEqual(re.findall(r"(?m)^(?:FAIL|WARN) +([\w.]+)", done.out), [*lacks] * 2, done.out + done.err)


class OtherContainers(ProgramsTest):
    @on_each_suite
    def test_bubblewrap(self):
        """As with Apptainer, each rank is a container."""
        self.assert_ranks("rdma-nccl", "run", *BUBBLEWRAP)

    def test_podman(self):
        """Its containers are no descendants of slurmstepd, but the traffic is the step's."""
        self.need("podman")
        host = (*PODMAN, "--network=host")
        self.assert_used(*host, "--rootfs", FULL)
        self.assert_check(*host, "--rootfs", FULL, lacks=("shm",))
        self.lab.everywhere(MAKE_USERS_IMAGE)
        self.assert_ranks(*host, f"--volume={STATIC_COMMAND}:{COMMAND}:ro", "--rootfs", IMAGE, COMMAND, "run")
        self.assert_ranks(*host, "--rootfs", IMAGE, option="--rdma-nccl=spawn")

    def test_podmans_own_network(self):
        """Its default without root: no interface of the fabric is there, and who asks is told so."""
        self.need("podman")
        self.lab.everywhere(MAKE_TUN)
        done = self.srun("--rdma-nccl", *PODMAN, "--rootfs", FULL, "rdma-nccl", "check")
        lost = r"gid.usable +mlx5_0:1: has no usable RoCE v2 address \(eth1 is not in this network namespace\)"
        self.assertEqual(len(re.findall(lost, done.out)), 2, done.out + done.err)
        self.assertIn("or run in the host's", done.out)
        self.lab.everywhere(MAKE_USERS_IMAGE)
        command = (*PODMAN, f"--volume={STATIC_COMMAND}:{COMMAND}:ro", "--rootfs", IMAGE, COMMAND, "run", "-n2")
        done = self.srun("--rdma-nccl", *command, "--join-timeout=1", *INSIDE, "exit 0")
        lost = r"NCCL_IB_HCA: mlx5_0 port 1 has its interface eth1 in another network namespace"
        self.assertEqual(len(re.findall(lost, done.err)), 2, done.out + done.err)

    def test_charliecloud(self):
        self.need("ch-run")
        self.assert_used(*CHARLIECLOUD, FULL, "--")
        self.assert_check(*CHARLIECLOUD, FULL, "--")
        self.lab.everywhere(MAKE_USERS_IMAGE)
        self.assert_ranks("ch-run", f"--bind={STATIC_COMMAND}:{COMMAND}", IMAGE, "--", COMMAND, "run")
        self.assert_ranks("ch-run", IMAGE, "--", option="--rdma-nccl=spawn")

    def test_slurms_own(self):
        """A task per rank works, `rdma-nccl run` works where it is mounted, and spawn is refused with what to type. Not in
        Slurm 22.05, which keeps the step's variables from its containers."""
        self.lab.everywhere(MAKE_IMAGE + MAKE_BUNDLE)
        self.addCleanup(self.lab.everywhere, "rm /etc/slurm/oci.conf")
        for runtime in RUNTIMES:
            with self.subTest(runtime):
                self.need(runtime)
                self.lab.everywhere(oci_conf(runtime))
                self.try_slurms_own()

    def try_slurms_own(self) -> None:
        show = "[ ! -e /usr/bin ] && echo $SLURMD_NODENAME $RANK $WORLD_SIZE ${NCCL_IB_HCA%%_*}"
        done = self.srun("--rdma-nccl", f"--container={BUNDLE}", *INSIDE, show)
        self.assertEqual(done.status, 0, done.out + done.err)
        self.assertEqual(sorted(done.out.splitlines()), ["n01 0 2 =mlx5", "n02 1 2 =mlx5"], done.err)
        run = ("--rdma-nccl", f"--container={BUNDLE}", "--gpus-per-node=2", "/usr/local/bin/rdma-nccl", "run")
        done = self.srun(*run, *INSIDE, show)
        ranks = sorted(line.split("] ")[-1] for line in done.out.splitlines())
        self.assertEqual(ranks, [f"n0{1 + rank // 2} {rank} 4 =mlx5" for rank in range(4)], done.out + done.err)
        refused = self.srun("--rdma-nccl=spawn", f"--container={BUNDLE}", "--gpus-per-node=2", *INSIDE, show)
        self.assertNotEqual(refused.status, 0)
        self.assertIn("spawn=on: Slurm's own containers", refused.err)
