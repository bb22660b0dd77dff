# SPDX-License-Identifier: Apache-2.0
"""A rank that fails under torch's @record. It keeps a copy of what that left: the launcher removes the file at its end."""

import atexit
import os
import shutil

from torch.distributed.elastic.multiprocessing.errors import record


def keep():
    shutil.copy(os.environ["TORCHELASTIC_ERROR_FILE"], os.path.join(os.environ["SHOW"], "error.json"))


@record
def main():
    if os.environ["RANK"] == "1":
        atexit.register(keep)
        raise ValueError("the loss is not a number")


if __name__ == "__main__":
    main()
