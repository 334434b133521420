"""Short changes of other people's scripts, which find their place again by the beginning of a line."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pinprof.errors import PinprofError


class PlaceError(PinprofError, ValueError):
    """A script does not have the place of an edit exactly once."""


@dataclass(frozen=True)
class Edit:
    """Puts `new` in the place of `old` in the only line that begins with `at`, behind its indentation.

    With `within` it is the only such line of those that are indented more than the only line which begins so. `file` is
    named from the program's folder.
    """

    file: str
    at: str
    old: str
    new: str
    within: str = ""

    def apply(self, folder: Path) -> None:
        """Change the file; raises PlaceError unless the place is there exactly once."""
        file = folder / self.file
        file.write_text("\n".join(edited(file.read_text().splitlines(), self)) + "\n")


def edited(lines: Sequence[str], edit: Edit) -> list[str]:
    """Return the lines of a script after an edit. Raises PlaceError unless the place is there exactly once."""
    place = _only(lines, edit.at, _block(lines, edit.within))
    if lines[place].count(edit.old) != 1:
        raise PlaceError(f"{edit.old!r} is not exactly once in {lines[place].strip()!r}")
    return [*lines[:place], lines[place].replace(edit.old, edit.new), *lines[place + 1 :]]


def _only(lines: Sequence[str], at: str, among: Sequence[int]) -> int:
    places = [number for number in among if lines[number].lstrip().startswith(at)]
    if len(places) != 1:
        raise PlaceError(f"{len(places)} lines begin with {at!r}, not one")
    return places[0]


def _block(lines: Sequence[str], within: str) -> Sequence[int]:
    if not within:
        return range(len(lines))
    head = _only(lines, within, range(len(lines)))
    return list(_deeper(lines, head))


def _deeper(lines: Sequence[str], head: int) -> Iterator[int]:
    """Yield the lines behind one that are indented more."""
    depth = _depth(lines[head])
    for number in range(head + 1, len(lines)):
        is_end = _depth(lines[number]) <= depth and not lines[number].lstrip().startswith(")")
        if lines[number].strip() and is_end:
            return
        yield number


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())
