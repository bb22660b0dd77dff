# SPDX-License-Identifier: Apache-2.0
"""How the instructions of `rdma-nccl env` (callgrind's count: the same in every run) grow with a machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass

from measure import COMMAND, LeftOut, line, make_tree, need


@dataclass(frozen=True)
class Size:
    hcas: int
    slots: int  # of each GID table
    filled: int

    def __str__(self) -> str:
        return f"{self.hcas:2} HCAs x {self.slots:4} slots, {self.filled:3} filled"


SIZES = [
    [Size(1, 256, 4), Size(9, 256, 4), Size(16, 256, 4), Size(9, 1024, 4)],
    [Size(1, 256, 256), Size(9, 256, 256), Size(16, 256, 256)],
]


def description(size: Size) -> dict:
    """A rail for each HCA, each at a root bus of its own, beside a plain management NIC."""
    buses = [f"{0x20 + 2 * i:02x}" for i in range(size.hcas)]

    def netdev(name: str, network: str, ipv4: str, driver: str, bus: str) -> dict:
        pci = f"{bus}/{bus}:01.0/{int(bus, 16) + 1:02x}:00.0"
        return {"name": name, "network": network, "ipv4": ipv4, "mtu": 1500, "driver": driver, "pci": pci}

    rails = [netdev(f"eth{i + 1}", f"rail{i + 1}", f"25.11.{i}.2/24", "mlx5_core", bus) for i, bus in enumerate(buses)]
    kinds = [("link-local", 1), ("link-local", 2), ("ipv4", 1), ("ipv4", 2)]
    return {
        "packages": 1,
        "cores_per_package": 8,
        "memory_gib": 64,
        "root_buses": dict.fromkeys(["10", *buses], 0),
        "default_route": {"netdev": "eth0", "gateway": "10.0.60.1"},
        "netdevs": [netdev("eth0", "mgmt", "10.0.60.3/24", "igb", "10"), *rails],
        "gids": [[index, *kinds[index % len(kinds)]] for index in range(size.filled)],
        "hcas": [
            {"name": f"mlx5_{i}", "netdev": f"eth{i + 1}", "table_length": size.slots} for i in range(size.hcas)
        ],
        "gpus": [],
    }


def instructions(folder: str, size: Size) -> int:
    name = f"machine-{size.hcas}-{size.slots}-{size.filled}"
    path = os.path.join(folder, name + ".json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(description(size), file)
    tree = make_tree(folder, path)
    profile = os.path.join(folder, name + ".callgrind")
    callgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}", COMMAND, "env", "--root", tree]
    log = subprocess.run(callgrind, capture_output=True, text=True, check=False).stderr
    match = re.search(r"Collected : (\d+)", log)
    if not match:
        raise LeftOut(f"valgrind says: {log.strip().splitlines()[-1] if log.strip() else 'nothing'}")
    return int(match[1])


def bench_instructions(folder: str) -> None:
    need("valgrind")
    nothing = instructions(folder, Size(0, 0, 0))
    line("instructions without any HCA", f"{nothing / 1e6:.2f} M")
    for sizes in SIZES:
        each = {size: (instructions(folder, size) - nothing) / (size.hcas * size.slots) for size in sizes}
        for size, count in each.items():
            line(
                f"and for each GID slot, {size}",
                f"{count:.0f}",
                f"{sizes[0]}: {each[sizes[0]]:.0f}".replace("  ", " "),
                f"{count / each[sizes[0]]:.2f}",
                "1: linear",
            )
