#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Distributed data parallel training with PyTorch, small enough to try a cluster with: seconds, and no data set.

Every rank draws its own samples of a known function and trains the same small network on them; DDP averages the
gradients over all ranks (gloo on CPUs, NCCL on GPUs). At the end, the ranks compare their parameters bit by bit.

    python3 examples/ddp.py                                                             # alone
    srun --rdma-nccl --nodes=2 --ntasks-per-node=8 --gpus-per-node=8 python3 examples/ddp.py
    srun --rdma-nccl --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 rdma-nccl run python3 examples/ddp.py
    srun --rdma-nccl --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 torchrun examples/ddp.py

The launcher sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT; without RANK and WORLD_SIZE it runs alone.
Rank 0 prints one line. Exit code: 0 if training succeeded and all ranks agree, 1 if not, 2 for wrong usage.
"""

import argparse
import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--backend", choices=["auto", "gloo", "nccl"], default="auto", help="auto: nccl with GPUs")
    parser.add_argument("--steps", type=int, default=100, help="training steps (%(default)s)")
    parser.add_argument("--timeout", type=int, default=300, help="seconds ranks wait for each other (%(default)s)")
    arguments = parser.parse_args()
    if arguments.steps < 2 or arguments.timeout < 1:
        parser.error("--steps must be 2 or more, --timeout 1 or more")
    if arguments.backend == "auto":
        arguments.backend = "nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
    if arguments.backend == "nccl" and not (torch.cuda.is_available() and dist.is_nccl_available()):
        parser.error("--backend nccl needs a GPU and a PyTorch with NCCL; gloo runs on CPUs")
    if "RANK" not in os.environ and "WORLD_SIZE" not in os.environ:
        os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    missing = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if not os.environ.get(name)]
    if missing:
        parser.error(f"{', '.join(missing)} not set; srun --rdma-nccl, rdma-nccl run and torchrun set them")
    return arguments


def choose_device(backend):
    """LOCAL_RANK i uses the i-th visible GPU; a rank that sees only one GPU uses that."""
    if backend == "gloo":
        return torch.device("cpu")
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    visible = torch.cuda.device_count()
    if local_rank >= visible > 1:
        sys.exit(f"ddp: LOCAL_RANK is {local_rank}, but this rank sees {visible} GPUs only: start fewer ranks per node")
    device = torch.device("cuda", local_rank if visible > 1 else 0)
    torch.cuda.set_device(device)
    return device


def train(device, steps):
    """Returns the trained network, and the first and the last loss averaged over all ranks."""
    torch.manual_seed(dist.get_rank())  # different samples and initial weights on each rank, which DDP must align
    network = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1)).to(device)
    model = DistributedDataParallel(network, device_ids=[device.index] if device.type == "cuda" else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for _ in range(steps):
        x = torch.randn(256, 8, device=device)
        loss = nn.functional.mse_loss(model(x), x.abs().mean(dim=1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    ends = torch.stack([losses[0], losses[-1]])
    dist.all_reduce(ends)
    return network, (ends / dist.get_world_size()).tolist()


def same_everywhere(network):
    """Whether every rank has the same parameters: then the minimum and the maximum of each are equal."""
    least = torch.cat([parameter.detach().flatten() for parameter in network.parameters()])
    greatest = least.clone()
    dist.all_reduce(least, op=dist.ReduceOp.MIN)
    dist.all_reduce(greatest, op=dist.ReduceOp.MAX)
    return bool(torch.isfinite(least).all()) and torch.equal(least, greatest)


def main():
    arguments = read_arguments()
    device = choose_device(arguments.backend)
    dist.init_process_group(arguments.backend, timeout=timedelta(seconds=arguments.timeout))
    network, (first_loss, last_loss) = train(device, arguments.steps)
    same = same_everywhere(network)
    if dist.get_rank() == 0:
        ranks = dist.get_world_size()
        verdict = "the same parameters on all ranks" if same else "PARAMETERS DIFFER BETWEEN RANKS"
        print(
            f"ddp: {ranks} rank{'s' if ranks > 1 else ''}, {arguments.backend} on {device.type}, "
            f"torch {torch.__version__}, loss {first_loss:.4f} -> {last_loss:.4f} after {arguments.steps} steps, "
            f"{verdict}",
            flush=True,
        )
    dist.destroy_process_group()
    return 0 if same and last_loss < first_loss else 1


if __name__ == "__main__":
    sys.exit(main())
