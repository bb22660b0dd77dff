# SPDX-License-Identifier: Apache-2.0
"""CPUs, caches and NUMA nodes of a description as values."""

from __future__ import annotations

from collections.abc import Callable

from .cpus import CORES_PER_EFFICIENT_L2, CPU_MODELS, DEFAULT_MODEL, CpuModel
from .cpuset import numbers_of
from .repeat import expanded
from .values import Cpu, DescriptionError, NumaNode, Processors

# In which order a kernel (the firmware, rather) numbers the threads of (package, core, thread).
_NUMBERINGS: dict[str, Callable] = {
    "threads-last": lambda place: (place[2], place[0], place[1]),
    "siblings": lambda place: place,
    "packages-alternate": lambda place: (place[2], place[1], place[0]),
}
_MEMORY_NODE_KEYS = {"node", "memory_gib", "near", "gpu"}
_HERE, _SAME_PACKAGE, _OTHER_PACKAGE = 10, 12, 21  # NUMA distances


def processors_of(description: dict) -> Processors:
    name = description.get("cpu", DEFAULT_MODEL)
    if name not in CPU_MODELS:
        raise DescriptionError(f"cpu {name} is not known; there are: {', '.join(CPU_MODELS)}")
    packages = description["packages"]
    node_count = description.get("numa_nodes", packages)
    cpus = _cpus(description, CPU_MODELS[name], packages, node_count)
    nodes = _nodes(description, packages, node_count)
    return Processors(
        model=CPU_MODELS[name],
        has_caches="cpu" in description,
        has_efficient="efficient_cores" in description,
        cpus=cpus,
        nodes=nodes,
        distances=_distances(nodes, description.get("distances", [_SAME_PACKAGE, _OTHER_PACKAGE])),
        memory_kib=_memory(description) if not nodes else sum(node.memory_kib for node in nodes),
    )


def _cpus(description: dict, model: CpuModel, packages: int, node_count: int) -> tuple[Cpu, ...]:
    per_package = _cores_per_package(description, packages)
    efficient = description.get("efficient_cores", 0)
    threads = description.get("threads_per_core", 1)
    places = [
        (package, core, thread)
        for package, count in enumerate(per_package)
        for core in range(count)
        for thread in range(1 if core >= count - efficient else threads)
    ]
    places.sort(key=_NUMBERINGS[description.get("cpu_numbering", "threads-last")])
    offline = numbers_of(description.get("offline_cpus", ""))
    cpus = []
    for number, (package, core, _) in enumerate(places):
        count = per_package[package]
        first_efficient = count - efficient
        is_efficient = core >= first_efficient
        cpus.append(
            Cpu(
                number=number,
                package=package,
                core=core,
                node=_node_of(package, core, count, packages, node_count),
                l3=core // (description.get("cores_per_l3") or model.cores_per_l3 or count),
                l2=first_efficient + (core - first_efficient) // CORES_PER_EFFICIENT_L2 if is_efficient else core,
                is_efficient=is_efficient,
                is_online=number not in offline,
            )
        )
    return tuple(cpus)


def _cores_per_package(description: dict, packages: int) -> list[int]:
    cores = description["cores_per_package"]
    counts = cores if isinstance(cores, list) else [cores] * packages
    if len(counts) != packages:
        raise DescriptionError(f"cores_per_package {counts} is not one number for each of {packages} packages")
    return counts


def _node_of(package: int, core: int, cores: int, packages: int, nodes: int) -> int | None:
    """Nodes divide a package, or packages (the one-core packages of a virtual machine) share a node."""
    if nodes == 0:
        return None
    if nodes < packages:
        return package * nodes // packages
    per_package = nodes // packages
    return package * per_package + core * per_package // cores


def _memory(description: dict) -> int:
    return description["memory_gib"] << 20


def _nodes(description: dict, packages: int, count: int) -> tuple[NumaNode, ...]:
    if max(count, packages) % min(count or packages, packages):
        raise DescriptionError(f"{packages} packages cannot be divided into {count} NUMA nodes")
    given = description["memory_gib"]
    if isinstance(given, list):
        sizes = [gib << 20 for gib in given]
    else:
        sizes = [_memory(description) // count] * count if count else []
    if len(sizes) != count:
        raise DescriptionError(f"memory_gib {given} is not one number for each of {count} NUMA nodes")
    nodes = [NumaNode(node, node * packages // count, size) for node, size in enumerate(sizes)]
    nodes += [_memory_node(entry) for entry in expanded(description.get("memory_nodes", []))]
    return tuple(sorted(nodes, key=lambda node: node.number))


def _memory_node(entry: dict) -> NumaNode:
    unknown = set(entry) - _MEMORY_NODE_KEYS
    if unknown:
        raise DescriptionError(f"memory_nodes: unknown {', '.join(sorted(unknown))}")
    gpu = int(entry["gpu"]) if "gpu" in entry else None
    return NumaNode(int(entry["node"]), None, int(entry["memory_gib"]) << 20, int(entry["near"]), gpu)


def _distances(nodes: tuple[NumaNode, ...], given: list) -> tuple[tuple[int, ...], ...]:
    """A row for each node; `given` are all rows as texts, or what tells near from far."""
    if given and isinstance(given[0], str):
        rows = tuple(tuple(int(word) for word in row.split()) for row in given)
        if {len(rows), *map(len, rows)} != {len(nodes)}:
            raise DescriptionError(f"distances: not {len(nodes)} rows of {len(nodes)} numbers")
        return rows
    return tuple(tuple(_distance(node, other, given) for other in nodes) for node in nodes)


def _distance(node: NumaNode, other: NumaNode, given: list[int]) -> int:
    if node.number == other.number:
        return _HERE
    if node.package is not None and other.package is not None:
        return given[0] if node.package == other.package else given[1]
    if len(given) < 4:
        raise DescriptionError("distances: memory_nodes need four: same package, other package, near, far")
    return given[2] if other.number == node.near or node.number == other.near else given[3]
