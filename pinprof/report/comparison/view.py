"""What a comparison of two traces shows, in the order in which it is read."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from pinprof.comparison import Comparison, FindingChange, WaitChange
from pinprof.comparison.changes import SAME, CopyChange
from pinprof.report.comparison.words import (
    AFTER,
    ARROW,
    BEFORE,
    amount,
    change_of,
    changed,
    difference,
    has_several_gpus,
    how_sure,
    label,
    meaning,
    noise,
    not_compared,
    outcome,
    pair,
    repinning,
    saving,
    step_of,
    telling,
    where,
)
from pinprof.report.elements import Column, number_columns
from pinprof.report.sites import cause_of
from pinprof.report.trace.step import bound
from pinprof.report.view import Cell, Fact, Section, Styled, Table
from pinprof.report.words import MAX_CELL, NOTHING, consequence, cut, doubts, steps
from pinprof.units import counted

MAX_ROWS = 12
"""More waits or findings than this are counted in a terminal, not listed."""
Row = Sequence[Cell]
Change = TypeVar("Change", CopyChange, WaitChange, FindingChange)


def summary(comparison: Comparison) -> Iterator[Section]:
    """Yield the steps, what to know before one trusts them, all figures, and the findings."""
    sides = ((BEFORE, comparison.before), (AFTER, comparison.after))
    yield Section("Step", facts=list(_steps(comparison)), notes=list(how_sure(comparison)))
    known = [f"{side}: {entry.what}: {consequence(entry)}." for side, profile in sides for entry in doubts(profile)]
    if known:
        yield Section("Before you trust these traces", notes=known)
    yield _figures(comparison)
    if comparison.findings or not comparison.findings_reason:
        yield _findings(comparison)


def events(comparison: Comparison) -> Iterator[Section]:
    """Yield the waits and copies."""
    if comparison.waits:
        yield _waits(comparison)
    if comparison.copies:
        yield _copies(comparison)


def _steps(comparison: Comparison) -> Iterator[Fact]:
    for side, profile in ((BEFORE, comparison.before), (AFTER, comparison.after)):
        (number, how), limit = step_of(profile), bound(profile)
        yield Fact(f"step {side}", number, "; ".join([how, steps(profile), *([limit.meaning] if limit else [])]))


def _figures(comparison: Comparison) -> Section:
    several = has_several_gpus(comparison)
    columns = [Column("figure"), *number_columns(BEFORE, AFTER, "difference", "noise"), Column("meaning")]
    rows = [
        (
            label(figure, several_gpus=several),
            amount(figure.unit, figure.before.value),
            amount(figure.unit, figure.after.value),
            difference(figure),
            noise(figure),
            _coloured(meaning(figure), outcome(figure)),
        )
        for figure in telling(comparison)
    ]
    caption = "Overlapped copy time in the whole trace. Noise: spread over steps"
    reasons = [f"not compared: {', '.join(names)} ({reason})" for reason, names in not_compared(comparison).items()]
    return Section(f"Figures, {comparison.per}", tables=[Table(caption, columns, rows, is_named=False)], notes=reasons)


def _coloured(text: str, style: str) -> Cell:
    return Styled(text, style) if style else text


def _changed(change: CopyChange | WaitChange | FindingChange) -> Cell:
    return _coloured(changed(change), change_of(change)[1])


def _findings(comparison: Comparison) -> Section:
    columns = [Column("change"), Column("finding"), Column("where"), *number_columns("fixing it saves")]
    caption = "The same rule in the same function is the same finding; each saving is that of fixing it alone"

    def row(change: FindingChange) -> Row:
        finding = change.findings[0]
        return _changed(change), f"{finding.rule.id} {finding.title}", where(change), saving(change)

    notes = [] if comparison.findings else ["none in either trace"]
    return _with_rest("Findings", caption, columns, comparison.findings, row, "finding", notes)


def _waits(comparison: Comparison) -> Section:
    columns = [Column("change"), Column("cause"), Column("where"), Column("op or call")]
    columns += number_columns("count", "stall", "GPU idle after")
    caption = "GPU idle after: from the end of the wait to its next work"

    def row(change: WaitChange) -> Row:
        causes = dict.fromkeys(cause_of(site) for site in (*change.before[:1], *change.after[:1]))
        site = change.sites[0]
        return (
            _changed(change),
            f" {ARROW} ".join(causes),
            cut(where(change), MAX_CELL),
            Styled(cut(site.op or site.call, MAX_CELL), "code"),
            *map(pair, (change.count, change.stall, change.bubble)),
        )

    title = f"Waits of the host, {comparison.per}"
    return _with_rest(title, caption, columns, comparison.waits, row, "wait")


def _copies(comparison: Comparison) -> Section:
    columns = [Column("change"), Column("copy"), Column("host memory")]
    columns += number_columns("count", "bytes", "time", "exposed", "rate")
    rows = [
        (
            _changed(change),
            change.direction,
            NOTHING if change.host_memory == "none" else change.host_memory,
            *map(pair, (change.count, change.bytes, change.time, change.exposed, change.rate)),
        )
        for change in comparison.copies
    ]
    notes = [repinning(change, comparison.per) for change in comparison.repinned]
    table = Table("Each direction and host memory", columns, rows, is_named=False)
    return Section(f"Copies, {comparison.per}", tables=[table], notes=notes)


def _with_rest(
    title: str,
    caption: str,
    columns: Sequence[Column],
    changes: Sequence[Change],
    row: Callable[[Change], Row],
    one: str,
    notes: Sequence[str] = (),
) -> Section:
    """Return a section of which a terminal lists what changed, and counts the rest."""
    differing = [change for change in changes if change.status != SAME]
    same, more = len(changes) - len(differing), len(differing) - MAX_ROWS
    rest = [f"and {more} more, all in the JSON and on the page"] if more > 0 else []
    rest += [f"{counted(same, one)} as before, within noise"] if same else []
    table = Table(caption, columns, list(map(row, changes)), list(map(row, differing[:MAX_ROWS])), is_named=False)
    return Section(title, tables=[table], notes=notes, left_out=rest)
