"""Counts the slices of a trace that Perfetto leaves out: they begin in another one of their track and end behind it."""

from collections.abc import Iterator

import numpy as np

from pinprof.trace.tables import Int64s, Trace, rows_by

MOST_ROUNDS = 2_000
"""Deeper nesting, or longer chains of slices that each reach into the next, are not counted to the end."""


def hidden_slices(trace: Trace) -> int:
    """Return how many of the slices that pinprof reads Perfetto does not show."""
    return sum(hidden_of(start, end) for start, end in _tracks(trace))


def hidden_of(start: Int64s, end: Int64s) -> int:
    """Return how many slices of one track begin in a shown one and end behind it; any order."""
    order = np.lexsort((-end, start))
    start, end = start[order], end[order]
    hidden = 0
    for _ in range(MOST_ROUNDS):
        if not len(start):
            break
        reach = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(end)[:-1]))
        outer = start >= reach
        around = end[np.maximum.accumulate(np.where(outer, np.arange(len(start)), 0))]
        beyond = ~outer & (start < around) & (end > around)
        hidden += int(beyond.sum())
        rest = ~outer & ~beyond  # within the outer one, or behind it and so far only in a hidden one
        start, end = start[rest], end[rest]
    return hidden


def _tracks(trace: Trace) -> Iterator[tuple[Int64s, Int64s]]:
    """Yield the slices of each host thread and of each track of the GPUs."""
    on_host = (trace.ops, trace.annotations, trace.functions, trace.calls)
    thread, start, end = (
        np.concatenate([getattr(table, column) for table in on_host]) for column in ("thread", "start_ns", "end_ns")
    )
    for rows in rows_by(thread):
        yield start[rows], end[rows]
    for rows in rows_by(trace.gpu.track):
        yield trace.gpu.start_ns[rows], trace.gpu.end_ns[rows]
