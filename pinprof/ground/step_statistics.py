"""Statistics of step times: which are outliers, which return regularly, and how uncertain their mean is."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Series: TypeAlias = NDArray[Any]
Bools: TypeAlias = NDArray[np.bool_]

OUTLIER_MULTIPLE = 1.5
"""A time below this multiple of the usual one is not an outlier: a log line or a slower copy takes as much."""
MAX_MEDIAN_DEVIATIONS = 6
"""Nor is a time within this number of median deviations of the usual one: the times scatter as much."""
OTHER_STEPS = 3.0
"""If nearly all timed steps are longer than the recorded ones by more than this factor, these are others: a profiler
only adds time."""
MIN_TIMES_WITH_SPREAD = 3
"""Among fewer times nothing is usual."""
EXPLAINING_SHARE_OF_EXCESS = 0.5
"""A reason explains a long time if it explains this share of its excess over the usual one."""

MIN_BLOCKS_OF_STEPS = 8
"""The spread of fewer block means says little about the uncertainty of the overall mean."""
CONFIDENCE = 0.95
NORMAL_QUANTILE_OF_95_PERCENT = 1.959964
"""Quantile of the normal distribution for this confidence."""

STUDENT = {2: 4.3027, 3: 3.1824, 4: 2.7764}
"""Quantiles of Student's distribution for this confidence, by the degrees of freedom for which no expansion holds."""

RETURNING_MULTIPLE = 1.1
"""Regular work in some steps shows if all of these take at least this multiple of the usual step."""
MIN_RETURNS_OF_PERIOD = 5
"""Fewer returns of a longer step may be chance: of 50 periods, one fits four steps of twenty in 1 of 10 series."""
TAKEN_FOR_NOISE = 0.95
"""Each step with regular work is longer than this share of all other steps."""
MAX_PERIOD_STEPS = 100
"""The longest period that is searched for; if work that returns less often takes long, its step is irregular anyway."""


def unlike(times: Series, excused: Callable[[], Series] | None = None, among: Bools | None = None) -> Bools:
    """Return which times are much longer than the usual one, apart from an excused part of each.

    `excused` returns that part; it is called only if some time is longer. `among` are the times that define the usual
    one, by default all.
    """
    reference = slice(None) if among is None else among
    if len(times) < MIN_TIMES_WITH_SPREAD or not len(times[reference]):
        return np.zeros(len(times), bool)
    usual = float(np.median(times[reference]))
    away = times - usual
    scatter = np.median(np.abs(away[reference]))
    longer: Bools = (times > OUTLIER_MULTIPLE * usual) & (away > MAX_MEDIAN_DEVIATIONS * scatter)
    if excused is not None and longer.any():
        exempt = excused()
        longer &= exempt - np.median(exempt[reference]) < EXPLAINING_SHARE_OF_EXCESS * away
    return longer


def unlike_others(times: Series, noted: Bools, excused: Callable[[], Series] | None = None) -> Bools:
    """Return which times are much longer than the usual one; noted times are also compared with those without a note.

    Where something was noted in half of the times, only the other half shows what is usual.
    """
    longer = unlike(times, excused)
    return longer | (noted & unlike(times, excused, ~noted)) if noted.any() else longer


def returning(times: Series, number: Series) -> Series:
    """Return the indices of times that are longer than the others and return with a fixed period; empty if none do.

    `number` are the numbers of the times, ascending; some may be missing. Of several periods the shortest counts at
    which all times are longer than nearly all others.
    """
    if not len(times):
        return np.arange(0)
    usual = np.median(times)
    row_number = number - number[0]
    row = np.full(int(row_number[-1]) + 1, usual)
    row[row_number] = times
    for period in range(2, min(MAX_PERIOD_STEPS, len(times) // MIN_RETURNS_OF_PERIOD) + 1):
        whole = len(row) // period * period
        phase = int(np.median(row[:whole].reshape(-1, period), axis=0).argmax())
        rows = np.flatnonzero(row_number % period == phase)
        others = np.delete(times, rows)
        least = max(RETURNING_MULTIPLE * usual, np.quantile(others, TAKEN_FOR_NOISE)) if len(others) else np.inf
        if len(rows) and times[rows].min() >= least:
            return rows
    return np.arange(0)


def half_width(times: Series) -> float:
    """Return half of the range, around the mean of the times, in which their true mean lies with 95 % confidence.

    Consecutive times depend on each other (batches come in bursts). So it takes the means of longer and longer blocks,
    until these are independent, and the widest of the ranges that result (Flyvbjerg and Petersen, J. Chem. Phys. 91,
    461, 1989). Infinite for fewer than `MIN_BLOCKS_OF_STEPS` times.
    """
    widest, size = (np.inf if len(times) < MIN_BLOCKS_OF_STEPS else 0.0), 1
    while len(times) // size >= MIN_BLOCKS_OF_STEPS:
        blocks = len(times) // size
        means = times[: blocks * size].reshape(blocks, size).mean(axis=1)
        widest = max(widest, float(means.std(ddof=1) / np.sqrt(blocks)) * _student(blocks - 1))
        size *= 2
    return widest


def range_of_another(times: Series) -> tuple[float, float] | None:
    """Return the range of one more such time, with 95 % confidence; None for fewer than `MIN_TIMES_WITH_SPREAD`.

    It assumes that the logarithms are normal and independent (Student's t, for a prediction). From two times the range
    would be so wide that it says nothing.
    """
    if len(times) < MIN_TIMES_WITH_SPREAD:
        return None
    logs = np.log(times)
    half = _student(len(logs) - 1) * float(logs.std(ddof=1)) * np.sqrt(1 + 1 / len(logs))
    return float(np.exp(logs.mean() - half)), float(np.exp(logs.mean() + half))


def _student(degrees: int) -> float:
    """Return the quantile of Student's distribution for 95 %, by the first terms of its Cornish-Fisher expansion."""
    if degrees in STUDENT:
        return STUDENT[degrees]
    normal = NORMAL_QUANTILE_OF_95_PERCENT
    second = (normal**3 + normal) / 4
    third = (5 * normal**5 + 16 * normal**3 + 3 * normal) / 96
    return normal + second / degrees + third / degrees**2
