"""Finds the lines of waits by marks in a trace, and what is stored with each: its order, and the ops around it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np

from pinprof.analyses.syncs.causes import WAIT_CAUSES
from pinprof.analyses.syncs.naming import name_causes
from pinprof.analyses.syncs.stalls import Stalls
from pinprof.trace.callers import calling_function, outermost_op, stack_of, user_calls
from pinprof.trace.frames import frame, is_builtin
from pinprof.trace.lines import END_OF_STEP, LINE_MARK, Context, Contexts, SourceLine
from pinprof.trace.links import outermost, step_at
from pinprof.trace.tables import NONE, Bools, Int64s, Trace

MAX_CONTEXT_OPS_PER_SIDE = 16
"""Ops of a context on each side of its wait. A layer of a transformer has about this number of ops: where a whole
context recurs in each layer, its line is the same."""

LINE_RECORDER_OP = "aten::is_pinned"
"""pinprof runs this op while it records lines (pinprof/program/waits.py): it is none of the program's."""

UNKNOWN_OP = -2
"""Stands in a context for an op that was not recorded with the lines, or for the end of the trace: it matches no op."""

NameIndices: TypeAlias = tuple[int, ...]
Around: TypeAlias = tuple[NameIndices, NameIndices]
"""The ops before and after a wait, the nearest first, as indices into names."""


class WaitKind(NamedTuple):
    """The kind of a wait, by which waits are matched with recorded lines."""

    op: str  # the outermost op around the wait, or the call itself
    role: str  # the role of the thread


def kinds_of_calls(trace: Trace, call: Int64s) -> list[WaitKind]:
    """Return per call the kind of a wait in it."""
    around = zip(outermost_op(trace, call).tolist(), call.tolist(), strict=True)
    names = [trace.ops.name_of(op) if op != NONE else trace.calls.name_of(row) for op, row in around]
    roles = [trace.threads[thread].role for thread in trace.calls.thread[call].tolist()]
    return list(map(WaitKind, names, roles))


def agreed(lines: Iterable[SourceLine | None]) -> SourceLine | None:
    """Return the line if all are at one place, otherwise None; its stack and cause are left out if they differ."""
    first, *others = [*lines] or [None]
    if not others:
        return first
    if first is None or any(line is None or line.place != first.place for line in others):
        return None
    known = [line for line in others if line]
    stack = first.stack if all(line.stack == first.stack for line in known) else ()
    return replace(first, stack=stack, cause=first.cause if all(line.cause == first.cause for line in known) else None)


# The ops around waits


class OpWaits(NamedTuple):
    """The waits of a trace; all stalls within one outermost op are one wait."""

    wait: Int64s  # per stall: the number of its wait
    around: list[Around]  # per wait: its context, `MAX_CONTEXT_OPS_PER_SIDE` ops on each side at most


def waits_of(trace: Trace, stalls: Stalls, names: Sequence[str]) -> OpWaits:
    """Return the waits of a trace and their contexts; ops in contexts are indices into `names`."""
    op = outermost_op(trace, stalls.call).astype(np.int64)
    key, first, wait = np.unique(
        np.where(op != NONE, op, len(trace.ops) + stalls.call), return_index=True, return_inverse=True
    )
    around = _ops_around(_sequence(trace, key, stalls.call[first]), names)
    return OpWaits(wait.ravel(), around)


class _Sequence(NamedTuple):
    """The outermost ops of each thread, and the waits outside of these; sorted by thread and start."""

    thread: Int64s
    step: Int64s
    name: Int64s  # index into `names`
    names: tuple[str, ...]
    at: Int64s  # per wait: its row


def _sequence(trace: Trace, key: Int64s, call: Int64s) -> _Sequence:
    """Return the sequence of a trace; `key` is the op's row of each wait, or the number of ops plus the call's row."""
    ops, calls, parents = trace.ops, trace.calls, trace.links.op_parent
    in_op = key < len(ops)
    wait_name, wait_start = len(ops.names) + calls.name[call].astype(np.int64), calls.start_ns[call].copy()
    wait_name[in_op], wait_start[in_op] = ops.name[key[in_op]], ops.start_ns[key[in_op]]
    named = ops.named(lambda name: "::" in name and name != LINE_RECORDER_OP and not name.startswith("autograd::"))
    top = np.flatnonzero(named & (outermost(named, parents, parents) == NONE)) if len(ops) else np.empty(0, np.int64)
    outside = np.flatnonzero(~np.isin(key, top))
    row = np.concatenate((top, key[outside]))
    thread = np.concatenate((ops.thread[top], calls.thread[call][outside])).astype(np.int64)
    start = np.concatenate((ops.start_ns[top], wait_start[outside]))
    name = np.concatenate((ops.name[top], wait_name[outside])).astype(np.int64)
    order = np.lexsort((start, thread))
    by_row = np.argsort(row[order], kind="stable")
    at = by_row[np.searchsorted(row[order], key, sorter=by_row)]
    step = step_at(trace.steps, start[order]).astype(np.int64)
    return _Sequence(thread[order], step, name[order], (*ops.names, *calls.names), at)


def _ops_around(sequence: _Sequence, names: Sequence[str]) -> list[Around]:
    if not len(sequence.at):
        return []
    index = {name: number for number, name in enumerate(names)}
    number = np.array([index.get(name, UNKNOWN_OP) for name in sequence.names], np.int64)
    at, sides = sequence.at[:, None], []
    for direction in (-1, 1):
        rows = at + direction * np.arange(1, MAX_CONTEXT_OPS_PER_SIDE + 1)
        inside = (rows >= 0) & (rows < len(sequence.name))
        rows = np.clip(rows, 0, len(sequence.name) - 1)
        inside &= (sequence.thread[rows] == sequence.thread[at]) & (sequence.step[rows] == sequence.step[at])
        edge = np.where(sequence.step[at] == NONE, UNKNOWN_OP, END_OF_STEP)  # outside of steps nothing begins or ends
        sides.append(np.where(inside, number[sequence.name[rows]], edge).tolist())
    return [(_up_to_edge(before), _up_to_edge(after)) for before, after in zip(*sides, strict=True)]


def _up_to_edge(side: list[int]) -> NameIndices:
    return tuple(side[: side.index(END_OF_STEP) + 1] if END_OF_STEP in side else side)


# What is stored with the lines


def learn_contexts(trace: Trace, stalls: Stalls, lines: Sequence[SourceLine | None]) -> Contexts:
    """Return the different contexts of the waits of complete steps; `lines` has a line per stall."""
    names = tuple(sorted({*trace.ops.names, *trace.calls.names}))
    waits, stalls_of = waits_of(trace, stalls, names), defaultdict[int, list[int]](list)
    kinds = kinds_of_calls(trace, stalls.call)
    for stall in np.flatnonzero(trace.steps.holds(stalls.call_step) & ~stalls.profiler).tolist():
        stalls_of[int(waits.wait[stall])].append(stall)
    found: dict[tuple[WaitKind, Around, SourceLine | None], Counter[int]] = defaultdict(Counter)
    for wait, (first, *others) in stalls_of.items():
        line = agreed(lines[stall] for stall in (first, *others))
        found[kinds[first], waits.around[wait], line][int(stalls.call_step[first])] += 1
    used = sorted({name for _, around, _ in found for side in around for name in side} - {END_OF_STEP})
    code_of = {name: code for code, name in enumerate(used)} | {END_OF_STEP: END_OF_STEP}
    index = {line: number for number, line in enumerate(dict.fromkeys(line for *_, line in found if line))}
    contexts = (
        Context(
            kind.op,
            kind.role,
            tuple(code_of[name] for name in before),
            tuple(code_of[name] for name in after),
            index[line] if line else NONE,
            max(in_step.values()),
        )
        for (kind, (before, after), line), in_step in found.items()
    )
    return Contexts(tuple(names[name] for name in used), tuple(index), tuple(contexts))


# The marks in a trace


def lines_of_stalls(trace: Trace, stalls: Stalls, lines: Sequence[SourceLine]) -> list[SourceLine | None]:
    """Return per stall of a marked trace its line and cause, None where unknown; marks are indices into `lines`."""
    marks, places = _marks_of_stalls(trace, stalls).tolist(), _functions_alone(trace, stalls.call)
    lines_by_stall = [lines[mark] if mark != NONE else place for mark, place in zip(marks, places, strict=True)]
    causes = (WAIT_CAUSES[code] for code in name_causes(trace, stalls, lines_by_stall).tolist())
    return [replace(line, cause=cause) if line else None for line, cause in zip(lines_by_stall, causes, strict=True)]


def _functions_alone(trace: Trace, call: Int64s) -> list[SourceLine | None]:
    """Return per call the Python function around it, without a line: the place of a call that no mark follows."""
    places = []
    around = user_calls(trace, call).function.tolist()
    for function, innermost in zip(around, calling_function(trace, call).tolist(), strict=True):
        place = frame(trace.functions.name_of(function)) if function != NONE else None
        places.append(SourceLine(place.file, None, place.function, stack_of(trace, innermost)) if place else None)
    return places


def _marks_of_stalls(trace: Trace, stalls: Stalls) -> Int64s:
    """Return per stall the number of the line mark that follows it, -1 for none.

    The mark is set as soon as control is back in Python. Between a stall and its mark no other stall begins, except in
    the same outermost op. Waits of the autograd threads are marked on the main thread, after `backward`.
    """
    annotations = trace.annotations
    marks = np.flatnonzero(annotations.named(lambda name: name.startswith(LINE_MARK)))
    result = np.full(len(stalls.call), NONE, np.int64)
    number = np.array([int(annotations.name_of(row).removeprefix(LINE_MARK)) for row in marks.tolist()], np.int64)
    mark_thread, thread = annotations.thread[marks], trace.calls.thread[stalls.call]
    unmarked = np.isin(thread, mark_thread, invert=True)
    for marking in np.unique(mark_thread).tolist():
        own = mark_thread == marking
        following = _following_mark(trace, stalls, annotations.start_ns[marks[own]], thread == marking)
        of_thread = (thread == marking) | (unmarked & (trace.threads[marking].role == "main"))
        marked = (following != NONE) & of_thread
        result[marked] = number[own][following[marked]]
    return _with_whole_calls(trace, stalls, result)


def _with_whole_calls(trace: Trace, stalls: Stalls, marks: Int64s) -> Int64s:
    """Return the marks; all stalls within one call of a built-in function get its mark, as one line makes that call.

    A function that reads several tensors, such as `pad` with a list, returns to Python only after the last read.
    """
    function = trace.links.function[stalls.call]
    in_builtin = (function != NONE) & np.append(trace.functions.named(is_builtin), values=False)[function]
    marks_in: dict[int, set[int]] = defaultdict(set)
    for stall in np.flatnonzero(in_builtin & (marks != NONE)).tolist():
        marks_in[int(function[stall])].add(int(marks[stall]))
    result = marks.copy()
    for stall in np.flatnonzero(in_builtin & (marks == NONE)).tolist():
        if len(marks_in[int(function[stall])]) == 1:
            (result[stall],) = marks_in[int(function[stall])]
    return result


def _following_mark(trace: Trace, stalls: Stalls, at: Int64s, marked: Bools) -> Int64s:
    """Return per stall which mark of one thread follows it, -1 for none; `marked` are the stalls of that thread."""
    start, end = trace.calls.start_ns[stalls.call], trace.calls.end_ns[stalls.call]
    op = outermost_op(trace, stalls.call)
    following = np.searchsorted(at, end)
    is_followed = following < len(at)
    mark_time = at[np.minimum(following, len(at) - 1)]
    marked_rows = np.flatnonzero(marked)
    begun = np.searchsorted(start[marked_rows], mark_time)  # stalls of the marked thread that began before the mark
    of_last = np.zeros(len(start), bool)
    if len(marked_rows):
        last = marked_rows[np.maximum(begun - 1, 0)]
        of_last = (np.arange(len(start)) == last) | ((op == op[last]) & (op != NONE))
    meanwhile = begun > np.searchsorted(start[marked_rows], start)
    return np.where(is_followed & np.where(marked, of_last, ~meanwhile), following, NONE)
