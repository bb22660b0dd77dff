# SPDX-License-Identifier: Apache-2.0
"""The HCAs of a description as values: ports, GID tables and GUIDs."""

from __future__ import annotations

import ipaddress

from .drivers import DRIVERS, GID_TYPES, INFINIBAND_CLASS, RATES, RdmaDriver
from .places import Places
from .values import DescriptionError, Function, Gid, Hca, Netdev, Port, eui64, port_guid

_STATES = {"NOP": 0, "DOWN": 1, "INIT": 2, "ARMED": 3, "ACTIVE": 4, "ACTIVE_DEFER": 5}
_PHYSICAL_STATES = {"Sleep": 1, "Polling": 2, "Disabled": 3, "LinkUp": 5, "LinkErrorRecovery": 6}
_PORT_KEYS = set(
    "netdev link_layer state phys_state rate lid sm_lid subnet_prefix gids gid_versions table_length".split()
)
_KEYS = _PORT_KEYS | set(
    "name driver pci vf_of is_vf function_of ports node_type guid firmware hca_type board_id counters uverbs".split()
)


class RdmaBuilder:
    def __init__(self, description: dict, places: Places, netdevs: dict[str, Netdev], oui: str, index: int):
        self._places = places
        self._netdevs = netdevs
        self._oui = oui
        self._index = index  # of the node
        self._gids = description.get("gids")  # of all tables that have none of their own
        self._table_length = description.get("table_length")
        self._cards: dict[str, int] = {}  # system image GUID by PCI device

    def hcas(self, entries: list[dict]) -> tuple[Hca, ...]:
        return tuple(self._hca(number, entry) for number, entry in enumerate(entries))

    def _hca(self, number: int, entry: dict) -> Hca:
        unknown = set(entry) - _KEYS
        if unknown:
            raise DescriptionError(f"{entry['name']}: unknown {', '.join(sorted(unknown))}")
        ports = [{**entry, **port} for port in entry.get("ports", [{}])]
        netdev = self._netdevs[ports[0]["netdev"]] if "netdev" in ports[0] else None
        function = self._function(entry, netdev)
        name = entry.get("driver") or (function.driver if function else "")
        driver = DRIVERS.get(name)
        if not isinstance(driver, RdmaDriver) or (driver.ids[0] and function is None):
            raise DescriptionError(f"{entry['name']}: give it a netdev with a PCI function, function_of, pci or driver")
        texts = {key: entry.get(key, value) for key, value in driver.texts}
        guid = int(entry["guid"], 16) if "guid" in entry else self._guid(number, ports[0], netdev, driver)
        return Hca(
            name=entry["name"],
            number=number,
            driver=name,
            function=function,
            netdev=netdev,
            node_type=entry.get("node_type", driver.node_type),
            guid=guid,
            system_guid=self._system_guid(guid, function),
            firmware=entry.get("firmware", driver.firmware),
            texts=tuple((key, text) for key, text in texts.items() if text is not None),
            ports=tuple(self._port(i, port, number, guid, driver) for i, port in enumerate(ports)),
            counters=entry.get("counters", True),
            uverbs=entry.get("uverbs", True),
        )

    def _function(self, entry: dict, netdev: Netdev | None) -> Function | None:
        if "pci" in entry:
            layer = INFINIBAND_CLASS if entry.get("link_layer") == "InfiniBand" else "0x020000"
            return self._places.nic(entry, entry["driver"], layer)
        if entry.get("driver") in ("rxe", "siw"):  # software, on whatever netdev
            return None
        owner = self._netdevs[entry["function_of"]] if "function_of" in entry else netdev
        return owner.function if owner else None

    def _guid(self, number: int, port: dict, netdev: Netdev | None, driver: RdmaDriver) -> int:
        if netdev is None:
            mac = f"{self._oui}:{self._index >> 8:02x}:{self._index & 255:02x}:{0x80 + number:02x}"
            return port_guid(mac)
        if driver.is_iwarp:  # the MAC and zeros
            return int(netdev.mac.replace(":", ""), 16) << 16
        return port_guid(netdev.mac) if _layer_of(port, netdev, driver) == "InfiniBand" else eui64(netdev.mac)

    def _system_guid(self, guid: int, function: Function | None) -> int:
        """That of the first function of the same card, or of the physical function."""
        if function is None:
            return guid
        card = (function.physical or function.address).rsplit(".", 1)[0]
        return self._cards.setdefault(card, guid)

    def _port(self, index: int, entry: dict, hca_number: int, guid: int, driver: RdmaDriver) -> Port:
        netdev = self._netdevs[entry["netdev"]] if "netdev" in entry else None
        layer = _layer_of(entry, netdev, driver)
        has_link = netdev is None or netdev.state == "up" or netdev.kind == "ipoib"
        state = entry.get("state", "ACTIVE" if has_link else "DOWN")
        default = "Disabled" if layer == "Ethernet" else "Polling"
        physical = entry.get("phys_state", default if state == "DOWN" else "LinkUp")
        known = layer == "InfiniBand" and state == "ACTIVE"  # to a subnet manager
        lids = (0x10 + 0x40 * self._index + 2 * hca_number + index, 1) if known else (0, 0)
        if layer == "InfiniBand" and not known:
            lids = (0xFFFF, 0)
        return Port(
            number=index + 1,
            link_layer=layer,
            state=f"{_STATES[state]}: {state}",
            physical_state=f"{_PHYSICAL_STATES[physical]}: {physical}",
            rate=entry.get("rate") or _rate(state, netdev, driver),
            lid=entry.get("lid", lids[0]),
            sm_lid=entry.get("sm_lid", lids[1]),
            gids=self._table(entry, netdev, layer, guid + index, driver),
            table_length=self._length(entry, layer, driver),
        )

    def _length(self, entry: dict, layer: str, driver: RdmaDriver) -> int:
        if "table_length" in entry:
            return entry["table_length"]
        if layer == "InfiniBand":
            return 8
        return self._table_length or driver.table_length if driver.is_roce else driver.table_length

    def _table(self, entry: dict, netdev: Netdev | None, layer: str, guid: int, driver: RdmaDriver) -> tuple[Gid, ...]:
        rows = entry.get("gids", self._gids)
        if "gids" not in entry and (layer == "InfiniBand" or not driver.is_roce):
            return (Gid(0, _own_gid(entry, guid, driver), GID_TYPES[1], None),)
        versions = entry.get("gid_versions", driver.gid_versions)
        if rows is None:
            rows = _usual_rows(netdev, len(versions))
        return tuple(gid for row in rows for gid in self._gids_of(row, netdev, versions))

    def _gids_of(self, row: list, netdev: Netdev | None, versions) -> list[Gid]:
        """[index, what] takes a slot for each version; [index, what, version, netdev] one."""
        index, what, *more = row
        version = more[0] if more and more[0] else None
        owner = self._netdevs[more[1]] if len(more) > 1 else netdev
        value = _value(what, owner)
        name = owner.name if owner else None
        return [Gid(index + i, value, GID_TYPES[v], name) for i, v in enumerate([version] if version else versions)]


def _layer_of(entry: dict, netdev: Netdev | None, driver: RdmaDriver) -> str:
    return entry.get("link_layer", "InfiniBand" if netdev and netdev.kind == "ipoib" else driver.link_layer)


def _own_gid(entry: dict, guid: int, driver: RdmaDriver) -> ipaddress.IPv6Address:
    """The one entry of a port that is not RoCE: subnet prefix and GUID; the MAC and zeros of iWARP."""
    prefix = int(ipaddress.IPv6Address(entry.get("subnet_prefix", "fe80::")))
    return ipaddress.IPv6Address(guid << 64 if driver.is_iwarp else prefix | guid)


def _rate(state: str, netdev: Netdev | None, driver: RdmaDriver) -> str:
    if state == "DOWN":
        return driver.down_rate
    speed = netdev.speed if netdev and netdev.speed and netdev.speed > 0 else driver.speed
    return RATES[speed]


def _usual_rows(netdev: Netdev | None, step: int) -> list[list]:
    """The default GID, then the addresses in their order: IPv4, IPv6."""
    if netdev is None:
        return []
    names = ["link-local"]
    names += [f"ipv4#{i}" for i in range(1, len(netdev.ipv4s) + 1)]
    names += [f"ipv6#{i}" for i in range(1, len(netdev.ipv6s) + 1)]
    return [[i * step, name] for i, name in enumerate(names)]


def _value(what: str, netdev: Netdev | None) -> ipaddress.IPv6Address:
    """"link-local", "ipv4", "ipv4#2" (the second), "ipv6", or an address that is the same on all nodes."""
    if what == "link-local" and netdev:
        return netdev.own_link_local
    kind, _, ordinal = what.partition("#")
    if kind not in ("ipv4", "ipv6"):
        address = ipaddress.ip_address(what)
    else:
        addresses = (netdev.ipv4s if kind == "ipv4" else netdev.ipv6s) if netdev else ()
        if len(addresses) < int(ordinal or 1):
            raise DescriptionError(f"a GID wants {what} of {netdev.name if netdev else 'no netdev'}")
        address = addresses[int(ordinal or 1) - 1].ip
    return ipaddress.IPv6Address(0xFFFF << 32 | int(address)) if address.version == 4 else address
