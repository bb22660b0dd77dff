#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: late_signals.py CODE[,CODE] COMMAND...: runs a command with a program that exits with 85, and sends it SIGTERM
until it has ended, as srun does with the tasks of a step in which one has failed. Fails if it ends with another code, or
by a signal, as its exit code then is not its program's."""

import os
import signal
import subprocess
import sys

for _ in range(40):
    program = ["bash", "-c", "trap '' TERM; echo ready; exit 85"]
    with subprocess.Popen([*sys.argv[2:], *program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
        assert "ready" in run.stdout.readline()
        while run.poll() is None:
            os.kill(run.pid, signal.SIGTERM)
    if str(run.returncode) not in sys.argv[1].split(","):
        sys.exit(f"exit code {run.returncode}")
