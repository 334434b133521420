"""Judges figures of traces by limits and by a baseline, and whether a job has the traces of all its ranks."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, Literal, TypeAlias

from pinprof.check.baseline import UNKNOWN_BEFORE, BaselineTrace, figure_before, has_wait, tells_waits
from pinprof.check.figures import Bounded, CodePlace, TraceFigures, finding_places
from pinprof.check.limits import QUANTITIES, UNIT_MS, WHOLE_SHARE, Limits, Quantity
from pinprof.ground.errors import TraceError
from pinprof.rules.rule import Finding, Severity
from pinprof.trace.files import rank_in_name
from pinprof.trace.lines import Place

DEFAULT_TOLERANCE = 0.1
"""Share by which a figure may be worse than in the baseline: the steps of two runs differ by a few percent."""

LimitStatus: TypeAlias = Literal["kept", "tolerated", "not compared", "exceeded", "worse", "new", "unknown"]
"""`tolerated`: exceeded, but not worse than the baseline; `not compared`: the baseline does not have the figure;
`worse`: than the baseline; `unknown`: cannot be judged."""
BROKEN_STATUSES: Final[frozenset[LimitStatus]] = frozenset({"exceeded", "worse", "new"})
KEPT, NOT_KEPT, NOT_JUDGED = 0, 1, 2
"""The result of a check, as the exit code of the command."""

NEW_WAITS = "new_waits"
NEW_WAITS_WHAT = "hidden waits at places that the baseline does not have"
READABLE, READABLE_WHAT = "readable", "traces that can be read"
ALL_RANKS, ALL_RANKS_WHAT = "all_ranks", "ranks of the job with a trace"
MAX_ABSENT_NAMED = 8
"""The most ranks that a verdict names; further ones are counted."""
GIVE_ALL_RANKS = "give the traces of all ranks, or say with --some-ranks that these will do"


@dataclass(frozen=True)
class LimitVerdict:
    """The result of one limit, or of one comparison with the baseline."""

    key: str
    what: str
    status: LimitStatus
    sentence: str
    places: tuple[CodePlace, ...] = ()
    """Its causes, the largest first; empty unless it is broken or tolerated."""

    @property
    def name(self) -> str:
        """The name of the limit as users write it."""
        return self.key.replace("_", "-")

    @property
    def broken(self) -> bool:
        """Whether the limit is certainly broken."""
        return self.status in BROKEN_STATUSES

    @property
    def unknown(self) -> bool:
        """Whether pinprof cannot judge it."""
        return self.status == "unknown"

    @property
    def failed(self) -> bool:
        """Whether the check fails because of it."""
        return self.broken or self.unknown


@dataclass(frozen=True)
class Checked:
    """One trace, checked."""

    path: str
    verdicts: tuple[LimitVerdict, ...]
    findings: tuple[Finding, ...]


def outcome(checked: Sequence[Checked]) -> int:
    """Return the result of a check: a limit that is certainly broken outweighs an unknown one."""
    verdicts = [verdict for trace in checked for verdict in trace.verdicts]
    if any(verdict.broken for verdict in verdicts):
        return NOT_KEPT
    return NOT_JUDGED if any(verdict.unknown for verdict in verdicts) else KEPT


def judge(
    measured: TraceFigures, limits: Limits, baseline: BaselineTrace | None = None, tolerance: float = DEFAULT_TOLERANCE
) -> Checked:
    """Return a verdict per limit; with a baseline and no limit, one per quantity.

    With a baseline, a figure fails only if it is new, or worse by more than `tolerance` and the quantity's noise. If
    the baseline has none of the figures, all verdicts are unknown.
    """
    verdicts = []
    for quantity in QUANTITIES.values():
        limit, now = limits.get(quantity.key), measured.figures[quantity.key]
        before = figure_before(quantity, baseline, now) if baseline else None
        if limit is None and before is not None and not limits:
            verdicts.append(_compared(quantity, now, before, tolerance))
        elif limit is not None:
            verdicts.append(_limited(quantity, now, limit, before, tolerance))
    if baseline:
        verdicts.append(_new_waits(measured, baseline))
    if all(verdict.status == "not compared" for verdict in verdicts):
        verdicts = [replace(verdict, status="unknown") for verdict in verdicts]
    return Checked(measured.path, tuple(verdicts), measured.findings)


def _limited(quantity: Quantity, now: Bounded, limit: float, before: Bounded | None, tolerance: float) -> LimitVerdict:
    status, sentence = _status(quantity, now, limit), _against_limit(quantity, now, limit)
    if status != "kept" and before is not None:
        change = _change(quantity, now, before, tolerance)
        if change == "worse":
            sentence += f", and worse than in the baseline ({_figure_text(quantity, before)})"
        elif change == "same":
            status = "tolerated"
            sentence += f", but not worse than in the baseline ({_figure_text(quantity, before)}), so it does not fail"
        elif status == "exceeded" and before.value is None:
            sentence += "; the baseline cannot tell whether it was so before"
    return _verdict(quantity, now, status, sentence)


def _compared(quantity: Quantity, now: Bounded, before: Bounded, tolerance: float) -> LimitVerdict:
    change = _change(quantity, now, before, tolerance)
    status: LimitStatus = "kept" if change == "same" else change
    if change == "unknown" and before.value is None:
        status = "not compared"
    sentence = f"{quantity.what}: {_figure_text(quantity, now)}"
    if status == "not compared":
        sentence += f"; {before.note or UNKNOWN_BEFORE}"
    else:
        sentence += f", {_figure_text(quantity, before)} in the baseline"
    if status == "worse":
        noise = quantity.unit.show(now.noise)
        sentence += f": worse by more than the tolerance of {100 * tolerance:.3g} % and the noise of {noise}"
    return _verdict(quantity, now, status, _with_note(sentence, now))


def _verdict(quantity: Quantity, now: Bounded, status: LimitStatus, sentence: str) -> LimitVerdict:
    places = () if status in {"kept", "not compared", "unknown"} else now.places
    return LimitVerdict(quantity.key, quantity.what, status, sentence, places)


def _status(quantity: Quantity, now: Bounded, limit: float) -> LimitStatus:
    """Return whether a figure keeps its limit, wherever it lies between its bounds."""
    if now.negligible:
        return "kept"
    best, worst = (now.high, now.low) if quantity.at_least else (now.low, now.high)
    if _keeps(quantity, worst, limit):
        return "kept"
    return "unknown" if _keeps(quantity, best, limit) else "exceeded"


def _keeps(quantity: Quantity, value: float, limit: float) -> bool:
    is_within = value >= limit if quantity.at_least else value <= limit
    return is_within or math.isclose(value, limit, rel_tol=1e-9)  # the last digits of divided sums are rounding errors


def _change(quantity: Quantity, now: Bounded, before: Bounded, tolerance: float) -> Literal["worse", "same", "unknown"]:
    """Return whether a figure is certainly worse than before, or certainly not."""
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


def _against_limit(quantity: Quantity, now: Bounded, limit: float) -> str:
    if now.value is None:
        value, bound = _figure_text(quantity, now), quantity.unit.show(limit)
    else:
        value, bound = quantity.shown(now.value, limit)
    requirement = f"at least {bound} wanted" if quantity.at_least else f"at most {bound} allowed"
    return _with_note(f"{quantity.what}: {value}, {requirement}", now)


def _with_note(sentence: str, now: Bounded) -> str:
    return f"{sentence}; {now.note}" if now.note else sentence


def _figure_text(quantity: Quantity, figure: Bounded) -> str:
    if figure.value is not None:
        return quantity.unit.show(figure.value)
    if figure.low == 0 and (figure.high >= WHOLE_SHARE if quantity.at_least else math.isinf(figure.high)):
        return "unknown"
    if math.isinf(figure.high):
        return f"{quantity.unit.show(figure.low)} or more"
    return f"{quantity.unit.show(figure.low)} to {quantity.unit.show(figure.high)}"


def _new_waits(measured: TraceFigures, baseline: BaselineTrace) -> LimitVerdict:
    new = [wait for wait in measured.waits if wait.cost_ms > UNIT_MS.noise and not has_wait(baseline, wait.identity)]
    places = tuple(wait.place for wait in sorted(new, key=lambda wait: -wait.cost_ms))
    if measured.no_waits and not places:
        status: LimitStatus = "unknown" if tells_waits(baseline) else "not compared"
        sentence = f"{NEW_WAITS_WHAT}: unknown; {measured.no_waits}"
        return LimitVerdict(NEW_WAITS, NEW_WAITS_WHAT, status, sentence)
    sentence = f"{NEW_WAITS_WHAT}: {len(places)}"
    status = "new" if places else "kept"
    return LimitVerdict(NEW_WAITS, NEW_WAITS_WHAT, status, sentence, places)


# The traces of a job: unreadable traces, and ranks without a trace, do not pass


def judge_all(
    outcomes: Sequence[tuple[str, TraceFigures | TraceError]],
    limits: Limits,
    matched: Sequence[BaselineTrace | None] | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
    *,
    some_ranks: bool = False,
) -> list[Checked]:
    """Return the check of each trace; `outcomes` has its figures, or why it cannot be read."""
    measured = [figures for _, figures in outcomes if isinstance(figures, TraceFigures)]
    unread = [path for path, figures in outcomes if not isinstance(figures, TraceFigures)]
    absent = {} if some_ranks else absent_ranks(measured, unread)
    checked = []
    for (path, figures), before in zip(outcomes, matched or [None] * len(outcomes), strict=True):
        if not isinstance(figures, TraceFigures):
            why = str(figures).removeprefix(f"{path}: ")
            checked.append(Checked(path, (LimitVerdict(READABLE, READABLE_WHAT, "unknown", why),), ()))
            continue
        judged = judge(figures, limits, before, tolerance)
        if figures.path in absent:
            verdict = LimitVerdict(ALL_RANKS, ALL_RANKS_WHAT, "unknown", absent.pop(figures.path))
            judged = replace(judged, verdicts=(*judged.verdicts, verdict))
        checked.append(judged)
    return checked


def absent_ranks(measured: Sequence[TraceFigures], unread: Sequence[str] = ()) -> dict[str, str]:
    """Return in words which ranks are absent, by the path of the first trace of their job.

    Traces with the same recorded number of ranks belong to one job, which may have several runs; each run must have all
    ranks. The rank of a trace is the recorded one, otherwise the one in the name of its file. `unread` are files that
    could not be read, whose ranks are not absent.
    """
    absent = {}
    for size, traces in _jobs(measured).items():
        counts = Counter({trace.path: _rank(trace) for trace in traces}.values())
        runs = max(counts.values())
        counts.update(map(rank_in_name, unread))
        present = sum(count >= runs for rank, count in counts.items() if rank is not None and 0 <= rank < size)
        if present < size:
            which = "no trace" if runs == 1 else f"fewer than {runs} traces"
            ranks = islice((rank for rank in range(size) if counts[rank] < runs), MAX_ABSENT_NAMED)
            more = size - present - MAX_ABSENT_NAMED
            names = ", ".join(map(str, ranks)) + (f" and {more} more" if more > 0 else "")
            absent[traces[0].path] = f"{which} of rank {names} of {size} given; {GIVE_ALL_RANKS}"
    return absent


def _jobs(measured: Sequence[TraceFigures]) -> Mapping[int, Sequence[TraceFigures]]:
    """Return the traces by the number of ranks of their job; a trace of unknown job belongs to the only job."""
    jobs: dict[int, list[TraceFigures]] = defaultdict(list)
    sizes = {trace.world_size for trace in measured} - {None}
    only = next(iter(sizes)) if len(sizes) == 1 else None
    for trace in measured:
        size = trace.world_size or only
        if size:
            jobs[size].append(trace)
    return jobs


def _rank(trace: TraceFigures) -> int | None:
    return rank_in_name(trace.path) if trace.rank is None else trace.rank


SEVERITIES_OF_WARNINGS: Final = frozenset[Severity](("high", "medium"))
"""A finding that fails no limit is a warning if it has one of these severities, otherwise a note."""

Spot = tuple[str, Place]
"""A subject and its place."""


@dataclass(frozen=True)
class Remark:
    """A message on a place."""

    place: CodePlace
    level: str
    """`error` if it causes a broken or unknown limit; else `warning` or `note`."""
    verdicts: tuple[LimitVerdict, ...] = ()

    @property
    def rule(self) -> str:
        """The id of the rule that explains the place, otherwise the name of the limit."""
        return self.place.rule or self.verdicts[0].name

    @property
    def message(self) -> str:
        """The message of the place, with the limits that it breaks."""
        sentences = [verdict.sentence for verdict in self.verdicts if verdict.sentence != self.place.message]
        return "; ".join((self.place.message, *sentences))


def remarks(checked: Checked) -> tuple[Remark, ...]:
    """Return the remarks on a trace, errors first.

    A limit without places is a remark without a file. A finding at the place of an error is not repeated. A finding
    without a place is an error if a failed limit has its rule.
    """
    errors = [Remark(place, "error", verdicts) for place, verdicts in _blamed(checked).items()]
    blamed = {_spot(remark.place) for remark in errors}
    failed, others = [verdict for verdict in checked.verdicts if verdict.failed], []
    for finding, place in ((one, place) for one in checked.findings for place in finding_places([one])):
        if _spot(place) in blamed:
            continue
        rule = place.rule
        failed_by_rule = tuple(each for each in failed if any(rule == blame.rule for blame in each.places))
        if failed_by_rule and place.file is None and place.function is None:
            errors.append(Remark(place, "error", failed_by_rule))
        else:
            others.append(Remark(place, "warning" if finding.severity in SEVERITIES_OF_WARNINGS else "note"))
    return (*errors, *sorted(others, key=lambda remark: remark.level != "warning"))


def _blamed(checked: Checked) -> dict[CodePlace, tuple[LimitVerdict, ...]]:
    """Return the places that cause broken or unknown limits; several limits of one spot share a place."""
    blamed: dict[CodePlace, tuple[LimitVerdict, ...]] = {}
    for verdict in checked.verdicts:
        if not verdict.failed:
            continue
        earlier: dict[Spot, list[CodePlace]] = {}
        for place in blamed:
            earlier.setdefault(_spot(place), []).append(place)
        nowhere = CodePlace(None, None, None, None, verdict.key, verdict.sentence)
        for place in verdict.places or (nowhere,):
            same = [place] if place in blamed else earlier.get(_spot(place), [place])
            for known in same:
                if verdict not in blamed.get(known, ()):
                    blamed[known] = (*blamed.get(known, ()), verdict)
    return blamed


def _spot(place: CodePlace) -> Spot:
    return place.rule or place.subject, place.place
