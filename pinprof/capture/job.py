"""The processes of a distributed job: the rank of this one, its trace, and its exit when stopped."""

import os
import sys
from collections.abc import Mapping
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
    """Return the rank of this process: in its process group, else from the variables of its launcher; None without."""
    return rank_in_group() or rank_in(os.environ)


def rank_in(environment: Mapping[str, str]) -> Rank | None:
    """Return the rank that the variables of a launcher give; None without them."""
    for rank, size in LAUNCHERS:
        with suppress(KeyError, ValueError):
            return Rank(int(environment[rank]), int(environment[size]))
    return None


def rank_in_group() -> Rank | None:
    """Return the rank in the default process group; None as long as there is none. It does not import torch."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return Rank(distributed.get_rank(), distributed.get_world_size())


def path_of_rank(path: Path, rank: int | str) -> Path:
    """Return the path of a rank's own trace: out.json.gz becomes out.rank3.json.gz; "*" stands for all ranks."""
    return _named(path, f"rank{rank}")


def path_of_child(path: Path, number: int) -> Path:
    """Return the path of the trace of a child that is no rank: out.json.gz becomes out.child3.json.gz."""
    return _named(path, f"child{number}")


def _named(path: Path, name: str) -> Path:
    stem, dot, suffixes = path.name.partition(".json")
    return path.with_name(f"{stem}.{name}{dot}{suffixes}")


def leave_job() -> None:
    """Leave the process group that a stopped script left open, which can hang the interpreter's exit."""
    from torch import distributed  # noqa: PLC0415

    if distributed.is_available() and distributed.is_initialized():
        with suppress(RuntimeError, ValueError):
            distributed.destroy_process_group()
