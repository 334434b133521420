"""Names of a trace on a page: cut to a length that one can read, and escaped."""

import html
import re

from pinprof.report.words import printable

MAX_NAME, MAX_LABEL = 90, 40
"""Longest texts in characters; a kernel's name can have thousands."""

DECORATION = re.compile(r"^void |\(anonymous namespace\)::|^autograd::engine::evaluate_function: ")
ARGUMENTS = re.compile(r"(?<=\w)[<(].*", re.DOTALL)


def literal(text: str, longest: int = MAX_NAME) -> str:
    """Return a text of a trace as HTML that shows it as it is, cut in its middle if it is longer than given.

    Plotly reads the same few tags and entities in hover texts, so this serves there too.
    """
    shown = printable(text)
    if len(shown) > longest:
        shown = f"{shown[: longest * 2 // 3]} … {shown[3 - longest // 3 :]}"
    return html.escape(shown)


def short(name: str) -> str:
    """Return what is left of a name without its template arguments: of a kernel the template's own name; plain text."""
    plain = DECORATION.sub("", printable(name))
    head = ARGUMENTS.sub("", plain)
    if head != plain:
        head = head.rsplit("::", maxsplit=1)[-1]
    return head if len(head) <= MAX_LABEL else head[: MAX_LABEL - 1] + "…"
