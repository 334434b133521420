"""A comparison in words and cells, shared by the terminal and the page."""

from collections.abc import Iterator
from typing import get_args

from pinprof.comparison import ComparedFigure, Comparison, FindingChange, Repinned, WaitChange
from pinprof.comparison.changes import CopyChange
from pinprof.comparison.figures import SMALL_DIFFERENCE, FigureOutcome
from pinprof.ground.units import between, counted, duration, how_many, listed, percent, rate, size, sizes
from pinprof.measurement.profile import Profile
from pinprof.report.words import NOTHING, gpu_names, place, saves_or_costs, step_known, whole_place, with_more_sites
from pinprof.rules.rule import Finding

BETTER, WORSE = get_args(FigureOutcome)
ARROW = "->"
MAX_LISTED_LINES = 4
MIN_SHARE_BY_CHANCE = 0.01
"""A note is shown if more than this share of unchanged figures would look changed by chance."""


def labels(comparison: Comparison) -> list[tuple[str, ComparedFigure]]:
    """Return the label of each figure, with its GPU if there are several."""
    several = len({figure.device for figure in comparison.figures if figure.device is not None}) > 1
    named = [
        f"GPU {figure.device}" if several and figure.device is not None else "GPU" for figure in comparison.figures
    ]
    return [(figure.label.replace("GPU", gpu), figure) for gpu, figure in zip(named, comparison.figures, strict=True)]


def amount(unit: str, value: float | None) -> str:
    """Return a value in its unit as a short text."""
    if value is None:
        return NOTHING
    if unit == "ns":
        return duration(value)
    return {"bytes": size, "share": percent, "gbps": rate}.get(unit, how_many)(value)


def difference(figure: ComparedFigure) -> str:
    """Return the difference with its sign, and as a share of the figure before."""
    change = figure.difference
    if change is None:
        return NOTHING
    if change == 0:
        return "none"
    sign = "+" if change > 0 else "-"
    if figure.unit == "share":
        return f"{sign}{percent(abs(change)).removesuffix(' %')} points"
    difference = f"{sign}{amount(figure.unit, abs(change))}"
    if figure.fraction is None or not figure.after.value:
        return difference
    return f"{difference} ({percent(abs(figure.fraction))})"


def meaning(figure: ComparedFigure) -> str:
    """Return the meaning of the difference: better or worse, within noise, or too small to be either."""
    if figure.difference is None:
        return "not compared"
    if figure.is_within_noise is None:
        return "changed, noise unknown"
    if figure.difference == 0:
        return "the same"
    if figure.is_within_noise:
        return "within noise"
    return outcome(figure) or (f"below {percent(SMALL_DIFFERENCE)}" if figure.is_small else "the same")


def outcome(figure: ComparedFigure) -> str:
    """Return whether a figure became better or worse; empty if not, or if both values read the same."""
    before, after = (amount(figure.unit, value.value) for value in (figure.before, figure.after))
    return "" if before == after else figure.outcome or ""


def outcome_of(change: WaitChange | CopyChange | FindingChange) -> str:
    """Return whether a change is better or worse; empty if that is unknown."""
    if change.status in {"gone", "new"} and not isinstance(change, CopyChange):  # other copies may have replaced them
        return BETTER if change.status == "gone" else WORSE
    if change.status not in {"changed", "moved"}:
        return ""
    if isinstance(change, FindingChange):
        return outcome(change.saving)
    if isinstance(change, WaitChange):
        figures = change.bubble, change.stall, change.count
    else:
        figures = change.exposed, change.time, change.rate
    return next(filter(None, map(outcome, figures)), "")


def is_nonzero(figure: ComparedFigure) -> bool:
    """Return whether a figure is not 0 or unknown in both traces."""
    before, after = figure.before.value, figure.after.value
    return bool(before or after or before != after)


def not_compared(comparison: Comparison) -> dict[str, list[str]]:
    """Return why figures are not compared, each reason with the figures."""
    reasons: dict[str, list[str]] = {}
    for label, figure in labels(comparison):
        has_copies = not figure.before.reason == figure.after.reason == "no copies"
        if figure.reason and has_copies:
            reasons.setdefault(figure.reason, []).append(label)
    for what, reason in comparison.reasons.items():
        reasons.setdefault(reason, []).append(what)
    return reasons


# The verdict


def verdict(comparison: Comparison) -> str:
    """Return in one sentence how the step changed."""
    step = comparison.step
    before, after = step.before.value, step.after.value
    if before is None or after is None:
        old, new = (profile.steps.traced_ns for _, profile in comparison.sides)
        times = f"; as traced, {duration(old)} before and {duration(new)} after" if old and new else ""
        return f"The steps cannot be compared ({step.reason}){times}"
    begin = after_and_before(before, after)
    if comparison.verdict == "same":
        return begin + _why_same(step)
    if comparison.verdict == "unsure":
        why = "a single step has no spread" if step.noise is None else "it is within the range of the estimate"
        return f"{begin}: it is unknown whether this is a real difference, {why}"
    changed = f"{begin}: {saves_or_costs(before, after, comparison.after.steps.whole)}"
    if comparison.is_estimated:
        return f"{changed}, {_at_least(comparison)}"
    return f"{changed}, beyond the noise of {_share(step)}"


def _why_same(step: ComparedFigure) -> str:
    if step.difference == 0:
        return ": the same"
    change = f": the difference of {percent(abs(step.fraction or 0.0))}"
    if step.is_within_noise:
        return f"{change} is within the noise of {_share(step)}"
    return f"{change} is below the {percent(SMALL_DIFFERENCE)} by which two runs of one program may differ"


def after_and_before(before: float, after: float) -> str:
    """Return the step after and before: "9.53 instead of 12.4 ms", or "9.53 ms as before" if both read the same."""
    if duration(before) == duration(after):
        return f"{duration(after)} as before"
    return between(after, before).replace(" to ", " instead of ")


def _share(step: ComparedFigure) -> str:
    return percent((step.noise or 0.0) / step.before.value) if step.before.value else NOTHING


def _at_least(comparison: Comparison) -> str:
    """Return the least difference that the ranges of the estimates allow."""
    step = comparison.step
    least = max(abs(step.difference or 0.0) - (step.noise or 0.0), 0.0)
    share = percent(least / step.before.value) if step.before.value else NOTHING
    return f"at least {share} where the estimate is furthest off"


def notes_on_certainty(comparison: Comparison) -> Iterator[str]:
    """Yield notes on how certain the comparison of the steps is."""
    profiles = comparison.sides
    sources = {side: profile.estimate.source for side, profile in profiles if profile.estimate.step_ns is not None}
    estimated = [side for side, source in sources.items() if source == "estimated"]
    if len(estimated) == 1 and len(sources) > 1:
        yield (
            f"the step {estimated[0]} is estimated and the other measured: the difference is only as sure as the "
            "estimate; record both with the plain window of pinprof run"
        )
    elif estimated:
        yield "the steps are estimated from the traces; the plain window of pinprof run measures them"
    if comparison.kernels_alike is not None and not comparison.is_same_program:
        yield (
            f"these may not be the same program: {percent(comparison.kernels_alike)} of their kernels "
            f"{comparison.per} have the same names, so more than one change may cause the difference"
        )
    gpus = [gpu_names(profile) for _, profile in profiles]
    if all(gpus) and gpus[0] != gpus[1]:
        yield f"the GPUs differ: {', '.join(gpus[0])} before, {', '.join(gpus[1])} after"
    torch = [profile.info.torch_version for _, profile in profiles]
    if all(torch) and torch[0] != torch[1]:
        yield f"the versions of torch differ: {torch[0]} before, {torch[1]} after"
    counts = [profile.steps.count for _, profile in profiles]
    if min(counts) > 1 and comparison.by_chance > MIN_SHARE_BY_CHANCE:
        yield (
            f"noise in the traces is the spread over {counts[0]} steps before and {counts[1]} after: of figures "
            f"that did not change, {percent(comparison.by_chance)} look as if they had; record more steps"
        )


def step_of(profile: Profile) -> tuple[str, str]:
    """Return the step of a trace and how it is known, with its range."""
    return step_known(profile) or (NOTHING, "the step without profiler is not known")


# Waits, copies, findings


def before_to_after(figure: ComparedFigure) -> str:
    """Return a figure before and after, or once if both read the same."""
    texts = [amount(figure.unit, value.value) for value in (figure.before, figure.after)]
    return texts[0] if texts[0] == texts[1] else f"{texts[0]} {ARROW} {texts[1]}"


def places_of(change: WaitChange | FindingChange) -> str:
    """Return the places of waits or findings, before and after if they differ."""
    sides = []
    for members in (change.before, change.after):
        places = (
            with_more_sites(place(member.evidence.place), len(member.sites))
            if isinstance(member, Finding)
            else whole_place(member)
            for member in members
        )
        sides.append(listed(list(dict.fromkeys(filter(None, places))), MAX_LISTED_LINES))
    shown = [side for side in dict.fromkeys(sides) if side]
    return f" {ARROW} ".join(shown) or NOTHING


def repinned_sentence(change: Repinned, per: str) -> str:
    """Return a sentence on copies that changed their host memory; `per` follows their number ("per step")."""
    copies = counted(change.count, f"{change.direction} copy", f"{change.direction} copies")
    return f"{copies} {per} ({sizes(change.bytes, 0)}): {change.before} before, {change.after} after"


def saving_of(change: FindingChange) -> str:
    """Return what fixing a finding alone saves, before and after."""
    sides = [
        ", ".join(duration(finding.saving.saving_ns) if finding.saving else NOTHING for finding in members)
        for members in (change.before, change.after)
    ]
    if change.status in {"gone", "new"}:
        return "".join(sides)
    return sides[0] if sides[0] == sides[1] else f"{sides[0]} {ARROW} {sides[1]}"
