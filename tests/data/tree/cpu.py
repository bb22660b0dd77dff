# SPDX-License-Identifier: Apache-2.0
"""/sys/devices/system/{cpu,node}, /proc/cpuinfo and /proc/meminfo."""

from __future__ import annotations

from .cpus import EFFICIENT_FREQUENCIES, EFFICIENT_L1D, EFFICIENT_L1I, EFFICIENT_L2, USUAL_FREQUENCIES
from .cpuset import cpulist, cpumap
from .files import Tree
from .values import Cpu, Machine, NumaNode, Processors

_SYSTEM = "sys/devices/system"
_ARM_FEATURES = "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid"


def write_cpus(tree: Tree, machine: Machine) -> None:
    processors = machine.processors
    _write_sets(tree, processors)
    for cpu in processors.cpus:
        _write_cpu(tree, processors, cpu)
    _write_nodes(tree, processors)
    _write_kinds(tree, processors)
    online = [cpu for cpu in processors.cpus if cpu.is_online]
    tree.write("proc/cpuinfo", "\n\n".join(_cpuinfo(processors, cpu, machine.kernel.hypervisor) for cpu in online) + "\n")
    tree.write("proc/meminfo", f"MemTotal:       {processors.memory_kib} kB")


def _write_sets(tree: Tree, processors: Processors) -> None:
    present = frozenset(cpu.number for cpu in processors.cpus)
    offline = present - processors.online
    sets = {"online": processors.online, "offline": offline, "possible": present, "present": present}
    tree.attributes(f"{_SYSTEM}/cpu", {name: cpulist(cpus) for name, cpus in sets.items()})


def _write_cpu(tree: Tree, processors: Processors, cpu: Cpu) -> None:
    """One that is offline has neither topology nor caches."""
    directory = f"{_SYSTEM}/cpu/cpu{cpu.number}"
    if cpu.number > 0:
        tree.attributes(directory, {"online": int(cpu.is_online)})
    if not cpu.is_online:
        return
    threads = processors.numbers(lambda other: (other.package, other.core) == (cpu.package, cpu.core))
    siblings = processors.numbers(lambda other: other.package == cpu.package)
    tree.attributes(
        f"{directory}/topology",
        {
            "physical_package_id": cpu.package,
            "core_id": cpu.core,
            **_shared(processors, ("thread_siblings", "thread_siblings_list"), threads),
            **_shared(processors, ("core_cpus", "core_cpus_list"), threads),
            **_shared(processors, ("core_siblings", "core_siblings_list"), siblings),
            **_shared(processors, ("package_cpus", "package_cpus_list"), siblings),
        },
    )
    if processors.has_caches:
        _write_caches(tree, processors, cpu, threads, f"{directory}/cache")


def _shared(processors: Processors, names: tuple[str, str], cpus: frozenset[int]) -> dict[str, str | int | None]:
    """The same set as a map and as a list."""
    return dict(zip(names, (cpumap(cpus, len(processors.cpus)), cpulist(cpus))))


def _write_caches(tree: Tree, processors: Processors, cpu: Cpu, threads: frozenset[int], directory: str) -> None:
    model = processors.model
    sizes = (EFFICIENT_L1D, EFFICIENT_L1I, EFFICIENT_L2) if cpu.is_efficient else (model.l1d, model.l1i, model.l2)
    of_l2 = processors.numbers(lambda other: (other.package, other.l2) == (cpu.package, cpu.l2))
    of_l3 = processors.numbers(lambda other: (other.package, other.l3) == (cpu.package, cpu.l3))
    caches = [
        (1, "Data", sizes[0], threads),
        (1, "Instruction", sizes[1], threads),
        (2, "Unified", sizes[2], of_l2),
        (3, "Unified", model.l3, of_l3),
    ]
    for index, (level, kind, size, cpus) in enumerate(caches):
        tree.attributes(
            f"{directory}/index{index}",
            {
                "level": level,
                "type": kind,
                "size": f"{size}K",
                "coherency_line_size": 64,
                **_shared(processors, ("shared_cpu_map", "shared_cpu_list"), cpus),
            },
        )


def _write_nodes(tree: Tree, processors: Processors) -> None:
    if not processors.nodes:
        return
    for node, distances in zip(processors.nodes, processors.distances):
        _write_node(tree, processors, node, distances)
    numbers = cpulist(node.number for node in processors.nodes)
    has_cpu = cpulist(node.number for node in processors.nodes if processors.local(node.number))
    has_memory = cpulist(node.number for node in processors.nodes if node.memory_kib)
    tree.attributes(
        f"{_SYSTEM}/node", {"online": numbers, "possible": numbers, "has_cpu": has_cpu, "has_memory": has_memory}
    )


def _write_node(tree: Tree, processors: Processors, node: NumaNode, distances: tuple[int, ...]) -> None:
    number, memory = node.number, node.memory_kib
    tree.attributes(
        f"{_SYSTEM}/node/node{number}",
        {
            **_shared(processors, ("cpumap", "cpulist"), processors.local(number)),
            "distance": " ".join(map(str, distances)),
            "meminfo": f"Node {number} MemTotal:       {memory} kB\nNode {number} MemFree:        {memory} kB",
        },
    )


def _write_kinds(tree: Tree, processors: Processors) -> None:
    """The two kinds of cores of an Intel hybrid CPU are event sources of their own, and differ in frequency."""
    if not processors.has_efficient:
        return
    tree.write("sys/devices/cpu_core/cpus", cpulist(processors.numbers(lambda cpu: not cpu.is_efficient)))
    tree.write("sys/devices/cpu_atom/cpus", cpulist(processors.numbers(lambda cpu: cpu.is_efficient)))
    for cpu in processors.cpus:
        frequencies = EFFICIENT_FREQUENCIES if cpu.is_efficient else USUAL_FREQUENCIES
        tree.attributes(
            f"{_SYSTEM}/cpu/cpu{cpu.number}/cpufreq", dict(zip(("base_frequency", "cpuinfo_max_freq"), frequencies))
        )


def _cpuinfo(processors: Processors, cpu: Cpu, hypervisor: bool) -> str:
    model = processors.model
    if model.is_arm:
        return (
            f"processor\t: {cpu.number}\nBogoMIPS\t: 2000.00\nFeatures\t: {_ARM_FEATURES}\n"
            f"CPU implementer\t: {model.vendor}\nCPU architecture: 8\nCPU variant\t: {model.model:#x}\n"
            f"CPU part\t: {model.family:#x}\nCPU revision\t: {model.stepping}"
        )
    package = [other for other in processors.cpus if other.package == cpu.package and other.is_online]
    return (
        f"processor\t: {cpu.number}\nvendor_id\t: {model.vendor}\ncpu family\t: {model.family}\n"
        f"model\t\t: {model.model}\nmodel name\t: {model.name}\nstepping\t: {model.stepping}\n"
        f"physical id\t: {cpu.package}\nsiblings\t: {len(package)}\ncore id\t\t: {cpu.core}\n"
        f"cpu cores\t: {len({other.core for other in package})}\n"
        f"flags\t\t: fpu vme de pse tsc msr pae mce cx8 apic sep{' hypervisor' if hypervisor else ''} lahf_lm"
    )
