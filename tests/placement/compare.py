# SPDX-License-Identifier: Apache-2.0
"""What a placement is worth, as numbers, and the same of rdma-nccl and of its peers on the same machine."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import mean

from machine import Cpus, Machine, Place, our_places
from peers import PEERS, Refused, slurm_masks

OURS = "rdma-nccl"
OURS_BOUND = "rdma-nccl, bound"  # inside what Slurm has bound, against Slurm alone
SLURM = "slurm block:cyclic"
DISTANCE_METRICS = ("gpu_cpu", "gpu_hca")


@dataclass(frozen=True)
class Worth:
    """All but the cores of a rank: less is better. None: nothing is known of it."""

    gpu_cpu: float | None  # of each rank's CPUs 0 near its GPU, 1 in its package, 2 elsewhere; the mean
    gpu_hca: float | None  # as the numbers of DISTANCES, of each rank's first HCA; the mean
    ranks_per_hca: int | None  # the most
    overlap: float  # share of the used CPUs that several ranks have
    idle_cores: int
    least_cores: int  # of a rank
    most_cores: int
    gpus: tuple[int, ...]  # that the ranks drive, in order


def gpu_cpu_distance(machine: Machine, place: Place) -> float | None:
    near: Cpus = machine.gpus[place.gpu].cpus if place.gpu is not None else frozenset()
    if not near or not place.cpus:
        return None
    package = machine.packages_of(near)
    return mean(0 if cpu in near else 1 if cpu in package else 2 for cpu in place.cpus)


def gpu_hca_distance(machine: Machine, place: Place) -> int | None:
    return None if place.gpu is None or place.hca is None else machine.distances[place.gpu][place.hca]


def mean_of_known(values: list) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if known else None


def worth_of(machine: Machine, places: list[Place]) -> Worth:
    uses = Counter(cpu for place in places for cpu in place.cpus)
    cores = [len(machine.cores_of(place.cpus)) for place in places]
    hcas = Counter(place.hca for place in places if place.hca is not None)
    return Worth(
        mean_of_known([gpu_cpu_distance(machine, place) for place in places]),
        mean_of_known([gpu_hca_distance(machine, place) for place in places]),
        max(hcas.values(), default=None),
        sum(count > 1 for count in uses.values()) / len(uses),
        len(machine.cores) - len(machine.cores_of(frozenset(uses))),
        min(cores),
        max(cores),
        tuple(sorted(place.gpu for place in places if place.gpu is not None)),
    )


def compare(command: str, machine: Machine, ranks: int) -> dict[str, Worth | str]:
    """By method; a text says why there is no placement."""
    masks = slurm_masks(machine, ranks)
    worths: dict[str, Worth | str] = {
        OURS: worth_of(machine, our_places(command, machine, ranks)),
        OURS_BOUND: worth_of(machine, our_places(command, machine, ranks, masks)),
    }
    for name, peer in PEERS.items():
        try:
            worths[name] = worth_of(machine, peer(machine, ranks))
        except Refused as reason:
            worths[name] = str(reason)
    return worths


def is_worse(ours: float | None, theirs: float | None) -> bool:
    return ours is not None and theirs is not None and ours > theirs + 1e-9


def pair(worths: dict[str, Worth | str], peer: str, metric: str) -> tuple[float | None, float | None]:
    """rdma-nccl's number and the peer's, None where they do not compare: who leaves far GPUs idle is near to the rest,
    so for distances only the same GPUs do. What Slurm has bound, rdma-nccl keeps, and only changes which GPU a rank
    drives."""
    ours, theirs = worths[OURS_BOUND if peer == SLURM else OURS], worths[peer]
    if isinstance(ours, str) or isinstance(theirs, str):
        return None, None
    if metric in DISTANCE_METRICS and ours.gpus != theirs.gpus:
        return None, None
    return getattr(ours, metric), getattr(theirs, metric)


def worse_distances(worths: dict[str, Worth | str], peer: str) -> list[str]:
    """The distances in which the peer beats rdma-nccl."""
    return [metric for metric in DISTANCE_METRICS if is_worse(*pair(worths, peer, metric))]
