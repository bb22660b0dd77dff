# SPDX-License-Identifier: Apache-2.0
"""The process that stays of a test bed, its keeper: started, and given up when the start fails."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from state import TestBedError


Keep = Callable[[socket.socket, list[int]], None]


@contextmanager
def new_keeper(keep: Keep, owner: int | None) -> Iterator[tuple[int, socket.socket]]:
    """Calls keep(channel, watched) in a child; yields its pid and our end of the channel.

    When the body succeeds, the keeper is sent one byte, and does without us from there on. When the body fails, or this
    process ends before, the channel closes: the keeper then has to clean up and end, as when the owner is gone.
    `watched` are the descriptors that it can poll for that: the channel, and the owner's pidfd.
    """
    watched = [] if owner is None else [_open_owner(owner)]
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        try:
            keep(theirs, [theirs.fileno(), *watched])
        except BaseException as error:
            print(f"keeper: {error!r}", file=sys.stderr, flush=True)
        finally:
            os._exit(1)
    try:
        theirs.close()
        yield pid, ours
    except BaseException:
        ours.close()
        os.waitpid(pid, 0)
        raise
    ours.send(b".")
    ours.close()


def _open_owner(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        raise TestBedError(f"--owner {pid}: {error.strerror}") from None
