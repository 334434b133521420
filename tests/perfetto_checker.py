"""Reads an exported trace as Perfetto's importer does, written independently of what wrote it."""

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, NamedTuple

Event = dict[str, Any]
Track = tuple[Any, Any]


class Slice(NamedTuple):
    start: Decimal
    end: Decimal
    event: Event


def loaded(data: bytes) -> Any:
    """Return a JSON document whose times are exact."""
    return json.loads(data, parse_float=Decimal)


def events_of(document: Any) -> list[Event]:
    return document if isinstance(document, list) else document["traceEvents"]


def slices_by_track(events: Iterable[Event]) -> dict[Track, list[Slice]]:
    """Return the slices of each track in the order in which Perfetto takes them."""
    tracks: dict[Track, list[Slice]] = defaultdict(list)
    for event in events:
        if event["ph"] in {"X", "i"} and event.get("s", "t") == "t":
            start = Decimal(event["ts"])
            tracks[event["pid"], event["tid"]].append(Slice(start, start + Decimal(event.get("dur", 0)), event))
    for slices in tracks.values():
        slices.sort(key=lambda part: (part.start, -part.end))
    return tracks


def shown(slices: list[Slice]) -> tuple[list[Slice], list[Slice]]:
    """Return the slices that nest, and those that begin in another one and end behind it, which Perfetto drops."""
    stack: list[Slice] = []
    kept, dropped = [], []
    for part in slices:
        while stack and stack[-1].end <= part.start:
            stack.pop()
        if stack and part.end > stack[-1].end:
            dropped.append(part)
            continue
        stack.append(part)
        kept.append(part)
    return kept, dropped


def innermost(nested: list[Slice], time: Decimal) -> Slice | None:
    """Return the innermost of the slices of a track that is open at a time."""
    begun = bisect_right(nested, time, key=lambda part: part.start)
    return next((nested[place] for place in reversed(range(begun)) if time < nested[place].end), None)


def arrows(events: list[Event], category: str) -> list[tuple[Slice, Slice]]:
    """Return the slices at both ends of each arrow, which must be there, in the order of time."""
    tracks = {track: shown(slices)[0] for track, slices in slices_by_track(events).items()}
    ends: dict[tuple[str, int], dict[str, Event]] = defaultdict(dict)
    for event in events:
        if event["ph"] in {"s", "f"} and event.get("cat") == category:
            assert event["ph"] not in ends[event["name"], event["id"]]
            ends[event["name"], event["id"]][event["ph"]] = event
    pairs = []
    for arrow in ends.values():
        begin, end = arrow["s"], arrow["f"]
        assert end["bp"] == "e"
        assert Decimal(begin["ts"]) <= Decimal(end["ts"])
        at = [innermost(tracks[event["pid"], event["tid"]], Decimal(event["ts"])) for event in (begin, end)]
        assert at[0] is not None
        assert at[1] is not None
        pairs.append((at[0], at[1]))
    return pairs


def names_of(events: Iterable[Event], pid: int) -> dict[Any, str]:
    """Return the names of the threads of a process."""
    return {
        event["tid"]: event["args"]["name"]
        for event in events
        if event["ph"] == "M" and event["name"] == "thread_name" and event["pid"] == pid
    }
