"""The processes of a distributed job: which of them this is, its own file, and a step after which all stop."""

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

LEAD = 3
"""Steps between the last rank's word that it has recorded and the end: by then all ranks have heard of it."""


class Rank(NamedTuple):
    """One process of a job of `world_size`."""

    rank: int
    world_size: int


def rank_of_process() -> Rank | None:
    """Return which process of a job this is, by the variables that torchrun sets; None without them."""
    try:
        return Rank(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    except (KeyError, ValueError):
        return None


def path_of_rank(path: Path, rank: int) -> Path:
    """Return the name of a rank's own trace: out.json.gz becomes out.rank3.json.gz."""
    stem, dot, suffixes = path.name.partition(".json")
    return path.with_name(f"{stem}.rank{rank}{dot}{suffixes}")


class CommonEnd:
    """Tells each rank of a job, once it has recorded, the step after which all of them stop.

    The windows last for a time, so that ranks are done some steps apart; one that stopped alone would leave the others
    waiting for it in their next collective. They agree through the store by which they found each other, without any
    collective of their own. Meanwhile every rank waits for its GPU at each step, which keeps their counts close.
    """

    def __init__(self) -> None:
        self._told = False

    def reached(self, step: int) -> bool:
        """Return whether to stop after this step, the `step`-th of this rank; always true of a single process."""
        from torch import cuda, distributed  # noqa: PLC0415  a rank's file name is wanted before torch is loaded

        if not (distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1):
            return True
        if cuda.is_initialized():  # type: ignore[no-untyped-call]
            cuda.synchronize()
        store = distributed.distributed_c10d._get_default_store()  # noqa: SLF001  no public name
        try:
            if not self._told:
                self._told = True
                if store.add("pinprof/recorded", 1) == distributed.get_world_size():
                    store.set("pinprof/last step", str(step + LEAD))
            return store.check(["pinprof/last step"]) and step >= int(store.get("pinprof/last step"))
        except RuntimeError:  # the others are gone
            return True


def leave_job() -> None:
    """Leave the process group that a stopped script has left open: at the interpreter's exit that may hang."""
    from torch import distributed  # noqa: PLC0415

    if distributed.is_available() and distributed.is_initialized():
        with suppress(RuntimeError, ValueError):
            distributed.destroy_process_group()
