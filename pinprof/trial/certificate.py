"""The results of a trial, and the verdict on its patch."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Literal, TypeAlias

from pinprof.ab import CANNOT_TELL, FASTER, Judgement, Measurement
from pinprof.ab.worker import GuardResult, Race
from pinprof.analysis import Analysis
from pinprof.fix import Patches
from pinprof.prediction.verification import Verification
from pinprof.trial.numbers import NumbersComparison
from pinprof.trial.selection import FixOutcome

PatchVerdict: TypeAlias = Literal["take_it", "leave_it", "cannot_tell", "nothing_to_change"]


@dataclass(frozen=True)
class CheckResults:
    """The results of the checks: numbers and races."""

    numbers: NumbersComparison
    guard: GuardResult
    guard_before: GuardResult | None
    """The guard's results on the original, which runs only if the changed program has races."""

    @property
    def races(self) -> tuple[Race, ...]:
        """The certain races of the changed program."""
        return tuple(race for race in self.guard.races if race.certain)

    @property
    def new_races(self) -> tuple[Race, ...]:
        """The certain races that the original does not have."""
        before = {race.key for race in self.guard_before.races} if self.guard_before else set()
        return tuple(race for race in self.races if race.key not in before)

    def against(self, *, changes_numbers: bool = False) -> Iterator[str]:
        """Yield the reasons against the changed program; other numbers may be allowed."""
        if self.numbers.verdict == "different" and not changes_numbers:
            yield f"other numbers ({self.numbers.why})"
        if self.new_races:
            yield f"a race ({self.new_races[0].headline})"

    def open(self) -> Iterator[str]:
        """Yield what is unknown about the changed program."""
        unknown = self.numbers.verdict == "cannot_tell"
        if unknown and self.numbers.why == self.guard.why:
            yield f"the numbers and races ({self.guard.why})"
            return
        if unknown:
            yield f"the numbers ({self.numbers.why})"
        if self.guard.why:
            yield f"races ({self.guard.why})"


@dataclass(frozen=True)
class Certificate:
    """A patch and its measurements; without a patch there are none."""

    analysis: Analysis
    patches: Patches
    outcomes: tuple[FixOutcome, ...]
    """What became of each fix, also of those that are not in the patch."""
    measurement: Measurement | None
    checked: CheckResults | None
    verified: Verification | None
    why_not_verified: str
    changes_numbers: bool
    """Whether the user allowed other numbers."""
    seconds: float

    @property
    def judgement(self) -> Judgement | None:
        """The step after compared with the step before."""
        return self.measurement.test.judgement if self.measurement else None

    @property
    def verdict(self) -> PatchVerdict:
        """Whether to take the patch."""
        if not self.patches.patches:
            return "nothing_to_change"
        if any(True for _ in self.against()):
            return "leave_it"
        return "cannot_tell" if any(True for _ in self.open()) else "take_it"

    def against(self) -> Iterator[str]:
        """Yield the reasons against the patch."""
        if self.judgement and self.judgement.verdict not in {FASTER, CANNOT_TELL}:
            yield "not faster"
        if self.checked:
            yield from self.checked.against(changes_numbers=self.changes_numbers)

    def open(self) -> Iterator[str]:
        """Yield what is unknown about the patch."""
        if self.judgement is None or self.judgement.verdict == CANNOT_TELL:
            yield "whether it is faster"
        yield from self.checked.open() if self.checked else ["whether it computes the same"]

    @property
    def predicted(self) -> tuple[float, float, float] | None:
        """The share of the step that the replay predicts the patch to save, with its range; None if unknown."""
        saving, step_ns = self.patches.saving, self.analysis.profile.step_ns
        if saving is not None and step_ns:
            low, high = saving.range_ns
            return saving.saving_ns / step_ns, low / step_ns, high / step_ns
        if self.verified is None or not self.verified.changes:
            return None
        prediction = self.verified.prediction
        (low, high), before = prediction.range_ns, prediction.baseline_ns
        return 1 - prediction.predicted_ns / before, 1 - high / before, 1 - low / before

    @property
    def is_as_predicted(self) -> bool | None:
        """Whether the measured saving may lie in the predicted range; None if one of them is unknown.

        An interval outside of the range refutes the prediction, even if it leaves open whether the patch is faster. One
        that touches the range and leaves that open supports nothing.
        """
        judgement, predicted = self.judgement, self.predicted
        if predicted is None or judgement is None or judgement.high == inf:
            return None
        if 1 - judgement.high > predicted[2] or 1 - judgement.low < predicted[1]:
            return False
        return None if judgement.verdict == CANNOT_TELL else True

    @property
    def is_by_estimate_as_predicted(self) -> bool:
        """Whether the estimate of the measured saving lies in the predicted range."""
        judgement, predicted = self.judgement, self.predicted
        return bool(judgement and predicted and predicted[1] <= 1 - judgement.ratio <= predicted[2])
