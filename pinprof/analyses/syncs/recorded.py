"""The source lines that pinprof recorded: learned from marks beside waits, and given to the waits of another trace."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from pinprof.analyses.syncs.causes import CAUSES, name_causes
from pinprof.analyses.syncs.stalls import Stalls
from pinprof.trace.callers import calling_function, outermost_op, stack_of, user_calls
from pinprof.trace.frames import frame
from pinprof.trace.lines import LINE_MARK, RecordedLines, SourceLine
from pinprof.trace.tables import NONE, Int64s, Trace

StallKind = tuple[str, str]
"""The key of recorded lines: the outermost op around a wait, or the call itself, and the role of its thread."""


def marked_lines(trace: Trace, stalls: Stalls) -> Int64s:
    """Return per stall the number of the line mark that follows it, -1 for none.

    The mark is set as soon as control is back in Python. Between a stall and its mark no other stall begins, unless it
    is part of the same outermost op; waits of the autograd threads are marked on the main thread, after `backward`.
    """
    marks = np.flatnonzero(trace.annotations.named(lambda name: name.startswith(LINE_MARK)))
    result = np.full(len(stalls.call), NONE, np.int64)
    if len(marks) == 0:
        return result
    number = np.array([int(trace.annotations.name_of(row).removeprefix(LINE_MARK)) for row in marks.tolist()])
    mark_thread = trace.annotations.thread[marks[0]]
    at = trace.annotations.start_ns[marks]
    start, end = trace.calls.start_ns[stalls.call], trace.calls.end_ns[stalls.call]
    op = outermost_op(trace, stalls.call)
    on_marked_thread = trace.calls.thread[stalls.call] == mark_thread
    following = np.searchsorted(at, end)
    found = following < len(at)
    mark_time = at[np.minimum(following, len(at) - 1)]
    here = np.flatnonzero(on_marked_thread)
    begun = np.searchsorted(start[here], mark_time)  # stalls of the marked thread that began before the mark
    if len(here):
        last = here[np.maximum(begun - 1, 0)]
        of_last = (np.arange(len(start)) == last) | ((op == op[last]) & (op != NONE))
    else:
        of_last = np.zeros(len(start), bool)
    meanwhile = begun > np.searchsorted(start[here], start)
    certain = np.where(on_marked_thread, of_last, ~meanwhile)
    result[found & certain] = number[following[found & certain]]
    return result


def learn_lines(trace: Trace, stalls: Stalls, lines: Sequence[SourceLine]) -> tuple[RecordedLines, ...]:
    """Return the lines of a step's waits, by kind and order, from a trace in which they were marked.

    A line is certain where it is the same in all complete steps with as many waits of the kind: a program that prints
    in every second step has two sorts of steps.
    """
    marked = marked_lines(trace, stalls)
    sequences: dict[StallKind, dict[int, list[SourceLine | None]]] = defaultdict(lambda: defaultdict(list))
    kinds, cause, places = _kinds(trace, stalls), name_causes(trace, stalls), _functions_alone(trace, stalls.call)
    for row in np.flatnonzero(trace.steps.holds(stalls.call_step) & ~stalls.profiler).tolist():
        line = lines[marked[row]] if marked[row] != NONE else places[row]
        line = replace(line, cause=CAUSES[cause[row]]) if line else None
        sequences[kinds[row]][int(stalls.call_step[row])].append(line)
    return tuple(
        RecordedLines(op, thread, at) for (op, thread), steps in sequences.items() for at in _agreed(steps.values())
    )


def _functions_alone(trace: Trace, call: Int64s) -> list[SourceLine | None]:
    """Return the places of calls that no mark follows: the Python functions around them, without a line."""
    places = []
    around = user_calls(trace, call).function.tolist()
    for function, innermost in zip(around, calling_function(trace, call).tolist(), strict=True):
        place = frame(trace.functions.name_of(function)) if function != NONE else None
        places.append(SourceLine(place.file, None, place.function, stack_of(trace, innermost)) if place else None)
    return places


def _agreed(steps: Iterable[list[SourceLine | None]]) -> list[tuple[SourceLine | None, ...]]:
    """Return, for each number of waits, the lines on which all steps with that number agree."""
    by_number: dict[int, list[list[SourceLine | None]]] = defaultdict(list)
    for step in steps:
        by_number[len(step)].append(step)
    return [
        tuple(lines[0] if len(set(lines)) == 1 else None for lines in zip(*alike, strict=True))
        for alike in by_number.values()
    ]


def recorded_lines(trace: Trace, stalls: Stalls) -> list[SourceLine | None]:
    """Return per stall the source line that was recorded for the waits of its kind, None where none is certain.

    If a step has as many waits of a kind as a recorded step, their lines are the same, in order. With another number of
    waits the line is certain only if all recorded lines are one.
    """
    result: list[SourceLine | None] = [None] * len(stalls.call)
    if not trace.info.lines:
        return result
    known: dict[StallKind, dict[int, tuple[SourceLine | None, ...]]] = defaultdict(dict)
    for recorded in trace.info.lines:
        known[recorded.op, recorded.thread][len(recorded.at)] = recorded.at
    groups: dict[tuple[StallKind, int], list[int]] = defaultdict(list)
    for row, kind in enumerate(_kinds(trace, stalls)):
        if not stalls.profiler[row]:
            groups[kind, int(stalls.call_step[row])].append(row)
    for (kind, _), rows in groups.items():
        by_number = known.get(kind, {})
        every = {line for at in by_number.values() for line in at}
        one = every.pop() if len(every) == 1 else None
        for row, line in zip(rows, by_number.get(len(rows), (one,) * len(rows)), strict=True):
            result[row] = line
    return result


def _kinds(trace: Trace, stalls: Stalls) -> list[StallKind]:
    op = outermost_op(trace, stalls.call)
    roles = [trace.threads[thread].role for thread in trace.calls.thread[stalls.call].tolist()]
    names = [trace.ops.name_of(row) if row != NONE else None for row in op.tolist()]
    calls = [trace.calls.name_of(row) for row in stalls.call.tolist()]
    return [(name or call, role) for name, call, role in zip(names, calls, roles, strict=True)]
