# SPDX-License-Identifier: Apache-2.0
"""The project's Debian packages on nodes that never had it: installed as a site does, used, removed, purged."""

from __future__ import annotations

import os

from lab import put
from project import packages_folder
from test_slurm import SlurmTest
from testbed import SHELL

PLUGSTACK = "/etc/slurm/plugstack.conf"
# What may change: what package managers and daemons write of themselves.
OWN = "/var/lib/dpkg /var/lib/apt /var/cache /var/log /var/spool /var/lib/munge /lab /mnt /packages /tmp /run /proc /sys /dev"
FILES = f"""prune=
for path in {OWN}; do prune="$prune -path $path -o"; done
find / -xdev \\( $prune -path /x \\) -prune -o ! -type d -print | sort
find /etc -type f ! -path {PLUGSTACK} -exec sha256sum {{}} + | sort"""
MINUTES = 300  # seconds: apt reads the whole list of packages, on an emulated CPU


class Packages(SlurmTest):
    options = ("--bare",)

    def apt(self, node: str, *arguments: str) -> str:
        command = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-y", *arguments)
        done = self.lab.run(node, *command, seconds=MINUTES)
        self.assertEqual(done.status, 0, done.out + done.err)
        return done.out

    def install(self, node: str) -> None:
        """As the README says, with the line that the package asks for."""
        folder = packages_folder(self.lab.suite)
        names = [name for name in os.listdir(folder) if name.endswith(".deb") and "-dbgsym_" not in name]
        self.lab.good(node, "mkdir", "/packages")
        for name in names:
            put(self.lab.state, node, os.path.join(folder, name), f"/packages/{name}")
        said = self.apt(node, "install", *(f"/packages/{name}" for name in names))
        hints = [line.partition(f"{PLUGSTACK}: ")[2] for line in said.splitlines() if line.startswith("rdma-nccl: ")]
        self.assertEqual(hints, ["include /etc/slurm/plugstack.conf.d/rdma-nccl*.conf"], said)
        self.lab.script(node, f"echo '{hints[0]}' >> {PLUGSTACK}")

    def files(self) -> dict[str, list[str]]:
        return {node: self.lab.good(node, *SHELL, FILES).splitlines() for node in self.lab.nodes}

    def test_from_installation_to_purge(self):
        self.lab.everywhere(f": > {PLUGSTACK}")
        before = self.files()
        self.assertNotIn("rdma-nccl", self.srun("--help").out)

        self.install("n01")
        half = self.srun("--rdma-nccl=exchange=5", "hostname")
        self.assertEqual((half.status, sorted(half.out.split())), (0, ["n01", "n02"]), half.err)
        self.assertRegex(half.err, r"warning: 1 of 2 nodes did not report within 5 s: n02 \(no plugin there\?")
        self.assertEqual(sorted(self.good("hostname").split()), ["n01", "n02"])

        self.install("n02")
        done = self.srun("--rdma-nccl=verbose=1", "true")
        self.assertIn("rank layout, 2 tasks on 2 nodes", done.err)
        self.exchange()
        self.assertIn("rdma-nccl", self.lab.good("n02", "rdma-nccl", "--version"))
        self.assertIn("/usr/bin/rdma-nccl", self.files()["n02"], "what is installed is found, so what is left would be, too")

        for node in self.lab.nodes:
            self.apt(node, "remove", "rdma-nccl", "slurm-spank-rdma-nccl")
        gone = self.srun("hostname")
        self.assertEqual((gone.status, gone.err), (0, ""))
        for node in self.lab.nodes:
            self.apt(node, "purge", "rdma-nccl", "slurm-spank-rdma-nccl")
        self.lab.everywhere(f": > {PLUGSTACK}")
        for node, files in self.files().items():
            self.assertEqual(sorted(set(files) ^ set(before[node])), [], node)
