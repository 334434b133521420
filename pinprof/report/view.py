"""What a report shows, chosen once: sections of sentences, facts, tables and notes, rendered as text and as a page."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from rich.console import RenderableType
from rich.text import Text

from pinprof.report import elements, layout
from pinprof.report.elements import Column, Markup
from pinprof.report.words import begun, printable

STYLES: Mapping[str, str] = {
    "better": "green",
    "worse": "red",
    "confirmed": "green",
    "refuted": "red",
    "depends": "yellow",
    "unknown": "dim",
    "unjudged": "dim",
    "problem": "bold red",
    "dim": "dim",
}
"""How a terminal shows a style, of those that it shows. A page has a class for each but `code`."""
STRONG = frozenset(("confirmed", "refuted", "depends", "unknown", "unjudged", "problem"))
"""Styles that are bold on a page."""


class Styled(NamedTuple):
    """A text that looks unlike others: `code`, or one of STYLES."""

    text: str
    style: str


Cell: TypeAlias = "str | Styled"
Sentence: TypeAlias = "Cell | tuple[Cell, ...]"
"""A sentence, of which parts may look unlike others."""


class Fact(NamedTuple):
    """A number, what it is called, and what it means."""

    name: str
    number: str
    meaning: str


@dataclass(frozen=True)
class Table:
    """Rows of cells; the first columns are texts, those after them numbers."""

    caption: str
    """Only a page has room for it."""
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    listed: Sequence[Sequence[Cell]] | None = None
    """The rows for which a terminal has room; None for all."""
    is_named: bool = True
    """Whether a terminal has a title above the first column; its words may say by themselves what they are."""


@dataclass(frozen=True)
class Section:
    """A part of a report; what is empty is not shown."""

    title: str
    sentences: Sequence[Sentence] = ()
    facts: Sequence[Fact] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[Sentence] = ()
    left_out: Sequence[str] = ()
    """What to say in a terminal of the rows that are not listed there."""
    name: str = ""
    """To what links on the page lead."""


def in_terminal(section: Section) -> Iterator[RenderableType]:
    """Yield a section as a terminal shows it."""
    yield layout.section(section.title)
    yield from map(_text, section.sentences)
    for name, number, meaning in section.facts:
        yield layout.fact(number, f"{name if name[1:2].isupper() else name[:1].lower() + name[1:]}: {meaning}")
    for table in section.tables:
        rows = table.rows if table.listed is None else table.listed
        if rows:
            yield _grid(table.columns, rows, is_named=table.is_named)
    for note in (*section.notes, *section.left_out):
        yield layout.hanging(Text("  - "), _text(note))


def _grid(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, is_named: bool) -> RenderableType:
    texts = next((place for place, column in enumerate(columns) if column.is_number), len(columns))
    first, *others = (printable(column.title) for column in columns)
    grid = layout.table(first if is_named else "", *others, text_columns=texts)
    for row in rows:
        grid.add_row(*(cell if isinstance(cell, str) else cell.text for cell in row))
    return grid


def _text(sentence: Sentence) -> Text:
    pieces = (sentence,) if isinstance(sentence, str | Styled) else sentence
    return Text.assemble(
        *(
            printable(piece) if isinstance(piece, str) else (printable(piece.text), STYLES.get(piece.style, ""))
            for piece in pieces
        )
    )


def on_page(section: Section, drawn: Markup | str = "") -> Markup:
    """Return a section as a piece of a page; what is `drawn` stands between its sentences and its tables."""
    title = Markup(' id="{}"').format(section.name) if section.name else ""
    return elements.lines(
        (
            Markup("<h3{}>{}</h3>").format(title, section.title),
            *(Markup('<p class="note">{}</p>').format(marked_up(sentence)) for sentence in section.sentences),
            elements.facts(section.facts) if section.facts else "",
            drawn,
            *(_page_table(table) for table in section.tables if table.rows),
            elements.remarks("", map(marked_up, map(_begun, section.notes))),
        )
    )


def _page_table(table: Table) -> Markup:
    return elements.table(table.caption, table.columns, [[marked_up(cell) for cell in row] for row in table.rows])


def _begun(sentence: Sentence) -> Sentence:
    return begun(sentence) if isinstance(sentence, str) else sentence


def marked_up(sentence: Sentence) -> Markup:
    """Return a sentence or a cell as HTML."""
    if isinstance(sentence, str):
        return elements.unbroken(sentence)
    if not isinstance(sentence, Styled):
        return Markup().join(map(marked_up, sentence))
    if sentence.style == "code":
        return Markup("<code>{}</code>").format(sentence.text)
    tag = Markup("strong") if sentence.style in STRONG else Markup("span")
    return Markup('<{0} class="{1}">{2}</{0}>').format(tag, sentence.style, elements.unbroken(sentence.text))
