"""What each limit costs the step, and the one that costs most."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from pinprof.analyses.syncs.causes import WAITS_FOR_COPIES_TO_GPU
from pinprof.details import Details
from pinprof.measurement.profile import Profile, busiest, divide
from pinprof.replay import Replay
from pinprof.replay.settings import RangeNs, middle, range_of
from pinprof.trace.links import step_at
from pinprof.trace.spans.idle_times import long_ops
from pinprof.verdict.step_limits import CAUSES, COPY, GPU, HOST, LAUNCH, LIMITS, PYTHON, LimitName, Rerun

MIN_CAUSE_SHARE_OF_STEP: Final = 0.1
"""If the GPU works for most of the step, a cause that costs less than this share of it does not explain its length."""
SIMILAR_SHARE_OF_LARGEST: Final = 0.9
"""Causes that cost at least this share of the largest count as equal: then the first in the order of `CAUSES` wins,
as those that a line of the program makes come first there."""
MIN_GPU_SHARE_OF_STEP: Final = 0.5
"""Where the GPU works for this share of the step, and nothing else costs much, it is what the step waits for."""
MIN_SURE_SHARE_OF_WORLDS: Final = 0.8  # a cause is named that costs most in this share of the worlds
SURE_GPU_SHARE_OF_STEP: Final = 0.8
"""Where the GPU works for this share of the step, and no other cause is sure, it is the cause."""
MIN_NAMED_SHARE_OF_WORLDS: Final = 0.1
"""A cause that costs most in a smaller share of the worlds is not named among others."""
MIN_COPY_SHARE_OF_COST: Final = 0.5
"""If the time in which only copies run is less than this share of what copies cost, the cost lies in waits for them."""
MAX_POSSIBLE_CAUSES: Final = 3  # causes between which a trace cannot distinguish; all are named


@dataclass(frozen=True)
class LimitCost:
    """What a limit costs a step over the worlds, in ns."""

    cause: LimitName
    ns: float
    range_ns: RangeNs
    share: float  # the share of the worlds in which it costs most


@dataclass(frozen=True)
class Verdict:
    """Why a step is long; times in ns."""

    cause: LimitName | None  # the limit that costs most in nearly all worlds; None where there is none
    step_ns: float | None  # the step without the profiler, whose costs these are
    costs: tuple[LimitCost, ...] = ()  # what each cause costs, the largest first; they overlap and do not add up
    idle: tuple[tuple[LimitName, float], ...] = ()
    """The idle time of the busiest GPU in the step without the profiler, divided among the limits that explain it, the
    largest first; what no limit explains is left out."""
    awaited: float = 0.0
    """Copies to the GPU per step that the host awaits one by one; 0 unless the GPU's idle time after these waits is
    most of what copies cost."""

    @property
    def cost(self) -> LimitCost | None:
        """What the cause costs; None where there is none."""
        return next((cost for cost in self.costs if cost.cause == self.cause), None)

    @property
    def between(self) -> tuple[LimitCost, ...]:
        """If no single cause is sure: the causes, except the GPU's work, that may cost most, the likeliest first."""
        if self.cause is not None:
            return ()
        possible = [cost for cost in self.costs if cost.cause != GPU and cost.share >= MIN_NAMED_SHARE_OF_WORLDS]
        return tuple(sorted(possible, key=lambda cost: -cost.share)[:MAX_POSSIBLE_CAUSES])


NO_VERDICT = Verdict(None, None)


def judge(details: Details, profile: Profile, replay: Replay) -> Verdict:
    """Return the verdict on a trace; `replay` is of it alone."""
    step = replay.step.step_ns
    if profile.withheld.estimate or profile.withheld.step or not step or not replay.runs or not replay.before.step_ns:
        return NO_VERDICT
    costs = costs_of(details, profile, replay)
    by_cause = {cost.cause: cost for cost in costs}
    idle, awaited = _idle_by_limit(profile, by_cause), awaited_copies(details, profile, by_cause[COPY])
    return Verdict(_cause(by_cause, step), step, costs, idle, awaited)


def _cause(costs: Mapping[LimitName, LimitCost], step_ns: float) -> LimitName | None:
    """Return the cause that costs most in nearly all worlds; `HOST` if only its sum with Python and launches does."""
    sure = next((cause for cause, cost in costs.items() if cost.share >= MIN_SURE_SHARE_OF_WORLDS), None)
    if sure is None and sum(costs[cause].share for cause in (PYTHON, LAUNCH, HOST)) >= MIN_SURE_SHARE_OF_WORLDS:
        return HOST
    return sure or (GPU if costs[GPU].ns >= SURE_GPU_SHARE_OF_STEP * step_ns else None)


def _idle_by_limit(profile: Profile, costs: Mapping[LimitName, LimitCost]) -> tuple[tuple[LimitName, float], ...]:
    """Return the idle time of the busiest GPU by limit, in proportion to what each costs beyond the GPU's own work."""
    mean = busiest(profile)
    if mean is None or not mean.idle_ns:
        return ()
    division = divide(profile, mean)
    beyond = {name: max(costs[name].ns - limit.work(division), 0.0) for name, limit in LIMITS.items() if limit.idle}
    by_host = beyond[PYTHON] + beyond[LAUNCH]
    if by_host:  # both may explain the same idle time: together no more than the host does
        beyond |= {name: beyond[name] * min(beyond[HOST] / by_host, 1.0) for name in (PYTHON, LAUNCH)}
    beyond[HOST] = max(beyond[HOST] - by_host, 0.0)
    scale = min(mean.idle_ns / (sum(beyond.values()) or 1.0), 1.0)
    times = ((name, scale * ns) for name, ns in beyond.items() if ns)
    return tuple(sorted(times, key=lambda time: -time[1]))


def costs_of(details: Details, profile: Profile, replay: Replay) -> tuple[LimitCost, ...]:
    """Return what each limit costs the step without the profiler, the largest first; they overlap.

    `replay` must have runs, and be of this trace alone, not of all ranks.
    """
    rerun = Rerun(details, profile, replay)
    costs = {name: limit.cost(name, rerun) for name, limit in LIMITS.items()}
    if profile.launches:  # launches cost at most what their number explains; the rest is ops on the host
        rest = np.maximum(costs[LAUNCH] - profile.launches.many_ns, 0.0)
        trace = details.trace
        ops = long_ops(trace)
        ops = ops[trace.steps.holds(step_at(trace.steps, trace.ops.start_ns[ops]))]
        on_host = float(trace.ops.duration_ns[ops].sum()) / profile.steps.divisor
        costs[LAUNCH] = costs[LAUNCH] - rest
        costs[HOST] = np.maximum(costs[HOST] - np.maximum(rest - on_host, 0.0), 0.0)
    worlds = zip(replay.in_worlds.tolist(), *(costs[name].tolist() for name in CAUSES), strict=True)
    most = [_most(dict(zip(CAUSES, in_world, strict=True)), step) for step, *in_world in worlds]
    rows = (LimitCost(name, middle(ns), range_of(ns), most.count(name) / len(most)) for name, ns in costs.items())
    return tuple(sorted(rows, key=lambda cost: -cost.ns))


def _most(costs: Mapping[LimitName, float], step_ns: float) -> LimitName | None:
    """Return the cause that costs most in one world; None where none costs much."""
    host, gpu = costs[HOST], costs[GPU]
    others = {cause: cost for cause, cost in costs.items() if cause not in (HOST, GPU)}
    most = max(others.values())
    if most >= max(MIN_CAUSE_SHARE_OF_STEP * step_ns, host - others[PYTHON] - others[LAUNCH]):
        return next(cause for cause, cost in others.items() if cost >= SIMILAR_SHARE_OF_LARGEST * most)
    if host >= MIN_CAUSE_SHARE_OF_STEP * step_ns:
        return HOST
    return GPU if gpu >= MIN_GPU_SHARE_OF_STEP * step_ns else None


def awaited_copies(details: Details, profile: Profile, cost: LimitCost) -> float:
    """Return how many copies to the GPU per step the host awaits one by one; 0 where that is not most of their cost.

    `cost` is that of copies. Most of it is due to waits if both hold: copies alone run for less than half of it, and
    after waits for copies the GPU is idle, as traced, for at least the rest.
    """
    mean, syncs = busiest(profile), details.syncs
    if mean is None or not profile.steps.count:
        return 0.0
    alone = divide(profile, mean).copies_ns
    rows = np.flatnonzero(syncs.has_cause(*WAITS_FOR_COPIES_TO_GPU))
    rows = rows[details.trace.steps.holds(syncs.stalls.call_step[rows])]
    idle = float(syncs.stalls.idle_ns[rows].sum()) / profile.steps.count
    if alone >= MIN_COPY_SHARE_OF_COST * cost.ns or idle < cost.ns - alone:
        return 0.0
    return len(np.unique(syncs.stalls.copy[rows])) / profile.steps.count
