# SPDX-License-Identifier: Apache-2.0
"""A rank that writes down what it was given: show.py [ARGS...] writes $SHOW/RANK.ATTEMPT.json."""

import json
import os
import sys


def main():
    # python -u: the text layer writes through to the file itself.
    unbuffered = not hasattr(sys.stdout.buffer, "raw")
    seen = {"argv": sys.argv[1:], "environment": dict(os.environ), "unbuffered": unbuffered}
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    path = os.path.join(os.environ["SHOW"], f"{os.environ['RANK']}.{attempt}.json")
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(seen, file)
    os.rename(path + ".new", path)
    print(f"out of {os.environ['RANK']}")
    print(f"err of {os.environ['RANK']}", file=sys.stderr)
    exits = dict(word.split("=") for word in os.environ.get("SHOW_EXITS", "").split())  # "RANK.ATTEMPT=CODE ..."
    code = int(exits.get(f"{os.environ['RANK']}.{attempt}", 0))
    if code:  # torchrun --run_path waits for ever for a script that calls exit()
        sys.exit(code)


if __name__ == "__main__":
    main()
