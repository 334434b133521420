"""Pieces of a page as HTML. `Markup` escapes all plain text that is put into it."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import markupsafe

from pinprof.ground.hues import in_the_dark, ink
from pinprof.ground.units import percent, uncoded
from pinprof.report.words import printable

UNIT_SPACE = re.compile(r"(?<=\d) (?=(?:%|[nµm]?s\b|[KMGT]i?B(?:/s)?\b|B\b))")
BACKTICKED = re.compile(r"`([^`]+)`")
LABEL_PERCENT_PER_CHAR = 0.65
"""The width of a character, in percent of the narrowest page with labels in bars; a part without room has no label."""
MAX_COLUMNS_ON_PHONE = 3


class Markup(markupsafe.Markup):
    """HTML. Plain texts that are formatted, joined or added into it are escaped, their control characters replaced.

    Only literals are turned into it; ruff's S704 checks that.
    """

    __slots__ = ()

    @classmethod
    def escape(cls, s: Any, /) -> "Markup":
        """Return HTML as it is, and all else as HTML that shows it, as `printable`."""
        return super().escape(s if hasattr(s, "__html__") else printable(str(s)))


class Column(NamedTuple):
    """A column of a table."""

    title: str
    is_number: bool = False


class HtmlBarPart(NamedTuple):
    """A part of a whole, for a bar."""

    label: str
    value: float
    text: str
    colour: str


def inline_html(text: str) -> Markup:
    """Return a text as HTML: no line ends between a number and its unit, and backticks mark code; HTML is unchanged."""
    if isinstance(text, Markup):
        return text
    pieces = (Markup("\N{NO-BREAK SPACE}").join(UNIT_SPACE.split(piece)) for piece in BACKTICKED.split(printable(text)))
    return Markup().join(
        Markup("<code>{}</code>").format(piece) if number % 2 else piece for number, piece in enumerate(pieces)
    )


def lines(pieces: Iterable[str]) -> Markup:
    """Return pieces below each other; empty ones are left out."""
    return Markup("\n").join(filter(None, pieces))


def bold(text: str) -> Markup:
    """Return a text in bold."""
    return Markup("<b>{}</b>").format(inline_html(text))


def note(text: str) -> Markup:
    """Return a paragraph in small print."""
    return Markup('<p class="note">{}</p>').format(inline_html(text))


def remarks(sentences: Iterable[str]) -> Markup:
    """Return a list of sentences; empty without any."""
    items = Markup().join(map(Markup("<li>{}</li>").format, map(inline_html, sentences)))
    return Markup('<ul class="missing">{}</ul>').format(items) if items else Markup()


def number_columns(*titles: str) -> list[Column]:
    """Return columns of numbers."""
    return [Column(title, is_number=True) for title in titles]


def table(caption: str, columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> Markup:
    """Return a table whose first column names the rows.

    A wide table scrolls by itself. On a phone the cells of a table with many columns stand below each other, each after
    the title of its column.
    """
    is_stacked = len(columns) > MAX_COLUMNS_ON_PHONE
    head = Markup().join(
        Markup('<th scope="col"{}>{}</th>').format(_number(column), column.title) for column in columns
    )
    body = lines(_row(columns, row, is_stacked=is_stacked) for row in rows)
    return Markup(
        '<div class="table{3}" role="region" aria-label="{0}" tabindex="0"><table>\n<caption>{4}</caption>\n'
        "<thead><tr>{1}</tr></thead>\n<tbody>\n{2}\n</tbody></table></div>"
    ).format(uncoded(caption), head, body, " stack" if is_stacked else "", inline_html(caption))


def _row(columns: Sequence[Column], row: Sequence[str], *, is_stacked: bool) -> Markup:
    name, *cells = row
    rest = (
        Markup("<td{}{}>{}</td>").format(
            _number(column), Markup(' data-label="{}"').format(column.title) if is_stacked else "", inline_html(cell)
        )
        for column, cell in zip(columns[1:], cells, strict=True)
    )
    return Markup('<tr><th scope="row">{}</th>{}</tr>').format(inline_html(name), Markup().join(rest))


def _number(column: Column) -> Markup:
    return Markup(' class="count"') if column.is_number else Markup()


def shares(caption: str, parts: Sequence[HtmlBarPart], longest: float = 0.0) -> Markup:
    """Return a bar with the parts of a whole, labels in them, and a legend for those without room.

    A single bar is as wide as the page; several are drawn in proportion to the `longest` whole.
    """
    total = sum(part.value for part in parts)
    width = 100 * min(total / longest, 1.0) if longest else 100.0
    shown = [(part, part.value / total) for part in parts if part.value > 0]
    piece = Markup('<span class="hue" style="flex:{:.6f};{}" title="{}: {}">{}</span>')
    label = Markup("<b>{}</b><i>{}, {}</i>")
    entry = Markup('<li{}><span class="swatch hue" style="{}"></span>{}: {} ({})</li>')
    bar, legend = [], []
    for part, share in shown:
        words = (inline_html(part.text), percent(share))
        is_inside = share * width >= LABEL_PERCENT_PER_CHAR * (max(len(part.label), len(", ".join(words))) + 2)
        inside = label.format(part.label, *words) if is_inside else ""
        style = hue(part.colour)
        light, dark = (
            ["var(--text)"] * 2 if part.colour.startswith("rgba") else map(ink, (part.colour, in_the_dark(part.colour)))
        )
        bar.append(piece.format(share, f"{style};--ink:{light};--dark-ink:{dark}", part.label, part.text, inside))
        legend.append(entry.format(Markup(' class="inside"') if is_inside else "", style, part.label, *words))
    head = Markup("<figcaption>{}</figcaption>").format(caption) if caption else ""
    return Markup(
        '<figure class="share">{}<div class="bar" aria-hidden="true" style="width:{:.2f}%">{}</div><ul>{}</ul></figure>'
    ).format(head, width, Markup().join(bar), Markup().join(legend))


def hue(colour: str, dark: str = "") -> str:
    """Return the style of an element of the class `hue`: its colour, which is another one on a dark page."""
    return f"--light:{colour};--dark:{dark or in_the_dark(colour)}"


def details(summary: str, items: Sequence[str]) -> Markup:
    """Return a list that opens on request."""
    listed = Markup().join(map(Markup("<li><code>{}</code></li>").format, items))
    return Markup("<details><summary>{}</summary><ol>{}</ol></details>").format(summary, listed)
