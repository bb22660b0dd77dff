# SPDX-License-Identifier: Apache-2.0
"""torchrun as it is installed, imported once for many command lines: real_torchrun.py SOCKET listens there. A client
sends {"words": ..., "environment": ..., "folder": ...} as a line, gets the pid of a process group in which torchrun runs
with that command line and environment, stdout and stderr in the files "out" and "err" of the folder, and at its end the
exit code.

One fault is mended that torch before 2.1 has under Python 3.11: there, an enum is no longer iterated over its zero and
combined values, and every --redirects and --tee but 1 and 2, the default included, becomes None
(torch/distributed/elastic/multiprocessing/api.py, Std.from_str)."""

import json
import os
import re
import signal
import socket
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


def become_torchrun(request):
    os.environ.clear()
    os.environ.update(request["environment"])
    for number, name in enumerate(("out", "err"), start=1):
        file = os.open(os.path.join(request["folder"], name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, number)
        os.close(file)
    sys.argv[1:] = request["words"]


def requested(client):
    """True in the process that is to be torchrun; the one that waits for it never comes back."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with client, client.makefile("rw") as stream:
        request = json.loads(stream.readline())
        os.setpgid(0, 0)
        child = os.fork()
        if child:
            print(child, os.getpgrp(), file=stream, flush=True)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # for the group; this process has the code to tell
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=stream, flush=True)
            os._exit(0)
    become_torchrun(request)
    return True


def serve(path):
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(64)
        while True:
            client, _ = server.accept()
            if os.fork() == 0:
                server.close()
                return requested(client)
            client.close()


if __name__ == "__main__":
    serve(sys.argv[1])
    sys.exit(main())
