"""No clock of the program may lose the wait on which it relies: asked of every change."""

from collections.abc import Iterable, Sequence

import libcst as cst

from pinprof.fix.core.clock_flow import Clock, ClockWalk
from pinprof.fix.core.facts import Work
from pinprof.fix.core.rewrite import Change, NotSafe, Refusal, Rewrite, Waits, walk
from pinprof.fix.core.source import SourceFile, is_seldom
from pinprof.trace.lines import Place


def waits_at(source: SourceFile, place: Place) -> Waits:
    """Return that a change takes away all waits of the calls in a line."""
    return Waits(source.file, tuple(source.calls(place.line or 0)))


def check_clocks(waits: Iterable[Waits], work: Work) -> None:
    """Raise Refusal where a clock would be read before the GPU has done its work, beside the changes made already.

    Nor may those rely on a wait that these take away.
    """
    new = [each for each in waits if each.gone]
    together = [*work.waits, *new]
    for each in together if new else ():
        clocks = _clocks(each, together, work)
        if clocks:
            raise NotSafe(_said(clocks[0], each.file))


def before_clocks(change: Change, work: Work) -> Change:
    """Return a change that reads before each clock what is read in the place of a wait. Raises Refusal."""
    waits, rewrites, part = change.waits, [*change.rewrites], change.part
    while waits.gone and (clocks := _clocks(waits, [*work.waits, waits], work)):
        clock = min(clocks, key=lambda each: each.source.line(each.node))  # those behind it may need no more
        line = _line_of(clock, waits)
        if waits.early is None or line is None or line in waits.read:
            raise NotSafe(_said(clock, waits.file))
        try:
            early, again = _read_early(clock.source, line, waits)
        except Refusal:
            raise NotSafe(_said(clock, waits.file)) from None
        waits, part = waits._replace(read=(*waits.read, line)), part or again
        rewrites.append(early)
    return change._replace(rewrites=rewrites, waits=waits, part=part)


def _read_early(source: SourceFile, line: cst.SimpleStatementLine, waits: Waits) -> tuple[Rewrite, bool]:
    """Return what reads before a line, and whether each pass of an outer loop does. Raises Refusal for each step."""
    assert waits.early is not None
    loop = source.loop(waits.gone[0])
    if loop is None or not is_seldom(source, line, loop):
        raise NotSafe("the clock is read in each step")
    outer = source.loop(loop)
    again = outer is not None and source.is_within(line, outer.body) and not is_seldom(source, line, outer)
    return waits.early(line), again


def _clocks(waits: Waits, together: Sequence[Waits], work: Work) -> list[Clock]:
    """Return the clocks that need the waits. Raises Refusal where the program is too large to see that."""
    program = work.files.program(waits.file)
    if not program.has_clock:
        return []
    removed = {id(node) for each in together for gone in each.gone for node in walk(gone)}
    try:
        return [*ClockWalk(program, waits, removed, work.facts.waiting).walked()]
    except RecursionError:
        raise NotSafe("the program calls its functions too deep to see which clocks need the wait") from None


def _line_of(clock: Clock, waits: Waits) -> cst.SimpleStatementLine | None:
    """Return the line of a clock; None in the head of a compound statement, or in another file."""
    if clock.source.file != waits.file:
        return None
    for each in clock.source.around(clock.node):
        if isinstance(each, cst.SimpleStatementLine):
            return each
        if isinstance(each, cst.BaseCompoundStatement):
            return None
    return None


def _said(clock: Clock, file: str) -> str:
    line = clock.source.line(clock.node)
    where = f"line {line}" if clock.source.file == file else f"{clock.source.file}:{line}"
    return f"{where} reads a clock, which needs the wait"
