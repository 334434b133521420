"""The tables of kernels and ops of the page."""

from collections.abc import Iterator, Sequence

from pinprof.measurement.known import Withheld, given
from pinprof.measurement.profile import Profile
from pinprof.report.elements import Column, Markup, note, number_columns, table
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
from pinprof.report.words import begun, why_not
from pinprof.units import counted

TOP = 5
"""Rows of a table that stand open."""


def kernel_tables(profile: Profile, number: int) -> Iterator[Markup]:
    """Yield the costliest kernels by GPU time, those of collectives apart; the page's so many-th tables have all."""
    if isinstance(profile.kernels, Withheld) and profile.gpus:
        yield note(f"The table is {why_not(profile.kernels.reason)}.")
    sums = given(profile.kernels)
    if sums is None:
        return
    for communication, what in ((False, "kernel"), (True, "collective")):
        chosen = of_kind(sums, communication=communication)
        rows = [(_code(row.name), *kernel_cells(profile, sums, row)[1:]) for row in chosen]
        yield from _table(
            kernels_title(profile, communication=communication), kernel_columns(profile), rows, number, what
        )
    yield _left(left_out(profile, sums, "kernel"))


def op_tables(profile: Profile, number: int) -> Iterator[Markup]:
    """Yield the costliest ops by host time; the page's so many-th tables have all."""
    sums = given(profile.ops)
    if isinstance(profile.ops, Withheld) and profile.counts.get("cpu_op"):
        yield note(f"The table is {why_not(profile.ops.reason)}.")
    if not sums or not sums.rows:
        return
    rows = [op_cells(profile, sums, row) for row in sums.rows]
    meaning = ". ".join(map(begun, op_meanings(profile, rows)))
    caption = f"{ops_title(profile)}: {' '.join(in_all(profile, sums))}. {meaning}"
    yield from _table(caption, OP_COLUMNS, [(_code(name), *cells) for name, *cells in rows], number, "op")
    yield _left(left_out(profile, sums, "op"))


def _table(
    caption: str, titles: Sequence[str], rows: Sequence[tuple[str, ...]], number: int, what: str
) -> Iterator[Markup]:
    """Yield a table of the first rows, and what leads to all of them, which can be sorted and searched."""
    if not rows:
        return
    shown, cells = shown_columns(titles, rows)
    texts = [title for title in shown if title in titles[:2]]
    columns = [*map(Column, texts), *number_columns(*shown[len(texts) :])]
    yield table(caption, columns, cells[:TOP])
    if len(cells) > TOP:
        yield Markup('<p class="note"><a href="#tables-{}" data-tab="{}s">All {}, sorted and searched</a></p>').format(
            number, what, counted(len(cells), what)
        )


def _code(name: str) -> Markup:
    return Markup("<code>{}</code>").format(name)


def _left(sentence: str) -> Markup:
    return note(f"{sentence}.") if sentence else Markup()
