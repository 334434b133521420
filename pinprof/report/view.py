"""What a report shows, chosen once: sections of sentences, facts, tables and notes, rendered as text and as a page."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from rich.console import RenderableType
from rich.text import Text

from pinprof.report import html, terminal
from pinprof.report.html import Column, Markup
from pinprof.report.source import Quoting
from pinprof.report.words import MAX_CELL, capitalized, cut, printable
from pinprof.trace.lines import Place

TERMINAL_STYLES: Mapping[str, str] = {
    "better": "green",
    "worse": "red",
    "confirmed": "green",
    "refuted": "red",
    "depends": "yellow",
    "unknown": "dim",
    "unjudged": "dim",
    "problem": "bold red",
    "dim": "dim",
    "strong": "",
}
"""The terminal's look of each style; a page has a class for each but `code`."""
BOLD_STYLES = frozenset(("strong", "confirmed", "refuted", "depends", "unknown", "unjudged", "problem"))


class Styled(NamedTuple):
    """A text with a style: `code`, or one of TERMINAL_STYLES."""

    text: str
    style: str


class CodeText(NamedTuple):
    """A text that names a place of the code, and the stack that led there, innermost first."""

    text: str
    place: Place
    stack: tuple[str, ...] = ()


Cell: TypeAlias = "str | Styled | CodeText"
Sentence: TypeAlias = "Cell | tuple[Cell, ...]"


class Fact(NamedTuple):
    """A number with its name and its meaning."""

    name: str
    number: str
    meaning: str
    is_named: bool = True
    """Whether its name is shown; some meanings need none."""


@dataclass(frozen=True)
class ReportTable:
    """Rows of cells; the first columns are texts, those after them numbers."""

    caption: str
    """Only a page has room for it."""
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    listed: Sequence[Sequence[Cell]] | None = None
    """The rows for which a terminal has room; None for all."""
    is_named: bool = True
    """Whether a terminal shows the title of the first column; some texts need none."""
    grid: str = ""
    """The name of the interactive table that replaces it on a page."""


@dataclass(frozen=True)
class Section:
    """A part of a report; what is empty is not shown."""

    title: str
    sentences: Sequence[Sentence] = ()
    facts: Sequence[Fact] = ()
    tables: Sequence[ReportTable] = ()
    notes: Sequence[Sentence] = ()
    left_out: Sequence[str] = ()
    """Remarks on the rows that a terminal does not list."""
    name: str = ""
    """The id that links on the page lead to."""
    brief: Sequence[Sentence] = ()
    """The sentences that the short report has of it."""


def in_terminal(section: Section, drawn: Iterable[RenderableType] = ()) -> Iterator[RenderableType]:
    """Yield a section as a terminal shows it; what is `drawn` stands above its facts."""
    yield terminal.section(section.title)
    yield from map(sentence_text, section.sentences)
    yield from drawn
    for fact in section.facts:
        meaning = f"{fact.name}: {fact.meaning}" if fact.is_named else fact.meaning
        yield terminal.fact(fact.number, meaning)
    for table in section.tables:
        rows = table.rows if table.listed is None else table.listed
        if rows:
            yield _grid(table.columns, rows, is_named=table.is_named)
    for note in (*section.left_out, *section.notes):
        yield terminal.hanging(Text("  - "), sentence_text(note))


def _grid(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, is_named: bool) -> RenderableType:
    texts = next((number for number, column in enumerate(columns) if column.is_number), len(columns))
    first, *others = (printable(column.title) for column in columns)
    grid = terminal.table(first if is_named else "", *others, text_columns=texts)
    for row in rows:
        grid.add_row(*(cell if isinstance(cell, str) else cell.text for cell in map(_short, row)))
    return grid


def _short(cell: Cell) -> Cell:
    return cut(cell, MAX_CELL) if isinstance(cell, str) else cell._replace(text=cut(cell.text, MAX_CELL))


def sentence_text(sentence: Sentence) -> Text:
    """Return a sentence as a terminal shows it."""
    pieces = (sentence,) if isinstance(sentence, str | Styled | CodeText) else sentence
    return Text.assemble(*map(_piece, pieces))


def _piece(piece: Cell) -> tuple[str, str]:
    text = piece if isinstance(piece, str) else piece.text
    return printable(text), TERMINAL_STYLES.get(piece.style, "") if isinstance(piece, Styled) else ""


def on_page(section: Section, drawn: Markup | str = "", quoting: Quoting | None = None, *, level: int = 3) -> Markup:
    """Return a section as a piece of a page, with a heading of this level; what is `drawn` stands above its tables.

    Places of the code are links where `quoting` has them.
    """
    title = Markup(' id="{}"').format(section.name) if section.name else ""
    listed = [
        (f"{capitalized(fact.name)}: " if fact.is_named else "", Styled(fact.number, "strong"), f" {fact.meaning}")
        for fact in section.facts
    ]
    return html.lines(
        (
            Markup("<h{0}{1}>{2}</h{0}>").format(level, title, section.title) if section.title else "",
            *(Markup('<p class="note">{}</p>').format(sentence_html(sentence)) for sentence in section.sentences),
            html.remarks(map(sentence_html, listed)),
            drawn,
            *(_page_table(table, quoting) for table in section.tables if table.rows),
            html.remarks(map(sentence_html, map(capitalized_sentence, section.notes))),
        )
    )


def _page_table(table: ReportTable, quoting: Quoting | None) -> Markup:
    rows = [[sentence_html(_short(cell), quoting) for cell in row] for row in table.rows]
    return html.table(table.caption, table.columns, rows)


def capitalized_sentence(sentence: Sentence) -> Sentence:
    """Return a sentence with a capital at the beginning, as `capitalized`."""
    if isinstance(sentence, str):
        return capitalized(sentence)
    first, *others = (sentence,) if isinstance(sentence, Styled | CodeText) else sentence
    return (capitalized(first) if isinstance(first, str) else first._replace(text=capitalized(first.text)), *others)


def sentence_html(sentence: Sentence, quoting: Quoting | None = None) -> Markup:
    """Return a sentence or a cell as HTML; a place of the code is a link where `quoting` has one."""
    if isinstance(sentence, str):
        return html.inline_html(sentence)
    if isinstance(sentence, CodeText):
        where = html.inline_html(quoting.linked(sentence.place, sentence.text) if quoting else sentence.text)
        return html.details(where, sentence.stack) if sentence.stack else where
    if not isinstance(sentence, Styled):
        return Markup().join(map(sentence_html, sentence))
    if sentence.style == "code":
        return Markup("<code>{}</code>").format(sentence.text)
    tag = Markup("strong") if sentence.style in BOLD_STYLES else Markup("span")
    return Markup('<{0} class="{1}">{2}</{0}>').format(tag, sentence.style, html.inline_html(sentence.text))
