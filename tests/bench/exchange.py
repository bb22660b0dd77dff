# SPDX-License-Identifier: Apache-2.0
"""The exchange of a step: thousands of nodes with real sockets, in a network namespace of their own."""

from __future__ import annotations

import os
import subprocess

from measure import BUILD, LeftOut, line

PROGRAM = os.path.join(BUILD, "tests", "bench", "exchange")
SIZES = {256: "", 1024: "", 4096: "< 2 s", 16384: ""}  # nodes, and the budget

# A routable address for the server to offer, and ports for all connections to the one address of the head node.
NAMESPACE = """
ip link set lo up
ip address add 10.99.0.1/32 dev lo
echo 1024 65535 > /proc/sys/net/ipv4/ip_local_port_range
exec "$@"
"""


def exchange(nodes: int, late: int = 0) -> dict[str, float]:
    command = ["unshare", "--net", "sh", "-ec", NAMESPACE, "sh", PROGRAM, str(nodes), str(late)]
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=300)
    return {key: float(value) for key, value in map(str.split, result.stdout.splitlines())}


def bench_exchange(folder: str) -> None:
    if os.geteuid() != 0:
        raise LeftOut("needs root")
    for nodes, budget in SIZES.items():
        best = min((exchange(nodes) for _ in range(3)), key=lambda values: values["wall_seconds"])
        cost = f"{best['server_cpu_seconds'] / nodes * 1e6:.0f} us and {best['server_kib_per_node']:.1f} KiB a node"
        line(f"exchange of {nodes} nodes, in srun", f"{best['wall_seconds']:.2f} s", cost, "", budget)
    with_late = min(exchange(10_000, 3_000)["server_cpu_seconds"] for _ in range(3))
    line("10000 nodes, of which 3000 are late", f"{with_late:.2f} s", "of srun's CPU", "", "< 2 s")
