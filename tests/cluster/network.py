# SPDX-License-Identifier: Apache-2.0
"""The cluster's networks: a bridge each, in the namespace of the cluster's process 1; veth pairs to the machines."""

from __future__ import annotations

import subprocess

from layout import LOGIN, Cluster, Member


def _ip(commands: list[str]) -> None:
    subprocess.run(["ip", "-batch", "-"], input="\n".join(commands) + "\n", text=True, check=True)


def _disable_ipv6(name: str) -> None:
    with open(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6", "w", encoding="ascii") as file:
        file.write("1")


def create_networks(cluster: Cluster, pids: dict[str, int]) -> None:
    """In the namespace that holds the bridges; the machines' namespaces are those of `pids`, by name."""
    bridges = {network: f"br{number}" for number, network in enumerate(cluster.networks)}
    commands = ["link set lo up"]
    for bridge in bridges.values():
        commands += [f"link add {bridge} type bridge mcast_snooping 0", f"link set {bridge} addrgenmode none up"]
    number = 0
    for member in cluster.members:
        for netdev in member.machine.netdevs:
            number += 1
            commands.append(
                f"link add v{number} mtu {netdev.mtu} type veth peer name {netdev.name} index {netdev.ifindex} "
                f"address {netdev.mac} mtu {netdev.mtu} netns {pids[member.name]}"
            )
            master = f"master {bridges[netdev.network]}" if netdev.network else ""
            commands.append(f"link set v{number} addrgenmode none {master} up")
    _ip(commands)


def configure_member(member: Member) -> None:
    """In the machine's namespace, once its netdevs are there."""
    machine = member.machine
    for netdev in machine.netdevs:
        if netdev.master:  # a bond's lowers have no addresses
            _disable_ipv6(netdev.name)
    commands = ["link set lo up"]
    for netdev in machine.netdevs:
        commands.append(f"link set {netdev.name} addrgenmode none up")
        for address in netdev.ipv4s:
            commands.append(f"addr add {address} brd + dev {netdev.name}")
        for address in (netdev.ipv6, netdev.link_local):
            if address and netdev.network:
                commands.append(f"addr add {address} dev {netdev.name} nodad")
    if machine.gateway:
        commands.append(f"route add default via {machine.gateway} dev {machine.default_netdev} onlink")
    _ip(commands)
    if member.name == LOGIN and len(member.management.ipv4s) > 1:  # nodes reach those of other networks through it
        with open("/proc/sys/net/ipv4/ip_forward", "w", encoding="ascii") as file:
            file.write("1")
