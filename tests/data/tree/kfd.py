# SPDX-License-Identifier: Apache-2.0
"""/sys/class/kfd: the nodes of AMD's compute driver, CPUs first, then GPUs or their partitions, in an order of its own."""

from __future__ import annotations

import uuid

from .files import Tree
from .values import Gpu, Kfd, Machine

_TOP = "sys/devices/virtual/kfd/kfd"
_PCIE, _XGMI = 2, 11  # types of links
_FIRST_RENDER_NODE = 128


def write_kfd(tree: Tree, machine: Machine) -> None:
    kfd = machine.kfd
    if kfd is None:
        return
    tree.link("sys/class/kfd/kfd", _TOP)
    tree.attributes(f"{_TOP}/topology", {"generation_id": 2})
    cpu_nodes = max(len(machine.processors.nodes), 1)
    for number in range(cpu_nodes):
        _write_node(tree, number, 0, {"cpu_cores_count": 1, "simd_count": 0}, [])
    devices = [(position, partition) for position in kfd.order for partition in range(kfd.partitions)]
    for index, (position, partition) in enumerate(devices):
        links = [(0, _PCIE)]
        for other, (peer, _) in enumerate(devices):
            if other != index and (peer == position or any({peer, position} <= set(hive) for hive in kfd.hives)):
                links.append((cpu_nodes + other, _XGMI))
        properties = _properties(machine.gpus[position], kfd, partition)
        _write_node(tree, cpu_nodes + index, 4096 + index, properties, links)


def _properties(gpu: Gpu, kfd: Kfd, partition: int) -> dict[str, int]:
    domain, bus, device, function = (int(part, 16) for part in gpu.function.address.replace(".", ":").split(":"))
    return {
        "cpu_cores_count": 0,
        "simd_count": 416,
        "vendor_id": int(gpu.function.vendor, 16),
        "device_id": int(gpu.function.device, 16),
        "location_id": partition << 28 | bus << 8 | device << 3 | function,
        "domain": domain,
        "drm_render_minor": _FIRST_RENDER_NODE + gpu.minor * kfd.partitions + partition,
        "unique_id": uuid.UUID(gpu.uuid[4:]).int >> 64,
    }


def _write_node(tree: Tree, number: int, gpu_id: int, properties: dict[str, int], links: list[tuple[int, int]]) -> None:
    directory = f"{_TOP}/topology/nodes/{number}"
    tree.attributes(directory, {"gpu_id": gpu_id, "name": "", "properties": _lines(properties)})
    tree.directory(f"{directory}/io_links")
    for index, (peer, kind) in enumerate(links):
        properties = {"type": kind, "node_from": number, "node_to": peer, "weight": 15 if kind == _XGMI else 20}
        tree.attributes(f"{directory}/io_links/{index}", {"properties": _lines(properties)})


def _lines(properties: dict[str, int]) -> str:
    return "\n".join(f"{name} {value}" for name, value in properties.items())
