"""Where waits stand among the ops of their step: what tells one wait from others of its kind, whatever their number."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from pinprof.analyses.syncs.stalls import Stalls
from pinprof.trace.callers import outermost_op
from pinprof.trace.lines import EDGE, Context, Contexts, SourceLine
from pinprof.trace.links import outermost, step_at
from pinprof.trace.tables import NONE, Int64s, Trace

FAR = 16
"""Ops on each side in a whole context. A layer of a transformer has about as many, so that a context that repeats with
the layers does so at the same lines."""
NEAR = 6
"""Ops on each side that suffice where all known waits with those before, or with those after, are of one line."""

OWN = "aten::is_pinned"
"""pinprof itself asks this of copies while it records lines (pinprof/program/waits.py), and only then."""

UNKNOWN = -2
"""Stands in a context for what fits nothing: an op that was not recorded with the lines, or the end of the trace."""

Kind: TypeAlias = tuple[str, str]
"""The outermost op around a wait, or the call itself, and the role of its thread."""

Names: TypeAlias = tuple[int, ...]
Around: TypeAlias = tuple[Names, Names]
"""The ops before and after a wait, the nearest first, as indices into names."""


class Units(NamedTuple):
    """The waits of a trace: stalls within one outermost op are one."""

    unit: Int64s
    """Per stall: the number of its unit."""
    kind: list[Kind]
    """Per stall."""
    around: list[Around]
    """Per unit: its context, as far as `FAR`."""
    step: Int64s
    """Per unit: its step, -1 for none."""


def units_of(trace: Trace, stalls: Stalls, names: Sequence[str]) -> Units:
    """Return the waits of a trace with their contexts, in which ops are indices into `names`."""
    op = outermost_op(trace, stalls.call).astype(np.int64)
    key, first, unit = np.unique(
        np.where(op != NONE, op, len(trace.ops) + stalls.call), return_index=True, return_inverse=True
    )
    thread = trace.calls.thread[stalls.call][first]
    within_op = key < len(trace.ops)
    start = trace.calls.start_ns[stalls.call][first].copy()
    start[within_op] = trace.ops.start_ns[key[within_op]]
    tokens = _tokens(trace, key, thread.astype(np.int64), start, stalls.call[first])
    around = _around(tokens, len(key), _numbers(tokens.names, names))
    return Units(unit.ravel(), kinds_of(trace, stalls), around, step_at(trace.steps, start).astype(np.int64))


def kinds_of(trace: Trace, stalls: Stalls) -> list[Kind]:
    """Return per stall the kind of its wait."""
    return kinds_of_calls(trace, stalls.call)


def kinds_of_calls(trace: Trace, call: Int64s) -> list[Kind]:
    """Return per call the kind that a wait in it is of."""
    op = outermost_op(trace, call)
    roles = [trace.threads[thread].role for thread in trace.calls.thread[call].tolist()]
    names = [trace.ops.name_of(row) if row != NONE else None for row in op.tolist()]
    calls = [trace.calls.name_of(row) for row in call.tolist()]
    return [(name or call, role) for name, call, role in zip(names, calls, roles, strict=True)]


class _Tokens(NamedTuple):
    """What a thread does, in order: its outermost ops, and the waits outside of these; sorted by thread and start."""

    thread: Int64s
    step: Int64s
    name: Int64s
    """Index into `names`."""
    names: tuple[str, ...]
    at: Int64s
    """Per unit: its row."""


def _tokens(trace: Trace, key: Int64s, thread: Int64s, start: Int64s, call: Int64s) -> _Tokens:
    ops, parents = trace.ops, trace.links.op_parent
    named = ops.named(lambda name: "::" in name and name != OWN and not name.startswith("autograd::"))
    top = np.flatnonzero(named & (outermost(named, parents, parents) == NONE)) if len(ops) else np.empty(0, np.int64)
    others = np.flatnonzero(~np.isin(key, top))
    rows = np.concatenate((top, key[others]))
    of_ops = np.append(ops.name, np.zeros(1, ops.name.dtype))[np.where(key < len(ops), key, NONE)]
    name = np.where(key < len(ops), of_ops, len(ops.names) + trace.calls.name[call])
    threads = np.concatenate((ops.thread[top], thread[others]))
    starts = np.concatenate((ops.start_ns[top], start[others]))
    order = np.lexsort((starts, threads))
    by_row = np.argsort(rows[order], kind="stable")
    at = by_row[np.searchsorted(rows[order], key, sorter=by_row)]
    names = np.concatenate((ops.name[top], name[others]))[order]
    return _Tokens(
        threads[order].astype(np.int64),
        step_at(trace.steps, starts[order]).astype(np.int64),
        names.astype(np.int64),
        (*ops.names, *trace.calls.names),
        at,
    )


def _numbers(own: Sequence[str], names: Sequence[str]) -> Int64s:
    """Return per own name its index in `names`."""
    index = {name: number for number, name in enumerate(names)}
    return np.array([index.get(name, UNKNOWN) for name in own], np.int64)


def _around(tokens: _Tokens, units: int, numbers: Int64s) -> list[Around]:
    if not units:
        return []
    sides = []
    for direction in (-1, 1):
        rows = tokens.at[:, None] + direction * np.arange(1, FAR + 1)
        inside = (rows >= 0) & (rows < len(tokens.name))
        rows = np.clip(rows, 0, len(tokens.name) - 1)
        at = tokens.at[:, None]
        inside &= (tokens.thread[rows] == tokens.thread[at]) & (tokens.step[rows] == tokens.step[at])
        edge = np.where(tokens.step[at] == NONE, UNKNOWN, EDGE)  # outside of the steps nothing begins or ends
        sides.append(np.where(inside, numbers[tokens.name[rows]], edge).tolist())
    return [(_cut(before), _cut(after)) for before, after in zip(*sides, strict=True)]


def _cut(side: list[int]) -> Names:
    """Return the ops up to the edge of the step, and that edge."""
    return tuple(side[: side.index(EDGE) + 1] if EDGE in side else side)


def learn_contexts(trace: Trace, stalls: Stalls, lines: Sequence[SourceLine | None]) -> Contexts:
    """Return the contexts of the waits of complete steps, whose lines are known; each once."""
    names = tuple(sorted({*trace.ops.names, *trace.calls.names}))
    units = units_of(trace, stalls, names)
    lined: dict[int, tuple[Kind, int, SourceLine | None]] = {}
    measured = trace.steps.holds(stalls.call_step) & ~stalls.profiler
    for row in np.flatnonzero(measured).tolist():
        unit, line = int(units.unit[row]), lines[row]
        known = lined.setdefault(unit, (units.kind[row], int(stalls.call_step[row]), line))
        if known[2] != line:
            lined[unit] = (*known[:2], agreed((known[2], line)))
    return _gathered(names, units, lined)


def _gathered(names: tuple[str, ...], units: Units, lined: dict[int, tuple[Kind, int, SourceLine | None]]) -> Contexts:
    found: dict[tuple[Kind, Around, SourceLine | None], Counter[int]] = defaultdict(Counter)
    for unit, (kind, step, line) in lined.items():
        found[kind, units.around[unit], line][step] += 1
    used = sorted({name for _, around, _ in found for side in around for name in side} - {EDGE})
    renamed = {name: number for number, name in enumerate(used)} | {EDGE: EDGE}
    index = {line: number for number, line in enumerate({line: None for _, _, line in found if line})}
    waits = [
        Context(
            op,
            thread,
            tuple(renamed[name] for name in before),
            tuple(renamed[name] for name in after),
            index[line] if line else NONE,
            max(steps.values()),
        )
        for ((op, thread), (before, after), line), steps in found.items()
    ]
    return Contexts(tuple(names[name] for name in used), tuple(index), tuple(waits))


def agreed(lines: Iterable[SourceLine | None]) -> SourceLine | None:
    """Return the line of which all are; without its stack where that differs, None where one is another place."""
    all_lines = list(lines)
    first = all_lines[0] if all_lines else None
    if first is None or any(line is None or line.place != first.place for line in all_lines):
        return None
    known = [line for line in all_lines if line]
    stack = first.stack if all(line.stack == first.stack for line in known) else ()
    return replace(first, stack=stack, cause=first.cause if all(line.cause == first.cause for line in known) else None)


class Match(NamedTuple):
    """What the contexts of the recorded lines say of one wait."""

    line: SourceLine | None = None
    """The line of all recorded waits with this context."""
    is_whole: bool = False
    """Whether the contexts agree as far as they are kept; else near the wait."""
    is_apart: bool = False
    """Whether the op before the wait leaves this line by itself, and the op after it too."""
    most: int = 0
    """How many waits of a step had this whole context."""
    beside: frozenset[SourceLine] = frozenset()
    """The lines that one side of the context alone leaves, both what is near there and the next op."""


class Known:
    """The contexts of the recorded lines, to be looked up."""

    def __init__(self, contexts: Contexts) -> None:
        self._contexts = contexts
        self._found: dict[tuple[Kind, Around], Match] = {}

    @cached_property
    def _of_kind(self) -> dict[Kind, list[tuple[Context, SourceLine | None]]]:
        of_kind: dict[Kind, list[tuple[Context, SourceLine | None]]] = defaultdict(list)
        for wait in self._contexts.waits:
            line = self._contexts.lines[wait.line] if wait.line != NONE else None
            of_kind[wait.op, wait.thread].append((wait, line))
        return of_kind

    @cached_property
    def _by_context(self) -> dict[tuple[object, ...], list[tuple[Context, SourceLine | None]]]:
        found: dict[tuple[object, ...], list[tuple[Context, SourceLine | None]]] = defaultdict(list)
        for kind, waits in self._of_kind.items():
            for wait, line in waits:
                for key in _keys(kind, (wait.before, wait.after)):
                    found[key].append((wait, line))
        return found

    @property
    def kinds(self) -> Iterable[Kind]:
        """The kinds of all recorded waits."""
        return self._of_kind.keys()

    def lines(self, kind: Kind) -> list[SourceLine | None]:
        """Return the lines of all recorded waits of a kind, None for those without."""
        return list(dict.fromkeys(line for _, line in self._of_kind.get(kind, ())))

    def match(self, kind: Kind, around: Around) -> Match:
        """Return what is known of a wait with this context."""
        if (kind, around) not in self._found:
            self._found[kind, around] = self._match(kind, around)
        return self._found[kind, around]

    def _match(self, kind: Kind, around: Around) -> Match:
        whole, near, *sides = (self._by_context.get(key, []) for key in _keys(kind, around))
        before, after, last, following = (agreed(line for _, line in side) for side in sides)
        pairs = ((before, last), (after, following))
        beside = frozenset(side for side, next_to in pairs if side and next_to and side.place == next_to.place)
        line = agreed(line for _, line in whole or near)
        uncontested = agreed(line for side in sides[:2] for _, line in side) is not None
        if line is None or not (whole or uncontested):
            return Match(beside=beside)
        is_apart = all(side is not None and side.place == line.place for side in (last, following))
        return Match(line, bool(whole), is_apart, sum(wait.most for wait, _ in whole), beside)


def _keys(kind: Kind, around: Around) -> Iterator[tuple[object, ...]]:
    """Yield the keys of a whole context, of a near one, of what is near on each side, and of the next op there."""
    near_before, near_after = (side[:NEAR] for side in around)
    yield "whole", kind, around
    yield "near", kind, near_before, near_after
    yield "before", kind, near_before
    yield "after", kind, near_after
    yield "last", kind, near_before[:1]
    yield "following", kind, near_after[:1]
