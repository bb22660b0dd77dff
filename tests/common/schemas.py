#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""usage: schemas.py NAME FILE: does the report in FILE match doc/schema/NAME.json? Python tests call check().

It and its importers need the distribution's Python, because jsonschema is packaged for that one.
"""

from __future__ import annotations

import functools
import json
import os
import sys

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "doc", "schema")


@functools.cache
def _validator(name: str):
    import jsonschema  # here: not all tests of who imports this one have reports

    with open(os.path.join(FOLDER, f"{name}.json"), encoding="ascii") as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def check(name: str, report: object) -> None:
    """Raises an AssertionError that names the member."""
    for error in _validator(name).iter_errors(report):
        raise AssertionError(f"not as doc/schema/{name}.json has it: {error.json_path}: {error.message[:300]}")


def main() -> int:
    name, path = sys.argv[1:]
    with open(path, encoding="ascii") as file:
        report = json.load(file)
    try:
        check(name, report)
    except AssertionError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
