"""A whole as one bar of characters, with a legend that names its parts."""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from rich.cells import cell_len

from pinprof.units import duration, percent

SMALLEST = 0.005
"""A part of a smaller share of the whole is not named."""
BETWEEN = "   "
"""Stands between the entries of a legend."""


class Part(NamedTuple):
    """A part of a bar: what it is, the character that draws it, how long it is in ns, and what is to be said of it."""

    name: str
    mark: str
    ns: float
    more: str = ""


def drawn(parts: Sequence[Part], width: int) -> str:
    """Return parts side by side, together so many characters wide; each that is named has at least one."""
    shown = _named(parts)
    whole = sum(part.ns for part in shown)
    if not whole:
        return ""
    ends = [round(at / whole * width) for at in accumulate(part.ns for part in shown)]
    lengths = [max(end - start, 1) for start, end in zip([0, *ends], ends, strict=False)]
    lengths[lengths.index(max(lengths))] -= sum(lengths) - width  # what the least parts have too much
    return "".join(part.mark * length for part, length in zip(shown, lengths, strict=True))


def legend(parts: Sequence[Part], width: int) -> list[str]:
    """Return the names of the parts with their times and shares, as lines of at most this width where they fit."""
    whole = sum(part.ns for part in parts)
    lines: list[str] = []
    for part in _named(parts):
        more = f" ({part.more})" if part.more else ""
        entry = f"{part.mark} {part.name} {duration(part.ns)}, {percent(part.ns / whole)}{more}"
        if lines and cell_len(lines[-1] + BETWEEN + entry) <= width:
            lines[-1] += BETWEEN + entry
        else:
            lines.append(entry)
    return lines


def _named(parts: Sequence[Part]) -> list[Part]:
    whole = sum(part.ns for part in parts)
    return [part for part in parts if part.ns > 0 and part.ns >= SMALLEST * whole]
