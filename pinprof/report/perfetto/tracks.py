"""Tracks as trace events: slices in rows that never overlap, instants, arrows, names.

Perfetto silently drops a slice that begins within another one of its track and ends after it (google/perfetto#4280).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, NamedTuple, TypeAlias

import msgspec

from pinprof.errors import PinprofError
from pinprof.report.words import printable
from pinprof.trace.tables import Int64s

CATEGORY = "pinprof"
"""The category of every event that pinprof adds."""
ARROW = "awaits"

APART_NS = 2
"""Slices of one row are this far apart: Perfetto reads times as doubles of µs, which at times since 1970 (or since the
last quarter) are a nanosecond off, and touching slices would overlap."""

Id: TypeAlias = int | float | str | None


class Arrow(NamedTuple):
    """An arrow from a slice to an event of the trace."""

    pid: Id
    tid: Id
    time_ns: int
    """A time within that event."""


class Label(NamedTuple):
    """The name and args of a slice."""

    name: str
    args: dict[str, Any]
    arrow: Arrow | None = None


@dataclass(frozen=True)
class Track:
    """Slices or instants under one name, sorted by start; if they overlap, they take several rows."""

    name: str
    start_ns: Int64s
    end_ns: Int64s
    describe: Callable[[int], Label] = field(repr=False)
    """Gives the label of a slice by its index."""
    instants: bool = False


def rows_of(start: Int64s, end: Int64s) -> list[int]:
    """Return the row of each slice (sorted by start): the first one in which it does not touch the slice before."""
    free: list[int] = []
    in_use: list[tuple[int, int]] = []
    rows = []
    for begins, ends in zip(start.tolist(), end.tolist(), strict=True):
        while in_use and in_use[0][0] + APART_NS <= begins:
            heappush(free, heappop(in_use)[1])
        row = heappop(free) if free else len(in_use)
        heappush(in_use, (ends, row))
        rows.append(row)
    return rows


def track_events(tracks: Sequence[Track], first: int, room: int) -> Iterator[bytes]:
    """Yield the events of a process `first` with these tracks, whose threads have the numbers behind it."""
    yield from _track_name("process", first, first, "pinprof", -1)
    used = arrows = 0
    for track in tracks:
        rows = rows_of(track.start_ns, track.end_ns)
        count = max(rows, default=-1) + 1
        if used + count >= room:
            raise PinprofError(f"needs more than the {room} tracks that an export can have")
        for row in range(count):
            name = track.name if row == 0 else f"{track.name} ({row + 1})"
            yield from _track_name("thread", first, first + 1 + used + row, name, used + row)
        times = zip(track.start_ns.tolist(), track.end_ns.tolist(), rows, strict=True)
        for number, (start, end, row) in enumerate(times):
            label, tid = track.describe(number), first + 1 + used + row
            head = {"cat": CATEGORY, "name": printable(label.name), "pid": first, "tid": tid, "ts": micros(start)}
            if track.instants:
                yield encoded({"ph": "i", **head, "s": "t", "args": label.args})
                continue
            yield encoded({"ph": "X", **head, "dur": micros(end - start), "args": label.args})
            if label.arrow:
                yield from _arrow(label.arrow, start, end, first, tid, arrows)
                arrows += 1
        used += count


def _arrow(arrow: Arrow, start: int, end: int, pid: int, tid: int, number: int) -> Iterator[bytes]:
    """Yield an arrow that begins in a slice; each end binds to the slice that is open at its time."""
    begins = start + APART_NS
    if begins > min(end, arrow.time_ns):
        return
    common = {"cat": CATEGORY, "name": ARROW, "id": number}
    yield encoded({"ph": "s", **common, "pid": pid, "tid": tid, "ts": micros(begins)})
    yield encoded({"ph": "f", **common, "pid": arrow.pid, "tid": arrow.tid, "ts": micros(arrow.time_ns), "bp": "e"})


def _track_name(what: str, pid: int, tid: int, name: str, index: int) -> Iterator[bytes]:
    """Yield the name of a process or a thread, and its place."""
    common = {"ph": "M", "pid": pid, "tid": tid}
    yield encoded({**common, "name": f"{what}_name", "args": {"name": printable(name)}})
    yield encoded({**common, "name": f"{what}_sort_index", "args": {"sort_index": index}})


def encoded(event: dict[str, Any]) -> bytes:
    """Return an event as JSON."""
    return msgspec.json.encode(event)


def micros(ns: int) -> msgspec.Raw:
    """Return a time in ns as a JSON number of µs, exactly."""
    whole, rest = divmod(abs(ns), 1000)
    return msgspec.Raw(f"{'-' * (ns < 0)}{whole}.{rest:03d}".encode())
