# SPDX-License-Identifier: Apache-2.0
"""/sys/class/infiniband and /sys/class/infiniband_verbs.

Linux, Documentation/ABI/stable/sysfs-class-infiniband.
"""

from __future__ import annotations

import os

from .drivers import DRIVERS
from .files import Tree
from .values import Hca, Machine, Port

_COUNTERS = (
    "port_rcv_data port_xmit_data port_rcv_packets port_xmit_packets unicast_rcv_packets unicast_xmit_packets "
    "multicast_rcv_packets multicast_xmit_packets port_rcv_errors port_xmit_discards port_xmit_wait "
    "symbol_error link_error_recovery link_downed VL15_dropped port_rcv_constraint_errors port_xmit_constraint_errors "
    "local_link_integrity_errors excessive_buffer_overrun_errors"
).split()
_EXTENDED_COUNTERS = (
    "port_xmit_data_64 port_rcv_data_64 port_xmit_packets_64 port_rcv_packets_64 unicast_xmit_packets "
    "unicast_rcv_packets multicast_xmit_packets multicast_rcv_packets"
).split()


def write_infiniband(tree: Tree, machine: Machine) -> None:
    if machine.hcas:
        tree.write("sys/class/infiniband_verbs/abi_version", "6")
    for hca in machine.hcas:
        directory = f"{_parent_of(hca)}/infiniband/{hca.name}"
        tree.link(f"sys/class/infiniband/{hca.name}", directory)
        _write_device(tree, machine, hca, directory)
        for port in hca.ports:
            _write_port(tree, hca, port, f"{directory}/ports/{port.number}")
        _write_verbs(tree, hca)


def _parent_of(hca: Hca) -> str:
    return hca.function.directory if hca.function else "sys/devices/virtual"


def _write_device(tree: Tree, machine: Machine, hca: Hca, directory: str) -> None:
    tree.attributes(
        directory,
        {
            "node_type": hca.node_type,
            "node_guid": _groups(hca.guid),
            "sys_image_guid": _groups(hca.system_guid),
            "node_desc": f"{machine.host} {hca.name}",
            "fw_ver": hca.firmware,
            **dict(hca.texts),
        },
    )
    if hca.function:
        tree.link(f"{directory}/device", hca.function.directory)
    elif hca.driver == "rxe" and hca.netdev:
        tree.write(f"{directory}/parent", hca.netdev.name)


def _groups(guid: int) -> str:
    digits = f"{guid:016x}"
    return ":".join(digits[start : start + 4] for start in range(0, 16, 4))


def _write_port(tree: Tree, hca: Hca, port: Port, directory: str) -> None:
    is_infiniband = port.link_layer == "InfiniBand"
    tree.attributes(
        directory,
        {
            "state": port.state,
            "phys_state": port.physical_state,
            "link_layer": port.link_layer,
            "rate": port.rate,
            "lid": f"0x{port.lid:x}",
            "lid_mask_count": 0,
            "sm_lid": f"0x{port.sm_lid:x}",
            "sm_sl": 0,
            "cap_mask": "0xa651e848" if is_infiniband else "0x04010000",
        },
    )
    tree.write(f"{directory}/pkeys/0", "0xffff")
    if hca.counters:
        _write_counters(tree, hca, directory)
    _write_gids(tree, port, directory)


def _write_counters(tree: Tree, hca: Hca, directory: str) -> None:
    """drivers/infiniband/core/sysfs.c; a hw_counters/ has a lifespan in milliseconds beside the driver's."""
    driver = DRIVERS[hca.driver]
    if driver.has_counters or hca.counters == "no-pma":  # before Linux 5.14 every device had the directory
        value = "N/A (no PMA)" if hca.counters == "no-pma" else 0
        is_extended = hca.counters not in ("32-bit", "old-kernel")
        names = [name for name in _COUNTERS if is_extended or not name.startswith(("unicast", "multicast"))]
        tree.attributes(f"{directory}/counters", dict.fromkeys(names, value))
    if driver.has_counters and hca.counters == "old-kernel":
        tree.attributes(f"{directory}/counters_ext", dict.fromkeys(_EXTENDED_COUNTERS, 0))
    if driver.hw_counters and hca.counters != "old-kernel":
        tree.attributes(f"{directory}/hw_counters", {**dict.fromkeys(driver.hw_counters, 0), "lifespan": 10})


def _write_gids(tree: Tree, port: Port, directory: str) -> None:
    """An empty slot reads as zeros in gids/; its gid_attrs, which a kernel refuses with EINVAL, are left out. Since Python
    3.13 an address's `exploded` ends in dots where it holds an IPv4 address; a kernel's text never does."""
    used = {gid.index: gid for gid in port.gids}
    for index in range(port.table_length):
        gid = used.get(index)
        value = gid.value.packed if gid else bytes(16)
        tree.write(f"{directory}/gids/{index}", value.hex(":", 2))
        if gid:
            tree.write(f"{directory}/gid_attrs/types/{index}", gid.type)
            tree.attributes(f"{directory}/gid_attrs/ndevs", {str(index): gid.netdev})


def _write_verbs(tree: Tree, hca: Hca) -> None:
    name = f"uverbs{hca.number}"
    directory = f"{_parent_of(hca)}/infiniband_verbs/{name}"
    number = f"231:{192 + hca.number}" if hca.number < 32 else f"510:{hca.number - 32}"
    tree.attributes(directory, {"ibdev": hca.name, "abi_version": 1, "dev": number})
    if hca.function:
        tree.link(f"{directory}/device", hca.function.directory)
    tree.link(os.path.join("sys/class/infiniband_verbs", name), directory)
