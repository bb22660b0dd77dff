# SPDX-License-Identifier: Apache-2.0
"""Sources that can be compiled as one translation unit: nearly all of a compiler's time goes to the headers, which are
then read once for all of them. Files that use a name of each other's unnamed namespaces are kept apart.
"""

import functools
import os
import re

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# In the project's format, whatever is declared in a namespace starts in the first column.
DECLARED = re.compile(r"^(?:[a-z][^;={(]*?|[A-Z][^;={(]*?)\b(\w+)\s*(?:[({;=\[]|:\s)", re.M)


def read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def names_of(text: str) -> set[str]:
    found = set(DECLARED.findall(text)) | set(re.findall(r"^(?:class|struct|enum class|using) (\w+)", text, re.M))
    return found - {"rdma_nccl", "namespace"}


@functools.cache
def names_of_header(path: str) -> frozenset[str]:
    return frozenset(names_of(read(path)) | names_of_headers(read(path)))


def names_of_headers(text: str) -> set[str]:
    headers = [os.path.join(TOP, path) for path in re.findall(r'^#include "([^"]+)"', text, re.M)]
    return set().union(*(names_of_header(path) for path in headers if os.path.isfile(path)))


def groups_of(files: list[str], most: int) -> list[list[str]]:
    """Files of one folder, so that no name that one of them declares means something else in another."""
    groups: list[tuple[list[str], set[str], set[str]]] = []
    for path in files:
        text = read(path)
        headers = names_of_headers(text)
        own = names_of(text)
        alone = own - headers # what is declared in its header too is the same thing everywhere
        for members, taken, seen in groups:
            near = os.path.dirname(members[0]) == os.path.dirname(path) and len(members) < most
            if near and not own & taken and not alone & seen and not taken & headers - own:
                members.append(path)
                taken |= own
                seen |= headers
                break
        else:
            groups.append(([path], set(own), set(headers)))
    return [members for members, _, _ in groups]


def text_of(group: list[str]) -> str:
    return "".join(f'#include "{os.path.abspath(path)}"\n' for path in group)
