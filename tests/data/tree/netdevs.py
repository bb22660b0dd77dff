# SPDX-License-Identifier: Apache-2.0
"""The netdevs of a description as values."""

from __future__ import annotations

import ipaddress

from .drivers import DRIVERS, ETHERNET_CLASS, INFINIBAND_CLASS
from .places import Places
from .values import DescriptionError, Netdev

_KINDS = ("nic", "bond", "bridge", "ovs", "vlan", "macvlan", "ipoib", "netvsc")
_STATES = ("up", "no-carrier", "down")
_KEYS = set(
    "name network ipv4 ipv6 link_local mac_of driver pci vf_of is_vf kind state master base bond mtu speed "
    "elsewhere".split()
)


class NetdevBuilder:
    def __init__(self, places: Places, oui: str, index: int):
        self._places = places
        self._oui = oui
        self._index = index  # of the node

    def netdevs(self, entries: list[dict]) -> dict[str, Netdev]:
        macs = self._macs(entries)
        ports: dict[str, int] = {}  # netdevs of each PCI function
        netdevs: dict[str, Netdev] = {}
        for number, entry in enumerate(entries):
            if entry["name"] in netdevs:
                raise DescriptionError(f"two netdevs named {entry['name']}")
            pci = entry.get("pci", "")
            netdevs[entry["name"]] = self._netdev(number, entry, macs[entry["name"]], ports.get(pci, 0), netdevs)
            ports[pci] = ports.get(pci, 0) + 1 if pci else 0
        return netdevs

    def _macs(self, entries: list[dict]) -> dict[str, str]:
        macs = {entry["name"]: self._mac(number) for number, entry in enumerate(entries)}
        for entry in entries:  # a bond, a bridge or netvsc and its lowers share the first lower's MAC
            if "master" in entry and _kind_of(_named(entries, entry["master"])) not in ("bridge", "ovs"):
                first = next(other["name"] for other in entries if other.get("master") == entry["master"])
                macs[entry["name"]] = macs[entry["master"]] = macs[first]
        for entry in entries:  # a bridge has the MAC of its first member
            if _kind_of(entry) == "bridge":
                members = [other["name"] for other in entries if other.get("master") == entry["name"]]
                macs[entry["name"]] = macs[members[0]] if members else macs[entry["name"]]
        for entry in entries:  # a VLAN that of its base
            if "mac_of" in entry or _kind_of(entry) == "vlan":
                macs[entry["name"]] = macs[entry.get("mac_of", entry.get("base"))]
        return macs

    def _mac(self, number: int) -> str:
        return f"{self._oui}:{self._index >> 8:02x}:{self._index & 255:02x}:{number:02x}"

    def _netdev(self, number: int, entry: dict, mac: str, dev_port: int, known: dict[str, Netdev]) -> Netdev:
        kind, driver, state = _kind_of(entry), entry.get("driver"), entry.get("state", "up")
        unknown = set(entry) - _KEYS
        if unknown or kind not in _KINDS or state not in _STATES:
            raise DescriptionError(f"{entry['name']}: unknown {', '.join(sorted(unknown)) or f'{kind} or {state}'}")
        pci_class = INFINIBAND_CLASS if kind == "ipoib" else ETHERNET_CLASS
        function = self._places.nic(entry, driver, pci_class) if "pci" in entry else None
        parent = "sys/devices/" + self._places.vm_bus_child(entry["name"]) if kind == "netvsc" else None
        if function and driver == "virtio_net":
            parent = f"{function.directory}/virtio{number}"
        base = known[entry["base"]] if "base" in entry else None
        return Netdev(
            name=entry["name"],
            ifindex=number + 2,  # lo is 1
            mac=mac,
            mtu=entry.get("mtu", 1500),
            network=entry.get("network"),
            ipv4s=self._addresses(entry, "ipv4"),
            ipv6s=self._addresses(entry, "ipv6"),
            has_link_local=entry.get("link_local", True),
            function=function,
            parent=parent,
            driver=driver,
            kind=kind,
            state=state,
            master=entry.get("master"),
            base=base.name if base else None,
            bond_mode=entry.get("bond"),
            speed=entry.get("speed", base.speed if base else _default_speed(kind, driver)),
            dev_port=dev_port,
            elsewhere=entry.get("elsewhere", False),
        )

    def _addresses(self, entry: dict, family: str) -> tuple:
        texts = entry.get(family, [])
        return tuple(self._address(entry["name"], text) for text in ([texts] if isinstance(texts, str) else texts))

    def _address(self, name: str, text: str):
        first = ipaddress.ip_interface(text)
        if first.network.prefixlen == first.max_prefixlen:  # point to point: any address will do
            return ipaddress.ip_interface(first.ip + self._index)
        own = ipaddress.ip_interface((int(first.ip) + self._index, first.network.prefixlen))
        if own.network != first.network or own.ip == own.network.broadcast_address:
            raise DescriptionError(f"{name}: {first} has no room for node {self._index}")
        return own


def _kind_of(entry: dict) -> str:
    return "bond" if "bond" in entry else entry.get("kind", "nic")


def _named(entries: list[dict], name: str) -> dict:
    found = next((entry for entry in entries if entry["name"] == name), None)
    if found is None:
        raise KeyError(name)
    return found


def _default_speed(kind: str, driver: str | None) -> int | None:
    if driver:
        return DRIVERS[driver].speed
    return {"nic": 10000, "bridge": -1, "ovs": None}.get(kind, 200000)
