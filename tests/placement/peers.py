# SPDX-License-Identifier: Apache-2.0
"""Where others put the ranks of a node: the rules of mpibind, of torchrun's NUMA bindings and of Slurm's default.

None of them gives a rank an HCA. What a rank gets then is what its library takes unasked: the one nearest to its GPU,
of equally near ones the first by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from machine import Core, Cpus, Gpu, Machine, Node, Place


class Refused(Exception):
    """The peer gives up on this machine; the text says why."""


def place(machine: Machine, cpus: Cpus, gpu: int | None) -> Place:
    if gpu is None or not machine.hcas:
        return Place(cpus, gpu, None)
    row = machine.distances[gpu]
    return Place(cpus, gpu, min(range(len(row)), key=lambda hca: (row[hca], machine.hcas[hca])))


def deal(count: int, hands: int) -> list[int]:
    """How many each hand gets: even, the first ones have what is over."""
    return [count // hands + (hand < count % hands) for hand in range(hands)]


def runs(items: Sequence, hands: int) -> list[list]:
    """Contiguous runs of the items; where there are fewer than hands, neighbours have the same one."""
    if len(items) < hands:
        return [[item] for item, count in zip(items, deal(hands, len(items))) for _ in range(count)]
    result, start = [], 0
    for count in deal(len(items), hands):
        result.append(list(items[start : start + count]))
        start += count
    return result


# --- mpibind (LLNL/mpibind, src/internals.c): memory first, then caches and cores ---


def tasks_per_node(tasks: int, weights: list[int]) -> list[int]:
    """In proportion to the GPUs of each node (its CPUs where there are none); those with the largest rests get more."""
    whole = sum(weights)
    counts = [tasks * weight // whole for weight in weights]
    by_rest = sorted(range(len(weights)), key=lambda i: -(tasks * weights[i] % whole))
    for i in by_rest[: tasks - sum(counts)]:
        counts[i] += 1
    return counts


def first_cpus(cpus: Cpus, count: int) -> Cpus:
    return frozenset(sorted(cpus)[:count])


def match_cpus(machine: Machine, node: Node, tasks: int) -> list[Cpus]:
    """The first level of the tree with an object for each thread of all tasks; one thread per core, unless there are
    more tasks than cores."""
    threads_per_core = len(machine.cores[0].cpus)
    cores = [core for core in machine.cores if core.cpus <= node.cpus]
    workers = max(len(cores) // tasks, 1) * tasks
    objects: list[Cpus] = []
    for kind, all_objects in machine.levels[node.level :]:
        objects = [cpus for cpus in all_objects if cpus and cpus <= node.cpus]
        if len(objects) >= workers or kind == "Core":
            break
    used = 1
    while len(objects) * used < workers and used < threads_per_core:
        used += 1
    parts = [first_cpus(cpus, used) for cpus in objects]
    if len(parts) >= tasks:
        return [frozenset().union(*run) for run in runs(parts, tasks)]
    shares: list[Cpus] = []
    for part, count in zip(parts, deal(tasks, len(parts))):
        shares += [frozenset(run) for run in runs(sorted(part), count)]
    return shares


def gpus_below(machine: Machine, node: Node) -> list[int]:
    return [i for i, gpu in enumerate(machine.gpus) if gpu.attached <= node.cpus]


def mpibind_by_memory(machine: Machine, tasks: int) -> list[Place]:
    if machine.gpus:
        weights = [sum(node.number in gpu.nodes for gpu in machine.gpus) for node in machine.nodes]
    else:
        weights = [len(node.cpus) for node in machine.nodes]
    places = []
    for node, count in zip(machine.nodes, tasks_per_node(tasks, weights)):
        if count == 0:
            continue
        gpus = gpus_below(machine, node)
        hands = runs(gpus, count) if gpus else [[] for _ in range(count)]
        for cpus, hand in zip(match_cpus(machine, node, count), hands):
            places.append(place(machine, cpus, hand[0] if hand else None))
    return places


def mpibind_greedy(machine: Machine, tasks: int) -> list[Place]:
    """Fewer tasks than nodes: whole nodes for each."""
    places = []
    for nodes in runs(machine.nodes, tasks):
        gpus = sorted({gpu for node in nodes for gpu in gpus_below(machine, node)})
        cpus = frozenset().union(*(node.cpus for node in nodes))
        places.append(place(machine, cpus, gpus[0] if gpus else None))
    return places


def mpibind(machine: Machine, tasks: int) -> list[Place]:
    greedy = tasks < len(machine.nodes)
    return mpibind_greedy(machine, tasks) if greedy else mpibind_by_memory(machine, tasks)


# --- torchrun --numa-binding (torch/numa/binding.py of PyTorch 2.9): local rank i at GPU i ---


def node_of(gpu: Gpu) -> int:
    return gpu.node or 0  # also where the kernel says -1


def cpus_of_node(machine: Machine, number: int) -> Cpus:
    cpus = frozenset().union(*(node.cpus for node in machine.nodes if node.number == number))
    if not cpus:
        raise Refused(f"no CPUs on NUMA node {number}")
    return cpus


def neighbours(machine: Machine, gpu: int) -> tuple[int, list[int]]:
    """The GPU's turn among those of its node, and these."""
    number = node_of(machine.gpus[gpu])
    all_there = [i for i, other in enumerate(machine.gpus) if node_of(other) == number]
    return all_there.index(gpu), all_there


def bind_node(machine: Machine, gpu: int) -> Cpus:
    return cpus_of_node(machine, node_of(machine.gpus[gpu]))


def bind_socket(machine: Machine, gpu: int) -> Cpus:
    first = min(bind_node(machine, gpu))
    return machine.packages_of(frozenset([first]))


def bind_exclusive(machine: Machine, gpu: int) -> Cpus:
    turn, all_there = neighbours(machine, gpu)
    cores = sorted(machine.cores_of(bind_node(machine, gpu)), key=lambda core: min(core.cpus))
    if len(cores) < len(all_there):
        raise Refused("fewer cores than GPUs on a NUMA node")
    return frozenset().union(*(core.cpus for core in runs(cores, len(all_there))[turn]))


def bind_core_complex(machine: Machine, gpu: int) -> Cpus:
    turn, _ = neighbours(machine, gpu)
    caches: dict[int, set[int]] = {}
    for core in machine.cores_of(bind_node(machine, gpu)):
        if core.cache is None:
            raise Refused("the machine tells of no caches")
        caches.setdefault(core.cache, set()).update(core.cpus)
    largest_first = sorted(caches.values(), key=lambda cpus: (-len(cpus), min(cpus)))
    return frozenset(largest_first[turn % len(largest_first)])


def torchrun(bind: Callable[[Machine, int], Cpus]) -> Callable[[Machine, int], list[Place]]:
    def places(machine: Machine, tasks: int) -> list[Place]:
        if not machine.gpus:
            raise Refused("no GPUs")
        gpus = [rank % len(machine.gpus) for rank in range(tasks)]
        return [place(machine, bind(machine, gpu), gpu) for gpu in gpus]

    return places


# --- Slurm: as many cores for each task as there are, packages in turn (--distribution=block:cyclic) ---


def slurm_masks(machine: Machine, tasks: int) -> list[Cpus]:
    left: list[list[Core]] = [list(package) for package in machine.packages]
    each = max(len(machine.cores) // tasks, 1)
    masks, package = [], 0
    for _ in range(tasks):
        cores: list[Core] = []
        while len(cores) < each and any(left):
            while not left[package % len(left)]:
                package += 1
            taken = left[package % len(left)]
            cores += [taken.pop(0) for _ in range(min(each - len(cores), len(taken)))]
        package += 1
        masks.append(frozenset().union(*(core.cpus for core in cores)) or machine.cpus)
    return masks


def slurm(machine: Machine, tasks: int) -> list[Place]:
    masks = slurm_masks(machine, tasks)
    return [place(machine, mask, i % len(machine.gpus) if machine.gpus else None) for i, mask in enumerate(masks)]


PEERS: dict[str, Callable[[Machine, int], list[Place]]] = {
    "mpibind": mpibind,
    "torchrun node": torchrun(bind_node),
    "torchrun socket": torchrun(bind_socket),
    "torchrun exclusive": torchrun(bind_exclusive),
    "torchrun core-complex": torchrun(bind_core_complex),
    "slurm block:cyclic": slurm,
}
