# SPDX-License-Identifier: Apache-2.0
"""/sys/class/net."""

from __future__ import annotations

from .files import Tree
from .values import Machine, Netdev, port_guid

_UP, _BROADCAST, _PROMISC, _MASTER, _SLAVE, _MULTICAST = 0x1, 0x2, 0x100, 0x400, 0x800, 0x1000  # linux/if.h
_ETHERNET, _INFINIBAND, _LOOPBACK = 1, 32, 772  # linux/if_arp.h
_BOND_MODES = {"balance-rr": 0, "active-backup": 1, "balance-xor": 2, "802.3ad": 4}


def directory_of(netdev: Netdev) -> str:
    return f"{_parent_of(netdev) or 'sys/devices/virtual'}/net/{netdev.name}"


def _parent_of(netdev: Netdev) -> str | None:
    return netdev.parent or (netdev.function.directory if netdev.function else None)


def write_net(tree: Tree, machine: Machine) -> None:
    _write_loopback(tree)
    by_name = {netdev.name: netdev for netdev in machine.netdevs}
    for netdev in machine.netdevs:
        _write_netdev(tree, machine, netdev)
        master = by_name.get(netdev.master) if netdev.master else None
        base = by_name.get(netdev.base) if netdev.base else None
        if master:
            _link(tree, master, netdev)
            tree.link(f"{directory_of(netdev)}/master", directory_of(master))
        if base:
            _link(tree, netdev, base)
    bonds = [netdev for netdev in machine.netdevs if netdev.kind == "bond"]
    for bond in bonds:
        _write_bond(tree, bond, machine.lowers(bond))
    for bridge in (netdev for netdev in machine.netdevs if netdev.kind == "bridge"):
        _write_bridge(tree, bridge, machine.lowers(bridge))
    if bonds:
        tree.write("sys/class/net/bonding_masters", " ".join(bond.name for bond in bonds))


def _link(tree: Tree, upper: Netdev, lower: Netdev) -> None:
    tree.link(f"{directory_of(upper)}/lower_{lower.name}", directory_of(lower))
    tree.link(f"{directory_of(lower)}/upper_{upper.name}", directory_of(upper))


def _write_loopback(tree: Tree) -> None:
    directory = "sys/devices/virtual/net/lo"
    tree.attributes(
        directory,
        {
            "address": "00:00:00:00:00:00",
            "flags": "0x9",
            "ifindex": 1,
            "iflink": 1,
            "mtu": 65536,
            "operstate": "unknown",
            "type": _LOOPBACK,
            "carrier": 1,
        },
    )
    tree.link("sys/class/net/lo", directory)


def _write_netdev(tree: Tree, machine: Machine, netdev: Netdev) -> None:
    directory = directory_of(netdev)
    is_up = netdev.state == "up"
    tree.attributes(
        directory,
        {
            **_hardware_address(netdev),
            "addr_assign_type": 0,
            "flags": f"0x{_flags(machine, netdev):x}",
            "ifindex": netdev.ifindex,
            "iflink": _base_index(machine, netdev),
            "mtu": netdev.mtu,
            "operstate": "up" if is_up else "down",
            "speed": _speed(machine, netdev),
            "duplex": {"up": "full", "no-carrier": "unknown", "down": None}[netdev.state],
            "carrier": {"up": 1, "no-carrier": 0, "down": None}[netdev.state],
            "carrier_changes": 2,
            "dev_id": f"0x{netdev.dev_port if netdev.kind == 'ipoib' else 0:x}",
            "dev_port": netdev.dev_port,
            "tx_queue_len": 1000,
        },
    )
    if netdev.kind == "ipoib":
        mode = "datagram" if netdev.mtu <= 4092 else "connected"
        tree.attributes(directory, {"mode": mode, "pkey": "0xffff", "umcast": 0})
    tree.attributes(f"{directory}/statistics", {"rx_bytes": 0, "tx_bytes": 0, "rx_packets": 0, "tx_packets": 0})
    parent = _parent_of(netdev)
    if parent:
        tree.link(f"{directory}/device", parent)
    if netdev.parent:
        drivers = f"sys/bus/{'virtio' if netdev.function else 'vmbus'}/drivers/{netdev.driver}"
        tree.directory(drivers)
        tree.link(f"{netdev.parent}/driver", drivers)
    tree.link(f"sys/class/net/{netdev.name}", directory)


def _hardware_address(netdev: Netdev) -> dict[str, str | int]:
    if netdev.kind != "ipoib":
        return {"address": netdev.mac, "broadcast": "ff:ff:ff:ff:ff:ff", "addr_len": 6, "type": _ETHERNET}
    port = (0x00001047 << 128 | 0xFE80 << 112 | port_guid(netdev.mac)).to_bytes(20, "big")  # queue pair and GID
    broadcast = "00:ff:ff:ff:ff:12:40:1b:ff:ff:00:00:00:00:00:00:ff:ff:ff:ff"
    return {"address": port.hex(":"), "broadcast": broadcast, "addr_len": 20, "type": _INFINIBAND}


def _flags(machine: Machine, netdev: Netdev) -> int:
    flags = _BROADCAST | _MULTICAST | (0 if netdev.state == "down" else _UP) | (_MASTER if netdev.bond_mode else 0)
    master = next((other for other in machine.netdevs if other.name == netdev.master), None)
    if master:
        flags |= _PROMISC if master.kind in ("bridge", "ovs") else _SLAVE
    return flags


def _base_index(machine: Machine, netdev: Netdev) -> int:
    return next((other.ifindex for other in machine.netdevs if other.name == netdev.base), netdev.ifindex)


def _speed(machine: Machine, netdev: Netdev) -> int | None:
    if netdev.state != "up":
        return -1 if netdev.state == "no-carrier" else None
    if netdev.speed is None or netdev.speed < 0 or netdev.kind != "bond":
        return netdev.speed
    members = [lower for lower in machine.lowers(netdev) if lower.state == "up"]
    return netdev.speed * (1 if netdev.bond_mode == "active-backup" else max(1, len(members)))


def _write_bond(tree: Tree, bond: Netdev, lowers: list[Netdev]) -> None:
    assert bond.bond_mode
    directory = directory_of(bond)
    tree.attributes(
        f"{directory}/bonding",
        {
            "slaves": " ".join(lower.name for lower in lowers),
            "mode": f"{bond.bond_mode} {_BOND_MODES[bond.bond_mode]}",
            "mii_status": "up" if bond.state == "up" else "down",
        },
    )
    active = next((lower.name for lower in lowers if lower.state == "up"), "")
    is_backup = bond.bond_mode == "active-backup"
    if is_backup:
        tree.attributes(f"{directory}/bonding", {"active_slave": active})
    for lower in lowers:
        state = "backup" if is_backup and lower.name != active else "active"
        status = "up" if lower.state == "up" else "down"
        tree.attributes(f"{directory_of(lower)}/bonding_slave", {"state": state, "mii_status": status})


def _write_bridge(tree: Tree, bridge: Netdev, lowers: list[Netdev]) -> None:
    directory = directory_of(bridge)
    tree.attributes(f"{directory}/bridge", {"bridge_id": f"8000.{bridge.mac.replace(':', '')}", "stp_state": 0})
    for number, lower in enumerate(lowers, 1):
        tree.attributes(f"{directory_of(lower)}/brport", {"port_no": f"0x{number:x}", "state": 3})
        tree.link(f"{directory_of(lower)}/brport/bridge", directory)
        tree.link(f"{directory}/brif/{lower.name}", f"{directory_of(lower)}/brport")
