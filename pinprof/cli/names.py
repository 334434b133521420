"""Finds what a name on the command line means."""

from collections.abc import Iterable
from difflib import get_close_matches

from pinprof.cli.terminal import fail

SIMILAR = 0.7
"""How alike a mistyped name is to the one that was meant, by difflib."""
MOST_NAMED = 6
"""An error names so many of those that may be meant."""


def chosen(name: str, known: Iterable[str], what: str) -> str:
    """Return the known name that is meant: this one, the only one that begins so, or the one most like it.

    Upper and lower case are alike, and so are `-`, `_` and spaces. `what` says in the error what there should be.
    """
    found = meant(name, known)
    if not found:
        fail(f"{name}: there is no such {what}")
    if len(found) > 1:
        more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        fail(f"{name}: several begin so: {', '.join(found[:MOST_NAMED])}{more}")
    return found[0]


def meant(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that this one may mean, best one alone."""
    names = {_plain(each): each for each in known}
    asked = _plain(name)
    if asked in names:
        return [names[asked]]
    found = [plain for plain in names if asked and plain.startswith(asked)]
    return [names[plain] for plain in found or get_close_matches(asked, names, n=1, cutoff=SIMILAR)]


def _plain(name: str) -> str:
    return name.casefold().replace("_", "-").replace(" ", "-")
