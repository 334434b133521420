"""The tables of kernels and ops for the terminal."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from pinprof.measurement.known import Withheld
from pinprof.measurement.profile import Profile
from pinprof.report.layout import bullet, fact, section, table
from pinprof.report.trace.spent import (
    OP_COLUMNS,
    in_all,
    kernel_cells,
    kernel_columns,
    kernels_title,
    left_out,
    of_kind,
    op_cells,
    op_meanings,
    ops_title,
    shown_columns,
)
from pinprof.report.words import MAX_CELL, NOTHING, cut, why_not
from pinprof.units import counted

TOP = 5
"""Rows of a table, unless all are asked for."""

Rows = Sequence[tuple[str, ...]]


def kernels_section(profile: Profile, *, full: bool) -> Iterator[RenderableType]:
    """Yield the kernels by GPU time, those of collectives apart."""
    if isinstance(profile.kernels, Withheld):
        yield section(kernels_title(profile, communication=False))
        yield fact(NOTHING, f"the time of kernels: {why_not(profile.kernels.reason)}")
        return
    sums = profile.kernels.value
    for communication, what in ((False, "kernel"), (True, "collective")):
        rows = [kernel_cells(profile, sums, row) for row in of_kind(sums, communication=communication)]
        if rows:
            yield section(kernels_title(profile, communication=communication))
            yield from _table(kernel_columns(profile), rows, what, full=full)
    if full and (left := left_out(profile, sums, "kernel")):
        yield bullet(left)


def ops_section(profile: Profile, *, full: bool) -> Iterator[RenderableType]:
    """Yield the ops by host time."""
    if isinstance(profile.ops, Withheld):
        yield section(ops_title(profile))
        yield fact(NOTHING, f"the time of ops: {why_not(profile.ops.reason)}")
        return
    sums = profile.ops.value
    rows = [op_cells(profile, sums, row) for row in sums.rows]
    if rows:
        yield section(ops_title(profile))
        yield fact(*in_all(profile, sums))
        yield from _table(OP_COLUMNS[:-1], [row[:-1] for row in rows], "op", full=full)  # no room for their kernels
        yield from map(bullet, op_meanings(profile, rows))
    if full and (left := left_out(profile, sums, "op")):
        yield bullet(left)


def _table(titles: Sequence[str], rows: Rows, what: str, *, full: bool) -> Iterator[RenderableType]:
    columns, shown = shown_columns(titles, rows if full else rows[:TOP])
    made = table(*columns, text_columns=sum(title in titles[:2] for title in columns))
    for row in shown:
        made.add_row(*(cut(cell, MAX_CELL) for cell in row))
    yield made
    if left := len(rows) - len(shown):
        yield bullet(f"and {counted(left, f'more {what}')} by name: --full lists them")
