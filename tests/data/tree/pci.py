# SPDX-License-Identifier: Apache-2.0
"""/sys/bus/pci and /sys/devices/pci*: functions, and the bridges on the way to them."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from .cpuset import cpulist, cpumap
from .files import Tree
from .drivers import BRIDGE_IDS, GPU_MODELS, pcie_generation
from .kernel import write_iommu_groups
from .values import Function, Machine

_CAPABILITY = 0x60  # where the PCI Express capability lies in the configuration space we write
_EXTENDED = 0x100  # and where the first extended one does
_ENDPOINT, _ROOT_PORT, _UPSTREAM, _DOWNSTREAM = 0, 4, 5, 6
_WIDTH = 16
_IDLE = 1
_SPEEDS = {0: "Unknown", 1: "2.5 GT/s PCIe", 2: "5.0 GT/s PCIe", 3: "8.0 GT/s PCIe", 4: "16.0 GT/s PCIe",
           5: "32.0 GT/s PCIe", 6: "64.0 GT/s PCIe"}  # by the number in the link capabilities


@dataclass(frozen=True)
class Link:
    most: int  # a number of _SPEEDS
    now: int
    width: int  # 0: it tells none, as a virtual function


def write_pci(tree: Tree, machine: Machine) -> None:
    functions = _functions(machine)
    bridges = _bridges(functions)
    generations = _generations(machine)
    gpus = {gpu.function.address for gpu in machine.gpus}
    tree.directory("sys/bus/pci/devices")
    for function in bridges + functions:
        inside = [other for other in functions if other.path[: len(function.path)] == function.path]
        most = max(generations[other.address] for other in inside)
        idle = {other.address for other in inside} <= gpus and len(inside) == 1
        link = Link(most, 0, 0) if function.is_virtual else Link(most, _IDLE if idle else most, _WIDTH)
        below = [other.path for other in inside] if function in bridges else []
        _write_function(tree, machine, function, below, link)
    _link_virtual(tree, functions)
    write_iommu_groups(tree, machine, functions)


def _generations(machine: Machine) -> dict[str, int]:
    """PCIe generation by address: a card's is the one that carries its ports."""
    found: dict[str, int] = {}
    for netdev in machine.netdevs:
        if netdev.function:
            found[netdev.function.address] = pcie_generation(netdev.speed)
    for hca in machine.hcas:
        if hca.function:
            rate = max(float(port.rate.split()[0]) for port in hca.ports)
            found[hca.function.address] = max(found.get(hca.function.address, 3), pcie_generation(int(rate * 1000)))
    for gpu in machine.gpus:
        found[gpu.function.address] = next(model.generation for model in GPU_MODELS.values() if model.name == gpu.model)
    return found


def _functions(machine: Machine) -> list[Function]:
    owners = [*machine.gpus, *machine.netdevs, *machine.hcas]
    return list({owner.function.address: owner.function for owner in owners if owner.function}.values())


def _bridges(functions: list[Function]) -> list[Function]:
    found: dict[str, Function] = {}
    for function in functions:
        for end in range(2, len(function.path)):
            path = function.path[:end]
            found[path[-1]] = Function(
                path, *BRIDGE_IDS, "0x060400", "pcieport", function.numa_node, above=function.above
            )
    return list(found.values())


def _link_virtual(tree: Tree, functions: list[Function]) -> None:
    """physfn, and virtfn0, virtfn1, ... in the physical function, if that is in sight."""
    by_address = {function.address: function for function in functions}
    counts: dict[str, int] = {}
    for function in functions:
        physical = by_address.get(function.physical) if function.physical else None
        if physical is None:
            continue
        number = counts.get(physical.address, 0)
        counts[physical.address] = number + 1
        tree.link(f"{function.directory}/physfn", physical.directory)
        tree.link(f"{physical.directory}/virtfn{number}", function.directory)
        tree.attributes(physical.directory, {"sriov_numvfs": number + 1, "sriov_totalvfs": 16})


def _write_function(
    tree: Tree, machine: Machine, function: Function, below: list[tuple[str, ...]], link: Link
) -> None:
    directory = function.directory
    local = machine.processors.local(function.numa_node)
    tree.attributes(
        directory,
        {
            "vendor": function.vendor,
            "device": function.device,
            "subsystem_vendor": function.vendor,
            "subsystem_device": "0x0001",
            "class": function.pci_class,
            "revision": "0x00",
            "enable": 1,
            "numa_node": function.numa_node,
            "local_cpulist": cpulist(local),
            "local_cpus": cpumap(local, len(machine.processors.cpus)),
            "current_link_speed": _SPEEDS[link.now],
            "max_link_speed": _SPEEDS[link.most],
            "current_link_width": link.width,
            "max_link_width": _WIDTH,
            "uevent": f"DRIVER={function.driver}\nPCI_CLASS={function.pci_class[2:].upper().lstrip('0')}\n"
            f"PCI_ID={function.vendor[2:].upper()}:{function.device[2:].upper()}\nPCI_SLOT_NAME={function.address}",
        },
    )
    tree.write(f"{directory}/config", _config_space(function, below, link, machine.kernel.acs))
    tree.link(f"sys/bus/pci/devices/{function.address}", directory)
    tree.directory(f"sys/bus/pci/drivers/{function.driver}")
    tree.link(f"{directory}/driver", f"sys/bus/pci/drivers/{function.driver}")
    tree.link(f"{directory}/subsystem", "sys/bus/pci")


def _config_space(function: Function, below: list[tuple[str, ...]], link: Link, acs: bool) -> bytes:
    """As root reads it: header type 0, or 1 with the bus numbers; one capability, PCI Express; of switches' downstream
    and root ports a second one, ACS."""
    space = bytearray(4096)
    struct.pack_into("<HH", space, 0, int(function.vendor, 16), int(function.device, 16))
    struct.pack_into("<H", space, 6, 0x10)  # status: has a capability list
    space[9:12] = int(function.pci_class, 16).to_bytes(3, "little")
    space[0x34] = _CAPABILITY
    if below:
        space[0x0E] = 1
        depth = len(function.path)
        buses = [_bus(part) for path in below for part in path[depth:]]
        struct.pack_into("BBB", space, 0x18, _bus(function.address), min(buses), max(buses))
    kind = _ENDPOINT if not below else (_ROOT_PORT, _UPSTREAM, _DOWNSTREAM)[min(len(function.path) - 2, 2)]
    struct.pack_into("<BBH", space, _CAPABILITY, 0x10, 0, 2 | kind << 4)
    struct.pack_into("<H", space, _CAPABILITY + 0x08, 0x10)  # device control: may use relaxed ordering
    struct.pack_into("<I", space, _CAPABILITY + 0x0C, link.most | _WIDTH << 4)  # link capabilities
    struct.pack_into("<H", space, _CAPABILITY + 0x12, link.now | link.width << 4)  # link status
    if kind in (_ROOT_PORT, _DOWNSTREAM):
        control = 0x1D if acs else 0  # as Linux sets it with an IOMMU: pci_std_enable_acs()
        struct.pack_into("<HHHH", space, _EXTENDED, 0x000D, 1, 0x5F, control)
    return bytes(space)


def _bus(address: str) -> int:
    return int(address.split(":")[1], 16)
