# SPDX-License-Identifier: Apache-2.0
"""Bandwidth and latency of a link as `rdma-nccl pairs` measures them, against perftest on the same link: two virtual
machines with two HCAs each, of Soft-RoCE. $VM_LAB names a lab that is up."""

from __future__ import annotations

import json
import os
import re
import statistics
import sys
from contextlib import suppress

from measure import TESTS, LeftOut, in_turns, line

sys.path[:0] = [os.path.join(TESTS, "vm"), os.path.join(TESTS, "common")]

TURNS = 7
RAILS = (1, 2)
SECONDS = 4
ROUND_TRIPS = 2000
SIZE = 1 << 20
QUEUE_PAIRS = 1  # perftest loses packets with several on Soft-RoCE, and fails
DEPTH = 16
TIMEOUT = "16"  # as ours on Soft-RoCE
PERFTEST = re.compile(r"^ *(\d+) +(\d+) +([\d.]+) +([\d.]+)\s+([\d.]+)", re.M)
COUNTER = "/sys/class/infiniband/mlx5_{}/ports/1/hw_counters/sent_pkts"
PACKET = 4096  # the path MTU of these links
PATIENCE = 60


def bench_pairs(_folder: str) -> None:
    if os.geteuid() != 0:
        raise LeftOut("virtual machines need root")
    from images import CannotBeHad  # pylint: disable=import-outside-toplevel
    from testbed import Lab  # pylint: disable=import-outside-toplevel

    try:
        lab = Lab("bookworm")
    except (CannotBeHad, RuntimeError) as reason:
        raise LeftOut(str(reason)) from None
    try:
        _favour(lab)
        lab.reset()
        for rail in RAILS:
            _bench_rail(lab, rail)
    finally:
        lab.down()


def _favour(lab) -> None:
    """What else this machine does takes little from the guests and their switch: they are a session of their own
    (sched(7), autogroups). Nothing is lost where the kernel has none."""
    with suppress(OSError), open(f"/proc/{lab.state.first_process().pid}/autogroup", "w", encoding="ascii") as file:
        file.write("-10")


def _bench_rail(lab, rail: int) -> None:
    shares: list[float] = []

    def bandwidth() -> float:
        before = _sent(lab, rail)
        result = _verbs_pair(lab, rail, "forward")
        shares.append((_sent(lab, rail) - before) * PACKET / result["bytes"])
        return result["gbps"]

    name = f"mlx5_{rail - 1}"
    ours, peer = in_turns(TURNS, bandwidth, lambda: _write_bw(lab, rail))
    _report(f"write bandwidth of {name}, 1 MiB", ours, peer, "Gb/s", ">= 0.98")
    line(f"counters of {name} over bytes sent", f"{statistics.median(shares):.3f}", "", "", "0.9 to 1.1")
    ours, peer = in_turns(TURNS, lambda: _verbs_pair(lab, rail, "latency")["median"], lambda: _write_lat(lab, rail))
    _report(f"write latency of {name}, 8 bytes", ours, peer, "us", "<= 1.05")


def _report(what: str, ours: list[float], peer: list[float], unit: str, budget: str) -> None:
    mine, others = statistics.median(ours), statistics.median(peer)
    line(what, f"{mine:.3g} {unit}", f"perftest {others:.3g} {unit}", f"{mine / others:.3f}", budget)
    if os.environ.get("VERBOSE"):
        print("   ", *(f"{a:.3g}/{b:.3g}" for a, b in zip(ours, peer)), flush=True)


def _sent(lab, rail: int) -> int:
    return int(lab.read("n02", COUNTER.format(rail - 1)))


def _verbs_pair(lab, rail: int, step: str) -> dict:
    """What n02, which sends, saw of it."""
    options = [f"hca=mlx5_{rail - 1}", f"steps={step}", f"size={SIZE}", f"qps={QUEUE_PAIRS}", f"depth={DEPTH}"]
    options += [f"seconds={SECONDS if step == 'forward' else 30}", f"round_trips={ROUND_TRIPS}"]
    program = ["verbs-pair", "listen", str(lab.next_port()), *options]
    serving = lab.start("n01", *program)
    said = lab.good("n02", "verbs-pair", f"10.77.{rail}.1", program[2], *options)
    serving.wait(PATIENCE)
    return json.loads(said)


def _write_bw(lab, rail: int) -> float:
    # It measures from the end of the margin on, and stops that much before the end.
    options = ["-s", str(SIZE), "-q", str(QUEUE_PAIRS), "-t", str(DEPTH), "-D", str(SECONDS), "--report_gbits"]
    return float(_perftest(lab, rail, "ib_write_bw", *options)[4])


def _write_lat(lab, rail: int) -> float:
    return float(_perftest(lab, rail, "ib_write_lat", "-s", "8", "-n", str(ROUND_TRIPS))[5])


def _perftest(lab, rail: int, program: str, *options: str) -> re.Match:
    """What it prints on n02, which sends: size, iterations, then peak and average, or minimum, maximum, median."""
    port = str(lab.next_port())
    command = [program, "-F", "-d", f"mlx5_{rail - 1}", "-x", "1", "-u", TIMEOUT, "-p", port, *options]
    serving = lab.start("n01", *command)
    lab.good("n01", "lab-agent", "await-port", port, "20")
    said = lab.good("n02", *command, f"10.77.{rail}.1")
    serving.wait(PATIENCE)
    if not (found := PERFTEST.search(said)):
        raise RuntimeError(f"{program} printed:\n{said}")
    return found
