"""The processes of a distributed job: the rank of this one, its trace, and its exit when stopped."""

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class Rank(NamedTuple):
    """One process of a job of `world_size`."""

    rank: int
    world_size: int


LAUNCHERS = ("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE")
"""The environment variables of torchrun, and of mpirun in Open MPI and MPICH."""


def rank_of_process() -> Rank | None:
    """Return the rank of this process from the variables of its launcher; None without them."""
    for rank, size in LAUNCHERS:
        with suppress(KeyError, ValueError):
            return Rank(int(os.environ[rank]), int(os.environ[size]))
    return None


def path_of_rank(path: Path, rank: int | str) -> Path:
    """Return the path of a rank's own trace: out.json.gz becomes out.rank3.json.gz; "*" stands for all ranks."""
    stem, dot, suffixes = path.name.partition(".json")
    return path.with_name(f"{stem}.rank{rank}{dot}{suffixes}")


def leave_job() -> None:
    """Leave the process group that a stopped script left open, which can hang the interpreter's exit."""
    from torch import distributed  # noqa: PLC0415

    if distributed.is_available() and distributed.is_initialized():
        with suppress(RuntimeError, ValueError):
            distributed.destroy_process_group()
