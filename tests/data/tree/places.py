# SPDX-License-Identifier: Apache-2.0
"""Where in /sys/devices a described device is."""

from __future__ import annotations

import uuid

from .drivers import DRIVERS, ETHERNET_CLASS
from .values import DescriptionError, Function


class Places:
    def __init__(self, description: dict):
        self._root_buses = description.get("root_buses")
        self._vm_bus = description.get("vm_bus")

    def function(self, path: str, ids: tuple[str, str], pci_class: str, driver: str, physical=None, is_virtual=False) -> Function:
        """`path`: "50/50:01.0/51:00.0", or with domains, "0101:00/0101:00:00.0"."""
        root, *rest = path.split("/")
        root = root if ":" in root else "0000:" + root
        parts = tuple([root] + [part if part.count(":") == 2 else "0000:" + part for part in rest])
        above = f"{self.vm_bus_child(root)}/" if self._vm_bus and not root.startswith("0000:") else ""
        physical = physical if physical is None or physical.count(":") == 2 else "0000:" + physical
        return Function(parts, *ids, pci_class, driver, self._numa_node(path.split("/")[0]), above, physical, is_virtual)

    def nic(self, entry: dict, driver: str, pci_class: str = ETHERNET_CLASS) -> Function:
        """The function of a netdev or an HCA that has "pci"; "vf_of" names the physical one."""
        vendor, device = DRIVERS[driver].ids
        physical = entry.get("vf_of")
        is_virtual = bool(physical or entry.get("is_vf"))
        if is_virtual:
            device = getattr(DRIVERS[driver], "virtual_device", "") or device
        if not vendor:
            raise DescriptionError(f"{entry['name']}: {driver} has no PCI functions")
        pci_driver = DRIVERS[driver].pci_driver or driver
        return self.function(entry["pci"], (vendor, device), pci_class, pci_driver, physical, is_virtual)

    def vm_bus_child(self, name: str) -> str:
        """Directory, below sys/devices, of a device on the virtual machine's own bus (VMBus)."""
        return f"{self._vm_bus}/{uuid.uuid5(uuid.NAMESPACE_DNS, name)}"

    def _numa_node(self, root: str) -> int:
        return -1 if self._root_buses is None else self._root_buses[root]
