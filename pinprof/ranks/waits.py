"""Measures which rank reaches the collectives of a job last, and how long the others wait for it."""

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from pinprof.ranks.part import RankPart
from pinprof.ranks.table import CollectiveRow
from pinprof.trace.clocks import Clocks
from pinprof.trace.collectives import Meeting

COLLECTIVES_SHOWN = 10


def measure_waits(
    parts: Sequence[RankPart], numbers: Sequence[int], meetings: Sequence[Meeting], clocks: Clocks
) -> tuple[list[float], list[float], tuple[CollectiveRow, ...]]:
    """Return per rank the time that its collectives waited per step and the share that it reached last, then rows.

    A collective's own time is its time on the last rank, which waits for no other. If the clocks are unknown, the last
    rank is the one with the shortest time, as if the collective ended on all ranks at once.
    """
    tables = [part.profile.communication.collectives for part in parts]
    times = [table.end_ns - table.start_ns for table in tables]
    comes = [
        -took if clocks.within_ns is None else table.start_ns + add
        for table, took, add in zip(tables, times, clocks.add_ns, strict=True)
    ]
    waited, last = [0.0] * len(parts), [0] * len(parts)
    of_place: dict[tuple[str, str, int], list[tuple[int, float, float]]] = defaultdict(list)
    seen: dict[tuple[int, int, str], int] = defaultdict(int)
    for meeting in meetings:
        came = {rank: int(comes[rank][index]) for rank, index in meeting.items()}
        latest = max(came, key=lambda rank: came[rank])
        waits = {rank: min(came[latest] - came[rank], int(times[rank][index])) for rank, index in meeting.items()}
        for rank, time in waits.items():
            waited[rank] += time
        last[latest] += 1
        first = next(iter(meeting))
        table, index = tables[first], meeting[first]
        step = int(table.place[index])
        key = (step, first, table.group[index])
        of_place[table.name[index], table.group[index], seen[key]].append(
            (latest, float(times[latest][meeting[latest]]), float(max(waits.values())))
        )
        seen[key] += 1
    rows = [_collective(*key[:2], found, numbers) for key, found in of_place.items()]
    steps = [part.profile.steps.divisor for part in parts]
    shares = [count / len(meetings) if meetings else 0.0 for count in last]
    costliest = sorted(rows, key=lambda row: -row.waited_ns)[:COLLECTIVES_SHOWN]
    return [time / count for time, count in zip(waited, steps, strict=True)], shares, tuple(costliest)


def _collective(
    name: str, group: str, found: Sequence[tuple[int, float, float]], numbers: Sequence[int]
) -> CollectiveRow:
    (rank, times), *_ = Counter(latest for latest, _, _ in found).most_common(1)
    own, waited = (float(np.mean([each[column] for each in found])) for column in (1, 2))
    return CollectiveRow(name, group, numbers[rank], times / len(found), own, waited)
