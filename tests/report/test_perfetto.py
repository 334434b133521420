"""The tracks for Perfetto: what they show adds up to what was measured, and Perfetto would leave none of it out."""

import gzip
import io
import os
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from decimal import Decimal
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from perfetto_checker import Event, events_of, loaded, names_of, shown, slices_by_track
from recordings import RECORDINGS, TRACES, analysis_of, each_recording
from trace_builder import TraceBuilder

from pinprof.analysis import Analysis, analyse
from pinprof.details import details_of
from pinprof.measurement.measure import measure
from pinprof.measurement.profile import Profile
from pinprof.report.perfetto import (
    FIRST_ADDED_ID,
    MAX_ADDED_IDS,
    MIN_DRAWN_GAP_NS,
    SLICE_CATEGORY,
    SLICES_APART_NS,
    events,
    tracks_of,
)
from pinprof.trace import Trace, read_trace
from pinprof.trace.reader.append import with_events
from pinprof.trace.reader.unpack import Unpacked

FILES = [str(path.relative_to(TRACES)) for path in RECORDINGS]
MANY = FILES[::3]
"""Recordings, evenly chosen, whose slices are read as Perfetto reads them: a third of a second for each."""
SOME = FILES[::6]
"""Those that are looked at in full."""

ROWS = ("devices", "overlap", "copy_places", "syncs", "loader", "hazards")
"""What a profile has the sums of only."""


class Exported(NamedTuple):
    analysis: Analysis
    original: list[Event]
    data: bytes
    events: list[Event]

    @property
    def trace(self) -> Trace:
        return self.analysis.trace

    @property
    def profile(self) -> Profile:
        return self.analysis.profile

    @property
    def own(self) -> list[Event]:
        """What was added."""
        return self.events[len(self.original) :]

    @property
    def pid(self) -> int:
        return int(self.own[0]["pid"])

    def tracks(self, title: str) -> list[Event]:
        """Return the slices of the tracks whose name has this in it."""
        names = names_of(self.own, self.pid)
        return [event for event in self.own if event["ph"] == "X" and title in names[event["tid"]]]


def exported(path: Path, analysis: Analysis) -> Exported:
    data = path.read_bytes()
    plain = gzip.decompress(data) if path.suffix == ".gz" else data
    written = b"".join(with_events(Unpacked(io.BytesIO(data)), events(analysis), lambda: None))
    return Exported(analysis, events_of(loaded(plain)), written, events_of(loaded(written)))


@cache
def recorded(name: str) -> Exported:
    return exported(TRACES / name, analysis_of(TRACES / name))


Export = Callable[[TraceBuilder], Exported]


@pytest.fixture
def export(tmp_path: Path) -> Export:
    def write(builder: TraceBuilder) -> Exported:
        path = builder.write(tmp_path / "trace.json")
        return exported(path, analyse(read_trace(path)))

    return write


def total_ns(slices: list[Event]) -> int:
    return int(sum(Decimal(event["dur"]) for event in slices) * 1000)


# Every recording


@pytest.mark.parametrize("name", each_recording(MANY, str))
def test_perfetto_shows_every_slice_that_pinprof_adds(name: str) -> None:
    perfetto = recorded(name) if name in SOME else exported(TRACES / name, analysis_of(TRACES / name))
    assert perfetto.events[: len(perfetto.original)] == perfetto.original
    taken = {event.get("pid") for event in perfetto.original} | {event.get("tid") for event in perfetto.original}
    tracks = slices_by_track(perfetto.own)
    for (pid, tid), slices in tracks.items():
        assert pid == perfetto.pid
        assert not {pid, tid} & taken
        assert shown(slices)[1] == []
        for earlier, following in pairwise(slices):
            assert (
                earlier.end + Decimal(SLICES_APART_NS) / 1000 <= following.start
            )  # a nanosecond of rounding changes nothing
    assert {tid for _, tid in tracks} == names_of(perfetto.own, perfetto.pid).keys()


@pytest.mark.parametrize("name", each_recording(SOME, str))
def test_what_is_shown_adds_up_to_what_was_measured(name: str) -> None:
    perfetto = recorded(name)
    details, withheld = perfetto.analysis.details, perfetto.profile.withheld
    stalls = details.syncs.stalls
    expected = {
        "stalls of host thread": 0 if withheld.stalls else int(stalls.stall_ns.sum()),
        "exposed copies": 0 if withheld.overlap else int(details.overlap.exposed_ns.sum()),
    }
    assert {title: total_ns(perfetto.tracks(title)) for title in expected} == expected
    for device, idle in zip(details.devices, details.gaps, strict=True):
        lasts = idle.times.end - idle.times.start
        assert lasts.sum() == device.idle_ns
        slices = perfetto.tracks(f"GPU {device.device}: idle")
        assert total_ns(slices) == (0 if withheld.busy else lasts[lasts >= MIN_DRAWN_GAP_NS].sum())


@pytest.mark.parametrize("name", each_recording(SOME[::4], str))
def test_the_export_measures_as_the_trace_does(name: str, tmp_path: Path) -> None:
    perfetto = recorded(name)
    file, made = tmp_path / "again.json", (TRACES / name).stat()
    file.write_bytes(perfetto.data)
    os.utime(file, ns=(made.st_atime_ns, made.st_mtime_ns))  # sources that are newer are not quoted
    again = read_trace(file)
    own = again.counts.pop(SLICE_CATEGORY)
    assert own == sum(event["ph"] == "X" for event in perfetto.own)
    assert same(measure(again), perfetto.profile)
    rows, before = details_of(again), perfetto.analysis.details
    assert all(same(getattr(rows, name), getattr(before, name)) for name in ROWS)


def same(one: Any, other: Any) -> bool:
    """Return whether two measurements are equal, but for the path of their trace."""
    if is_dataclass(one):
        names = [entry.name for entry in fields(one) if entry.name != "path"]
        return type(one) is type(other) and all(same(getattr(one, name), getattr(other, name)) for name in names)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        return bool(np.array_equal(one, other))
    return bool(one == other or (one != one and other != other))  # noqa: PLR0124  NaN


# What a track shows


def waiting() -> TraceBuilder:
    """Return a trace with a stall from 200 to 520 µs, for a kernel from 110 to 500, and a bubble up to 700."""
    builder = TraceBuilder()
    for number in (0, 1):
        at = 1000 * number
        builder.step(number, at, 990)
        builder.kernel(at + 110, 390, launch=at + 100)
        builder.call("cudaDeviceSynchronize", at + 200, 320)
        builder.copy("HtoD (Pageable -> Device)", at + 700, 100, launch=at + 690, size=200_000)
    return builder


def test_idle_time_has_its_cause_and_exposed_copies_their_reason(export: Export) -> None:
    perfetto = export(waiting())
    assert [event["name"] for event in perfetto.tracks("idle, by cause")] == ["sync_bubble", "host_wait", "sync_bubble"]
    exposed = perfetto.tracks("GPU 0: exposed copies HtoD")[0]
    assert exposed["name"] == "exposed: pageable"
    assert (exposed["args"]["bytes"], float(exposed["args"]["gb_per_s"])) == (200_000, 2.0)


def test_ids_are_those_of_no_thread(export: Export) -> None:
    builder = waiting()
    for thread in (FIRST_ADDED_ID + 3, str(FIRST_ADDED_ID + MAX_ADDED_IDS)):
        builder.events[0] |= {"pid": thread}
        builder.events.append(builder.events[0] | {"tid": thread})
    assert export(builder).pid == FIRST_ADDED_ID + 2 * MAX_ADDED_IDS


HOSTILE = '"}],"traceEvents":[{"ph":"X","name":"\\u0000</script>\x1b[31m\u202e'


def test_names_are_data(export: Export) -> None:
    builder = waiting()
    builder.function(f"{HOSTILE}.py(1): {HOSTILE}", 0, 990)
    builder.op(HOSTILE, 190, 340)
    for event in builder.events:
        if event["cat"] in {"kernel", "gpu_memcpy"}:
            event["name"] += HOSTILE
    perfetto = export(builder)
    assert perfetto.events[: len(perfetto.original)] == perfetto.original
    for event in perfetto.own:
        assert event["name"].isprintable()
        assert all(value.isprintable() for value in event.get("args", {}).values() if isinstance(value, str))


Ranges = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=30)


@given(Ranges)
def test_tracks_hold_slices_that_are_apart(ranges: list[tuple[int, int]]) -> None:
    start = np.array(sorted(begin for begin, _ in ranges), np.int64)
    end = start + np.array([length for _, length in ranges], np.int64)
    tracks = tracks_of(start, end)
    reach: dict[int, int] = {}
    for begin, until, track in zip(start.tolist(), end.tolist(), tracks, strict=True):
        assert reach.get(track, begin - SLICES_APART_NS) + SLICES_APART_NS <= begin
        reach[track] = until
    most = max((int(((start <= time) & (time < end + SLICES_APART_NS)).sum()) for time in start), default=0)
    assert max(tracks, default=-1) + 1 == most  # no more tracks than slices at once
