# SPDX-License-Identifier: Apache-2.0
"""A machine as those who place ranks see it: CPUs by hwloc's XML, GPUs, HCAs and their distances by rdma-nccl topo."""

from __future__ import annotations

import json
import os
import subprocess
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOPOLOGIES = os.path.join(TESTS, "data", "topology")

# From near to far, as lib/topology/topology.h has them.
DISTANCES = (
    "same-device one-switch several-switches host-bridge same-numa same-package other unknown".split()  # fmt: skip
)

Cpus = frozenset[int]


@dataclass(frozen=True)
class Core:
    cpus: Cpus
    package: int
    cache: int | None  # number of the last-level cache; None: the machine tells of none


@dataclass(frozen=True)
class Node:
    number: int
    cpus: Cpus
    level: int  # at which level of the tree it is attached


@dataclass(frozen=True)
class Gpu:
    cpus: Cpus  # near to it; empty: not known
    node: int | None
    attached: Cpus  # the CPUs of the object of the tree that its host bridge hangs on
    nodes: frozenset[int]  # the NUMA nodes of that object


@dataclass
class Machine:
    name: str
    levels: list[tuple[str, list[Cpus]]] = field(default_factory=list)  # of the tree, from the root to the cores
    cores: list[Core] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)  # in the order of the tree, without memory of GPUs
    gpus: list[Gpu] = field(default_factory=list)
    hcas: list[str] = field(default_factory=list)
    distances: list[list[int]] = field(default_factory=list)  # [GPU][HCA], as numbers of DISTANCES

    @property
    def cpus(self) -> Cpus:
        return frozenset().union(*(core.cpus for core in self.cores))

    @property
    def packages(self) -> list[list[Core]]:
        numbers = sorted({core.package for core in self.cores})
        return [[core for core in self.cores if core.package == number] for number in numbers]

    def packages_of(self, cpus: Cpus) -> Cpus:
        numbers = {core.package for core in self.cores if core.cpus & cpus}
        return frozenset().union(*(core.cpus for core in self.cores if core.package in numbers))

    def cores_of(self, cpus: Cpus) -> list[Core]:
        return [core for core in self.cores if core.cpus & cpus]


@dataclass(frozen=True)
class Place:
    """Of a rank."""

    cpus: Cpus
    gpu: int | None
    hca: int | None


def read_list(text: str) -> Cpus:
    """ "0-3,8" """
    numbers: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return frozenset(numbers)


def write_list(numbers: Cpus) -> str:
    return ",".join(map(str, sorted(numbers)))


def read_bitmap(text: str) -> Cpus:
    """hwloc's "0x000000ff,0xffffffff,,0x0": words of 32 bits, the highest first."""
    value = 0
    for word in text.split(","):
        value = value << 32 | int(word or "0", 16)
    return frozenset(bit for bit in range(value.bit_length()) if value >> bit & 1)


def topologies() -> list[str]:
    return sorted(name.removesuffix(".xml") for name in os.listdir(TOPOLOGIES) if name.endswith(".xml"))


def path_of(name: str) -> str:
    return os.path.join(TOPOLOGIES, name + ".xml")


def topo(command: str, *arguments: str) -> dict:
    """What `rdma-nccl topo --json` tells; 1 only means that there are warnings."""
    done = subprocess.run(
        [command, "topo", "--json", "--conf", "/dev/null", *arguments], stdout=subprocess.PIPE, check=False
    )
    if done.returncode not in (0, 1):
        raise subprocess.CalledProcessError(done.returncode, done.args)
    return json.loads(done.stdout)


class TreeReader:
    """Walks hwloc's tree once, from the root."""

    NORMAL = ("Machine", "Package", "Die", "Group", "L3Cache", "L2Cache", "L1Cache", "Core")

    def __init__(self, machine: Machine):
        self._machine = machine
        self._levels: dict[str, list[Cpus]] = {}
        self._packages = 0
        self._caches = 0
        self.attached: dict[str, tuple[Cpus, frozenset[int]]] = {}  # by PCI address
        self._nodes: list[tuple[int, Cpus, str]] = []

    def read(self, root: ElementTree.Element) -> None:
        self._walk(root, root, 0, None)
        order = list(self._levels)
        self._machine.levels = list(self._levels.items())
        self._machine.nodes = [Node(number, cpus, order.index(kind)) for number, cpus, kind in self._nodes]

    def _walk(self, entry: ElementTree.Element, normal: ElementTree.Element, package: int, cache: int | None) -> None:
        kind = entry.get("type", "")
        if kind in self.NORMAL:
            normal = entry
            self._levels.setdefault(kind, []).append(read_bitmap(entry.get("cpuset", "0")))
        if kind == "Package":
            package = self._packages
            self._packages += 1
        elif kind.endswith("Cache") and cache is None:
            cache = self._caches
            self._caches += 1
        elif kind == "Core":
            self._machine.cores.append(Core(read_bitmap(entry.get("cpuset", "0")), package, cache))
        elif kind == "NUMANode" and entry.get("subtype") != "GPUMemory":
            cpus = read_bitmap(normal.get("cpuset", "0"))
            self._nodes.append((int(entry.get("os_index", "0")), cpus, normal.get("type", "")))
        elif kind == "PCIDev":
            place = read_bitmap(normal.get("cpuset", "0")), read_bitmap(normal.get("nodeset", "0"))
            self.attached[entry.get("pci_busid", "")] = place
        for child in entry.findall("object"):
            self._walk(child, normal, package, cache)


def read_machine(command: str, name: str) -> Machine:
    machine = Machine(name)
    tree = TreeReader(machine)
    root = ElementTree.parse(path_of(name)).getroot().find("object")
    assert root is not None
    tree.read(root)
    told = topo(command, "--xml", path_of(name))
    for gpu in told["gpus"]:
        cpus = read_list(gpu["cpus"] or "")
        machine.gpus.append(Gpu(cpus, gpu["numa_node"], *tree.attached[gpu["pci"]]))
    machine.hcas = [hca["port"] for hca in told["hcas"]]
    machine.distances = [[DISTANCES.index(distance) for distance in row] for row in told["distances"]]
    return machine


def our_places(command: str, machine: Machine, ranks: int, masks: list[Cpus] | None = None) -> list[Place]:
    """`masks`: as Slurm has bound the ranks; None: all have all CPUs."""
    bound = ["--cpus", "/".join(map(write_list, masks))] if masks else []
    told = topo(command, "--xml", path_of(machine.name), "--ranks", str(ranks), *bound)
    ids = [gpu["id"] for gpu in told["gpus"]]
    places = []
    for rank in told["ranks"]:
        gpu = ids.index(rank["gpus"][0]) if rank["gpus"] else None
        hca = machine.hcas.index(rank["hcas"][0]) if rank["hcas"] else None
        places.append(Place(read_list(rank["cpus"]), gpu, hca))
    return places
