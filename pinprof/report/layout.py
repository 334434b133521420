"""How texts for the terminal are laid out: sections, facts with the number first, bullets and tables."""

import io
from collections.abc import Iterable

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pinprof.report.words import printable


def laid_out(parts: Iterable[RenderableType], *, width: int, color: bool) -> str:
    """Return the parts below each other as text for a terminal of this width, with ANSI colours if asked for."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=color,
        force_jupyter=False,  # in a notebook rich would show the text instead of writing it
        no_color=not color,
        highlight=False,
        emoji=False,
    )
    for part in parts:
        console.print(part)
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
    made = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for position, column in enumerate(columns):
        made.add_column(column, justify="left" if position < text_columns else "right", overflow="fold")
    return made
