"""Reads an exported trace as Perfetto's importer does, written independently of what wrote it."""

import json
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
        if event["ph"] == "X":
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


def names_of(events: Iterable[Event], pid: int) -> dict[Any, str]:
    """Return the names of the threads of a process."""
    return {
        event["tid"]: event["args"]["name"]
        for event in events
        if event["ph"] == "M" and event["name"] == "thread_name" and event["pid"] == pid
    }
