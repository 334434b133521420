"""Predicts the step after a change of the code."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from pinprof.details import details_of
from pinprof.ground.errors import TraceError
from pinprof.ground.units import NS_PER_MS, duration, one_line
from pinprof.prediction.edits import NO_EDITS, Edits, NotedPauses, edited
from pinprof.prediction.scenarios import ALL_WAITS, Scenario, edits_of, places_in
from pinprof.replay import Replay
from pinprof.replay.bound import BOUND_BY_GPU, BOUND_BY_HOST, LOADER_SLACK, is_gpu_bound
from pinprof.replay.program import Floats
from pinprof.replay.replay import Paces
from pinprof.replay.settings import WORLDS, RangeNs, middle, range_of
from pinprof.trace import Trace, read_trace

PACE_SHARE_OF_STEP = 0.95  # what takes this share of a step sets its pace
UNSURE_PINNING = 0.25
"""The share by which a thread that pins may be slower or faster than the copies and pauses of the main thread show."""


@dataclass(frozen=True)
class Saving:
    """What a change saves per step over the worlds, in ns; negative where the step becomes longer."""

    saving_ns: float
    range_ns: RangeNs


@dataclass(frozen=True, repr=False)
class Prediction:
    """The step before and after a change; times in ns."""

    baseline_ns: float
    baseline_source: str  # `given`, `measured` (recorded by pinprof run), or `estimated`
    predicted_ns: float
    range_ns: RangeNs
    bound_before: str
    bound_after: str
    scenario: Scenario
    saving: Saving
    pinning_ns: float = 0.0
    """How long a thread of the DataLoader then needs to pin the batches of a step; 0 if none does."""

    def __repr__(self) -> str:
        low, high = self.range_ms
        step = f"{self.baseline_ms:.3g} to {self.predicted_ms:.3g} ms per step ({low:.3g} to {high:.3g})"
        return one_line("prediction", [step, f"saves {self.saving_ms:.3g} ms", f"bound by the {self.bound_after}"])

    @property
    def baseline_ms(self) -> float:
        """The step before the change."""
        return self.baseline_ns / NS_PER_MS

    @property
    def predicted_ms(self) -> float:
        """The step after the change."""
        return self.predicted_ns / NS_PER_MS

    @property
    def range_ms(self) -> tuple[float, float]:
        """The range in which the step after the change lies."""
        low, high = self.range_ns
        return low / NS_PER_MS, high / NS_PER_MS

    @property
    def saving_ms(self) -> float:
        """How much shorter the step becomes; negative if it becomes longer."""
        return self.baseline_ms - self.predicted_ms

    @property
    def waits_for_pinning(self) -> bool:
        """Whether this thread then sets the pace of the step."""
        return self.pinning_ns > 0 and self.pinning_ns >= PACE_SHARE_OF_STEP * self.predicted_ns

    @property
    def speedup(self) -> float:
        """How many times as fast the step is after the change."""
        return self.baseline_ns / self.predicted_ns

    @property
    def is_certain(self) -> bool:
        """Whether the step becomes shorter, or longer, in nearly all worlds."""
        low, high = self.saving.range_ns
        return low > 0 or high < 0


def predict(
    trace: str | Path | Trace | Sequence[Trace], scenario: Scenario, step_ms: float | None = None
) -> Prediction:
    """Return the step after a change of the code, by replaying the recorded program with the change.

    `trace` is a trace, the file or URL of one, or the traces of all ranks of a job, whose collectives wait for each
    other: then the change is made on all of them. `step_ms` is the step without the profiler in milliseconds, if you
    know it from elsewhere. Raises TraceError if a trace has no calls or no complete step to replay, if the traces are
    not of one job, if `step_ms` cannot be their step, or if the host does not wait at a place that the scenario names.
    """
    source = read_trace(trace) if isinstance(trace, str | Path) else trace
    return predict_scenario(replay_of([source] if isinstance(source, Trace) else source, step_ms), scenario)


def predict_scenario(replay: Replay, scenario: Scenario) -> Prediction:
    """Return the step after a change of the code; raises TraceError if it names a place where nothing waits."""
    first, *others = (str(rank.trace.path) for rank in replay.ranks)
    name = f"{first} and {len(others)} more" if others else first
    places = places_in(name, [rank.syncs for rank in replay.ranks], scenario.drop_syncs)
    scenario = replace(scenario, drop_syncs=places)
    return predict_edits(replay, [edits_of(rank, scenario) for rank in replay.ranks], scenario)


def paces_after(replay: Replay, edits: Sequence[Edits], *, host_speed: float = 1.0, gpu_speed: float = 1.0) -> Paces:
    """Return the pace after edits of the program of each rank, in each world."""
    key = (*edits, host_speed, gpu_speed)
    if key not in replay.known:
        replay.known[key] = _paces_after(replay, edits, host_speed, gpu_speed)
    return replay.known[key]


def _paces_after(replay: Replay, edits: Sequence[Edits], host_speed: float, gpu_speed: float) -> Paces:
    if host_speed == gpu_speed == 1.0 and all(change == NO_EDITS for change in edits):
        return replay.unchanged
    changed = [
        edited(program, rank, change)
        for program, rank, change in zip(replay.programs, replay.ranks, edits, strict=True)
    ]
    batch_ns = max(change.batch_ns for change in edits)
    after = replay.run(
        changed,
        lambda cost: dataclasses.replace(cost, host_speed=cost.host_speed * host_speed),
        gpu_speed=gpu_speed,
        batch_ns=batch_ns,
    )
    stops = frozenset[NotedPauses]().union(*(change.stops for change in edits))
    stopped_ns = sum(replay.lengthened_ns(stop.ns) * stop.per_step for stop in stops)
    pinning_ns = max(change.pinning_ns for change in edits) * (1 + UNSURE_PINNING * WORLDS.host)
    return Paces(np.maximum(np.maximum(after.step_ns - stopped_ns, 0.0), pinning_ns), after.busy_ns)


def replay_of(traces: Sequence[Trace], step_ms: float | None = None) -> Replay:
    """Return the traces of a job's ranks as programs that can be changed; raises TraceError as `predict` does."""
    _check_ranks(traces)
    replay = Replay([details_of(trace) for trace in traces], step_ms * 1e6 if step_ms else None)
    for rank, program in zip(replay.ranks, replay.programs, strict=True):
        if not len(rank.trace.gpu) or not program.calls:
            raise TraceError(
                f"{rank.trace.path}: has no complete step with runtime calls and GPU activities, so no change can be "
                "predicted; record with ProfilerActivity.CPU and CUDA, and call profiler.step() once per training step"
            )
    if not replay.step.step_ns:
        raise TraceError(f"{traces[0].path}: its step time is unknown; give it with --step-ms")
    if step_ms:
        _check_step(replay, step_ms * 1e6)
    return replay


def _check_step(replay: Replay, step_ns: float) -> None:
    """Refuse a step that cannot be that of the traces: a profiler lengthens a step, but not the work of the GPU."""
    traced = max(rank.steps.traced_ns or 0.0 for rank in replay.ranks)
    busy = min(rank.steps.busy_ns or 0.0 for rank in replay.ranks)
    name, step = replay.ranks[0].trace.path, duration(step_ns)
    if step_ns > LOADER_SLACK * traced > 0 and not any(rank.loader.waits for rank in replay.ranks):
        raise TraceError(
            f"{name}: a step of {step} is not its own: the step in the trace takes {duration(traced)} with the "
            "profiler, and waits for no DataLoader; give the step of this program, in ms"
        )
    if LOADER_SLACK * step_ns < busy:
        raise TraceError(
            f"{name}: a step of {step} is not its own: the GPU works for {duration(busy)} of each step; give the step "
            "of this program, in ms"
        )


def _check_ranks(traces: Sequence[Trace]) -> None:
    if not traces:
        raise TraceError("no trace is given")
    path_of: dict[int | str, str] = {}
    for trace in traces:
        rank = trace.info.rank if trace.info.rank is not None else trace.path
        if rank in path_of:
            raise TraceError(f"{trace.path}: is of the same rank as {path_of[rank]}; give one trace of each rank")
        path_of[rank] = trace.path
    sizes = {trace.info.world_size for trace in traces} - {None}
    if len(sizes) > 1:
        raise TraceError(
            f"{traces[0].path}: the traces are of jobs with {' and '.join(map(str, sorted(sizes, key=str)))} ranks; "
            "give those of one job"
        )


def predict_edits(replay: Replay, edits: Sequence[Edits], scenario: Scenario) -> Prediction:
    """Return the step after edits of the program of each rank, and with the speeds of the scenario."""
    after = paces_after(replay, edits, host_speed=scenario.host_speed, gpu_speed=scenario.gpu_speed)
    outcomes = replay.outcomes(after)
    return Prediction(
        replay.step_ns,
        replay.step.source,
        middle(outcomes),
        range_of(outcomes),
        replay.bound,
        _bound_after(replay, after),
        scenario,
        saving_in(replay.in_worlds - outcomes),
        max(change.pinning_ns for change in edits),
    )


def saving_in(saved_ns: Floats) -> Saving:
    """Return the saving of a change by what it saves in each world, in ns."""
    return Saving(middle(saved_ns), range_of(saved_ns))


def _bound_after(replay: Replay, after: Paces) -> str:
    """Return what limits the step after a change: the same as before, unless the replays of both differ."""
    was_gpu = is_gpu_bound(replay.before.busy_ns, replay.step_ns)
    is_gpu = is_gpu_bound(middle(after.busy_ns), middle(after.step_ns))
    return replay.bound if was_gpu == is_gpu else BOUND_BY_GPU if is_gpu else BOUND_BY_HOST


EVERYTHING = Scenario(
    drop_syncs=(ALL_WAITS,), pin=True, non_blocking=True, overlap_copies=True, drop_allocs=True, cuda_graph="step"
)

USUAL_SCENARIOS = (
    ("no waits", Scenario(drop_syncs=(ALL_WAITS,))),
    ("pinned copies", Scenario(pin=True)),
    ("non-blocking copies", Scenario(non_blocking=True)),
    ("pinned and non-blocking copies", Scenario(pin=True, non_blocking=True)),
    ("pinned, non-blocking and prefetched copies", Scenario(pin=True, non_blocking=True, overlap_copies=True)),
    ("no allocations", Scenario(drop_allocs=True)),
    ("a fused optimizer", Scenario(fused_optimizer=True)),
    ("CUDA graphs of forward and backward", Scenario(cuda_graph="model")),
    ("a CUDA graph of the step, without waits", Scenario(drop_syncs=(ALL_WAITS,), drop_allocs=True, cuda_graph="step")),
    ("all of these", EVERYTHING),
)


def predict_usual(replay: Replay, given: Scenario) -> list[tuple[str, Prediction]]:
    """Return the predictions of the usual scenarios by name; pinned copies run at the rate of `given`."""
    predictions = []
    for name, usual in USUAL_SCENARIOS:
        scenario = replace(usual, pinned_gbps=given.pinned_gbps, machine=given.machine) if usual.pin else usual
        predictions.append((name, predict_scenario(replay, scenario)))
    return predictions
