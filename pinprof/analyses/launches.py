"""How the host launches kernels, by phase; which launches are slow; and the host's longest pause."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

import numpy as np

from pinprof.ground.intervals import Intervals, distinct, numbered
from pinprof.ground.units import shortened
from pinprof.trace.callers import module_around, module_name, outermost_op
from pinprof.trace.links import follow
from pinprof.trace.spans.phases import CALL_PHASES, phase_of_calls
from pinprof.trace.tables import KERNEL, NONE, Int32s, Int64s, Trace

LAUNCH_WITH_OTHER_WORK_NS = 1_000_000
"""A launch takes some microseconds, the launch of a large graph some hundreds. A launch of this length does other work,
too."""

MIN_OF_MANY_LAUNCHES = 8
"""A step with fewer launches is not slow because of their number: one layer makes more in forward, backward and
update."""
MAX_MEDIANS_OF_LAUNCH = 10
"""The time before a launch counts as its cost up to this multiple of the median. Beyond that the host does other work,
waits, or loads the kernel."""
MAX_LAUNCH_NAMES = 50  # ops, and modules, that are kept: those with most launches
LONGEST_LAUNCH_NAME_CHARS = 200


@dataclass(frozen=True)
class SlowLaunches:
    """The slow launches of the complete steps, per step."""

    count: float
    time_ns: float


def measure_slow_launches(trace: Trace, stalls: Int64s, divisor: int) -> SlowLaunches:
    """Return the slow launches of kernels and graphs, without `stalls`, whose reason is known.

    `stalls` are rows of `Trace.calls`, `divisor` is the number of steps.
    """
    calls, slow = trace.calls, trace.launches_work.copy()
    slow[stalls] = False
    slow &= calls.duration_ns >= LAUNCH_WITH_OTHER_WORK_NS
    slow &= trace.steps.holds(trace.links.call_step)
    return SlowLaunches(int(slow.sum()) / divisor, int(calls.duration_ns[slow].sum()) / divisor)


@dataclass(frozen=True)
class LaunchSums:
    """The launches of a phase, or of all ops or modules with one name; sums per step, in ns as traced."""

    name: str | None  # None for launches outside of all ops or modules
    launches: float  # calls that launch kernels
    host_ns: float  # the host's time before these launches, each counted from the launch before
    kernel_ns: float  # how long the kernels run


@dataclass(frozen=True)
class Launches:
    """How the host launches the kernels of the complete steps; times in ns, as traced."""

    per_step: float
    median_kernel_ns: float
    host_ns: float  # the host's time per launch, without waits and long pauses: the median from one launch to the next
    many_ns: float
    """The most of the host's time per step that launches can take: the times from one launch to the next, each limited
    to `MAX_MEDIANS_OF_LAUNCH` medians; 0 if a step has few launches."""
    phases: tuple[LaunchSums, ...]
    ops: tuple[LaunchSums, ...]
    """By the outermost op, without autograd's nodes: the names with most launches, most first."""
    modules: tuple[LaunchSums, ...]
    """By the innermost module; none where torch recorded no calls of modules. Backward launches belong to none."""


def measure_launches(trace: Trace, divisor: int) -> Launches | None:
    """Return how kernels are launched in the complete steps; None if none are. `divisor` is the number of steps."""
    gpu, launch = trace.gpu, trace.links.launch
    rows = np.flatnonzero((gpu.category == KERNEL) & (launch != NONE) & trace.steps.holds(trace.links.activity_step))
    calls = distinct(launch[rows]).astype(np.int64)
    if not len(calls) or not trace.steps.on_host:
        return None
    since = np.diff(trace.calls.start_ns[calls], prepend=trace.calls.start_ns[calls[0]])
    step = trace.links.call_step[calls]
    first = np.flatnonzero(np.diff(step, prepend=NONE))
    since[first] = trace.calls.start_ns[calls[first]] - trace.steps.start_ns[step[first]]
    per_call = _PerCall(
        since,
        np.bincount(np.searchsorted(calls, launch[rows]), gpu.duration_ns[rows], minlength=len(calls)).astype(np.int64),
        divisor,
    )
    phase = phase_of_calls(trace)[calls].astype(np.int32)
    sums = {sums.name: sums for sums in _sums_by_name(phase, CALL_PHASES.__getitem__, per_call)}
    inner = np.delete(since, first)
    usual = float(np.median(inner)) if len(inner) else float(since[0])
    functions, op = trace.functions, follow(trace.ops.name, outermost_op(trace, calls))
    module = follow(functions.name, module_around(trace, trace.links.function[calls]))
    has_modules = (module != NONE).any()
    return Launches(
        len(calls) / divisor,
        float(np.median(gpu.duration_ns[rows])),
        usual,
        float(np.minimum(since, MAX_MEDIANS_OF_LAUNCH * usual).sum()) / divisor
        if len(calls) >= MIN_OF_MANY_LAUNCHES * divisor
        else 0.0,
        tuple(sums[name] for name in CALL_PHASES if name in sums),
        _sums_by_name(op, lambda code: shortened(trace.ops.names[code], LONGEST_LAUNCH_NAME_CHARS), per_call),
        _sums_by_name(module, lambda code: module_name(functions.names[code]), per_call) if has_modules else (),
    )


class _PerCall(NamedTuple):
    """The times of each launching call, and the number of steps."""

    since_ns: Int64s
    kernel_ns: Int64s
    divisor: int


def _sums_by_name(name: Int32s, text: Callable[[int], str], sums: _PerCall) -> tuple[LaunchSums, ...]:
    first, which = numbered(name)
    codes, count = name[first], np.bincount(which)
    host, kernel = (np.bincount(which, weight, minlength=len(codes)) for weight in (sums.since_ns, sums.kernel_ns))
    return tuple(
        LaunchSums(
            None if codes[index] == NONE else text(int(codes[index])),
            int(count[index]) / sums.divisor,
            float(host[index]) / sums.divisor,
            float(kernel[index]) / sums.divisor,
        )
        for index in np.argsort(-count, kind="stable")[:MAX_LAUNCH_NAMES].tolist()
    )


PAUSE_MEANING = "Python code, a sleep, or a call that is not recorded"
"""What the host does in a pause. Most calls of the driver are not recorded, such as those that map memory."""


@dataclass(frozen=True)
class Pause:
    """The longest time per step in which the training threads ran no op and no call; gaps within ops do not count."""

    time_ns: float  # median over the complete steps
    after: str  # the op or call before it; empty at the beginning of the step
    before: str  # the op or call after it; empty at the end of the step

    @property
    def between(self) -> str:
        """The ops or calls around it, in words; the names are those of the trace."""
        return f"after {self.after or 'the beginning of the step'} and before {self.before or 'its end'}"


def measure_pause(trace: Trace, waiting_for_input: Intervals) -> Pause | None:
    """Return the usual longest pause of the training threads in a step, and between which ops it most often lies.

    The autograd threads run backward while the main thread waits for them. The time in which the main thread asks its
    DataLoader for a batch does not count.
    """
    threads, steps = np.flatnonzero(trace.has_role("main", "autograd")), trace.steps
    if not len(threads) or not steps.on_host or not steps.complete.any():
        return None
    tables = (trace.ops, trace.calls)
    rows = [np.flatnonzero(np.isin(table.thread, threads)) for table in tables]
    start, end = (
        np.concatenate([*(getattr(table, column)[chosen] for table, chosen in zip(tables, rows, strict=True)), waits])
        for column, waits in zip(("start_ns", "end_ns"), waiting_for_input, strict=True)
    )
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    reached = np.maximum.accumulate(end)
    # the outermost of the events so far that ends last
    ends_last = np.maximum.accumulate(np.where(end > np.roll(reached, 1), np.arange(len(end)), 0))

    def name_of(rank: int) -> str:
        index = int(order[rank])
        for table, chosen in zip(tables, rows, strict=True):
            if index < len(chosen):
                return table.name_of(int(chosen[index]))
            index -= len(chosen)
        return "the wait for a batch"

    longest: list[float] = []
    places: Counter[tuple[str, str]] = Counter()
    for begin, stop in zip(steps.start_ns[steps.complete], steps.end_ns[steps.complete], strict=True):
        first, last = np.searchsorted(start, [begin, stop])
        open_until = max(begin, reached[first - 1]) if first else begin  # an op may run on from the step before
        edges = np.concatenate(([open_until], np.maximum(reached[first:last], begin)))
        gaps = np.concatenate((start[first:last], [stop])) - edges
        index = int(gaps.argmax())
        longest.append(max(float(gaps[index]), 0.0))
        after = name_of(ends_last[first + index - 1]) if index or open_until > begin else ""
        places[after, name_of(first + index) if first + index < last else ""] += 1
    return Pause(median(longest), *places.most_common(1)[0][0])
