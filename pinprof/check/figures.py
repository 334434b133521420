"""Measures the figures of a trace that have limits, each with its places, or with the reason why it is unknown."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from pinprof.analyses.syncs import Site, SiteIdentity
from pinprof.analysis import Analysis
from pinprof.check.limits import QUANTITIES
from pinprof.check.places import CodePlace, copy_places, finding_places, site_place, wait_places
from pinprof.details import Details
from pinprof.measurement.known import Known, Perhaps, Withheld
from pinprof.measurement.profile import Profile
from pinprof.measurement.trust.doubt import MATTERS, Doubt
from pinprof.rules import NEGLIGIBLE, Finding
from pinprof.trace.tables import NONE, PAGEABLE, UNKNOWN, Bools, Trace
from pinprof.units import NS_PER_MS, counted, duration

NOISE_MS = 0.02
"""Times per step that differ by less count as equal: 20 µs is the launch latency of a copy on a profiled host."""
NOISE_WAITS = 0.1
"""A wait in every tenth step or less may fall into one recording and not into another."""
NOISE_BYTES = 4096.0
"""A page: scalars that are read back or set."""
NOISE_SHARE = 0.01
"""One percent of overlap; more if the copies are so short that `NOISE_MS` is a larger share of them."""

NO_STEPS = "the trace has no complete step; record more steps, and call profiler.step() once per training step"
WHOLE = "no step was found, so the whole trace counts as one"
NO_CALLS = "the trace has no runtime calls; record with ProfilerActivity.CPU too"
NO_WORK = "no complete step of the trace has GPU work; record with ProfilerActivity.CPU and ProfilerActivity.CUDA"
NO_STEP_TIME = (
    "only a recording of pinprof run or pinprof.profile with its plain window tells the step without profiler"
)
NO_HOST_MEMORY = "the trace does not tell pageable from pinned memory, or not how large copies are"

OF_WAITS, OF_COPIES, OF_COPIES_IN_STEPS = ("wait", "op"), ("copy",), ("copy", "wait")
"""Events of which figures are made, as `Trace.skipped_kinds` calls them: the op around a wait tells if it is hidden,
and the call that launches a copy, in which step the copy is."""
MADE_OF: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "max_hidden_syncs": (OF_WAITS, ("step", "per_step", "stalls", "drain")),
    "max_stall_ms": (OF_WAITS, ("step", "per_step", "stalls", "drain")),
    "max_exposed_ms": (OF_COPIES_IN_STEPS, ("step", "per_step", "busy", "overlap")),
    "min_overlap": (OF_COPIES, ("busy", "overlap")),
    "max_pageable_bytes": (OF_COPIES_IN_STEPS, ("step", "per_step", "copies")),
    "max_step_ms": ((), ("step", "estimate")),
}
"""By the key of a quantity: the events that it is made of, and the figures of the report without which it is not known:
rules on waits and copies are silent without these (`RESTS_ON`), and where nothing was searched, nothing is kept."""


T = TypeVar("T")


@dataclass(frozen=True)
class Bounded:
    """A measured figure in the unit of its limit, between `low` and `high`; the two are equal if it is known."""

    low: float
    high: float
    noise: float
    """A smaller difference does not count."""
    note: str = ""
    """Why the figure is unknown, and the way out; or what is special about it."""
    places: tuple[CodePlace, ...] = ()
    negligible: bool = False
    """Whether it costs too little to matter; then it keeps every limit."""

    @property
    def value(self) -> float | None:
        """The figure if it is known, else None."""
        return self.low if self.low == self.high else None


@dataclass(frozen=True)
class HiddenWait:
    """A hidden wait site, by an identity that does not change when lines move."""

    identity: SiteIdentity
    cost_ms: float
    """The larger of its stall and its bubble per step, as far as they are known."""
    place: CodePlace


@dataclass(frozen=True)
class TraceFigures:
    """What a check needs to know about a trace; small, and independent of its tables."""

    path: str
    rank: int | None
    world_size: int | None
    devices: frozenset[str]
    """The recorded names of its GPUs."""
    kernels: float | None
    """About the number per step: all kernels of the trace by its complete steps; None without complete steps."""
    findings: tuple[Finding, ...]
    figures: Mapping[str, Bounded]
    """By the key of the quantity."""
    waits: tuple[HiddenWait, ...]
    no_waits: str
    """Why the trace may not show all waits, and the way out; empty if it does."""


def measure_figures(analysis: Analysis) -> TraceFigures:
    """Return the figures of a trace; figures per step are sums over the complete steps, divided by their number."""
    details, profile = analysis.details, analysis.profile
    hidden = [site for site in details.syncs.sites if site.verdict == "hidden"]
    return TraceFigures(
        path=profile.path,
        rank=profile.info.rank,
        world_size=profile.info.world_size,
        devices=frozenset(device.name for device in profile.info.devices if device.name),
        kernels=profile.counts.get("kernel", 0) / profile.steps.count if profile.steps.count else None,
        findings=analysis.findings,
        figures=_of_whole(
            profile,
            _as_far_as_recorded(
                details.trace,
                profile,
                {
                    **_waits(details, profile, hidden),
                    "max_exposed_ms": _exposed(details, profile),
                    "min_overlap": _overlap(details, profile),
                    "max_pageable_bytes": _pageable(details, profile),
                    "max_step_ms": _step(profile, analysis.findings),
                },
            ),
        ),
        waits=tuple(_wait(details, profile, site) for site in hidden),
        no_waits=_no_waits(details, profile),
    )


def _of_whole(profile: Profile, figures: dict[str, Bounded]) -> dict[str, Bounded]:
    """Return the figures; those per step get a note if the whole trace counts as one step."""
    if profile.steps.whole == "step":
        return figures
    return {
        key: figure
        if key == "min_overlap" or math.isinf(figure.high)
        else replace(figure, note="; ".join(filter(None, (figure.note, WHOLE))))
        for key, figure in figures.items()
    }


def _as_far_as_recorded(trace: Trace, profile: Profile, figures: dict[str, Bounded]) -> dict[str, Bounded]:
    """Return the figures, with one bound open if the trace lacks what may have made a figure worse.

    A step that was measured without the profiler depends on no event.
    """
    measured = {"max_step_ms"} if _is_measured(profile) else set()
    lacks = {key: _lost(profile) or _lacking(trace, profile, key) for key in figures.keys() - measured}
    return {
        quantity.key: _of_a_part(figures[quantity.key], why, at_least=quantity.at_least)
        if (why := lacks.get(quantity.key))
        else figures[quantity.key]
        for quantity in QUANTITIES
    }


def _lacking(trace: Trace, profile: Profile, key: str) -> str:
    """Return which events of a quantity, or which figures, the trace lacks, and the way out; empty if it has all."""
    kinds, needed = MADE_OF[key]
    unusable = sum(trace.skipped_kinds.get(kind, 0) for kind in (*kinds, "unknown")) if kinds else 0
    if unusable:
        remedy = next(entry.remedy for entry in profile.doubts if entry.check == "unusable_events")
        return f"without {counted(unusable, 'unusable event')} of which it is made; {remedy}"
    apart = next((entry for entry in profile.doubts if entry.check == "waits_apart"), None)
    if kinds == OF_WAITS and apart:
        return _unfit(apart) or ""
    reason = profile.gravest(*(getattr(profile.withheld, figure) for figure in needed))
    return _unfit(reason) or ""


def _of_a_part(figure: Bounded, why: str, *, at_least: bool) -> Bounded:
    low, high = (0.0, figure.high) if at_least else (figure.low, math.inf)
    return replace(figure, low=low, high=high, note=why, negligible=False)


def _lost(profile: Profile) -> str:
    """Return what the file has lost that matters to figures, and the way out; empty if that is too little."""
    unusable = sum(profile.skipped.values()) >= MATTERS * max(sum(profile.counts.values()), 1)
    checks = {"truncated", "unusable_events"} if unusable else {"truncated"}
    lost = (entry for entry in profile.doubts if entry.check in checks)
    return next((f"without {entry.what}; {entry.remedy}" for entry in lost), "")


def _no_waits(details: Details, profile: Profile) -> str:
    """Return why the trace may not show all waits, and the way out; empty if it does."""
    if len(details.trace.gpu) == 0:
        return _no_gpu(profile)
    if len(details.trace.calls) == 0:
        return NO_CALLS
    return _lost(profile) or _lacking(details.trace, profile, "max_hidden_syncs")


def _no_gpu(profile: Profile) -> str:
    entry = next(entry for entry in profile.doubts if entry.check == "no_gpu")
    return f"the trace has {entry.what}; {entry.remedy}"


def _unfit(reason: Doubt | None) -> str | None:
    """Return why a figure is withheld, and the way out; None if it is known."""
    return f"the trace is not fit for it ({reason.what}); {reason.remedy}" if reason else None


def _no_sums(details: Details, profile: Profile, sums: Perhaps[T] | None) -> str:
    """Return why these sums per step are unknown."""
    if len(details.trace.gpu) == 0:
        return _no_gpu(profile)
    if not profile.steps.count:
        return NO_STEPS
    if not details.trace.steps.holds(details.trace.links.activity_step).any():
        return NO_WORK
    return _unfit(profile.withheld.per_step or (sums.reason if isinstance(sums, Withheld) else None)) or NO_STEPS


def _waits(details: Details, profile: Profile, hidden: list[Site]) -> dict[str, Bounded]:
    sums = profile.sums.waits if profile.sums else None
    if not _has_work(details) or not isinstance(sums, Known) or len(details.trace.calls) == 0:
        why = NO_CALLS if len(details.trace.gpu) and not len(details.trace.calls) else _no_sums(details, profile, sums)
        return {
            "max_hidden_syncs": Bounded(0.0, math.inf, NOISE_WAITS, why),
            "max_stall_ms": Bounded(0.0, math.inf, NOISE_MS, why),
        }
    ordered = sorted((site for site in hidden if site.in_steps.count), key=lambda site: -site.in_steps.stall_ns)
    places = wait_places(details, ordered)
    stall_ms = sums.value.hidden_stall_ns / NS_PER_MS
    return {
        "max_hidden_syncs": Bounded(sums.value.hidden, sums.value.hidden, NOISE_WAITS, places=places),
        "max_stall_ms": Bounded(stall_ms, stall_ms, NOISE_MS, places=places),
    }


def _has_work(details: Details) -> bool:
    """Return whether a complete step has GPU work."""
    return bool(details.trace.steps.holds(details.trace.links.activity_step).any())


def _in_complete_steps(details: Details) -> Bools:
    """Return for each copy of `Overlap.row` whether a complete step launched it."""
    return details.trace.steps.holds(details.trace.links.activity_step[details.overlap.row])


def _exposed(details: Details, profile: Profile) -> Bounded:
    sums = profile.sums.exposed_ns if profile.sums else None
    if not _has_work(details) or not isinstance(sums, Known):
        return Bounded(0.0, math.inf, NOISE_MS, _no_sums(details, profile, sums))
    exposed = details.overlap.exposed_ns
    stepped = _in_complete_steps(details) & details.overlap.counts
    value = sums.value / NS_PER_MS
    places = copy_places(details, stepped & (exposed > 0), exposed, profile.steps.count)
    return Bounded(value, value, NOISE_MS, places=places)


def _overlap(details: Details, profile: Profile) -> Bounded:
    if len(details.trace.gpu) == 0:
        return Bounded(0.0, 1.0, NOISE_SHARE, _no_gpu(profile))
    why = _unfit(profile.withheld.copies)
    if why or isinstance(profile.overlap, Withheld):
        return Bounded(0.0, 1.0, NOISE_SHARE, why or _unfit(profile.withheld.overlap) or "")
    rows, sums = details.overlap, profile.overlap.value
    if sums.fraction is None:
        return Bounded(1.0, 1.0, NOISE_SHARE, "the trace has no copies")
    noise = max(NOISE_SHARE, NOISE_MS * NS_PER_MS * profile.steps.divisor / sums.known_ns)
    places = copy_places(details, (rows.exposed_ns > 0) & rows.counts, rows.exposed_ns, None)
    exposed_ns = (1 - sums.fraction) * sums.known_ns / profile.steps.divisor
    negligible = exposed_ns < NEGLIGIBLE * (profile.step_ns or 0.0)
    note = f"only {duration(exposed_ns)} {profile.steps.per} are exposed, too little to matter" if negligible else ""
    return Bounded(sums.fraction, sums.fraction, noise, note, places, negligible)


def _pageable(details: Details, profile: Profile) -> Bounded:
    sums = profile.sums.pageable_bytes if profile.sums else None
    if not _has_work(details) or not isinstance(sums, Known):
        return Bounded(0.0, math.inf, NOISE_BYTES, _no_sums(details, profile, sums))
    gpu, steps, stepped = details.trace.gpu, profile.steps.count, _in_complete_steps(details)
    memory, size = gpu.host_memory[details.overlap.row], gpu.bytes[details.overlap.row]
    sized, pageable, perhaps = size != NONE, memory == PAGEABLE, memory == UNKNOWN
    unsized = bool((stepped & (pageable | perhaps) & ~sized).any())
    more = math.inf if unsized else int(size[stepped & perhaps].sum()) / steps
    least = sums.value or 0.0
    return Bounded(
        least,
        least + more,
        NOISE_BYTES,
        note=NO_HOST_MEMORY if more else "",
        places=copy_places(details, stepped & (pageable | perhaps), np.where(sized, size, 0), steps),
    )


def _step(profile: Profile, findings: tuple[Finding, ...]) -> Bounded:
    step, places = profile.estimate, finding_places(findings)
    if step.step_ns is not None and _is_measured(profile):
        value = step.step_ns / NS_PER_MS
        return Bounded(value, value, NOISE_MS, places=places)
    if step.range_ns is None:
        why = _unfit(profile.withheld.estimate or profile.withheld.step) or (
            NO_STEP_TIME if profile.steps.count else NO_STEPS
        )
        return Bounded(0.0, math.inf, NOISE_MS, why, places=places)
    low, high = (bound / NS_PER_MS for bound in step.range_ns)
    return Bounded(low, high, NOISE_MS, NO_STEP_TIME, places=places)


def _is_measured(profile: Profile) -> bool:
    return profile.estimate.step_ns is not None and profile.estimate.source != "estimated"


def _wait(details: Details, profile: Profile, site: Site) -> HiddenWait:
    cost = site.in_steps if profile.steps.count else site.total
    idle_ns = 0 if profile.withheld.drain else cost.idle_ns
    return HiddenWait(
        site.identity, max(cost.stall_ns, idle_ns) / profile.steps.divisor / NS_PER_MS, site_place(details, site)
    )
