"""Selects the fixes that stay in a patch: those that save time, of proposals only those that also do no harm."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

from pinprof.ab import CANNOT_TELL, FASTER, Judgement
from pinprof.errors import MeasureError
from pinprof.fix import Mend

Without: TypeAlias = Callable[[Sequence[Mend], float], Judgement]
"""Measures the set with all against the set without some, for at most this many seconds. Raises MeasureError."""
With: TypeAlias = Callable[[Sequence[Mend], Mend], Judgement]
"""Measures the program with some proposals and one more against that without the last. Raises MeasureError."""
Flaw: TypeAlias = Callable[[Sequence[Mend]], str]
"""Returns why a program with some proposals may not replace the original; empty if it may."""
Fate: TypeAlias = Literal["kept", "kept_unmeasured", "dropped_no_gain", "dropped_not_shown", "dropped_not_safe"]


@dataclass(frozen=True)
class FixOutcome:
    """What became of a fix; `judgement` compares the step with it to the step without it, None if nothing did."""

    mend: Mend
    fate: Fate
    judgement: Judgement | None = None
    why: str = ""

    @property
    def is_kept(self) -> bool:
        """Whether it stays in the patch."""
        return self.fate.startswith("kept")

    @classmethod
    def measured(cls, mend: Mend, judgement: Judgement) -> "FixOutcome":
        """Return what becomes of a fix; the judgement is of the step with it against the step without it."""
        if judgement.verdict == FASTER:
            return cls(mend, "kept", judgement)
        return cls(mend, "dropped_not_shown" if judgement.verdict == CANNOT_TELL else "dropped_no_gain", judgement)


def drop_idle(
    mends: Sequence[Mend], measure: Without, left_s: Callable[[], float], least_s: float
) -> tuple[FixOutcome, ...]:
    """Return what becomes of each fix, in their order; the last one that is left is measured by the whole.

    The fixes that are predicted to save least are measured first. A fix is kept if the step is shown to be shorter with
    it. It is dropped if nothing is lost without it, or if that was measured and nothing could be shown. Where less than
    `least_s` are left, nothing is measured any more, and the fix is kept.
    """
    outcomes: dict[int, FixOutcome] = {}
    dropped: list[Mend] = []
    order = sorted(range(len(mends)), key=lambda number: _predicted_ns(mends[number]))
    for done, number in enumerate(order):
        mend = mends[number]
        seconds = left_s() / (len(order) - done)
        if len(mends) - len(dropped) == 1:
            outcomes[number] = FixOutcome(mend, "kept", why="the others are left out")
        elif seconds < least_s:
            outcomes[number] = FixOutcome(
                mend, "kept_unmeasured", why="the time was over before it was measured by itself"
            )
        else:
            outcomes[number] = _outcome(mend, partial(measure, [*dropped, mend], seconds), "kept_unmeasured")
        if not outcomes[number].is_kept:
            dropped.append(mend)
    return tuple(outcomes[number] for number in range(len(mends)))


def split_harmless(proposals: Sequence[Mend], flaw: Flaw) -> tuple[list[Mend], list[FixOutcome]]:
    """Return the proposals with which a program computes the same without a new race, and those with which it does not.

    All are tried together. Where that fails, each half is tried together with those that are known to do no harm.
    """
    kept: list[Mend] = []
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


def keep_faster(proposals: Sequence[Mend], measure: With) -> list[FixOutcome]:
    """Return what becomes of each proposal: it is kept if it is shown to save time on top of those before it.

    The fixes that are predicted to save most are measured first.
    """
    outcomes: list[FixOutcome] = []
    for mend in sorted(proposals, key=_predicted_ns, reverse=True):
        kept = [outcome.mend for outcome in outcomes if outcome.is_kept]
        outcomes.append(_outcome(mend, partial(measure, kept, mend), "dropped_not_shown"))
    return outcomes


def _outcome(mend: Mend, measure: Callable[[], Judgement], unmeasured: Fate) -> FixOutcome:
    """Measure a fix, and return what becomes of it; `unmeasured` if that fails."""
    try:
        return FixOutcome.measured(mend, measure())
    except MeasureError as error:
        return FixOutcome(mend, unmeasured, why=str(error))


def _predicted_ns(mend: Mend) -> float:
    return mend.saving.saving_ns if mend.saving else 0.0
