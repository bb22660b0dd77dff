# SPDX-License-Identifier: Apache-2.0
"""The project, built for the guests of a suite: against that suite's Slurm, with its libraries, and by its compiler. For
aarch64 the compiler is this machine's g++-aarch64-linux-gnu."""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from images import (
    ARM64_HOST,
    CHECKOUT,
    CONFINED,
    DEFAULT_SUITES,
    HERE,
    CannotBeHad,
    Image,
    cache_directory,
    get_arm64_libraries,
    get_image,
    get_packaging_root,
)
from state import TestBedError

_BUILD = os.path.join(HERE, "build-project")
_BUILD_PACKAGES = os.path.join(HERE, "build-packages")
_IN_SUITE = os.path.join(HERE, "in-suite")
_BUILD_PYXIS = os.path.join(HERE, "build-pyxis")
_TEST_PROGRAMS = ("owners", "verbs-pair", "profiled", "fake_container.so")


def build_folder(suite: str) -> str:
    return os.path.join(CHECKOUT, "build-vm", suite)


def prepare(suites: list[str], kernel: str | None = None) -> None:
    """Images and builds of all suites, and the image of the kernel's. Images come two at a time: most of that is waiting
    for one program."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        images = list(pool.map(get_image, dict.fromkeys([*suites, *([kernel] if kernel else [])])))
    for image in images:
        if image.suite in suites:
            build_project(image)


def build_project(image: Image, destination: str | None = None) -> str:
    """Builds what has changed, and installs it below `destination`, with the examples and what the tests ask. Returns
    the build folder."""
    folder = build_folder(image.suite)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _run("make", "-C", CHECKOUT, "configure")  # the suite's builds only read the checkout
        if image.is_arm64:
            _build_arm64(folder, get_arm64_libraries(image.suite), destination)
        else:
            forget_other_image(folder, image)
            precompiled = "yes" if image.suite == DEFAULT_SUITES[0] else "no"  # one of them finds missing includes
            _run(_BUILD, image.root, CHECKOUT, folder, cache_directory("ccache"), precompiled, destination or "")
        if destination:
            programs = os.path.join(destination, "usr", "local", "bin")
            shutil.copytree(os.path.join(folder, "build", "examples"), programs)
            for name in _TEST_PROGRAMS:
                shutil.copy(os.path.join(folder, "build", "tests", name), programs)
    return folder


def _build_arm64(folder: str, libraries: Image, destination: str | None) -> None:
    configure_arm64(folder, libraries)
    make = ("make", "-C", folder, f"-j{os.cpu_count()}")
    _run(*make, "all", *(f"build/tests/{name}" for name in _TEST_PROGRAMS))
    if destination:
        _run(*make, "install", f"DESTDIR={destination}")


def configure_arm64(folder: str, libraries: Image) -> None:
    """-O1 without -g compiles in half the time, and is as good as any for the tests. With it g++ 12 for aarch64 takes a
    string that grows by += for one written beyond its end (tools/run/output/output.cpp)."""
    forget_other_image(folder, libraries)
    link = os.path.join(folder, "root")  # for who runs `tests/arm64/emulated build-arm64/root PROGRAM` by hand, too
    subprocess.run(["ln", "-sfT", libraries.root, link], check=True)
    if os.path.exists(os.path.join(folder, "config.mk")):
        return
    command = [os.path.join(CHECKOUT, "configure"), f"--build={platform.machine()}-linux-gnu", f"--host={ARM64_HOST}"]
    command += [f"--with-sysroot={link}", "--prefix=/usr", "--sysconfdir=/etc", "CXXFLAGS=-O1 -Wno-error=array-bounds"]
    result = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if result.returncode != 0:
        raise TestBedError(f"configure failed:\n{result.stdout[-4000:]}")
    with open(os.path.join(folder, "config.mk"), encoding="utf-8") as file:
        if "HAVE_IBVERBS = yes\n" not in file.readlines():
            _forget_configuration(folder)
            raise CannotBeHad(
                f"this machine's {ARM64_HOST}-g++ cannot link with the libraries of {libraries.suite}; take a release that"
                f" is not newer than this machine's. What it said is in {folder}/config.log"
            )


def packages_folder(suite: str) -> str:
    return os.path.join(CHECKOUT, "build-vm", suite, "packages")


def prepare_packages(suites: list[str], kernel: str | None = None) -> None:
    """Images of all suites and of the kernel's, and the project's Debian packages, built by each suite's own tools for its
    Slurm. Left as they are where the sources are."""
    if kernel:
        os.close(get_image(kernel).in_use)
    for suite in suites:
        image, root, folder = get_image(suite), get_packaging_root(suite), packages_folder(suite)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(os.path.dirname(folder), "lock"), "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _run("make", "-C", CHECKOUT, "configure")
            _run(_BUILD_PACKAGES, root.root, CHECKOUT, folder, cache_directory("ccache"))
        os.close(image.in_use)


def prepare_pyxis(suite: str, sources: list[str]) -> None:
    """Pyxis and enroot of these clones, for guests of the suite, and images for them: in the build folder, which guests
    see."""
    image, folder = get_image(suite), build_folder(suite)
    if not os.path.exists(os.path.join(image.root, "usr", "bin", "mksquashfs")):
        raise TestBedError(f"--pyxis: the image of {suite} has not the packages for it: see tests/vm/images.py")
    with open(os.path.join(folder, "lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _run(_BUILD_PYXIS, image.root, CHECKOUT, folder, *map(os.path.abspath, sources))
    os.close(image.in_use)


def prepare_apptainer(suite: str, package: str) -> None:
    """The files of this package, in the build folder, which guests see."""
    folder = os.path.join(build_folder(suite), "apptainer")
    shutil.rmtree(folder, ignore_errors=True)
    _run("dpkg-deb", "--extract", package, folder)


def forget_other_image(folder: str, image: Image) -> None:
    """What was configured with another image's compiler and Slurm is configured again."""
    name = os.path.basename(image.directory)
    with open(os.path.join(folder, "image"), "a+", encoding="ascii") as note:
        note.seek(0)
        if note.read() == name:
            return
        shutil.rmtree(os.path.join(folder, "build"), ignore_errors=True)
        _forget_configuration(folder)
        note.truncate(0)
        note.write(name)


def _forget_configuration(folder: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, "config.mk"))


def _run(*command: str) -> None:
    result = subprocess.run(
        [*CONFINED, *command],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if result.returncode != 0:
        raise TestBedError(f"{' '.join(command)}: exit status {result.returncode}\n{result.stdout[-4000:]}")


def run_in_suite(image: Image, *command: str) -> subprocess.CompletedProcess:
    """The command in the suite's build folder, with the suite's own Slurm, on this machine's kernel."""
    words = [*CONFINED, _IN_SUITE, image.root, CHECKOUT, build_folder(image.suite), *command]
    return subprocess.run(words, text=True, capture_output=True, check=False, stdin=subprocess.DEVNULL)


def run_inside(image: Image, tree: str, *arguments: str) -> subprocess.CompletedProcess:
    """The command as built for that suite, with `--root` a tree of some machine, on this machine's own kernel."""
    mounts = 'mount --bind "$1" "$0/mnt/source"; mount --bind "$2" "$0/mnt/build"'
    script = mounts + '; exec chroot "$0" /mnt/build/build/rdma-nccl "${@:3}" --root /mnt/source'
    command = [*CONFINED, "bash", "-euc", script, image.root, tree, build_folder(image.suite), *arguments]
    return subprocess.run(command, text=True, capture_output=True, check=False, stdin=subprocess.DEVNULL)
