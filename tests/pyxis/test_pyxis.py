#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Steps in containers of the real pyxis and enroot, in a private Slurm: usage: test_pyxis.py BUILD_DIR [TEST...]. As
root; tests/pyxis/run builds what is needed and calls it. Prints what worked in which image, and how long starts take."""

from __future__ import annotations

import glob
import os
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cluster"))

from cluster_test import BUILD, CHECKOUT, CLUSTER, TIME_LIMIT, ClusterTest, main  # noqa: E402

FOLDER = os.path.dirname(os.path.dirname(BUILD))
IMAGES = os.path.join(os.path.dirname(os.path.dirname(FOLDER)), "images")
ALL = ("bare", "musl", "bookworm", "bullseye")
TASKS = ("--nodes=2", "--ntasks-per-node=4", "--gpus-per-node=4")  # a task for each GPU
NODES = ("--nodes=2", "--gpus-per-node=4")  # a launcher on each node
SPAWN = ("--rdma-nccl=spawn", *NODES)
WHO = ("show", "SLURMD_NODENAME", "RANK", "LOCAL_RANK", "WORLD_SIZE")
RANKS = [f"n0{1 + rank // 4} {rank} {rank % 4} 8" for rank in range(8)]
MEETING = ("show", "MASTER_ADDR", "MASTER_PORT")
MOVE = os.path.join(CHECKOUT, "tests", "data", "move-traffic")
GIB = 1 << 30
ROUNDS = 15


def image(name: str) -> str:
    return f"--container-image={IMAGES}/{name}.sqsh"


class Pyxis(ClusterTest):
    arguments = ["--gpus", "4", *(word for tool in glob.glob(f"{FOLDER}/enroot/bin/*") for word in ("--bin", tool))]
    pyxis_first = True  # in plugstack.conf

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        state = cls.cluster.dir
        os.mkdir(f"{state}/run/pyxis")
        with open(f"{state}/etc/plugstack.conf", encoding="utf-8") as file:
            lines = [f"required {FOLDER}/pyxis/spank_pyxis.so runtime_path={state}/run/pyxis\n", file.readline()]
        with open(f"{state}/etc/plugstack.conf", "w", encoding="utf-8") as file:  # read for each step
            file.writelines(lines if cls.pyxis_first else reversed(lines))
        # The emulated machine's /sys in the container, as enroot mounts the node's.
        cls.machine = f"--container-mounts={state}/root/sys:/sys"

    def srun(self, *words: str, status: int = 0, **variables: str) -> list[str]:
        """The lines of its stdout, without the ranks' prefixes, sorted; self.messages has its stderr."""
        done = self.cluster.run("srun", *words, **variables)
        self.messages = done.stderr
        self.assertEqual(done.returncode, status, f"{words}\n{done.stdout}{done.stderr}")
        return sorted(line[line.startswith("[") and line.find("] ") + 2:] for line in done.stdout.splitlines())

    def shown(self, *words: str, **options) -> list[str]:
        """Only the values of what `show` has printed."""
        return [" ".join(word.partition("=")[2] for word in line.split(" ")) for line in self.srun(*words, **options)]


class Images(Pyxis):
    def in_all(self, what: str, *before: str, command: tuple[str, ...], expected: list[str]) -> None:
        for name in ALL:
            with self.subTest(name):
                self.assertEqual(self.shown(*before, image(name), *command), expected, self.messages)
                print(f"{name}: {what}: as expected, on both nodes", flush=True)

    def test_a_task_for_each_rank(self):
        self.in_all("rank layout", "--rdma-nccl", *TASKS, command=WHO, expected=RANKS)

    def test_spawn(self):
        """The launcher is the node's file, which no image has."""
        self.in_all("spawn", *SPAWN, command=WHO, expected=RANKS)

    def test_run(self):
        """The launcher that etc/enroot/50-rdma-nccl.fstab mounts."""
        self.in_all("rdma-nccl run", "--rdma-nccl", *NODES, command=("rdma-nccl", "run", *WHO), expected=RANKS)

    def test_check(self):
        for name in ALL:
            with self.subTest(name):
                check = (*NODES, self.machine, image(name), "rdma-nccl", "check")
                out = "\n".join(self.srun("--rdma-nccl", *check, status=2))
                for node in ("n01", "n02"):
                    self.assertRegex(out, f"(?m)^{node}: CRITICAL: ")
                self.assertIn("verbs.library          there is no libibverbs.so.1", out)
                self.assertRegex(out, "device.file  .*mlx5_1, ")  # seen, but without its file
                print(f"{name}: rdma-nccl check: as expected, on both nodes", flush=True)

    def test_the_libraries_of_the_image(self):
        libraries = {"bare": "programs of this image are static", "musl": r"libc \(musl\) +/lib/ld-musl-",
                     "bookworm": r"libc\.so\.6 +2\.36 ", "bullseye": r"libc\.so\.6 +2\.31 "}
        for name, text in libraries.items():
            with self.subTest(name):
                out = "\n".join(self.srun("--rdma-nccl", "--nodes=1", image(name), "rdma-nccl", "check", "--image"))
                self.assertRegex(out, text)

    def test_verdict(self):
        rails = [word for rail in range(1, 9) for word in (f"mlx5_{rail}:1", GIB, GIB)]
        for name in ALL:
            with self.subTest(name):
                shared = f"{self.cluster.dir}/{name}"
                os.mkdir(shared)
                where = [CLUSTER, "exec", "--dir", self.cluster.dir]
                command = [*where, "--user", "alice", "--", "srun", "--rdma-nccl", *TASKS, image(name)]
                command += [f"--container-mounts={shared}:/shared", "show", "wait", "/shared/go"]
                with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as srun:
                    ready = [srun.stdout.readline() for _ in range(8)]
                    for node in ("n01", "n02"):
                        moved = [*where, "--node", node, "--", MOVE, f"{self.cluster.dir}/root", *map(str, rails)]
                        subprocess.run(moved, check=True)
                    with open(f"{shared}/go", "w", encoding="ascii"):
                        pass
                    messages = srun.communicate(timeout=TIME_LIMIT)[1]
                self.assertEqual((ready, srun.returncode), (["ready\n"] * 8, 0), messages)
                self.assertRegex(messages, "(?m)^rdma-nccl: RDMA USED: 100.0 % of .* between 2 nodes went over RDMA")
                print(f"{name}: {messages.splitlines()[-1]}", flush=True)


class Options(Pyxis):
    def test_of_the_root(self):
        """Whoever the user is in the container, and whether it can be written: the launcher starts."""
        for option in ("remap-root", "writable", "readonly"):
            for negated in ("", "no-") if option == "remap-root" else ("",):
                with self.subTest(negated + option):
                    self.assertEqual(self.shown(*SPAWN, f"--{negated}container-{option}", image("bare"), *WHO), RANKS)
        inside = ("sh", "-c", "id -u; if touch /new 2> /dev/null; then echo written; fi")
        for options, expected in (
            (("--container-remap-root", "--container-readonly"), ["0"] * 8),
            (("--no-container-remap-root", "--container-writable"), ["20001"] * 8 + ["written"] * 8),
        ):
            self.assertEqual(self.srun(*SPAWN, *options, image("bookworm"), *inside), expected)

    def test_a_kept_container(self):
        """Its first step makes it, the second finds it; then it is not there by another name."""
        self.srun("--rdma-nccl=verbose=0", "--nodes=2", "--container-name=kept", image("bare"), "show", "HOME")
        self.assertEqual(self.shown(*SPAWN, "--container-name=kept", *WHO), RANKS)
        self.srun(*SPAWN, "--container-name=other", *WHO, status=1)
        self.assertIn('a container with name "pyxis_other" does not exist', self.messages)

    def test_hosts(self):
        with open(f"{self.cluster.dir}/etc/rdma-nccl.conf", "a", encoding="ascii") as site:
            site.write("hosts_mount = on\n")
        out = self.srun("--rdma-nccl=hosts=mount", *NODES, image("bookworm"), "cat", "/etc/hosts")
        self.assertEqual([line.split() for line in out if "n02" in line], [["25.11.128.3", "n02"]] * 2)
        self.assertNotIn("hosts=mount", self.messages)

    def test_logs_for_the_verdict(self):
        """verify=full: in a directory that the container has, too."""
        inside = ("sh", "-c", "touch ${NCCL_DEBUG_FILE%/*}/nccl.log && echo ${NCCL_DEBUG_FILE%-*}")
        out = self.srun("--rdma-nccl=verify=full", *TASKS, image("bookworm"), *inside)
        self.assertRegex(out[0], r"^/dev/shm/rdma-nccl-\d+\.0$")
        self.assertEqual(out, out[:1] * 8)
        self.assertNotIn("without NCCL's logs", self.messages)
        for node in ("n01", "n02"):
            self.assertNotIn("rdma-nccl", self.cluster.run("ls", "/dev/shm", node=node).stdout)


class Variables(Pyxis):
    NAMES = ("show", "NCCL_IB_GID_INDEX", "NCCL_SOCKET_IFNAME", "NCCL_ALGO", "NCCL_IB_DISABLE")

    def test_ours_win_over_the_images(self):
        shown = self.shown("--rdma-nccl=verbose=2", *TASKS, image("bare"), *self.NAMES)
        self.assertEqual(shown, ["3 =eth1 Ring 1"] * 8)
        for note in (
            "note: NCCL_IB_GID_INDEX=0 of the container's image is replaced by 3",
            "note: NCCL_SOCKET_IFNAME=lo of the container's image is replaced by =eth1",
            "note: NCCL_ALGO=Ring is of the container's image",
            "warning: in the container: NCCL_IB_DISABLE=1 is set: NCCL uses sockets",
        ):
            self.assertIn(f"rdma-nccl: n01: {note}\n", self.messages)

    def test_the_users_win_over_both(self):
        """By srun's environment or --export."""
        expected = ["2 eth0 Ring 1"] * 8
        by_environment = {"NCCL_IB_GID_INDEX": "2", "NCCL_SOCKET_IFNAME": "eth0"}
        shown = self.shown("--rdma-nccl=verbose=2", *TASKS, image("bare"), *self.NAMES, **by_environment)
        self.assertEqual(shown, expected)
        self.assertIn("note: NCCL_IB_GID_INDEX=0 of the container's image is replaced by 2\n", self.messages)
        self.assertIn("NCCL_SOCKET_IFNAME=eth0  [user: kept]\n", self.messages)
        by_export = f"--export=ALL,{','.join('='.join(item) for item in by_environment.items())}"
        self.assertEqual(self.shown(*SPAWN, by_export, image("bare"), *self.NAMES), expected)

    def test_pytorchs_image(self):
        """There pyxis sets RANK, and enroot's hook MASTER_ADDR and MASTER_PORT."""
        self.assertRegex(self.shown(*TASKS, image("bookworm"), *MEETING)[0], r"^n01 6\d{4}$")
        for options in (("--rdma-nccl", *TASKS), SPAWN):
            shown = self.shown(*options, image("bookworm"), *MEETING)
            self.assertRegex(shown[0], r"^25\.11\.128\.2 12\d{3}$")
            self.assertEqual(shown, shown[:1] * 8)

    def test_what_the_container_lacks(self):
        self.srun("--rdma-nccl", *NODES, image("bare"), "show", "RANK")
        for node in ("n01", "n02"):
            self.assertIn(f"{node}: warning: the container's /sys/class/infiniband lacks HCAs (mlx5_1, ", self.messages)
            self.assertIn(f"{node}: warning: the container's image has no libibverbs.so.1", self.messages)
        self.srun("--rdma-nccl", *NODES, self.machine, image("bare"), "show", "RANK")
        self.assertNotIn("lacks HCAs", self.messages)
        self.srun("--rdma-nccl", *NODES, "true")
        self.assertNotIn("container", self.messages)


class Failures(Pyxis):
    def test_no_such_program(self):
        self.srun(*SPAWN, image("bare"), "nosuch", status=127)
        self.assertIn("rdma-nccl: nosuch: no such program in PATH\n", self.messages)
        self.srun("--rdma-nccl", *TASKS, image("bare"), "/nosuch", status=2)
        self.assertIn("execve(): /nosuch: No such file or directory", self.messages)

    def test_no_image(self):
        for name, text in (("empty", "container start failed"), ("nosuch", "No such file or directory")):
            for options in (SPAWN, ("--rdma-nccl", *TASKS)):
                with self.subTest(name, options=options):
                    self.assertEqual(self.srun(*options, image(name), *WHO, status=1), [])
                    self.assertIn(text, self.messages)
        self.srun(*SPAWN, "--container-image=", *WHO, status=255)
        self.assertIn("--container-image: argument required", self.messages)

    def test_a_rank_fails(self):
        self.srun(*SPAWN, image("bare"), "show", "exit", "7", status=7)
        self.assertRegex(self.messages, r"(?m)^rdma-nccl: rank \d .* failed first: exited with code 7$")
        self.srun("--rdma-nccl", *TASKS, image("bare"), "show", "exit", "7", status=7)

    def test_a_rank_is_killed(self):
        self.srun(*SPAWN, image("bare"), "show", "signal", "9", status=137)
        self.assertRegex(self.messages, r"(?m)^rdma-nccl: rank \d .* failed first: killed by signal 9")
        self.srun("--rdma-nccl", *TASKS, image("bare"), "show", "signal", "9", status=137)


class PyxisAfterUs(Pyxis):
    """Not as the packages have it. Ranks are right; variables are the image's, and that is said."""

    pyxis_first = False
    WARNING = "rdma-nccl: n01: warning: plugstack.conf lists pyxis after rdma-nccl: "

    def test_ranks(self):
        for options in (("--rdma-nccl", *TASKS), SPAWN):
            for name in ("bare", "bookworm"):
                self.assertEqual(self.shown(*options, image(name), *WHO), RANKS)

    def test_variables(self):
        for options in (("--rdma-nccl", *TASKS), SPAWN):
            self.assertEqual(self.shown(*options, image("bare"), *Variables.NAMES), ["0 lo Ring 1"] * 8)
            self.assertEqual(self.messages.count(self.WARNING), 1, self.messages)
        self.srun("--rdma-nccl", *TASKS, "true")
        self.assertNotIn("pyxis", self.messages)


class Measure(Pyxis):
    def test_start(self):
        """Eight ranks by spawn, by eight tasks with us and without; one after the other in each round."""
        command = (image("bare"), "show", "RANK")
        plain = (*TASKS, *command)
        steps = {"plain srun": plain, "rank layout": ("--rdma-nccl", *plain), "spawn": (*SPAWN, *command)}
        times: dict[str, list[float]] = {name: [] for name in steps}
        for _ in range(ROUNDS):
            for name, words in steps.items():
                began = time.monotonic()
                self.assertEqual(len(self.srun(*words)), 8)
                times[name].append(time.monotonic() - began)
        base = statistics.median(times["plain srun"])
        for name, seconds in times.items():
            middle = statistics.median(seconds)
            spread = f"{min(seconds):.2f} to {max(seconds):.2f}"
            print(f"8 ranks by {name}: {middle:.2f} s ({spread}), {middle / base:.2f} of plain srun", flush=True)


if __name__ == "__main__":
    main()
