# SPDX-License-Identifier: Apache-2.0
"""What a machine consists of."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass

from .cpus import CpuModel


class DescriptionError(Exception):
    """The description cannot be made into a machine; the text says why."""


@dataclass(frozen=True)
class Function:
    """A PCI function or bridge, by its way from the root bus: ("0000:50", "0000:50:01.0", "0000:51:00.0")."""

    path: tuple[str, ...]
    vendor: str
    device: str
    pci_class: str
    driver: str
    numa_node: int  # -1: not told
    above: str = ""  # what the root bus hangs on, below /sys/devices: a virtual machine's bus
    physical: str | None = None  # address of the physical function, when this is a virtual one
    is_virtual: bool = False  # a virtual function, whether the physical one is in sight or not

    @property
    def address(self) -> str:
        return self.path[-1]

    @property
    def directory(self) -> str:
        return f"sys/devices/{self.above}pci" + "/".join(self.path)


@dataclass(frozen=True)
class Netdev:
    name: str
    ifindex: int
    mac: str
    mtu: int
    network: str | None  # netdevs of one network reach each other; None: a bond's lower
    ipv4s: tuple[ipaddress.IPv4Interface, ...]
    ipv6s: tuple[ipaddress.IPv6Interface, ...]
    has_link_local: bool
    function: Function | None
    parent: str | None  # directory of a parent that is no PCI function: on VMBus, or a virtio device in its function
    driver: str | None
    kind: str  # "nic", "bond", "bridge", "ovs", "vlan", "macvlan", "ipoib", "netvsc"
    state: str  # "up", "no-carrier", "down"
    master: str | None
    base: str | None  # what a VLAN or macvlan stands on
    bond_mode: str | None
    speed: int | None  # Mb/s; -1: unknown; None: refused to tell
    dev_port: int
    elsewhere: bool  # in another network namespace: only GID tables know it

    @property
    def ipv4(self) -> ipaddress.IPv4Interface | None:
        return self.ipv4s[0] if self.ipv4s else None

    @property
    def ipv6(self) -> ipaddress.IPv6Interface | None:
        return self.ipv6s[0] if self.ipv6s else None

    @property
    def link_local(self) -> ipaddress.IPv6Interface | None:
        if self.master or self.state != "up" or not self.has_link_local:
            return None
        return ipaddress.IPv6Interface((int(self.own_link_local), 64))

    @property
    def own_link_local(self) -> ipaddress.IPv6Address:
        """What its MAC makes; a GID also where the interface has no such address."""
        identifier = port_guid(self.mac) | 2 << 56 if self.kind == "ipoib" else eui64(self.mac)
        return ipaddress.IPv6Address(int(ipaddress.IPv6Address("fe80::")) | identifier)


@dataclass(frozen=True)
class Gid:
    index: int
    value: ipaddress.IPv6Address
    type: str
    netdev: str | None  # None: the kernel refuses to name one


@dataclass(frozen=True)
class Port:
    number: int
    link_layer: str
    state: str
    physical_state: str
    rate: str
    lid: int
    sm_lid: int
    gids: tuple[Gid, ...]
    table_length: int


@dataclass(frozen=True)
class Hca:
    name: str
    number: int
    driver: str
    function: Function | None  # None: a software device
    netdev: Netdev | None
    node_type: str
    guid: int
    system_guid: int
    firmware: str
    texts: tuple[tuple[str, str], ...]  # further files: hca_type, board_id, ...
    ports: tuple[Port, ...]
    counters: bool | str  # "no-pma", "32-bit", "old-kernel"
    uverbs: bool  # has its node in /dev/infiniband


@dataclass(frozen=True)
class Gpu:
    minor: int
    function: Function
    uuid: str
    model: str


@dataclass(frozen=True)
class Kfd:
    """What AMD's compute driver tells of the GPUs, by their position in the description."""

    order: tuple[int, ...]  # of their nodes
    partitions: int  # of each
    hives: tuple[tuple[int, ...], ...]  # those that XGMI connects


@dataclass(frozen=True)
class DefaultRoute:
    netdev: str
    gateway: ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True)
class Cpu:
    number: int
    package: int
    core: int  # in its package
    node: int | None
    l3: int  # in its package
    l2: int  # in its package
    is_efficient: bool
    is_online: bool


@dataclass(frozen=True)
class NumaNode:
    number: int
    package: int | None  # None: of no CPUs
    memory_kib: int
    near: int | None = None  # the node that one without CPUs is attached to
    gpu: int | None = None  # the GPU whose memory it is


@dataclass(frozen=True)
class Processors:
    model: CpuModel
    has_caches: bool
    has_efficient: bool  # cores besides the usual ones, as the last ones of each package
    cpus: tuple[Cpu, ...]  # those that are present, by number
    nodes: tuple[NumaNode, ...]  # none: of a kernel without NUMA
    distances: tuple[tuple[int, ...], ...]
    memory_kib: int

    @property
    def online(self) -> frozenset[int]:
        return self.numbers(lambda cpu: True)

    def numbers(self, is_wanted: Callable[[Cpu], bool]) -> frozenset[int]:
        """Of the CPUs online."""
        return frozenset(cpu.number for cpu in self.cpus if cpu.is_online and is_wanted(cpu))

    def local(self, node: int) -> frozenset[int]:
        """The CPUs near a device with this numa_node: all when it is -1, none when the node has no CPUs."""
        return self.online if node < 0 else self.numbers(lambda cpu: cpu.node == node)


@dataclass(frozen=True)
class Kernel:
    """What the kernel and its modules are, beside devices."""

    release: str
    hypervisor: bool  # it runs in a virtual machine
    modules: tuple[str, ...]  # further ones below /sys/module
    nvidia: str  # first line of the NVIDIA driver's version
    iommu: str | None  # type of all IOMMU groups; None: there are none
    acs: bool  # the ports of PCIe switches redirect peer to peer traffic
    ofed: dict | None  # what OFED's drivers show of RoCE: traffic_class, ecn


@dataclass(frozen=True)
class Machine:
    host: str
    processors: Processors
    netdevs: tuple[Netdev, ...]  # those of its network namespace
    hcas: tuple[Hca, ...]
    gpus: tuple[Gpu, ...]
    kfd: Kfd | None
    default_routes: tuple[DefaultRoute, ...]
    kernel: Kernel
    dev_infiniband: bool
    changes: dict[str, str | dict | None]  # by path: see changes.py

    @property
    def default_netdev(self) -> str | None:
        return next((route.netdev for route in self.default_routes if route.gateway.version == 4), None)

    @property
    def gateway(self) -> ipaddress.IPv4Address | None:
        return next((route.gateway for route in self.default_routes if route.gateway.version == 4), None)

    def lowers(self, netdev: Netdev) -> list[Netdev]:
        """The netdevs whose master it is."""
        return [lower for lower in self.netdevs if lower.master == netdev.name]


def eui64(mac: str) -> int:
    """The modified EUI-64 of a MAC (RFC 4291, appendix A)."""
    octets = bytes.fromhex(mac.replace(":", ""))
    return int.from_bytes(bytes([octets[0] ^ 2]) + octets[1:3] + b"\xff\xfe" + octets[3:], "big")


def port_guid(mac: str) -> int:
    """An InfiniBand port's GUID, as Mellanox numbers its cards: 03:00 between the halves of the MAC."""
    octets = bytes.fromhex(mac.replace(":", ""))
    return int.from_bytes(octets[:3] + b"\x03\x00" + octets[3:], "big")
