"""The sections of a comparison of two traces, in reading order; a brief shows the rows that changed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pinprof.analyses.syncs.causes import WAITS
from pinprof.comparison import Comparison, CopyChange, FindingChange, WaitChange
from pinprof.comparison.changes import ChangeStatus
from pinprof.ground.units import counted
from pinprof.report.comparison import words
from pinprof.report.findings.views import named
from pinprof.report.html import Column, number_columns
from pinprof.report.trace.sections.waits import cause_with_verdict
from pinprof.report.trace.step import bound_fact
from pinprof.report.view import Cell, Fact, ReportTable, Section, Styled
from pinprof.report.words import MAX_CELL, NOTHING, complete_steps, copies_named, cut, doubts, effect_and_remedy

MAX_LISTED_CHANGES = 12


class ChangeRow(NamedTuple):
    """A wait, a kind of copies or a finding: its row of a table, and its sentence in a brief."""

    status: ChangeStatus
    cells: Sequence[Cell]
    sentence: str


@dataclass(frozen=True)
class ChangeTable:
    """All waits, copies or findings."""

    title: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[ChangeRow]
    nouns: tuple[str, str]
    """What one row is, and what several are."""
    notes: Sequence[str] = ()

    @property
    def differing(self) -> list[ChangeRow]:
        """Those that changed beyond noise."""
        return [row for row in self.rows if row.status != "same"]

    @property
    def section(self) -> Section:
        """The section with all rows; a terminal lists those that changed, and counts the others."""
        rows, listed = [row.cells for row in self.rows], [row.cells for row in self.differing]
        same, more = len(rows) - len(listed), len(listed) - MAX_LISTED_CHANGES
        rest = [f"and {more} more, all in the JSON and on the page"] if more > 0 else []
        rest += [f"{counted(same, *self.nouns)} as before, within noise"] if same else []
        table = ReportTable(self.caption, self.columns, rows, listed[:MAX_LISTED_CHANGES], is_named=False)
        name = self.title.split()[0].strip(",").lower()
        return Section(self.title, tables=[table], notes=self.notes, left_out=rest, name=name)


def summary(comparison: Comparison) -> Iterator[Section]:
    """Yield the sections on the steps, doubts, figures and findings."""
    yield Section("Step", facts=list(_step_facts(comparison)), notes=list(words.notes_on_certainty(comparison)))
    notes = [
        f"{side}: {entry.what}: {effect_and_remedy(entry)}."
        for side, profile in comparison.sides
        for entry in doubts(profile)
    ]
    if notes:
        yield Section("Before you trust these traces", notes=notes, name="trust")
    yield _figures(comparison)
    if "findings" not in comparison.reasons:
        yield findings(comparison).section


def events(comparison: Comparison) -> Iterator[Section]:
    """Yield the waits and copies."""
    yield from (changes.section for changes in (waits(comparison), copies(comparison)) if changes.rows)


def _step_facts(comparison: Comparison) -> Iterator[Fact]:
    for side, profile in comparison.sides:
        (number, how), limit = words.step_of(profile), bound_fact(profile)
        yield Fact(
            f"step {side}",
            number,
            "; ".join([how, complete_steps(profile), *([f"bound by {limit.number}"] if limit else [])]),
        )


def _figures(comparison: Comparison) -> Section:
    columns = [Column("figure"), *number_columns("before", "after", "difference"), Column("meaning")]
    rows = [
        (
            label,
            words.amount(figure.unit, figure.before.value),
            words.amount(figure.unit, figure.after.value),
            words.difference(figure),
            _coloured(words.meaning(figure), words.outcome(figure)),
        )
        for label, figure in words.labels(comparison)
        if words.is_nonzero(figure)
    ]
    caption = "Overlapped copy time in the whole trace"
    reasons = [
        f"not compared: {', '.join(names)} ({reason})" for reason, names in words.not_compared(comparison).items()
    ]
    table = ReportTable(caption, columns, rows, is_named=False)
    return Section(f"Figures, {comparison.per}", tables=[table], notes=reasons, name="figures")


def _coloured(text: str, style: str) -> Cell:
    return Styled(text, style) if style else text


def _status(change: CopyChange | WaitChange | FindingChange) -> Cell:
    """Return how something changed, and whether that is better or worse unless the status implies it."""
    better_or_worse = words.outcome_of(change)
    is_said = not better_or_worse or change.status in {"gone", "new"}
    return _coloured(change.status if is_said else f"{change.status}, {better_or_worse}", better_or_worse)


def findings(comparison: Comparison) -> ChangeTable:
    """Return the findings."""
    return ChangeTable(
        "Findings",
        "The same rule in the same function is the same finding; each saving is that of fixing it alone",
        [Column("change"), Column("finding"), Column("where"), *number_columns("fixing it saves")],
        list(map(_finding_row, comparison.findings)),
        ("finding", "findings"),
        notes=[] if comparison.findings else ["none in either trace"],
    )


def _finding_row(change: FindingChange) -> ChangeRow:
    finding, saved = change.members[0], words.saving_of(change)
    worth = f"; fixing it saves {saved}" if saved != NOTHING else ""
    return ChangeRow(
        change.status,
        (_status(change), f"{finding.rule.id} {finding.title}", words.places_of(change), saved),
        f"finding: {named(finding)}{worth}",
    )


def waits(comparison: Comparison) -> ChangeTable:
    """Return the waits of the host."""
    columns = [Column("change"), Column("cause"), Column("where"), Column("op or call")]
    return ChangeTable(
        f"Waits of the host, {comparison.per}",
        "GPU idle after: from the end of the wait to its next work",
        [*columns, *number_columns("count", "stall", "GPU idle after")],
        [_wait_row(change, comparison.per) for change in comparison.waits],
        ("wait", "waits"),
    )


def _wait_row(change: WaitChange, per: str) -> ChangeRow:
    causes = dict.fromkeys(cause_with_verdict(site) for site in (*change.before[:1], *change.after[:1]))
    site, place = change.members[0], cut(words.places_of(change), MAX_CELL)
    at = f" at {place}" if place != NOTHING else ""
    shown = change.stall if change.stall.has_changed or change.status in {"gone", "new"} else change.bubble
    call = Styled(cut(site.op or site.call, MAX_CELL), "code")
    return ChangeRow(
        change.status,
        (_status(change), f" {words.ARROW} ".join(causes), place, call, *map(words.before_to_after, change.figures)),
        f"{WAITS[site.cause].label}{at}: the host waits {words.before_to_after(shown)} {per}",
    )


def copies(comparison: Comparison) -> ChangeTable:
    """Return the copies by direction and host memory."""
    return ChangeTable(
        f"Copies, {comparison.per}",
        "Each direction and host memory",
        [
            Column("change"),
            Column("copy"),
            Column("host memory"),
            *number_columns("count", "bytes", "time", "exposed", "rate"),
        ],
        [_copy_row(change, comparison.per) for change in comparison.copies],
        ("kind of copies", "kinds of copies"),
        notes=[words.repinned_sentence(change, comparison.per) for change in comparison.repinned],
    )


def _copy_row(change: CopyChange, per: str) -> ChangeRow:
    memory = NOTHING if change.host_memory == "none" else change.host_memory
    return ChangeRow(
        change.status,
        (_status(change), change.direction, memory, *map(words.before_to_after, change.figures)),
        f"copies {copies_named(change.direction, change.host_memory)}: {words.before_to_after(change.time)} {per}",
    )
