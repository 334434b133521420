"""Steps that are mostly what a program does only once."""

import numpy as np

from pinprof.intervals import Intervals, covered, subtract, union
from pinprof.measurement.trust.doubt import CAUSES, DRAIN, ESTIMATE, PER_STEP, Doubt, Seen, only_if
from pinprof.trace.compiling import marked_captures
from pinprof.trace.once import KINDS, NEVER, one_time_work
from pinprof.trace.tables import WHOLE_TRACE, Trace
from pinprof.units import duration, listed, percent

MATTERS = 0.1
"""Share of the recorded steps from which their length, and what a change saves, are not those of later steps: what
costs as much is of high severity."""
MOSTLY = 0.5
"""Share from which no sum of theirs is."""
NAMED = 0.1
"""Share of the one-time work that a kind must have to be named."""

AFTER_FIRST = "record steps behind the first ones: torch.profiler.schedule(wait=5, warmup=2, active=5)"
AFTER_CAPTURE = "record batches after the server has started"


def one_time(seen: Seen) -> Doubt | None:
    """Report steps in which the host starts CUDA, loads modules, launches for the first time, compiles or captures."""
    trace, steps = seen.trace, seen.trace.steps
    if not len(trace.calls) or not steps.on_host:
        return None
    length = int((steps.end_ns - steps.start_ns)[steps.complete].sum())
    kinds = one_time_work(trace, seen.syncs.stalls.call)
    every = Intervals(*(np.concatenate(columns) for columns in zip(*kinds.values(), strict=True)))
    once = _within(trace, union(*every))
    if not length or once < MATTERS * length:
        return None
    named = _by_kind(trace, kinds)
    whole = "the trace" if steps.source == WHOLE_TRACE else "the recorded steps"
    kinds_ns = [(KINDS[kind], ns) for kind, ns in named if ns >= NAMED * once]
    words = [f"{words} {duration(ns)}" if len(kinds_ns) > 1 else words for words, ns in kinds_ns]
    return Doubt(
        f"{duration(once)} ({percent(once / length)}) of {whole} is one-time work ({listed(words, len(words))})",
        "later steps do not have it, so no change of the program saves it",
        AFTER_CAPTURE if len(marked_captures(trace).start) else AFTER_FIRST,
        frozenset({ESTIMATE, CAUSES}) | only_if(once >= MOSTLY * length, PER_STEP, DRAIN),
    )


def _by_kind(trace: Trace, kinds: dict[str, Intervals]) -> list[tuple[str, int]]:
    """Return how long each kind takes in the steps, the longest first; a time counts for the last of its kinds."""
    rest = NEVER
    found = []
    for kind in reversed(KINDS):
        found.append((kind, _within(trace, subtract(kinds[kind], rest))))
        rest = union(np.concatenate((rest.start, kinds[kind].start)), np.concatenate((rest.end, kinds[kind].end)))
    return sorted(found, key=lambda each: -each[1])


def _within(trace: Trace, times: Intervals) -> int:
    """Return how much of these times lies in the complete steps, in ns."""
    steps = trace.steps
    return int(covered(times, steps.start_ns[steps.complete], steps.end_ns[steps.complete]).sum())
