# SPDX-License-Identifier: Apache-2.0
"""Writing below one directory, with the links a kernel makes: relative ones."""

from __future__ import annotations

import os


class Tree:
    def __init__(self, top: str):
        self._top = top
        self._made: set[str] = set()

    def directory(self, path: str) -> str:
        full = os.path.join(self._top, path)
        if full not in self._made:
            os.makedirs(full, exist_ok=True)
            self._made.add(full)
        return full

    def write(self, path: str, content: str | bytes) -> None:
        """A str gets the newline that a kernel attribute ends with."""
        head, name = os.path.split(path)
        data = content if isinstance(content, bytes) else (content + "\n").encode()
        descriptor = os.open(os.path.join(self.directory(head), name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)

    def attributes(self, path: str, values: dict[str, str | int | None]) -> None:
        """One file per value in the directory `path`; None: it cannot be read."""
        for name, value in values.items():
            if value is None:
                self.unreadable(f"{path}/{name}")
            else:
                self.write(f"{path}/{name}", str(value))

    def unreadable(self, path: str) -> None:
        """A directory in the file's place: reading it gives EISDIR, which stands for a kernel's EINVAL."""
        self.directory(path)

    def link(self, path: str, target: str) -> None:
        """`target` is a path from the top, as `path` is."""
        head, name = os.path.split(path)
        os.symlink(os.path.relpath(target, head), os.path.join(self.directory(head), name))
