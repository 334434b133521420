"""Takes the profiler's own cost out of the host's time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, Literal, TypeAlias

import numpy as np
from msgspec import structs

from pinprof.intervals import covered
from pinprof.replay.machine import ProfilerCost, pace
from pinprof.replay.program import STAGED, Call, Floats, Program
from pinprof.trace.phases import optimizer_steps
from pinprof.trace.sampled_stacks import HostFrame, HostProfile
from pinprof.trace.tables import Trace
from pinprof.units import NS_PER_MS

KEEP = 0.2
"""At least this share of the host's time before a call is its own: with stacks, whole steps took up to 2.7 times as
long as without a profiler."""
USUAL_NS = 1_600.0
"""What a profiler costs per recorded op and call on a fast H200 machine, if the recording does not show it: near the
median of the costs that fit 57 recordings of 27 programs."""
Way: TypeAlias = Literal["plain", "memory", "stacks"]
"""How a trace was recorded: with Python functions, with allocations only, or with neither."""
HOST_SHARE: Final[dict[Way, float]] = {"plain": 0.33, "memory": 0.42, "stacks": 0.44}
"""What a profiler costs, as a share of the host's time per recorded op and call, where launches do not scatter: medians
of the costs that fit the measured steps of the recordings in traces/estimates.json (scripts/fit_calibration.py). A slow
host slows the profiler too. The share grows with `Program.launch_spread`: a host that does other work besides while it
records adds time that the step without the profiler does not have."""
RARE = 90
"""Percentile of the calls, by host time per op and call: what they take beyond it is the program's own work."""
LEAST_LAUNCHES, MOST_LAUNCHES = 0.2, 1.2
"""The cost is kept between these shares of the median launch: all but a few of the same recordings lie between them."""
BOUNDS = 0.9, 1.1
"""The least and the most that a profiler may have cost, in times of what is expected."""
UNSURE, SLOW_UNSURE, ERRORS = 0.1, 0.04, 2.0
"""How far an estimate may be off: `UNSURE` of the step on a host whose launches take `FAST_LAUNCH_NS`, `SLOW_UNSURE`
more for each further `FAST_LAUNCH_NS`, and `ERRORS` standard errors of the recorded steps. With the bounds above this
is the narrowest such range that holds 88 % of 283 measured steps (scripts/fit_calibration.py)."""
NOISE, SLOW_NOISE, FAST_LAUNCH_NS = 0.05, 0.04, 4_000.0
"""Two runs of a program differ by `NOISE` of the step on a host whose launches take `FAST_LAUNCH_NS`, and by
`SLOW_NOISE` more for each further `FAST_LAUNCH_NS`: windows of 0.25 s of one run scattered by 3 % on hosts whose
launches take 4 us, and by 20 % on those with 7 to 9 us."""
MUCH = 0.2
"""If the profiler made the step longer by less than this share, the estimate is more certain in proportion."""
MOST_NS = 10_000.0
"""No profiler costs more than this per op or call."""
MOST_HURRIED = 4.0
"""A host that did other work while it recorded may be faster by at most this factor at other times."""
CLOSE = 0.005
"""A replay this near to the step keeps the usual cost: the cost on the host does not show in the step."""
MOST_STAGING = 1.5
"""Staging takes no longer or shorter than this, in times of what was recorded; it varied by 40 % on one machine."""
ROUNDS = 12
"""Halvings of the search: to a few ns per event."""


@dataclass(frozen=True)
class Calibration:
    """What the profiler may have cost in a recording."""

    cost: ProfilerCost
    low: ProfilerCost
    """As little as it may be."""
    high: ProfilerCost
    """As much as it may be."""
    launch_ns: float
    step_error: float
    """`Program.step_error`, of the rank that has most of it."""

    def unsure(self, longer: float) -> float:
        """Return by which share the estimate may be off, if the profiler made the step longer by the share `longer`."""
        return unsure_of(self.launch_ns, self.step_error, longer)


def cost_of(per_event_ns: float) -> ProfilerCost:
    """Return a cost per event for a program that is repeated."""
    return ProfilerCost(per_event_ns, KEEP, steady=True)


def way_of(traces: Sequence[Trace]) -> Way:
    """Return how these traces were recorded, by what any of them holds."""
    if any(len(trace.functions) > 0 for trace in traces):
        return "stacks"
    return "memory" if any(trace.info.with_memory for trace in traces) else "plain"


def expected(programs: Sequence[Program], way: Way) -> Calibration:
    """Return what the profiler may have cost the recordings of all ranks, by their own times."""
    cost = float(np.mean([_expected_ns(program, way) for program in programs]))
    low, high = BOUNDS
    launch_ns = float(np.mean([program.launch_ns for program in programs]))
    error = max(program.step_error for program in programs)
    return Calibration(cost_of(cost), cost_of(low * cost), cost_of(high * cost), launch_ns, error)


def _expected_ns(program: Program, way: Way) -> float:
    host_ns, launch_ns = host_ns_per_event(program), program.launch_ns
    return likely_ns(HOST_SHARE[way], host_ns, launch_ns, program.launch_spread) if launch_ns else USUAL_NS


def likely_ns(share: float, host_ns: float, launch_ns: float, launch_spread: float) -> float:
    """Return what a profiler costs per op and call at a share of the host's time, kept near to the median launch."""
    return min(max(share * launch_spread * host_ns, LEAST_LAUNCHES * launch_ns), MOST_LAUNCHES * launch_ns, MOST_NS)


def unsure_of(launch_ns: float, step_error: float, longer: float) -> float:
    """Return by which share an estimate may be off, whatever an op costs: at least as far as two runs differ.

    `longer`: by which share the profiler made the step longer.
    """
    least = noise_of(launch_ns)
    most = UNSURE + SLOW_UNSURE * _slower(launch_ns) + ERRORS * step_error
    return least + max(most - least, 0.0) * min(max(longer, 0.0) / MUCH, 1.0)


def noise_between_runs(programs: Sequence[Program]) -> float:
    """Return by which share of the step two runs of these ranks differ."""
    return noise_of(float(np.mean([program.launch_ns for program in programs])))


def noise_of(launch_ns: float) -> float:
    """Return by which share of the step two runs differ on a host whose launches take `launch_ns`."""
    return NOISE + SLOW_NOISE * _slower(launch_ns)


def _slower(launch_ns: float) -> float:
    return max(launch_ns / FAST_LAUNCH_NS - 1, 0.0)


def host_ns_per_event(program: Program) -> float:
    """Return the host's time per recorded op and call, without rare long ones; 0 if none is recorded."""
    calls = [call for call in program.calls if call.events > 0]
    if not calls:
        return 0.0
    events = np.array([call.events for call in calls])
    own = np.array([call.gap_ns - call.input_ns - call.artefact_ns for call in calls])
    per_event = np.maximum(own, 0.0) / events
    return float(np.average(np.minimum(per_event, np.percentile(per_event, RARE)), weights=events))


def fit_cost(programs: Sequence[Program], steps: int, step_ns: float) -> ProfilerCost:
    """Return the cost with which the programs of all ranks take a step of `step_ns`, or the nearest step to it."""

    @cache
    def lasts(cost: float) -> float:
        return pace(programs, steps, cost_of(cost)).step_ns

    def hurried(times: float) -> float:
        return pace(programs, steps, _hurried(times)).step_ns

    least = lasts(MOST_NS)
    insensitive = lasts(0.0) <= (1 + CLOSE) * least
    if insensitive or abs(lasts(USUAL_NS) / step_ns - 1) <= CLOSE:
        cost = cost_of(USUAL_NS)
    elif least > (1 + CLOSE) * step_ns:
        cost = _hurried(crossing(hurried, step_ns, MOST_HURRIED, 1.0))
    else:
        cost = cost_of(crossing(lasts, step_ns, MOST_NS))
    if not any(call.kind == STAGED for program in programs for call in program.calls):
        return cost

    def staged(speed: float) -> float:
        return pace(programs, steps, replace(cost, staging=1 / speed)).step_ns

    if abs(staged(1.0) / step_ns - 1) <= CLOSE:
        return cost
    return replace(cost, staging=1 / max(crossing(staged, step_ns, MOST_STAGING, 1 / MOST_STAGING), 1 / MOST_STAGING))


def _hurried(times: float) -> ProfilerCost:
    """Return the most that a profiler costs, on a host that is `times` as fast without it."""
    return replace(cost_of(MOST_NS), host_speed=times)


def crossing(falling: Callable[[float], float], target: float, high: float, low: float = 0.0) -> float:
    """Return the argument from `low` to `high` at which a falling function reaches the target, or the nearest one.

    If the function stays above the target, that is the least argument with its lowest value.

    >>> round(crossing(lambda x: 10 - x, 4, high=10), 2)
    6.0
    """
    if falling(low) <= target:
        return low  # slower than the trace, but not because of the profiler
    target = max(target, (1 + CLOSE) * falling(high))
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        if falling(middle) > target:
            low = middle
        else:
            high = middle
    return (low + high) / 2


FEWEST: Final = 20
"""From this number of samples in optimizers on, their share is known to a fifth. Without them the replay is off by a
third: so far scatter its shares from those of the samples, in 26 recordings of programs of others."""
WRAPPER, WRAPPED_IN = "wrapper", "torch/optim/optimizer.py"
"""The function around each step of an optimizer, which also marks it in the trace (`Optimizer.profile_hook_step`)."""
DECORATED_IN: Final = "torch/utils/_contextlib.py"
"""Where `torch.no_grad` calls what it decorates, as the step of an optimizer."""


def with_sampled_optimizers(program: Program, trace: Trace) -> Program:
    """Return the program with the profiler's cost in optimizers as the samples of the recorded run tell it.

    Per op, a profiler costs more or less in an optimizer than elsewhere. Elsewhere samples are no better: a short call
    in C is seen at the Python that runs next, and a long one that waits is not the host's own time. Without enough
    samples, or without marks of optimizers, it is the program itself.
    """
    per_step = sampled_ns(trace.info.host)
    inside = _shares_inside(trace, program.calls) if per_step else np.zeros(0)
    if per_step is None or not inside.any():
        return program
    steps = len({call.step for call in program.calls})
    costs = inside * _per_event(program, inside, per_step * steps) * program.host.events
    calls = (
        structs.replace(call, events=call.events * (1.0 - share), cost_ns=cost) if share > 0 else call
        for call, share, cost in zip(program.calls, inside.tolist(), costs.tolist(), strict=True)
    )
    return replace(program, calls=tuple(calls))


def sampled_ns(profile: HostProfile | None) -> float | None:
    """Return the time of a step in its optimizers without the profiler, in ns; None with too few samples."""
    if profile is None or not profile.samples or not profile.steps:
        return None
    met = sum(
        stack.count for stack in profile.stacks if _is_of_optimizer([profile.frames[index] for index in stack.frames])
    )
    return met / profile.samples * profile.window_ms / profile.steps * NS_PER_MS if met >= FEWEST else None


def _is_of_optimizer(frames: Sequence[HostFrame]) -> bool:
    """Return whether a stack is in an optimizer's step, and not in a closure that the step was given.

    What is not of torch is in the file of the step itself, where that is another package's or the program's.
    """
    files = [frame.file.replace("\\", "/") for frame in frames]
    wrappers = [place for place, file in enumerate(files) if file.endswith(WRAPPED_IN) and _wraps(frames[place])]
    if not wrappers:
        return False
    within = slice(wrappers[-1] + 1, None)
    step = next((file for file in files[within] if not file.endswith((WRAPPED_IN, DECORATED_IN))), None)
    return all(
        frame.origin == "torch" or file == step for frame, file in zip(frames[within], files[within], strict=True)
    )


def _wraps(frame: HostFrame) -> bool:
    return frame.function.rsplit(".", 1)[-1] == WRAPPER


def _shares_inside(trace: Trace, calls: Sequence[Call]) -> Floats:
    """Return which part of the host's time before each call lies in steps of optimizers."""
    rows = np.array([call.row for call in calls], np.int64)
    start = trace.calls.start_ns[rows]
    since = start - np.array([call.gap_ns for call in calls], np.int64)
    inside = covered(optimizer_steps(trace), since, start)
    return np.divide(inside, start - since, out=np.zeros(len(rows)), where=start > since)


def _per_event(program: Program, inside: Floats, target_ns: float) -> float:
    """Return the cost per op and call with which the host is in its optimizers for `target_ns`, or the nearest."""
    host = program.host
    own = np.maximum(host.gap - host.input - host.artefact, 0.0)
    calls_ns = float(host.own[inside > 0].sum())

    def lasts(per_event_ns: float) -> float:
        return float((inside * np.maximum(own - per_event_ns * host.events, KEEP * own)).sum()) + calls_ns

    return crossing(lasts, target_ns, MOST_NS)
