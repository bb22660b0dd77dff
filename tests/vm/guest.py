# SPDX-License-Identifier: Apache-2.0
"""One virtual machine: its name, its addresses, and the QEMU command that starts it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from images import Image
from state import State
from switch import port_path

MANAGEMENT = 0  # the network that Slurm uses: eth0; rail R is network R, eth<R>
RAIL_MTU = 9000
_MEMORY_MIB = 1024  # of each socket
_DISTANCE = 21  # from one socket's memory to the other's, as tests/data/mktree has it
# Quiet and quick: nothing in the guest is worth protecting from itself. A kernel that spins takes no commands, so let it
# panic: Linux 6.1's Soft-RoCE does so now and then when its packets are dropped.
_KERNEL = (
    "quiet panic=-1 softlockup_panic=1 mitigations=off nokaslr cryptomgr.notests apparmor=0 audit=0"
    " init_on_alloc=0 hardened_usercopy=off randomize_kstack_offset=off"
)
_X86_KERNEL = "console=ttyS0 lab.line=ttyS1 nopti no5lvl no_timer_check edd=off"
_ARM64_KERNEL = "console=ttyAMA0 lab.line=ttyS0"


@dataclass(frozen=True)
class Processors:
    """A guest's CPUs. Each socket is a NUMA node with memory of its own."""

    sockets: int
    cores: int  # of a socket
    threads: int  # of a core

    @property
    def per_socket(self) -> int:
        return self.cores * self.threads


# With two CPUs on two cores, two guests take twice as long to boot, and latency grows tenfold.
ONE_CPU = Processors(1, 1, 1)
TWO_SOCKETS = Processors(2, 4, 2)


@dataclass(frozen=True)
class Shape:
    """What all guests of a lab have in common. `kernel`: the image that the kernel is of."""

    image: Image
    kernel: Image
    processors: Processors
    rails: int
    accelerator: str
    install: str | None  # a tree to lay over the root
    build: str | None  # to be seen at /mnt/build


@dataclass(frozen=True)
class Guest:
    number: int  # from 1

    @property
    def name(self) -> str:
        return f"n{self.number:02}"

    def address(self, network: int) -> str:
        return f"10.77.{network}.{self.number}"

    def mac(self, network: int) -> str:
        """The guest finds the network in the fifth byte: names of interfaces follow the PCI bus."""
        return f"52:54:00:77:{network:02x}:{self.number:02x}"


def qemu_command(guest: Guest, shape: Shape, state: State) -> list[str]:
    command = [*(_arm64_machine() if shape.kernel.is_arm64 else _x86_machine(shape.accelerator)), "-name", guest.name]
    command += _processors(shape.processors)
    command += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    command += ["-chardev", f"file,id=console,path={_escaped(state.path('log', guest.name + '.console'))}"]
    command += ["-serial", "chardev:console"]
    command += ["-chardev", f"socket,id=control,path={_escaped(control_path(state, guest.name))},server=on,wait=off"]
    command += ["-device", "pci-serial,chardev=control"] if shape.kernel.is_arm64 else ["-serial", "chardev:control"]
    command += ["-kernel", shape.kernel.kernel, "-initrd", shape.kernel.initramfs]
    command += ["-append", _kernel_command_line(guest, shape)]
    for tag, path in _read_only_shares(shape).items():
        command += _share(tag, path, ",readonly=on")
    command += _share("lab", state.path("lab"), "")
    for network in range(shape.rails + 1):
        command += _interface(guest, network, state)
    return command


def _x86_machine(accelerator: str) -> list[str]:
    """Emulated, all CPUs in one thread: in threads of their own they now and then run into the kernel's int3 where it
    patches its code. And not an AMD: those have no TOPOEXT here, without which the kernel takes threads for cores."""
    processor = ["kvm", "-cpu", "host"] if accelerator == "kvm" else ["tcg,thread=single", "-cpu", "max,vendor=GenuineIntel"]
    return ["qemu-system-x86_64", "-machine", "q35", "-accel", *processor]


def _arm64_machine() -> list[str]:
    """Interrupts of many virtio devices need an ITS, which comes with a GIC of version 3. Pointer authentication, which newer
    processors than this one have, takes much time to emulate. One thread for all CPUs, as on x86: more of them do not
    make a guest quicker, where there are as many guests as CPUs."""
    return ["qemu-system-aarch64", "-machine", "virt,gic-version=3", "-accel", "tcg,thread=single", "-cpu", "neoverse-n1"]


def _processors(processors: Processors) -> list[str]:
    """The threads of a core are neighbours, and so are the cores of a socket."""
    sockets, each = processors.sockets, processors.per_socket
    count = f"{sockets * each},sockets={sockets},cores={processors.cores},threads={processors.threads}"
    options = ["-smp", count, "-m", str(_MEMORY_MIB * sockets)]
    for node in range(sockets):
        options += ["-object", f"memory-backend-ram,id=memory{node},size={_MEMORY_MIB}M"]
        options += ["-numa", f"node,nodeid={node},cpus={node * each}-{(node + 1) * each - 1},memdev=memory{node}"]
        for other in range(node):
            options += ["-numa", f"dist,src={other},dst={node},val={_DISTANCE}"]
    return options


def control_path(state: State, name: str) -> str:
    """A unix socket: the guest's other serial line, which is not its console."""
    return state.path("run", name)


def _kernel_command_line(guest: Guest, shape: Shape) -> str:
    words = [_KERNEL, _ARM64_KERNEL if shape.kernel.is_arm64 else _X86_KERNEL]
    words += [f"lab.name={guest.name}", f"lab.number={guest.number}"]
    if shape.install:
        words.append("lab.install")
    if shape.build:
        words.append("lab.build")
    return " ".join(words)


def _read_only_shares(shape: Shape) -> dict[str, str]:
    shares = {"root": shape.image.root, "modules": shape.kernel.modules}
    if shape.install:
        shares["install"] = shape.install
    if shape.build:
        shares["build"] = shape.build
    return shares


def _share(tag: str, path: str, options: str) -> list[str]:
    return [
        "-fsdev",
        f"local,id=fs-{tag},path={_escaped(path)},security_model=none,multidevs=remap{options}",
        "-device",
        f"virtio-9p-pci,fsdev=fs-{tag},mount_tag={tag}",
    ]


def _escaped(path: str) -> str:
    return os.path.abspath(path).replace(",", ",,")  # as QEMU's options have it


def _interface(guest: Guest, network: int, state: State) -> list[str]:
    ours = _escaped(port_path(state.directory, network, guest.number))
    theirs = _escaped(port_path(state.directory, network))
    mtu = f",host_mtu={RAIL_MTU}" if network != MANAGEMENT else ""
    return [
        "-netdev",
        f"dgram,id=net{network},local.type=unix,local.path={ours},remote.type=unix,remote.path={theirs}",
        "-device",
        # The speed is what the RDMA device then calls its rate.
        f"virtio-net-pci,netdev=net{network},mac={guest.mac(network)},speed=100000,duplex=full,romfile={mtu}",
    ]
