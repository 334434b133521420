"""How texts for the terminal are laid out: sections, facts with the number first, bullets and tables."""

import io
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from pinprof.report.words import printable

LEAST_TEXT = 16
"""Columns of a terminal that a longer text needs to be read."""


class _Screen(Console):
    """A console to which no text brings commands of its own, whoever made it: neither the terminal's nor rich's."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the pieces of a part, without control characters."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else "\n".join(map(printable, text.split("\n"))), style, control)


class _Rows(Table):
    """A table whose cells are plain texts of one line."""

    def add_row(self, *cells: RenderableType | None, **more: Any) -> None:
        """Add a row."""
        super().add_row(*(printable(cell) if isinstance(cell, str) else cell for cell in cells), **more)


def laid_out(parts: Iterable[RenderableType], *, width: int, color: bool) -> str:
    """Return the parts below each other as text for a terminal of this width, with ANSI colours if asked for."""
    out = io.StringIO()
    console = _Screen(
        file=out,
        width=width,
        force_terminal=color,
        force_jupyter=False,  # in a notebook rich would show the text instead of writing it
        no_color=not color,
        markup=False,  # a name in brackets is a name
        highlight=False,
        emoji=False,
    )
    for part in parts:
        console.print(_fitted(part, width) if isinstance(part, Table) else part)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def section(title: str) -> Text:
    """Return the heading of a section."""
    return Text(f"\n{title}", "bold underline")


def fact(number: str, meaning: str) -> Text:
    """Return a number and what it means."""
    return Text.assemble((f"{printable(number):>9}", "bold"), f"  {printable(meaning)}")


def bullet(text: str) -> Padding:
    """Return one sentence of a list."""
    return Padding(Text(f"- {printable(text)}"), (0, 0, 0, 2))


def table(*columns: str, text_columns: int = 2) -> Table:
    """Return an empty table of these columns, the first of them texts and the rest numbers."""
    made = _Rows(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for position, column in enumerate(columns):
        is_text = position < text_columns
        made.add_column(column, justify="left" if is_text else "right", overflow="fold", no_wrap=not is_text)
    return made


def _fitted(rows: Table, width: int) -> RenderableType:
    """Return a table whose numbers stay whole; where texts have no room beside them, its rows below each other."""
    if _needs(rows) > width:
        for column in filter(_is_number, rows.columns):
            column.header = "\n".join(wrap(str(column.header), _longest(column.cells), break_long_words=False))
    if _needs(rows) > width:
        return Group(*_one_below_the_other(rows, width))
    return rows


def _needs(rows: Table) -> int:
    """Return the columns of a terminal that a table needs."""
    longest = ((column, _longest((*str(column.header).split("\n"), *column.cells))) for column in rows.columns)
    least = [length if _is_number(column) else min(length, LEAST_TEXT) for column, length in longest]
    _, right, _, left = rows.padding
    return sum(least) + (right + 1 + left) * (len(least) - 1) + 2 * rows.show_edge


def _longest(texts: Iterable[object]) -> int:
    return max((cell_len(str(text)) for text in texts), default=1) or 1


def _is_number(column: Column) -> bool:
    return column.no_wrap


def _one_below_the_other(rows: Table, width: int) -> Iterator[RenderableType]:
    """Yield the rows of a table too wide for the terminal: the texts of each, and below them its numbers with names."""
    texts = [column for column in rows.columns if not _is_number(column)]
    numbers = [column for column in rows.columns if _is_number(column)]
    yield Text()
    for row in zip(*(column.cells for column in (*texts, *numbers)), strict=True):
        yield Padding(Text(_filled([str(cell) for cell in row[: len(texts)] if str(cell)], width - 1)), (0, 0, 0, 1))
        named = [
            f"{' '.join(str(column.header).split())} {cell}".strip()
            for column, cell in zip(numbers, row[len(texts) :], strict=True)
        ]
        yield Padding(Text(_filled(named, width - 3)), (0, 0, 0, 3))
    yield Text()


def _filled(pieces: Sequence[str], width: int) -> str:
    """Return pieces as lines of up to this width, each piece whole."""
    lines: list[str] = []
    for piece in pieces:
        longer = f"{lines[-1]}, {piece}" if lines else ""
        if longer and cell_len(longer) < width:
            lines[-1] = longer
        else:
            lines.append(piece)
    return ",\n".join(lines)
