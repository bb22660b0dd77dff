# SPDX-License-Identifier: Apache-2.0
"""torchrun as it is installed, with one fault mended that torch before 2.1 has under Python 3.11: there, an enum is no
longer iterated over its zero and combined values, and every --redirects and --tee but 1 and 2, the default included,
becomes None (torch/distributed/elastic/multiprocessing/api.py, Std.from_str)."""

import re
import sys

from torch.distributed.elastic.multiprocessing.api import Std
from torch.distributed.run import main

as_installed = Std.from_str


def from_str(text):
    if re.match(r"[0-3]$", text):
        return Std(int(text))
    streams = as_installed(text)  # refuses what is none
    return {rank: Std(int(text.split(",")[i].split(":")[1])) for i, rank in enumerate(streams)}


if Std.from_str("3") is None:
    Std.from_str = from_str

if __name__ == "__main__":
    sys.exit(main())
