"""Leaves out of several fixes those that bring nothing: measures the set with each against the set without it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pinprof.ab import CANNOT_TELL, FASTER, Judgement
from pinprof.errors import MeasureError
from pinprof.fix import Mend

Without: TypeAlias = Callable[[Sequence[Mend], float], Judgement]
"""Measures the set with all against the set without some, for so many seconds at most. Raises MeasureError."""
Fate: TypeAlias = Literal["kept", "kept_unmeasured", "dropped_no_gain", "dropped_not_shown", "dropped_not_safe"]


@dataclass(frozen=True)
class Share:
    """What became of a fix, and what its measurement said: the step with it against the step without; None without."""

    mend: Mend
    fate: Fate
    judgement: Judgement | None = None
    why: str = ""

    @property
    def is_kept(self) -> bool:
        """Whether it stays in the patch."""
        return self.fate.startswith("kept")


def eliminated(
    mends: Sequence[Mend], measure: Without, left_s: Callable[[], float], least_s: float
) -> tuple[Share, ...]:
    """Return what becomes of each fix, in their order; the last one that is left is measured by the whole.

    Those that are predicted to bring least are first. A fix is kept if the step is shown to be shorter with it. It is
    dropped if nothing is lost without it, or if that was measured and nothing could be shown. Where less than `least_s`
    are left, nothing is measured any more, and the fix is kept.
    """
    shares: dict[int, Share] = {}
    order = sorted(range(len(mends)), key=lambda number: predicted_ns(mends[number]))
    dropped: list[Mend] = []
    for done, number in enumerate(order):
        mend = mends[number]
        if len(mends) - len(dropped) == 1:
            shares[number] = Share(mend, "kept", why="the others are left out")
            continue
        each_s = left_s() / (len(order) - done)
        if each_s < least_s:
            shares[number] = Share(mend, "kept_unmeasured", why="the time was over before it was measured by itself")
            continue
        try:
            judgement = measure([*dropped, mend], each_s)
        except MeasureError as error:
            shares[number] = Share(mend, "kept_unmeasured", why=str(error))
            continue
        fate = fate_of(judgement)
        shares[number] = Share(mend, fate, judgement)
        if not fate.startswith("kept"):
            dropped.append(mend)
    return tuple(shares[number] for number in range(len(mends)))


def fate_of(judgement: Judgement) -> Fate:
    """Return what becomes of a change of which this is the measurement, with it against without."""
    if judgement.verdict == FASTER:
        return "kept"
    return "dropped_not_shown" if judgement.verdict == CANNOT_TELL else "dropped_no_gain"


def predicted_ns(mend: Mend) -> float:
    """Return what a change is predicted to save per step; 0 where nobody can tell."""
    return mend.saving.saving_ns if mend.saving else 0.0
