# SPDX-License-Identifier: Apache-2.0
"""The installed plugin in a real Slurm on real RDMA devices. The GPUs are character devices that do nothing."""

from __future__ import annotations

import glob
import json
import re
import shutil

from images import ARM64, get_image
from project import build_folder, run_in_suite
from testbed import PATIENCE, SHELL, LabTest, on_each_suite

# Rank 0 and rank 1 send to each other by what their own variables name, as NCCL would: the first HCA, the GID index,
# and rank 0's address. The arguments go to the program.
EXCHANGE = """
device=${NCCL_IB_HCA#=}
run() { timeout 30 ibv_rc_pingpong -d "${device%%:*}" -g "$NCCL_IB_GID_INDEX" -p $((MASTER_PORT + 3)) "$@"; }
if [ "$RANK" = 0 ]; then
    run "$@"
    exit
fi
tries=0
until said=$(run "$@" "$MASTER_ADDR" 2>&1); do
    case $said in *"Couldn't connect"*) ;; *) echo "$said"; exit 1 ;; esac
    tries=$((tries + 1))
    [ $tries -lt 100 ]
    sleep 0.1
done
echo "$said"
"""
SENT = "/sys/class/infiniband/mlx5_0/ports/1/hw_counters/sent_pkts"
AS_ALICE = ("setpriv", "--reuid=alice", "--regid=alice", "--init-groups", "--inh-caps=-all")


class SlurmTest(LabTest):
    """Steps on both nodes."""

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

    def exchange(self, *options: str, program: tuple[str, ...] = ("-n", "10", "-m", "4096")) -> None:
        """RDMA between the ranks, by their variables; the devices count it."""
        before = [int(self.lab.read(node, SENT)) for node in self.lab.nodes]
        self.good("--rdma-nccl", *options, "/bin/busybox", *SHELL[1:], EXCHANGE, "exchange", *program)
        after = [int(self.lab.read(node, SENT)) for node in self.lab.nodes]
        for was, now in zip(before, after):
            self.assertGreaterEqual(now - was, 10)


class InSlurm(SlurmTest):
    def of_tasks(self, names: str, *options: str) -> list[dict[str, str]]:
        """These variables of each task, in the order of nodes and ranks."""
        shown = " ".join(f"{name}=${{{name}-}}" for name in ["SLURMD_NODENAME", "SLURM_PROCID", *names.split()])
        lines = self.good(*options, *SHELL, f"echo {shown}").splitlines()
        return [dict(word.split("=", 1) for word in line.split()) for line in sorted(lines)]

    # --- What a step gets ---

    @on_each_suite
    def test_installed_as_a_site_does(self):
        self.assertIn("rdma_nccl.so", self.lab.read("n01", "/etc/slurm/plugstack.conf.d/rdma-nccl.conf"))
        self.assertIn("--rdma-nccl", self.srun("--help").out)
        plain = self.good("env")
        self.assertNotIn("NCCL", plain, "without the option nothing happens")

    @on_each_suite
    def test_step_gets_what_the_node_says(self):
        """Nodes differ: each task has the index of its own node."""
        self.lab.script(
            "n02",
            """for rail in 1 2; do
                ip address add 10.88.$rail.2/24 dev eth$rail; ip address delete 10.77.$rail.2/24 dev eth$rail
            done""",
        )
        tasks = self.of_tasks("NCCL_IB_HCA NCCL_IB_GID_INDEX", "--rdma-nccl", "--ntasks-per-node=2")
        self.assertEqual([task["NCCL_IB_GID_INDEX"] for task in tasks], ["1", "1", "2", "2"])
        for task in tasks:
            env = json.loads(self.lab.run(task["SLURMD_NODENAME"], "rdma-nccl", "env", "--json").out)
            said = {each["name"]: each["value"] for each in env["variables"]}
            self.assertEqual(task["NCCL_IB_HCA"], said["NCCL_IB_HCA"])
            self.assertEqual(task["NCCL_IB_GID_INDEX"], said["NCCL_IB_GID_INDEX"])
        self.exchange()

    def test_ranks_reach_each_other(self):
        """Also when the step gets nothing of srun's environment."""
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

    @on_each_suite
    def test_heterogeneous_job(self):
        """Its components are jobs of their own; Slurm says which, and so all nodes meet on the fabric."""
        tell = (*SHELL, "echo $SLURMD_NODENAME $RANK $WORLD_SIZE $NODE_RANK $NNODES $MASTER_ADDR")
        components = ("-N1", "-n2", "--rdma-nccl", *tell, ":", "-N1", "-n1", *tell)
        done = self.lab.run("n01", "srun", *components, user="alice")
        self.assertEqual(done.status, 0, done.err)
        ranks = ["n01 0 3 0 2 10.77.1.1", "n01 1 3 0 2 10.77.1.1", "n02 2 3 1 2 10.77.1.1"]
        self.assertEqual(sorted(done.out.splitlines()), ranks, done.err)

    @on_each_suite
    def test_hosts_mount(self):
        """Each node asks slurmctld, in a child of slurmstepd, which nodes the step has. (Their names are known here.)"""
        self.addCleanup(self.lab.everywhere, "sed -i /^hosts_mount/d /etc/rdma-nccl.conf")
        self.lab.everywhere("echo hosts_mount = on >> /etc/rdma-nccl.conf")
        done = self.srun("--rdma-nccl=hosts=mount", "true")
        self.assertEqual(done.status, 0, done.err)
        self.assertIn("rank layout, 2 tasks on 2 nodes", done.err)
        self.assertNotRegex(done.err, "slurmctld did not say|fatal")

    @on_each_suite
    def test_spawn(self):
        """One rank per GPU of any program, where Slurm can put words in front of it; else srun and sbatch say what to type."""
        gpus = "--gpus-per-node=2"
        result = self.srun("--rdma-nccl=spawn", gpus, *SHELL, "echo $SLURMD_NODENAME $RANK $LOCAL_RANK $WORLD_SIZE")
        if "prepend" in result.err:
            self.assertEqual(result.status, 255)  # srun's own, for an option that a plugin refuses
            self.assertIn("type instead: srun --rdma-nccl ... rdma-nccl run PROGRAM", result.err)
            batch = self.lab.run("n01", "sbatch", "--rdma-nccl=spawn", "--wrap", "true", user="alice")
            self.assertNotEqual(batch.status, 0, "it would only fail later")
            self.assertEqual(self.lab.good("n01", "squeue", "--noheader").strip(), "")
            return
        self.assertEqual(result.status, 0, result.err)
        ranks = sorted(" ".join(line.split()[-4:]) for line in result.out.splitlines())
        self.assertEqual(ranks, ["n01 0 0 4", "n01 1 1 4", "n02 2 0 4", "n02 3 1 4"])
        self.assertIn("pi = 3.14159", self.good("--rdma-nccl=spawn", gpus, "pi", "1000000"))
        batch = ("sbatch", "--rdma-nccl=spawn", gpus, "-N2", "--wait", "--output=/tmp/spawn.out", "--wrap", "srun pi 1000000")
        self.lab.good("n01", *batch, user="alice")
        self.assertIn("pi = 3.14159", self.lab.read("n01", "/tmp/spawn.out"))

    @on_each_suite
    def test_spawn_where_it_cannot_be(self):
        """One process in the place of all ranks is no success: the step ends, and says why."""
        several = self.srun("--rdma-nccl=spawn", "--ntasks-per-node=2", "echo", "ran")
        self.assertNotEqual(several.status, 0)
        self.assertNotIn("ran", several.out)
        if "prepend" in several.err:
            return
        self.assertIn("this step has 4 tasks on 2 nodes: use --ntasks-per-node=1", several.err)
        commands = "/usr/bin/rdma-nccl /usr/libexec/rdma-nccl/rdma-nccl"  # the usual one and the static one
        self.lab.script("n02", f"for file in {commands}; do mv $file $file.away; done")
        try:
            missing = self.srun("--rdma-nccl=spawn", "--kill-on-bad-exit=1", "echo", "ran")
            self.lab.script("n02", "mv /usr/libexec/rdma-nccl/rdma-nccl.away /usr/libexec/rdma-nccl/rdma-nccl")
            alone = self.srun("--rdma-nccl=spawn", "--gpus-per-node=2", "echo", "ran")
            self.assertEqual(alone.out.split().count("ran"), 4, f"the static one alone: {alone.err}")
        finally:
            self.lab.script("n02", f"for file in {commands}; do [ ! -e $file.away ] || mv $file.away $file; done")
        self.assertNotEqual(missing.status, 0)
        self.assertRegex(missing.err, r"n02: spawn=on: rdma-nccl is neither \S+ nor in PATH here: install it on this node")

    def test_pi_over_the_fabric(self):
        """The head's name on the first rail; the bytes are seen on that interface."""
        received = "/sys/class/net/eth1/statistics/rx_packets"
        before = int(self.lab.read("n01", received))
        head = "--rdma-nccl=head=suffix:-rail1"
        self.assertIn("pi = 3.14159", self.good(head, "--ntasks-per-node=2", "pi", "1000000"))
        self.assertGreater(int(self.lab.read("n01", received)), before + 10)
        (task, _) = self.of_tasks("MASTER_ADDR GLOO_SOCKET_IFNAME", head)
        self.assertEqual((task["MASTER_ADDR"], task["GLOO_SOCKET_IFNAME"]), ("10.77.1.1", "eth1"))
        self.assertIn("pi = 3.14159", self.good(head, "--gpus-per-node=2", "rdma-nccl", "run", "pi", "1000000"))

    def test_locked_memory(self):
        """What verbs can register in a step is what the step may lock: 1 MiB, with a limit below and with none."""
        size = ("-n", "1", "-m", "4096", "-s", str(1 << 20))
        for limit, good in (("65536", False), ("unlimited", True)):
            limited = ("env", "--chdir=/tmp", "prlimit", f"--memlock={limit}:{limit}", *AS_ALICE)
            step = ("srun", "-N2", "--rdma-nccl", *SHELL, EXCHANGE, "exchange", *size)
            done = self.lab.run("n01", *limited, *step)
            self.assertEqual(done.status == 0, good, done.out + done.err)
            self.assertEqual("Couldn't register MR" in done.out + done.err, not good)

    # --- Faults ---

    def test_rail_down(self):
        """On one node: it uses the other rail, and so does the other node, who would find nobody there."""
        self.lab.script("n02", "ip link set eth2 down")
        for settings, others in (("", "=mlx5_0:1"), (",exchange=off", "=mlx5_0:1,mlx5_1:1")):
            step = self.srun(f"--rdma-nccl=verbose=3{settings}", *SHELL, "echo $SLURM_PROCID $NCCL_IB_HCA")
            self.assertEqual(sorted(step.out.splitlines()), [f"0 {others}", "1 =mlx5_0:1"], step.err)
            self.assertIn("n02: mlx5_1 port 1 is DOWN", step.err)
        self.exchange()

    def test_no_device(self):
        """Nothing there: the step runs, and is told to use nothing."""
        self.lab.everywhere("rdma link delete mlx5_0; rdma link delete mlx5_1")
        done = self.srun("--rdma-nccl", *SHELL, "echo HCA=${NCCL_IB_HCA-}")
        self.assertEqual((done.status, sorted(done.out.split())), (0, ["HCA=", "HCA="]), done.err)
        self.assertNotEqual(self.srun("--rdma-nccl=strict", "true").status, 0)

    def test_device_removed_during_a_step(self):
        """Step and node live on; the next step does without it, on both nodes."""
        step = self.lab.start("n01", "srun", "-N2", "--rdma-nccl", "sleep", "2", user="alice")
        self.lab.script("n02", "until pgrep -x sleep > /dev/null; do usleep 100000; done; rdma link delete mlx5_0")
        tasks = self.of_tasks("NCCL_IB_HCA", "--rdma-nccl")
        self.assertEqual([task["NCCL_IB_HCA"] for task in tasks], ["=mlx5_1:1", "=mlx5_1:1"])
        done = step.wait(PATIENCE)
        self.assertEqual(done.status, 0, done.err)

    def test_order_by_block(self):
        """In a private cluster, whose Slurm is otherwise this machine's: 22.05 does not say which block a node is in."""
        if self.lab.suite.startswith(ARM64):
            self.skipTest("this machine's kernel does not run the suite's programs")
        done = run_in_suite(get_image(self.lab.suite), "/mnt/source/tests/cluster/test_exchange.py", "build", "Blocks")
        if "skipped" in done.stderr:
            self.skipTest("this Slurm does not say which block a node is in")
        self.assertRegex(done.stderr, r"\nRan 2 tests in .*\n\nOK\n\Z")

    def test_plugin_of_another_release(self):
        """Slurm refuses it; as it is `optional`, steps go on without."""
        plugins = {path.split("/")[-3]: path for path in glob.glob(build_folder("*/build/rdma_nccl.so"))}
        plugins.pop(self.lab.suite)
        others = [path for suite, path in plugins.items() if suite.startswith(ARM64) == self.lab.suite.startswith(ARM64)]
        if not others:
            self.skipTest("there is no build for another suite")
        shutil.copy(others[0], self.lab.state.path("lab", "other.so"))
        conf = "/etc/slurm/plugstack.conf.d/rdma-nccl.conf"
        self.lab.script("n01", f"cp {conf} /tmp/; echo optional /lab/other.so > {conf}")
        try:
            done = self.srun("true")
            self.assertEqual(done.status, 0, done.err)
            self.assertNotIn("--rdma-nccl", self.srun("--help").out)
        finally:
            self.lab.good("n01", "cp", "/tmp/rdma-nccl.conf", conf)
        self.assertIn("--rdma-nccl", self.srun("--help").out)

