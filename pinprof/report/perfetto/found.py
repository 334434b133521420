"""The track of the findings: an instant for each, where it is at its worst."""

from collections.abc import Iterator

import numpy as np

from pinprof.analysis import Analysis
from pinprof.details import Details
from pinprof.report.instances import worst_instance
from pinprof.report.perfetto.tracks import Label, Track
from pinprof.report.words import printable, worth
from pinprof.rules import Finding
from pinprof.trace.tables import Trace


def finding_tracks(analysis: Analysis) -> Iterator[Track]:
    """Yield the track of the findings, if there are any."""
    findings = analysis.findings
    if not findings:
        return
    places = [_begin(analysis.details, finding) for finding in findings]
    elsewhere = _first_step(analysis.trace)
    time = np.array([elsewhere if worst is None else worst for worst in places], np.int64)
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


def _begin(details: Details, finding: Finding) -> int | None:
    """Return when a finding is at its worst, in ns; None if it is about no single wait or copy."""
    worst = worst_instance(details, finding)
    if worst is None:
        return None
    if worst.stall is not None:
        return int(details.trace.calls.start_ns[details.syncs.stalls.call[worst.stall]])
    if worst.copy is not None:
        return int(details.trace.gpu.start_ns[details.overlap.row[worst.copy]])
    return int(details.loader.times.start[worst.input_wait or 0])


def _first_step(trace: Trace) -> int:
    complete = np.flatnonzero(trace.steps.complete)
    if len(complete):
        return int(trace.steps.start_ns[complete[0]])
    return min((int(table.start_ns[0]) for table in (trace.calls, trace.gpu) if len(table)), default=0)
