"""How an object is shown in a Python session: in one line, and in a notebook as a small table."""

from collections.abc import Iterable, Sequence
from html import escape

MOST_ROWS = 10
"""The most rows of a table; the rest is counted."""
STYLE = "text-align:left;vertical-align:top;padding:0.15em 1em 0.15em 0"


def one_line(what: str, parts: Iterable[str]) -> str:
    """Return the repr of an object: what it is, and its main values; empty parts are left out."""
    return f"<pinprof {what}: {', '.join(filter(None, parts))}>"


def as_table(title: str, rows: Sequence[Sequence[str]], head: Sequence[str] = ()) -> str:
    """Return a table of plain texts as HTML for a notebook, the first column naming the rows."""
    body = "".join(_row("th", "td", row) for row in rows[:MOST_ROWS])
    left_out = len(rows) - MOST_ROWS
    more = _row("th", "td", (f"and {left_out} more",)) if left_out > 0 else ""
    top = f"<thead>{_row('th', 'th', head)}</thead>" if head else ""
    caption = f'<caption style="text-align:left"><b>{_shown(title)}</b></caption>'
    return f"<table>{caption}{top}<tbody>{body}{more}</tbody></table>"


def _row(first: str, other: str, cells: Sequence[str]) -> str:
    tags = (first, *[other] * (len(cells) - 1))
    elements = (f'<{tag} style="{STYLE}">{_shown(cell)}</{tag}>' for tag, cell in zip(tags, cells, strict=True))
    return f"<tr>{''.join(elements)}</tr>"


def _shown(text: str) -> str:
    return escape("".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text))
