"""The versions of a program that a trial compares: each with some of the fixes, in a copy of its own."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from pinprof.ab import Program
from pinprof.ab.checkout import moved_environment
from pinprof.ab.copies import copied
from pinprof.fix import Changes, Mend

ORIGINAL, CHANGED = "original", "changed"
NO_FILE = "No such file or directory"
"""What Python says of a file that is not there."""


@dataclass(frozen=True)
class Command:
    """The program as the user starts it, the working directory, and the top folder of the program around that."""

    words: tuple[str, ...]
    here: Path
    top: Path

    @property
    def scripts(self) -> frozenset[Path]:
        """The files that the command names."""
        files = (self.here / word for word in self.words if not word.startswith("-"))
        return frozenset(file.resolve() for file in files if file.suffix == ".py" and file.is_file())

    def moved(self, place: Path) -> tuple[str, ...]:
        """Return the words with the scripts of a copy in place of their own."""
        return tuple(self._moved(word, place) for word in self.words)

    def _moved(self, word: str, place: Path) -> str:
        path = Path(word)
        if path.suffix != ".py":
            return word
        if path.is_absolute():
            return str(place / path.relative_to(self.top)) if path.is_relative_to(self.top) else word
        file = (self.here / path).resolve()
        return str(file) if file.is_file() and not file.is_relative_to(self.top) else word


@dataclass
class Versions:
    """Makes the versions as they are asked for; `undo` removes them."""

    command: Command
    undo: ExitStack
    changes: Changes | None = None
    _made: dict[tuple[int, ...] | None, Program] = field(default_factory=dict)
    _places: list[Path] = field(default_factory=list)

    def original(self) -> Program:
        """Return the program as it is."""
        if None not in self._made:
            self._made[None] = self._program(ORIGINAL, {})
        return self._made[None]

    def changed(self, without: Iterable[Mend] = (), taking: Iterable[Mend] = ()) -> Program:
        """Return the program with the certain changes, but some, and with some proposals."""
        assert self.changes is not None, "it is planned"
        left_out, taken = list(without), list(taking)
        everything = [*self.changes.mends, *self.changes.proposals]
        if len(left_out) == len(self.changes.mends) and not taken:
            return self.original()
        key = tuple(number for number, mend in enumerate(everything) if mend in left_out or mend in taken)
        if key not in self._made:
            name = CHANGED + (f" without {_named(left_out)}" if left_out else "")
            name += f" with {_named(taken)}" if taken else ""
            self._made[key] = self._program(name, self.changes.patches(left_out, taken).after)
        return self._made[key]

    def in_place_of_copies(self, text: str) -> str:
        """Return what a version has said with the program's own paths, and say why a file may not be there."""
        for place in self._places:
            text = text.replace(str(place), str(self.command.top))
        if NO_FILE not in text:
            return text
        return f"{text} (it ran in a copy of {self.command.top}: files outside of that need an absolute path)"

    def _program(self, name: str, changed: Mapping[Path, bytes]) -> Program:
        command = self.command
        place = self.undo.enter_context(copied(command.top, command.scripts, changed))
        self._places.append(place)
        folder = place / command.here.relative_to(command.top)
        environment = moved_environment(command.top, place)
        return Program(name, command.moved(place), folder, environment, (f"{command.top}/",))


def _named(mends: Sequence[Mend]) -> str:
    return ", ".join(dict.fromkeys(mend.rule.id for mend in mends))
