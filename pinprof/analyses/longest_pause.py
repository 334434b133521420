"""The longest time per step in which the host ran neither an op nor a call."""

from collections import Counter
from dataclasses import dataclass
from statistics import median

import numpy as np

from pinprof.intervals import Intervals
from pinprof.trace.tables import Trace

MEANING = "Python code, a sleep, or a call that is not recorded"
"""What the host does in a pause: most calls of the driver are not recorded, such as those that map memory."""


@dataclass(frozen=True)
class Pause:
    """The longest time per step in which the training threads ran no op and no call; gaps within ops do not count."""

    time_ns: float
    """Median over the complete steps."""
    after: str
    """The op or call before it; empty at the beginning of the step."""
    before: str
    """The op or call after it; empty at the end of the step."""

    @property
    def between(self) -> str:
        """What it lies between, in words; the names are those of the trace."""
        return f"after {self.after or 'the beginning of the step'} and before {self.before or 'its end'}"


def measure_pause(trace: Trace, waiting_for_input: Intervals) -> Pause | None:
    """Return the usual longest pause of the training threads in a step, and between which ops it most often lies.

    The autograd threads run backward while the main thread waits for them. The time in which the main thread asks its
    DataLoader for a batch does not count.
    """
    threads = [number for number, thread in enumerate(trace.threads) if thread.role in {"main", "autograd"}]
    steps = trace.steps
    if not threads or not steps.on_host or not steps.complete.any():
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

    def name_of(place: int) -> str:
        at = int(order[place])
        for table, chosen in zip(tables, rows, strict=True):
            if at < len(chosen):
                return table.name_of(int(chosen[at]))
            at -= len(chosen)
        return "the wait for a batch"

    longest: list[float] = []
    places: Counter[tuple[str, str]] = Counter()
    for begin, stop in zip(steps.start_ns[steps.complete], steps.end_ns[steps.complete], strict=True):
        first, last = np.searchsorted(start, [begin, stop])
        open_until = max(begin, reached[first - 1]) if first else begin  # an op may run on from the step before
        edges = np.concatenate(([open_until], np.maximum(reached[first:last], begin)))
        gaps = np.concatenate((start[first:last], [stop])) - edges
        at = int(gaps.argmax())
        longest.append(max(float(gaps[at]), 0.0))
        after = name_of(ends_last[first + at - 1]) if at or open_until > begin else ""
        places[after, name_of(first + at) if first + at < last else ""] += 1
    return Pause(median(longest), *places.most_common(1)[0][0])
