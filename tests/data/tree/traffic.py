# SPDX-License-Identifier: Apache-2.0
"""Bytes that ports and interfaces of a tree send and receive: which counters move, and by how much."""

from __future__ import annotations

import os

# Sent, received, bytes for each count; the first pair that a port has is its driver's. Where there are several pairs,
# drivers count other things in the rest.
_OF_PORTS = (
    ("counters_ext/port_xmit_data_64", "counters_ext/port_rcv_data_64", 4),
    ("counters/port_xmit_data", "counters/port_rcv_data", 4),
    ("hw_counters/ip4OutOctets", "hw_counters/ip4InOctets", 1),
    ("hw_counters/tx_rdma_ucast_bytes", "hw_counters/rx_rdma_ucast_bytes", 1),
    ("hw_counters/tx_bytes", "hw_counters/rx_bytes", 1),
)
_PACKETS = ("hw_counters/sent_pkts", "hw_counters/rcvd_pkts")
_OF_NETDEVS = ("statistics/tx_bytes", "statistics/rx_bytes")
_ROCE_HEADERS = 14 + 20 + 8 + 12 + 4  # Ethernet, IPv4, UDP, BTH, ICRC
_STOPS_AT = 2**32 - 1


class TrafficError(Exception):
    """A name that moves nothing."""


def move(root: str, name: str, sent: int, received: int) -> None:
    """`name`: a port, "mlx5_0:1", or an interface, "eth0"."""
    if ":" in name:
        _move_port(root, name, (sent, received))
    else:
        _move_netdev(root, name, (sent, received))


def _move_port(root: str, name: str, amounts: tuple[int, int]) -> None:
    hca, number = name.split(":", 1)
    device = os.path.join(root, "sys/class/infiniband", hca)
    directory = os.path.join(device, "ports", number)
    for sent, received, unit in _OF_PORTS:
        if _is_counter(os.path.join(directory, sent)):
            is_32_bit = sent.startswith("counters/") and not _is_counter(f"{directory}/counters/unicast_xmit_packets")
            for path, amount in zip((sent, received), amounts):
                _add(os.path.join(directory, path), amount // unit, _STOPS_AT if is_32_bit else None)
            return
    if not _is_counter(os.path.join(directory, _PACKETS[0])):
        raise TrafficError(f"{name} has no counter of bytes")
    _move_rxe(root, device, directory, amounts)


def _move_rxe(root: str, device: str, directory: str, amounts: tuple[int, int]) -> None:
    netdev = os.path.join(root, "sys/class/net", _read(os.path.join(device, "parent")))
    room = int(_read(os.path.join(netdev, "mtu"))) - 80
    mtu = max(size for size in (256, 512, 1024, 2048, 4096) if size <= max(room, 256))
    for path, statistic, amount in zip(_PACKETS, _OF_NETDEVS, amounts):
        packets = -(-amount // mtu)
        _add(os.path.join(directory, path), packets)
        _add(os.path.join(netdev, statistic), amount + packets * _ROCE_HEADERS)


def _move_netdev(root: str, name: str, amounts: tuple[int, int]) -> None:
    directory = os.path.join(root, "sys/class/net", name)
    for path, amount in zip(_OF_NETDEVS, amounts):
        _add(os.path.join(directory, path), amount)
    if _read(os.path.join(directory, "type")) == "32":  # IP over InfiniBand
        _move_carrier(directory, amounts)


def _move_carrier(directory: str, amounts: tuple[int, int]) -> None:
    """Full packets, with the headers of InfiniBand (LRH, BTH, DETH, CRCs) and, where the HCA cuts them, of TCP/IP."""
    mtu = int(_read(os.path.join(directory, "mtu")))
    devices = os.path.join(directory, "device/infiniband")
    port = int(_read(os.path.join(directory, "dev_port"))) + 1
    for hca in os.listdir(devices):
        counters = os.path.join(devices, hca, "ports", str(port), "counters")
        for name, amount in zip(("port_xmit_data", "port_rcv_data"), amounts):
            _add(os.path.join(counters, name), (amount + amount // mtu * (34 + 52)) // 4)


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


def _is_counter(path: str) -> bool:
    return os.path.isfile(path) and _read(path).isdigit()


def _add(path: str, counts: int, stops_at: int | None = None) -> None:
    """In one rename: a reader sees the old number or the new one."""
    value = (int(_read(path)) + counts) % 2**64
    real = os.path.realpath(path)
    temporary = f"{real}.new"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(f"{min(value, stops_at) if stops_at is not None else value}\n")
    os.rename(temporary, real)
