"""What is known of a script of other people: where it is, how it starts, what a step of it is; and short changes of it.

An edit finds its place again by the beginning of a line.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pinprof.ground.errors import PinprofError


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


@dataclass(frozen=True)
class Program:
    """One script as it stands in its repository.

    `repository` is its folder next to the others, `folder` the working folder in it. `command` follows `python`.
    `paths` are folders of the repository that its users put on PYTHONPATH. `data` names the makers of what it
    reads, `maker@place` where the place matters. A step ends with each `calls_per_step`-th call of `marker`.
    `terminal`: it asks its terminal for its size. `unchecked`: torchvision does not compare checksums, which
    made-up data cannot have. `launcher` stands between `python` and the command. `repairs` let it run with the
    libraries of today, on a small machine.
    """

    name: str
    repository: str
    command: tuple[str, ...]
    folder: str = "."
    paths: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    marker: str = "optimizer"
    calls_per_step: int = 1
    gpus: int = 1
    terminal: bool = False
    unchecked: bool = False
    launcher: tuple[str, ...] = ()
    pinprof_options: tuple[str, ...] = ()
    repairs: tuple[Edit, ...] = ()
