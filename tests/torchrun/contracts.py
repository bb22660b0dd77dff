# SPDX-License-Identifier: Apache-2.0
"""How frameworks find their rank: contracts.py FRAMEWORK reads the environment by that framework's rules and prints,
as JSON on one line, where it believes to be. The rules are those of the files named below, read in 2026."""

import json
import os
import sys


def first_number(names, otherwise):
    """accelerate: utils/environment.py, get_int_from_env(): the first that is 0 or more."""
    for name in names:
        if int(os.environ.get(name, -1)) >= 0:
            return int(os.environ[name])
    return otherwise


def torch_env():
    """torch: distributed/rendezvous.py, _env_rendezvous_handler(): all four have to be there."""
    return {
        "rank": int(os.environ["RANK"]),
        "size": int(os.environ["WORLD_SIZE"]),
        "local_rank": int(os.environ.get("LOCAL_RANK", -1)),
        "master": f"{os.environ['MASTER_ADDR']}:{int(os.environ['MASTER_PORT'])}",
        # Rank 0 opens the store, unless the launcher says that it has done so.
        "launcher_has_store": os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == str(True),
    }


def deepspeed():
    """deepspeed: comm/comm.py, init_distributed(): with one missing it asks MPI."""
    required = ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK"]
    missing = [name for name in required if name not in os.environ]
    return {"missing": missing} if missing else torch_env()


def accelerate():
    """accelerate: state.py, PartialState, and utils/environment.py, get_cpu_distributed_information()."""
    sizes = ["PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "WORLD_SIZE"]
    if int(os.environ.get("LOCAL_RANK", -1)) == -1 and first_number(sizes, 1) <= 1:
        return {"rank": 0, "size": 1}
    seen = {
        "rank": first_number(["RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK"], 0),
        "size": first_number(["WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE"], 1),
        "local_rank": first_number(
            ["LOCAL_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK"], 0
        ),
        "local_size": first_number(
            ["LOCAL_WORLD_SIZE", "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE"], 1
        ),
    }
    if not os.environ.get("MASTER_ADDR") and seen["size"] != seen["local_size"]:
        raise SystemExit("accelerate: looks like distributed multinode run but MASTER_ADDR is not set")
    seen["master"] = f"{os.environ['MASTER_ADDR']}:{os.environ.get('MASTER_PORT') or 29500}"
    return seen


def lightning():
    """lightning: trainer/connectors/accelerator_connector.py and fabric/plugins/environments/{torchelastic,slurm}.py."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return {
            "environment": "torchelastic",
            "rank": int(os.environ["RANK"]),
            "size": int(os.environ["WORLD_SIZE"]),
            "local_rank": int(os.environ["LOCAL_RANK"]),
            "node_rank": int(os.environ.get("GROUP_RANK", 0)),
            "master": f"{os.environ['MASTER_ADDR']}:{int(os.environ['MASTER_PORT'])}",
        }
    if "SLURM_NTASKS" in os.environ and os.environ.get("SLURM_JOB_NAME") not in ("bash", "interactive"):
        return {
            "environment": "slurm",
            "rank": int(os.environ["SLURM_PROCID"]),
            "size": int(os.environ["SLURM_NTASKS"]),
            "local_rank": int(os.environ["SLURM_LOCALID"]),
        }
    return {"environment": "lightning"}


def megatron():
    """Megatron-LM: megatron/training/arguments.py and initialize.py."""
    return {
        "rank": int(os.getenv("RANK", "0")),
        "size": int(os.getenv("WORLD_SIZE", "1")),
        "local_rank": int(os.getenv("LOCAL_RANK", "0")),
        "master": f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}",
    }


def jax():
    """jax: _src/distributed.py, State.initialize()."""
    ids = os.environ.get("JAX_LOCAL_DEVICE_IDS")
    return {"local_devices": list(map(int, ids.split(","))) if ids else None}


if __name__ == "__main__":
    # One write: the ranks share stdout.
    sys.stdout.write(json.dumps({"contract": sys.argv[1], **globals()[sys.argv[1]]()}) + "\n")
