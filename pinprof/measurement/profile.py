"""What was measured of one trace: sums, each known or withheld."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import numpy as np

from pinprof.analyses.communication import Communication
from pinprof.analyses.copies import CopyGroup, measure_copies
from pinprof.analyses.course import Course, Irregular
from pinprof.analyses.host import HostSums, measure_host
from pinprof.analyses.idle import DeviceTime
from pinprof.analyses.launches import Launches, SlowLaunches, measure_launches, measure_slow_launches
from pinprof.analyses.loader import LoaderSums
from pinprof.analyses.overlap import Overlap
from pinprof.analyses.parts import MeanStep, measure_mean
from pinprof.analyses.pause import Pause, measure_pause
from pinprof.analyses.spent import KernelSums, OpSums, measure_kernels, measure_ops
from pinprof.analyses.steps import StepTimes
from pinprof.analyses.syncs import BareSite, Cost, Site
from pinprof.details import Details, details_of
from pinprof.glance import as_table, one_line
from pinprof.measurement.known import Known, Perhaps, Withheld
from pinprof.measurement.sums import (
    CopySums,
    DrainPerStep,
    ExposedSums,
    GpuSums,
    OverlapSums,
    PerStep,
    WaitCost,
    WaitSite,
    WaitsPerStep,
    whole_cost,
)
from pinprof.measurement.trust import FIGURES, Seen, find_doubts
from pinprof.measurement.trust.doubt import Doubt, Doubted, doubted
from pinprof.replay import Replay, StepEstimate
from pinprof.replay.bound import bound_of
from pinprof.trace.sizes import total_bytes
from pinprof.trace.sources import Sources
from pinprof.trace.tables import DIRECTIONS, HOST_MEMORIES, NONE, PAGEABLE, Info, Trace
from pinprof.units import counted, duration, percent

T = TypeVar("T")


@dataclass(frozen=True)
class Profile:
    """The sums that were measured of one trace: small and picklable, whatever the trace has."""

    path: str
    info: Info
    begin_ns: int
    """When the first event began, in ns since 1970 as far as the trace tells."""
    span_ns: int
    counts: dict[str, int]
    """Events by category, as in `Trace.counts`."""
    skipped: dict[str, int]
    """Events that could not be used, by reason."""
    doubts: tuple[Doubt, ...]
    """What makes the trace less than it seems, the gravest first."""
    withheld: Doubted
    """Why figures are not given, for those who take them from the rows of the trace."""
    steps: StepTimes
    """Its times are None where they are withheld."""
    step: Perhaps[StepEstimate]
    """The step without the profiler."""
    bound: str | None
    """`host`, `gpu`, `input` or `communication`; None without GPU work, and where it cannot be told."""
    gpus: tuple[GpuSums, ...]
    copies: tuple[CopySums, ...]
    copy_ns: Perhaps[int]
    """How long copies run."""
    overlap: Perhaps[OverlapSums]
    exposed: tuple[ExposedSums, ...]
    """By reason, the longest first."""
    sites: tuple[WaitSite, ...]
    """Where the host waits, the longest idle time first."""
    loader: LoaderSums
    communication: Communication
    per_step: Perhaps[PerStep | None]
    """None without complete steps."""
    mean_steps: Perhaps[tuple[MeanStep, ...]]
    """How the step divides on each GPU; none if its length is not known."""
    course: Course | None
    """The course of the whole run; None where pinprof did not record it."""
    unlike: tuple[Irregular, ...]
    """What steps that are unlike the others add, in the run where that was noted, else in the trace."""
    pause: Pause | None
    """As traced; None without complete steps on the host, and where sums per step are withheld."""
    launches: Launches | None
    """How kernels are launched, as traced; None without complete steps, and where sums per step are withheld."""
    slow_launches: SlowLaunches | None
    """As traced; None where sums per step are withheld."""
    kernels: Perhaps[KernelSums]
    """The kernels of the complete steps by name."""
    ops: Perhaps[OpSums]
    """The ops of the complete steps by name, as traced."""
    host: HostSums | None
    """Where the host's time goes without the profiler; None where it was not sampled."""

    def __repr__(self) -> str:
        return one_line(f"profile of {self.path!r}", (f"{name} {what}" for name, what in self._at_a_glance))

    def _repr_html_(self) -> str:
        """Return the step and what it is made of as a table, for a notebook."""
        return as_table(self.path, self._at_a_glance)

    @property
    def _at_a_glance(self) -> list[tuple[str, str]]:
        """What an expert looks for first: how long the step is, what limits it, and where it goes."""
        step, traced, divisor = self.estimate.step_ns, self.steps.traced_ns, self.steps.divisor
        rows = [
            ("step", f"{duration(step)} ({self.estimate.source})" if step else "not known"),
            ("traced step", f"{duration(traced)} ({counted(self.steps.count, 'step')})" if traced else ""),
            ("bound by", self.bound or ""),
        ]
        for mean in self.parts:
            parts = (
                ("kernels", mean.compute_ns + mean.both_ns),
                ("exposed copies", mean.copy_ns),
                ("memsets", mean.memset_ns),
                ("idle", mean.idle_ns),
            )
            named = [f"{name} {percent(time / mean.length_ns)}" for name, time in parts if time and mean.length_ns]
            rows.append((f"GPU {mean.device}", " + ".join(named)))
        if self.waits:
            stall = sum(cost.stall_ns for _, cost in self.waits) / divisor
            rows.append(("stalls", f"{duration(stall)} at {counted(len(self.waits), 'site')}"))
        rows.append(("not given", ", ".join(words for name, words in FIGURES.items() if getattr(self.withheld, name))))
        return [(name, what) for name, what in rows if what]

    @property
    def step_ns(self) -> float | None:
        """The step without the profiler, or as it was traced where the former is not known."""
        return self.estimate.step_ns or self.steps.traced_ns

    @property
    def estimate(self) -> StepEstimate:
        """The step without the profiler, None in it where it is withheld."""
        return self.step.value if isinstance(self.step, Known) else UNKNOWN_STEP

    @property
    def parts(self) -> tuple[MeanStep, ...]:
        """How the step divides on each GPU; none where that is withheld, or not known."""
        return self.mean_steps.value if isinstance(self.mean_steps, Known) else ()

    @property
    def idles(self) -> bool:
        """Whether some GPU works for a time in which it could be idle."""
        return any(not isinstance(gpu.time, Known) or gpu.time.value.span_ns for gpu in self.gpus)

    @property
    def waits(self) -> Sequence[tuple[WaitSite, Cost]]:
        """The sites at which the host waits in the complete steps, with all that they cost there; else nothing."""
        if self.withheld.per_step:
            return ()
        found = ((site, whole_cost(site.in_steps)) for site in self.sites if site.is_wait)
        return [(site, cost) for site, cost in found if cost and cost.count]

    @property
    def sums(self) -> PerStep | None:
        """The sums per step; None without complete steps, and where they are withheld."""
        return self.per_step.value if isinstance(self.per_step, Known) else None

    def doubt(self, check: str) -> Doubt | None:
        """Return what a check has found; None where it has found nothing."""
        return next((doubt for doubt in self.doubts if doubt.check == check), None)

    def gravest(self, *reasons: Doubt | None) -> Doubt | None:
        """Return the gravest of the reasons for which figures are withheld; None where there is none."""
        return next((doubt for doubt in self.doubts if doubt in reasons), None)


UNKNOWN_STEP = StepEstimate(None, "estimated", None)


def measure(trace: Trace, sources: Sources | None = None) -> Profile:
    """Return all measurements of a trace; lines are looked up in `sources`, by default those beside the trace."""
    details = details_of(trace, sources)
    return profile_of(details, Replay([details]))


def profile_of(details: Details, replay: Replay) -> Profile:
    """Return the sums of what was measured; `replay` is of the same trace."""
    doubts = doubts_of(details, replay)
    return _Sums(details, replay, doubts, doubted(doubts)).profile()


def doubts_of(details: Details, replay: Replay) -> tuple[Doubt, ...]:
    """Return what makes a trace less than it seems, the gravest first."""
    return find_doubts(
        Seen(details.trace, details.steps, replay.step, details.syncs, details.irregular, details.loader.by_workers)
    )


def _in_short(info: Info) -> Info:
    """Return what a trace says about itself without what only tells the lines of its waits."""
    watched = replace(info.watched, sequences=None) if info.watched else None
    return replace(info, lines=(), contexts=None, watched=watched)


@dataclass(frozen=True)
class _Sums:
    """Takes the sums of one trace, and withholds those that it is not fit for."""

    details: Details
    replay: Replay
    doubts: tuple[Doubt, ...]
    why: Doubted

    def profile(self) -> Profile:
        details, trace, why = self.details, self.details.trace, self.why
        steps, step = self.steps(), self.step()
        length = (step.value.step_ns if isinstance(step, Known) else None) or steps.traced_ns
        begin, end = _times(trace)
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
            copy_ns=_unless(why.copies, lambda: sum(device.copy_ns for device in details.overlap.devices)),
            overlap=_unless(why.overlap, lambda: _overlap(details.overlap)),
            exposed=tuple(self.exposed(*row) for row in details.overlap.by_reason),
            sites=tuple(map(self.site, details.syncs.sites)),
            loader=details.loader.sums,
            communication=details.communication,
            per_step=_unless(why.per_step, self.per_step),
            mean_steps=_unless(
                why.step or why.per_step or why.busy or why.overlap, lambda: _mean_steps(details, length)
            ),
            course=details.course,
            unlike=details.unlike,
            pause=None if no_sums else measure_pause(trace, details.loader.times),
            launches=None if no_sums else measure_launches(trace, steps.divisor),
            slow_launches=None if no_sums else measure_slow_launches(trace, details.syncs.stalls.call, steps.divisor),
            kernels=_unless(self.no_kernels, lambda: measure_kernels(trace, details.sources)),
            ops=_unless(no_sums, self.ops),
            host=measure_host(trace.info.host),
        )

    @property
    def no_kernels(self) -> Doubt | None:
        """Why the time of kernels per step is withheld, if it is."""
        return self.why.per_step or self.why.busy

    def ops(self) -> OpSums:
        """Return the ops by name, with their stalls and kernels where these are given."""
        details, stalls = self.details, self.details.syncs.stalls
        counted = ~stalls.profiler
        known = None if self.why.stalls else (stalls.call[counted], stalls.stall_ns[counted])
        return measure_ops(details.trace, details.sources, known, kernels=not self.no_kernels)

    def steps(self) -> StepTimes:
        """Return the steps as traced, without the times that are withheld."""
        steps = self.details.steps
        if self.why.per_step or self.why.busy:
            steps = replace(steps, busy_ns=None)
        if self.why.step:
            steps = replace(steps, host_ns=None, device_ns=None, traced_ns=None, each_ns=steps.each_ns[:0])
        return steps

    def step(self) -> Perhaps[StepEstimate]:
        """Return the step without the profiler; what was measured stays."""
        step = self.replay.step
        return _unless((self.why.estimate or self.why.step) if step.source == "estimated" else None, lambda: step)

    def gpu(self, device: DeviceTime) -> GpuSums:
        """Return the times of a device."""
        return GpuSums(
            device.device,
            _unless(self.why.busy, lambda: device),
            _unless(self.why.busy or self.why.causes, lambda: device.idle_by_cause),
        )

    def copies(self, group: CopyGroup) -> CopySums:
        """Return the sums of a group of copies."""
        why = self.why
        return CopySums(
            group.direction,
            group.host_memory,
            group.unsized,
            _unless(why.copies, lambda: group.copied),
            _unless(why.overlap, lambda: group.hidden),
            _unless(why.stalls, lambda: _blocked(self.details, group)),
        )

    def exposed(self, reason: str, count: int, exposed_ns: int) -> ExposedSums:
        """Return the sums of the exposed copies of one reason."""
        why = self.why
        return ExposedSums(
            _unless(why.causes, lambda: reason),
            _unless(why.copies, lambda: count),
            _unless(why.overlap, lambda: exposed_ns),
        )

    def site(self, site: Site) -> WaitSite:
        """Return a site with what it costs."""
        return WaitSite(
            **{each.name: getattr(site, each.name) for each in fields(BareSite)},
            total=self.cost(site.total),
            in_steps=self.cost(site.in_steps),
        )

    def cost(self, cost: Cost) -> Perhaps[WaitCost]:
        """Return what waits cost."""
        return _unless(
            self.why.stalls, lambda: WaitCost(cost.count, cost.stall_ns, _unless(self.why.drain, lambda: cost))
        )

    def per_step(self) -> PerStep | None:
        """Return the sums per step; None without complete steps."""
        count, trace, overlap, why = self.details.steps.count, self.details.trace, self.details.overlap, self.why
        if not count:
            return None
        gpu = trace.gpu
        inside = trace.steps.holds(trace.links.activity_step[overlap.row])
        rows = overlap.row[inside]
        pageable = total_bytes(gpu.bytes[rows[gpu.host_memory[rows] == PAGEABLE]]).known
        return PerStep(
            _unless(why.stalls, self.waits),
            _unless(why.overlap, lambda: int(overlap.exposed_ns[inside & overlap.counts].sum()) / count),
            _unless(why.copies, lambda: None if pageable is None else pageable / count),
        )

    def waits(self) -> WaitsPerStep:
        """Return the waits per step."""
        sites, count = self.details.syncs.sites, self.details.steps.count
        hidden = [site.in_steps for site in sites if site.verdict == "hidden"]
        every = [site.in_steps for site in sites if site.is_wait]
        return WaitsPerStep(
            hidden=sum(cost.count for cost in hidden) / count,
            hidden_stall_ns=sum(cost.stall_ns for cost in hidden) / count,
            count=sum(cost.count for cost in every) / count,
            stall_ns=sum(cost.stall_ns for cost in every) / count,
            drained=_unless(
                self.why.drain,
                lambda: DrainPerStep(
                    drain_ns=sum(cost.drain_ns for cost in every) / count,
                    worked_ns=sum(cost.worked_ns for cost in every) / count,
                    bubble_ns=sum(cost.idle_ns for cost in every) / count,
                ),
            ),
        )


def _unless(reason: Doubt | None, figure: Callable[[], T]) -> Perhaps[T]:
    """Return a figure, or why it is withheld."""
    return Withheld(reason) if reason else Known(figure())


def _times(trace: Trace) -> tuple[int, int]:
    tables = [table for table in (trace.ops, trace.annotations, trace.calls, trace.gpu) if len(table)]
    if not tables:
        return 0, 0
    return min(int(table.start_ns[0]) for table in tables), max(int(table.end_ns.max()) for table in tables)


def _overlap(overlap: Overlap) -> OverlapSums:
    overlapped = sum(device.overlapped_ns for device in overlap.devices)
    exposed = sum(device.exposed_ns for device in overlap.devices)
    return OverlapSums(overlapped, exposed, overlap.known_ns, overlap.fraction)


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
