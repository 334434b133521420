"""How many workers a DataLoader has, and how many it should have."""

from typing import NamedTuple

from pinprof.details import Details

MOST_WORKERS = 8
FEW_WORKERS = 4


class Workers(NamedTuple):
    """The workers of the only DataLoader from which the steps drew; 0: the process makes the batches itself."""

    now: int
    then: int
    """So many the cores have room for; not more than now where the workers share all cores already."""
    cpus: int


def workers_of(details: Details) -> Workers | None:
    """Return how many there are, and how many there should be; None where the trace does not tell."""
    info = details.trace.info
    if not info.made or not info.made.cpus or len(info.made.drawn) != 1:
        return None
    now = info.made.drawn[0].num_workers
    return Workers(now, workers_wanted(now, info.made.cpus, info.world_size or 1), info.made.cpus)


def workers_wanted(now: int, cpus: int, processes: int) -> int:
    """Return how many workers a DataLoader should have of so many cores, which so many processes share."""
    room = max(1, cpus // max(1, processes)) - 1
    wanted = min(room, max(2 * now, FEW_WORKERS))
    return min(wanted, max(MOST_WORKERS, now))
