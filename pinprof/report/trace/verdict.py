"""Why the step is as long as it is, in the words that the terminal, the page and JSON share."""

from collections.abc import Iterator
from typing import NamedTuple

from pinprof.measurement.division import busiest
from pinprof.measurement.known import given
from pinprof.measurement.profile import Profile
from pinprof.report.trace.headline import host_alone, sentence
from pinprof.report.trace.step import of_step
from pinprof.report.words import at_sites, printable
from pinprof.rules import Finding, Findings, finding_of_verdict
from pinprof.trace.tables import DIRECTIONS, DTOH, HTOD
from pinprof.units import between, duration
from pinprof.verdict import BY_HOST, COMMUNICATION, COPY, HOST, LIMITS, Cost, Verdict

LESS_READ = "copy less to the host: compute on the GPU what is read of it"
"""What to do first about copies to the host."""
MEASURE = "pinprof run SCRIPT measures the step without the profiler"
"""How to find out what an estimated step cannot tell: its range is why the causes' ranges hold 0."""
ALL_RANKS = "a report on all ranks of the job shows whether they transfer, or wait for other ranks"
ALSO = 0.05
"""Further causes that cost at least this share of the step are named."""
CLEARLY = 1.1
"""A fix that saves this many times the cost of the verdict's cause removes other causes, too."""


class Told(NamedTuple):
    """The verdict in words."""

    headline: str
    evidence: tuple[str, ...]
    do: str
    finding: int | None
    """Place of the finding that the advice is about, from 0."""


def told(profile: Profile, findings: Findings) -> Told | None:
    """Return the verdict on a trace in words, or between which causes it cannot tell; None where it tells of none."""
    verdict = findings.verdict
    if verdict.cause is None and not verdict.between:
        return None
    place = finding_of_verdict(findings)
    do = _do(findings, place) if place is not None else _advice(profile, verdict)
    return Told(sentence(profile, verdict), tuple(_evidence(verdict, profile)), do, place)


def shown(verdict: Verdict) -> Iterator[Cost]:
    """Yield the causes that are told apart, the costliest first."""
    return (cost for cost in verdict.costs if cost.cause != HOST or cost.cause == verdict.cause)


def _evidence(verdict: Verdict, profile: Profile) -> Iterator[str]:
    step = verdict.step_ns or 1.0
    mean, cost = busiest(profile), verdict.cost
    if cost and verdict.cause != "gpu" and cost.range_ns[1] > cost.range_ns[0]:
        yield f"it may cost {between(*cost.range_ns)}"
    if mean and verdict.cause not in ("gpu", None):
        yield f"the GPU works for {of_step(mean.work_ns, mean)} of the {profile.steps.whole}"
    told = {verdict.cause, "gpu", *(cost.cause for cost in verdict.between)}
    also = [cost for cost in shown(verdict) if cost.cause not in told and cost.ns >= ALSO * step]
    if also:
        costs = ", ".join(f"{LIMITS[cost.cause].lost} {duration(cost.ns)}" for cost in also)
        yield f"other causes, each alone (they overlap): {costs}"


def _do(findings: Findings, place: int) -> str:
    finding = findings[place]
    saving = f"; saves {duration(finding.saving.saving_ns)}" if finding.saving and finding.saving.saving_ns else ""
    saving += ", as it removes other causes, too" if removes_more(findings, finding) else ""
    return f"{finding.title}{printable(at_sites(finding))} ({finding.rule.id}){saving}"


def removes_more(findings: Findings, finding: Finding) -> bool:
    """Return whether a fix saves more than the verdict's cause costs, because it removes other causes, too."""
    cost, saving, place = findings.verdict.cost, finding.saving, finding_of_verdict(findings)
    if cost is None or saving is None or place is None or findings[place] is not finding:
        return False
    return saving.saving_ns > CLEARLY * cost.ns


def _advice(profile: Profile, verdict: Verdict) -> str:
    if verdict.cause is None:
        return how_to_tell(verdict)
    if verdict.cause == COPY:
        return _of_copies(profile)
    return (host_alone(profile).rstrip(".") if verdict.cause in BY_HOST else "") or LIMITS[verdict.cause].advice


def _of_copies(profile: Profile) -> str:
    """Return what to do about the copies that there are: where most of their time goes, and whether any is pageable."""
    times = dict.fromkeys((DIRECTIONS[HTOD], DIRECTIONS[DTOH]), 0)
    for group in profile.copies:
        copied = given(group.copied)
        if copied and group.direction in times:
            times[group.direction] += copied.time_ns
    if times[DIRECTIONS[DTOH]] > times[DIRECTIONS[HTOD]]:
        return LESS_READ
    pageable = any(group.host_memory == "pageable" for group in profile.copies)
    return f"pin memory, {LIMITS[COPY].advice}" if pageable else LIMITS[COPY].advice


def how_to_tell(verdict: Verdict) -> str:
    """Return how to find out which cause costs most, where the trace cannot tell; nothing where it can."""
    ways = [ALL_RANKS] if any(cost.cause == COMMUNICATION for cost in verdict.between) else []
    return "; ".join([*ways, MEASURE]) if verdict.between else ""
