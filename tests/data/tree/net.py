# SPDX-License-Identifier: Apache-2.0
"""/sys/class/net."""

from __future__ import annotations

from .files import Tree
from .machine import Machine, Netdev

_UP, _BROADCAST, _MASTER, _SLAVE, _MULTICAST = 0x1, 0x2, 0x400, 0x800, 0x1000  # linux/if.h
_ETHERNET, _LOOPBACK = 1, 772  # linux/if_arp.h


def directory_of(netdev: Netdev) -> str:
    parent = netdev.function.directory if netdev.function else "sys/devices/virtual"
    return f"{parent}/net/{netdev.name}"


def write_net(tree: Tree, machine: Machine) -> None:
    _write_loopback(tree)
    for netdev in machine.netdevs:
        _write_netdev(tree, machine, netdev)
    bonds = [netdev for netdev in machine.netdevs if netdev.bond_mode]
    for bond in bonds:
        _write_bond(tree, bond, machine.lowers(bond))
    if bonds:
        tree.write("sys/class/net/bonding_masters", " ".join(bond.name for bond in bonds))


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
    flags = _UP | _BROADCAST | _MULTICAST | (_SLAVE if netdev.master else 0) | (_MASTER if netdev.bond_mode else 0)
    tree.attributes(
        directory,
        {
            "address": netdev.mac,
            "broadcast": "ff:ff:ff:ff:ff:ff",
            "addr_len": 6,
            "addr_assign_type": 0,
            "flags": f"0x{flags:x}",
            "ifindex": netdev.ifindex,
            "iflink": netdev.ifindex,
            "mtu": netdev.mtu,
            "operstate": "up",
            "speed": netdev.speed * max(1, len(machine.lowers(netdev))),
            "duplex": "full",
            "type": _ETHERNET,
            "carrier": 1,
            "carrier_changes": 2,
            "dev_id": "0x0",
            "dev_port": 0,
            "tx_queue_len": 1000,
        },
    )
    tree.attributes(f"{directory}/statistics", {"rx_bytes": 0, "tx_bytes": 0, "rx_packets": 0, "tx_packets": 0})
    if netdev.function:
        tree.link(f"{directory}/device", netdev.function.directory)
    tree.link(f"sys/class/net/{netdev.name}", directory)


def _write_bond(tree: Tree, bond: Netdev, lowers: list[Netdev]) -> None:
    directory = directory_of(bond)
    tree.attributes(
        f"{directory}/bonding",
        {
            "slaves": " ".join(lower.name for lower in lowers),
            "mode": f"{bond.bond_mode} {_BOND_MODES[bond.bond_mode]}",
            "mii_status": "up",
        },
    )
    for lower in lowers:
        lower_directory = directory_of(lower)
        tree.link(f"{directory}/lower_{lower.name}", lower_directory)
        tree.link(f"{lower_directory}/upper_{bond.name}", directory)
        tree.link(f"{lower_directory}/master", directory)
        tree.attributes(f"{lower_directory}/bonding_slave", {"state": "active", "mii_status": "up"})


_BOND_MODES = {"balance-rr": 0, "active-backup": 1, "balance-xor": 2, "802.3ad": 4}
