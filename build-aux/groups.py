# SPDX-License-Identifier: Apache-2.0
"""Sources that can be compiled as one translation unit: nearly all of a compiler's time goes to the headers, which are
then read once for all of them. Files that use a name of each other's unnamed namespaces are kept apart.
"""

import functools
import os
import re

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# In the project's format, whatever is declared in a namespace starts in the first column.
DECLARED = re.compile(r"^(?:[a-z][^;={(\n]*?|[A-Z][^;={(\n]*?)\b(\w+)\s*(?:[({;=\[]|:\s)", re.M)


def read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


# The same alias may stand in several files.
ALIAS = re.compile(r"^using (?:[\w:]*::)?(\w+)(?: = [^;]+)?;$", re.M)

Names = dict[str, str]  # each with its definition where it is an alias, else ""


def names_of(text: str) -> Names:
    aliases = {match[1]: match[0] for match in ALIAS.finditer(text)}
    text = ALIAS.sub("", text)
    found = set(DECLARED.findall(text)) | set(re.findall(r"^(?:class|struct|enum class) (\w+)", text, re.M))
    return aliases | dict.fromkeys(found - {"rdma_nccl", "namespace"}, "")


@functools.cache
def names_of_header(path: str) -> Names:
    return names_of_headers(read(path)) | names_of(read(path))


def names_of_headers(text: str) -> Names:
    headers = [os.path.join(TOP, path) for path in re.findall(r'^#include "([^"]+)"', text, re.M)]
    return {name: "" for path in headers if os.path.isfile(path) for name in names_of_header(path)}


def without(names: Names, others: Names) -> Names:
    return {name: text for name, text in names.items() if name not in others}


def clash(one: Names, other: Names) -> bool:
    return any(not one[name] or one[name] != other[name] for name in one.keys() & other.keys())


def groups_of(files: list[str], most: int) -> list[list[str]]:
    """Files of one folder, so that no name that one of them declares means something else in another."""
    names = {path: names_of(read(path)) for path in files}
    groups: list[tuple[list[str], Names, Names]] = []
    for path in sorted(files, key=lambda path: -len(names[path])):  # who clashes with many comes first
        headers = names_of_headers(read(path))
        own = names[path]
        alone = without(own, headers)  # what is declared in its header too is the same thing everywhere
        for members, taken, seen in groups:
            near = os.path.dirname(members[0]) == os.path.dirname(path) and len(members) < most
            if near and not clash(own, taken) and not clash(alone, seen) and not clash(without(headers, own), taken):
                members.append(path)
                taken |= own
                seen |= headers
                break
        else:
            groups.append(([path], dict(own), dict(headers)))
    return [sorted(members) for members, _, _ in groups]


def text_of(group: list[str]) -> str:
    return "".join(f'#include "{os.path.abspath(path)}"\n' for path in group)
