"""What was predicted of each case and what came of its change, as a table in Markdown."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scripts.examination.cases import Case

SHOWN = 3
"""Findings on the first screen of a report."""
SMALL_POINTS = 2.0
"""A change that brings nothing is told right where less than this is predicted."""
HEAD = (
    "case",
    "before, ms",
    "first finding",
    "cause among three?",
    "predicted for the cause (range), %",
    "measured (range), %",
    "drift, %",
    "off, points",
    "in range?",
    "off: no change",
    "off: its whole wait",
    "off: all idle",
)

Noted = dict[str, Any]


@dataclass(frozen=True)
class Judged:
    """One case, its saving in percent of the step before: predicted, measured, and by naive forecasts."""

    case: Case
    step_ms: float
    first: str
    is_right: bool
    predicted: float
    stated: tuple[float, float]
    measured: float | None
    bounds: tuple[float, float] | None
    drift: float | None
    whole_wait: float
    all_idle: float

    @property
    def is_undecided(self) -> bool:
        """Return whether a version differs from itself by more than the change brings, or by `SMALL_POINTS`."""
        return self.measured is not None and (self.drift or 0.0) > max(abs(self.measured), SMALL_POINTS)

    @property
    def is_in_range(self) -> bool | None:
        """Return whether the stated range reaches that of the measurement."""
        if self.measured is None:
            return None
        low, high = self.bounds or (self.measured, self.measured)
        return self.stated[0] <= high and low <= self.stated[1]


def judged(case: Case, forecast: Noted, measured: Noted | None) -> Judged:
    """Hold the frozen forecast of a case to what was measured in turns."""
    own = [finding for finding in forecast["findings"] if _names(case, finding)]
    step_ms = forecast["step_ms"] or forecast["traced_ms"]
    step_ms += sum(finding["saving_ms"] or 0.0 for finding in own if finding.get("irregular"))  # on top of the step
    savings = [finding["saving_ms"] or 0.0 for finding in own]
    ranges = [finding["range_ms"] or (saving, saving) for finding, saving in zip(own, savings, strict=True)]
    first = forecast["findings"][0] if forecast["findings"] else None
    wait_ms = sum(forecast["waits"].get(line, 0.0) for finding in own for line in finding["lines"])
    predicted = _percent(sum(savings), step_ms)
    is_shown = any(_names(case, finding) for finding in forecast["findings"][:SHOWN])
    ratio_range = measured and measured["range"]
    return Judged(
        case,
        step_ms,
        f"{first['rule']}, {_percent(first['saving_ms'] or 0.0, step_ms):.1f} %" if first else "none",
        predicted < SMALL_POINTS if case.negative else is_shown,
        predicted,
        (_percent(sum(low for low, _ in ranges), step_ms), _percent(sum(high for _, high in ranges), step_ms)),
        100 * (1 - measured["ratio"]) if measured else None,
        (100 * (1 - ratio_range[1]), 100 * (1 - ratio_range[0])) if ratio_range else None,
        100 * measured["drift"] if measured and "drift" in measured else None,
        _percent(min(wait_ms, step_ms), step_ms),
        _percent(max(step_ms - forecast["busy_ms"], 0.0), step_ms),
    )


def table(forecasts: Mapping[str, Noted], measured: Mapping[str, Noted], cases: Iterable[Case]) -> str:
    """Return a row for each case, which has a forecast, and the sums."""
    rows = [judged(case, forecasts[case.name], measured.get(case.name)) for case in cases]
    return "\n".join([_row(HEAD), _row(["---"] * len(HEAD)), *map(_cells, rows), "", *_sums(rows)])


def _names(case: Case, finding: Noted) -> bool:
    """Return whether a finding is of the case's cause, at a line that its change touches."""
    lines = finding["lines"] or [finding["file"] or ""]
    return finding["rule"] in case.rules and (
        not case.where or any(place in line for place in case.where for line in lines)
    )


def _cells(row: Judged) -> str:
    low, high = row.stated
    cells = [
        f"{row.case.thread}{' (negative)' if row.case.negative else ''}: {row.case.cause}",
        f"{row.step_ms:.2f}",
        row.first,
        "yes" if row.is_right else "no",
        f"{row.predicted:.1f} ({low:.1f} to {high:.1f})",
        *(["-"] * 7),
    ]
    if row.measured is not None:
        bounds = f" ({row.bounds[0]:.1f} to {row.bounds[1]:.1f})" if row.bounds else ""
        cells[5:] = [
            f"{row.measured:.1f}{bounds}",
            "-" if row.drift is None else f"{row.drift:.1f}",
            f"{row.predicted - row.measured:+.1f}",
            "undecided" if row.is_undecided else "yes" if row.is_in_range else "no",
            *(f"{guess - row.measured:+.1f}" for guess in (0.0, row.whole_wait, row.all_idle)),
        ]
    return _row(cells)


def _sums(rows: Sequence[Judged]) -> list[str]:
    positive, negative = ([row for row in rows if row.case.negative is kind] for kind in (False, True))
    small = f"Less than {SMALL_POINTS:g} % predicted for it where the thread saw nothing"
    lines = [
        f"The cause is among the first three findings: {sum(row.is_right for row in positive)} of {len(positive)}.",
        f"{small}: {sum(row.is_right for row in negative)} of {len(negative)}.",
    ]
    measured = [(row, row.measured) for row in rows if row.measured is not None]
    decided = [row for row, _ in measured if not row.is_undecided]
    if measured:
        off = {
            "pinprof": [abs(row.predicted - saving) for row, saving in measured],
            "no change": [abs(saving) for _, saving in measured],
            "its whole wait saved": [abs(row.whole_wait - saving) for row, saving in measured],
            "all idle time saved": [abs(row.all_idle - saving) for row, saving in measured],
        }
        lines += [
            f"In the range: {sum(bool(row.is_in_range) for row in decided)} of {len(decided)}.",
            f"Undecided, since a version differs from itself by more: {len(measured) - len(decided)}.",
            "",
            _row(["forecast", "mean error, points", "median", "largest"]),
            _row(["---"] * 4),
            *(
                _row([name, *(f"{figure(errors):.1f}" for figure in (statistics.fmean, statistics.median, max))])
                for name, errors in off.items()
            ),
        ]
    return lines


def _percent(part_ms: float, step_ms: float) -> float:
    return 100 * part_ms / step_ms


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
