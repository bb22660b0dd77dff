# SPDX-License-Identifier: Apache-2.0
"""What the virtual machines boot: one directory for each Debian suite, made once and kept in the user's cache.

Such a directory is the guests' root and the place where the project is built for them: with Slurm, munge and the RDMA
programs, a compiler with the project's packages, and the suite's kernel with an initramfs for roots on 9p. Guests and
builds only read it.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from state import TestBedError

HERE = os.path.dirname(os.path.abspath(__file__))
CHECKOUT = os.path.dirname(os.path.dirname(HERE))
DEPS = os.path.join(CHECKOUT, "build-aux", "deps")
GUEST = os.path.join(HERE, "guest")
HOOK = os.path.join(HERE, "complete-root")
# Slurm 22.05 and 24.11, Linux 6.1 and 6.12. Also possible: testing (Slurm 26.05, Linux 7.2), which changes by itself.
DEFAULT_SUITES = ("bookworm", "trixie")
CANNOT_BE_HAD = 77  # the exit status of who finds that packages are out of reach

# Beside the packages that the project is built with (build-aux/deps --list).
_PACKAGES = (
    "busybox-static ccache iproute2 iputils-ping kmod procps munge slurmctld slurmd slurm-client"
    " rdma-core ibverbs-providers ibverbs-utils rdmacm-utils perftest"
).split()
# A command after these words ends, with all that it started, when the process that started it does; and its mounts are
# there for no one else. mmdebstrap left to itself goes on for minutes, and killed leaves /proc and /sys mounted.
CONFINED = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"),
)
_EXPIRED = ("testing", "sid", "unstable")  # a mirror's copy of these is soon older than their Release files allow
_NOT_UNPACKED = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*")
# libibverbs loads whatever is named there, each time a program starts; the guests' devices are Soft-RoCE.
_OTHER_PROVIDERS = "find \"$1/etc/libibverbs.d\" -type f ! -name 'rxe.driver' -delete"
# tests/vm/build-project mounts these; guests have the build folder on the same path.
_MOUNT_POINTS = ("mnt/source", "mnt/build", "mnt/ccache", "mnt/install")


class CannotBeHad(TestBedError):
    """Packages that this machine cannot get: no failure of the project's."""


@dataclass(frozen=True)
class Image:
    suite: str
    directory: str
    in_use: int  # a descriptor; as long as it is open, here or in a child, nobody removes the image

    def path(self, *names: str) -> str:
        return os.path.join(self.directory, *names)

    @property
    def root(self) -> str:
        return self.path("root")

    @property
    def kernel(self) -> str:
        return self.path("root", "boot", "vmlinuz")

    @property
    def initramfs(self) -> str:
        return self.path("root", "boot", "initramfs")

    @property
    def modules(self) -> str:
        return os.path.realpath(self.path("root", "lib", "modules"))


def cache_directory(*names: str) -> str:
    """$VM_CACHE, or the user's cache directory. sudo keeps neither: then it is root's."""
    base = os.environ.get("VM_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "rdma-nccl", "vm"
    )
    path = os.path.join(base, *names)
    os.makedirs(path, exist_ok=True)
    return path


def get_image(suite: str) -> Image:
    """Makes it when it is not there; who else wants the same one meanwhile waits."""
    command = _recipe(suite)
    directory = os.path.join(cache_directory(), f"{suite}-{_digest(command)}")
    with open(cache_directory() + f"/{suite}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(directory):
            _make(suite, directory, command)
        _remove_others(suite, directory)
        in_use = _open_lock(directory)
        fcntl.flock(in_use, fcntl.LOCK_SH)
    return Image(suite, directory, in_use)


def _open_lock(directory: str) -> int:
    return os.open(os.path.join(directory, "lock"), os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _recipe(suite: str) -> list[str]:
    """The command that makes the suite's root in ./root."""
    listed = subprocess.run([DEPS, "--list"], text=True, capture_output=True, check=True).stdout.split()
    packages = ",".join(sorted({*_PACKAGES, *listed}))
    command = ["mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", f"--include={packages}"]
    command += ["--aptopt=APT::Install-Recommends false"]
    if suite in _EXPIRED:
        command.append("--aptopt=Acquire::Check-Valid-Until false")
    command += [f"--dpkgopt=path-exclude={pattern}" for pattern in _NOT_UNPACKED]
    command += ["--customize-hook=mkdir -p " + " ".join(f'"$1/{point}"' for point in _MOUNT_POINTS)]
    command += [f'--customize-hook=chroot "$1" useradd --create-home {user}' for user in ("alice", "bob")]
    command.append(f"--customize-hook={_OTHER_PROVIDERS}")
    return [*command, f'--customize-hook={HOOK} "$1"', suite, "root", f"deb {_mirror()} {suite} main"]


def _digest(command: list[str]) -> str:
    """Another recipe makes another image; where the checkout lies makes none."""
    digest = hashlib.sha256("\n".join(command).replace(CHECKOUT, "").encode())
    for path in (HOOK, os.path.join(GUEST, "init"), os.path.join(GUEST, "agent.cpp")):
        with open(path, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()[:10]


def _make(suite: str, directory: str, command: list[str]) -> None:
    if shutil.which(command[0]) is None:
        raise CannotBeHad(f"{command[0]} is not installed; `make deps-vm` as root installs what virtual machines need")
    _ask_mirror(suite)
    print(f"vm: making the image of {suite} in {directory}", file=sys.stderr, flush=True)
    partial = f"{directory}.{os.getpid()}"
    try:
        os.makedirs(partial)
        result = subprocess.run(
            [*CONFINED, *command],
            text=True,
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
            cwd=partial,
        )
        if result.returncode != 0:
            raise TestBedError(f"the image of {suite} could not be made:\n{result.stderr.strip()}")
        os.rename(partial, directory)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _ask_mirror(suite: str) -> None:
    """By apt's own means, with its proxies."""
    release = f"{_mirror()}/dists/{suite}/Release"
    with tempfile.TemporaryDirectory() as scratch:
        command = ["/usr/lib/apt/apt-helper", "download-file", release, os.path.join(scratch, "Release")]
        result = subprocess.run(command, text=True, capture_output=True, check=False)
    if result.returncode != 0:
        raise CannotBeHad(f"{release} cannot be had; DEBIAN_MIRROR=URL names another mirror: {result.stderr.strip()}")


def _mirror() -> str:
    """$DEBIAN_MIRROR, or what this machine itself gets Debian's packages from."""
    if wanted := os.environ.get("DEBIAN_MIRROR"):
        return wanted
    command = ["apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(REPO_URI)", "Created-By: Packages"]
    if shutil.which(command[0]):
        for line in subprocess.run(command, text=True, capture_output=True, check=False).stdout.splitlines():
            words = line.split()
            if words[:2] == ["Debian", "Debian"] and len(words) == 3:
                return words[2].rstrip("/")
    return "http://deb.debian.org/debian"


def _remove_others(suite: str, directory: str) -> None:
    """Images of the suite by older recipes that nobody uses, and what an interrupted run left."""
    for path in glob.glob(os.path.join(cache_directory(), f"{suite}-*")):
        if path == directory:
            continue
        lock = _open_lock(path)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path)
        except BlockingIOError:
            pass
        finally:
            os.close(lock)
