"""Pieces of a page as HTML; texts are plain and are escaped here, unless they are `Markup`."""

import html
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pinprof.report.words import printable
from pinprof.units import percent

BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:%|[nµm]?s\b|[KMGT]i?B\b|B\b))")


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


class Column(NamedTuple):
    """A column of a table."""

    title: str
    is_number: bool = False


class Share(NamedTuple):
    """A part of a whole, for a bar."""

    label: str
    value: float
    text: str
    colour: str


def escaped(text: str) -> Markup:
    """Return a text as HTML that shows it as it is, control characters replaced."""
    return text if isinstance(text, Markup) else Markup(html.escape(printable(text)))


def unbroken(text: str) -> Markup:
    """Return a text as HTML whose numbers keep their units at the ends of lines."""
    return Markup(BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", escaped(text)))


def table(caption: str, columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> Markup:
    """Return a table whose first column names the rows; wide ones scroll by themselves."""
    head = "".join(f'<th scope="col"{_number(column)}>{escaped(column.title)}</th>' for column in columns)
    body = "\n".join(_row(columns, row) for row in rows)
    return Markup(
        f'<div class="table" role="region" aria-label="{html.escape(caption)}" tabindex="0"><table>\n'
        f"<caption>{escaped(caption)}</caption>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def _row(columns: Sequence[Column], row: Sequence[str]) -> str:
    cells = [f'<th scope="row">{escaped(row[0])}</th>']
    cells += [f"<td{_number(column)}>{escaped(cell)}</td>" for column, cell in zip(columns[1:], row[1:], strict=True)]
    return f"<tr>{''.join(cells)}</tr>"


def _number(column: Column) -> str:
    return ' class="count"' if column.is_number else ""


def facts(rows: Iterable[tuple[str, str, str]]) -> Markup:
    """Return cards of (name, number, meaning); names begin with a capital there."""
    cards = "\n".join(
        f'<div><dt>{escaped(name[:1].upper() + name[1:])}</dt><dd><span class="number">{unbroken(number)}</span>'
        f'<br><span class="meaning">{unbroken(meaning)}</span></dd></div>'
        for name, number, meaning in rows
    )
    return Markup(f'<dl class="facts">\n{cards}\n</dl>')


def shares(caption: str, parts: Sequence[Share]) -> Markup:
    """Return a bar that shows the parts of a whole, with a legend that says them."""
    total = sum(part.value for part in parts)
    shown = [part for part in parts if part.value > 0]
    bar = "".join(f'<span style="flex:{part.value / total:.6f};background:{part.colour}"></span>' for part in shown)
    legend = "".join(
        f'<li><span class="swatch" style="background:{part.colour}"></span>{escaped(part.label)}: '
        f"{escaped(part.text)} ({percent(part.value / total)})</li>"
        for part in shown
    )
    return Markup(
        f'<figure class="share"><figcaption>{escaped(caption)}</figcaption>'
        f'<div class="bar" aria-hidden="true">{bar}</div><ul>{legend}</ul></figure>'
    )


def details(summary: str, items: Sequence[str]) -> Markup:
    """Return a list that opens on request."""
    listed = "".join(f"<li><code>{escaped(item)}</code></li>" for item in items)
    return Markup(f"<details><summary>{escaped(summary)}</summary><ol>{listed}</ol></details>")
