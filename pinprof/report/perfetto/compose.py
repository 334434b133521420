"""The events that an export adds to a trace, and sentences on what they do not show."""

from collections.abc import Iterator, Sequence

import numpy as np

from pinprof.analysis import Analysis
from pinprof.measurement.trust.doubt import BUSY, CAUSES, COPIES, DRAIN, FIGURE_KINDS, OVERLAP, STALLS
from pinprof.report.perfetto.slices import (
    SHORT_GAP_NS,
    bubble_tracks,
    counter_events,
    exposed_tracks,
    idle_tracks,
    stall_tracks,
)
from pinprof.report.perfetto.tracks import Label, Track, track_events
from pinprof.report.timeline.steps import shown_numbers, whole_window
from pinprof.report.timeline.worst_instance import worst_instance
from pinprof.report.words import printable, worth
from pinprof.trace.reader.append import ROOM
from pinprof.trace.tables import WHOLE_TRACE, Steps, Trace
from pinprof.units import counted, duration


def events(analysis: Analysis, missing: Sequence[str], first: int) -> Iterator[bytes]:
    """Yield the events, each as JSON: a process `first` with pinprof's tracks, whose threads have the next numbers.

    Times are those of the trace, in µs with three decimals. `missing` are sentences on what is not shown, which become
    events at the start of the trace. Figures that the profile withholds get no slices. Texts of the trace are encoded,
    and never evaluated.
    """
    trace = analysis.trace
    tracks = [*finding_tracks(analysis), *_missing(trace, missing), *_steps_track(trace)]
    tracks += stall_tracks(analysis)
    for gaps in analysis.details.gaps:
        tracks += bubble_tracks(analysis, gaps.device)
        tracks += idle_tracks(analysis, gaps)
        tracks += exposed_tracks(analysis, gaps.device)
    yield from track_events(tracks, first, ROOM - 1)
    for gaps in analysis.details.gaps:
        yield from counter_events(analysis, gaps.device, first)


def _steps_track(trace: Trace) -> Iterator[Track]:
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


def _missing(trace: Trace, missing: Sequence[str]) -> Iterator[Track]:
    if missing and any(map(len, (trace.annotations, trace.ops, trace.calls, trace.gpu))):
        start = np.full(len(missing), whole_window(trace).start_ns)
        yield Track("not in these tracks", start, start, lambda at: Label(missing[at], {}), instants=True)


def finding_tracks(analysis: Analysis) -> Iterator[Track]:
    """Yield the track of the findings, if there are any."""
    findings, steps = analysis.findings, analysis.trace.steps
    if not findings:
        return
    places = [worst_instance(analysis, finding) for finding in findings]
    complete = np.flatnonzero(steps.complete)
    elsewhere = int(steps.start_ns[complete[0]]) if len(complete) else whole_window(analysis.trace).start_ns
    time = np.array([place.marks[0].start_ns if place else elsewhere for place in places], np.int64)
    order = np.argsort(time, kind="stable")

    def describe(at: int) -> Label:
        finding = findings[order[at]]
        args = {
            "severity": finding.severity,
            "evidence": printable(finding.evidence.text),
            "worth": worth(finding, analysis.profile),
            "fix": finding.fix,
            "more": f"pinprof explain {finding.rule.id}",
        }
        if places[order[at]] is None:
            args["shown_at"] = "the first complete step: it has no single place"
        return Label(f"{finding.rule.id} {finding.title}", args)

    yield Track("findings, each at its worst place", time[order], time[order], describe, instants=True)


def notes(analysis: Analysis) -> list[str]:
    """Return what pinprof leaves out and why, and where Perfetto may stop reading the trace."""
    trace, why = analysis.trace, analysis.profile.withheld
    kinds = (STALLS, DRAIN, BUSY, CAUSES, OVERLAP, COPIES)
    lines = [f"not shown: {FIGURE_KINDS[kind]} ({reason.what})" for kind in kinds if (reason := why.reason([kind]))]
    lasts = np.concatenate(
        [gaps.times.end - gaps.times.start for gaps in analysis.details.gaps] or [np.empty(0, np.int64)]
    )
    short = lasts[lasts < SHORT_GAP_NS]
    if len(short) and not analysis.profile.withheld.busy:
        gaps = counted(len(short), "idle gap")
        lines.append(f"not drawn: {gaps} shorter than {duration(SHORT_GAP_NS)}, {duration(int(short.sum()))} in all")
    broken = trace.repaired + trace.skipped.get("malformed", 0)
    if broken:
        are = counted(broken, "event of the trace is", "events of the trace are")
        lines.append(f"{are} not valid JSON; the export keeps them, and Perfetto may stop there")
    return lines
