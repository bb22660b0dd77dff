# SPDX-License-Identifier: Apache-2.0
"""Where the tasks of a step run, on a kernel with two sockets, in a Slurm that binds.

CPUs 0-7 and GPUs 0-3 are of socket 0, CPUs 8-15 and GPUs 4-7 of socket 1; 0 and 1, 2 and 3, ... are threads of a core.
A test reads: options of srun, and then for each task in the order of ranks where it may run.
"""

from __future__ import annotations

import json
import time

from testbed import PATIENCE, LabTest, on_each_suite

# The kernel's word for it, of the shell itself: no other program has to start. A device that cgroups keep away cannot
# be read, which busybox would not notice: it asks for the file's mode.
SHELL = ("sh", "-euc")
WHERE = """
while read -r key value _; do
    case $key in Cpus_allowed_list:) cpus=$value ;; Mems_allowed_list:) mems=$value ;; esac
done < /proc/self/status
read -r _ policy _ < /proc/self/numa_maps
devices=
for number in 0 1 2 3 4 5 6 7; do [ ! -r /dev/nvidia$number ] || devices=$devices$number; done
echo "rank=$SLURM_PROCID cpus=$cpus mems=$mems policy=$policy devices=$devices"""
MACHINE = "/machine"  # the tree that rdma-nccl reads

EIGHT = ("--ntasks-per-node=8", "--gpus-per-node=8")  # one task per GPU
ONE = ("--ntasks-per-node=1", "--gpus-per-node=8")
HALF = ("--ntasks=4", "--gpus-per-node=4", "--cpus-per-task=2")

BLOCK = "0-1 2-3 4-5 6-7 8-9 10-11 12-13 14-15"
CYCLIC = "0-1 8-9 2-3 10-11 4-5 12-13 6-7 14-15"
BACKWARDS_CPUS = "14-15 12-13 10-11 8-9 6-7 4-5 2-3 0-1"
BACKWARDS = "mask_cpu:0xc000,0x3000,0xc00,0x300,0xc0,0x30,0xc,0x3"


class OnTwoSockets(LabTest):
    options = ("--nodes", "1", "--two-sockets")

    def setUp(self):
        """Cores of a job that is about to end are not given to the next."""
        super().setUp()
        self.lab.good("n01", "/lab/guest/await-idle", "1")

    def start_tasks(self, names: str, *options: str, then: str = "", launcher: tuple[str, ...] = ()):
        """Each says where it may run, and what these variables are."""
        shown = "".join(f" {name}=${{{name}-}}" for name in names.split())
        script = f'{WHERE}{shown}"\n{then}'
        return self.lab.start("n01", "srun", *options, *launcher, *SHELL, script, user="alice")

    def tasks(self, *options: str, names: str = "", launcher: tuple[str, ...] = ()) -> list[dict[str, str]]:
        return told(self.step(*options, names=names, launcher=launcher).out)

    def step(self, *options: str, names: str = "", launcher: tuple[str, ...] = ()):
        done = self.start_tasks(names, *options, launcher=launcher).wait(PATIENCE)
        self.assertEqual(done.status, 0, f"{options}:\n{done.out}{done.err}")
        return done

    def await_tasks(self, step, count: int) -> None:
        """Until so many have said where they are."""
        while step.out.count("\n") < count:
            self.assertIsNone(step.status(), step.err)
            time.sleep(0.05)

    def gets_both_sockets(self) -> bool:
        """A job of HALF gets half of the cores of both sockets since Slurm 25.11 (cons_tres keeps it no longer to the
        sockets that have enough GPUs); before, all of one."""
        release = self.lab.good("n01", "sinfo", "--version").split()[-1]
        return tuple(int(number) for number in release.split(".")[:2]) >= (25, 11)

    def halves(self) -> tuple[list[str], list[str]]:
        """What the tasks of two jobs of HALF are bound to."""
        words = (CYCLIC if self.gets_both_sockets() else BLOCK).split()
        return words[:4], words[4:]

    def assert_cpus(self, expected: str, *options: str) -> None:
        """A word for each task, or one for all."""
        cpus = [task["cpus"] for task in self.tasks(*options)]
        words = expected.split()
        self.assertEqual(cpus, words if len(words) > 1 else words * len(cpus), options)


def told(output: str) -> list[dict[str, str]]:
    """Of each task, in the order of ranks."""
    tasks = [dict(word.split("=", 1) for word in line.split()) for line in output.splitlines()]
    return sorted(tasks, key=lambda task: int(task["rank"]))


def socket_of(cpus: str) -> int:
    return int(cpus.split("-")[0].split(",")[0]) // 8


class Placement(OnTwoSockets):
    @on_each_suite
    def test_machine(self):
        """It is what it claims to be, and rdma-nccl sees the same CPUs."""
        cpu, node = "/sys/devices/system/cpu", "/sys/devices/system/node"
        for path, expected in (
            (f"{cpu}/online", "0-15"),
            (f"{cpu}/cpu5/topology/thread_siblings_list", "4-5"),
            (f"{cpu}/cpu5/topology/core_siblings_list", "0-7"),
            (f"{node}/online", "0-1"),
            (f"{node}/has_memory", "0-1"),
            (f"{node}/node0/cpulist", "0-7"),
            (f"{node}/node1/cpulist", "8-15"),
            (f"{node}/node1/distance", "21 10"),
        ):
            self.assertEqual(self.lab.read("n01", path), expected, path)
            self.assertEqual(self.lab.read("n01", MACHINE + path), expected, MACHINE + path)
        self.assertEqual(self.lab.good("n01", "sinfo", "-h", "-o", "%z %G").strip(), "2:4:2 gpu:8")

    # --- What Slurm does without us ---

    @on_each_suite
    def test_one_task_per_gpu(self):
        """A CPU each, or a core; every other task on the socket that its GPU is not on."""
        self.assert_cpus("0 8 1 9 2 10 3 11", *EIGHT)
        self.assert_cpus(CYCLIC, *EIGHT, "--cpus-per-task=2")
        self.assert_cpus(CYCLIC, *EIGHT, "--exclusive")

    def test_tasks_with_gpus_of_their_own(self):
        tasks = self.tasks("-n8", "--gpus-per-task=1", "--cpus-per-task=2", names="CUDA_VISIBLE_DEVICES")
        self.assertEqual([task["CUDA_VISIBLE_DEVICES"] for task in tasks], list("01234567"))
        self.assertEqual([task["cpus"] for task in tasks], CYCLIC.split())
        tasks = self.tasks("-n4", "--gpus-per-task=2", "--cpus-per-task=4", names="CUDA_VISIBLE_DEVICES")
        self.assertEqual([task["CUDA_VISIBLE_DEVICES"] for task in tasks], ["0,1", "2,3", "4,5", "6,7"])
        self.assertEqual([task["cpus"] for task in tasks], ["0-3", "8-11", "4-7", "12-15"])

    @on_each_suite
    def test_one_task_for_all_gpus(self):
        """Who does not say so gets one core, of either socket, for eight GPUs."""
        (task,) = self.tasks(*ONE)
        self.assertIn(task["cpus"], ("0-1", "8-9"))
        self.assert_cpus("0-15", *ONE, "--cpus-per-task=16")

    @on_each_suite
    def test_cpu_bind(self):
        """`none` is none only on a node of one's own: else it is what the job has."""
        self.assert_cpus("0-15", *EIGHT, "--exclusive", "--cpu-bind=none")
        self.assert_cpus("0-3,8-11", *EIGHT, "--cpu-bind=none")
        self.assert_cpus("0-7 8-15 0-7 8-15 0-7 8-15 0-7 8-15", *EIGHT, "--exclusive", "--cpu-bind=sockets")
        self.assert_cpus("0-1 8-9 2-3 10-11 8-9 0-1 10-11 2-3", *EIGHT, "--cpu-bind=cores")
        self.assert_cpus("14-15 12-13 10-11 8-9 6-7 4-5 2-3 0-1", *EIGHT, "--exclusive", f"--cpu-bind={BACKWARDS}")

    def test_distribution(self):
        for distribution, expected in (
            ("block:block", BLOCK),
            ("block:cyclic", CYCLIC),
            ("block:fcyclic", "0,8 1,9 2,10 3,11 4,12 5,13 6,14 7,15"),
            ("plane=4", BLOCK),
        ):
            self.assert_cpus(expected, *EIGHT, "--cpus-per-task=2", f"--distribution={distribution}")
        self.assert_cpus("0 8 2 10 4 12 6 14", *EIGHT, "--hint=nomultithread")

    def test_memory(self):
        """A task may use all of the node's memory, and no policy prefers any."""
        for options, policies in (((), ["default"] * 8), (("--mem-bind=local",), ["bind:0", "bind:1"] * 4)):
            tasks = self.tasks(*EIGHT, "--cpus-per-task=2", *options)
            self.assertEqual([task["policy"] for task in tasks], policies)
            self.assertEqual({task["mems"] for task in tasks}, {"0-1"})

    @on_each_suite
    def test_half_a_node(self):
        """A socket; or the half of both, though the four GPUs are of one."""
        self.assert_cpus(" ".join(self.halves()[0]), *HALF)
        self.assert_cpus("0-1 8-9 2-3 10-11", *HALF, "--ntasks-per-node=4")

    @on_each_suite
    def test_two_jobs_on_a_node(self):
        first = self.start_tasks("CUDA_VISIBLE_DEVICES", *HALF, then="sleep 1000")
        self.addCleanup(first.wait_after_kill)
        self.addCleanup(lambda: self.lab.good("n01", "scancel", "--user=alice"))  # srun killed would leave the job
        self.await_tasks(first, 4)
        second = self.tasks(*HALF, names="CUDA_VISIBLE_DEVICES")
        for tasks, cpus, gpus in zip((told(first.out), second), self.halves(), ("0,1,2,3", "4,5,6,7")):
            self.assertEqual([task["cpus"] for task in tasks], cpus)
            self.assertEqual({task["CUDA_VISIBLE_DEVICES"] for task in tasks}, {gpus})

    # --- Limits ---

    @on_each_suite
    def test_locked_memory(self):
        """The soft limit is that of the shell, below the hard one of slurmd."""
        limit = 'ulimit -l 1000; exec srun "$@" busybox sh -c "ulimit -S -l; ulimit -H -l"'
        for options, expected in (((), ["1000", "unlimited"]), (("--propagate=NONE",), ["unlimited", "unlimited"])):
            done = self.lab.run("n01", "busybox", "sh", "-c", limit, "sh", *options, user="alice")
            self.assertEqual(done.out.split(), expected, done.err)


class Bound(OnTwoSockets):
    """With --rdma-nccl: what Slurm gave a task of its own stays, what tasks have in common is shared out."""

    def bound(self, *options: str, setting: str = "", names: str = "") -> list[dict[str, str]]:
        return self.tasks(*options, f"--rdma-nccl{setting}", names=f"CUDA_VISIBLE_DEVICES UCX_NET_DEVICES LOCAL_RANK {names}")

    def assert_placed(self, cpus: str, order: str, *options: str) -> None:
        """CPUs and order of the GPUs as said; memory of each task's own socket, and the HCA of its GPU first."""
        tasks = self.bound(*options)
        self.assertEqual([task["cpus"] for task in tasks], cpus.split(), options)
        self.assertEqual({task["CUDA_VISIBLE_DEVICES"] for task in tasks}, {order}, options)
        for rank, task in enumerate(tasks):
            self.assertEqual(task["policy"], f"prefer:{socket_of(task['cpus'])}", task)
            gpu = int(order.split(",")[rank])
            self.assertEqual(task["UCX_NET_DEVICES"].split(",")[0], f"mlx5_{gpu // 2}:1", task)

    @on_each_suite
    def test_own_cpus_stay_and_gpus_follow(self):
        """Slurm deals the sockets out in turn; LOCAL_RANK's GPU is on the rank's socket all the same."""
        self.assert_placed(CYCLIC, "0,4,2,6,1,5,3,7", *EIGHT, "--cpus-per-task=2")
        self.assert_placed(BLOCK, "0,1,2,3,4,5,6,7", *EIGHT, "--cpus-per-task=2", "--distribution=block:block")
        self.assert_placed("0-3 8-11 4-7 12-15", "0,4,2,5,1,3,6,7", "-n4", "--gpus-per-node=8", "--cpus-per-task=4")

    @on_each_suite
    def test_common_cpus_are_shared_out(self):
        """A core each at its GPU, both threads of it."""
        self.assert_placed(BLOCK, "0,1,2,3,4,5,6,7", *EIGHT, "--exclusive", "--cpu-bind=none")
        self.assert_placed(CYCLIC, "0,4,2,6,1,5,3,7", *EIGHT, "--exclusive", "--cpu-bind=sockets")

    def test_given_masks(self):
        tasks = self.bound(*EIGHT, "--exclusive", f"--cpu-bind={BACKWARDS}")
        self.assertEqual([task["cpus"] for task in tasks], BACKWARDS_CPUS.split())
        order = tasks[0]["CUDA_VISIBLE_DEVICES"].split(",")
        self.assertEqual(sorted(order), list("01234567"))
        for rank, task in enumerate(tasks):
            self.assertEqual(int(order[rank]) // 4, socket_of(task["cpus"]), task)

    def test_one_thread_per_core(self):
        self.assert_placed("0 8 2 10 4 12 6 14", "0,4,2,6,1,5,3,7", *EIGHT, "--hint=nomultithread")

    @on_each_suite
    def test_ranks_of_one_task(self):
        """`rdma-nccl run` binds what it starts."""
        names = "UCX_NET_DEVICES LOCAL_RANK OMP_NUM_THREADS"
        options = (*ONE, "--cpus-per-task=16", "--rdma-nccl")
        ranks = self.tasks(*options, names=names, launcher=("rdma-nccl", "run", "--raw", "--no-python"))
        ranks.sort(key=lambda rank: int(rank["LOCAL_RANK"]))
        self.assertEqual([rank["cpus"] for rank in ranks], BLOCK.split())
        self.assertEqual([rank["policy"] for rank in ranks], ["prefer:0"] * 4 + ["prefer:1"] * 4)
        self.assertEqual([rank["UCX_NET_DEVICES"].split(",")[0] for rank in ranks], [f"mlx5_{i // 2}:1" for i in range(8)])
        self.assertEqual({rank["OMP_NUM_THREADS"] for rank in ranks}, {"1"})

    @on_each_suite
    def test_half_a_node(self):
        """Two jobs: each stays within its own."""
        first = self.start_tasks("CUDA_VISIBLE_DEVICES", *HALF, "--rdma-nccl", then="sleep 1000")
        self.addCleanup(first.wait_after_kill)
        self.addCleanup(lambda: self.lab.good("n01", "scancel", "--user=alice"))
        self.await_tasks(first, 4)
        cpus, others = self.halves()
        self.assertEqual([task["cpus"] for task in told(first.out)], cpus)
        self.assert_placed(" ".join(others), "4,5,6,7", *HALF)

    def test_tasks_with_gpus_of_their_own(self):
        """Their CPUs are near to their GPUs where Slurm left them open; what the isolation costs is said once."""
        done = self.step("-n8", "--gpus-per-task=1", "--exclusive", "--cpu-bind=none", "--rdma-nccl",
                         names="CUDA_VISIBLE_DEVICES UCX_NET_DEVICES JAX_LOCAL_DEVICE_IDS")
        tasks = told(done.out)
        self.assertEqual([task["cpus"] for task in tasks], BLOCK.split())
        self.assertEqual([task["CUDA_VISIBLE_DEVICES"] for task in tasks], list("01234567"))
        self.assertEqual([task["UCX_NET_DEVICES"].split(",")[0] for task in tasks], [f"mlx5_{i // 2}:1" for i in range(8)])
        self.assertEqual({task["JAX_LOCAL_DEVICE_IDS"] for task in tasks}, {"0"})
        self.assertEqual(done.err.count("each task sees 1 of the node's 8 GPUs"), 1, done.err)
        self.assertIn("--gpus-per-node=8 --gpu-bind=none", done.err)

    def test_bind(self):
        """off: nothing; cpu: no memory policy. What the user asked of Slurm's memory binding stays."""
        options = (*EIGHT, "--exclusive", "--cpu-bind=none")
        self.assertEqual({(task["cpus"], task["policy"]) for task in self.bound(*options, setting="=bind=off")}, {("0-15", "default")})
        tasks = self.bound(*options, setting="=bind=cpu")
        self.assertEqual([(task["cpus"], task["policy"]) for task in tasks], [(cpus, "default") for cpus in BLOCK.split()])
        tasks = self.bound(*EIGHT, "--cpus-per-task=2", "--mem-bind=local")
        self.assertEqual([task["policy"] for task in tasks], ["bind:0", "bind:1"] * 4)

    @on_each_suite
    def test_explain_says_the_same(self):
        """Each task's own `rdma-nccl explain` has the plan that the plugin carried out."""
        for options in ((*EIGHT, "--cpus-per-task=2"), (*EIGHT, "--exclusive", "--cpu-bind=none")):
            cpus = [task["cpus"] for task in self.bound(*options)]
            out = self.lab.good("n01", "srun", *options, "--rdma-nccl", "sh", "-c",
                                '[ $SLURM_PROCID != 5 ] || rdma-nccl explain --json', user="alice")
            places = json.loads(out)["places"]
            self.assertEqual([rank["cpus"] for rank in places["ranks"]], cpus)
            self.assertEqual(places["source"], "Slurm, as the plugin saw them")

    @on_each_suite
    def test_one_core_for_eight_ranks_is_explained(self):
        done = self.step(*ONE, "--exclusive", "--rdma-nccl")
        self.assertIn("8 ranks on", done.err)
        self.assertIn("the step has 2 of the job's 16 CPUs", done.err)
        self.assertIn("SRUN_CPUS_PER_TASK", done.err)

    @on_each_suite
    def test_locked_memory_is_raised(self):
        """Above what the shell that submitted allows, soft and hard; without the setting, the low limit is said."""
        limited = 'ulimit -l 1000; exec srun --rdma-nccl busybox sh -c "ulimit -S -l; ulimit -H -l"'
        low = self.lab.run("n01", "busybox", "sh", "-c", limited, user="alice")
        self.assertEqual(low.out.split(), ["1000", "unlimited"], low.err)
        self.assertIn("locked memory is limited to 1000 KiB", low.err)
        self.addCleanup(self.lab.good, "n01", "sed", "-i", "/^memlock/d", "/etc/rdma-nccl.conf")
        self.lab.good("n01", "sh", "-c", "echo memlock = raise >> /etc/rdma-nccl.conf")
        raised = self.lab.run("n01", "busybox", "sh", "-c", limited, user="alice")
        self.assertEqual(raised.out.split(), ["unlimited", "unlimited"], raised.err)
        self.assertNotIn("locked memory", raised.err)


class Confined(OnTwoSockets):
    """Where Slurm's cgroups confine steps, as on most sites."""

    options = (*OnTwoSockets.options, "--confined")

    @on_each_suite
    def test_cgroups(self):
        """A task has only its own GPUs; without a binding of its own, the cores of the step."""
        tasks = self.tasks("-n8", "--gpus-per-task=1", "--cpus-per-task=2")
        self.assertEqual([task["devices"] for task in tasks], list("01234567"))
        self.assertEqual([task["cpus"] for task in tasks], CYCLIC.split())
        tasks = self.tasks(*HALF, "--cpu-bind=none")
        self.assertEqual({task["devices"] for task in tasks}, {"0123"})
        self.assertEqual({task["cpus"] for task in tasks}, {"0-3,8-11" if self.gets_both_sockets() else "0-7"})
        self.assertEqual({task["mems"] for task in tasks}, {"0-1"})

    @on_each_suite
    def test_bound(self):
        """Which GPU a task has, only its device file tells: all of them are told 0."""
        names = "CUDA_VISIBLE_DEVICES UCX_NET_DEVICES"
        tasks = self.tasks("-n8", "--gpus-per-task=1", "--exclusive", "--cpu-bind=none", "--rdma-nccl", names=names)
        self.assertEqual({task["CUDA_VISIBLE_DEVICES"] for task in tasks}, {"0"})
        self.assertEqual([task["cpus"] for task in tasks], BLOCK.split())
        self.assertEqual([task["UCX_NET_DEVICES"].split(",")[0] for task in tasks], [f"mlx5_{i // 2}:1" for i in range(8)])
        tasks = self.tasks(*HALF, "--cpu-bind=none", "--rdma-nccl", names=names)
        self.assertEqual([task["cpus"] for task in tasks], sorted(self.halves()[0], key=BLOCK.split().index))
        self.assertEqual([task["policy"] for task in tasks], [f"prefer:{socket_of(task['cpus'])}" for task in tasks])

    @on_each_suite
    def test_adopted_process(self):
        """A process that came into a step's cgroup from outside, as by pam_slurm_adopt, is the step's for everybody."""
        step = self.start_tasks("", "-n1", then="sleep 1000")
        self.addCleanup(step.wait_after_kill)
        self.addCleanup(lambda: self.lab.good("n01", "scancel", "--user=alice"))
        self.await_tasks(step, 1)
        job = self.lab.good("n01", "squeue", "--noheader", "--format=%A").strip()
        server = self.lab.start("n01", "ibv_rc_pingpong", "-d", "mlx5_0", "-g", "1")
        self.addCleanup(server.wait_after_kill)
        self.addCleanup(server.kill)
        self.lab.good("n01", "lab-agent", "await-port", "18515", "20")  # it has its queue pair by then
        self.assertEqual(self.owner(job), ("system", "ibv_rc_pingpong"))
        move = """cgroup=$(sed s/^0::// /proc/$(pgrep -x sleep)/cgroup)
            pgrep -x ibv_rc_pingpong > /sys/fs/cgroup$cgroup/cgroup.procs"""
        self.lab.good("n01", *SHELL, move)
        for user in (None, "bob"):
            self.assertEqual(self.owner(job, user), ("step", "ibv_rc_pingpong"))
            self.assertEqual(self.owner("999", user), ("other step", f"job {job} step 0"))

    def owner(self, job: str, user: str | None = None) -> tuple[str, str]:
        """Whose the only queue pair is, as step 0 of this job sees it."""
        [owner] = json.loads(self.lab.good("n01", "owners", job, "0", user=user))["owners"]
        return owner["owner"], owner["name"]
