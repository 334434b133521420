"""The track of the findings: an instant for each, where it is at its worst."""

from collections.abc import Iterator

import numpy as np

from pinprof.analyses.overlap import REASONS
from pinprof.analyses.syncs import CAUSES
from pinprof.analysis import Analysis
from pinprof.report.perfetto.tracks import Label, Track
from pinprof.report.words import printable, worth
from pinprof.rules import Finding
from pinprof.rules.rule import Evidence
from pinprof.trace.tables import DIRECTIONS, Trace


def finding_tracks(analysis: Analysis) -> Iterator[Track]:
    """Yield the track of the findings, if there are any."""
    findings = analysis.findings
    if not findings:
        return
    places = [worst_instance(analysis, finding) for finding in findings]
    elsewhere = _first_step(analysis.trace)
    time = np.array([elsewhere if worst is None else worst for worst in places], np.int64)
    order = np.argsort(time, kind="stable")

    def describe(at: int) -> Label:
        finding = findings[order[at]]
        args = {
            "severity": finding.severity,
            "evidence": printable(finding.evidence.text),
            "worth": worth(finding, analysis.profile),
            "fix": finding.rule.fix,
            "more": f"pinprof explain {finding.rule.id}",
        }
        if places[order[at]] is None:
            args["shown_at"] = "the first complete step: it has no single place"
        return Label(f"{finding.rule.id} {finding.rule.title}", args)

    yield Track("findings, each at its worst place", time[order], time[order], describe, instants=True)


def worst_instance(analysis: Analysis, finding: Finding) -> int | None:
    """Return when a finding is at its worst, in ns; None if it is about no single wait or copy."""
    rule, evidence = finding.rule, finding.evidence
    stalls = analysis.details.syncs.stalls
    waits = [
        row
        for row in np.flatnonzero(~stalls.profiler).tolist()
        if CAUSES[analysis.details.syncs.cause[row]] in rule.causes and _is_at_site(analysis, row, evidence)
    ]
    if waits:
        worst = max(waits, key=lambda row: (int(stalls.bubble_ns[row]), int(stalls.stall_ns[row])))
        return int(analysis.trace.calls.start_ns[stalls.call[worst]])
    overlap = analysis.details.overlap
    copies = [
        number
        for number in np.flatnonzero(overlap.exposed_ns > 0).tolist()
        if (REASONS[overlap.reason[number]], DIRECTIONS[analysis.trace.gpu.direction[overlap.row[number]]])
        in rule.exposures
        and _is_copied_at(analysis, number, evidence)
    ]
    if copies:
        worst = max(copies, key=lambda number: int(overlap.exposed_ns[number]))
        return int(analysis.trace.gpu.start_ns[overlap.row[worst]])
    return None


def _is_at_site(analysis: Analysis, row: int, evidence: Evidence) -> bool:
    site = analysis.details.syncs.sites[analysis.details.syncs.site[row]]
    return evidence.function is None or site.place == evidence.place


def _is_copied_at(analysis: Analysis, number: int, evidence: Evidence) -> bool:
    place = analysis.details.copy_places[number]
    if evidence.function is None:
        return True
    return place is not None and (place.file, place.function) == (evidence.file, evidence.function)


def _first_step(trace: Trace) -> int:
    complete = np.flatnonzero(trace.steps.complete)
    if len(complete):
        return int(trace.steps.start_ns[complete[0]])
    return min((int(table.start_ns[0]) for table in (trace.calls, trace.gpu) if len(table)), default=0)
