# SPDX-License-Identifier: Apache-2.0
"""Sets of numbers as a kernel writes them: of CPUs, of NUMA nodes."""

from __future__ import annotations

from collections.abc import Iterable


def cpulist(numbers: Iterable[int]) -> str:
    """`0-3,8`; nothing for an empty set."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] + 1 == number:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def cpumap(numbers: Iterable[int], possible: int) -> str:
    """Words of 32 bits in hexadecimal, highest first, as many as the `possible` CPUs take."""
    mask = sum(1 << number for number in numbers)
    words = (possible + 31) // 32
    return ",".join(f"{mask >> (32 * word) & 0xFFFFFFFF:08x}" for word in reversed(range(words)))


def numbers_of(text: str) -> frozenset[int]:
    """The set that cpulist() writes as `text`."""
    pairs = [part.split("-") for part in text.split(",") if part]
    return frozenset(number for pair in pairs for number in range(int(pair[0]), int(pair[-1]) + 1))
