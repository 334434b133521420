"""Finds the revision that made a program slower: a binary search, with a comparison at each step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pinprof.ab.statistics import CANNOT_TELL, SLOWER, Judgement
from pinprof.errors import MeasureError, PinprofError

RevisionTest = Callable[[str, str], Judgement]
"""Returns how a revision compares with the good one (the first). Raises MeasureError where it cannot be measured."""


@dataclass(frozen=True)
class Attempt:
    """A revision that was tried; `judgement` is None if it did not run, and `why` the reason."""

    commit: str
    judgement: Judgement | None
    why: str = ""


@dataclass(frozen=True)
class Bisection:
    """The result of a search: `suspects` are the revisions that may be the slow one, the oldest first."""

    suspects: tuple[str, ...]
    tried: tuple[Attempt, ...]
    why: str
    """Why the search ended without a single revision; empty if it found one."""
    ratio: Judgement | None
    """The latest suspect compared with the good revision."""

    @property
    def found(self) -> str | None:
        """The revision that made it slower."""
        return self.suspects[0] if len(self.suspects) == 1 and not self.why else None


def bisect(good: str, commits: Sequence[str], compare: RevisionTest, tell: Callable[[Attempt, int], None]) -> Bisection:
    """Return the first of the commits (the oldest first, the last one bad) that is slower than the good revision.

    In place of a commit that does not run, its neighbour is tried. A comparison without a result ends the search, which
    would otherwise drop half of the suspects by chance. `tell` gets each try and how many suspects are left.
    """
    tried: list[Attempt] = []

    def judged(commit: str) -> Judgement | None:
        try:
            tried.append(Attempt(commit, compare(good, commit)))
        except PinprofError as error:
            tried.append(Attempt(commit, None, str(error)))
        return tried[-1].judgement

    worst = judged(commits[-1])
    tell(tried[-1], len(commits))
    if worst is None:
        raise MeasureError(f"the bad revision cannot be measured: {tried[-1].why}")
    if worst.verdict != SLOWER:
        is_slower = "it cannot be decided whether it is" if worst.verdict == CANNOT_TELL else "it is not"
        why = f"the bad revision should be slower than the good one: {is_slower}"
        return Bisection(tuple(commits), tuple(tried), why, worst)
    suspects, broken = list(commits), set[str]()
    while len(suspects) > 1:
        middle = _nearest(suspects, broken)
        if middle is None:
            return Bisection(tuple(suspects), tuple(tried), "the other suspects do not run", worst)
        judgement = judged(suspects[middle])
        if judgement is None:
            broken.add(suspects[middle])
        elif judgement.verdict == CANNOT_TELL:
            tell(tried[-1], len(suspects))
            why = "one of them cannot be told from the good revision; give more --minutes"
            return Bisection(tuple(suspects), tuple(tried), why, worst)
        elif judgement.verdict == SLOWER:
            suspects, worst = suspects[: middle + 1], judgement
        else:
            suspects = suspects[middle + 1 :]
        tell(tried[-1], len(suspects))
    return Bisection(tuple(suspects), tuple(tried), "", worst)


def _nearest(suspects: Sequence[str], broken: set[str]) -> int | None:
    """Return the index of the unbroken commit nearest to the middle; the last commit is known to be slower."""
    middle = (len(suspects) - 1) // 2
    places = [index for index in range(len(suspects) - 1) if suspects[index] not in broken]
    return min(places, key=lambda index: abs(index - middle), default=None)
