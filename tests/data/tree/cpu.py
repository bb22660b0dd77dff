# SPDX-License-Identifier: Apache-2.0
"""/sys/devices/system/{cpu,node}, /proc/cpuinfo and /proc/meminfo: one NUMA node per package, one thread per core."""

from __future__ import annotations

from .files import Tree
from .values import Machine


def write_cpus(tree: Tree, machine: Machine) -> None:
    system = "sys/devices/system"
    everything = cpulist(0, machine.cpus)
    tree.attributes(f"{system}/cpu", {"online": everything, "possible": everything, "present": everything})
    for package in range(machine.packages):
        first = package * machine.cores_per_package
        for cpu in range(first, first + machine.cores_per_package):
            _write_cpu(tree, machine, cpu, package, f"{system}/cpu/cpu{cpu}/topology")
        _write_node(tree, machine, package, f"{system}/node/node{package}")
    nodes = cpulist(0, machine.packages)
    tree.attributes(f"{system}/node", {"online": nodes, "possible": nodes, "has_cpu": nodes, "has_memory": nodes})
    tree.write("proc/cpuinfo", "\n\n".join(_cpuinfo(machine, cpu) for cpu in range(machine.cpus)) + "\n")
    tree.write("proc/meminfo", f"MemTotal:       {machine.memory_gib << 20} kB")


def _write_cpu(tree: Tree, machine: Machine, cpu: int, package: int, directory: str) -> None:
    count = machine.cores_per_package
    own, siblings = cpumap(machine, cpu, 1), cpumap(machine, package * count, count)
    tree.attributes(
        directory,
        {
            "physical_package_id": package,
            "core_id": cpu % count,
            "thread_siblings": own,
            "thread_siblings_list": cpu,
            "core_cpus": own,
            "core_cpus_list": cpu,
            "core_siblings": siblings,
            "core_siblings_list": cpulist(package * count, count),
            "package_cpus": siblings,
            "package_cpus_list": cpulist(package * count, count),
        },
    )


def _write_node(tree: Tree, machine: Machine, node: int, directory: str) -> None:
    count = machine.cores_per_package
    memory = (machine.memory_gib << 20) // machine.packages
    tree.attributes(
        directory,
        {
            "cpulist": cpulist(node * count, count),
            "cpumap": cpumap(machine, node * count, count),
            "distance": " ".join("10" if other == node else "21" for other in range(machine.packages)),
            "meminfo": f"Node {node} MemTotal:       {memory} kB\nNode {node} MemFree:        {memory} kB",
        },
    )


def _cpuinfo(machine: Machine, cpu: int) -> str:
    package, core = divmod(cpu, machine.cores_per_package)
    return (
        f"processor\t: {cpu}\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 7543 32-Core Processor\n"
        f"physical id\t: {package}\ncore id\t\t: {core}\ncpu cores\t: {machine.cores_per_package}"
    )


def cpulist(first: int, count: int) -> str:
    return str(first) if count == 1 else f"{first}-{first + count - 1}"


def cpumap(machine: Machine, first: int, count: int) -> str:
    """Words of 32 bits in hexadecimal, highest first, as many as the machine has."""
    mask = ((1 << count) - 1) << first
    words = (machine.cpus + 31) // 32
    return ",".join(f"{mask >> (32 * word) & 0xFFFFFFFF:08x}" for word in reversed(range(words)))
