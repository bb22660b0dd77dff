# SPDX-License-Identifier: Apache-2.0
"""The system calls of `rdma-nccl env` below its root against the fewest with which any program could learn the same."""

from __future__ import annotations

import glob
import os
import re
import subprocess
from collections import Counter
from dataclasses import dataclass

from measure import COMMAND, LeftOut, line, make_tree, need

HCA = "sys/class/infiniband/*"
PORT = f"{HCA}/ports/*"
NETDEV = "sys/class/net/*"
GPU = "sys/bus/pci/devices/*"

# Every fact of lib/fabric/fabric.h and of the plan, by where the kernel tells it.
FILES = [
    *(f"{HCA}/{name}" for name in ("node_type", "node_guid", "sys_image_guid", "fw_ver", "board_id")),
    f"{HCA}/device/numa_node",
    *(f"{PORT}/{name}" for name in ("link_layer", "state", "phys_state", "rate", "gids/*")),
    *(f"{NETDEV}/{name}" for name in ("flags", "carrier", "ifindex", "mtu", "speed")),
    f"{GPU}/class",  # of all functions: it tells which are GPUs
    "proc/driver/nvidia/gpus/*/information",
    *(f"proc/net/{name}" for name in ("route", "ipv6_route", "fib_trie", "if_inet6")),
    "proc/sys/net/ipv4/ip_local_port_range",
    "etc/nccl.conf",
]
# Only where there is a /dev: the verbs device of an HCA is looked for because of its file there.
VERBS_FILES = ["sys/class/infiniband_verbs/*/ibdev"]
VERBS_DIRECTORIES = ["sys/class/infiniband_verbs"]
GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
FILES_OF_A_GPU = ("vendor", "numa_node")
FILES_OF_A_FUNCTION_NETDEV = ("dev_port",)
FILES_OF_A_GID = ("types", "ndevs")  # of slots that are not empty
DIRECTORIES = [
    "sys/class/infiniband",
    f"{HCA}/ports",
    f"{PORT}/gids",
    f"{HCA}/device/net",
    "sys/class/net",
    NETDEV,  # links to what stands above and below
    "sys/bus/pci/devices",
]
LINKS = [f"{HCA}/device", f"{HCA}/device/driver", f"{HCA}/device/physfn", f"{NETDEV}/device", f"{NETDEV}/master"]

EMPTY_SLOT = ":".join(["0000"] * 8)


@dataclass(frozen=True)
class Calls:
    opens: int
    reads: int
    listings: int  # getdents64
    links: int  # readlink


def content(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


def found(tree: str, patterns: list[str]) -> list[str]:
    return [path for pattern in patterns for path in glob.glob(os.path.join(tree, pattern))]


def fewest(tree: str) -> Calls:
    """A file costs an open and a read, a directory an open and two getdents64 (the second says that it was all)."""
    has_dev = os.path.isdir(os.path.join(tree, "dev"))
    files = [path for path in found(tree, FILES + VERBS_FILES * has_dev) if os.path.isfile(path)]
    filled = [path for path in found(tree, [f"{PORT}/gids/*"]) if content(path) != EMPTY_SLOT]
    gpus = [path for path in found(tree, [GPU]) if content(f"{path}/class")[:6] in GPU_CLASSES]
    netdevs = [path for path in found(tree, [NETDEV]) if os.path.exists(f"{path}/device")]
    file_count = (
        len(files)
        + len(FILES_OF_A_GID) * len(filled)
        + len(FILES_OF_A_GPU) * len(gpus)
        + len(FILES_OF_A_FUNCTION_NETDEV) * len(netdevs)
    )
    directories = [path for path in found(tree, DIRECTORIES + VERBS_DIRECTORIES * has_dev) if os.path.isdir(path)]
    links = len(found(tree, LINKS)) + len(gpus)
    return Calls(file_count + len(directories), file_count, 2 * len(directories), links)


def counted(tree: str, log: str) -> Calls:
    """Ours. Opens that fail count, and so do those of a link, for readlink to say where it leads."""
    names = ["open", "openat", "openat2", "read", "pread64", "getdents64", "readlink", "readlinkat"]
    trace = ["strace", "-f", "-qq", "-y", "-o", log, "-e", f"trace={','.join(names)}"]
    subprocess.run(
        [*trace, COMMAND, "env", "--root", tree],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    calls: Counter[str] = Counter()
    with open(log, encoding="utf-8", errors="replace") as file:
        for entry in file:
            match = re.match(r"\d+ +(\w+)\(", entry)
            if match and (tree + "/" in entry or tree + ">" in entry):
                calls[match[1]] += 1
    if not calls:
        raise LeftOut("strace cannot trace here")
    return Calls(
        calls["open"] + calls["openat"] + calls["openat2"],
        calls["read"] + calls["pread64"],
        calls["getdents64"],
        calls["readlink"] + calls["readlinkat"],
    )


def bench_system_calls(folder: str) -> None:
    need("strace")
    tree = make_tree(folder, "nine-hca")
    ours, least = counted(tree, os.path.join(folder, "calls")), fewest(tree)
    for what, a, b in (
        ("opens", ours.opens, least.opens),
        ("reads", ours.reads, least.reads),
        ("getdents64", ours.listings, least.listings),
        ("readlink", ours.links, least.links),
    ):
        line(f"env, 9 HCAs, 256-entry tables: {what}", f"{a}", f"the fewest possible {b}", f"{a / b:.3f}", "near 1")
