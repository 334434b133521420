"""The replay of one trace, or of a job's ranks: the step without the profiler, and what bounds it."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

import numpy as np

from pinprof.details import Details
from pinprof.replay.bound import (
    BOUND_BY_GPU,
    BOUND_BY_HOST,
    LOADER_SLACK,
    STARVED_SHARE_OF_STEP,
    Feed,
    bound_of,
    feed_of,
    is_gpu_bound,
)
from pinprof.replay.building import build_program
from pinprof.replay.calibration import (
    USUAL_NS,
    Fit,
    cost_of,
    expected,
    fits_of,
    noise_of,
    recording_mode,
    with_sampled_optimizers,
)
from pinprof.replay.machine import Pace, ProfilerCost, pace
from pinprof.replay.program import Floats, Program
from pinprof.replay.ranks import in_no_time, join_ranks, waiting_for_nobody
from pinprof.replay.representatives import representatives
from pinprof.replay.settings import (
    WORLDS,
    Setting,
    StepEstimate,
    across,
    bounds_of,
    estimated_settings,
    measured_step,
    middle,
    range_of,
)
from pinprof.trace.collectives import collectives_of
from pinprof.trace.spans.phases import phase_of_calls
from pinprof.trace.tables import NONE, Trace

PYTHON_COST = 0.3
"""The profiler's cost of a recorded Python function as a multiple of its cost of an op. Of 0.3, 0.6, 1 and 1.5, this
value gives the least scatter of the costs that fit 14 programs recorded with stacks."""

MAX_CALLS_REPLAYED = 12_000
"""The most calls of replayed steps: a replay takes a µs or two for each, and dozens of replays are made."""
CALLS_PER_REPLAY = 8_000  # the calls that a replay runs, about; longer programs run once

UNSURE_CHANGE = 0.2  # the share of a change by which it may be smaller or larger than the replay shows
GPU_DRIFT = 0.01  # the share of the step by which two runs of a program differ if the GPU sets its pace
DRIFT_SHARE_OF_WORK = 0.6
"""The share of the drift that the GPU's own work has where the host sets the pace: a profiler may record kernels longer
than they are. Of 52 recorded changes of launches, 46 lie in their range, as many as without such a bound."""


@dataclass(frozen=True, eq=False)
class Paces:
    """A step of changed programs in each world; times in ns."""

    step_ns: Floats
    busy_ns: Floats  # as in `Pace`

    @property
    def work_ns(self) -> Floats:
        """The GPU's work in the step, which no change of the host shortens."""
        return np.minimum(self.busy_ns, self.step_ns)


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
        self.known: dict[Hashable, Paces] = {}
        """The paces after changes that were replayed: findings, causes and what all save ask for the same."""

    def at(self, step_ns: float | None) -> "Replay":
        """Return a replay of the same recording at a given step."""
        return Replay(self.ranks, step_ns, self.recorded)

    @cached_property
    def replayed_steps(self) -> list[list[int]]:
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
        return len(self.replayed_steps[0])

    @cached_property
    def feeds(self) -> list[Feed | None]:
        """The input of each rank's step without the profiler; None if it was not measured, or another step is given."""
        return [None if self._given else feed_of(rank) for rank in self.ranks]

    @cached_property
    def programs(self) -> list[Program]:
        """The chosen steps of each rank as a program."""
        programs = self._whole
        if self.steps < len(self.recorded.steps[0]):  # the chosen ones represent others
            programs = [
                replace(program.of_steps(set(steps)), represented_error=program.step_error)
                for program, steps in zip(programs, self.replayed_steps, strict=True)
            ]
        return join_ranks([rank.trace for rank in self.ranks], programs, self.replayed_steps)

    @cached_property
    def _whole(self) -> list[Program]:
        """The programs of all steps from which some are chosen, with the measured input; ranks do not meet."""
        programs = [
            program.with_input(feed.input_ns) if feed else program
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
        if not self._estimated:
            return StepEstimate(None, "estimated", bounds_of([rank.steps for rank in self.ranks]))
        in_worlds = across(setting.step_ns for setting in self._estimated)
        return StepEstimate(middle(in_worlds), "estimated", range_of(in_worlds))

    @cached_property
    def _estimated(self) -> tuple[Setting, ...]:
        calibration = expected(self.programs, recording_mode([rank.trace for rank in self.ranks]))
        return estimated_settings(
            [rank.steps for rank in self.ranks],
            calibration,
            lambda cost, waits: self._pace(self.programs, cost, waits=waits),
            meets_others=bool(self._collectives_of_others),
            fed_by_workers=any(rank.loader.by_workers for rank in self.ranks),
        )

    @cached_property
    def settings(self) -> tuple[Setting, ...]:
        """The settings at which changed programs are replayed: they fit a known step, or are those of an estimate."""
        known = self._given or self._measured
        if known is None and self._estimated:
            return self._estimated
        step_ns = known.step_ns if known else None
        fits = fits_of(self.programs, self.steps, step_ns) if step_ns and self.runs else (Fit(cost_of(USUAL_NS)),)
        paces = [self._pace(self.programs, fit.cost, gpu_speed=fit.gpu_speed) for fit in fits]
        return tuple(
            Setting(fit.cost, step_ns or before.step_ns, before, gpu_speed=fit.gpu_speed)
            for fit, before in zip(fits, paces, strict=True)
        )

    @property
    def expected(self) -> Setting:
        """The setting of the expected world."""
        return self.settings[min(len(self.settings) - 1, 1)]

    @cached_property
    def _measured(self) -> StepEstimate | None:
        return measured_step(self.ranks)

    @cached_property
    def _collectives_of_others(self) -> frozenset[int]:
        """The collectives in which the only rank meets others whose traces are not given."""
        if len(self.ranks) > 1 or not self.runs:
            return frozenset()
        return frozenset(collectives_of(self.ranks[0].trace, self.replayed_steps[0]).row.tolist())

    @property
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
    def in_worlds(self) -> Floats:
        """The step without the profiler in each world, in ns."""
        return across(setting.step_ns for setting in self.settings)

    @cached_property
    def unchanged(self) -> Paces:
        """The pace of the unchanged programs in each world."""
        return Paces(self.in_worlds, across(setting.before.busy_ns for setting in self.settings))

    @property
    def has_input(self) -> bool:
        """Whether the steps take batches of a DataLoader, as far as is known."""
        return _takes_input(self.programs) or any(self.feeds) or any(rank.loader.waits for rank in self.ranks)

    @property
    def before(self) -> Pace:
        """The pace of the unchanged programs in the expected world."""
        return self.expected.before

    @cached_property
    def bound(self) -> str:
        """What limits the unchanged step: for one trace as in its report, for several ranks `gpu` or `host`."""
        if len(self.ranks) > 1:
            return BOUND_BY_GPU if is_gpu_bound(self.before.busy_ns, self.step_ns) else BOUND_BY_HOST
        return bound_of(self.ranks[0], self.step_ns) or BOUND_BY_HOST

    def run(
        self,
        changed: Sequence[Program],
        host: Callable[[ProfilerCost], ProfilerCost] = lambda cost: cost,
        *,
        gpu_speed: float = 1.0,
        batch_ns: float = inf,
    ) -> Paces:
        """Return the pace of changed programs of all ranks in each world, on a changed host.

        Workers deliver a batch every `batch_ns`; infinity: as now.
        """
        if _takes_input(self.programs) and not _takes_input(changed):
            batch_ns = 0.0
        paces = [
            self.pace_after(
                setting,
                self._pace(
                    changed, host(setting.cost), waits=setting.waits_for_ranks, gpu_speed=gpu_speed * setting.gpu_speed
                ),
                batch_ns,
            )
            for setting in self.settings
        ]
        return Paces(across(after.step_ns for after in paces), across(after.busy_ns for after in paces))

    def _pace(
        self, programs: Sequence[Program], cost: ProfilerCost, *, waits: bool = True, gpu_speed: float = 1.0
    ) -> Pace:
        """Return the pace of programs at a cost; with `waits` not, the only rank waits for no other."""
        if not waits:
            programs = [in_no_time(program, self._collectives_of_others) for program in programs]
        return pace(programs, self.steps, cost, gpu_speed=gpu_speed, calls=CALLS_PER_REPLAY)

    def lengthened_ns(self, pause_ns: float) -> float:
        """Return by how much a pause of one rank's host, in the middle of the replayed steps, lengthens their sum."""
        first, *others = self.programs
        after = self._pace([first.paused(pause_ns), *others], self.expected.cost)
        return max(after.step_ns - self.before.step_ns, 0.0) * self.steps

    def pace_after(self, setting: Setting, after: Pace, batch_ns: float) -> Pace:
        """Return the step after a change: the step now, minus the difference between the two replays.

        Without a change the step stays exactly as it is. If the replay is slower than the step, both replays are scaled
        down. The part of the step that the replay does not explain stays.

        If workers set the pace, a step that becomes shorter waits longer for them. They deliver a batch every
        `batch_ns`; infinity: as they do now, 0: batches are always ready.
        """
        step, before = setting.step_ns, setting.before
        scale = min(step / before.step_ns, 1.0) if before.step_ns else 1.0
        if self.is_starved(setting):
            return Pace(max(min(batch_ns, step), scale * after.step_ns), after.busy_ns)
        step_ns = step - scale * (before.step_ns - after.step_ns)
        step_ns = max(step_ns, min(after.busy_ns, step))
        return Pace(max(step_ns, batch_ns) if batch_ns < inf else step_ns, after.busy_ns)

    def is_starved(self, setting: Setting) -> bool:
        """Return whether workers of a DataLoader set the pace of the step."""
        step, before = setting.step_ns, setting.before
        feeds = [feed for feed in self.feeds if feed is not None]
        if not feeds and step > LOADER_SLACK * before.step_ns and any(rank.loader.waits for rank in self.ranks):
            return True
        late = any(feed.is_late(step) for feed in feeds) if feeds else any(map(_thread_is_late, self.ranks))
        return late and not is_gpu_bound(before.busy_ns, step)  # otherwise the host waits while the GPU works

    def changed(self, after: Paces) -> Floats:
        """Return the step after a change in each world, in ns.

        Only a part of the change is realized, or more than the replay shows; the work of the GPU is left.
        """
        saved = (1 + UNSURE_CHANGE * WORLDS.change) * (self.in_worlds - after.step_ns)
        return np.maximum(self.in_worlds - saved, after.work_ns)

    def outcomes(self, after: Paces) -> Floats:
        """Return the step of another run after a change in each world, in ns: no two runs take the same time.

        However fast the host of that run is, the work of the GPU is left, which differs less.
        """
        by_gpu = is_gpu_bound(self.before.busy_ns, self.step_ns)
        launch_ns = float(np.mean([program.launch_ns for program in self.programs]))
        drift = (GPU_DRIFT if by_gpu else noise_of(launch_ns)) * WORLDS.drift
        return np.maximum(self.changed(after) * (1 + drift), after.work_ns * (1 + DRIFT_SHARE_OF_WORK * drift))


def _thread_is_late(rank: Details) -> bool:
    return (
        rank.loader.by_workers
        and bool(rank.loader.pins or rank.loader.pinned)
        and (rank.loader.wait_in_steps_ns >= STARVED_SHARE_OF_STEP * rank.steps.divisor * (rank.steps.traced_ns or inf))
    )


def _takes_input(programs: Sequence[Program]) -> bool:
    return any(call.input_ns for program in programs for call in program.calls)


def _middle_steps(traces: Sequence[Trace]) -> list[list[int]]:
    """Return per trace the complete steps nearest to the middle: at most `MAX_CALLS_REPLAYED` calls, at least a step.

    They are the same steps of the job on all ranks: steps are counted from the first one that was recorded whole, and a
    step that is unlike the others on one rank is left out on all.
    """
    whole = [np.flatnonzero(trace.steps.whole) for trace in traces]
    count = min(len(steps) for steps in whole)
    on_all = np.all([trace.steps.complete[steps[:count]] for trace, steps in zip(traces, whole, strict=True)], axis=0)
    complete = [
        steps[:count][on_all] if on_all.any() else np.flatnonzero(trace.steps.complete)
        for trace, steps in zip(traces, whole, strict=True)
    ]
    count = min(len(steps) for steps in complete)
    calls = sum(
        np.bincount(trace.links.call_step[trace.links.call_step != NONE], minlength=len(trace.steps))[steps[:count]]
        for trace, steps in zip(traces, complete, strict=True)
    )
    middle = (count - 1) / 2
    order = np.argsort(np.abs(np.arange(count) - middle), kind="stable")
    kept = np.cumsum(np.asarray(calls)[order]) <= MAX_CALLS_REPLAYED
    kept[:1] = True
    return [sorted(steps[order[kept]].tolist()) for steps in complete]
