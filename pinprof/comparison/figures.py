"""The figures of the step, of copies and of waits that a comparison shows."""

from collections.abc import Callable, Iterator

import numpy as np

from pinprof.analyses.syncs import Site
from pinprof.comparison.figure import NO_SIZES, NO_STEPS, ComparedFigure, Floats, Value, over_steps
from pinprof.comparison.side import Side, WaitValues
from pinprof.intervals import covered
from pinprof.measurement.known import given
from pinprof.trace.tables import KERNEL, MEMCPY, NONE, PAGEABLE
from pinprof.units import NS_PER_MS


def step_figure(before: Side, after: Side) -> ComparedFigure:
    """Return the step without profiler: measured with its p10 and p90, or estimated with the range of the estimate."""
    return ComparedFigure("step_ms", "ns", _step(before), _step(after))


def _step(side: Side) -> Value:
    step = side.profile.estimate
    if step.step_ns is not None and side.is_stepped:
        return Value(step.step_ns, _spread(side))
    return Value(None, step.range_ns, side.why_not_stepped(side.withheld.estimate, side.withheld.step) or NO_STEPS)


def _spread(side: Side) -> tuple[float, float] | None:
    """Return where the step lies in other runs too: of a measured one where its single steps lie, the 10th to the 90th.

    What is certain of the mean of one run differs from what is of the next one's.
    """
    step, plain = side.profile.estimate, side.profile.info.plain_step
    if (
        step.source != "measured"
        or step.step_ns is None
        or plain is None
        or plain.p10_ms is None
        or plain.p90_ms is None
    ):
        return step.range_ns
    return min(plain.p10_ms * NS_PER_MS, step.step_ns), max(plain.p90_ms * NS_PER_MS, step.step_ns)


def all_figures(before: Side, after: Side) -> Iterator[ComparedFigure]:
    """Yield every figure of the whole step."""

    def of_both(name: str, unit: str, measured: Callable[[Side], Value]) -> ComparedFigure:
        return ComparedFigure(name, unit, measured(before), measured(after))

    yield step_figure(before, after)
    yield of_both("traced_ms", "ns", _traced)
    yield from _of_devices(before, after)
    yield of_both("overlap_fraction", "share", _fraction)
    yield of_both("exposed_ms", "ns", _exposed)
    yield of_both("pageable_bytes", "bytes", _pageable)
    yield from _of_waits(before, after)
    if before.profile.loader.waits or after.profile.loader.waits:
        yield of_both("loader_ms", "ns", _loader)


def _of_waits(before: Side, after: Side) -> Iterator[ComparedFigure]:
    """Yield how often and how long the host waits: in hidden waits, and in all waits."""
    hidden = [_waits(side, lambda site: site.verdict == "hidden") for side in (before, after)]
    every = [_waits(side, lambda site: site.is_wait) for side in (before, after)]
    yield ComparedFigure("hidden_syncs", "count", hidden[0].count, hidden[1].count)
    yield ComparedFigure("hidden_stall_ms", "ns", hidden[0].stall, hidden[1].stall)
    yield ComparedFigure("stall_ms", "ns", every[0].stall, every[1].stall)
    yield ComparedFigure("bubble_ms", "ns", every[0].bubble, every[1].bubble)


def _waits(side: Side, chosen: Callable[[Site], bool]) -> WaitValues:
    return side.waits([number for number, site in enumerate(side.details.syncs.sites) if chosen(site)])


def _traced(side: Side) -> Value:
    """Return the traced step with the spread of its times, on the host or on the GPU."""
    steps = side.profile.steps
    reason = side.why_not_stepped(side.withheld.step)
    if steps.traced_ns is None or reason:
        return Value(None, reason=reason or NO_STEPS)
    each = steps.each_ns if steps.traced_ns == steps.host_ns else np.diff(side.work_ends)
    return over_steps(each.astype(np.float64), steps.traced_ns)


def _of_devices(before: Side, after: Side) -> Iterator[ComparedFigure]:
    """Yield for each GPU of either trace the time per step that it worked, and that kernels ran."""
    for device in sorted({entry.device for side in (before, after) for entry in side.profile.gpus}):
        yield ComparedFigure("busy_ms", "ns", _worked(before, device), _worked(after, device), device)
        yield ComparedFigure("kernel_ms", "ns", _worked(before, device, KERNEL), _worked(after, device, KERNEL), device)


def _worked(side: Side, device: int, category: int | None = None) -> Value:
    gpu = side.trace.gpu
    if device not in gpu.of_device:
        return Value(None, reason=side.why_not(side.withheld.busy) or "nothing ran on this GPU")
    rows = gpu.of_device[device]
    return side.figure(
        side.covered(rows if category is None else rows[gpu.category[rows] == category]), side.withheld.busy
    )


def _fraction(side: Side) -> Value:
    """Return the overlapped share of the copy time in the whole trace, with its spread over the steps."""
    reason = side.why_not(side.withheld.copies, side.withheld.overlap)
    sums = given(side.profile.overlap)
    share = sums.fraction if sums else None
    if reason or share is None:
        return Value(None, reason=reason or "no copies")
    each = side.covered(np.flatnonzero(side.trace.gpu.category == MEMCPY))
    each, exposed = side.with_work_behind(each), side.with_work_behind(_exposed_each(side))
    copying = each > 0
    shares: Floats = 1 - exposed[copying] / each[copying]
    return over_steps(np.clip(shares, 0.0, 1.0), share)


def _exposed_each(side: Side) -> Floats:
    overlap = side.details.overlap
    return side.summed(side.trace.links.activity_step[overlap.row], overlap.exposed_ns)


def _exposed(side: Side) -> Value:
    return side.figure(_exposed_each(side), side.withheld.copies, side.withheld.overlap, at_the_end=False)


def _pageable(side: Side) -> Value:
    gpu = side.trace.gpu
    rows = np.flatnonzero(gpu.host_memory == PAGEABLE)
    if (gpu.bytes[rows] == NONE).any():
        return Value(None, reason=NO_SIZES)
    return side.figure(side.summed(side.trace.links.activity_step[rows], gpu.bytes[rows]), side.withheld.copies)


def _loader(side: Side) -> Value:
    """Return the time per step that the main thread waits for its DataLoader."""
    steps = side.trace.steps
    return side.figure(
        covered(side.details.loader.times, steps.start_ns, steps.end_ns)[steps.complete].astype(np.float64)
    )
