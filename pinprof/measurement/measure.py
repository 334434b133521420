"""Measures a trace: takes the sums of its rows, and withholds those that the recording does not allow."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from pinprof.analyses.by_name.kernels import measure_kernels
from pinprof.analyses.by_name.ops import OpSums, measure_ops
from pinprof.analyses.copies import CopyGroup, measure_copies
from pinprof.analyses.host_samples import measure_host
from pinprof.analyses.idle import DeviceTime
from pinprof.analyses.launches import measure_launches, measure_pause, measure_slow_launches
from pinprof.analyses.memory import measure_memory
from pinprof.analyses.step_parts import MeanStep, measure_mean
from pinprof.analyses.steps import StepTimes
from pinprof.analyses.syncs.sites import BareSite, Site, Stalled, WaitCost
from pinprof.details import Details, details_of
from pinprof.measurement.figures import FIGURES, TraceFigure
from pinprof.measurement.profile import CopySums, ExposedSums, GpuSums, OverlapSums, Profile, WaitSite
from pinprof.measurement.trust import TrustFacts, find_doubts
from pinprof.measurement.trust.doubt import Doubt, Known, KnownOrWithheld, Withheld, WithheldKinds, withheld_kinds
from pinprof.replay import Replay, StepEstimate
from pinprof.replay.bound import bound_of
from pinprof.trace import Trace, read_trace
from pinprof.trace.metadata.info import Info
from pinprof.trace.sources import Sources
from pinprof.trace.tables import DIRECTIONS, HOST_MEMORIES, NONE

T = TypeVar("T")


def measure(trace: str | Path | Trace, sources: Sources | None = None) -> Profile:
    """Return the profile of a trace, given as an object, a file or a URL.

    Lines are looked up in `sources`, by default in the folder of the trace. Raises TraceError if it cannot be read.
    """
    details = details_of(trace if isinstance(trace, Trace) else read_trace(trace), sources)
    return profile_of(details, Replay([details]))


def profile_of(details: Details, replay: Replay) -> Profile:
    """Return the sums of a trace; `replay` is of the same trace."""
    doubts = doubts_of(details, replay)
    return _Sums(details, replay, doubts, withheld_kinds(doubts)).profile()


def doubts_of(details: Details, replay: Replay) -> tuple[Doubt, ...]:
    """Return the doubts about a trace, the gravest first."""
    step, by_workers = replay.step, details.loader.by_workers
    return find_doubts(TrustFacts(details.trace, details.steps, step, details.syncs, details.irregular, by_workers))


def _in_short(info: Info) -> Info:
    """Return what a trace says about itself, without the records that only serve to find lines of waits."""
    watched = replace(info.watched, sequences=None) if info.watched else None
    return replace(info, lines=(), contexts=None, watched=watched)


@dataclass(frozen=True)
class _Sums:
    """Takes the sums of one trace, and withholds those that its doubts affect."""

    details: Details
    replay: Replay
    doubts: tuple[Doubt, ...]
    why: WithheldKinds

    def profile(self) -> Profile:
        details, trace, why, overlap = self.details, self.details.trace, self.why, self.details.overlap
        steps, step = self.steps(), self.step()
        length = (step.value.step_ns if isinstance(step, Known) else None) or steps.traced_ns
        begin, end = _span(trace)
        no_sums = why.step or why.per_step
        return Profile(
            path=trace.path,
            info=_in_short(trace.info),
            begin_ns=(trace.info.base_ns or 0) + begin,
            span_ns=end - begin,
            counts=trace.counts,
            skipped=trace.skipped,
            doubts=self.doubts,
            withheld=why,
            steps=steps,
            step=step,
            bound=None if no_sums or why.busy or why.causes else bound_of(details, length),
            gpus=tuple(self.gpu(device) for device in details.devices),
            copies=tuple(self.copies(group) for group in measure_copies(trace)),
            copy_ns=_unless(why.copies, lambda: overlap.copy_ns),
            overlap=_unless(
                why.overlap,
                lambda: OverlapSums(
                    overlap.overlapped_ns, overlap.copy_ns - overlap.overlapped_ns, overlap.known_ns, overlap.fraction
                ),
            ),
            exposed=tuple(self.exposed(*row) for row in overlap.by_reason),
            sites=tuple(map(self.site, details.syncs.sites)),
            loader=details.loader,
            communication=details.communication,
            per_step=self.per_step(),
            mean_steps=_unless(
                why.step or why.per_step or why.busy or why.overlap, lambda: _mean_steps(details, length)
            ),
            whole_run=details.whole_run,
            serving=() if no_sums else details.serving,
            unlike=details.unlike,
            pause=None if no_sums else measure_pause(trace, details.loader.times),
            launches=None if no_sums else measure_launches(trace, steps.divisor),
            slow_launches=None if no_sums else measure_slow_launches(trace, details.syncs.stalls.call, steps.divisor),
            kernels=_unless(self.no_kernels, lambda: measure_kernels(trace, details.sources)),
            ops=_unless(no_sums, self.ops),
            memory=measure_memory(trace),
            host=measure_host(trace.info.host),
        )

    @property
    def no_kernels(self) -> Doubt | None:
        """Why the time of kernels per step is withheld; None if it is given."""
        return self.why.per_step or self.why.busy

    def ops(self) -> OpSums:
        """Return the ops by name, with their stalls and kernels unless these are withheld."""
        details, stalls = self.details, self.details.syncs.stalls
        counted = ~stalls.profiler
        stalled = None if self.why.stalls else (stalls.call[counted], stalls.stall_ns[counted])
        return measure_ops(details.trace, details.sources, details.op_own_ns, stalled, kernels=not self.no_kernels)

    def steps(self) -> StepTimes:
        """Return the steps as traced, without the times that are withheld."""
        steps = self.details.steps
        if self.why.per_step or self.why.busy:
            steps = replace(steps, busy_ns=None)
        if self.why.step:
            steps = replace(
                steps, host_ns=None, device_ns=None, traced_ns=None, host_lengths_ns=steps.host_lengths_ns[:0]
            )
        return steps

    def step(self) -> KnownOrWithheld[StepEstimate]:
        """Return the step without the profiler; only an estimated one can be withheld."""
        step = self.replay.step
        return _unless((self.why.estimate or self.why.step) if step.source == "estimated" else None, lambda: step)

    def gpu(self, device: DeviceTime) -> GpuSums:
        return GpuSums(
            device.device,
            _unless(self.why.busy, lambda: device),
            _unless(self.why.busy or self.why.causes, lambda: device.idle_by_cause),
        )

    def copies(self, group: CopyGroup) -> CopySums:
        return CopySums(
            group.direction,
            group.host_memory,
            group.unsized,
            _unless(self.why.copies, lambda: group.copied),
            _unless(self.why.overlap, lambda: group.hidden),
            _unless(self.why.stalls, lambda: _blocked(self.details, group)),
        )

    def exposed(self, reason: str, count: int, exposed_ns: int) -> ExposedSums:
        return ExposedSums(
            _unless(self.why.causes, lambda: reason),
            _unless(self.why.copies, lambda: count),
            _unless(self.why.overlap, lambda: exposed_ns),
        )

    def site(self, site: Site) -> WaitSite:
        why = self.why
        return WaitSite(
            **{field.name: getattr(site, field.name) for field in fields(BareSite)},
            total=_unless(why.stalls, lambda: _stalled(site.total)),
            total_cost=_unless(why.stalls or why.drain, lambda: site.total),
            in_steps=_unless(why.stalls, lambda: _stalled(site.in_steps)),
            in_steps_cost=_unless(why.stalls or why.drain, lambda: site.in_steps),
        )

    def per_step(self) -> dict[str, KnownOrWithheld[float | None]]:
        """Return the sums per step by the name of their figure; nothing without complete steps."""
        if not self.details.steps.count:
            return {}
        return {
            figure.name: _unless(self.why.reason(figure.withheld_by), partial(_mean, figure, self.details))
            for figure in FIGURES
            if figure.is_sum
        }


def _mean(figure: TraceFigure, details: Details) -> float | None:
    if figure.total is not None:
        total = figure.total(details)
    else:
        values = figure.in_steps(details) if figure.in_steps else None
        total = None if values is None else float(values.sum())
    return None if total is None else total / details.steps.count


def _unless(reason: Doubt | None, figure: Callable[[], T]) -> KnownOrWithheld[T]:
    return Withheld(reason) if reason else Known(figure())


def _stalled(cost: WaitCost) -> Stalled:
    return Stalled(cost.count, cost.stall_ns)


def _span(trace: Trace) -> tuple[int, int]:
    tables = [table for table in (trace.ops, trace.annotations, trace.calls, trace.gpu) if len(table)]
    if not tables:
        return 0, 0
    return min(int(table.start_ns[0]) for table in tables), max(int(table.end_ns.max()) for table in tables)


def _mean_steps(details: Details, length: float | None) -> tuple[MeanStep, ...]:
    if not length:
        return ()
    overlap, counts = details.overlap, details.overlap.counts
    return measure_mean(details.trace, overlap.row[counts], overlap.exposed_ns[counts], length)


def _blocked(details: Details, group: CopyGroup) -> int:
    """Return how long the host was blocked in calls that made or awaited the copies of a group, in ns."""
    stalls, gpu = details.syncs.stalls, details.trace.gpu
    rows = np.flatnonzero((stalls.copy != NONE) & ~stalls.profiler)
    copy = stalls.copy[rows]
    direction, memory = DIRECTIONS.index(group.direction), HOST_MEMORIES.index(group.host_memory)
    chosen = (gpu.direction[copy] == direction) & (gpu.host_memory[copy] == memory)
    return int(stalls.stall_ns[rows[chosen]].sum())
