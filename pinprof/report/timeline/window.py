"""Which part of a trace is drawn: some complete steps from its middle, with the GPU work that they launched."""

from dataclasses import dataclass

import numpy as np

from pinprof.trace.tables import WHOLE_TRACE, Bools, Int64s, Trace

MAX_STEPS = 3
"""Two steps show how one hands over to the next, the third that it was no accident."""


@dataclass(frozen=True)
class Window:
    """The time that is drawn, in ns, and the steps in it."""

    start_ns: int
    end_ns: int
    first: int
    last: int
    """The first and the last step that are drawn whole, as indices into `Trace.steps`."""
    steps: int
    """How many steps the trace has."""

    @property
    def span_ns(self) -> int:
        """Length in ns; at least 1."""
        return max(self.end_ns - self.start_ns, 1)

    def holds(self, start: Int64s, end: Int64s) -> Bools:
        """Return which events lie in the window, if only in part."""
        return (start < self.end_ns) & ((end > self.start_ns) | (start >= self.start_ns))


def choose_window(trace: Trace, limit: int = MAX_STEPS) -> Window:
    """Return the window of up to `limit` complete steps from the middle of a trace."""
    steps = trace.steps
    if steps.source == WHOLE_TRACE:
        return whole_window(trace)
    usable = np.flatnonzero(steps.complete) if steps.complete.any() else np.arange(len(steps))
    skipped = max(len(usable) - limit + 1, 0) // 2
    chosen = usable[skipped : skipped + limit]
    first, last = int(chosen[0]), int(chosen[-1])
    start, end = step_range(trace, first, last)
    return Window(start, end, first, last, len(steps))


def whole_window(trace: Trace) -> Window:
    """Return the window that holds all events of a trace."""
    tables = [table for table in (trace.annotations, trace.ops, trace.calls, trace.gpu) if len(table)]
    start = min((int(table.start_ns[0]) for table in tables), default=0)
    end = max((int(table.end_ns.max()) for table in tables), default=start)
    return Window(start, end, first=0, last=max(len(trace.steps) - 1, 0), steps=max(len(trace.steps), 1))


def step_range(trace: Trace, first: int, last: int) -> tuple[int, int]:
    """Return the time from the start of a step to the end of another one and of the GPU work launched until then."""
    launched = (trace.links.activity_step >= first) & (trace.links.activity_step <= last)
    end = int(trace.steps.end_ns[last])
    return int(trace.steps.start_ns[first]), int(trace.gpu.end_ns[launched].max(initial=end))
