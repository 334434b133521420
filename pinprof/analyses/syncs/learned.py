"""The source lines of waits, learned from a trace in which marks stand beside them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from pinprof.analyses.syncs.causes import CAUSES
from pinprof.analyses.syncs.contexts import Kind, kinds_of
from pinprof.analyses.syncs.naming import name_causes
from pinprof.analyses.syncs.stalls import Stalls
from pinprof.trace.callers import calling_function, outermost_op, stack_of, user_calls
from pinprof.trace.frames import frame, is_builtin
from pinprof.trace.lines import LINE_MARK, RecordedLines, SourceLine
from pinprof.trace.tables import NONE, Bools, Int64s, Trace


def marked_lines(trace: Trace, stalls: Stalls) -> Int64s:
    """Return per stall the number of the line mark that follows it, -1 for none.

    The mark is set as soon as control is back in Python. Between a stall and its mark no other stall begins, unless it
    is part of the same outermost op; waits of the autograd threads are marked on the main thread, after `backward`.
    """
    marks = np.flatnonzero(trace.annotations.named(lambda name: name.startswith(LINE_MARK)))
    result = np.full(len(stalls.call), NONE, np.int64)
    number = np.array([int(trace.annotations.name_of(row).removeprefix(LINE_MARK)) for row in marks.tolist()], np.int64)
    mark_thread, thread = trace.annotations.thread[marks], trace.calls.thread[stalls.call]
    unmarked = np.isin(thread, mark_thread, invert=True)
    for each in np.unique(mark_thread).tolist():
        own = mark_thread == each
        of_main = trace.threads[each].role == "main"
        found = _following(trace, stalls, trace.annotations.start_ns[marks[own]], thread == each)
        taken = (found != NONE) & ((thread == each) | (unmarked & of_main))
        result[taken] = number[own][found[taken]]
    return _with_whole_calls(trace, stalls, result)


def _with_whole_calls(trace: Trace, stalls: Stalls, marks: Int64s) -> Int64s:
    """Return the marks with the one of a built-in function for all stalls of that call: one line calls it once.

    A function that reads several tensors, as `pad` does of a list, comes back to Python after the last of them.
    """
    function = trace.links.function[stalls.call]
    in_builtin = (function != NONE) & np.append(trace.functions.named(is_builtin), values=False)[function]
    marked = np.flatnonzero(in_builtin & (marks != NONE))
    of_call: dict[int, set[int]] = defaultdict(set)
    for call, mark in zip(function[marked].tolist(), marks[marked].tolist(), strict=True):
        of_call[call].add(mark)
    result = marks.copy()
    for row in np.flatnonzero(in_builtin & (marks == NONE)).tolist():
        if len(of_call[int(function[row])]) == 1:
            (result[row],) = of_call[int(function[row])]
    return result


def _following(trace: Trace, stalls: Stalls, at: Int64s, marked: Bools) -> Int64s:
    """Return per stall which mark of one thread follows it, -1 for none; `marked` are the stalls of that thread."""
    start, end = trace.calls.start_ns[stalls.call], trace.calls.end_ns[stalls.call]
    op = outermost_op(trace, stalls.call)
    following = np.searchsorted(at, end)
    found = following < len(at)
    mark_time = at[np.minimum(following, len(at) - 1)]
    here = np.flatnonzero(marked)
    begun = np.searchsorted(start[here], mark_time)  # stalls of the marked thread that began before the mark
    if len(here):
        last = here[np.maximum(begun - 1, 0)]
        of_last = (np.arange(len(start)) == last) | ((op == op[last]) & (op != NONE))
    else:
        of_last = np.zeros(len(start), bool)
    meanwhile = begun > np.searchsorted(start[here], start)
    return np.where(found & np.where(marked, of_last, ~meanwhile), following, NONE)


def line_of_each(trace: Trace, stalls: Stalls, lines: Sequence[SourceLine]) -> list[SourceLine | None]:
    """Return per stall of a trace its line, and its cause with that, None where it is not known; `lines` by number."""
    marked = marked_lines(trace, stalls)
    places = _functions_alone(trace, stalls.call)
    found = [lines[number] if number != NONE else place for number, place in zip(marked.tolist(), places, strict=True)]
    causes = (CAUSES[code] for code in name_causes(trace, stalls, found).tolist())
    return [replace(line, cause=why) if line else None for line, why in zip(found, causes, strict=True)]


def learn_lines(trace: Trace, stalls: Stalls, lines: Sequence[SourceLine | None]) -> tuple[RecordedLines, ...]:
    """Return the lines of a step's waits, by kind and order, of a trace with a line per stall.

    A line is certain where it is the same in all complete steps with as many waits of the kind: a program that prints
    in every second step has two sorts of steps.
    """
    sequences: dict[Kind, dict[int, list[SourceLine | None]]] = defaultdict(lambda: defaultdict(list))
    kinds = kinds_of(trace, stalls)
    for row in np.flatnonzero(trace.steps.holds(stalls.call_step) & ~stalls.profiler).tolist():
        sequences[kinds[row]][int(stalls.call_step[row])].append(lines[row])
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
