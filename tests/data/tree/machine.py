# SPDX-License-Identifier: Apache-2.0
"""A described machine as values: node `index` of machines that are alike, each with addresses and GUIDs of its own."""

from __future__ import annotations

import ipaddress
import json
import os
import uuid

from .drivers import GPU_MODELS, GpuModel
from .netdevs import NetdevBuilder
from .places import Places
from .processors import processors_of
from .rdma import RdmaBuilder
from .repeat import expanded
from .values import DefaultRoute, DescriptionError, Gpu, Kernel, Kfd, Machine, Netdev

__all__ = ["DescriptionError", "Machine", "Netdev", "descriptions", "machine_of", "read_description"]

FABRIC_DIRECTORY = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fabric")

_KEYS = set(
    "about cpu packages cores_per_package threads_per_core efficient_cores cores_per_l3 cpu_numbering offline_cpus "
    "numa_nodes memory_gib memory_nodes distances root_buses vm_bus oui default_route netdevs gids table_length hcas "
    "gpus dev_infiniband files kernel hypervisor modules nvidia_driver iommu acs ofed kfd".split()
)


_NVIDIA_DRIVER = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  525.85.12  Sat Jan 28 02:10:06 UTC 2023"


def descriptions() -> list[str]:
    return sorted(name[:-5] for name in os.listdir(FABRIC_DIRECTORY) if name.endswith(".json"))


def read_description(name: str) -> dict:
    """`name`: one of descriptions(), or the path of such a file."""
    path = name if os.sep in name or name.endswith(".json") else os.path.join(FABRIC_DIRECTORY, name + ".json")
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        raise DescriptionError(f"no description {path}; there are: {', '.join(descriptions())}") from None
    except (OSError, ValueError) as error:
        raise DescriptionError(f"{path}: {error}") from None


def machine_of(description: dict, index: int, host: str | None = None, gpus: int | None = None) -> Machine:
    """Machine `index` (0, 1, ...) of the description; `gpus`: only the first so many."""
    unknown = set(description) - _KEYS
    if unknown:
        raise DescriptionError(f"the description has unknown keys: {', '.join(sorted(unknown))}")
    try:
        return _machine(description, index, host or f"n{index + 1:02}", gpus)
    except KeyError as error:
        raise DescriptionError(f"the description lacks or does not know {error}") from None
    except ValueError as error:  # an address that is none
        raise DescriptionError(str(error)) from None


def _machine(description: dict, index: int, host: str, gpu_count: int | None) -> Machine:
    places = Places(description)
    oui = description.get("oui", "b8:59:9f")
    netdevs = NetdevBuilder(places, oui, index).netdevs(expanded(description["netdevs"]))
    rdma = RdmaBuilder(description, places, netdevs, oui, index)
    gpus = _gpus(places, host, expanded(description["gpus"]), gpu_count)
    return Machine(
        host=host,
        processors=processors_of(description),
        netdevs=tuple(netdev for netdev in netdevs.values() if not netdev.elsewhere),
        hcas=rdma.hcas(expanded(description["hcas"])),
        gpus=gpus,
        kfd=_kfd(description.get("kfd", {}), gpus),
        kernel=_kernel(description, any(gpu.function.driver == "nvidia" for gpu in gpus)),
        default_routes=_default_routes(description.get("default_route", [])),
        dev_infiniband=description.get("dev_infiniband", True),
        changes=description.get("files", {}),
    )


def _kernel(description: dict, has_nvidia: bool) -> Kernel:
    rdma = ["ib_core", "ib_uverbs", "rdma_ucm"] if description["hcas"] else []
    nvidia = ["nvidia", *(["nvidia_peermem"] if rdma else [])] if has_nvidia else []
    return Kernel(
        release=description.get("kernel", "5.15.0-91-generic"),
        hypervisor=description.get("hypervisor", False),
        modules=tuple(description.get("modules", [*rdma, *nvidia])),
        nvidia=description.get("nvidia_driver", _NVIDIA_DRIVER),
        iommu=description.get("iommu"),
        acs=description.get("acs", False),
        ofed=description.get("ofed"),
    )


def _default_routes(routes: dict | list) -> tuple[DefaultRoute, ...]:
    entries = [routes] if isinstance(routes, dict) else routes
    return tuple(DefaultRoute(entry["netdev"], ipaddress.ip_address(entry["gateway"])) for entry in entries)


def _gpus(places: Places, host: str, entries: list, count: int | None) -> tuple[Gpu, ...]:
    if count is not None and count > len(entries):
        raise DescriptionError(f"{count} GPUs asked for, the description has {len(entries)}")
    gpus = []
    for minor, entry in enumerate(entries[:count]):
        entry = {"pci": entry} if isinstance(entry, str) else entry
        model = _gpu_model(entry)
        function = places.function(entry["pci"], model.ids, entry.get("class", model.pci_class), model.driver)
        name = "GPU-" + str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{host}/{function.address}"))
        gpus.append(Gpu(minor, function, name, model.name))
    return tuple(gpus)


def _kfd(entry: dict | None, gpus: tuple[Gpu, ...]) -> Kfd | None:
    amd = tuple(gpu.minor for gpu in gpus if gpu.function.driver == "amdgpu")
    if entry is None or not amd:
        return None
    return Kfd(tuple(entry.get("order", amd)), entry.get("partitions", 1), tuple(map(tuple, entry.get("hives", []))))


def _gpu_model(entry: dict) -> GpuModel:
    if "model" in entry:
        return GPU_MODELS[entry["model"]]
    driver = entry.get("driver", "nvidia")
    return next(model for model in GPU_MODELS.values() if model.driver == driver)
