"""Everything that was measured of one trace, as a Profile."""

from dataclasses import dataclass, replace

import numpy as np

from pinprof.analyses.copies import CopyGroup, measure_copies
from pinprof.analyses.idle import DeviceTime, measure_idle
from pinprof.analyses.loader import LoaderWaits, measure_loader
from pinprof.analyses.overlap import Overlap, measure_overlap
from pinprof.analyses.steps import StepTimes, measure_steps
from pinprof.analyses.syncs import Stalls, Syncs, measure_syncs
from pinprof.intervals import union
from pinprof.trace.sources import Sources
from pinprof.trace.tables import DIRECTIONS, HOST_MEMORIES, NONE, UNKNOWN, Info, Trace

GPU_BOUND = 0.9
"""A step in which the GPU is busy for this share of the time is bound by the GPU; the rest are gaps between kernels."""

CERTAIN = 0.98
"""The step without profiler lies between the GPU's own work and the traced step. Where these differ by no more than two
percent, the traced step is it: the profiler only slows the host, and the host is not the limit."""

HIDDEN_LOADER = 1.25
"""A step without profiler that is longer than the recorded one by this factor waited for input: nothing else can be
faster under a profiler. While the recording began, the DataLoader's workers filled their queue."""

BOUND_BY = {"input_wait": "input", "communication_wait": "communication"}
"""Idle causes that name what bounds the step; the others are the host's."""

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
class StepEstimate:
    """The step as it is without the profiler, in ns; None where the trace cannot tell."""

    step_ns: float | None
    source: str
    """`measured` if pinprof measured it in the recorded run, else `estimated`."""
    range_ns: tuple[float, float] | None
    """Where the step lies: between the GPU's own work and what the trace shows; of a measured step its spread."""


@dataclass(frozen=True)
class Missing:
    """Something that the trace does not hold, what follows from that, and the way out."""

    what: str
    effect: str
    remedy: str


@dataclass(frozen=True)
class Profile:
    """The measurements of one trace; small, and independent of its tables."""

    path: str
    info: Info
    span_ns: int
    counts: dict[str, int]
    """Events by category, as recorded."""
    skipped: dict[str, int]
    """Events that could not be used, by reason."""
    missing: tuple[Missing, ...]
    steps: StepTimes
    step: StepEstimate
    bound: str | None
    """`host`, `gpu`, `input` or `communication`; None without GPU work."""
    devices: tuple[DeviceTime, ...]
    copies: tuple[CopyGroup, ...]
    overlap: Overlap
    syncs: Syncs
    loader: LoaderWaits


def measure(trace: Trace, sources: Sources | None = None) -> Profile:
    """Return all measurements of a trace; lines are looked up in `sources`, by default those beside the trace."""
    steps, syncs, loader = measure_steps(trace), measure_syncs(trace, sources), measure_loader(trace)
    stalls = syncs.stalls
    counted = stalls.call[~stalls.profiler]
    devices = measure_idle(
        trace,
        blocked=union(trace.calls.start_ns[counted], trace.calls.end_ns[counted]),
        released_ns=stalls.awaited_end_ns[stalls.bubble_ns > 0],
        waiting_for_input=loader.times,
    )
    step = _estimate(trace.info, steps)
    return Profile(
        path=trace.path,
        info=trace.info,
        span_ns=_span(trace),
        counts=trace.counts,
        skipped=trace.skipped,
        missing=_missing(trace, step),
        steps=steps,
        step=step,
        bound=_bound(steps, step, devices, loader),
        devices=devices,
        copies=tuple(replace(group, host_blocked_ns=_blocked(trace, stalls, group)) for group in measure_copies(trace)),
        overlap=measure_overlap(trace),
        syncs=syncs,
        loader=loader,
    )


def _span(trace: Trace) -> int:
    tables = [table for table in (trace.ops, trace.annotations, trace.calls, trace.gpu) if len(table)]
    if not tables:
        return 0
    return int(max(table.end_ns.max() for table in tables) - min(table.start_ns[0] for table in tables))


def _blocked(trace: Trace, stalls: Stalls, group: CopyGroup) -> int:
    """Return how long the host was blocked in calls that made or awaited the copies of a group, in ns."""
    rows = np.flatnonzero((stalls.copy != NONE) & ~stalls.profiler)
    copy = stalls.copy[rows]
    direction, memory = DIRECTIONS.index(group.direction), HOST_MEMORIES.index(group.host_memory)
    chosen = (trace.gpu.direction[copy] == direction) & (trace.gpu.host_memory[copy] == memory)
    return int(stalls.stall_ns[rows[chosen]].sum())


def _estimate(info: Info, steps: StepTimes) -> StepEstimate:
    plain = info.plain_step
    if plain is not None:
        low, high = plain.p10_ms or plain.mean_ms, plain.p90_ms or plain.mean_ms
        spread = (min(low, plain.mean_ms) * 1e6, max(high, plain.mean_ms) * 1e6)
        return StepEstimate(plain.mean_ms * 1e6, "measured", spread)
    if steps.traced_ns is None or steps.busy_ns is None:
        return StepEstimate(None, "estimated", None)
    certain = steps.busy_ns >= CERTAIN * steps.traced_ns
    span = (min(steps.busy_ns, steps.traced_ns), steps.traced_ns)
    return StepEstimate(steps.traced_ns if certain else None, "estimated", span)


def _bound(steps: StepTimes, step: StepEstimate, devices: tuple[DeviceTime, ...], loader: LoaderWaits) -> str | None:
    length = step.step_ns or steps.traced_ns
    if not length or steps.busy_ns is None:
        return None
    if loader.waits and length > HIDDEN_LOADER * (steps.traced_ns or length):
        return "input"
    if steps.busy_ns >= GPU_BOUND * length:
        return "gpu"
    busiest = max(devices, key=lambda device: device.busy_ns)
    cause = busiest.idle_by_cause[0][0] if busiest.idle_by_cause else "host_wait"
    return BOUND_BY.get(cause, "host")


def _unlinked(trace: Trace) -> int:
    """Return how many activities have lost their launch.

    What a stream did before its first linked activity does not count: it was queued before the recording began.
    """
    if len(trace.calls) == 0:
        return 0
    lost = 0
    for device, stream in np.unique(np.stack((trace.gpu.device, trace.gpu.stream)), axis=1).T:
        linked = trace.links.launch[(trace.gpu.device == device) & (trace.gpu.stream == stream)] != NONE
        lost += int((~linked[linked.argmax() :]).sum())
    return lost


def _missing(trace: Trace, step: StepEstimate) -> tuple[Missing, ...]:
    """Return what the trace lacks, the gravest first."""
    found = []
    if len(trace.gpu) == 0:
        found.append(
            Missing(
                "GPU activities",
                "copies, overlap, idle and stalls cannot be measured",
                "record with ProfilerActivity.CUDA on a machine with a GPU",
            )
        )
    if len(trace.calls) == 0 and len(trace.gpu):
        found.append(
            Missing(
                "runtime calls",
                "stalls and the causes of idle time are unknown",
                "record with ProfilerActivity.CPU too",
            )
        )
    unlinked = _unlinked(trace)
    if unlinked:
        found.append(
            Missing(
                f"the launch of {unlinked} of {len(trace.gpu)} GPU activities",
                "they belong to no step, and idle time before them has no cause",
                "record with ProfilerActivity.CPU too; a launch can also be lost when the profiler's buffers overflow",
            )
        )
    if trace.steps.source == "whole_trace":
        found.append(
            Missing("step marks", "the whole trace counts as one step", "call profiler.step() once per training step")
        )
    if len(trace.gpu) and step.step_ns is None:
        found.append(
            Missing(
                "the step without profiler",
                "the traced step is an upper bound: the profiler slows a step that the host bounds",
                "record with pinprof.profile or pinprof run, which measure it in the same run",
            )
        )
    if (trace.gpu.host_memory == UNKNOWN).any():
        found.append(
            Missing(
                "the host memory of copies",
                "pageable and pinned copies cannot be told apart",
                "nothing helps: the vendor's profiler does not record it",
            )
        )
    if len(trace.functions) == 0 and len(trace.calls) and not trace.info.lines:
        found.append(
            Missing(
                "source lines",
                "files and functions of waits are unknown",
                "record with pinprof.profile or pinprof run; with_stack=True of torch.profiler gives functions",
            )
        )
    if trace.skipped:
        reasons = ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in trace.skipped.items())
        found.append(
            Missing(
                f"{sum(trace.skipped.values())} unusable events ({reasons})",
                "they are left out",
                "record the trace again",
            )
        )
    return tuple(found)
