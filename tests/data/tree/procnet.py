# SPDX-License-Identifier: Apache-2.0
"""/proc/net and /proc/sys/net as a kernel prints them (net/ipv4/fib_trie.c, net/ipv6/addrconf.c, net/ipv6/route.c)."""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass

from .files import Tree
from .values import DefaultRoute, Machine, Netdev

_RTF_UP, _RTF_GATEWAY, _RTF_HOST = 0x1, 0x2, 0x4
_SCOPE_HOST, _SCOPE_LINK, _SCOPE_GLOBAL = 0x10, 0x20, 0x00
_IFA_F_PERMANENT = 0x80


def write_procnet(tree: Tree, machine: Machine) -> None:
    tree.write("proc/net/route", _route(machine))
    tree.write("proc/net/fib_trie", _fib_trie(machine))
    tree.write("proc/net/if_inet6", _if_inet6(machine))
    tree.write("proc/net/ipv6_route", _ipv6_route(machine))
    tree.write("proc/net/dev", _dev(machine))
    tree.write("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999")
    tree.write("ip-addresses", _ip_addresses(machine))


def _ip_addresses(machine: Machine) -> str:
    """Of no kernel: what `rdma-nccl explain --save` adds, as getifaddrs(3) lists it, and no file of /proc/net does."""
    ipv6 = [(netdev, interface) for netdev in machine.netdevs for interface in _ipv6_of(netdev)]
    lines = [f"{netdev.name} {interface}" for netdev, interface in _ipv4_interfaces(machine) + ipv6]
    return "\n".join(["lo 127.0.0.1/8", *lines, "lo ::1/128"])


def _route(machine: Machine) -> str:
    lines = ["Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT"]
    for route in _ipv4_defaults(machine):
        lines.append(_route_line(route.netdev, ipaddress.IPv4Network("0.0.0.0/0"), route.gateway))
    lines += [_route_line(route.netdev, ipaddress.IPv4Network(route.gateway)) for route in _host_routes(machine)]
    for netdev, interface in _ipv4_interfaces(machine):
        if interface.network.prefixlen < 32:
            lines.append(_route_line(netdev.name, interface.network))
    return "\n".join(line.ljust(127) for line in lines)


def _ipv4_defaults(machine: Machine) -> list[DefaultRoute]:
    return [route for route in machine.default_routes if isinstance(route.gateway, ipaddress.IPv4Address)]


def _host_routes(machine: Machine) -> list[DefaultRoute]:
    """Default routes whose gateway is in no network of the netdev: they need a route to the gateway itself."""
    networks = {(netdev.name, interface.network) for netdev, interface in _ipv4_interfaces(machine)}
    return [
        route
        for route in _ipv4_defaults(machine)
        if not any(name == route.netdev and route.gateway in network for name, network in networks)
    ]


def _ipv4_interfaces(machine: Machine) -> list[tuple[Netdev, ipaddress.IPv4Interface]]:
    """Taking a netdev down takes its routes, local ones too."""
    return [(netdev, interface) for netdev in machine.netdevs if netdev.state != "down" for interface in netdev.ipv4s]


def _route_line(name: str, network: ipaddress.IPv4Network, gateway: ipaddress.IPv4Address | None = None) -> str:
    flags = _RTF_UP | (_RTF_GATEWAY if gateway else 0) | (_RTF_HOST if network.prefixlen == 32 else 0)
    words = [_memory_order(address) for address in (network.network_address, gateway or 0, network.netmask)]
    return f"{name}\t{words[0]}\t{words[1]}\t{flags:04X}\t0\t0\t0\t{words[2]}\t0\t0\t0"


def _memory_order(address: ipaddress.IPv4Address | int) -> str:
    """An address in network order, printed as an integer of a little-endian machine."""
    return f"{struct.unpack('<I', struct.pack('>I', int(address)))[0]:08X}"


def _if_inet6(machine: Machine) -> str:
    lines = [_if_inet6_line(ipaddress.IPv6Interface("::1/128"), 1, _SCOPE_HOST, "lo")]
    for netdev in machine.netdevs:
        for interface in _ipv6_of(netdev):
            scope = _SCOPE_LINK if interface.is_link_local else _SCOPE_GLOBAL
            lines.append(_if_inet6_line(interface, netdev.ifindex, scope, netdev.name))
    return "\n".join(lines)


def _if_inet6_line(interface: ipaddress.IPv6Interface, ifindex: int, scope: int, name: str) -> str:
    length = interface.network.prefixlen
    return f"{int(interface.ip):032x} {ifindex:02x} {length:02x} {scope:02x} {_IFA_F_PERMANENT:02x} {name:>8}"


def _ipv6_route(machine: Machine) -> str:
    lines = [_ipv6_route_line(ipaddress.IPv6Network("::1/128"), 256, 0x1, "lo")]
    for netdev in machine.netdevs:
        lines += [_ipv6_route_line(interface.network, 256, 0x1, netdev.name) for interface in _ipv6_of(netdev)]
    for netdev in machine.netdevs:
        for interface in _ipv6_of(netdev):
            lines.append(_ipv6_route_line(ipaddress.IPv6Network(interface.ip), 0, 0x80200001, netdev.name))
        if _ipv6_of(netdev):
            lines.append(_ipv6_route_line(ipaddress.IPv6Network("ff00::/8"), 256, 0x1, netdev.name))
    for route in machine.default_routes:
        if isinstance(route.gateway, ipaddress.IPv6Address):
            target = ipaddress.IPv6Network("::/0")
            lines.append(_ipv6_route_line(target, 1024, 0x3, route.netdev, int(route.gateway)))
    lines.append(_ipv6_route_line(ipaddress.IPv6Network("::/0"), 0xFFFFFFFF, 0x00200200, "lo"))
    return "\n".join(lines)


def _ipv6_of(netdev: Netdev) -> list[ipaddress.IPv6Interface]:
    """Taking a netdev down takes its IPv6 addresses."""
    return [interface for interface in (*netdev.ipv6s, netdev.link_local) if interface and netdev.state != "down"]


def _ipv6_route_line(network: ipaddress.IPv6Network, metric: int, flags: int, name: str, gateway: int = 0) -> str:
    zeros = "0" * 32
    target = f"{int(network.network_address):032x} {network.prefixlen:02x}"
    return f"{target} {zeros} 00 {gateway:032x} {metric:08x} 00000001 00000000 {flags:08x} {name:>8}"


def _dev(machine: Machine) -> str:
    widths = (8, 8, 5, 5, 5, 6, 11, 10, 9, 8, 5, 5, 5, 6, 8, 11)
    zeros = "".join("0".rjust(width) for width in widths)
    return "\n".join(
        [
            "Inter-|   Receive                                                |  Transmit",
            " face |bytes    packets errs drop fifo frame compressed multicast|"
            "bytes    packets errs drop fifo colls carrier compressed",
        ]
        + [f"{name:>6}:{zeros}" for name in ["lo"] + [netdev.name for netdev in machine.netdevs]]
    )


@dataclass(frozen=True)
class _Route:
    key: int
    length: int
    scope: str
    type: str


def _fib_trie(machine: Machine) -> str:
    """Main and Local are one trie while no policy rule exists. The kernel may draw it flatter: with wider branches."""
    routes = _interface_routes(ipaddress.IPv4Interface("127.0.0.1/8"), "host", "LOCAL")
    if machine.gateway:
        routes.append(_Route(0, 0, "universe", "UNICAST"))
    routes += [_Route(int(route.gateway), 32, "link", "UNICAST") for route in _host_routes(machine)]
    for _, interface in _ipv4_interfaces(machine):
        routes += _interface_routes(interface, "link", "UNICAST")
    leaves: dict[int, list[_Route]] = {}
    for route in sorted(routes, key=lambda route: -route.length):
        leaves.setdefault(route.key, []).append(route)
    lines = _trie_lines(sorted(leaves), leaves, 0)
    return "\n".join(["Main:"] + lines + ["Local:"] + lines)


def _interface_routes(interface: ipaddress.IPv4Interface, scope: str, kind: str) -> list[_Route]:
    network = interface.network
    own = _Route(int(interface.ip), 32, "host", "LOCAL")
    if network.prefixlen == 32:
        return [own]
    return [
        _Route(int(network.network_address), network.prefixlen, scope, kind),
        own,
        _Route(int(network.broadcast_address), 32, "link", "BROADCAST"),
    ]


def _trie_lines(keys: list[int], leaves: dict[int, list[_Route]], depth: int) -> list[str]:
    indent = "  " + "   " * depth
    if len(keys) == 1:
        routes = [f"{indent}   /{route.length} {route.scope} {route.type}" for route in leaves[keys[0]]]
        return [f"{indent}|-- {ipaddress.IPv4Address(keys[0])}"] + routes
    bit = (keys[0] ^ keys[-1]).bit_length() - 1  # the first bit in which the keys differ
    prefix = ipaddress.IPv4Address(keys[0] >> (bit + 1) << (bit + 1))
    halves = [[key for key in keys if key >> bit & 1 == half] for half in (0, 1)]
    full = sum(len(half) > 1 and (half[0] ^ half[-1]).bit_length() == bit for half in halves)
    lines = [f"{indent}+-- {prefix}/{31 - bit} 1 {full} 0"]
    return lines + [line for half in halves for line in _trie_lines(half, leaves, depth + 1)]
