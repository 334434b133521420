"""The layout of texts for the terminal: sections, facts with the number first, bullets and tables."""

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
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

MAX_WORD_CHARS = 60
"""Characters of the longest word that a wide terminal shows in full; see `shorten_words`."""
SHORT_WORD_CHARS = 24


WORDS = re.compile(r"\S+")
SPACE_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:%|[nµm]?s|[KMGT]?i?B|GB/s)(?!\w))")
"""The space between a number and its unit, at which no line ends."""
UNBROKEN_SPACE = "\N{BRAILLE PATTERN BLANK}"
"""Replaces that space while lines are broken, since rich breaks at all that Python calls a space."""
MIN_UNBROKEN_COLUMNS = 30
"""The narrowest text, in columns of the terminal, in which a number stays with its unit."""


class _Screen(Console):
    """A console that obeys no control characters in texts, and ends no line between a number and its unit."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the pieces of a part, without control characters."""
        if isinstance(renderable, Text) and (options or self.options).max_width >= MIN_UNBROKEN_COLUMNS:
            renderable = renderable.copy()
            renderable.plain = SPACE_BEFORE_UNIT.sub(UNBROKEN_SPACE, renderable.plain)
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else "\n".join(map(printable, text.split("\n"))), style, control)


class _Rows(Table):
    """A table whose cells are plain texts of one line."""

    def add_row(self, *cells: RenderableType | None, **more: Any) -> None:
        """Add a row."""
        super().add_row(*(shorten_words(printable(cell)) if isinstance(cell, str) else cell for cell in cells), **more)


def shorten_words(text: str, longest: int = MAX_WORD_CHARS) -> str:
    """Return a text with its long words shortened: a path keeps its end, a name both ends."""
    return WORDS.sub(lambda word: _kept(word[0], longest), text) if len(text) > longest else text


def _kept(word: str, longest: int) -> str:
    if len(word) <= longest:
        return word
    if "/" in word:
        return _end_of_path(word, longest)
    half = longest // 2
    return f"{word[:half]}…{word[half + 1 - longest :]}"


def _end_of_path(path: str, longest: int) -> str:
    """Return the last parts of a path that have room: at least its folder and file, with the line."""
    start = path.rfind("/", 0, path.rfind("/"))
    while (before := path.rfind("/", 0, max(start, 0))) >= 0 and len(path) - before < longest:
        start = before
    return f"…{path[start:]}" if start > 0 else path


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
        whole = isinstance(part, Text) and bool(part.no_wrap)
        shown = _fitted(part, width) if isinstance(part, _Rows) else part
        console.print(shown, no_wrap=whole or None, overflow="ignore" if whole else None, crop=not whole)
    return "\n".join(line.rstrip() for line in out.getvalue().replace(UNBROKEN_SPACE, " ").splitlines()) + "\n"


def unwrapped(text: str, style: str = "") -> Text:
    """Return a line that is never broken, such as one with a path that people copy."""
    return Text(printable(text), style, no_wrap=True, overflow="ignore")


def section(title: str) -> Text:
    """Return the heading of a section."""
    return Text(f"\n{title}", "bold underline")


def fact(number: str, meaning: str) -> RenderableType:
    """Return a number and what it means."""
    return hanging(Text(f"{printable(number):>9}  ", "bold"), Text(printable(meaning)))


def bullet(text: str) -> RenderableType:
    """Return one sentence of a list."""
    return hanging(Text("  - "), Text(printable(text)))


def note(text: Text | str) -> RenderableType:
    """Return a remark below a short report."""
    return hanging(Text("Note: ", "bold"), Text(printable(text)) if isinstance(text, str) else text)


def hanging(mark: Text, text: Text) -> Table:
    """Return a text after a `mark`; its further lines are indented to its first word."""
    row = Table.grid()
    row.add_column(no_wrap=True)
    row.add_column(overflow="fold")  # a word that is too long is code: all its letters are shown
    row.add_row(mark, text)
    return row


def table(*columns: str, text_columns: int = 2) -> Table:
    """Return an empty table of these columns, the first of them texts and the rest numbers."""
    rows = _Rows(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for position, column in enumerate(columns):
        is_text = position < text_columns
        rows.add_column(column, justify="left" if is_text else "right", overflow="fold", no_wrap=not is_text)
    return rows


def _fitted(rows: Table, width: int) -> RenderableType:
    """Return a table whose numbers and words stay whole, or its rows below each other if it is too wide."""
    if _needs(rows) > width:
        for column in filter(_is_number, rows.columns):
            column.header = "\n".join(wrap(str(column.header), _longest(column.cells), break_long_words=False))
    shown = rows if _needs(rows) <= width else _shortened(rows)
    if _needs(shown) > width:
        return Group(*_one_below_the_other(rows, width))
    _hold_words(shown, width)
    return shown


def _hold_words(rows: Table, width: int) -> None:
    """Set widths of the text columns at which no word is broken.

    The widest columns become narrower until all fit, as rich does it; but where one of them must hold a word that is
    wider than that, rich would cut the last columns off.
    """
    texts = [column for column in rows.columns if not _is_number(column)]
    sizes = [(_longest_word(column), _longest((column.header, *column.cells))) for column in texts]
    room = width - _needs(rows) + sum(least for least, _ in sizes)
    level = room
    while sum(min(whole, max(least, level)) for least, whole in sizes) > room:
        level -= 1
    for column, (least, whole) in zip(texts, sizes, strict=True):
        column.width = min(whole, max(least, level))


def _shortened(rows: Table) -> Table:
    short = copy(rows)
    short.columns = [
        column
        if _is_number(column)
        else replace(column, _cells=[shorten_words(str(cell), SHORT_WORD_CHARS) for cell in column.cells])
        for column in rows.columns
    ]
    return short


def _needs(rows: Table) -> int:
    least = [
        _longest((*str(column.header).split("\n"), *column.cells)) if _is_number(column) else _longest_word(column)
        for column in rows.columns
    ]
    _, right, _, left = rows.padding
    return sum(least) + (right + 1 + left) * (len(least) - 1) + 2 * rows.show_edge


def _longest_word(column: Column) -> int:
    return _longest(word for text in (column.header, *column.cells) for word in str(text).split())


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
    lines: list[str] = []
    for piece in pieces:
        longer = f"{lines[-1]}, {piece}" if lines else ""
        if longer and cell_len(longer) < width:
            lines[-1] = longer
        else:
            lines.append(piece)
    return ",\n".join(lines)
