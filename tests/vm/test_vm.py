# SPDX-License-Identifier: Apache-2.0
"""The tool itself: what `vm exec` and `vm put` pass on, and that nothing stays when a lab comes to a sudden end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile

from images import ARM64
from leftovers import eventually, host_state, processes_naming
from testbed import PATIENCE, VM, LabTest


class Tool(LabTest):
    def command(self, name: str) -> list[str]:
        return [VM, name, "--dir", self.lab.state.directory]

    def vm(self, *arguments: str) -> subprocess.CompletedProcess:
        command = [*self.command(arguments[0]), *arguments[1:]]
        return subprocess.run(command, text=True, capture_output=True, check=False, stdin=subprocess.DEVNULL)

    def test_exec(self):
        script = "echo out; echo err >&2; exit 3"
        done = self.vm("exec", "n01", "--", "busybox", "sh", "-c", script)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (3, "out\n", "err\n"))
        done = subprocess.run([*self.command("exec"), "n01", "--", "busybox", "printf", r"\377\000"], capture_output=True)
        self.assertEqual(done.stdout, b"\377\000")
        done = self.vm("exec", "--user", "alice", "all", "--", "id", "-un")
        self.assertEqual(sorted(done.stdout.splitlines()), ["n01: alice", "n02: alice"])
        self.assertEqual(self.vm("exec", "n01", "--", "busybox", "sh", "-c", "kill -9 $$").returncode, 137)
        self.assertEqual(self.vm("exec", "n01", "--", "/nonexistent").returncode, 127)
        self.assertIn("no node n09; there are: n01, n02", self.vm("exec", "n09", "--", "true").stderr)

    def test_interrupted_exec_ends_the_command(self):
        script = ["busybox", "sh", "-c", "echo $$; sleep 1000; :"]
        command = [*self.command("exec"), "n01", "--", *script]
        with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as running:
            pid = running.stdout.readline().strip()
            running.send_signal(signal.SIGINT)
            self.assertEqual(running.wait(PATIENCE), 130)
        self.assertTrue(eventually(lambda: self.lab.run("n01", "busybox", "test", "-e", f"/proc/{pid}").status == 1))

    def test_put(self):
        with tempfile.TemporaryDirectory() as scratch:
            os.makedirs(f"{scratch}/folder/inner")
            with open(f"{scratch}/folder/inner/file", "w", encoding="ascii") as file:
                file.write("text")
            self.assertEqual(self.vm("put", f"{scratch}/folder", "all:/tmp/").stderr, "")
            self.assertEqual(self.vm("put", f"{scratch}/folder/inner/file", "n02:/tmp/other name").stderr, "")
        self.assertEqual(self.lab.read("n01", "/tmp/folder/inner/file"), "text")
        self.assertEqual(self.lab.read("n02", "/tmp/other name"), "text")
        self.assertEqual(self.vm("put", "/etc/hosts", "n01").returncode, 1)

    def start_up(self, *arguments: str) -> tuple[subprocess.Popen, str]:
        """A lab that is about to boot: its guest runs. It must end with its directory."""
        state = tempfile.mkdtemp(prefix="vm")
        self.addCleanup(lambda: os.path.exists(state) and subprocess.run([VM, "down", "--dir", state], check=True))
        command = [VM, "up", "--bare", "--nodes", "1", "--suite", self.lab.suite, "--dir", state, *arguments]
        booting = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertTrue(eventually(lambda: os.path.exists(f"{state}/keeper.json") and len(self.processes(state)) == 2))
        return booting, state

    def processes(self, state: str) -> list[int]:
        with open(f"{state}/keeper.json", encoding="ascii") as file:
            return [process["pid"] for process in json.load(file).get("processes", [])]

    def assert_nothing_left(self, state: str) -> None:
        self.assertTrue(eventually(lambda: not processes_naming(state) and not os.path.exists(state)))

    def test_ends(self):
        """Interrupted; its owner killed; its keeper killed; its guest killed: nothing stays, and `up` says what was."""
        before = host_state()
        booting, state = self.start_up()
        booting.send_signal(signal.SIGINT)
        booting.communicate()
        self.assertEqual(booting.returncode, 130)
        self.assert_nothing_left(state)

        with subprocess.Popen(["sleep", "1000"]) as owner:
            booting, state = self.start_up("--owner", str(owner.pid))
            owner.kill()
        booting.communicate()
        self.assertEqual(booting.returncode, 1)
        self.assert_nothing_left(state)

        for which, said in ((0, "keeper has ended"), (1, "n01: ended while booting")):
            booting, state = self.start_up()
            os.kill(self.processes(state)[which], signal.SIGKILL)
            self.assertIn(said, booting.communicate()[1])
            self.assertEqual(booting.returncode, 1)
            self.assert_nothing_left(state)
        self.assertEqual(host_state(), before)

    def test_wrong_use(self):
        kernel = "bookworm" if self.lab.suite.startswith(ARM64) else f"{ARM64}bookworm"
        wrong = (["--nodes", "0"], ["--rails", "99"], ["--owner", "999999999"], ["--dir", "/"], ["--kernel", kernel])
        for arguments in wrong:
            command = [VM, "up", "--bare", "--suite", self.lab.suite, *arguments]
            done = subprocess.run(command, text=True, capture_output=True, check=False)
            self.assertEqual(done.returncode, 1, arguments)
            self.assertRegex(done.stderr, r"\Avm up: .*\n\Z")
