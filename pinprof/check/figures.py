"""Measures the figures of a trace that have limits, each with its places in the program, or why it is unknown."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pinprof.analyses.copies import EXPOSURES, REASONS
from pinprof.analyses.syncs.causes import WAITS
from pinprof.analyses.syncs.sites import Site, SiteIdentity
from pinprof.analysis import Analysis
from pinprof.check.limits import QUANTITIES, UNIT_MS, UNIT_SHARE, WHOLE_SHARE, Quantity
from pinprof.details import Details
from pinprof.ground.units import counted, duration
from pinprof.measurement.figures import FIGURES, OVERLAP_FRACTION, PAGEABLE_BYTES, STEP_MS, TraceFigure
from pinprof.measurement.profile import Profile
from pinprof.measurement.trust.doubt import MATTERING_SHARE, Doubt, Withheld, given
from pinprof.rules.rule import NEGLIGIBLE_SHARE_OF_STEP, Finding
from pinprof.rules.search import rule_of_exposure, rule_of_wait
from pinprof.rules.sums import Copies, copies_by_place, cost_of_waits, ops_of, within
from pinprof.trace.lines import Place, Placed
from pinprof.trace.tables import DIRECTIONS, HOST_MEMORIES, NONE, PAGEABLE, UNKNOWN, Bools

NO_COMPLETE_STEP = "the trace has no complete step; record more steps, and call profiler.step() once per training step"
WHOLE_TRACE_IS_STEP = "no step was found, so the whole trace counts as one"
NO_RUNTIME_CALLS = "the trace has no runtime calls; record with ProfilerActivity.CPU too"
NO_WORK_IN_STEPS = "no complete step has GPU work; record with ProfilerActivity.CPU and ProfilerActivity.CUDA"
NO_STEP_TIME = "only a recording of pinprof run or pinprof.profile with its plain window has the step without profiler"
NO_HOST_MEMORY = "the trace does not show which copies are of pageable memory, or how large they are"

FIGURE_OF_QUANTITY: Mapping[str, TraceFigure] = {
    key: next(figure for figure in FIGURES if figure.name == quantity.figure) for key, quantity in QUANTITIES.items()
}
"""The figure of each quantity, by its key."""


@dataclass(frozen=True)
class CodePlace(Placed):
    """A place in the program that causes a figure, as far as the trace shows it."""

    file: str | None
    line: int | None
    function: str | None
    rule: str | None
    subject: str
    """The cause without numbers, so that it is the same in another trace of the program."""
    message: str


@dataclass(frozen=True)
class Bounded:
    """A measured figure in the unit of its limit, between `low` and `high`; the two are equal if it is known."""

    low: float
    high: float
    noise: float
    """A smaller difference does not count."""
    note: str = ""
    """Why the figure is unknown, and the remedy; or what is special about it."""
    places: tuple[CodePlace, ...] = ()
    negligible: bool = False
    """Whether it costs too little to matter, so that it keeps every limit."""

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
    """What a check needs of a trace; small, and independent of the trace's tables."""

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
    """Why the trace may not show all waits, and the remedy; empty if it does."""


def measure_figures(analysis: Analysis) -> TraceFigures:
    """Return the figures of a trace; figures per step are sums over the complete steps, divided by their number."""
    details, profile = analysis.details, analysis.profile
    return TraceFigures(
        path=profile.path,
        rank=profile.info.rank,
        world_size=profile.info.world_size,
        devices=frozenset(device.name for device in profile.info.devices if device.name),
        kernels=profile.counts.get("kernel", 0) / profile.steps.count if profile.steps.count else None,
        findings=analysis.findings,
        figures={quantity.key: _figure(analysis, quantity) for quantity in QUANTITIES.values()},
        waits=tuple(_wait(details, profile, site) for site in details.syncs.sites if site.verdict == "hidden"),
        no_waits=_no_waits(details, profile),
    )


def _figure(analysis: Analysis, quantity: Quantity) -> Bounded:
    """Return the figure of a quantity; one bound is open if the trace lacks events that may make it worse.

    A step that was measured without the profiler depends on no event. Figures per step get a note if the whole trace
    counts as one step.
    """
    details, profile, figure = analysis.details, analysis.profile, FIGURE_OF_QUANTITY[quantity.key]
    if figure is STEP_MS:
        bounded = _step(profile, _places(analysis, quantity))
    elif figure is OVERLAP_FRACTION:
        bounded = _overlap(analysis, quantity)
    else:
        bounded = _per_step(analysis, quantity)
    lacks = _lost(profile) or _lacking(details, profile, quantity)
    if lacks and not (figure is STEP_MS and _is_measured(profile)):
        low, high = (0.0, bounded.high) if quantity.at_least else (bounded.low, math.inf)
        bounded = replace(bounded, low=low, high=high, note=lacks, negligible=False)
    if profile.steps.whole == "step" or figure.of_trace or math.isinf(bounded.high):
        return bounded
    return replace(bounded, note="; ".join(filter(None, (bounded.note, WHOLE_TRACE_IS_STEP))))


def _lacking(details: Details, profile: Profile, quantity: Quantity) -> str:
    """Return which events or figures of a quantity the trace lacks, and the remedy; empty if it has all."""
    kinds = quantity.made_of
    unusable = sum(details.trace.skipped_kinds.get(kind, 0) for kind in (*kinds, "unknown")) if kinds else 0
    if unusable:
        remedy = next(entry.remedy for entry in profile.doubts if entry.check == "unusable_events")
        return f"without {counted(unusable, 'unusable event')} that count for it; {remedy}"
    doubt = profile.doubt("waits_apart") if "op" in kinds else None
    needed = (*FIGURE_OF_QUANTITY[quantity.key].withheld_by, *quantity.rests_on)
    return _unfit(doubt or profile.gravest(*(getattr(profile.withheld, kind) for kind in needed)))


def _lost(profile: Profile) -> str:
    """Return what the file has lost that matters to figures, and the remedy; empty if that is too little."""
    unusable = sum(profile.skipped.values()) >= MATTERING_SHARE * max(sum(profile.counts.values()), 1)
    checks = {"truncated", "unusable_events"} if unusable else {"truncated"}
    lost = (entry for entry in profile.doubts if entry.check in checks)
    return next((f"without {entry.what}; {entry.remedy}" for entry in lost), "")


def _no_waits(details: Details, profile: Profile) -> str:
    """Return why the trace may not show all waits, and the remedy; empty if it does."""
    quantity = QUANTITIES["max_hidden_syncs"]
    return _unrecorded(details, profile, quantity) or _lost(profile) or _lacking(details, profile, quantity)


def _unrecorded(details: Details, profile: Profile, quantity: Quantity) -> str:
    if not len(details.trace.gpu):
        entry = next(entry for entry in profile.doubts if entry.check == "no_gpu")
        return f"the trace has {entry.what}; {entry.remedy}"
    return NO_RUNTIME_CALLS if quantity.blames == "hidden waits" and not len(details.trace.calls) else ""


def _unfit(reason: Doubt | None) -> str:
    return f"the trace is not fit for it ({reason.what}); {reason.remedy}" if reason else ""


# The figures


def _per_step(analysis: Analysis, quantity: Quantity) -> Bounded:
    details, profile, figure = analysis.details, analysis.profile, FIGURE_OF_QUANTITY[quantity.key]
    why = _unknown(details, profile, quantity)
    if why:
        return Bounded(0.0, math.inf, quantity.unit.noise, why)
    least = (given(figure.of(profile)) or 0.0) / quantity.unit.times
    more = _perhaps_pageable(details, profile) if figure is PAGEABLE_BYTES else 0.0
    places = _places(analysis, quantity)
    return Bounded(least, least + more, quantity.unit.noise, NO_HOST_MEMORY if more else "", places)


def _unknown(details: Details, profile: Profile, quantity: Quantity) -> str:
    """Return why a sum per step is unknown, and the remedy; empty if it is known."""
    trace, figure = details.trace, FIGURE_OF_QUANTITY[quantity.key].of(profile)
    unrecorded = _unrecorded(details, profile, quantity)
    if unrecorded:
        return unrecorded
    if not profile.steps.count:
        return NO_COMPLETE_STEP
    if not trace.steps.holds(trace.links.activity_step).any():
        return NO_WORK_IN_STEPS
    return _unfit(figure.reason) if isinstance(figure, Withheld) else ""


def _places(analysis: Analysis, quantity: Quantity) -> tuple[CodePlace, ...]:
    details, steps, overlap = analysis.details, analysis.profile.steps.count, analysis.details.overlap
    match quantity.blames:
        case "hidden waits":
            hidden = (site for site in details.syncs.sites if site.verdict == "hidden" and site.in_steps.count)
            return wait_places(details, sorted(hidden, key=lambda site: -site.in_steps.stall_ns))
        case "exposed copies":
            exposed = overlap.counts & (overlap.exposed_ns > 0)
            if FIGURE_OF_QUANTITY[quantity.key].of_trace:
                return copy_places(details, exposed, lambda copies: copies.exposed_ns, None)
            stepped = exposed & _in_complete_steps(details)
            return copy_places(details, stepped, lambda copies: copies.exposed_ns, steps)
        case "pageable copies":
            memory = details.trace.gpu.host_memory[overlap.row]
            pageable = _in_complete_steps(details) & ((memory == PAGEABLE) | (memory == UNKNOWN))
            return copy_places(details, pageable, lambda copies: copies.bytes or 0.0, steps)
        case "findings":
            return finding_places(analysis.findings)


def _in_complete_steps(details: Details) -> Bools:
    """Return for each copy of `Overlap.row` whether a complete step launched it."""
    return details.trace.steps.holds(details.trace.links.activity_step[details.overlap.row])


def _perhaps_pageable(details: Details, profile: Profile) -> float:
    """Return the bytes per step of copies whose host memory is unknown, so perhaps pageable."""
    gpu, row, stepped = details.trace.gpu, details.overlap.row, _in_complete_steps(details)
    memory, size = gpu.host_memory[row], gpu.bytes[row]
    is_unknown = memory == UNKNOWN
    if (stepped & (is_unknown | (memory == PAGEABLE)) & (size == NONE)).any():
        return math.inf
    return int(size[stepped & is_unknown].sum()) / profile.steps.count


def _overlap(analysis: Analysis, quantity: Quantity) -> Bounded:
    details, profile = analysis.details, analysis.profile
    why = _unrecorded(details, profile, quantity) or _unfit(profile.withheld.copies or profile.withheld.overlap)
    sums = given(profile.overlap)
    if why or sums is None:
        return Bounded(0.0, WHOLE_SHARE, UNIT_SHARE.noise, why)
    if sums.fraction is None:
        return Bounded(WHOLE_SHARE, WHOLE_SHARE, UNIT_SHARE.noise, "the trace has no copies")
    steps = profile.steps
    noise = max(UNIT_SHARE.noise, UNIT_MS.noise * UNIT_MS.times * steps.divisor / sums.known_ns)
    exposed_ns = (1 - sums.fraction) * sums.known_ns / steps.divisor
    negligible = exposed_ns < NEGLIGIBLE_SHARE_OF_STEP * (profile.step_ns or 0.0)
    note = f"only {duration(exposed_ns)} {steps.per} are exposed, too little to matter" if negligible else ""
    return Bounded(sums.fraction, sums.fraction, noise, note, _places(analysis, quantity), negligible)


def _step(profile: Profile, places: tuple[CodePlace, ...]) -> Bounded:
    step = profile.estimate
    if step.step_ns is not None and _is_measured(profile):
        value = step.step_ns / UNIT_MS.times
        return Bounded(value, value, UNIT_MS.noise, places=places)
    if step.range_ns is None:
        why = _unfit(profile.withheld.estimate or profile.withheld.step)
        why = why or (NO_STEP_TIME if profile.steps.count else NO_COMPLETE_STEP)
        return Bounded(0.0, math.inf, UNIT_MS.noise, why, places)
    low, high = (bound / UNIT_MS.times for bound in step.range_ns)
    return Bounded(low, high, UNIT_MS.noise, NO_STEP_TIME, places)


def _is_measured(profile: Profile) -> bool:
    return profile.estimate.step_ns is not None and profile.estimate.source != "estimated"


def _wait(details: Details, profile: Profile, site: Site) -> HiddenWait:
    cost = site.in_steps if profile.steps.count else site.total
    idle_ns = 0 if profile.withheld.drain else cost.idle_ns
    cost_ms = max(cost.stall_ns, idle_ns) / profile.steps.divisor / UNIT_MS.times
    return HiddenWait(site.identity, cost_ms, site_place(details, site))


# Places: wait sites, launches of copies, findings


def wait_places(details: Details, sites: Iterable[Site]) -> tuple[CodePlace, ...]:
    """Return the places of sites, in their order; library waits of one line and rule share a place."""
    together: dict[object, list[Site]] = {}
    for number, site in enumerate(sites):
        at = (site.place, _rule(details, site)) if site.library and site.place != Place() else number
        together.setdefault(at, []).append(site)
    return tuple(site_place(details, *members) for members in together.values())


def site_place(details: Details, *sites: Site) -> CodePlace:
    """Return the place of sites, which is that of the first, with their cost per complete step."""
    first = sites[0]
    causes = ", ".join(dict.fromkeys(WAITS[site.cause].label for site in sites))
    return CodePlace(
        *first.place,
        _rule(details, first),
        _subject(sites),
        f"{causes} ({ops_of(sites)}){within(sites)}: {cost_of_waits(details, sites)}",
    )


def _rule(details: Details, site: Site) -> str | None:
    return rule_of_wait(details, int(details.syncs.rows[details.syncs.number(site)][0]))


def _subject(sites: Sequence[Site]) -> str:
    """Return what identifies waits besides their place, without numbers, which differ from run to run."""
    site = sites[0]
    if len(sites) > 1:
        return "waits in libraries"
    library = f" in {site.library.file}:{site.library.function}" if site.library else ""
    return f"{site.cause} {site.op or site.call}{library}"


def finding_places(findings: Iterable[Finding]) -> tuple[CodePlace, ...]:
    """Return the places of findings, in their order, one for each of their sites."""
    return tuple(
        CodePlace(*site.evidence.place, finding.rule.id, finding.rule.title, f"{finding.title}: {site.evidence.text}")
        for finding in findings
        for site in finding.sites
    )


def copy_places(
    details: Details, chosen: Bools, weight: Callable[[Copies], float], steps: int | None
) -> tuple[CodePlace, ...]:
    """Return the places of the chosen copies of `Overlap.row`, the largest weight first, then by first copy.

    It groups copies by place, direction, host memory and the reason why they are exposed. Numbers are per step, or of
    the whole trace if `steps` is None.
    """
    overlap, gpu = details.overlap, details.trace.gpu
    kinds = np.stack((gpu.direction[overlap.row], gpu.host_memory[overlap.row], overlap.reason))
    per = details.steps.per if steps else "in the whole trace"
    gathered = [
        (kind.tolist(), copies)
        for kind in np.unique(kinds[:, chosen], axis=1).T
        for copies in copies_by_place(details, chosen & (kind == kinds.T).all(axis=1), steps or 1, per)
    ]
    gathered.sort(key=lambda pair: (-weight(pair[1]), pair[1].rows[0]))
    return tuple(_copy_place(details, copies, *kind) for kind, copies in gathered)


def _copy_place(details: Details, copies: Copies, direction: int, memory: int, reason: int) -> CodePlace:
    kind = DIRECTIONS[direction], HOST_MEMORIES[memory], REASONS[reason]
    of_memory = f" of {kind[1]} memory" if kind[1] in {"pageable", "pinned"} else ""
    message = f"{kind[0]} copies{of_memory}: {copies.figures} ({EXPOSURES[kind[2]].label})"
    rule = rule_of_exposure(details, kind[2], kind[0])
    return CodePlace(*copies.place, rule, f"{' '.join(kind)} copies", message)
