# SPDX-License-Identifier: Apache-2.0
"""What the files of a CPU say by its model."""

from __future__ import annotations

from dataclasses import dataclass

INTEL, AMD, ARM, HISILICON = "GenuineIntel", "AuthenticAMD", "0x41", "0x48"


@dataclass(frozen=True)
class CpuModel:
    vendor: str  # on aarch64 the implementer's number
    family: int  # on aarch64 the part's number
    model: int
    stepping: int
    name: str  # aarch64 tells none
    l1d: int  # sizes in KiB; L1 and L2 of each core
    l1i: int
    l2: int
    l3: int
    cores_per_l3: int | None = None  # None: one L3 in each package

    @property
    def is_arm(self) -> bool:
        return self.vendor.startswith("0x")


# Intel's efficient cores: four share an L2.
EFFICIENT_L1D, EFFICIENT_L1I, EFFICIENT_L2, CORES_PER_EFFICIENT_L2 = 32, 64, 2048, 4
EFFICIENT_FREQUENCIES, USUAL_FREQUENCIES = (1700000, 3500000), (2300000, 4700000)  # base and highest, in kHz

DEFAULT_MODEL = "EPYC 7543"
CPU_MODELS = {
    "EPYC 7543": CpuModel(AMD, 25, 1, 1, "AMD EPYC 7543 32-Core Processor", 32, 32, 512, 32768, 4),
    "EPYC 7742": CpuModel(AMD, 23, 49, 0, "AMD EPYC 7742 64-Core Processor", 32, 32, 512, 16384, 4),
    "EPYC 7763": CpuModel(AMD, 25, 1, 1, "AMD EPYC 7763 64-Core Processor", 32, 32, 512, 32768, 8),
    "EPYC 7A53": CpuModel(AMD, 25, 48, 1, "AMD EPYC 7A53 64-Core Processor", 32, 32, 512, 32768, 8),
    "EPYC 7R13": CpuModel(AMD, 25, 1, 1, "AMD EPYC 7R13 Processor", 32, 32, 512, 32768, 8),
    "EPYC 9554": CpuModel(AMD, 25, 17, 1, "AMD EPYC 9554 64-Core Processor", 32, 32, 1024, 32768, 8),
    "EPYC 9654": CpuModel(AMD, 25, 17, 1, "AMD EPYC 9654 96-Core Processor", 32, 32, 1024, 32768, 8),
    "Xeon 6148": CpuModel(INTEL, 6, 85, 4, "Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz", 32, 32, 1024, 28160),
    "Xeon 6338": CpuModel(INTEL, 6, 106, 6, "Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz", 48, 32, 1280, 49152),
    "Xeon 8275CL": CpuModel(INTEL, 6, 85, 7, "Intel(R) Xeon(R) Platinum 8275CL CPU @ 3.00GHz", 32, 32, 1024, 36608),
    "Xeon 8480+": CpuModel(INTEL, 6, 143, 8, "Intel(R) Xeon(R) Platinum 8480+", 48, 32, 2048, 107520),
    "Xeon 8480C": CpuModel(INTEL, 6, 143, 8, "Intel(R) Xeon(R) Platinum 8480C", 48, 32, 2048, 107520),
    "Xeon 8581C": CpuModel(INTEL, 6, 207, 2, "INTEL(R) XEON(R) PLATINUM 8581C CPU @ 2.30GHz", 48, 32, 2048, 266240),
    "Core i7-12700H": CpuModel(INTEL, 6, 154, 3, "12th Gen Intel(R) Core(TM) i7-12700H", 48, 32, 1280, 24576),
    "Grace": CpuModel(ARM, 0xD4F, 0, 0, "", 64, 64, 1024, 116736),
    "Kunpeng 920": CpuModel(HISILICON, 0xD01, 1, 0, "", 64, 64, 512, 32768, 32),
}
