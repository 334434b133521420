"""A comparison of two traces for the terminal: in some fifteen lines, with both steps as bars, or in full."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from pinprof.analyses.parts import MeanStep
from pinprof.analyses.syncs import WAITS
from pinprof.comparison import Comparison
from pinprof.comparison.changes import GONE, NEW, SAME
from pinprof.measurement.division import busiest
from pinprof.measurement.profile import Profile
from pinprof.report.bar import drawn, legend
from pinprof.report.comparison.view import events, summary
from pinprof.report.comparison.words import AFTER, ARROW, BEFORE, change_of, how_sure, pair, saving, verdict, where
from pinprof.report.layout import hanging, laid_out, unbroken
from pinprof.report.trace.step import step_parts
from pinprof.report.view import in_terminal
from pinprof.report.words import MAX_CELL, NOTHING, begun, cut, doubts, printable

MOST = 4
"""Waits, copies and findings of which each is named so often."""
WIDEST = 80
INDENT = 2
BESIDE = 12
"""Columns beside a bar: what it is of."""


def to_text(comparison: Comparison, *, width: int = 100, color: bool = False) -> str:
    """Return the full comparison as text for a terminal of this width, with ANSI colours if asked for."""
    return laid_out(_whole(comparison), width=width, color=color)


def _whole(comparison: Comparison) -> Iterator[RenderableType]:
    yield unbroken(f"{comparison.before.path} {ARROW} {comparison.after.path}", "bold")
    yield Text(f"{verdict(comparison)}.")
    for section in (*summary(comparison), *events(comparison)):
        yield from in_terminal(section)


def to_brief(comparison: Comparison, *, width: int = 100, color: bool = False) -> str:
    """Return the short comparison as text for a terminal of this width, with ANSI colours if asked for."""
    return laid_out(_parts(comparison, width), width=width, color=color)


def _parts(comparison: Comparison, width: int) -> Iterator[RenderableType]:
    yield unbroken(f"{comparison.before.path} {ARROW} {comparison.after.path}", "dim")
    yield Text(f"{verdict(comparison)}.", "bold")
    yield from _bars(comparison, width)
    lines = [*_waits(comparison), *_copies(comparison), *_findings(comparison)]
    yield Text(
        "\nWhat changed" if lines else "\nNo wait, copy or finding changed beyond noise.", "bold" if lines else ""
    )
    for status, line in lines:
        yield hanging(Text(f"  {status:<8}", {GONE: "green", NEW: "red"}.get(status, "")), Text(printable(line)))
    yield from _notes(comparison)
    yield Text("\nAll figures, copies, waits and findings: pinprof compare --full.", "dim")


def _bars(comparison: Comparison, width: int) -> Iterator[RenderableType]:
    """Yield both steps as bars of one scale, each with its legend."""
    sides = [(BEFORE, comparison.before), (AFTER, comparison.after)]
    means = [(side, profile, mean) for side, profile in sides if (mean := busiest(profile)) and mean.length_ns]
    if len(means) < len(sides):
        return
    room = min(width - BESIDE - INDENT, WIDEST)
    longest = max(mean.length_ns for _, _, mean in means)
    yield Text("")
    for side, profile, mean in means:
        yield from _bar(side, profile, mean, round(mean.length_ns / longest * room), room)


def _bar(side: str, profile: Profile, mean: MeanStep, length: int, room: int) -> Iterator[RenderableType]:
    parts = step_parts(profile, mean)
    yield Text(f"  {side:<{BESIDE - INDENT}}{drawn(parts, max(length, len(parts)))}")
    for line in legend(parts, room):
        yield Padding(Text(line, "dim"), (0, 0, 0, BESIDE))


def _waits(comparison: Comparison) -> Iterator[tuple[str, str]]:
    changes = [change for change in comparison.waits if change.status != SAME]
    for change in changes[:MOST]:
        at = where(change)
        place = f" at {cut(at, MAX_CELL)}" if at != NOTHING else ""
        times = pair(change.stall if change.stall.has_changed or change.status in {GONE, NEW} else change.bubble)
        wait = WAITS[change.sites[0].cause].label
        yield change_of(change)[0], f"{wait}{place}: the host waits {times} {comparison.per}"
    yield from _rest(len(changes), "wait")


def _copies(comparison: Comparison) -> Iterator[tuple[str, str]]:
    changes = [change for change in comparison.copies if change.status != SAME]
    for change in changes[:MOST]:
        memory = "" if change.host_memory == "none" else f" {change.host_memory}"
        yield change_of(change)[0], f"copies {change.direction}{memory}: {pair(change.time)} {comparison.per}"
    yield from _rest(len(changes), "kind of copies", "kinds of copies")


def _findings(comparison: Comparison) -> Iterator[tuple[str, str]]:
    if comparison.findings_reason:
        return
    changes = [change for change in comparison.findings if change.status != SAME]
    for change in changes[:MOST]:
        finding, saved = change.findings[0], saving(change)
        worth = f"; fixing it saves {saved}" if saved != NOTHING else ""
        yield change_of(change)[0], f"finding: {finding.title} ({finding.rule.id}){worth}"
    yield from _rest(len(changes), "finding")


def _rest(count: int, one: str, several: str = "") -> Iterator[tuple[str, str]]:
    if count > MOST:
        left = count - MOST
        yield "", f"and {left} more {one if left == 1 else several or one + 's'}"


def notes(comparison: Comparison) -> Iterator[str]:
    """Yield how sure the comparison is, and what the traces lack, without the last full stop."""
    yield from (begun(note) for note in how_sure(comparison))
    for side, profile in ((BEFORE, comparison.before), (AFTER, comparison.after)):
        if found := [entry.what for entry in doubts(profile) if entry.check != "profiler_cost"]:
            yield f"the trace {side}: {'; '.join(found)}"


def _notes(comparison: Comparison) -> Iterator[RenderableType]:
    said = list(notes(comparison))
    if said:
        yield Text("")
    for note in said:
        yield hanging(Text("Note: ", "bold"), Text(printable(f"{note}.")))
