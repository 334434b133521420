"""Matches the waits of a trace with recorded and watched lines, where only one line fits."""

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import TypeAlias

import numpy as np

from pinprof.analyses.syncs.lines.recorded import Around, WaitKind, agreed, kinds_of_calls, waits_of
from pinprof.analyses.syncs.lines.watched import WatchedWaits, candidate_lines
from pinprof.analyses.syncs.stalls import Stalls
from pinprof.trace.lines import Contexts, SourceLine
from pinprof.trace.tables import Trace

Lines: TypeAlias = list[SourceLine | None]
"""Per stall."""

NEAR_OPS = 6
"""Ops on each side of a near context. It suffices if all recorded waits after the same ops, or before them, have one
line."""


def lines_of_waits(trace: Trace, stalls: Stalls) -> Lines:
    """Return per stall the source line that was recorded or watched for it, None where none is certain.

    The order of the waits in the watched steps decides, as long as no context contradicts it; where it decides nothing
    the context does, unless watching saw another line that may run the same op. Lines that were recorded without
    contexts go by the order of the waits in a step with as many.
    """
    kinds = kinds_of_calls(trace, stalls.call)
    by_step: dict[tuple[WaitKind, int], list[int]] = defaultdict(list)
    for stall in np.flatnonzero(~stalls.profiler).tolist():
        by_step[kinds[stall], int(stalls.call_step[stall])].append(stall)
    result: Lines = [None] * len(kinds)
    if trace.info.contexts is None:
        in_order = {(WaitKind(lines.op, lines.thread), len(lines.at)): lines.at for lines in trace.info.lines}
        for (kind, _), rows in by_step.items():
            for stall, line in zip(rows, in_order.get((kind, len(rows)), ()), strict=False):
                result[stall] = line
        return result
    contexts, waits = RecordedContexts(trace.info.contexts), waits_of(trace, stalls, trace.info.contexts.names)
    watched = WatchedWaits(contexts.lines, trace.info.watched)
    candidates = candidate_lines(trace, stalls, kinds, watched)
    for (kind, _), rows in by_step.items():
        stalls_of: dict[int, list[int]] = defaultdict(list)
        for stall in rows:
            stalls_of[int(waits.wait[stall])].append(stall)
        by_context = {wait: contexts.match(kind, waits.around[wait]) for wait in stalls_of}
        by_order: dict[int, Lines] = {
            wait: list(chain.from_iterable(candidates[stall] or () for stall in own)) for wait, own in stalls_of.items()
        }
        if not all(_fits(by_context[wait], by_order[wait]) for wait in stalls_of):
            continue
        has_rival = watched.has_rival(kind)
        for wait, own in stalls_of.items():
            line = agreed(by_order[wait]) or (None if has_rival else by_context[wait])
            for stall in own:
                result[stall] = line
    return result


def _fits(line: SourceLine | None, candidates: Lines) -> bool:
    """Return whether the line by context is one of the candidates by order; True if line or candidates are unknown."""
    if line is None or line.line is None or not candidates:  # a context may know the function alone
        return True
    return line.place in {candidate.place for candidate in candidates if candidate}


class RecordedContexts:
    """Looks up waits among the contexts of the recorded lines."""

    def __init__(self, contexts: Contexts) -> None:
        recorded = (*contexts.lines, None)  # the last for waits without a line
        self.lines: dict[WaitKind, Lines] = defaultdict(list)
        """The lines of all recorded waits by kind, None for waits without a line."""
        found: dict[tuple[object, ...], Lines] = defaultdict(list)
        for wait in contexts.waits:
            kind = WaitKind(wait.op, wait.thread)
            self.lines[kind].append(recorded[wait.line])
            for key in _keys(kind, (wait.before, wait.after)):
                found[key].append(recorded[wait.line])
        self._found = {key: agreed(lines) for key, lines in found.items()}
        self.match = cache(self._match)

    def _match(self, kind: WaitKind, around: Around) -> SourceLine | None:
        """Return the line of all recorded waits with this context, or else with the ops near the wait."""
        whole, near, *sides = _keys(kind, around)
        if whole in self._found:
            return self._found[whole]
        is_certain = agreed(self._found[side] for side in sides if side in self._found) is not None
        return self._found.get(near) if is_certain else None


def _keys(kind: WaitKind, around: Around) -> Iterator[tuple[object, ...]]:
    """Yield the keys of the whole context, of the near one, and of the near ops on each side."""
    near_before, near_after = (side[:NEAR_OPS] for side in around)
    yield "whole", kind, around
    yield "near", kind, near_before, near_after
    yield "before", kind, near_before
    yield "after", kind, near_after
