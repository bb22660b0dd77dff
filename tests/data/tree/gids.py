# SPDX-License-Identifier: Apache-2.0
"""The GID tables of a description as values. Linux fills them in drivers/infiniband/core/roce_gid_mgmt.c."""

from __future__ import annotations

import ipaddress

from .drivers import GID_TYPES, RdmaDriver
from .values import DescriptionError, Gid, Netdev

_INFINIBAND_LENGTH = 8


class GidTables:
    def __init__(self, description: dict, netdevs: dict[str, Netdev]):
        self._netdevs = netdevs
        self._rows = description.get("gids")  # of all tables that have none of their own
        self._length = description.get("table_length")  # the same for lengths; of RoCE

    def length(self, port: dict, layer: str, driver: RdmaDriver) -> int:
        if "table_length" in port:
            return port["table_length"]
        if layer == "InfiniBand":
            return _INFINIBAND_LENGTH
        return self._length if self._length and driver.is_roce else driver.table_length

    def gids(
        self, port: dict, netdev: Netdev | None, layer: str, guid: int, driver: RdmaDriver, length: int
    ) -> tuple[Gid, ...]:
        if "gids" not in port and (layer == "InfiniBand" or not driver.is_roce):
            return (Gid(0, _own_value(port, guid, driver), GID_TYPES[1], None),)
        versions = port.get("gid_versions", driver.gid_versions)
        rows = port.get("gids", self._rows)
        if rows is None:
            rows = _usual_rows(netdev, len(versions))
        gids = [gid for row in rows for gid in self._slots(row, netdev, versions)]
        if len({gid.index for gid in gids}) < len(gids) or any(gid.index >= length for gid in gids):
            raise DescriptionError(f"{port['name']}: GIDs at one index, or beyond the {length} slots of the table")
        return tuple(gids)

    def _slots(self, row: list, netdev: Netdev | None, versions: tuple[int, ...]) -> list[Gid]:
        """[index, what] takes a slot for each version; [index, what, version, netdev] one."""
        index, what, *more = row
        if more and more[0]:
            versions = (more[0],)
        owner = self._netdevs[more[1]] if len(more) > 1 else netdev
        value = _value(what, owner)
        name = owner.name if owner else None
        return [Gid(index + i, value, GID_TYPES[version], name) for i, version in enumerate(versions)]


def _own_value(port: dict, guid: int, driver: RdmaDriver) -> ipaddress.IPv6Address:
    """The one entry of a port that is not RoCE: subnet prefix and GUID; the MAC and zeros of iWARP."""
    prefix = int(ipaddress.IPv6Address(port.get("subnet_prefix", "fe80::")))
    return ipaddress.IPv6Address(guid << 64 if driver.is_iwarp else prefix | guid)


def _usual_rows(netdev: Netdev | None, step: int) -> list[list]:
    """The default GID, then the addresses in their order: IPv4, IPv6."""
    if netdev is None:
        return []
    names = ["link-local"]
    names += [f"ipv4#{i}" for i in range(1, len(netdev.ipv4s) + 1)]
    names += [f"ipv6#{i}" for i in range(1, len(netdev.ipv6s) + 1)]
    return [[i * step, name] for i, name in enumerate(names)]


def _value(what: str, netdev: Netdev | None) -> ipaddress.IPv6Address:
    """Of "link-local", "ipv4", "ipv4#2" (the second), "ipv6", or an address that is the same on all nodes."""
    kind, _, ordinal = what.partition("#")
    if kind == "link-local" and netdev:
        return netdev.own_link_local
    if kind not in ("ipv4", "ipv6"):
        address = ipaddress.ip_address(what)
    else:
        addresses = (netdev.ipv4s if kind == "ipv4" else netdev.ipv6s) if netdev else ()
        if len(addresses) < int(ordinal or 1):
            raise DescriptionError(f"a GID wants {what} of {netdev.name if netdev else 'no netdev'}")
        address = addresses[int(ordinal or 1) - 1].ip
    return ipaddress.IPv6Address(0xFFFF << 32 | int(address)) if address.version == 4 else address
