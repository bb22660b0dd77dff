# SPDX-License-Identifier: Apache-2.0
"""/proc/driver/nvidia."""

from __future__ import annotations

from .files import Tree
from .values import Machine


def write_nvidia(tree: Tree, machine: Machine) -> None:
    gpus = [gpu for gpu in machine.gpus if gpu.function.driver == "nvidia"]
    if not gpus:
        return
    tree.write("proc/driver/nvidia/version", machine.kernel.nvidia)
    for gpu in gpus:
        directory = f"proc/driver/nvidia/gpus/{gpu.function.address}"
        tree.write(
            f"{directory}/information",
            f"Model: \t\t {gpu.model}\nIRQ:   \t\t {100 + gpu.minor}\nGPU UUID: \t {gpu.uuid}\n"
            f"Video BIOS: \t 92.00.36.00.01\nBus Type: \t PCIe\nDMA Size: \t 47 bits\nDMA Mask: \t 0x7fffffffffff\n"
            f"Bus Location: \t {gpu.function.address}\nDevice Minor: \t {gpu.minor}\n"
            "GPU Firmware: \t N/A\nGPU Excluded:\t No",
        )
        for node in machine.processors.nodes:
            if node.gpu == gpu.minor and node.memory_kib:
                tree.write(f"{directory}/numa_status", f"Node: {node.number}\nStatus: online")
