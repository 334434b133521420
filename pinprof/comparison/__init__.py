"""Compares two traces: the step, its figures, waits, copies and findings, and which differences are noise."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Literal, TypeAlias

from pinprof.analyses.by_name.kernels import SAME_KERNELS_SHARE, kernels_alike
from pinprof.analysis import Analysis
from pinprof.comparison import changes
from pinprof.comparison.changes import CopyChange, FindingChange, Repinned, WaitChange
from pinprof.comparison.figures import ComparedFigure, Side, Value, all_figures
from pinprof.measurement.profile import Profile
from pinprof.rules.search import unsearched
from pinprof.trace.tables import WHOLE_TRACE, Trace

__all__ = ["ComparedFigure", "Comparison", "CopyChange", "FindingChange", "Repinned", "Value", "WaitChange", "compare"]

MANY_STEPS = 10
"""With this number of steps or more, a spread leaves out the extremes."""
StepVerdict: TypeAlias = Literal["faster", "slower", "same", "unsure", "unknown"]
"""How the step changed: `same` within noise or below 2 %, `unsure` if an estimate or a single step leaves it open."""


@dataclass(frozen=True)
class Comparison:
    """What changed between two traces; times in ns, per complete step."""

    before: Profile
    after: Profile
    figures: tuple[ComparedFigure, ...]
    """The step without profiler first."""
    waits: tuple[WaitChange, ...]
    copies: tuple[CopyChange, ...]
    repinned: tuple[Repinned, ...]
    """Copies whose host memory is of another kind after."""
    findings: tuple[FindingChange, ...]
    reasons: Mapping[str, str]
    """Why waits, copies or findings are not compared, by their names; those are empty."""
    kernels_alike: float | None
    """Share of the kernels per step that both traces have, by name; None if one has no GPU work or no steps."""

    @property
    def step(self) -> ComparedFigure:
        """The step without profiler."""
        return self.figures[0]

    @property
    def is_same_program(self) -> bool | None:
        """Whether the two traces seem to be of one program; None if unknown."""
        return None if self.kernels_alike is None else self.kernels_alike >= SAME_KERNELS_SHARE

    @property
    def is_estimated(self) -> bool:
        """Whether the step of a side is estimated: then its range is an uncertainty, not a spread."""
        return "estimated" in {self.before.estimate.source, self.after.estimate.source}

    @property
    def sides(self) -> tuple[tuple[str, Profile], tuple[str, Profile]]:
        """The two traces by name."""
        return ("before", self.before), ("after", self.after)

    @property
    def per(self) -> str:
        """The unit of the figures in words: per step, or of the whole traces if neither has steps."""
        units = {self.before.steps.per, self.after.steps.per}
        return units.pop() if len(units) == 1 else "per step"

    @property
    def verdict(self) -> StepVerdict:
        """How the step changed."""
        step = self.step
        if step.difference is None:
            return "unknown"
        if step.difference == 0 or (step.is_within_noise and not self.is_estimated):
            return "same"
        if step.is_within_noise is not False:
            return "unsure"
        if step.is_small:
            return "same"
        return "faster" if step.difference < 0 else "slower"

    @property
    def by_chance(self) -> float:
        """The probability that the spreads of a figure do not overlap although it did not change.

        With few steps a spread covers all of them. If all orders of the steps' values are equally probable, all values
        of one trace are below the other's in two of `comb(before + after, before)` orders.
        """
        counts = [min(profile.steps.count, MANY_STEPS) for profile in (self.before, self.after)]
        return min(2 / comb(sum(counts), counts[0]), 1.0)


def compare(before: Analysis, after: Analysis) -> Comparison:
    """Return what changed between two traces; a difference is noise if the ranges of the two figures overlap."""
    traces = before.trace, after.trace
    has_steps, has_steps_after = (trace.steps.source != WHOLE_TRACE for trace in traces)
    both_or_none = has_steps == has_steps_after
    old, new = Side(before, has_steps or both_or_none), Side(after, has_steps_after or both_or_none)
    why_not: dict[str, Callable[[Side], str]] = {
        "waits": lambda side: _without_gpu(side, traces) or side.why_not_stepped("stalls", "per_step"),
        "copies": lambda side: side.why_not_stepped("copies", "per_step"),
        "findings": _unsearched,
    }
    reasons = {what: reason for what, why in why_not.items() if (reason := _both(old, new, why))}
    copies = () if "copies" in reasons else tuple(changes.copy_changes(old, new))
    return Comparison(
        before=old.profile,
        after=new.profile,
        figures=tuple(all_figures(old, new)),
        waits=() if "waits" in reasons else tuple(changes.wait_changes(old, new)),
        copies=copies,
        repinned=tuple(changes.repinned(copies)),
        findings=() if "findings" in reasons else tuple(changes.finding_changes(old, new)),
        reasons=reasons,
        kernels_alike=kernels_alike(*traces) if both_or_none and all(len(trace.gpu) for trace in traces) else None,
    )


def _both(before: Side, after: Side, why: Callable[[Side], str]) -> str:
    reasons = (("before", why(before)), ("after", why(after)))
    return "; ".join(f"{name}: {reason}" for name, reason in reasons if reason)


def _without_gpu(side: Side, traces: Sequence[Trace]) -> str:
    doubt = side.profile.doubt("no_gpu")
    return doubt.what if doubt and any(len(trace.gpu) for trace in traces) else ""


def _unsearched(side: Side) -> str:
    doubt = unsearched(side.profile)
    return doubt.what if doubt else side.why_not_stepped("per_step")
