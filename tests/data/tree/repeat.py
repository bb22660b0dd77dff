# SPDX-License-Identifier: Apache-2.0
"""An entry of a description that stands for several: {"repeat": {"i": "0-7", "bus": "18 3a ..."}, "name": "eth{i}"}."""

from __future__ import annotations

import re

from .values import DescriptionError


def expanded(entries: list) -> list:
    """`entries` with each that has "repeat" in as many versions as its variables have values."""
    return [version for entry in entries for version in _versions(entry)]


def _versions(entry) -> list:
    if not isinstance(entry, dict) or "repeat" not in entry:
        return [entry]
    template = {key: value for key, value in entry.items() if key != "repeat"}
    return [_filled(template, row) for row in _rows(entry["repeat"])]


def _rows(repeat: int | dict[str, str]) -> list[dict]:
    """For each version, the variables with their values."""
    if isinstance(repeat, int):
        return [{"i": i} for i in range(repeat)]
    columns = {name: _values(text) for name, text in repeat.items()}
    if len({len(values) for values in columns.values()}) != 1:
        raise DescriptionError(f"repeat {repeat}: variables with different numbers of values")
    return [dict(zip(columns, row)) for row in zip(*columns.values())]


def _values(text: str) -> list[int | str]:
    """Words; "3-6" is a range of numbers, so that {i:02x} is possible."""
    values: list[int | str] = []
    for word in text.split():
        numbers = re.fullmatch(r"(\d+)-(\d+)", word)
        values += range(int(numbers[1]), int(numbers[2]) + 1) if numbers else [word]
    return values


def _filled(value, row: dict):
    if isinstance(value, str):
        return value.format_map(row)
    if isinstance(value, list):
        return [_filled(item, row) for item in value]
    if isinstance(value, dict):
        return {key: _filled(item, row) for key, item in value.items()}
    return value
