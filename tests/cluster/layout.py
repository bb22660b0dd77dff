# SPDX-License-Identifier: Apache-2.0
"""What a cluster consists of: its machines, each with a fabric, GPUs and addresses."""

from __future__ import annotations

import ipaddress
import os
import sys
from dataclasses import dataclass, replace

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data"))

from state import TestBedError  # noqa: E402
from tree.machine import DescriptionError, Machine, Netdev, machine_of, read_description  # noqa: E402

LOGIN = "login"
MANAGEMENT = "mgmt"  # the network Slurm itself uses


@dataclass(frozen=True)
class Member:
    """A machine of the cluster. `tree`: a directory to copy as its emulated root; else it is written from `machine`."""

    machine: Machine
    gpu_count: int
    tree: str | None

    @property
    def name(self) -> str:
        return self.machine.host

    @property
    def management(self) -> Netdev:
        for netdev in self.machine.netdevs:
            if netdev.network == MANAGEMENT and (netdev.ipv4 or netdev.ipv6):
                return netdev
        raise TestBedError(f"{self.name}: its fabric has no netdev with an address on the network {MANAGEMENT}")

    @property
    def address(self) -> str:
        return str((self.management.ipv4 or self.management.ipv6).ip)


@dataclass(frozen=True)
class Cluster:
    login: Member
    nodes: tuple[Member, ...]

    @property
    def members(self) -> tuple[Member, ...]:
        return (self.login, *self.nodes)

    @property
    def ipv6(self) -> bool:
        """Whether Slurm itself uses IPv6: when no node has an IPv4 address on its network."""
        return self.login.management.ipv4 is None

    @property
    def networks(self) -> list[str]:
        names = {netdev.network for member in self.members for netdev in member.machine.netdevs if netdev.network}
        return sorted(names)


def make_cluster(count: int, fabrics: list[str], gpus: list[int]) -> Cluster:
    """`fabrics` and `gpus` by node, the last of each for all further nodes; no `gpus`: all that a fabric has."""
    if count < 1:
        raise TestBedError("--nodes: at least 1")
    try:
        login = Member(machine_of(read_description(LOGIN), 0, LOGIN), 0, None)
        nodes = [_node(index, _of_node(fabrics, index), _of_node(gpus, index)) for index in range(count)]
    except DescriptionError as error:
        raise TestBedError(str(error)) from None
    families = {node.management.ipv4 is None for node in nodes}
    if len(families) > 1:
        raise TestBedError("--fabric: some nodes have IPv4 on the management network, others have not")
    return Cluster(_on_ipv6(login) if families == {True} else _as_gateway(login, nodes), tuple(nodes))


def _as_gateway(login: Member, nodes: list[Member]) -> Member:
    """With the address of the nodes' gateway in each of their networks that the login node is not in."""
    eth0 = login.management
    own = list(eth0.ipv4s)
    for node in nodes:
        address, gateway = node.management.ipv4, node.machine.gateway
        if any(address.ip in known.network for known in own):
            continue
        if gateway is None:
            raise TestBedError(f"{node.name}: {address} is not in {eth0.ipv4.network}, and it has no default route")
        own.append(ipaddress.IPv4Interface(f"{gateway}/{min(address.network.prefixlen, 24)}"))
    netdevs = tuple(replace(netdev, ipv4s=tuple(own)) if netdev is eth0 else netdev for netdev in login.machine.netdevs)
    return replace(login, machine=replace(login.machine, netdevs=netdevs))


def _on_ipv6(login: Member) -> Member:
    """On the network that the descriptions of IPv6-only machines have for management."""
    address = ipaddress.IPv6Interface("2001:db8:60::1/64")
    netdevs = tuple(replace(netdev, ipv4s=(), ipv6s=(address,)) for netdev in login.machine.netdevs)
    return replace(login, machine=replace(login.machine, netdevs=netdevs))


def _of_node(values: list, index: int):
    return values[min(index, len(values) - 1)] if values else None


def _node(index: int, fabric: str, gpus: int | None) -> Member:
    name = f"n{index + 1:02}"
    if not os.path.isdir(fabric):
        machine = machine_of(read_description(fabric), index, name, gpus)
        return Member(machine, len(machine.gpus), None)
    count = _count_gpus(fabric) if gpus is None else gpus
    return Member(machine_of(read_description("none"), index, name), count, os.path.abspath(fabric))


def _count_gpus(tree: str) -> int:
    """NVIDIA functions of a display class in a copied tree."""
    directory = os.path.join(tree, "sys/bus/pci/devices")
    names = os.listdir(directory) if os.path.isdir(directory) else []
    return sum(
        _first_line(f"{directory}/{name}/vendor") == "0x10de"
        and _first_line(f"{directory}/{name}/class").startswith("0x03")
        for name in names
    )


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readline().strip()
    except OSError:
        return ""
