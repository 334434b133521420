"""What a change of the code would make of the step."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pinprof.analyses.loader import LoaderWaits, measure_loader
from pinprof.analyses.steps import StepTimes, measure_steps
from pinprof.analyses.syncs import Syncs, measure_syncs
from pinprof.errors import TraceError
from pinprof.trace.tables import NONE, Trace
from pinprof.whatif.calibrate import fitted, usual
from pinprof.whatif.edits import NO_EDITS, Edits, edited
from pinprof.whatif.estimate import StepEstimate, estimate_step
from pinprof.whatif.program import Program, build_program
from pinprof.whatif.replay import Cost, Pace, pace
from pinprof.whatif.scenarios import Scenario, edits_of

PYTHON_COST = 0.6
"""What the profiler pays for a recorded Python function, in ops: with it the steps of seven programs that were recorded
with stacks are estimated within 8 %, but for one (16 %)."""

GPU_BOUND = 0.9
"""A step in which the GPU is busy for this share of the time is bound by the GPU; the rest are gaps between kernels."""

HIDDEN_LOADER = 1.25
"""A step without profiler that is longer than the recorded one by this factor waited for input: nothing else can be
faster under a profiler. While the recording began, the DataLoader's workers filled their queue."""

MOST_CALLS = 40_000
"""Calls of steps that are replayed: a replay takes some µs for each, and is made dozens of times."""

UNSURE_STEP, UNSURE_CHANGE = 0.02, 0.2
"""A predicted step is unsure by these shares of itself and of the change: so far most of the pairs of programs, before
and after a fix, lie apart from their prediction."""


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


class Model:
    """A trace as a program that can be changed and run again, at the pace of the step without the profiler."""

    def __init__(
        self, trace: Trace, syncs: Syncs, times: StepTimes, loader: LoaderWaits, step_ns: float | None = None
    ) -> None:
        self.trace, self.syncs = trace, syncs
        steps = _middle_steps(trace)
        self.steps = len(steps)
        program = build_program(trace, syncs.stalls, loader.times, PYTHON_COST, steps)
        self.program: Program = program.of_steps(steps)
        given = StepEstimate(step_ns, "given", (step_ns, step_ns)) if step_ns else None
        self.step = given or estimate_step(trace.info, times, self.program, self.steps, usual())

    @cached_property
    def cost(self) -> Cost:
        """The profiler's cost, with which the unchanged program runs at the step's pace."""
        if self.step.step_ns is None or not self.program.calls:
            return usual().cost
        return fitted(self.program, self.steps, self.step.step_ns)

    @cached_property
    def before(self) -> Pace:
        """The pace of the unchanged program."""
        return pace(self.program, self.steps, self.cost)

    def after(self, edits: Edits = NO_EDITS, *, host_speed: float = 1.0, gpu_speed: float = 1.0) -> Pace:
        """Return the pace after a change."""
        changed = edited(self.program, self.trace, self.syncs, edits)
        after = pace(changed, self.steps, self.cost.faster(host_speed), gpu_speed=gpu_speed)
        step = self.step.step_ns or self.before.step_ns
        if step > HIDDEN_LOADER * self.before.step_ns:  # the step waits for input, and goes on doing so
            return Pace(max(step, after.step_ns), after.busy_ns)
        return after


def predict(trace: Trace, scenario: Scenario, step_ms: float | None = None) -> Prediction:
    """Return the step after a change of the code, by running the recorded program again without what it takes away.

    `step_ms` is the step without profiler in milliseconds, if it is known otherwise than from the trace. Raises
    TraceError if the trace has no calls or no complete step that could be run again.
    """
    model = model_of(trace, step_ms)
    return predict_edits(model, edits_of(trace, model.syncs, scenario), scenario)


def _middle_steps(trace: Trace) -> set[int]:
    """Return complete steps, from the middle on, as many as make a program that runs again soon; at least one."""
    complete = np.flatnonzero(trace.steps.complete)
    calls = np.bincount(trace.links.call_step[trace.links.call_step != NONE], minlength=len(trace.steps))[complete]
    middle = (len(complete) - 1) / 2
    order = np.argsort(np.abs(np.arange(len(complete)) - middle), kind="stable")
    kept = np.cumsum(calls[order]) <= MOST_CALLS
    kept[:1] = True
    return {int(step) for step in complete[order[kept]]}


def model_of(trace: Trace, step_ms: float | None = None) -> Model:
    """Return the trace as a program that can be changed; raises TraceError as `predict` does."""
    syncs, times, loader = measure_syncs(trace), measure_steps(trace), measure_loader(trace)
    model = Model(trace, syncs, times, loader, step_ms * 1e6 if step_ms else None)
    if not len(trace.gpu) or not model.program.calls or not model.step.step_ns:
        raise TraceError(
            f"{trace.path}: has no complete step with runtime calls and GPU activities, so no change can be predicted; "
            "record with ProfilerActivity.CPU and CUDA, and call profiler.step() once per training step"
        )
    return model


def predict_edits(model: Model, edits: Edits, scenario: Scenario) -> Prediction:
    """Return the step after edits of the program, and with the speeds of the scenario."""
    baseline = model.step.step_ns or model.before.step_ns
    after = model.after(edits, host_speed=scenario.host_speed, gpu_speed=scenario.gpu_speed)
    return Prediction(
        baseline,
        model.step.source,
        after.step_ns,
        range_of(model.step, after.step_ns),
        bound_of(Pace(baseline, model.before.busy_ns)),
        bound_of(after),
        scenario,
    )


def range_of(step: StepEstimate, after_ns: float) -> tuple[float, float]:
    """Return where the step after a change lies: what is not known of the step before, and of the change."""
    before = step.step_ns or after_ns
    unsure = UNSURE_STEP * after_ns + UNSURE_CHANGE * abs(before - after_ns)
    low, high = step.range_ns if step.source == "estimated" and step.range_ns else (before, before)
    return max(after_ns * min(low / before, 1.0) - unsure, 0.0), after_ns * max(high / before, 1.0) + unsure


def bound_of(step: Pace) -> str:
    """Return what limits a step: `gpu` if it is busy nearly all the time, else `host`."""
    return "gpu" if step.busy_ns >= GPU_BOUND * step.step_ns else "host"
