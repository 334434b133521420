"""Matches the waits of a trace with recorded and watched lines, where only one line fits."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from itertools import chain
from typing import NamedTuple, TypeAlias

import numpy as np

from pinprof.analyses.syncs.lines.recorded import Around, WaitKind, agreed, kinds_of_calls, waits_of
from pinprof.analyses.syncs.lines.watched import Candidates, WatchedWaits, candidate_lines
from pinprof.analyses.syncs.stalls import Stalls
from pinprof.trace.lines import Context, Contexts, DebugModeWaits, RecordedLines, SourceLine
from pinprof.trace.metadata.run_log import CHECKPOINT, EVALUATION, RECORDED, WATCH_WINDOW
from pinprof.trace.tables import NONE, Trace

Lines: TypeAlias = list[SourceLine | None]
"""Per stall."""

NEAR_OPS = 6
"""Ops on each side of a near context. It suffices if all recorded waits after the same ops, or before them, have one
line."""

WORK_APART = {EVALUATION, CHECKPOINT}
"""Irregular work whose waits are among the same ops as in training: a copy of the batch, a read of the loss."""


def lines_of_waits(trace: Trace, stalls: Stalls) -> Lines:
    """Return per stall the source line that was recorded or watched for it, None where none is certain.

    If lines were recorded with the contexts of their waits, the context decides, unless watching saw another line that
    may run the same op. Then all watched steps with the same number of such waits must agree. If lines were recorded
    without contexts, the order of the waits decides.
    """
    kinds = kinds_of_calls(trace, stalls.call)
    by_step: dict[tuple[WaitKind, int], list[int]] = defaultdict(list)
    for stall in np.flatnonzero(~stalls.profiler).tolist():
        by_step[kinds[stall], int(stalls.call_step[stall])].append(stall)
    ordered: Lines = [None] * len(kinds)
    has_contexts, by_number = trace.info.contexts is not None, _by_number(trace.info.lines)
    for (kind, step), rows in by_step.items():
        if not has_contexts or (step != NONE and trace.steps.whole[step]):
            for stall, line in zip(
                rows, _in_order(by_number.get(kind, {}), len(rows), or_one=not has_contexts), strict=True
            ):
                ordered[stall] = line
    if trace.info.contexts is None:
        return ordered
    matcher, result = _Matcher(trace, stalls, trace.info.contexts, kinds, ordered), ordered.copy()
    for (kind, _), rows in by_step.items():
        for stall, line in matcher.lines(kind, rows):
            result[stall] = line
    return result


def _by_number(recorded: Iterable[RecordedLines]) -> dict[WaitKind, dict[int, tuple[SourceLine | None, ...]]]:
    """Return the recorded lines by kind and by the number of such waits in a step."""
    lines_at: dict[WaitKind, dict[int, tuple[SourceLine | None, ...]]] = defaultdict(dict)
    for lines in recorded:
        lines_at[WaitKind(lines.op, lines.thread)][len(lines.at)] = lines.at
    return lines_at


def _in_order(
    by_number: dict[int, tuple[SourceLine | None, ...]], count: int, *, or_one: bool
) -> tuple[SourceLine | None, ...]:
    """Return the lines of `count` waits of a kind in a step: those of a recorded step with the same number, in order.

    With `or_one`, a step with another number of waits gets the recorded line if there is only one.
    """
    if count in by_number or not or_one:
        return by_number.get(count, (None,) * count)
    lines = {line for lines_at in by_number.values() for line in lines_at}
    return ((lines.pop() if len(lines) == 1 else None),) * count


class ContextMatch(NamedTuple):
    """What the contexts of the recorded lines show about one wait."""

    line: SourceLine | None = None
    """The line of all recorded waits with this context."""
    is_whole: bool = False
    """Whether the whole contexts are equal; otherwise only the ops near the wait are."""
    is_apart: bool = False
    """Whether the next op on each side of the wait alone identifies this line."""
    most: int = 0
    """The most waits of a step that had this whole context."""
    one_sided: frozenset[SourceLine] = frozenset()
    """The lines that one side of the context identifies, by its near ops and by its next op."""


class RecordedContexts:
    """Looks up waits among the contexts of the recorded lines."""

    def __init__(self, contexts: Contexts) -> None:
        self._waits: dict[WaitKind, list[Context]] = defaultdict(list)
        for wait in contexts.waits:
            self._waits[WaitKind(wait.op, wait.thread)].append(wait)
        self._lines = (*contexts.lines, None)  # the last for waits without a line
        self.lines = {
            kind: list(dict.fromkeys(self._lines[number] for number in dict.fromkeys(wait.line for wait in waits)))
            for kind, waits in self._waits.items()
        }
        """The lines of all recorded waits by kind, None for waits without a line."""
        self.match = cache(self._match)

    @cached_property
    def _found(self) -> dict[tuple[object, ...], tuple[SourceLine | None, int]]:
        """The line of all recorded waits with a key, and the most waits of a step that had it."""
        most: dict[tuple[object, ...], Counter[int]] = defaultdict(Counter)
        for kind, waits in self._waits.items():
            for wait in waits:
                for key in _keys(kind, (wait.before, wait.after)):
                    most[key][wait.line] += wait.most
        return {key: (agreed(self._lines[line] for line in lines), lines.total()) for key, lines in most.items()}

    def _match(self, kind: WaitKind, around: Around) -> ContextMatch:
        """Return what is known about a wait with this context."""
        found = [self._found.get(key) for key in _keys(kind, around)]
        whole, near, before, after, last, following = (line for line, _ in (entry or (None, 0) for entry in found))
        pairs = ((before, last), (after, following))
        one_sided = frozenset(side for side, next_to in pairs if side and next_to and side.place == next_to.place)
        line = whole if found[0] else near
        uncontested = agreed(entry[0] for entry in found[2:4] if entry) is not None
        if line is None or not (found[0] or uncontested):
            return ContextMatch(one_sided=one_sided)
        is_apart = all(side is not None and side.place == line.place for side in (last, following))
        return ContextMatch(line, found[0] is not None, is_apart, found[0][1] if found[0] else 0, one_sided)


def _keys(kind: WaitKind, around: Around) -> Iterator[tuple[object, ...]]:
    """Yield the keys of the whole context, the near one, the near ops on each side, and the next op on each side."""
    near_before, near_after = (side[:NEAR_OPS] for side in around)
    yield "whole", kind, around
    yield "near", kind, near_before, near_after
    yield "before", kind, near_before
    yield "after", kind, near_after
    yield "last", kind, near_before[:1]
    yield "following", kind, near_after[:1]


class _Matcher:
    """Assigns lines to the waits of a trace, where contexts were recorded."""

    def __init__(self, trace: Trace, stalls: Stalls, contexts: Contexts, kinds: list[WaitKind], ordered: Lines) -> None:
        self._contexts = RecordedContexts(contexts)
        self._waits = waits_of(trace, stalls, contexts.names)
        self._watched = WatchedWaits(self._contexts.lines, _without_irregular_work(trace))
        self._candidates = candidate_lines(trace, stalls, kinds, self._watched)
        self._ordered = ordered
        """The lines of the stalls by the order of waits alone."""

    def lines(self, kind: WaitKind, stalls: list[int]) -> Iterator[tuple[int, SourceLine | None]]:
        """Yield a step's stalls of one kind, each with its line."""
        stalls_of: dict[int, list[int]] = defaultdict(list)
        for stall in stalls:
            stalls_of[int(self._waits.wait[stall])].append(stall)
        around = {wait: self._waits.around[wait] for wait in stalls_of}
        alike = Counter(around.values())
        matches = {wait: self._contexts.match(kind, around[wait]) for wait in stalls_of}
        candidates = {wait: self._candidates_of(kind, own) for wait, own in stalls_of.items()}
        is_new = not all(_fits(matches[wait], candidates[wait]) for wait in stalls_of)
        rivals = self._watched.places(self._watched.rivals(kind))
        contested = any(
            agreed(lines) is None and any(line.place in rivals for line in lines)
            for lines in candidates.values()
            if lines is not None
        )
        for wait, own in stalls_of.items():
            by_order, lines = agreed(self._ordered[stall] for stall in own), candidates[wait]
            if lines is None or is_new:  # the step is unlike all watched steps
                line = self._by_context(kind, matches[wait], alike[around[wait]], by_order, is_new=is_new)
            else:
                line = agreed([*lines, by_order] if by_order and by_order.line is not None else lines)
                line = line or (None if contested else self._among(lines, kind, matches[wait]))
            yield from ((stall, line) for stall in own)

    def _candidates_of(self, kind: WaitKind, stalls: list[int]) -> Candidates:
        """Return the candidates for the stalls of one op; in an op of torch, those of one stall hold for all.

        A line at which only waits of other kinds were recorded is left out, unless no other candidate is left.
        """
        lines_known = [lines for stall in stalls if (lines := self._candidates[stall]) is not None]
        if not lines_known or (len(lines_known) < len(stalls) and not kind.op.startswith("aten::")):
            return None
        candidates = list(chain.from_iterable(lines_known))
        possible = self._watched.places(self._watched.possible(kind))
        return [line for line in candidates if line.place in possible] or candidates

    def _among(self, candidates: list[SourceLine], kind: WaitKind, match: ContextMatch) -> SourceLine | None:
        """Return the line of a wait with several candidates, if its context identifies one of them."""
        if match.line is None or match.line.place not in {line.place for line in candidates}:
            return None
        is_certain = match.is_apart or (match.is_whole and not self._watched.is_contested(match.line, kind))
        return match.line if is_certain else None

    def _by_context(
        self, kind: WaitKind, match: ContextMatch, alike: int, by_order: SourceLine | None, *, is_new: bool
    ) -> SourceLine | None:
        """Return the line of a wait in a step unlike the watched ones, in which `alike` waits have its context."""
        watched, has_rivals = self._watched, bool(self._watched.rivals(kind))
        if match.line:
            if not has_rivals and match.is_apart:
                return match.line
            is_certain = (not has_rivals and not is_new) or (match.is_whole and alike <= match.most)
            return match.line if is_certain and not watched.is_contested(match.line, kind) else None
        if has_rivals:
            return watched.only_line(kind)
        if by_order and by_order in match.one_sided:
            return None if watched.is_contested(by_order, kind) else by_order
        only = agreed(self._contexts.lines.get(kind, ()))
        return only if only in match.one_sided or watched.are_enough else None


def _fits(match: ContextMatch, candidates: Candidates) -> bool:
    """Return whether the line by context is one of the candidates by order; True if line or candidates are unknown."""
    if match.line is None or match.line.line is None or candidates is None:  # a match may know the function alone
        return True
    return match.line.place in {line.place for line in candidates}


def _without_irregular_work(trace: Trace) -> DebugModeWaits | None:
    """Return the watched waits, without those that came only with irregular work which no recorded step has."""
    watched, run = trace.info.watched, trace.run
    if watched is None or run is None:
        return watched
    recorded = set().union(*run.noted_in(RECORDED))
    unlike = [kinds & WORK_APART - recorded for kinds in run.noted_in(WATCH_WINDOW)]
    if len(unlike) != watched.steps:
        return watched
    unlike.append(set())  # the step in which the run ended: not all of its work is known
    return watched.without(
        [number for number, wait in enumerate(watched.waits) if set.intersection(*(unlike[step] for step in wait.at))]
    )
