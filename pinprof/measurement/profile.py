"""Everything that was measured of one trace, as a Profile."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np

from pinprof.analyses.communication import Communication, measure_communication
from pinprof.analyses.copies import CopyGroup, measure_copies
from pinprof.analyses.hazards import Hazards, measure_hazards
from pinprof.analyses.idle import DeviceTime, measure_idle
from pinprof.analyses.launches import SlowLaunches, measure_slow_launches
from pinprof.analyses.loader import LoaderWaits, measure_loader
from pinprof.analyses.overlap import Overlap, measure_overlap
from pinprof.analyses.parts import MeanStep, measure_mean
from pinprof.analyses.pause import Pause, measure_pause
from pinprof.analyses.steps import StepTimes, measure_steps
from pinprof.analyses.syncs import Stalls, Syncs, measure_syncs
from pinprof.measurement.trust import Missing, Seen, find_missing, withheld
from pinprof.replay.bound import bound_of, gaps_with_causes
from pinprof.trace.callers import call_places
from pinprof.trace.lines import SourceLine
from pinprof.trace.sizes import total_bytes
from pinprof.trace.sources import Sources
from pinprof.trace.tables import DIRECTIONS, HOST_MEMORIES, NONE, PAGEABLE, Info, Int64s, Trace
from pinprof.whatif import Model, Recorded, StepEstimate

OF_PARTS = ("step", "per_step", "busy", "overlap")
"""The figures that the parts of a step are made of."""

KNOWN_COUNTS = (
    "kernel",
    "gpu_memcpy",
    "gpu_memset",
    "cuda_runtime",
    "cuda_driver",
    "cuda_sync",
    "cpu_op",
    "python_function",
    "user_annotation",
)


@dataclass(frozen=True)
class PerStep:
    """Sums over the complete steps, divided by their number. What lies outside of complete steps is left out."""

    hidden_waits: float
    hidden_stall_ns: float
    """Time that the host stands in hidden waits."""
    exposed_ns: float
    """Copy time beside which no kernel runs, of the copies that count."""
    waits: float
    """Times that the host waits, as the code asks for or not."""
    stall_ns: float
    """Time that the host stands in these waits."""
    drain_ns: float
    """The part of it in which work queued before was still to be done."""
    worked_ns: float
    """The part of that in which the GPU worked."""
    bubble_ns: float
    """GPU idle after them."""
    pageable_bytes: float | None
    """Copied from or to pageable memory, as far as sizes are recorded; None if no size of such copies is."""


@dataclass(frozen=True)
class Profile:
    """The measurements of one trace; small, and independent of its tables."""

    path: str
    info: Info
    begin_ns: int
    """When the first event began, in ns since 1970 as far as the trace tells."""
    span_ns: int
    counts: dict[str, int]
    """Events by category, as in `Trace.counts`."""
    skipped: dict[str, int]
    """Events that could not be used, by reason."""
    missing: tuple[Missing, ...]
    """What makes the trace less than it seems, the gravest first."""
    steps: StepTimes
    step: StepEstimate
    bound: str | None
    """`host`, `gpu`, `input` or `communication`; None without GPU work."""
    devices: tuple[DeviceTime, ...]
    copies: tuple[CopyGroup, ...]
    overlap: Overlap
    copy_places: tuple[SourceLine | None, ...]
    """Where each copy of `overlap.row` was launched; the line is None where only the function is certain."""
    syncs: Syncs
    loader: LoaderWaits
    hazards: Hazards
    communication: Communication
    per_step: PerStep | None
    """None without complete steps, and where they are withheld."""
    mean_steps: tuple[MeanStep, ...]
    """How the step divides on each GPU; none where one of the figures `OF_PARTS` is withheld."""
    pause: Pause | None
    """As traced; None without complete steps on the host, and where sums per step are withheld."""
    slow_launches: SlowLaunches | None
    """As traced; None where sums per step are withheld."""

    @property
    def step_ns(self) -> float | None:
        """The step without the profiler, or as it was traced where the former is not known."""
        return self.step.step_ns or self.steps.traced_ns

    @property
    def withheld(self) -> dict[str, Missing]:
        """The figures (keys of `pinprof.measurement.trust.FIGURES`) that the trace is not fit for, each with the reason.

        Of those that are optional here nothing is left; the others must not be shown.
        """
        return withheld(self.missing)


def measure(trace: Trace, sources: Sources | None = None) -> Profile:
    """Return all measurements of a trace; lines are looked up in `sources`, by default those beside the trace."""
    return measure_with_model(trace, sources)[0]


def measure_with_model(trace: Trace, sources: Sources | None = None) -> tuple[Profile, Model]:
    """Return all measurements of a trace, and what replays it, with which its step was estimated."""
    sources = sources or Sources(trace.path)
    model = Model([Recorded(trace, measure_syncs(trace, sources), measure_steps(trace), measure_loader(trace))])
    return _profile(model, sources), model


def _profile(model: Model, sources: Sources) -> Profile:
    (trace, syncs, steps, loader), step = model.ranks[0], model.step
    overlap, communication = measure_overlap(trace), measure_communication(trace)
    counts = overlap.counts
    stalls = syncs.stalls
    devices = measure_idle(trace, gaps_with_causes(trace, syncs, loader))
    missing = find_missing(Seen(trace, steps, step, syncs))
    taken = withheld(missing).keys()
    begin, end = _times(trace)
    steps, step = _trusted(steps, step, taken)
    length = step.step_ns or steps.traced_ns
    return Profile(
        path=trace.path,
        info=trace.info,
        begin_ns=(trace.info.base_ns or 0) + begin,
        span_ns=end - begin,
        counts=trace.counts,
        skipped=trace.skipped,
        missing=missing,
        steps=steps,
        step=step,
        bound=None if taken & {"step", "busy", "causes"} else bound_of(length, steps, devices, loader, communication),
        devices=devices,
        copies=tuple(replace(group, host_blocked_ns=_blocked(trace, stalls, group)) for group in measure_copies(trace)),
        overlap=overlap,
        copy_places=tuple(_copy_places(trace, overlap.row, syncs, sources)),
        syncs=syncs,
        loader=loader,
        hazards=measure_hazards(trace),
        communication=communication,
        per_step=None if "per_step" in taken else _per_step(trace, steps.count, overlap, syncs),
        mean_steps=()
        if taken & set(OF_PARTS) or not length
        else measure_mean(trace, overlap.row[counts], overlap.exposed_ns[counts], length),
        pause=None if taken & {"step", "per_step"} else measure_pause(trace, loader.times),
        slow_launches=None
        if taken & {"step", "per_step"}
        else measure_slow_launches(trace, stalls.call, steps.divisor),
    )


def _trusted(steps: StepTimes, step: StepEstimate, taken: AbstractSet[str]) -> tuple[StepTimes, StepEstimate]:
    """Return the step without what is withheld; what was measured without the profiler stays."""
    if taken & {"step", "estimate"} and step.source == "estimated":
        step = StepEstimate(None, step.source, None)
    if taken & {"per_step", "busy"}:
        steps = replace(steps, busy_ns=None)
    if "step" in taken:
        steps = replace(steps, host_ns=None, device_ns=None, traced_ns=None, each_ns=steps.each_ns[:0])
    return steps, step


def _times(trace: Trace) -> tuple[int, int]:
    tables = [table for table in (trace.ops, trace.annotations, trace.calls, trace.gpu) if len(table)]
    if not tables:
        return 0, 0
    return min(int(table.start_ns[0]) for table in tables), max(int(table.end_ns.max()) for table in tables)


def _blocked(trace: Trace, stalls: Stalls, group: CopyGroup) -> int:
    """Return how long the host was blocked in calls that made or awaited the copies of a group, in ns."""
    rows = np.flatnonzero((stalls.copy != NONE) & ~stalls.profiler)
    copy = stalls.copy[rows]
    direction, memory = DIRECTIONS.index(group.direction), HOST_MEMORIES.index(group.host_memory)
    chosen = (trace.gpu.direction[copy] == direction) & (trace.gpu.host_memory[copy] == memory)
    return int(stalls.stall_ns[rows[chosen]].sum())


def _per_step(trace: Trace, count: int, overlap: Overlap, syncs: Syncs) -> PerStep | None:
    if not count:
        return None
    gpu, step = trace.gpu, trace.links.activity_step[overlap.row]
    inside = trace.steps.holds(step)
    rows = overlap.row[inside]
    pageable = total_bytes(gpu.bytes[rows[gpu.host_memory[rows] == PAGEABLE]]).known
    hidden = [site.in_steps for site in syncs.sites if site.verdict == "hidden"]
    every = [site.in_steps for site in syncs.sites if site.is_wait]
    return PerStep(
        hidden_waits=sum(cost.count for cost in hidden) / count,
        hidden_stall_ns=sum(cost.stall_ns for cost in hidden) / count,
        exposed_ns=int(overlap.exposed_ns[inside & overlap.counts].sum()) / count,
        waits=sum(cost.count for cost in every) / count,
        stall_ns=sum(cost.stall_ns for cost in every) / count,
        drain_ns=sum(cost.drain_ns for cost in every) / count,
        worked_ns=sum(cost.worked_ns for cost in every) / count,
        bubble_ns=sum(cost.bubble_ns for cost in every) / count,
        pageable_bytes=None if pageable is None else pageable / count,
    )


def _copy_places(trace: Trace, rows: Int64s, syncs: Syncs, sources: Sources) -> list[SourceLine | None]:
    """Return where the copies were launched: the recorded line of the wait for it, else what the stack tells."""
    launch = trace.links.launch[rows]
    known = np.flatnonzero(launch != NONE)
    places: list[SourceLine | None] = [None] * len(rows)
    for index, place in zip(known.tolist(), call_places(trace, launch[known].astype(np.int64), sources), strict=True):
        places[index] = place
    of_wait = {int(copy): line for copy, line in zip(syncs.stalls.copy, syncs.lines, strict=True) if line}
    return [of_wait.get(int(row), place) for row, place in zip(rows.tolist(), places, strict=True)]
