# SPDX-License-Identifier: Apache-2.0
"""What a description changes in the finished tree: damage, files that refuse to be read, files that are not there."""

from __future__ import annotations

import glob
import os
import shutil

from .values import DescriptionError


def apply_changes(top: str, changes: dict[str, str | dict | None]) -> None:
    """By path, which may be a pattern: a text is the file's new content, null removes, {} makes it unreadable."""
    for pattern, change in changes.items():
        is_pattern = glob.has_magic(pattern)
        paths = glob.glob(os.path.join(top, pattern)) if is_pattern else [os.path.join(top, pattern)]
        if not paths:
            raise DescriptionError(f"files: {pattern} matches nothing")
        for path in paths:
            _change(path, change)


def _change(path: str, change: str | dict | None) -> None:
    if os.path.islink(path) or os.path.isfile(path):
        os.remove(path)
    elif os.path.isdir(path):
        shutil.rmtree(path)
    elif change is None:
        raise DescriptionError(f"files: {path} is not there to be removed")
    if isinstance(change, str):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(change + "\n" if change else "")
    elif change is not None:  # a directory: reading it gives EISDIR, which stands for a kernel's EINVAL
        os.makedirs(path)
