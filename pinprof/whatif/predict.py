"""What a change of the code would make of the step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pinprof.analyses.communication import measure_communication
from pinprof.analyses.idle import measure_idle
from pinprof.analyses.loader import LoaderWaits, measure_loader
from pinprof.analyses.steps import StepTimes, measure_steps
from pinprof.analyses.syncs import Syncs, measure_syncs
from pinprof.errors import TraceError
from pinprof.replay.bound import GPU, HIDDEN_LOADER, HOST, bound_of, gaps_with_causes, is_gpu_bound
from pinprof.replay.calibration import USUAL_NS, cost_of, expected, fitted
from pinprof.replay.machine import Cost, Pace, pace
from pinprof.replay.program import Program, build_program
from pinprof.replay.ranks import alone, joined
from pinprof.replay.step import StepEstimate, estimate_step, measured_step
from pinprof.trace.collectives import collectives_of
from pinprof.trace.tables import NONE, Trace
from pinprof.units import duration
from pinprof.whatif.edits import Edits, edited
from pinprof.whatif.scenarios import Scenario, edits_of, places_in

PYTHON_COST = 0.6
"""What the profiler pays for a recorded Python function, in ops: with it the steps of seven programs that were recorded
with stacks are estimated within 8 %, but for one (16 %)."""

MOST_CALLS = 12_000
"""Calls of steps that are replayed: a replay takes some µs for each, and is made dozens of times."""

UNSURE_STEP, UNSURE_CHANGE = 0.02, 0.2
"""A predicted step is unsure by these shares of itself and of the change: so far most of the pairs of programs, before
and after a fix, lie apart from their prediction."""

NOISE = 0.01
"""What a change brings is unsure by this share of the step besides."""


@dataclass(frozen=True)
class Prediction:
    """The step before and after a change; times in ns."""

    baseline_ns: float
    baseline_source: str
    """`given`, `measured` (recorded by pinprof run), or `estimated`."""
    predicted_ns: float
    range_ns: tuple[float, float]
    bound_before: str
    bound_after: str
    scenario: Scenario

    @property
    def speedup(self) -> float:
        """How many times as fast the step is after the change."""
        return self.baseline_ns / self.predicted_ns

    @property
    def is_certain(self) -> bool:
        """Whether the step becomes longer or shorter by more than what the change is unsure by."""
        change = abs(self.baseline_ns - self.predicted_ns)
        return change > UNSURE_CHANGE * change + NOISE * self.baseline_ns


class Recorded(NamedTuple):
    """One rank: its trace, and what was measured of it that a replay needs."""

    trace: Trace
    syncs: Syncs
    times: StepTimes
    loader: LoaderWaits


class Model:
    """The ranks of a job, or one trace, as programs that can be changed and run at the step without the profiler."""

    def __init__(self, ranks: Sequence[Recorded], step_ns: float | None = None) -> None:
        self.ranks = tuple(ranks)
        self._given = StepEstimate(step_ns, "given", (step_ns, step_ns)) if step_ns else None

    @cached_property
    def chosen(self) -> list[list[int]]:
        """The steps of each rank that are replayed."""
        return _middle_steps([rank.trace for rank in self.ranks])

    @property
    def steps(self) -> int:
        """How many steps are replayed."""
        return len(self.chosen[0])

    @cached_property
    def programs(self) -> list[Program]:
        """Those steps of each rank as a program."""
        programs = [
            build_program(rank.trace, rank.syncs.stalls, rank.loader.times, PYTHON_COST, steps).of_steps(set(steps))
            for rank, steps in zip(self.ranks, self.chosen, strict=True)
        ]
        return joined([rank.trace for rank in self.ranks], programs, self.chosen)

    @cached_property
    def step(self) -> StepEstimate:
        """The step without the profiler: as given, else as measured in the recorded run, else estimated."""
        return self._given or measured_step([rank.trace.info for rank in self.ranks]) or self._estimate()

    def _estimate(self) -> StepEstimate:
        stacks = any(len(rank.trace.functions) > 0 for rank in self.ranks)
        calibration = expected(self.programs, stacks=stacks)
        return estimate_step([rank.times for rank in self.ranks], self.programs, self.steps, calibration, self._apart())

    def _apart(self) -> Program | None:
        """Return the only rank's program as if it waited for no other; None if it meets none, or there are more."""
        (trace, *_), steps = self.ranks[0], self.chosen[0]
        if len(self.ranks) > 1 or not self.runs or not len(collectives_of(trace, steps)):
            return None
        return alone(trace, self.programs[0], steps)

    @property
    def runs(self) -> bool:
        """Whether there is something to run: calls, in steps, on every rank."""
        return bool(self.steps) and all(program.calls for program in self.programs)

    @cached_property
    def cost(self) -> Cost:
        """The profiler's cost, with which the unchanged programs run at the step's pace."""
        if self.step.step_ns is None or not self.runs:
            return cost_of(USUAL_NS)
        return fitted(self.programs, self.steps, self.step.step_ns)

    @cached_property
    def bound(self) -> str:
        """What limits the unchanged step: of one trace as its report says, of several ranks `gpu` or `host`."""
        step = self.step.step_ns or self.before.step_ns
        if len(self.ranks) > 1:
            return GPU if is_gpu_bound(self.before.busy_ns, step) else HOST
        trace, syncs, times, loader = self.ranks[0]
        devices = measure_idle(trace, gaps_with_causes(trace, syncs, loader))
        return bound_of(step, times, devices, loader, measure_communication(trace)) or HOST

    @cached_property
    def before(self) -> Pace:
        """The pace of the unchanged programs."""
        return pace(self.programs, self.steps, self.cost)

    def placed(self, scenario: Scenario) -> Scenario:
        """Return a scenario with its places as the traces name them; raises TraceError as `places_in` does."""
        first, *others = (str(rank.trace.path) for rank in self.ranks)
        name = f"{first} and {len(others)} more" if others else first
        return replace(scenario, drop_syncs=places_in(name, [rank.syncs for rank in self.ranks], scenario.drop_syncs))

    def edits(self, scenario: Scenario) -> list[Edits]:
        """Return what a scenario changes on each rank."""
        return [edits_of(rank.trace, rank.syncs, scenario) for rank in self.ranks]

    def after(self, edits: Sequence[Edits], *, host_speed: float = 1.0, gpu_speed: float = 1.0) -> Pace:
        """Return the pace after a change on each rank."""
        changed = [
            edited(program, rank.trace, rank.syncs, change)
            for program, rank, change in zip(self.programs, self.ranks, edits, strict=True)
        ]
        after = pace(changed, self.steps, self.cost.faster(host_speed), gpu_speed=gpu_speed)
        step = self.step.step_ns or self.before.step_ns
        if step > HIDDEN_LOADER * self.before.step_ns:  # the step waits for input, and goes on doing so
            return Pace(max(step, after.step_ns), after.busy_ns)
        return after


def predict(trace: Trace | Sequence[Trace], scenario: Scenario, step_ms: float | None = None) -> Prediction:
    """Return the step after a change of the code, by running the recorded program again without what it takes away.

    Of several ranks of a job, whose collectives wait for each other, all traces may be given: then the change is made
    on all of them. `step_ms` is the step without profiler in milliseconds, if it is known otherwise than from the
    trace. Raises TraceError if a trace has no calls or no complete step that could be run again, if the traces are not
    of one job, if that step cannot be theirs, or if the host does not wait at a place that the scenario names.
    """
    model = model_of([trace] if isinstance(trace, Trace) else trace, step_ms)
    placed = model.placed(scenario)
    return predict_edits(model, model.edits(placed), placed)


def _middle_steps(traces: Sequence[Trace]) -> list[list[int]]:
    """Return per trace complete steps, from the middle on, as many as make programs that run again soon; at least one.

    They are the same steps of the job on all ranks: the complete ones count from the first.
    """
    complete = [np.flatnonzero(trace.steps.complete) for trace in traces]
    count = min(len(steps) for steps in complete)
    calls = sum(
        np.bincount(trace.links.call_step[trace.links.call_step != NONE], minlength=len(trace.steps))[steps[:count]]
        for trace, steps in zip(traces, complete, strict=True)
    )
    middle = (count - 1) / 2
    order = np.argsort(np.abs(np.arange(count) - middle), kind="stable")
    kept = np.cumsum(np.asarray(calls)[order]) <= MOST_CALLS
    kept[:1] = True
    return [sorted(steps[order[kept]].tolist()) for steps in complete]


def model_of(traces: Sequence[Trace], step_ms: float | None = None) -> Model:
    """Return the traces of a job's ranks as programs that can be changed; raises TraceError as `predict` does."""
    _check_ranks(traces)
    ranks = [Recorded(trace, measure_syncs(trace), measure_steps(trace), measure_loader(trace)) for trace in traces]
    model = Model(ranks, step_ms * 1e6 if step_ms else None)
    for rank, program in zip(ranks, model.programs, strict=True):
        if not len(rank.trace.gpu) or not program.calls:
            raise TraceError(
                f"{rank.trace.path}: has no complete step with runtime calls and GPU activities, so no change can be "
                "predicted; record with ProfilerActivity.CPU and CUDA, and call profiler.step() once per training step"
            )
    if not model.step.step_ns:
        raise TraceError(f"{traces[0].path}: its step cannot be told; give it with --step-ms")
    if step_ms:
        _check_step(model, step_ms * 1e6)
    return model


def _check_step(model: Model, step_ns: float) -> None:
    """Refuse a step that cannot be that of the traces: a profiler lengthens a step, but not the work of the GPU."""
    traced = max(rank.times.traced_ns or 0.0 for rank in model.ranks)
    busy = min(rank.times.busy_ns or 0.0 for rank in model.ranks)
    name, given = model.ranks[0].trace.path, duration(step_ns)
    if step_ns > HIDDEN_LOADER * traced > 0 and not any(rank.loader.waits for rank in model.ranks):
        raise TraceError(
            f"{name}: a step of {given} is not its own: the step in the trace takes {duration(traced)} with the "
            "profiler, and waits for no DataLoader; give the step of this program, in ms"
        )
    if HIDDEN_LOADER * step_ns < busy:
        raise TraceError(
            f"{name}: a step of {given} is not its own: the GPU works for {duration(busy)} of each step; give the step "
            "of this program, in ms"
        )


def _check_ranks(traces: Sequence[Trace]) -> None:
    """Refuse traces that are not of different ranks of one job."""
    if not traces:
        raise TraceError("no trace is given")
    seen: dict[int | str, str] = {}
    for trace in traces:
        rank = trace.info.rank if trace.info.rank is not None else trace.path
        if rank in seen:
            raise TraceError(f"{trace.path}: is of the same rank as {seen[rank]}; give one trace of each rank")
        seen[rank] = trace.path
    sizes = {trace.info.world_size for trace in traces} - {None}
    if len(sizes) > 1:
        raise TraceError(
            f"{traces[0].path}: the traces are of jobs with {' and '.join(map(str, sorted(sizes, key=str)))} ranks; "
            "give those of one job"
        )


def predict_edits(model: Model, edits: Sequence[Edits], scenario: Scenario) -> Prediction:
    """Return the step after edits of the program of each rank, and with the speeds of the scenario."""
    baseline = model.step.step_ns or model.before.step_ns
    after = model.after(edits, host_speed=scenario.host_speed, gpu_speed=scenario.gpu_speed)
    return Prediction(
        baseline,
        model.step.source,
        after.step_ns,
        range_of(model.step, after.step_ns),
        model.bound,
        _bound_after(model, baseline, after),
        scenario,
    )


def _bound_after(model: Model, before_ns: float, after: Pace) -> str:
    """Return what limits the step after a change: what did before, unless the replay of both says otherwise."""
    was_gpu, is_gpu = is_gpu_bound(model.before.busy_ns, before_ns), is_gpu_bound(after.busy_ns, after.step_ns)
    return model.bound if was_gpu == is_gpu else GPU if is_gpu else HOST


def range_of(step: StepEstimate, after_ns: float) -> tuple[float, float]:
    """Return where the step after a change lies: what is not known of the step before, and of the change."""
    before = step.step_ns or after_ns
    unsure = UNSURE_STEP * after_ns + UNSURE_CHANGE * abs(before - after_ns)
    low, high = step.range_ns if step.source == "estimated" and step.range_ns else (before, before)
    return max(after_ns * min(low / before, 1.0) - unsure, 0.0), after_ns * max(high / before, 1.0) + unsure
