# SPDX-License-Identifier: Apache-2.0
"""One machine of the cluster: a process that holds its network, UTS and mount namespaces, and what is mounted there."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat

from layout import Member
from linux import (
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWUTS,
    MS_BIND,
    MS_MOVE,
    MS_NOSUID,
    die_with_parent,
    mount,
    set_namespace,
    unshare,
)
from network import configure_member
from state import State
from tree.write import write_tree

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_COPIED_PROC = (
    "proc/net/route",
    "proc/net/ipv6_route",
    "proc/net/if_inet6",
    "proc/net/fib_trie",
    "proc/net/dev",
    "proc/sys/net/ipv4/ip_local_port_range",
)


class Holder:
    """A child that keeps a machine's namespaces open. It goes on one step whenever it is told to, and reports each."""

    def __init__(self, member: Member, state: State):
        self.member = member
        ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            ours.close()
            _hold(member, state, theirs)  # never returns
        theirs.close()
        self._channel = ours
        self.wait()  # until it has its namespaces

    def go_on(self) -> None:
        self._channel.send(b".")

    def wait(self) -> None:
        if self._channel.recv(1) != b".":
            raise RuntimeError(f"{self.member.name} could not be set up; its log says why")


def _hold(member: Member, state: State, channel: socket.socket) -> None:
    status = 1
    try:
        die_with_parent(signal.SIGKILL)
        unshare(CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWNS)
        socket.sethostname(member.name)
        channel.send(b".")
        channel.recv(1)  # the netdevs have been put here
        configure_member(member)
        _mount_devices(member, state)
        _mount_root(member, state)
        mount(state.make("run", member.name), state.make("run", "munge"), flags=MS_BIND)
        channel.send(b".")
        while True:
            signal.pause()
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(status)


def _mount_devices(member: Member, state: State) -> None:
    """A /dev of its own: the usual devices, and GPUs that are further instances of /dev/null."""
    new = state.make("dev", member.name)
    mount("tmpfs", new, "tmpfs", MS_NOSUID, "mode=755")
    for name in _DEVICES:
        os.close(os.open(f"{new}/{name}", os.O_CREAT | os.O_WRONLY))
        mount(f"/dev/{name}", f"{new}/{name}", flags=MS_BIND)
    for name in ("pts", "shm"):
        os.mkdir(f"{new}/{name}")
    mount("devpts", f"{new}/pts", "devpts", MS_NOSUID, "newinstance,ptmxmode=0666,mode=620")
    mount("tmpfs", f"{new}/shm", "tmpfs", MS_NOSUID, "mode=1777")
    links = {"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
    for name, target in links.items():
        os.symlink(target, f"{new}/{name}")
    for number in range(member.gpu_count):
        _make_device(f"{new}/nvidia{number}")
    mount(new, "/dev", flags=MS_MOVE)


def _make_device(path: str) -> None:
    os.mknod(path, stat.S_IFCHR | 0o666, os.stat("/dev/null").st_rdev)
    os.chmod(path, 0o666)


def _mount_root(member: Member, state: State) -> None:
    """The emulated root: one path on all machines, a tree of its own on each. In memory: it has 5,000 files."""
    root = state.path("root")
    mount("tmpfs", root, "tmpfs", MS_NOSUID, "mode=755")
    if member.tree:
        shutil.copytree(member.tree, root, symlinks=True, dirs_exist_ok=True)
    else:
        write_tree(member.machine, root)
        for name in _COPIED_PROC:
            _copy_proc(name, root)


def _copy_proc(name: str, root: str) -> None:
    """What the kernel says of this namespace, instead of what the generator said."""
    with open("/" + name, "rb") as source, open(f"{root}/{name}", "wb") as target:
        target.write(source.read())


def namespaces_of(pid: int, proc: str = "/proc", kinds: tuple[str, ...] = ("uts", "net", "mnt")) -> list[int]:
    """Open descriptors of a process's namespaces, in the order in which to enter them."""
    return [os.open(f"{proc}/{pid}/ns/{kind}", os.O_RDONLY) for kind in kinds]


def enter(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        set_namespace(descriptor)
        os.close(descriptor)
