"""The judgement: figures of a trace against limits and against a baseline."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from pinprof.analyses.syncs import SiteIdentity
from pinprof.check.baseline import BaselineTrace, figure_before
from pinprof.check.figures import NO_CALLS, NOISE_MS, Figure, Measured
from pinprof.check.limits import QUANTITIES, UNKNOWN, Limits, Quantity
from pinprof.check.places import Place
from pinprof.rules import Finding

DEFAULT_TOLERANCE = 0.1
"""Share by which a figure may be worse than in the baseline: steps of two runs differ by some percent."""

FAILING = frozenset({"exceeded", "worse", "new", "unknown"})

NEW_WAITS = "new_waits"
NEW_WAITS_WHAT = "hidden waits at places that the baseline does not have"
ONE_NEW_WAIT = "hidden wait at a place that the baseline does not have"


@dataclass(frozen=True)
class Verdict:
    """What became of one limit, or of one comparison with the baseline."""

    key: str
    what: str
    limit: float | None
    """In the unit of the limit, as are `measured` and `baseline`; None if it is only compared with the baseline."""
    measured: float | None
    """None where it is not known."""
    baseline: float | None
    status: str
    """`kept`; `tolerated` (exceeded, but no worse than the baseline); `not compared` (the baseline does not tell);
    or failing: `exceeded`, `worse` (than the baseline), `new`, `unknown` (and therefore not kept)."""
    sentence: str
    places: tuple[Place, ...] = ()
    """What is behind it, the largest first; empty if the limit is kept."""

    @property
    def name(self) -> str:
        """The name of the limit as people write it."""
        return self.key.replace("_", "-")

    @property
    def failed(self) -> bool:
        """Whether the check fails by it."""
        return self.status in FAILING


@dataclass(frozen=True)
class Checked:
    """One trace, checked."""

    path: str
    verdicts: tuple[Verdict, ...]
    findings: tuple[Finding, ...]
    unsearched: str = ""
    """Why rules are silent on it; nothing if all were asked."""

    @property
    def failed(self) -> bool:
        """Whether a limit was not kept."""
        return any(verdict.failed for verdict in self.verdicts)


def judge(
    measured: Measured, limits: Limits, baseline: BaselineTrace | None = None, tolerance: float = DEFAULT_TOLERANCE
) -> Checked:
    """Return a verdict per limit; with a baseline and no limit, one per quantity.

    With a baseline only what is new, or worse than there by more than `tolerance` and the quantity's noise, fails.
    """
    verdicts = []
    for quantity in QUANTITIES:
        limit, now = limits.of(quantity.key), measured.figures[quantity.key]
        before = figure_before(quantity.key, baseline, now) if baseline else None
        if limit is None and before is not None and not limits:
            verdicts.append(_compared(quantity, now, before, tolerance))
        elif limit is not None:
            verdicts.append(_limited(quantity, now, limit, before, tolerance))
    if baseline:
        verdicts.append(_new_waits(measured, baseline))
    return Checked(measured.path, tuple(verdicts), measured.findings, measured.unsearched)


def _limited(quantity: Quantity, now: Figure, limit: float, before: Figure | None, tolerance: float) -> Verdict:
    """Return the verdict on a figure that has a limit."""
    status, sentence = _held(quantity, now, limit), _against_limit(quantity, now, limit)
    if status != "kept" and before is not None:
        change = _change(quantity, now, before, tolerance)
        if change == "worse":
            sentence += f", and worse than in the baseline ({_shown(quantity, before)})"
        elif change == "same":
            status = "tolerated"
            sentence += f", but not worse than in the baseline ({_shown(quantity, before)}), so it does not fail"
        elif status == "unknown" and before.value is None:
            status = "tolerated"
            sentence += ", but the baseline did not know it either, so it does not fail"
        elif status == "exceeded" and before.value is None:
            sentence += "; the baseline cannot tell whether it was so before"
    return _verdict(quantity, now, limit, before, status, sentence)


def _compared(quantity: Quantity, now: Figure, before: Figure, tolerance: float) -> Verdict:
    """Return the verdict on a figure that has no limit but its value in the baseline."""
    change = _change(quantity, now, before, tolerance)
    status = {"same": "kept", "worse": "worse"}.get(change, "not compared" if before.value is None else "unknown")
    sentence = f"{quantity.phrase(_shown(quantity, now))}, {_shown(quantity, before)} in the baseline"
    if status == "not compared":
        sentence = f"{quantity.phrase(_shown(quantity, now))}; {before.note or 'the baseline does not know it'}"
    elif status == "worse":
        sentence += f": worse by more than the tolerance of {100 * tolerance:.3g} %"
    return _verdict(quantity, now, None, before, status, _with_note(sentence, now))


def _verdict(
    quantity: Quantity, now: Figure, limit: float | None, before: Figure | None, status: str, sentence: str
) -> Verdict:
    return Verdict(
        key=quantity.key,
        what=quantity.what,
        limit=limit,
        measured=now.value,
        baseline=before.value if before else None,
        status=status,
        sentence=sentence,
        places=() if status in {"kept", "not compared"} else now.places,
    )


def _held(quantity: Quantity, now: Figure, limit: float) -> str:
    """Return whether a figure keeps its limit, wherever it lies between its bounds: `kept`, `exceeded` or `unknown`."""
    if now.negligible:
        return "kept"
    best, worst = (now.high, now.low) if quantity.at_least else (now.low, now.high)
    if _keeps(quantity, worst, limit):
        return "kept"
    return "unknown" if _keeps(quantity, best, limit) else "exceeded"


def _keeps(quantity: Quantity, value: float, limit: float) -> bool:
    within = value >= limit if quantity.at_least else value <= limit
    return within or math.isclose(
        value, limit, rel_tol=1e-9
    )  # sums of ns, divided: the last digits are not the trace's


def _change(quantity: Quantity, now: Figure, before: Figure, tolerance: float) -> str:
    """Return whether a figure is certainly `worse` than before, certainly not (`same`), or `unknown`."""
    if now.negligible:
        return "same"
    if quantity.at_least:
        lowest, highest = (value * (1 - tolerance) - now.noise for value in (before.low, before.high))
        worse, same = now.high < lowest, now.low >= highest
    else:
        lowest, highest = (value * (1 + tolerance) + now.noise for value in (before.low, before.high))
        worse, same = now.low > highest, now.high <= lowest
    if worse:
        return "worse"
    return "same" if same else "unknown"


def _against_limit(quantity: Quantity, now: Figure, limit: float) -> str:
    if now.value is None:
        value, bound = _shown(quantity, now), quantity.show(limit)
    else:
        value, bound = quantity.shown(now.value, limit)
    wanted = f"at least {bound} wanted" if quantity.at_least else f"at most {bound} allowed"
    return _with_note(f"{quantity.phrase(value)}, {wanted}", now)


def _with_note(sentence: str, now: Figure) -> str:
    return f"{sentence}: {now.note}" if now.note else sentence


def _shown(quantity: Quantity, figure: Figure) -> str:
    """Return a figure as text: its value, or its bounds."""
    if figure.value is not None:
        return quantity.show(figure.value)
    if figure.low == 0 and (math.isinf(figure.high) or quantity.at_least):
        return UNKNOWN
    if math.isinf(figure.high):
        return f"{quantity.show(figure.low)} or more"
    return f"{quantity.show(figure.low)} to {quantity.show(figure.high)}"


def _new_waits(measured: Measured, baseline: BaselineTrace) -> Verdict:
    """Return the verdict on hidden waits at places that the baseline does not have, if they cost anything."""
    known = baseline.waits
    places = tuple(_each_new(measured, known))
    unknown = measured.figures["max_hidden_syncs"].value is None and not measured.waits and bool(known)
    if unknown:
        why = measured.figures["max_hidden_syncs"].note or NO_CALLS
        status, sentence = "unknown", f"an unknown number of {NEW_WAITS_WHAT}: {why}"
    else:
        status, sentence = (
            "new" if places else "kept",
            f"{len(places)} {ONE_NEW_WAIT if len(places) == 1 else NEW_WAITS_WHAT}",
        )
    value = None if unknown else float(len(places))
    return Verdict(NEW_WAITS, NEW_WAITS_WHAT, None, value, None, status, sentence, places)


def _each_new(measured: Measured, known: set[SiteIdentity]) -> Iterator[Place]:
    for wait in sorted(measured.waits, key=lambda wait: -wait.cost_ms):
        if wait.identity not in known and wait.cost_ms > NOISE_MS:
            yield wait.place
