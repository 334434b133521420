"""All events that an export adds to a trace."""

from collections.abc import Iterator, Sequence

import numpy as np

from pinprof.analysis import Analysis
from pinprof.report.perfetto.found import finding_tracks
from pinprof.report.perfetto.gpu import counter_events, exposed_tracks, idle_tracks
from pinprof.report.perfetto.tracks import CATEGORY, Label, Track, track_events
from pinprof.report.perfetto.waits import bubble_tracks, stall_tracks
from pinprof.report.timeline.names import shown_numbers
from pinprof.report.words import printable
from pinprof.trace.insert import ROOM
from pinprof.trace.tables import WHOLE_TRACE, Steps, Trace

__all__ = ["CATEGORY", "events"]


def events(analysis: Analysis, said: Sequence[str], first: int) -> Iterator[bytes]:
    """Yield the events, each as JSON: a process `first` with pinprof's tracks, whose threads have the next numbers.

    Times are those of the trace, in µs with three decimals. `said` is what is not to be seen, which is said at the
    start of the trace. Nothing that the profile withholds is made into a slice. Texts of the trace are encoded, and
    never read as anything else.
    """
    trace = analysis.trace
    tracks = [*finding_tracks(analysis), *_said(trace, said), *_steps(trace)]
    tracks += stall_tracks(analysis)
    for gaps in analysis.details.gaps:
        tracks += bubble_tracks(analysis, gaps.device)
        tracks += idle_tracks(analysis, gaps)
        tracks += exposed_tracks(analysis, gaps.device)
    yield from track_events(tracks, first, ROOM - 1)
    for gaps in analysis.details.gaps:
        yield from counter_events(analysis, gaps.device, first)


def _steps(trace: Trace) -> Iterator[Track]:
    """Yield the track of the steps: in a trace with Python stacks Perfetto leaves out most of the profiler's marks."""
    steps = trace.steps
    if steps.source == WHOLE_TRACE:
        return

    numbers = shown_numbers(trace)

    def describe(at: int) -> Label:
        where = "host" if steps.on_host else "GPU"
        return Label(
            f"step {numbers[at]}", {"marked_by": printable(steps.marker), "on": where} | _whether_cut(steps, at)
        )

    yield Track("steps", steps.start_ns, steps.end_ns, describe)


def _whether_cut(steps: Steps, at: int) -> dict[str, str]:
    if steps.complete[at]:
        return {}
    is_unlike = steps.unlike is not None and steps.unlike[at]
    return {"unlike_the_others" if is_unlike else "cut_off": "not measured"}


def _said(trace: Trace, said: Sequence[str]) -> Iterator[Track]:
    tables = [table for table in (trace.annotations, trace.ops, trace.calls, trace.gpu) if len(table)]
    if said and tables:
        start = np.full(len(said), min(int(table.start_ns[0]) for table in tables))
        yield Track("not in these tracks", start, start, lambda at: Label(said[at], {}), instants=True)
