"""Which lines of the program two versions have changed, and how often the host was found in them."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cached_property
from math import comb, erf, sqrt
from pathlib import Path
from typing import TypeAlias

from pinprof.analyses.host_samples import HostSums

MOST_LINES = 20_000
"""A longer file is not compared: somebody has generated it."""
MANY = 500
"""From so many samples on, a normal distribution is as good as the binomial one."""
Lines: TypeAlias = frozenset[tuple[str, int]]
"""Files as a trace names them, and numbers of lines."""


@dataclass(frozen=True)
class Code:
    """The files of one version: its folder, and what it has imported from anywhere but installed packages."""

    folder: Path
    files: tuple[str, ...]

    @cached_property
    def texts(self) -> Mapping[str, Sequence[str]]:
        """The lines of each file, by the name that a trace gives it: relative to the folder, where it is in it."""
        return dict(self._texts())

    def _texts(self) -> Iterator[tuple[str, Sequence[str]]]:
        for file in self.files:
            path = Path(file)
            try:
                lines = path.read_text(encoding="utf-8-sig").splitlines()
            except (OSError, ValueError):  # gone, or not text
                continue
            if len(lines) <= MOST_LINES:
                yield os.path.relpath(path.resolve(), self.folder.resolve()), lines

    def line(self, file: str, number: int) -> str:
        """Return the text of a line without its indent; nothing where it is not at hand."""
        lines = self.texts.get(file, ())
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""


@dataclass(frozen=True)
class Edit:
    """Lines that other ones took the place of; one side may have none."""

    before: Lines
    after: Lines


def find_edits(before: Code, after: Code) -> list[Edit]:
    """Return where the files differ, by name; where each version has one file that the other has not, these two.

    So scripts with two names are compared with each other, and else what is new is new as a whole.
    """
    shared = set(before.files) & set(after.files)
    old, new = (replace(code, files=tuple(set(code.files) - shared)).texts for code in (before, after))
    gone, come = ([name for name in one if name not in other] for one, other in ((old, new), (new, old)))
    pairs: list[tuple[str | None, str | None]] = [(name, name) for name in old if name in new]
    if len(gone) == len(come) == 1:
        pairs.append((gone[0], come[0]))
    else:
        pairs += [*((name, None) for name in gone), *((None, name) for name in come)]
    return [edit for one, other in pairs for edit in _differences(one, old, other, new)]


def _differences(
    one: str | None, old: Mapping[str, Sequence[str]], other: str | None, new: Mapping[str, Sequence[str]]
) -> Iterator[Edit]:
    sides = old[one] if one is not None else (), new[other] if other is not None else ()
    if list(sides[0]) == list(sides[1]):
        return
    matcher = SequenceMatcher(None, *sides, autojunk=False)
    for kind, begin, end, new_begin, new_end in matcher.get_opcodes():
        if kind != "equal":
            yield Edit(_lines(one, begin, end), _lines(other, new_begin, new_end))


def _lines(name: str | None, begin: int, end: int) -> Lines:
    return frozenset((name or "", number + 1) for number in range(begin, end))


def samples_in(lines: Lines, host: HostSums) -> int:
    """Return in how many samples the host was in these lines, or in what they called: at least so many."""
    innermost = sum(row.count for row in host.called if (row.file, row.line) in lines)
    within = (row.total for row in host.lines if (row.file, row.line) in lines)
    return max(innermost, *within, 0)


def most_sampled(lines: Lines, host: HostSums) -> tuple[str, int] | None:
    """Return the line among these in which the host was found most; the first one where it was in none."""
    totals = {(row.file, row.line): row.total for row in host.lines}
    return max(sorted(lines), key=lambda line: totals.get(line, 0), default=None)


def chance_of(more: int, less: int, share: float) -> float:
    """Return how probable it is that at least `more` of these samples are on one side, which has this share of steps.

    Samples of two runs with the same time per step fall on either like lots (the conditional test of two Poisson
    means: Przyborowski and Wilenski, Biometrika 31, 1940).
    """
    both = more + less
    if both > MANY:
        spread = sqrt(both * share * (1 - share))
        return (1 - erf((more - 0.5 - both * share) / spread / sqrt(2))) / 2
    return sum(comb(both, count) * share**count * (1 - share) ** (both - count) for count in range(more, both + 1))
