"""A comparison of two traces for the terminal, in full."""

from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.text import Text

from pinprof.comparison import Comparison
from pinprof.comparison.changes import SAME
from pinprof.report.comparison.words import (
    AFTER,
    ARROW,
    BEFORE,
    amount,
    changed,
    difference,
    has_several_gpus,
    how_sure,
    label,
    meaning,
    noise,
    not_compared,
    pair,
    repinning,
    saving,
    step_of,
    telling,
    verdict,
    where,
)
from pinprof.report.layout import bullet, fact, laid_out, section, table, unbroken
from pinprof.report.sites import cause_of
from pinprof.report.trace.step import bound
from pinprof.report.words import MAX_CELL, NOTHING, cut, doubts, steps
from pinprof.units import counted

MAX_ROWS = 12
"""More waits or findings than this are counted, not listed."""


def to_text(comparison: Comparison, *, width: int = 100, color: bool = False) -> str:
    """Return the full comparison as text for a terminal of this width, with ANSI colours if asked for."""
    return laid_out(_parts(comparison), width=width, color=color)


def _parts(comparison: Comparison) -> Iterator[RenderableType]:
    yield unbroken(f"{comparison.before.path} {ARROW} {comparison.after.path}", "bold")
    yield Text(f"{verdict(comparison)}.")
    yield from _step(comparison)
    yield from _doubts(comparison)
    yield from _figures(comparison)
    if comparison.copies:
        yield from _copies(comparison)
    if comparison.waits:
        yield from _waits(comparison)
    yield from _findings(comparison)


def _step(comparison: Comparison) -> Iterator[RenderableType]:
    yield section("Step")
    for side, profile in ((BEFORE, comparison.before), (AFTER, comparison.after)):
        number, how = step_of(profile)
        yield fact(number, f"{side}, {how}; {steps(profile)}")
    for side, profile in ((BEFORE, comparison.before), (AFTER, comparison.after)):
        limit = bound(profile)
        if limit:
            yield fact(limit.number, f"{side}: {limit.meaning}")
    yield from map(bullet, how_sure(comparison))


def _doubts(comparison: Comparison) -> Iterator[RenderableType]:
    entries = [
        f"{side}: {entry.what}: {entry.effect}; {entry.remedy}"
        for side, profile in ((BEFORE, comparison.before), (AFTER, comparison.after))
        for entry in doubts(profile)
    ]
    if entries:
        yield section("Before you trust these traces")
        yield from map(bullet, entries)


def _figures(comparison: Comparison) -> Iterator[RenderableType]:
    figures, several = telling(comparison), has_several_gpus(comparison)
    yield section(f"Figures, {comparison.per}")
    if figures:
        rows = table("", BEFORE, AFTER, "difference", "noise", "", text_columns=1)
        for figure in figures:
            rows.add_row(
                label(figure, several_gpus=several),
                amount(figure.unit, figure.before.value),
                amount(figure.unit, figure.after.value),
                difference(figure),
                noise(figure),
                meaning(figure),
            )
        yield rows
    for reason, names in not_compared(comparison).items():
        yield bullet(f"not compared: {', '.join(names)} ({reason})")


def _copies(comparison: Comparison) -> Iterable[RenderableType]:
    yield section(f"Copies, {comparison.per}")
    rows = table("", "copy", "host memory", "count", "bytes", "time", "exposed", "rate", text_columns=3)
    for change in comparison.copies:
        memory = NOTHING if change.host_memory == "none" else change.host_memory
        figures = (change.count, change.bytes, change.time, change.exposed, change.rate)
        rows.add_row(changed(change), change.direction, memory, *map(pair, figures))
    yield rows
    yield from (bullet(repinning(change, comparison.per)) for change in comparison.repinned)


def _waits(comparison: Comparison) -> Iterable[RenderableType]:
    yield section(f"Waits of the host, {comparison.per}")
    listed = [change for change in comparison.waits if change.status != SAME]
    rows = table("", "wait", "in", "op or call", "count", "host waits", "GPU idle after", text_columns=4)
    for change in listed[:MAX_ROWS]:
        site = change.sites[0]
        rows.add_row(
            changed(change),
            cause_of(site),
            cut(where(change), MAX_CELL),
            cut(site.op or site.call, MAX_CELL),
            *map(pair, (change.count, change.stall, change.bubble)),
        )
    if listed:
        yield rows
    yield from _rest(len(listed), len(comparison.waits) - len(listed), "wait")


def _findings(comparison: Comparison) -> Iterable[RenderableType]:
    if comparison.findings_reason:
        return
    yield section("Findings")
    listed = [change for change in comparison.findings if change.status != SAME]
    if not comparison.findings:
        yield bullet("none in either trace")
    rows = table("", "finding", "in", "fixing it saves", text_columns=3)
    for change in listed[:MAX_ROWS]:
        rule = change.findings[0].rule
        rows.add_row(changed(change), f"{rule.id} {change.findings[0].title}", where(change), saving(change))
    if listed:
        yield rows
    yield from _rest(len(listed), len(comparison.findings) - len(listed), "finding")


def _rest(listed: int, same: int, one: str) -> Iterator[RenderableType]:
    if listed > MAX_ROWS:
        yield bullet(f"and {listed - MAX_ROWS} more, all in the JSON and on the page")
    if same:
        yield bullet(f"{counted(same, one)} as before, within noise")
