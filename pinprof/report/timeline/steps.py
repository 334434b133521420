"""The steps of a trace as timelines draw them: their names, and the part of the trace that is shown first.

That part is some complete steps from the middle of the trace, with the GPU work that they launched.
"""

from dataclasses import dataclass

import numpy as np

from pinprof.ground.units import NS_PER_MS, counted
from pinprof.report.words import cut
from pinprof.trace.spans.step_names import names_of_steps
from pinprof.trace.tables import WHOLE_TRACE, Bools, Int64s, Trace, computed_once

MAX_STEPS_SHOWN_FIRST = 3
"""Two steps show how one passes to the next, the third that this repeats."""


@dataclass(frozen=True)
class Window:
    """The time that is drawn, in ns, and the steps in it."""

    start_ns: int
    end_ns: int
    first: int
    last: int
    """The first and the last step that are drawn whole, as indices into `Trace.steps`."""

    @property
    def span_ns(self) -> int:
        """Length in ns; at least 1."""
        return max(self.end_ns - self.start_ns, 1)

    def holds(self, start: Int64s, end: Int64s) -> Bools:
        """Return which events lie in the window, if only in part."""
        return (start < self.end_ns) & ((end > self.start_ns) | (start >= self.start_ns))


def choose_window(trace: Trace) -> Window:
    """Return the window of up to `MAX_STEPS_SHOWN_FIRST` complete steps from the middle of a trace."""
    steps = trace.steps
    if steps.source == WHOLE_TRACE:
        return whole_window(trace)
    usable = usable_steps(trace)
    skipped = max(len(usable) - MAX_STEPS_SHOWN_FIRST + 1, 0) // 2
    chosen = usable[skipped : skipped + MAX_STEPS_SHOWN_FIRST]
    return window_of_steps(trace, int(chosen[0]), int(chosen[-1]))


def usable_steps(trace: Trace) -> Int64s:
    """Return the steps that can be drawn whole, as indices into `Trace.steps`: all where none is complete."""
    complete = np.flatnonzero(trace.steps.complete)
    return complete if len(complete) else np.arange(len(trace.steps))


def all_steps_text(count: int) -> str:
    """Return the words for all steps, or for the whole trace if `count` is 0."""
    if not count:
        return "The whole trace, in which no step is marked"
    return "The only step" if count == 1 else f"All {counted(count, 'step')}"


def whole_window(trace: Trace) -> Window:
    """Return the window that holds all events of a trace."""
    tables = [table for table in (trace.annotations, trace.ops, trace.calls, trace.gpu) if len(table)]
    start = min((int(table.start_ns[0]) for table in tables), default=0)
    end = max((int(table.end_ns.max()) for table in tables), default=start)
    return Window(start, end, first=0, last=max(len(trace.steps) - 1, 0))


def step_range(trace: Trace, first: int, last: int) -> tuple[int, int]:
    """Return the time from the start of a step to the end of another one and of the GPU work launched until then."""
    launched = (trace.links.activity_step >= first) & (trace.links.activity_step <= last)
    end = int(trace.steps.end_ns[last])
    return int(trace.steps.start_ns[first]), int(trace.gpu.end_ns[launched].max(initial=end))


def window_of_steps(trace: Trace, first: int, last: int) -> Window:
    """Return the part of a trace from one step to another, as indices, with the GPU work that they launched."""
    return Window(*step_range(trace, first, last), first, last)


def window_of_times(trace: Trace, start_ms: float, end_ms: float) -> Window:
    """Return the part of a trace between two times, in ms since the start of its first step."""
    zero = int(trace.steps.start_ns[0]) if len(trace.steps) else choose_window(trace).start_ns
    start, end = zero + round(start_ms * NS_PER_MS), zero + round(end_ms * NS_PER_MS)
    steps = np.flatnonzero((trace.steps.start_ns < end) & (trace.steps.end_ns > start))
    first, last = (int(steps[0]), int(steps[-1])) if len(steps) else (0, 0)
    return Window(start, end, first, last)


@computed_once
def step_names(trace: Trace) -> list[str]:
    """Return the name of each step, as far as there is room for it."""
    return list(map(cut, names_of_steps(trace)))
