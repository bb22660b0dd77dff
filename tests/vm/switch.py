# SPDX-License-Identifier: Apache-2.0
"""A learning Ethernet switch between guests: one unix datagram socket for each network.

QEMU sends a frame as a datagram (-netdev dgram). A guest that is slow is waited for, a little, so that load alone drops
nothing; one that takes nothing at all, because its link is down, has its frames dropped until it takes one again.
Joined back to back instead, such a guest would stall the other one's transmit ring.
"""

from __future__ import annotations

import os
import socket
import struct

_PATIENCE_US = 20_000  # for a guest that is slow
_BURST = 64  # frames of one network before the next one's turn
_BUFFER = 4 << 20  # or what net.core.wmem_max allows
_LONGEST_FRAME = 65600  # with segmentation offload
_BROADCAST = 1  # the first byte's lowest bit: to a group of stations


class Switch:
    """One network; `ports` are the guests' socket paths, `path` is our own."""

    def __init__(self, path: str, ports: list[str]):
        self._ports = ports
        self._stations: dict[bytes, str] = {}  # address to port
        self._deaf: set[str] = set()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(path)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, _PATIENCE_US))

    def fileno(self) -> int:
        return self._socket.fileno()

    def forward(self) -> None:
        for _ in range(_BURST):
            try:
                frame, source = self._socket.recvfrom(_LONGEST_FRAME, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            self._stations[frame[6:12]] = source
            known = None if frame[0] & _BROADCAST else self._stations.get(frame[:6])
            for port in [known] if known else self._ports:
                if port != source:
                    self._send(frame, port)

    def _send(self, frame: bytes, port: str) -> None:
        try:
            self._socket.sendto(frame, socket.MSG_DONTWAIT if port in self._deaf else 0, port)
            self._deaf.discard(port)
        except BlockingIOError:
            self._deaf.add(port)
        except (FileNotFoundError, ConnectionRefusedError):
            pass  # not started yet, or gone


def port_path(state_directory: str, network: int, guest: int | None = None) -> str:
    """The socket of a guest's interface on a network; of the switch itself without a guest."""
    return os.path.join(state_directory, "net", f"{network}" if guest is None else f"{network}.{guest}")
