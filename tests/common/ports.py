# SPDX-License-Identifier: Apache-2.0
"""Ports for programs that tests start."""

import random
import socket


def free_port() -> int:
    """Below ip_local_port_range, so that no outgoing connection takes it before the program does."""
    while True:
        port = random.randrange(20000, 30000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:  # somebody listens there
                continue
            return port


if __name__ == "__main__":
    print(free_port())
