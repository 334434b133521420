"""A comparison of two traces for the terminal: in some fifteen lines, with both steps as bars, or in full."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from pinprof.comparison import Comparison
from pinprof.ground.units import counted
from pinprof.measurement.profile import busiest
from pinprof.report.comparison.view import ChangeTable, copies, events, findings, summary, waits
from pinprof.report.comparison.words import ARROW, notes_on_certainty, verdict
from pinprof.report.terminal import hanging, laid_out, note, unwrapped
from pinprof.report.trace.step import bar_text, legend_lines, step_parts
from pinprof.report.view import in_terminal
from pinprof.report.words import capitalized, doubts, printable

MAX_BRIEF_CHANGES = 4
WIDEST_STEP_BAR = 80
BAR_INDENT = 2
BAR_LABEL_COLUMNS = 12


def comparison_to_text(comparison: Comparison, *, width: int = 100, color: bool = False) -> str:
    """Return the full comparison as text for a terminal of this width, with ANSI colours if asked for."""
    return laid_out(_full(comparison), width=width, color=color)


def _full(comparison: Comparison) -> Iterator[RenderableType]:
    yield unwrapped(f"{comparison.before.path} {ARROW} {comparison.after.path}", "bold")
    yield Text(f"{verdict(comparison)}.")
    for section in (*summary(comparison), *events(comparison)):
        yield from in_terminal(section)


def to_brief(comparison: Comparison, *, width: int = 100, color: bool = False) -> str:
    """Return the short comparison as text for a terminal of this width, with ANSI colours if asked for."""
    return laid_out(_brief(comparison, width), width=width, color=color)


def _brief(comparison: Comparison, width: int) -> Iterator[RenderableType]:
    yield unwrapped(f"{comparison.before.path} {ARROW} {comparison.after.path}", "dim")
    yield Text(f"{verdict(comparison)}.", "bold")
    yield from _bars(comparison, width)
    lines = [line for changes in (waits, copies, findings) for line in _change_lines(changes(comparison))]
    yield Text("\nWhat changed", "bold") if lines else Text("\nNo wait, copy or finding changed beyond noise.")
    yield from lines
    remarks = [note(f"{remark}.") for remark in notes(comparison)]
    yield from (Text(""), *remarks) if remarks else ()
    yield Text("\nAll figures, copies, waits and findings: pinprof compare --full.", "dim")


def _bars(comparison: Comparison, width: int) -> Iterator[RenderableType]:
    means = [
        (side, profile, mean) for side, profile in comparison.sides if (mean := busiest(profile)) and mean.length_ns
    ]
    if len(means) < len(comparison.sides):
        return
    room = min(width - BAR_LABEL_COLUMNS - BAR_INDENT, WIDEST_STEP_BAR)
    longest = max(mean.length_ns for _, _, mean in means)
    yield Text("")
    for side, profile, mean in means:
        parts, length = step_parts(profile, mean), round(mean.length_ns / longest * room)
        yield Text(f"  {side:<{BAR_LABEL_COLUMNS - BAR_INDENT}}{bar_text(parts, max(length, len(parts)))}")
        for line in legend_lines(parts, room):
            yield Padding(Text(line, "dim"), (0, 0, 0, BAR_LABEL_COLUMNS))


def _change_lines(changes: ChangeTable) -> Iterator[RenderableType]:
    for change in changes.differing[:MAX_BRIEF_CHANGES]:
        style = {"gone": "green", "new": "red"}.get(change.status, "")
        yield hanging(Text(f"  {change.status:<8}", style), Text(printable(change.sentence)))
    if (unlisted := len(changes.differing) - MAX_BRIEF_CHANGES) > 0:
        yield hanging(Text(" " * 10), Text(f"and {counted(unlisted, *(f'more {noun}' for noun in changes.nouns))}"))


def notes(comparison: Comparison) -> Iterator[str]:
    """Yield how sure the comparison is, and what the traces lack, without the last full stop."""
    yield from (capitalized(remark) for remark in notes_on_certainty(comparison))
    for side, profile in comparison.sides:
        if doubtful := [entry.what for entry in doubts(profile) if entry.check != "profiler_cost"]:
            yield f"the trace {side}: {'; '.join(doubtful)}"
