"""Aligns the clocks of a job's ranks by the collectives in which the ranks meet."""

import re
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pinprof.trace.collectives import Collectives, Meeting
from pinprof.trace.tables import Int64s

ONE_SIDED = re.compile("^(broadcast|_?reduce(?!_scatter)|gather|scatter)")
"""Names of collectives that a rank may leave before all others have entered them."""
AGREED = 90
"""Percentile of the collectives whose ends show how well clocks agree: some end late on a rank for other reasons."""


@dataclass(frozen=True)
class Clocks:
    """How the clocks of all ranks differ from that of the first."""

    add_ns: tuple[int, ...]
    """Per rank: what to add to the times in its trace to get times of the first rank's clock."""
    ahead_ns: tuple[int, ...]
    """Per rank: how far its machine's clock is ahead of the first rank's; 0 where they share no collective."""
    within_ns: float | None
    """The ends of nine in ten collectives agree within this afterwards; None without collectives."""


def align_clocks(tables: Sequence[Collectives], bases_ns: Sequence[int], meetings: Sequence[Meeting]) -> Clocks:
    """Return how the clocks of the ranks differ; there is at least one.

    `bases_ns` is what each trace says its times count from. A collective ends on all its ranks at once. So the clocks
    of two ranks differ by the median difference between the ends of the collectives that they share. A rank that shares
    none with the first rank is reached through ranks that share some with both. Collectives that ranks may leave at
    different times are not used.
    """
    meetings = [meeting for meeting in meetings if not ONE_SIDED.search(_name(tables, meeting))]
    ends = [table.end_ns + (base - bases_ns[0]) for table, base in zip(tables, bases_ns, strict=True)]
    ahead = _ahead(ends, meetings)
    add = [base - bases_ns[0] - off for base, off in zip(bases_ns, ahead, strict=True)]
    return Clocks(tuple(add), tuple(ahead), _spread(ends, ahead, meetings))


def _name(tables: Sequence[Collectives], meeting: Meeting) -> str:
    rank, index = next(iter(meeting.items()))
    return tables[rank].name[index]


def _ahead(ends: Sequence[Int64s], meetings: Sequence[Meeting]) -> list[int]:
    of_ranks: dict[tuple[int, ...], list[Meeting]] = defaultdict(list)
    for meeting in meetings:
        of_ranks[tuple(meeting)].append(meeting)
    circles: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    for circle in of_ranks:
        for rank in circle:
            circles[rank].append(circle)
    ahead = {0: 0}
    waiting = deque([0])
    while waiting:
        known = waiting.popleft()
        for circle in circles[known]:
            for rank in circle:
                if rank not in ahead:
                    apart = [
                        int(ends[rank][meeting[rank]] - ends[known][meeting[known]]) for meeting in of_ranks[circle]
                    ]
                    ahead[rank] = ahead[known] + int(np.median(apart))
                    waiting.append(rank)
    return [ahead.get(rank, 0) for rank in range(len(ends))]


def _spread(ends: Sequence[Int64s], ahead: Sequence[int], meetings: Sequence[Meeting]) -> float | None:
    if not meetings:
        return None
    spreads = []
    for meeting in meetings:
        own = [int(ends[rank][index]) - ahead[rank] for rank, index in meeting.items()]
        spreads.append(max(own) - min(own))
    return float(np.percentile(spreads, AGREED))
