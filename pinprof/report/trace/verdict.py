"""Why the step is as long as it is, in the words that the terminal, the page and JSON share."""

from collections.abc import Iterator
from typing import NamedTuple

from pinprof.measurement.profile import Profile
from pinprof.phrases import LOST
from pinprof.report.trace.headline import host_alone
from pinprof.report.trace.step import busiest, of_step
from pinprof.report.words import at_sites, printable, untold
from pinprof.rules import Finding, Findings, finding_of_verdict
from pinprof.units import duration, percent
from pinprof.verdict import Cost, Verdict

WHY = {
    "launch": "the GPU waits for launches: the host cannot launch kernels as fast as the GPU runs them",
    "python": "the GPU waits for Python: the host runs no op and launches nothing",
    "sync": "the host waits for the GPU, which then runs out of work",
    "copy": "copies between host and GPU take the time, and no kernel hides them",
    "input": "the step waits for input: batches come too slowly",
    "communication": "collectives take the time: they transfer, or wait for other ranks",
    "allocation": "memory is allocated and freed in the step, and the host waits for that",
    "irregular": "steps unlike the others take the time",
    "gpu": "the GPU is the limit: it works nearly all of the time",
}
"""What each cause means."""
MOSTLY_GPU = "the GPU works most of the time, and waits for the host for the rest"
"""The same of a step that a faster GPU would shorten most, and that the host bounds all the same."""
ADVICE = {
    "launch": "launch many kernels at once: torch.compile, CUDA graphs, or larger batches",
    "python": "take what needs no GPU out of the loop, or do it in workers",
    "sync": "make the host wait for the GPU less often",
    "copy": "pin memory, and copy one batch ahead",
    "input": "use more workers, persistent_workers=True, or less work per sample",
    "communication": "report on all ranks of the job: it shows who waits for whom",
    "allocation": "keep shapes constant, and free nothing in the loop",
    "irregular": "do this work less often, or outside of the training loop",
    "gpu": "give the GPU less to do: lower precision, fused kernels (torch.compile), or a smaller model",
}
"""What to do first where no finding tells more."""
ALSO = 0.05
"""Further causes that cost at least this share of the step are named."""
CLEARLY = 1.1
"""A fix that saves this many times the cost of the verdict's cause removes other causes, too."""
HIDDEN = ("host",)
"""Causes that are sums of others."""


class Told(NamedTuple):
    """The verdict in words."""

    headline: str
    evidence: tuple[str, ...]
    do: str
    finding: int | None
    """Place of the finding that the advice is about, from 0."""


def told(profile: Profile, findings: Findings) -> Told | None:
    """Return the verdict on a trace in words; None where it cannot be told."""
    verdict = findings.verdict
    if verdict.cause is None or verdict.step_ns is None:
        return None
    place = finding_of_verdict(findings)
    do = _do(findings, place) if place is not None else _advice(profile, verdict.cause)
    return Told(_headline(verdict, profile), tuple(_evidence(verdict, profile)), do, place)


def shown(verdict: Verdict) -> Iterator[Cost]:
    """Yield the causes that are told apart, the costliest first."""
    return (cost for cost in verdict.costs if cost.cause not in HIDDEN)


def _headline(verdict: Verdict, profile: Profile) -> str:
    cost, step = verdict.cost, verdict.step_ns
    why = MOSTLY_GPU if verdict.cause == "gpu" and profile.bound == "host" else WHY[verdict.cause or ""]
    if verdict.cause == "gpu" or cost is None or not step:
        mean = busiest(profile)
        busy = f" ({of_step(mean.work_ns, mean)} of the {profile.steps.whole})" if mean else ""
        return f"{why}{busy}"
    share = percent(cost.ns / (step + (cost.ns if cost.cause == "irregular" else 0.0)))
    added = "beside a regular one of" if cost.cause == "irregular" else "of"
    low, high = cost.range_ns
    between = f" ({duration(low)} to {duration(high)})" if high > low else ""
    return f"{why}. That costs {duration(cost.ns)}{between} {added} {duration(step)}, {share}"


def _evidence(verdict: Verdict, profile: Profile) -> Iterator[str]:
    step = verdict.step_ns or 1.0
    mean = busiest(profile)
    if mean and verdict.cause != "gpu":
        yield f"the GPU works for {of_step(mean.work_ns, mean)} of the {profile.steps.whole}"
    also = [cost for cost in shown(verdict) if cost.cause not in (verdict.cause, "gpu") and cost.ns >= ALSO * step]
    if also:
        costs = ", ".join(f"{LOST[cost.cause]} {duration(cost.ns)}" for cost in also)
        yield f"other causes, each alone (they overlap): {costs}"


def _do(findings: Findings, place: int) -> str:
    finding = findings[place]
    saving = f"; saves {duration(finding.saving.saving_ns)}" if finding.saving and finding.saving.saving_ns else ""
    saving = saving or (f"; {untold(finding)}" if finding.most_ns else "")
    saving += ", as it removes other causes, too" if removes_more(findings, finding) else ""
    return f"{finding.title}{printable(at_sites(finding))} ({finding.rule.id}){saving}"


def removes_more(findings: Findings, finding: Finding) -> bool:
    """Return whether a fix saves more than the verdict's cause costs, because it removes other causes, too."""
    cost, saving = findings.verdict.cost, finding.saving
    return cost is not None and saving is not None and saving.saving_ns > CLEARLY * cost.ns


def _advice(profile: Profile, cause: str) -> str:
    return (host_alone(profile).rstrip(".") if cause in {"launch", "python"} else "") or ADVICE[cause]
