"""Takes the profiler's own cost out of the host's time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
from msgspec import structs

from pinprof.analyses.host_samples import phase_of_stack
from pinprof.ground.intervals import covered
from pinprof.ground.units import NS_PER_MS
from pinprof.replay.machine import ProfilerCost, pace
from pinprof.replay.program import STAGED, Call, Floats, Program
from pinprof.trace.metadata.sampled_stacks import HostFrame, HostProfile
from pinprof.trace.spans.phases import optimizer_steps
from pinprof.trace.tables import Trace

MIN_SHARE_OF_HOST_TIME_KEPT = 0.2
"""At least this share of the host's time before a call is the program's own: with stacks, whole steps took up to 2.7
times as long as without a profiler."""
USUAL_NS = 1_600.0
"""The profiler's cost per recorded op and call on a fast H200 machine, used if the recording does not show the cost: it
is near the median of the costs that fit 57 recordings of 27 programs."""
Way: TypeAlias = Literal["plain", "memory", "stacks"]
"""How a trace was recorded: with Python functions, with allocations only, or with neither."""
HOST_SHARE: Final[dict[Way, float]] = {"plain": 0.33, "memory": 0.42, "stacks": 0.44}
"""The profiler's cost as a share of the host's time per recorded op and call, if launches do not scatter: medians of
the costs that fit the measured steps of the recordings in traces/estimates.json (scripts/fit_calibration.py). A slow
host slows the profiler, too. The share grows with `Program.launch_spread`: if the host does other work while it
records, that adds time which the step without the profiler does not have."""
LONG_CALL_PERCENTILE = 90
"""Percentile of the host's time per op and call: time of a call beyond it is the program's own work."""
MIN_COST_IN_LAUNCHES, MAX_COST_IN_LAUNCHES = 0.2, 1.2
"""The cost is kept between these multiples of the median launch, as are all but a few of the same recordings."""
COST_BOUNDS = 0.9, 1.1  # the least and the most that a profiler may have cost, as multiples of the expected cost
UNSURE_SHARE, UNSURE_PER_SLOW_LAUNCH, STANDARD_ERRORS = 0.1, 0.05, 2.0
"""How far an estimate may be off: `UNSURE_SHARE` of the step on a host whose launches take `FAST_LAUNCH_NS`,
`UNSURE_PER_SLOW_LAUNCH` more for each further `FAST_LAUNCH_NS`, and `STANDARD_ERRORS` of the recorded steps. With the
bounds above this is the narrowest such range that holds 88 % of 283 measured steps (scripts/fit_calibration.py)."""
RUN_NOISE, SLOW_NOISE, FAST_LAUNCH_NS = 0.05, 0.04, 4_000.0
"""Two runs of a program differ by `RUN_NOISE` of the step on a host whose launches take `FAST_LAUNCH_NS`, and by
`SLOW_NOISE` more for each further `FAST_LAUNCH_NS`: windows of 0.25 s of one run scattered by 3 % on hosts whose
launches take 4 us, and by 20 % on those with 7 to 9 us."""
LENGTHENED_SHARE = 0.2
"""If the profiler made the step longer by less than this share, the estimate is more certain in proportion."""
MAX_COST_NS = 10_000.0  # no profiler costs more than this per op or call
MAX_HURRY_OF_HOST = 4.0
"""A host that did other work while it recorded may be faster by at most this factor at other times."""
CLOSE_SHARE_OF_STEP = 0.005
"""If a replay is this near to the step, the usual cost is kept: the host's cost does not show in the step."""
LONG_RUN_OF_GPU, SLOWEST_GPU = 0.87, 0.8
"""The pace of a GPU that works for long, and its least one, as a multiple of that in a recording: a matrix product took
0.176 ms in recordings of a few steps, and 0.203 ms in the long run, on three H200."""
MAX_STAGING_FACTOR = 1.5
"""Staging takes at most this multiple of the recorded time, and at least its inverse; it varied by 40 % on one
machine."""
SEARCH_ROUNDS = 12  # halvings of the search, which find the cost to a few ns per event


@dataclass(frozen=True)
class Calibration:
    """The possible costs of the profiler in a recording."""

    cost: ProfilerCost  # the expected cost
    low: ProfilerCost  # the least possible cost
    high: ProfilerCost  # the most possible cost
    launch_ns: float
    step_error: float  # the largest `Program.step_error` of all ranks

    def unsure(self, longer: float) -> float:
        """Return the share by which the estimate may be off if the profiler made the step longer by `longer`."""
        return unsure_of(self.launch_ns, self.step_error, longer)


def cost_of(per_event_ns: float) -> ProfilerCost:
    """Return a cost per event for a program that is repeated."""
    return ProfilerCost(per_event_ns, MIN_SHARE_OF_HOST_TIME_KEPT, steady=True)


def recording_mode(traces: Sequence[Trace]) -> Way:
    """Return how these traces were recorded, by the events that any of them has."""
    if any(len(trace.functions) > 0 for trace in traces):
        return "stacks"
    return "memory" if any(trace.info.with_memory for trace in traces) else "plain"


def expected(programs: Sequence[Program], way: Way) -> Calibration:
    """Return the possible costs of the profiler in the recordings of all ranks, by their own times."""
    costs = [
        likely_ns(HOST_SHARE[way], host_ns_per_event(program), program.launch_ns, program.launch_spread)
        if program.launch_ns
        else USUAL_NS
        for program in programs
    ]
    cost = float(np.mean(costs))
    low, high = COST_BOUNDS
    launch_ns = float(np.mean([program.launch_ns for program in programs]))
    error = max(program.step_error for program in programs)
    return Calibration(cost_of(cost), cost_of(low * cost), cost_of(high * cost), launch_ns, error)


def likely_ns(share: float, host_ns: float, launch_ns: float, launch_spread: float) -> float:
    """Return the profiler's cost per op and call: a share of the host's time, kept near the median launch."""
    return min(
        max(share * launch_spread * host_ns, MIN_COST_IN_LAUNCHES * launch_ns),
        MAX_COST_IN_LAUNCHES * launch_ns,
        MAX_COST_NS,
    )


def unsure_of(launch_ns: float, step_error: float, longer: float) -> float:
    """Return the share by which an estimate may be off, at least the difference between two runs.

    `longer` is the share by which the profiler made the step longer.
    """
    least = noise_of(launch_ns)
    most = UNSURE_SHARE + UNSURE_PER_SLOW_LAUNCH * _slower(launch_ns) + STANDARD_ERRORS * step_error
    return least + max(most - least, 0.0) * min(max(longer, 0.0) / LENGTHENED_SHARE, 1.0)


def noise_of(launch_ns: float) -> float:
    """Return the share of the step by which two runs differ on a host whose launches take `launch_ns`."""
    return RUN_NOISE + SLOW_NOISE * _slower(launch_ns)


def _slower(launch_ns: float) -> float:
    return max(launch_ns / FAST_LAUNCH_NS - 1, 0.0)


def host_ns_per_event(program: Program) -> float:
    """Return the host's time per recorded op and call, in which rare long times are cut; 0 if none is recorded."""
    calls = [call for call in program.calls if call.events > 0]
    if not calls:
        return 0.0
    events = np.array([call.events for call in calls])
    own = np.array([call.gap_ns - call.input_ns - call.artefact_ns for call in calls])
    per_event = np.maximum(own, 0.0) / events
    return float(np.average(np.minimum(per_event, np.percentile(per_event, LONG_CALL_PERCENTILE)), weights=events))


def fit_cost(programs: Sequence[Program], steps: int, step_ns: float) -> ProfilerCost:
    """Return the cost with which the programs of all ranks take a step of `step_ns`, or the nearest step to it."""

    @cache
    def step_at(cost: float) -> float:
        return pace(programs, steps, cost_of(cost)).step_ns

    def hurried(times: float) -> float:
        return pace(programs, steps, _hurried(times)).step_ns

    shortest = step_at(MAX_COST_NS)
    insensitive = step_at(0.0) <= (1 + CLOSE_SHARE_OF_STEP) * shortest
    if insensitive or abs(step_at(USUAL_NS) / step_ns - 1) <= CLOSE_SHARE_OF_STEP:
        cost = cost_of(USUAL_NS)
    elif shortest > (1 + CLOSE_SHARE_OF_STEP) * step_ns:
        cost = _hurried(crossing(hurried, step_ns, MAX_HURRY_OF_HOST, 1.0))
    else:
        cost = cost_of(crossing(step_at, step_ns, MAX_COST_NS))
    return cost


class Fit(NamedTuple):
    """With what the programs of all ranks take a known step."""

    cost: ProfilerCost
    gpu_speed: float = 1.0  # how many times as fast the GPU is as in the recording


def fits_of(programs: Sequence[Program], steps: int, step_ns: float) -> tuple[Fit, ...]:
    """Return with what the programs take a step of `step_ns`; two or three, the slowest GPU first, if it is unsure.

    A step with copies of pageable memory may be longer than its replay because one CPU thread stages them more slowly,
    or because the GPU does: it runs faster for the few steps of a recording than for long. Nothing shows which.
    """
    cost = fit_cost(programs, steps, step_ns)

    def step_at(gpu_speed: float, staging: float = 1.0) -> float:
        return pace(programs, steps, replace(cost, staging=staging), gpu_speed=gpu_speed).step_ns

    def staged_at(gpu_speed: float) -> Fit:
        speed = crossing(
            lambda speed: step_at(gpu_speed, 1 / speed), step_ns, MAX_STAGING_FACTOR, 1 / MAX_STAGING_FACTOR
        )
        return Fit(replace(cost, staging=1 / speed), gpu_speed)

    if not any(call.kind == STAGED for program in programs for call in program.calls):
        return (Fit(cost),)
    longer = step_ns / step_at(1.0) - 1
    if longer > CLOSE_SHARE_OF_STEP:
        slowest = crossing(step_at, step_ns, 1.0, SLOWEST_GPU)
        return tuple(map(staged_at, (slowest, (1 + slowest) / 2, 1.0)))
    expected = staged_at(1.0) if longer < -CLOSE_SHARE_OF_STEP else Fit(cost)
    slowest = crossing(lambda gpu_speed: step_at(gpu_speed, 1 / MAX_STAGING_FACTOR), step_ns, 1.0, LONG_RUN_OF_GPU)
    return staged_at(slowest), expected


def _hurried(times: float) -> ProfilerCost:
    """Return the most that a profiler costs, on a host that is `times` times as fast without it."""
    return replace(cost_of(MAX_COST_NS), host_speed=times)


def crossing(falling: Callable[[float], float], target: float, high: float, low: float = 0.0) -> float:
    """Return the argument from `low` to `high` at which a falling function reaches the target, or the nearest one.

    If the function stays above the target, it is the least argument at which the function is lowest.

    >>> round(crossing(lambda x: 10 - x, 4, high=10), 2)
    6.0
    >>> round(crossing(lambda x: max(10 - x, 5), 4, high=10), 1)
    5.0
    """
    if falling(low) <= target:
        return low  # the step is longer than the replay, but not because of the profiler
    target = max(target, (1 + CLOSE_SHARE_OF_STEP) * falling(high))
    for _ in range(SEARCH_ROUNDS):
        middle = (low + high) / 2
        if falling(middle) > target:
            low = middle
        else:
            high = middle
    return (low + high) / 2


MIN_OPTIMIZER_SAMPLES: Final = 20
"""With this number of samples in optimizers, their share is known to a fifth. Without samples, the replay's share is
off by a third: that is the scatter between the two in 26 recordings of other people's programs."""
OPTIMIZER_WRAPPER, OPTIMIZER_WRAPPER_FILE = "wrapper", "torch/optim/optimizer.py"
"""The function around each step of an optimizer, which also marks it in the trace (`Optimizer.profile_hook_step`)."""
PASSES: Final = ("forward", "backward")
MUCH_OF_STEP: Final = 0.1  # the program's own Python that takes a smaller share of the time does not matter
DECORATED_IN: Final = "torch/utils/_contextlib.py"
"""The file in which `torch.no_grad` calls the functions that it decorates, such as the step of an optimizer."""


def with_sampled_optimizers(program: Program, trace: Trace) -> Program:
    """Return the program with the profiler's cost in optimizers as the samples of the recorded run show it.

    Per op, a profiler costs more or less in an optimizer than elsewhere. Elsewhere samples are not better: a short call
    in C is seen at the Python code that runs next, and a long one that waits is not the host's own time. Without enough
    samples, or without marks of optimizers, the program is returned unchanged.
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
    count = sum(
        stack.count for stack in profile.stacks if _is_of_optimizer([profile.frames[index] for index in stack.frames])
    )
    return (
        count / profile.samples * profile.window_ms / profile.steps * NS_PER_MS
        if count >= MIN_OPTIMIZER_SAMPLES
        else None
    )


def runs_in_optimizers(profile: HostProfile | None) -> bool:
    """Return whether the program's own Python takes long within steps of optimizers, outside of its networks.

    A step runs the program's hooks, and the closure that Lightning gives it, with callbacks.
    """
    if profile is None:
        return False
    stacks = (([profile.frames[index] for index in stack.frames], stack.count) for stack in profile.stacks)
    count = sum(count for frames, count in stacks if _is_users_in_optimizer(frames))
    return count >= MUCH_OF_STEP * profile.samples


def _is_users_in_optimizer(frames: Sequence[HostFrame]) -> bool:
    """Return whether a stack is in code of the program that an optimizer's step calls, and in no pass.

    The step itself may be the program's, too: all code in its file is the optimizer's.
    """
    within = _within_step(frames)
    if not within or phase_of_stack(within) in PASSES:
        return False
    own = within[0].file if within[0].function.rpartition(".")[2] == "step" else None  # otherwise a hook
    return any(frame.origin == "user" and frame.file != own for frame in within)


def _is_of_optimizer(frames: Sequence[HostFrame]) -> bool:
    """Return whether a stack is in an optimizer's step, and not in a closure that the step calls.

    Then all inner frames are torch's, or in the file of the step itself, which another package or the program may have.
    """
    within = _within_step(frames)
    return within is not None and all(frame.origin == "torch" or frame.file == within[0].file for frame in within)


def _within_step(frames: Sequence[HostFrame]) -> Sequence[HostFrame] | None:
    """Return the frames in an optimizer's step, that of the step first, without its wrappers; None outside of steps."""
    wrapped = ((depth, frame) for depth, frame in enumerate(frames) if frame.is_of(OPTIMIZER_WRAPPER_FILE))
    wrappers = [depth for depth, frame in wrapped if frame.function.rsplit(".", 1)[-1] == OPTIMIZER_WRAPPER]
    if not wrappers:
        return None
    inner = frames[wrappers[-1] + 1 :]
    return [frame for frame in inner if not (frame.is_of(OPTIMIZER_WRAPPER_FILE) or frame.is_of(DECORATED_IN))]


def _shares_inside(trace: Trace, calls: Sequence[Call]) -> Floats:
    rows = np.array([call.row for call in calls], np.int64)
    start = trace.calls.start_ns[rows]
    since = start - np.array([call.gap_ns for call in calls], np.int64)
    inside = covered(optimizer_steps(trace), since, start)
    return np.divide(inside, start - since, out=np.zeros(len(rows)), where=start > since)


def _per_event(program: Program, inside: Floats, target_ns: float) -> float:
    """Return the cost per op and call with which the host's time in optimizers is `target_ns`, or nearest to it."""
    host = program.host
    own = np.maximum(host.gap - host.input - host.artefact, 0.0)
    calls_ns = float(host.own[inside > 0].sum())

    def time_ns(per_event_ns: float) -> float:
        return (
            float((inside * np.maximum(own - per_event_ns * host.events, MIN_SHARE_OF_HOST_TIME_KEPT * own)).sum())
            + calls_ns
        )

    return crossing(time_ns, target_ns, MAX_COST_NS)
