# SPDX-License-Identifier: Apache-2.0
"""/sys/class/infiniband and /sys/class/infiniband_verbs, as mlx5 fills them.

Linux, Documentation/ABI/stable/sysfs-class-infiniband.
"""

from __future__ import annotations

import os

from .files import Tree
from .machine import Hca, Machine, eui64

_COUNTERS = (
    "port_rcv_data port_xmit_data port_rcv_packets port_xmit_packets unicast_rcv_packets unicast_xmit_packets "
    "multicast_rcv_packets multicast_xmit_packets port_rcv_errors port_xmit_discards port_xmit_wait "
    "symbol_error link_error_recovery link_downed VL15_dropped port_rcv_constraint_errors port_xmit_constraint_errors "
    "local_link_integrity_errors excessive_buffer_overrun_errors"
).split()
_HW_COUNTERS = (
    "rx_write_requests rx_read_requests rx_atomic_requests out_of_buffer out_of_sequence packet_seq_err "
    "local_ack_timeout_err rnr_nak_retry_err implied_nak_seq_err duplicate_request np_cnp_sent "
    "np_ecn_marked_roce_packets rp_cnp_handled rx_icrc_encapsulated roce_adp_retrans roce_slow_restart"
).split()


def write_infiniband(tree: Tree, machine: Machine) -> None:
    for hca in machine.hcas:
        directory = f"{hca.function.directory}/infiniband/{hca.name}"
        tree.link(f"sys/class/infiniband/{hca.name}", directory)
        _write_device(tree, machine, hca, directory)
        _write_port(tree, hca, f"{directory}/ports/1")
        _write_verbs(tree, hca)


def _write_device(tree: Tree, machine: Machine, hca: Hca, directory: str) -> None:
    guid = f"{eui64(hca.netdev.mac):016x}"
    guid = ":".join(guid[start : start + 4] for start in range(0, 16, 4))
    tree.attributes(
        directory,
        {
            "node_type": "1: CA",
            "node_guid": guid,
            "sys_image_guid": guid,
            "node_desc": f"{machine.host} {hca.name}",
            "fw_ver": "20.35.1012",
            "hca_type": "MT4123",
            "hw_rev": 0,
            "board_id": "MT_0000000223",
        },
    )
    tree.link(f"{directory}/device", hca.function.directory)


def _write_port(tree: Tree, hca: Hca, directory: str) -> None:
    tree.attributes(
        directory,
        {
            "state": "4: ACTIVE",
            "phys_state": "5: LinkUp",
            "link_layer": "Ethernet",
            "rate": hca.rate,
            "lid": "0x0",
            "lid_mask_count": 0,
            "sm_lid": "0x0",
            "sm_sl": 0,
            "cap_mask": "0x04010000",
        },
    )
    tree.write(f"{directory}/pkeys/0", "0xffff")
    tree.attributes(f"{directory}/counters", dict.fromkeys(_COUNTERS, 0))
    tree.attributes(f"{directory}/hw_counters", dict.fromkeys(_HW_COUNTERS, 0))
    _write_gids(tree, hca, directory)


def _write_gids(tree: Tree, hca: Hca, directory: str) -> None:
    """An empty slot reads as zeros in gids/; its gid_attrs, which a kernel refuses with EINVAL, are left out."""
    used = {gid.index: gid for gid in hca.gids}
    zeros = ":".join(["0000"] * 8)
    for index in range(hca.table_length):
        gid = used.get(index)
        tree.write(f"{directory}/gids/{index}", gid.value.exploded if gid else zeros)
        if gid:
            tree.write(f"{directory}/gid_attrs/types/{index}", gid.type)
            tree.write(f"{directory}/gid_attrs/ndevs/{index}", gid.netdev)


def _write_verbs(tree: Tree, hca: Hca) -> None:
    name = f"uverbs{hca.number}"
    directory = f"{hca.function.directory}/infiniband_verbs/{name}"
    tree.attributes(directory, {"ibdev": hca.name, "abi_version": 1, "dev": f"231:{192 + hca.number}"})
    tree.link(f"{directory}/device", hca.function.directory)
    tree.link(os.path.join("sys/class/infiniband_verbs", name), directory)
