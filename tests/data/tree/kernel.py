# SPDX-License-Identifier: Apache-2.0
"""/sys/module, /proc/sys/kernel, /proc/sys/net/ipv4/conf, /sys/kernel/iommu_groups, and what OFED's drivers add."""

from __future__ import annotations

import uuid

from .files import Tree
from .net import directory_of
from .values import Function, Machine


def write_kernel(tree: Tree, machine: Machine) -> None:
    tree.write("proc/sys/kernel/hostname", machine.host)
    tree.write("proc/sys/kernel/osrelease", machine.kernel.release)
    tree.write("proc/sys/kernel/random/boot_id", str(uuid.uuid5(uuid.NAMESPACE_DNS, machine.host)))
    for module in machine.kernel.modules:
        tree.attributes(f"sys/module/{module}", {"initstate": "live", "refcnt": 0})
    # As Ubuntu and systemd set them; `all` is the kernel's own 0.
    settings = {"all": 0, **{netdev.name: 2 for netdev in machine.netdevs}}
    for name, rp_filter in settings.items():
        directory = f"proc/sys/net/ipv4/conf/{name}"
        tree.attributes(directory, {"rp_filter": rp_filter, "arp_ignore": 0, "arp_announce": 0})


def write_iommu_groups(tree: Tree, machine: Machine, functions: list[Function]) -> None:
    """A group for each function."""
    if machine.kernel.iommu is None:
        return
    for number, function in enumerate(functions):
        group = f"sys/kernel/iommu_groups/{number}"
        tree.write(f"{group}/type", machine.kernel.iommu)
        tree.link(f"{group}/devices/{function.address}", function.directory)
        tree.link(f"{function.directory}/iommu_group", group)


def write_ofed(tree: Tree, machine: Machine) -> None:
    """Of RoCE ports: /sys/class/infiniband/DEVICE/tc, and ecn in the interface's directory."""
    ofed = machine.kernel.ofed
    for hca in machine.hcas if ofed else []:
        if hca.driver != "mlx5_core" or hca.netdev is None or hca.ports[0].link_layer != "Ethernet":
            continue
        if "traffic_class" in ofed:
            text = f"Global tclass={ofed['traffic_class']}"
            tree.write(f"{hca.function.directory}/infiniband/{hca.name}/tc/1/traffic_class", text)
        for side in ("roce_np", "roce_rp") if "ecn" in ofed else ():
            values = {str(priority): int(ofed["ecn"]) for priority in range(8)}
            tree.attributes(f"{directory_of(hca.netdev)}/ecn/{side}/enable", values)
