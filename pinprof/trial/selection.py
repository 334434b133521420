"""Select the fixes that stay in a patch: those that save time, and proposals that also do no harm."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

from pinprof.ab import CANNOT_TELL, FASTER, Judgement
from pinprof.errors import MeasureError
from pinprof.fix import ProgramChange

Without: TypeAlias = Callable[[Sequence[ProgramChange], float], Judgement]
"""Compares all changes with all but these, for at most this number of seconds. Raises MeasureError."""
With: TypeAlias = Callable[[Sequence[ProgramChange], ProgramChange], Judgement]
"""Compares the program with some proposals and one more with the program without the last. Raises MeasureError."""
Flaw: TypeAlias = Callable[[Sequence[ProgramChange]], str]
"""Returns why a program with some proposals may not replace the original; empty if it may."""
Fate: TypeAlias = Literal["kept", "kept_unmeasured", "dropped_no_gain", "dropped_not_shown", "dropped_not_safe"]


@dataclass(frozen=True)
class FixOutcome:
    """What became of a fix; `judgement` compares the step with it to the step without it, None if not measured."""

    change: ProgramChange
    fate: Fate
    judgement: Judgement | None = None
    why: str = ""

    @property
    def is_kept(self) -> bool:
        """Whether it stays in the patch."""
        return self.fate.startswith("kept")

    @classmethod
    def measured(cls, change: ProgramChange, judgement: Judgement) -> "FixOutcome":
        """Return the outcome of a fix by the judgement of the step with it compared with the step without it."""
        if judgement.verdict == FASTER:
            return cls(change, "kept", judgement)
        return cls(change, "dropped_not_shown" if judgement.verdict == CANNOT_TELL else "dropped_no_gain", judgement)


def drop_without_gain(
    changes: Sequence[ProgramChange], measure: Without, left_s: Callable[[], float], least_s: float
) -> tuple[FixOutcome, ...]:
    """Return what becomes of each fix, in their order; the last one left needs no measurement of its own.

    The fixes that are predicted to save least are measured first. A fix is kept if the step is shown to be shorter with
    it, and dropped if it is not. If less than `least_s` are left, nothing more is measured, and the fix is kept.
    """
    outcomes: dict[int, FixOutcome] = {}
    dropped: list[ProgramChange] = []
    order = sorted(range(len(changes)), key=lambda number: _predicted_ns(changes[number]))
    for tried, number in enumerate(order):
        change = changes[number]
        seconds = left_s() / (len(order) - tried)
        if len(changes) - len(dropped) == 1:
            outcomes[number] = FixOutcome(change, "kept", why="the others are left out")
        elif seconds < least_s:
            outcomes[number] = FixOutcome(
                change, "kept_unmeasured", why="the time was over before it was measured by itself"
            )
        else:
            outcomes[number] = _outcome(change, partial(measure, [*dropped, change], seconds), "kept_unmeasured")
        if not outcomes[number].is_kept:
            dropped.append(change)
    return tuple(outcomes[number] for number in range(len(changes)))


def split_harmless(proposals: Sequence[ProgramChange], flaw: Flaw) -> tuple[list[ProgramChange], list[FixOutcome]]:
    """Return the proposals with which the program computes the same without a new race, and the others.

    All are tried together. If that fails, each half is tried together with the proposals that are known to be safe.
    """
    kept: list[ProgramChange] = []
    dropped: list[FixOutcome] = []
    groups = [list(proposals)] if proposals else []
    while groups:
        group = groups.pop(0)
        why = flaw([*kept, *group])
        if not why:
            kept += group
        elif len(group) == 1:
            dropped.append(FixOutcome(group[0], "dropped_not_safe", why=why))
        else:
            middle = len(group) // 2
            groups = [group[:middle], group[middle:], *groups]
    return kept, dropped


def keep_faster(proposals: Sequence[ProgramChange], measure: With) -> list[FixOutcome]:
    """Return the outcome of each proposal: it is kept if it is shown to save time in addition to those before it.

    The proposals with the largest predicted saving are measured first.
    """
    outcomes: list[FixOutcome] = []
    for change in sorted(proposals, key=_predicted_ns, reverse=True):
        kept = [outcome.change for outcome in outcomes if outcome.is_kept]
        outcomes.append(_outcome(change, partial(measure, kept, change), "dropped_not_shown"))
    return outcomes


def _outcome(change: ProgramChange, measure: Callable[[], Judgement], unmeasured: Fate) -> FixOutcome:
    """Measure a fix, and return its outcome; `unmeasured` if that fails."""
    try:
        return FixOutcome.measured(change, measure())
    except MeasureError as error:
        return FixOutcome(change, unmeasured, why=str(error))


def _predicted_ns(change: ProgramChange) -> float:
    return change.saving.saving_ns if change.saving else 0.0
