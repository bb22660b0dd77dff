# SPDX-License-Identifier: Apache-2.0
"""A described machine as values: node `index` of machines that are alike, each with addresses and GUIDs of its own."""

from __future__ import annotations

import ipaddress
import json
import os
import uuid
from dataclasses import dataclass

FABRIC_DIRECTORY = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fabric")

GPU_MODEL = "NVIDIA A100-SXM4-80GB"
GPU_IDS = ("0x10de", "0x20b2")
BRIDGE_IDS = ("0x1000", "0xc010")
# PCI vendor and device of a network function by its driver: ConnectX-6, Intel I350, virtio.
NIC_IDS = {"mlx5_core": ("0x15b3", "0x101b"), "igb": ("0x8086", "0x1521"), "virtio_net": ("0x1af4", "0x1000")}

GID_TYPES = {1: "IB/RoCE v1", 2: "RoCE v2"}


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
    numa_node: int

    @property
    def address(self) -> str:
        return self.path[-1]

    @property
    def directory(self) -> str:
        return "sys/devices/pci" + "/".join(self.path)


@dataclass(frozen=True)
class Netdev:
    name: str
    ifindex: int
    mac: str
    mtu: int
    network: str | None  # netdevs of one network reach each other; None: a bond's lower
    ipv4: ipaddress.IPv4Interface | None
    ipv6: ipaddress.IPv6Interface | None
    function: Function | None
    driver: str | None
    master: str | None
    bond_mode: str | None
    speed: int  # Mb/s

    @property
    def link_local(self) -> ipaddress.IPv6Interface | None:
        if self.master:
            return None
        return ipaddress.IPv6Interface((int(ipaddress.IPv6Address("fe80::")) | eui64(self.mac), 64))


@dataclass(frozen=True)
class Gid:
    index: int
    value: ipaddress.IPv6Address
    type: str
    netdev: str


@dataclass(frozen=True)
class Hca:
    name: str
    number: int
    function: Function
    netdev: Netdev
    gids: tuple[Gid, ...]
    table_length: int
    rate: str


@dataclass(frozen=True)
class Gpu:
    minor: int
    function: Function
    uuid: str


@dataclass(frozen=True)
class Machine:
    host: str
    packages: int  # one NUMA node each
    cores_per_package: int
    memory_gib: int
    netdevs: tuple[Netdev, ...]
    hcas: tuple[Hca, ...]
    gpus: tuple[Gpu, ...]
    default_netdev: str | None
    gateway: ipaddress.IPv4Address | None

    @property
    def cpus(self) -> int:
        return self.packages * self.cores_per_package

    def lowers(self, netdev: Netdev) -> list[Netdev]:
        return [lower for lower in self.netdevs if lower.master == netdev.name]


def eui64(mac: str) -> int:
    """The modified EUI-64 of a MAC (RFC 4291, appendix A)."""
    octets = bytes.fromhex(mac.replace(":", ""))
    return int.from_bytes(bytes([octets[0] ^ 2]) + octets[1:3] + b"\xff\xfe" + octets[3:], "big")


def descriptions() -> list[str]:
    return sorted(name[:-5] for name in os.listdir(FABRIC_DIRECTORY) if name.endswith(".json"))


def read_description(name: str) -> dict:
    """`name`: one of descriptions(), or the path of such a file."""
    path = name if os.sep in name or name.endswith(".json") else os.path.join(FABRIC_DIRECTORY, name + ".json")
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        raise DescriptionError(f"no description {path}; there are: {', '.join(descriptions())}") from None
    except (OSError, ValueError) as error:
        raise DescriptionError(f"{path}: {error}") from None


def machine_of(description: dict, index: int, host: str | None = None, gpus: int | None = None) -> Machine:
    """Machine `index` (0, 1, ...) of the description; `gpus`: only the first so many."""
    try:
        return _Builder(description, index, host or f"n{index + 1:02}").machine(gpus)
    except KeyError as error:
        raise DescriptionError(f"the description lacks or does not know {error}") from None


class _Builder:
    def __init__(self, description: dict, index: int, host: str):
        self._description = description
        self._index = index
        self._host = host

    def machine(self, gpu_count: int | None) -> Machine:
        description = self._description
        netdevs = self._netdevs()
        route = description.get("default_route")
        return Machine(
            host=self._host,
            packages=description["packages"],
            cores_per_package=description["cores_per_package"],
            memory_gib=description["memory_gib"],
            netdevs=tuple(netdevs.values()),
            hcas=tuple(self._hca(number, entry, netdevs) for number, entry in enumerate(description["hcas"])),
            gpus=self._gpus(gpu_count),
            default_netdev=route["netdev"] if route else None,
            gateway=ipaddress.IPv4Address(route["gateway"]) if route else None,
        )

    def _function(self, path: str, ids: tuple[str, str], pci_class: str, driver: str) -> Function:
        root, *rest = path.split("/")
        numa_node = self._description["root_buses"][root]
        return Function(tuple(["0000:" + root] + ["0000:" + part for part in rest]), *ids, pci_class, driver, numa_node)

    def _netdevs(self) -> dict[str, Netdev]:
        entries = self._description["netdevs"]
        macs = {entry["name"]: self._mac(number) for number, entry in enumerate(entries)}
        for entry in entries:  # a bond and its lowers share the first lower's MAC
            if "master" in entry:
                first = next(other["name"] for other in entries if other.get("master") == entry["master"])
                macs[entry["name"]] = macs[entry["master"]] = macs[first]
        return {
            entry["name"]: self._netdev(number, entry, macs[entry["name"]]) for number, entry in enumerate(entries)
        }

    def _mac(self, number: int) -> str:
        oui = self._description.get("oui", "b8:59:9f")
        return f"{oui}:{self._index >> 8:02x}:{self._index & 255:02x}:{number:02x}"

    def _netdev(self, number: int, entry: dict, mac: str) -> Netdev:
        driver = entry.get("driver")
        function = self._function(entry["pci"], NIC_IDS[driver], "0x020000", driver) if "pci" in entry else None
        return Netdev(
            name=entry["name"],
            ifindex=number + 2,  # lo is 1
            mac=mac,
            mtu=entry["mtu"],
            network=entry.get("network"),
            ipv4=self._address(entry, "ipv4"),
            ipv6=self._address(entry, "ipv6"),
            function=function,
            driver=driver,
            master=entry.get("master"),
            bond_mode=entry.get("bond"),
            speed=entry.get("speed", 1000 if driver in ("igb", "virtio_net") else 200000),
        )

    def _address(self, entry: dict, family: str):
        if family not in entry:
            return None
        first = ipaddress.ip_interface(entry[family])
        own = ipaddress.ip_interface((int(first.ip) + self._index, first.network.prefixlen))
        if own.network != first.network or own.ip == own.network.broadcast_address:
            raise DescriptionError(f"{entry['name']}: {first} has no room for node {self._index}")
        return own

    def _hca(self, number: int, entry: dict, netdevs: dict[str, Netdev]) -> Hca:
        netdev = netdevs[entry["netdev"]]
        function = netdevs[entry.get("function_of", netdev.name)].function
        if function is None:
            raise DescriptionError(f"{entry['name']}: {netdev.name} has no PCI function; name one as function_of")
        table = entry.get("gids", self._description["gids"])
        return Hca(
            name=entry["name"],
            number=number,
            function=function,
            netdev=netdev,
            gids=tuple(_gid(index, kind, version, netdev) for index, kind, version in table),
            table_length=entry.get("table_length", 256),
            rate=entry.get("rate", "200 Gb/sec (4X HDR)"),
        )

    def _gpus(self, count: int | None) -> tuple[Gpu, ...]:
        paths = self._description["gpus"]
        if count is not None and count > len(paths):
            raise DescriptionError(f"{count} GPUs asked for, the description has {len(paths)}")
        functions = [self._function(path, GPU_IDS, "0x030200", "nvidia") for path in paths[:count]]
        return tuple(
            Gpu(minor, function, "GPU-" + str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{self._host}/{function.address}")))
            for minor, function in enumerate(functions)
        )


def _gid(index: int, kind: str, version: int, netdev: Netdev) -> Gid:
    interface = {"link-local": netdev.link_local, "ipv4": netdev.ipv4, "ipv6": netdev.ipv6}[kind]
    if interface is None:
        raise DescriptionError(f"GID {index}: {netdev.name} has no {kind} address")
    value = interface.ip
    if value.version == 4:
        value = ipaddress.IPv6Address((0xFFFF << 32) | int(value))
    return Gid(index, value, GID_TYPES[version], netdev.name)
