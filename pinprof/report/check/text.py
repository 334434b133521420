"""A check for the terminal: each limit with the measured figure, the places that cause it, and what to do."""

from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pinprof.check.judge import Checked, LimitVerdict
from pinprof.check.places import CodePlace
from pinprof.report.layout import laid_out, unwrapped
from pinprof.report.words import place, printable
from pinprof.rules import RULES
from pinprof.units import counted

MAX_PLACES = 10
"""The most places of one limit that are listed; the others are counted."""
STYLES = {"kept": "green", "tolerated": "yellow", "not compared": "yellow", "unknown": "bold yellow"}
"""Styles of verdicts; broken limits are red."""
INDENT = 14
WHY_INDENT = 4


def check_to_text(checked: Sequence[Checked], *, width: int = 100, color: bool = False) -> str:
    """Return the check of the traces as text for a terminal of this width, with ANSI colours if asked for."""
    return laid_out(_text(checked), width=width, color=color)


def _text(checked: Sequence[Checked]) -> Iterable[RenderableType]:
    yield _summary(checked)
    yield Text("")
    for trace in checked:
        yield from _trace(trace)
    yield from _what_to_do(checked)


def _trace(trace: Checked) -> Iterable[RenderableType]:
    yield unwrapped(trace.path, "bold")
    listed: set[tuple[CodePlace, ...]] = set()
    for verdict in trace.verdicts:
        yield from _verdict(verdict, repeated=verdict.places in listed)
        listed.add(verdict.places)
    yield Text("")


def _verdict(verdict: LimitVerdict, *, repeated: bool) -> Iterable[RenderableType]:
    style = "bold red" if verdict.broken else STYLES[verdict.status]
    line = Table.grid()
    line.add_column(width=INDENT)
    line.add_column()
    line.add_row(Text(verdict.status, style), Text.assemble(printable(verdict.sentence), (f" [{verdict.name}]", "dim")))
    yield line
    if not verdict.places:
        return
    if repeated:
        yield _inset("at the same places as above")
        return
    for at in verdict.places[:MAX_PLACES]:
        yield from _place_lines(at)
    if len(verdict.places) > MAX_PLACES:
        more = counted(len(verdict.places) - MAX_PLACES, "more place")
        yield _inset(f"and {more}; pinprof report TRACE --json has all")


def _place_lines(at: CodePlace) -> Iterable[RenderableType]:
    where = place(at.place) or "place unknown"
    yield _inset(f"{at.rule + ' ' if at.rule else ''}{where}")
    yield Padding(Text(printable(at.message)), (0, 0, 0, INDENT + WHY_INDENT))


def _what_to_do(checked: Sequence[Checked]) -> Iterable[RenderableType]:
    """Yield the fix of each rule of the listed places, once."""
    listed = [at.rule for trace in checked for verdict in trace.verdicts for at in verdict.places[:MAX_PLACES]]
    fixes = {rule.id: rule for rule in RULES}
    wanted = [identity for identity in dict.fromkeys(listed) if identity in fixes]
    if not wanted:
        return
    yield Text("What to do", "bold underline")
    for identity in wanted:
        yield Text(f"{identity} {fixes[identity].title}", "bold")
        yield Padding(Text(f"Fix: {fixes[identity].fix}"), (0, 0, 0, WHY_INDENT))
    yield Text("")


def _summary(checked: Sequence[Checked]) -> Text:
    verdicts = [verdict for trace in checked for verdict in trace.verdicts]
    broken = sum(verdict.broken for verdict in verdicts)
    unknown = sum(verdict.unknown for verdict in verdicts)
    if broken:
        more = f"; {unknown} could not be judged" if unknown else ""
        return Text(f"{broken} of {_checks(len(verdicts))} failed{more}.", "bold red")
    if unknown:
        return Text(f"{unknown} of {_checks(len(verdicts))} could not be judged, so this is not a pass.", "bold yellow")
    return Text(f"{_checks(len(verdicts))} passed.", "bold green")


def _checks(count: int) -> str:
    return counted(count, "check")


def _inset(text: str) -> Padding:
    return Padding(Text(printable(text)), (0, 0, 0, INDENT))
