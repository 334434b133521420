"""The source line of each wait of a trace, where what pinprof recorded and watched leaves no other."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import chain

import numpy as np

from pinprof.analyses.syncs.contexts import Kind, Known, Match, Units, agreed, kinds_of, units_of
from pinprof.analyses.syncs.rivals import Rivals
from pinprof.analyses.syncs.seen import Seen, seen_lines
from pinprof.analyses.syncs.stalls import Stalls
from pinprof.trace.lines import RecordedLines, SourceLine
from pinprof.trace.run import CHECKPOINT, EVALUATION, RECORDED, WATCH
from pinprof.trace.tables import Trace
from pinprof.trace.watched import Watched

Lines = list[SourceLine | None]
Steps = dict[tuple[Kind, int], list[int]]
"""The stalls of each kind in each step, in order."""

APART = {EVALUATION, CHECKPOINT}
"""Work with waits of its own, which stand among the same ops as those of training: a copy of the batch, a read of the
loss."""


def recorded_lines(trace: Trace, stalls: Stalls) -> Lines:
    """Return per stall the source line that was recorded or watched for it, None where none is certain.

    Of lines recorded with the contexts of their waits, the context decides, unless watching saw another line where the
    same op may run. Then all steps that were watched with as many such waits must agree. Lines recorded without
    contexts are given by order alone.
    """
    kinds = kinds_of(trace, stalls)
    steps = _by_step(stalls, kinds)
    if trace.info.contexts is None:
        return _by_order(len(kinds), steps, trace.info.lines, or_the_only_one=True)
    ordered = _by_order(len(kinds), steps, trace.info.lines, or_the_only_one=False)
    known = Known(trace.info.contexts)
    units = units_of(trace, stalls, trace.info.contexts.names)
    rivals = Rivals(known, _that_may_be_recorded(trace))
    seen = seen_lines(trace, stalls, kinds, rivals)
    result: Lines = [None] * len(kinds)
    nothing = result.copy()
    whole = np.append(trace.steps.whole, values=False)  # the last one for no step
    for (kind, step), rows in steps.items():
        by_order = ordered if whole[step] else nothing
        for row, line in zip(rows, _of_step(kind, rows, units, known, rivals, seen, by_order), strict=True):
            result[row] = line
    return result


def _that_may_be_recorded(trace: Trace) -> Watched | None:
    """Return what was watched without what comes only with work that no recorded step has, as with an evaluation."""
    watched, run = trace.info.watched, trace.run
    if watched is None or run is None:
        return watched
    recorded = set().union(*run.noted_in(RECORDED))
    apart = [kinds & APART - recorded for kinds in run.noted_in(WATCH)]
    if len(apart) != watched.steps:
        return watched
    apart.append(set())  # the step in which the run ended: what was in it is not known to the end
    return watched.without(
        [number for number, wait in enumerate(watched.waits) if set.intersection(*(apart[step] for step in wait.at))]
    )


def _by_step(stalls: Stalls, kinds: list[Kind]) -> Steps:
    steps: Steps = defaultdict(list)
    for row, kind in enumerate(kinds):
        if not stalls.profiler[row]:
            steps[kind, int(stalls.call_step[row])].append(row)
    return steps


def _by_order(count: int, steps: Steps, recorded: Iterable[RecordedLines], *, or_the_only_one: bool) -> Lines:
    """Return the lines of steps that have as many waits of a kind as a recorded step: they are the same, in order.

    With another number of waits the line is certain only if all recorded lines are one.
    """
    result: Lines = [None] * count
    known: dict[Kind, dict[int, tuple[SourceLine | None, ...]]] = defaultdict(dict)
    for each in recorded:
        known[each.op, each.thread][len(each.at)] = each.at
    for (kind, _), rows in steps.items():
        by_number = known.get(kind, {})
        every = {line for at in by_number.values() for line in at}
        one = every.pop() if or_the_only_one and len(every) == 1 else None
        for row, line in zip(rows, by_number.get(len(rows), (one,) * len(rows)), strict=True):
            result[row] = line
    return result


def _of_step(
    kind: Kind, rows: list[int], units: Units, known: Known, rivals: Rivals, seen: list[Seen], ordered: Lines
) -> Lines:
    """Return the lines of a step's stalls of one kind."""
    members: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        members[int(units.unit[row])].append(row)
    alike = Counter(units.around[unit] for unit in members)
    lines: dict[int, SourceLine | None] = {}
    matches = {unit: known.match(kind, units.around[unit]) for unit in members}
    watched = {unit: _of_unit(kind, own, seen) for unit, own in members.items()}
    is_new = not all(_fits(matches[unit], lines_seen) for unit, lines_seen in watched.items())
    unrecorded = rivals.places(kind)
    contested = any(
        agreed(lines_seen) is None and any(line.place in unrecorded for line in lines_seen)
        for lines_seen in watched.values()
        if lines_seen is not None
    )
    for unit, own in members.items():
        by_order, match, lines_seen = agreed(ordered[row] for row in own), matches[unit], watched[unit]
        if lines_seen is None or is_new:  # if it is, a step as none that was watched
            line = _of_context(kind, match, alike[units.around[unit]], by_order, known, rivals, is_new=is_new)
        else:
            line = agreed([*lines_seen, by_order] if by_order and by_order.line is not None else lines_seen)
            line = line or (None if contested else _of_several(lines_seen, match, rivals, kind))
        lines |= dict.fromkeys(own, line)
    return [lines[row] for row in rows]


def _of_unit(kind: Kind, rows: list[int], seen: list[Seen]) -> Seen:
    """Return the lines that were seen for the stalls of one op; of an op of torch, one of them tells for all."""
    told = [lines for row in rows if (lines := seen[row]) is not None]
    if not told or (len(told) < len(rows) and not kind[0].startswith("aten::")):
        return None
    return list(chain.from_iterable(told))


def _fits(match: Match, seen: Seen) -> bool:
    """Return whether the context of a wait leaves one of the lines that were seen for it, if any were."""
    if match.line is None or match.line.line is None or seen is None:  # of a wait the function may be all that is known
        return True
    return match.line.place in {line.place for line in seen}


def _of_several(seen: list[SourceLine], match: Match, rivals: Rivals, kind: Kind) -> SourceLine | None:
    """Return the line of a wait for which several lines were seen, all of them recorded with their contexts."""
    if match.line is None or match.line.place not in {line.place for line in seen}:
        return None
    return match.line if match.is_apart or (match.is_whole and not rivals.beside(match.line, kind)) else None


def _of_context(
    kind: Kind,
    match: Match,
    alike: int,
    by_order: SourceLine | None,
    known: Known,
    rivals: Rivals,
    *,
    is_new: bool,
) -> SourceLine | None:
    """Return the line of a wait in a step unlike those that were watched."""
    others = rivals.of(kind)
    if match.line:
        if not others and match.is_apart:
            return match.line
        alone = (not others and not is_new) or (match.is_whole and alike <= match.most)
        return match.line if alone and not rivals.beside(match.line, kind) else None
    if others:
        return rivals.only(kind)
    if by_order and by_order in match.beside:
        return None if rivals.beside(by_order, kind) else by_order
    one = agreed(known.lines(kind))
    return one if one in match.beside or rivals.are_known else None
