"""Finds what a name on the command line means."""

from collections.abc import Iterable
from difflib import get_close_matches

SIMILAR = 0.7
"""How alike a mistyped name is to the one that was meant, by difflib."""


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that this one is, that alone begins with it, or that is most like it; None without any.

    Upper and lower case are alike, and so are `-`, `_` and spaces.
    """
    names = {_plain(each): each for each in known}
    asked = _plain(name)
    if asked in names:
        return names[asked]
    begin = [each for plain, each in names.items() if asked and plain.startswith(asked)]
    if len(begin) == 1:
        return begin[0]
    similar = get_close_matches(asked, names, n=1, cutoff=SIMILAR)
    return names[similar[0]] if similar else None


def _plain(name: str) -> str:
    return name.casefold().replace("_", "-").replace(" ", "-")
