"""The replay of one trace, or of a job's ranks: the step without the profiler, and what bounds it."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from math import inf

import numpy as np

from pinprof.details import Details
from pinprof.replay.bound import GPU, HIDDEN_LOADER, HOST, Feed, bound_of, feed_of, is_gpu_bound
from pinprof.replay.building import build_program
from pinprof.replay.calibration import USUAL_NS, cost_of, expected, fit_cost, way_of, with_sampled_optimizers
from pinprof.replay.machine import Pace, ProfilerCost, pace
from pinprof.replay.program import Program
from pinprof.replay.ranks import join_ranks, waiting_for_nobody
from pinprof.replay.representatives import LEFT_OUT, representatives
from pinprof.replay.step_estimate import StepEstimate, estimate_step, measured_step
from pinprof.trace.phases import phase_of_calls
from pinprof.trace.tables import NONE, Trace

PYTHON_COST = 0.3
"""The profiler's cost of a recorded Python function as a multiple of its cost of an op. Of 0.3, 0.6, 1 and 1.5, this
value gives the least scatter of the costs that fit 14 programs recorded with stacks."""

MOST_CALLS = 12_000
"""The most calls of replayed steps: a replay takes a µs or two for each, and dozens of replays are made."""


class Recorded:
    """The steps of each rank from which those that are replayed are chosen, as they were recorded."""

    def __init__(self, ranks: Sequence[Details]) -> None:
        self._ranks = ranks

    @cached_property
    def steps(self) -> list[list[int]]:
        """The numbers of these steps."""
        return _middle_steps([rank.trace for rank in self._ranks])

    @cached_property
    def programs(self) -> list[Program]:
        """These steps as a program, of each rank by itself."""
        return [
            build_program(rank.trace, rank.syncs.stalls, rank.loader.times, PYTHON_COST, steps).of_steps(set(steps))
            for rank, steps in zip(self._ranks, self.steps, strict=True)
        ]


class Replay:
    """The ranks of a job, or one trace, as programs that can be changed and run at the step without the profiler."""

    def __init__(
        self, ranks: Sequence[Details], step_ns: float | None = None, recorded: Recorded | None = None
    ) -> None:
        self.ranks = tuple(ranks)
        self._given = StepEstimate(step_ns, "given", (step_ns, step_ns)) if step_ns else None
        self.recorded = recorded or Recorded(self.ranks)

    def at(self, step_ns: float | None) -> "Replay":
        """Return a replay of the same recording at a given step."""
        return Replay(self.ranks, step_ns, self.recorded)

    @cached_property
    def chosen(self) -> list[list[int]]:
        """The steps of each rank that are replayed; if there are many, those that represent all."""
        phases = [
            phase_of_calls(rank.trace)[[call.row for call in program.calls]]
            for rank, program in zip(self.ranks, self._whole, strict=True)
        ]
        representative_steps = representatives(self._whole, self.recorded.steps, phases)
        return [[steps[number] for number in representative_steps] for steps in self.recorded.steps]

    @property
    def steps(self) -> int:
        """How many steps are replayed."""
        return len(self.chosen[0])

    @property
    def left_out(self) -> float:
        """The share of the step by which a replay of all steps may differ from that of the representatives."""
        return LEFT_OUT if self.steps < len(self.recorded.steps[0]) else 0.0

    @cached_property
    def feeds(self) -> list[Feed | None]:
        """The input of each rank's step without the profiler; None if it was not measured, or another step is given."""
        return [None if self._given else feed_of(rank) for rank in self.ranks]

    @cached_property
    def programs(self) -> list[Program]:
        """The chosen steps of each rank as a program."""
        programs = self._whole
        if self.left_out:
            programs = [
                replace(program.of_steps(set(steps)), error_of_all=program.step_error)
                for program, steps in zip(programs, self.chosen, strict=True)
            ]
        return join_ranks([rank.trace for rank in self.ranks], programs, self.chosen)

    @cached_property
    def _whole(self) -> list[Program]:
        """The programs of all steps from which some are chosen, with the measured input; ranks do not meet."""
        programs = [
            program.fed(feed.input_ns) if feed else program
            for program, feed in zip(self.recorded.programs, self.feeds, strict=True)
        ]
        if self._measured and not self._given:
            programs = [
                with_sampled_optimizers(program, rank.trace) for rank, program in zip(self.ranks, programs, strict=True)
            ]
        return programs

    @cached_property
    def step(self) -> StepEstimate:
        """The step without the profiler: as given, otherwise as measured in the recorded run, otherwise estimated."""
        if known := self._given or self._measured:
            return known
        calibration = expected(self.programs, way_of([rank.trace for rank in self.ranks]))
        times, by_workers = [rank.steps for rank in self.ranks], any(rank.loader.by_workers for rank in self.ranks)
        return estimate_step(
            times, self.programs, self.steps, calibration, self.waiting_for_nobody, fed_by_workers=by_workers
        )

    @cached_property
    def _measured(self) -> StepEstimate | None:
        return measured_step(self.ranks)

    @cached_property
    def waiting_for_nobody(self) -> Program | None:
        """The only rank's program as if it waited for no other; None if it meets none, or there are more."""
        if len(self.ranks) > 1 or not self.runs:
            return None
        return waiting_for_nobody(self.programs[0], self.ranks[0].trace)

    @property
    def runs(self) -> bool:
        """Whether every rank has calls in steps, so that it can be run."""
        return bool(self.steps) and all(program.calls for program in self.programs)

    @property
    def step_ns(self) -> float:
        """The step without the profiler; if it is unknown, that of the replay."""
        return self.step.step_ns or self.before.step_ns

    @cached_property
    def cost(self) -> ProfilerCost:
        """The profiler's cost, with which the unchanged programs run at the step's pace."""
        if self.step.step_ns is None or not self.runs:
            return cost_of(USUAL_NS)
        return fit_cost(self.programs, self.steps, self.step.step_ns)

    @cached_property
    def before(self) -> Pace:
        """The pace of the unchanged programs."""
        return pace(self.programs, self.steps, self.cost)

    @cached_property
    def bound(self) -> str:
        """What limits the unchanged step: for one trace as in its report, for several ranks `gpu` or `host`."""
        if len(self.ranks) > 1:
            return GPU if is_gpu_bound(self.before.busy_ns, self.step_ns) else HOST
        return bound_of(self.ranks[0], self.step_ns) or HOST

    def run(
        self, changed: Sequence[Program], *, host_speed: float = 1.0, gpu_speed: float = 1.0, batch_ns: float = inf
    ) -> Pace:
        """Return the pace of changed programs of all ranks.

        Workers deliver a batch every `batch_ns`; infinity: as now.
        """
        cost = replace(self.cost, host_speed=self.cost.host_speed * host_speed)
        after = pace(changed, self.steps, cost, gpu_speed=gpu_speed)
        loses_input = _takes_input(self.programs) and not _takes_input(changed)
        return self.pace_after(after, self.before, batch_ns=0.0 if loses_input else batch_ns)

    def lengthened_ns(self, pause_ns: float) -> float:
        """Return by how much a pause of one rank's host, in the middle of the replayed steps, lengthens their sum."""
        first, *others = self.programs
        after = pace([first.paused(pause_ns), *others], self.steps, self.cost)
        return max(after.step_ns - self.before.step_ns, 0.0) * self.steps

    def pace_after(self, after: Pace, before: Pace, *, batch_ns: float) -> Pace:
        """Return the step after a change: the step now, minus the difference between the two replays.

        `before` is the replay of the unchanged programs over the same number of steps: without a change the step stays
        exactly as it is. If the replay is slower than the step, both replays are scaled down. The part of the step that
        the replay does not explain stays.

        If workers set the pace, a step that becomes shorter waits longer for them. They deliver a batch every
        `batch_ns`; infinity: as they do now, 0: batches are always ready.
        """
        scale = min(self.step_ns / before.step_ns, 1.0) if before.step_ns else 1.0
        if self.is_starved:
            return Pace(max(min(batch_ns, self.step_ns), scale * after.step_ns), after.busy_ns)
        step_ns = self.step_ns - scale * (before.step_ns - after.step_ns)
        step_ns = max(step_ns, min(after.busy_ns, self.step_ns))
        return Pace(max(step_ns, batch_ns) if batch_ns < inf else step_ns, after.busy_ns)

    @cached_property
    def is_starved(self) -> bool:
        """Whether workers of a DataLoader set the pace of the step."""
        feeds = [feed for feed in self.feeds if feed is not None]
        if not feeds:
            return self.step_ns > HIDDEN_LOADER * self.before.step_ns and any(rank.loader.waits for rank in self.ranks)
        return not is_gpu_bound(self.before.busy_ns, self.step_ns) and any(feed.is_late(self.step_ns) for feed in feeds)


def _takes_input(programs: Sequence[Program]) -> bool:
    return any(call.input_ns for program in programs for call in program.calls)


def _middle_steps(traces: Sequence[Trace]) -> list[list[int]]:
    """Return per trace the complete steps nearest to the middle, at most `MOST_CALLS` calls, and at least one step.

    They are the same steps of the job on all ranks: steps are counted from the first one that was recorded whole, and a
    step that is unlike the others on one rank is left out on all.
    """
    whole = [np.flatnonzero(trace.steps.whole) for trace in traces]
    count = min(len(steps) for steps in whole)
    like = np.all([trace.steps.complete[steps[:count]] for trace, steps in zip(traces, whole, strict=True)], axis=0)
    complete = [
        steps[:count][like] if like.any() else np.flatnonzero(trace.steps.complete)
        for trace, steps in zip(traces, whole, strict=True)
    ]
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
