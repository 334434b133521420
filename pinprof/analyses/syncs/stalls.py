"""Where the host waited: each stall, what it waited for, and the bubble that it left on the GPU."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pinprof.analyses.syncs.blocking_calls import CLOCK_SKEW_NS, awaited_work, blocking_calls, gpu_end, gpu_start
from pinprof.ground.intervals import covered, union
from pinprof.trace.calls import ALLOCATING, DEVICE, EVENT, PROFILER, STREAM
from pinprof.trace.spans.idle_times import Gaps, gaps_of
from pinprof.trace.tables import KERNEL, NONE, Bools, Int32s, Int64s, Trace, rows_by


@dataclass(frozen=True)
class Stalls:
    """Host calls that can block, one row each, sorted by start; times in ns.

    `stall_ns == drain_ns + own_ns + overhead_ns`.
    """

    call: Int64s  # row in `Trace.calls`
    kind: Int64s  # what the call may wait for: a constant of `pinprof.trace.calls`
    copy: Int32s
    """Row in `Trace.gpu` of the copy that the call made or awaited, or the kernel that a launch waits for; else -1."""
    device: Int32s
    stream: Int64s  # the stream that the call waits for; -1 for a device, and where it is unknown
    stall_ns: Int64s
    drain_ns: Int64s  # the first part, in which earlier queued work of the stream or device is still to be done
    worked_ns: Int64s
    """The part of the drain in which the device worked, as far as that was recorded. In the rest of the drain its work
    waited for other work, or to start."""
    own_ns: Int64s  # the part after the drain in which the call's own copy runs
    bubble_ns: Int64s
    """From the end of the awaited work to the next start of GPU work on the device. It is 0 if other work was running,
    or if the next work was already queued: then the wait did not delay it. A bubble after several stalls belongs to the
    last of them: each bubble is a whole gap in the work of its device, and no gap counts twice (`idle_gaps` has their
    causes)."""
    idle_ns: Int64s
    """The idle time of the device that the stall causes; no moment counts twice. It is the bubble, without times in
    which the host is in calls that allocate or free memory and await no work. For each of these calls it is the idle
    time within the call."""
    awaited_end_ns: Int64s  # end of the awaited work
    kept_busy: Bools
    """Whether kernels that were queued before the call still kept the device busy when the call returned: the host
    waited for another stream or an event, and the GPU lost no time."""
    profiler: Bools
    """Whether the profiler waits here, in a synchronize of its own or for its buffers; left out of every sum."""
    call_step: Int32s

    @cached_property
    def of_device(self) -> dict[int, Int64s]:
        """The rows of the stalls that wait for each device."""
        return {int(self.device[rows[0]]): rows for rows in rows_by(self.device)}

    def of_copies(self, copies: Int64s) -> Int64s:
        """Return the stalls that made or awaited these copies, each named once, in order."""
        order, copy = self._by_copy
        first, end = (np.searchsorted(copy, copies, side=side) for side in ("left", "right"))
        count = end - first
        return np.sort(order[np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())])

    @cached_property
    def _by_copy(self) -> tuple[Int64s, Int32s]:
        order = np.argsort(self.copy, kind="stable")
        return order, self.copy[order]

    @property
    def overhead_ns(self) -> Int64s:
        """The rest: the call itself, staging of a copy, waking up."""
        return self.stall_ns - self.drain_ns - self.own_ns


def measure_stalls(trace: Trace) -> Stalls:
    """Return every call of the trace that can block the host, with its cost."""
    rows, kind, copy = blocking_calls(trace)
    start, end = trace.calls.start_ns[rows], trace.calls.end_ns[rows]
    device, stream, prior_end = awaited_work(trace, rows, kind, copy)
    drained = np.clip(prior_end, start, end)
    copied = np.where(copy == NONE, drained, np.clip(gpu_end(trace, copy), drained, end))
    copying = np.where(copy == NONE, drained, np.clip(gpu_start(trace, copy), drained, copied))
    drain, own = drained - start, copied - copying
    awaited_end = np.where(own > 0, gpu_end(trace, copy), prior_end)
    profiler = _profilers_own(trace, rows, kind) | (kind == PROFILER)
    waited = drain + own > 0
    idle = {number: gaps_of(trace, number) for number in trace.gpu.of_device}
    bubble = _bubbles(idle, device, awaited_end, waited & ~profiler)
    holding = np.isin(kind, ALLOCATING) & ~waited & ~profiler
    return Stalls(
        call=rows,
        kind=kind,
        copy=copy,
        device=device,
        stream=stream,
        stall_ns=end - start,
        drain_ns=drain,
        worked_ns=_worked(trace, device, start, drained),
        own_ns=own,
        bubble_ns=bubble,
        idle_ns=_own_idle(idle, device, (start, end), (awaited_end, awaited_end + bubble), holding),
        awaited_end_ns=awaited_end,
        kept_busy=np.isin(kind, (STREAM, DEVICE, EVENT)) & (copy == NONE) & _kept_busy(trace, device, start, end),
        profiler=profiler,
        call_step=trace.links.call_step[rows],
    )


def _kept_busy(trace: Trace, device: Int32s, start: Int64s, end: Int64s) -> Bools:
    """Return whether the device's busiest stream ran kernels from before the call even after the call returned."""
    gpu, launched = trace.gpu, trace.links.launched_ns
    result = np.zeros(len(device), bool)
    for waits in rows_by(device):
        kernels = gpu.on(int(device[waits[0]]), gpu.category == KERNEL)
        if len(kernels) == 0:
            continue
        streams, which = np.unique(gpu.stream[kernels], return_inverse=True)
        busiest = np.bincount(which, gpu.duration_ns[kernels]).argmax()
        queue = kernels[gpu.stream[kernels] == streams[busiest]]
        queue = queue[np.argsort(launched[queue], kind="stable")]
        ends = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(gpu.end_ns[queue])))
        result[waits] = ends[np.searchsorted(launched[queue], start[waits])] > end[waits] + CLOCK_SKEW_NS
    return result


def _worked(trace: Trace, device: Int32s, start: Int64s, end: Int64s) -> Int64s:
    gpu, result = trace.gpu, np.zeros(len(device), np.int64)
    for waits in rows_by(device):
        rows = gpu.of_device.get(int(device[waits[0]]), waits[:0])
        result[waits] = covered(gpu.times(rows), start[waits], end[waits])
    return result


def _profilers_own(trace: Trace, rows: Int64s, kind: np.ndarray) -> Bools:
    """Return the device synchronizes that torch.profiler adds where its window ends.

    They are called outside of any op, and nothing is launched after them. With `ProfilerStep` marks they also come
    after the last step; without marks only the very last one is taken to be the profiler's.
    """
    calls, links = trace.calls, trace.links
    last_launch = calls.start_ns[trace.launches_work].max(initial=np.iinfo(np.int64).min)
    start = calls.start_ns[rows]
    own = (kind == DEVICE) & (links.op[rows] == NONE) & (start > last_launch)
    if trace.steps.source == "profiler_step":
        return own & (start >= trace.steps.end_ns[-1])
    return own & (np.arange(len(rows)) == np.max(np.flatnonzero(own), initial=NONE))


def _bubbles(idle_of: Mapping[int, Gaps], device: Int32s, awaited_end: Int64s, waited: Bools) -> Int64s:
    """Return the idle time of the device that begins where the awaited work of each stall ended."""
    bubble = np.zeros(len(device), np.int64)
    for waits in rows_by(device):
        if int(device[waits[0]]) not in idle_of:
            continue
        (idle, _, queued), stalls = idle_of[int(device[waits[0]])], waits[waited[waits]]
        gap = np.searchsorted(idle.start, awaited_end[stalls])
        begins = gap < len(idle.start)
        begins[begins] = (idle.start[gap[begins]] == awaited_end[stalls[begins]]) & ~queued[gap[begins]]
        stalls, gap = stalls[begins], gap[begins]
        _, last = np.unique(gap[::-1], return_index=True)
        owner = len(gap) - 1 - last
        bubble[stalls[owner]] = (idle.end - idle.start)[gap[owner]]
    return bubble


def _own_idle(
    idle_of: Mapping[int, Gaps],
    device: Int32s,
    call: tuple[Int64s, Int64s],
    bubble: tuple[Int64s, Int64s],
    holding: Bools,
) -> Int64s:
    """Return `Stalls.idle_ns`; `call` and `bubble` are starts and ends, `holding` says which calls await nothing."""
    own = bubble[1] - bubble[0]
    for waits in rows_by(device):
        if int(device[waits[0]]) not in idle_of:
            continue
        idle, rows = idle_of[int(device[waits[0]])].times, waits[holding[waits]]
        start, end = call[0][rows], call[1][rows]
        reach = np.maximum.accumulate(end)
        begins = np.maximum(start, np.concatenate((start[:1], reach[:-1])))  # calls of other threads may run meanwhile
        own[waits] -= covered(union(start, end), bubble[0][waits], bubble[1][waits])
        own[rows] = covered(idle, begins, end)
    return own
