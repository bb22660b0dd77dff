# SPDX-License-Identifier: Apache-2.0
"""What the virtual machines boot: one directory for each Debian suite, made once and kept in the user's cache.

Such a directory is the guests' root and the place where the project is built for them: with Slurm, munge and the RDMA
programs, a compiler with the project's packages, and the suite's kernel with an initramfs for roots on 9p. Guests and
builds only read it. Guests of aarch64 have such a root too; the project is cross-compiled for them and for tests/arm64,
with the libraries of another root.
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
INSTALL_HOOK = os.path.join(HERE, "install-unpacked")
# Slurm 22.05 and 24.11, Linux 6.1 and 6.12. Also possible: testing (Slurm 26.05, Linux 7.2), which changes by itself.
DEFAULT_SUITES = ("bookworm", "trixie")
CANNOT_BE_HAD = 77  # the exit status of who finds that packages are out of reach

# Beside the packages that the project is built with (build-aux/deps --list).
_PACKAGES = (
    "busybox-static ccache iproute2 iputils-ping kmod procps munge slurmctld slurmd slurm-client"
    " rdma-core ibverbs-providers ibverbs-utils rdmacm-utils perftest bubblewrap crun"
).split()
# For tests of a suite that `check` runs on the last one only. uidmap and passt are what podman needs without root, the
# last two what tests of the real pyxis and enroot build and run.
_PACKAGES_OF = {"trixie": "podman runc uidmap passt charliecloud-runtime libbsd-dev squashfs-tools".split()}
# A command after these words ends, with all that it started, when the process that started it does; and its mounts are
# there for no one else. mmdebstrap left to itself goes on for minutes, and killed leaves /proc and /sys mounted.
CONFINED = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"),
)
_EXPIRED = ("testing", "sid", "unstable")  # a mirror's copy of these is soon older than their Release files allow
# Before a suite's name: the suite for aarch64, whose guests QEMU emulates.
ARM64 = "arm64-"
ARM64_HOST = "aarch64-linux-gnu"  # as configure and the cross compiler name it
# Beside the libraries that the project is built with, for aarch64. Slurm's plugins say where they are.
_ARM64_PACKAGES = "libc6-dev libstdc++6 libgtest-dev slurm-wlm-basic-plugins".split()
_NOT_UNPACKED = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*")
# libibverbs loads whatever is named there, each time a program starts; the guests' devices are Soft-RoCE.
_OTHER_PROVIDERS = "find \"$1/etc/libibverbs.d\" -type f ! -name 'rxe.driver' -delete"
# tests/vm/build-project mounts these; guests have the build folder on the same path.
_MOUNT_POINTS = ("mnt/source", "mnt/build", "mnt/ccache", "mnt/install")
_MERGED_USR = '--setup-hook=mkdir -p "$1/usr/lib" "$1/usr/bin" "$1/usr/sbin"; ln -s usr/lib usr/bin usr/sbin "$1"'
_ARM64_INDEX = "main/binary-arm64/Release"
_IN_GUEST = (os.path.join(GUEST, "init"), os.path.join(GUEST, "agent.cpp"))


class CannotBeHad(TestBedError):
    """Packages that this machine cannot get: no failure of the project's."""


@dataclass(frozen=True)
class _Recipe:
    """Another recipe makes another image; where the checkout lies makes none."""

    name: str  # the images of this name by other recipes are not used any more
    suite: str
    index: str  # below dists/SUITE of the mirror: what has to be there
    command: list[str]  # makes ./root
    files: tuple[str, ...] = ()  # what the command reads of the checkout

    def digest(self) -> str:
        digest = hashlib.sha256("\n".join(self.command).replace(CHECKOUT, "").encode())
        for path in self.files:
            with open(path, "rb") as file:
                digest.update(file.read())
        return digest.hexdigest()[:10]


@dataclass(frozen=True)
class Image:
    suite: str
    directory: str
    in_use: int  # a descriptor; as long as it is open, here or in a child, nobody removes the image

    def path(self, *names: str) -> str:
        return os.path.join(self.directory, *names)

    @property
    def is_arm64(self) -> bool:
        return self.suite.startswith(ARM64)

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
    """What guests of the suite boot; of its aarch64 if the suite is named arm64-SUITE."""
    if not suite.startswith(ARM64):
        return _get(_guest_recipe(suite))
    need("qemu-system-aarch64", "deps-arm64")
    need(f"{ARM64_HOST}-g++", "deps-arm64")
    return _get(_arm64_guest_recipe(suite))


def check_kernel(suite: str, kernel: str | None) -> None:
    """Fails if guests of the suite cannot boot that suite's kernel."""
    if kernel and kernel.startswith(ARM64) != suite.startswith(ARM64):
        raise TestBedError(f"--kernel {kernel} is not for guests of {suite}: either both begin with {ARM64}, or none does")


def get_packaging_root(suite: str) -> Image:
    """A root of the suite in which Debian packages of the project can be built."""
    return _get(_packaging_recipe(suite))


def get_arm64_libraries(suite: str) -> Image:
    """A root of the suite (with arm64- before its name, or without) for aarch64, to compile and link with: its packages are
    unpacked, but not installed. No program of it has to run for that, and it need not be made by root."""
    need(f"{ARM64_HOST}-g++", "deps-arm64")
    return _get(_arm64_recipe(suite.removeprefix(ARM64)))


def need(program: str, goal: str) -> None:
    """`goal` of the Makefile installs it."""
    if shutil.which(program) is None:
        raise CannotBeHad(f"{program} is not installed; `make {goal}` as root installs it")


def _get(recipe: _Recipe) -> Image:
    """Makes it when it is not there; who else wants the same one meanwhile waits."""
    directory = os.path.join(cache_directory(), f"{recipe.name}-{recipe.digest()}")
    with open(cache_directory() + f"/{recipe.name}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(directory):
            _make(recipe, directory)
        _remove_others(recipe.name, directory)
        in_use = _open_lock(directory)
        fcntl.flock(in_use, fcntl.LOCK_SH)
    return Image(recipe.suite, directory, in_use)


def _open_lock(directory: str) -> int:
    return os.open(os.path.join(directory, "lock"), os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _guest_recipe(suite: str) -> _Recipe:
    packages = {*_PACKAGES, *_PACKAGES_OF.get(suite, ()), *_build_packages()}
    command = _mmdebstrap(suite, packages, "--mode=root", "--variant=minbase")
    command += ["--customize-hook=mkdir -p " + " ".join(f'"$1/{point}"' for point in _MOUNT_POINTS)]
    command += [f'--customize-hook=chroot "$1" useradd --create-home {user}' for user in ("alice", "bob")]
    command.append(f"--customize-hook={_OTHER_PROVIDERS}")
    command += [f'--customize-hook={HOOK} "$1" amd64', suite, "root", f"deb {_mirror()} {suite} main"]
    return _Recipe(suite, suite, "Release", command, (HOOK, *_IN_GUEST))


def _arm64_guest_recipe(name: str) -> _Recipe:
    """None of its programs can run here, so its packages are unpacked, and a hook does what their scripts would do. The
    project is built elsewhere: get_arm64_libraries()."""
    suite = name.removeprefix(ARM64)
    packages = {"mount", "python3", "slurm-wlm-basic-plugins", *_PACKAGES, *_library_packages()} - {"ccache"}
    command = _mmdebstrap(suite, packages, "--include=?essential", "--mode=root", "--variant=extract", "--arch=arm64", _MERGED_USR)
    command += [f'--extract-hook={hook} "$1" arm64' for hook in (INSTALL_HOOK, HOOK)]
    command += [f"--extract-hook={_OTHER_PROVIDERS}", suite, "root", f"deb {_mirror()} {suite} main"]
    return _Recipe(f"guest-{name}", name, _ARM64_INDEX, command, (INSTALL_HOOK, HOOK, *_IN_GUEST))


def _packaging_recipe(suite: str) -> _Recipe:
    command = _mmdebstrap(suite, {"build-essential", "ccache", "debhelper", *_build_packages()}, "--mode=root", "--variant=minbase")
    command += ["--customize-hook=mkdir -p " + " ".join(f'"$1/{point}"' for point in _MOUNT_POINTS)]
    return _Recipe(f"packages-{suite}", suite, "Release", command + [suite, "root", f"deb {_mirror()} {suite} main"])


def _arm64_recipe(suite: str) -> _Recipe:
    """Links of the packages name targets as in a root that is mounted as /; here a compiler follows them from outside."""
    mode = ["--mode=root"] if os.geteuid() == 0 else ["--mode=chrootless", "--skip=output/dev"]
    command = _mmdebstrap(suite, {*_ARM64_PACKAGES, *_library_packages()}, *mode, "--variant=extract", "--arch=arm64")
    command.append(_MERGED_USR)
    relative = 'ln -sfrT "$0$(readlink "$1")" "$1"'
    command.append(f"--extract-hook=find \"$1\" -type l -lname '/*' -exec sh -c '{relative}' \"$1\" {{}} ';'")
    command += [suite, "root", f"deb {_mirror()} {suite} main"]
    return _Recipe(f"arm64-{suite}", suite, _ARM64_INDEX, command)


def _build_packages() -> list[str]:
    return subprocess.run([DEPS, "--list"], text=True, capture_output=True, check=True).stdout.split()


def _library_packages() -> set[str]:
    return {package for package in _build_packages() if package.endswith("-dev")}


def _mmdebstrap(suite: str, packages: set[str], *options: str) -> list[str]:
    command = ["mmdebstrap", "--quiet", *options, "--include=" + ",".join(sorted(packages))]
    command += ["--aptopt=APT::Install-Recommends false"]
    if suite in _EXPIRED:
        command.append("--aptopt=Acquire::Check-Valid-Until false")
    return command + [f"--dpkgopt=path-exclude={pattern}" for pattern in _NOT_UNPACKED]


def _make(recipe: _Recipe, directory: str) -> None:
    need(recipe.command[0], "deps-vm")
    _ask_mirror(f"{recipe.suite.removeprefix(ARM64)}/{recipe.index}")
    print(f"vm: making the image {recipe.name} in {directory}", file=sys.stderr, flush=True)
    partial = f"{directory}.{os.getpid()}"
    try:
        os.makedirs(partial)
        result = subprocess.run(
            [*(CONFINED if os.geteuid() == 0 else CONFINED[:3]), *recipe.command],
            text=True,
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
            cwd=partial,
        )
        if result.returncode != 0:
            raise TestBedError(f"the image {recipe.name} could not be made:\n{result.stderr.strip()}")
        os.rename(partial, directory)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _ask_mirror(index: str) -> None:
    """By apt's own means, with its proxies."""
    release = f"{_mirror()}/dists/{index}"
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


def _remove_others(name: str, directory: str) -> None:
    """Images of the name by older recipes that nobody uses, and what an interrupted run left."""
    for path in glob.glob(os.path.join(cache_directory(), f"{name}-*")):
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
