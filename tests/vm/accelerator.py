# SPDX-License-Identifier: Apache-2.0
"""KVM or QEMU's own emulation (TCG).

That /dev/kvm opens says little: below some hypervisors a guest's kernel takes minutes to unpack itself. So a kernel has
to come as far as its initramfs, once for each boot of this machine.
"""

from __future__ import annotations

import os
import subprocess

from images import Image, cache_directory
from state import TestBedError

CHOICES = ("auto", "kvm", "tcg")
_PATIENCE = 5  # seconds; with a KVM that works it takes one


def choose_accelerator(wanted: str, kernel: Image) -> str:
    """As QEMU's -accel names it."""
    if kernel.is_arm64:
        if wanted == "kvm":
            raise TestBedError("--accel kvm: guests of aarch64 are emulated here")
        return "tcg"
    if wanted == "auto":
        wanted = "kvm" if os.access("/dev/kvm", os.R_OK | os.W_OK) and _kvm_works(kernel) else "tcg"
    return wanted


def _kvm_works(kernel: Image) -> bool:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    verdict = os.path.join(cache_directory("kvm"), boot)
    if not os.path.exists(verdict):
        new = f"{verdict}.{os.getpid()}"
        with open(new, "w", encoding="ascii") as file:
            file.write("works" if _boots(kernel) else "does not")
        os.rename(new, verdict)  # another lab, which starts at the same time, reads all of it or nothing
    with open(verdict, encoding="ascii") as file:
        return file.read() == "works"


def _boots(kernel: Image) -> bool:
    command = ["qemu-system-x86_64", "-machine", "q35", "-accel", "kvm", "-cpu", "host", "-m", "512"]
    command += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    command += ["-kernel", kernel.kernel, "-initrd", kernel.initramfs, "-append", "quiet panic=-1 lab.probe"]
    try:
        result = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        return False
    return result.returncode == 0
