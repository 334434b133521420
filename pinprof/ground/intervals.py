"""Algebra on half-open intervals [start, end) of int64 nanoseconds."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
Integer = TypeVar("Integer", bound=np.integer)
MAX_CODES_PER_ROW = 4
"""With at most this number of possible codes per row, a table of all codes takes less memory than sorting."""


class Intervals(NamedTuple):
    """A set of times: disjoint, non-empty, sorted intervals that do not touch each other."""

    start: IntArray
    end: IntArray


def union(start: IntArray, end: IntArray) -> Intervals:
    """Return the times that any of the intervals covers; empty and reversed intervals cover none."""
    kept = end > start
    start, end = start[kept], end[kept]
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    opens = np.ones(len(start), dtype=bool)
    opens[1:] = start[1:] > reach[:-1]
    closes = np.ones(len(start), dtype=bool)
    closes[:-1] = opens[1:]
    return Intervals(start[opens], reach[closes])


def joined(*times: Intervals) -> Intervals:
    """Return the times that lie in any of these."""
    return union(np.concatenate([part.start for part in times]), np.concatenate([part.end for part in times]))


def intersect(a: Intervals, b: Intervals) -> Intervals:
    """Return the times that lie in both."""
    return _combine(a, b, np.logical_and)


def subtract(a: Intervals, b: Intervals) -> Intervals:
    """Return the times of `a` that do not lie in `b`."""
    return _combine(a, b, lambda in_a, in_b: in_a & ~in_b)


def gaps(a: Intervals) -> Intervals:
    """Return the times between the first start and the last end that `a` leaves out."""
    return Intervals(a.end[:-1], a.start[1:])


def length(a: Intervals) -> int:
    """Return the total time in ns."""
    return int((a.end - a.start).sum())


def covered(a: Intervals, start: IntArray, end: IntArray) -> IntArray:
    """Return for each interval [start, end) how many ns of it lie in `a`; 0 for reversed ones."""
    return np.maximum(_measure_before(a, end) - _measure_before(a, start), 0)


def divided(a: Intervals, start: IntArray, end: IntArray) -> tuple[IntArray, IntArray, BoolArray, IntArray]:
    """Return the parts of each interval [start, end) inside and outside of `a`: start, end, whether inside, and whose.

    The parts of an interval follow each other and add up to it; an empty one is a part of itself.
    """
    bounds = _bounds(a)
    first = np.searchsorted(bounds, start, side="right")
    cuts = np.maximum(np.searchsorted(bounds, end, side="left") - first, 0)
    whose = np.repeat(np.arange(len(start)), cuts + 1)
    number = np.arange(len(whose)) - np.repeat(np.cumsum(cuts + 1) - cuts - 1, cuts + 1)
    inner, before_last = number > 0, number < cuts[whose]
    begin, finish = start[whose], end[whose]
    begin[inner] = bounds[(first[whose] + number - 1)[inner]]
    finish[before_last] = bounds[(first[whose] + number)[before_last]]
    return begin, finish, contains(a, begin), whose


def contains(a: Intervals, time: IntArray) -> BoolArray:
    """Return for each time whether it lies in `a`."""
    return (np.searchsorted(_bounds(a), time, side="right") & 1).astype(bool)


def _measure_before(a: Intervals, time: IntArray) -> IntArray:
    """Return how much of `a` lies before each time, in ns."""
    ends_before = np.searchsorted(a.end, time, side="right")
    total = np.concatenate(([0], np.cumsum(a.end - a.start)))[ends_before]
    if len(a.start) == 0:
        return total
    running = np.minimum(ends_before, len(a.start) - 1)
    partial = np.where(ends_before < len(a.start), np.maximum(time - a.start[running], 0), 0)
    return np.asarray(total + partial, dtype=np.int64)


def _bounds(a: Intervals) -> IntArray:
    """Return start, end, start, end, … as one sorted array: a time lies inside after an odd number of bounds."""
    return np.stack((a.start, a.end), axis=1).ravel()


def _combine(a: Intervals, b: Intervals, keep: Callable[[BoolArray, BoolArray], BoolArray]) -> Intervals:
    times = distinct(np.concatenate((_bounds(a), _bounds(b))))
    inside = np.concatenate(([False], keep(contains(a, times), contains(b, times)), [False]))
    return Intervals(times[inside[1:-1] & ~inside[:-2]], times[~inside[1:-1] & inside[:-2]])


def distinct(values: npt.NDArray[Integer]) -> npt.NDArray[Integer]:
    """Return each value once, sorted, as `np.unique`, which takes a hundred times as long where few are equal."""
    ordered = np.sort(values, kind="stable")  # several sorted columns in a row are merged
    return ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]


def numbered(*columns: npt.NDArray[Integer]) -> tuple[IntArray, IntArray]:
    """Return where each different row of some columns comes first, in ascending order, and the number of each row.

    `np.unique` sorts the rows instead: of a million codes that takes ten times as long, and of pairs a hundred times.
    """
    which = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        rank = _ranks(column.astype(np.int64))
        which = _ranks(which * (rank.max(initial=0) + 1) + rank)
    first = np.empty(which.max(initial=-1) + 1, np.int64)
    first[which[::-1]] = np.arange(len(which) - 1, -1, -1)  # of equal rows the last assignment holds
    return first, which


def _ranks(values: IntArray) -> IntArray:
    """Return how many different values are less than each."""
    values = values - values.min(initial=0)
    if not 0 <= values.max(initial=0) < MAX_CODES_PER_ROW * len(values):
        return np.unique(values, return_inverse=True)[1].ravel()
    is_used = np.bincount(values) > 0
    return (np.cumsum(is_used) - 1)[values]


def last_below(values: IntArray, end: IntArray, limit: IntArray) -> IntArray:
    """Return per query the last index before `end` at which a value is below the limit, -1 for none.

    The least value of each block of 1, 2, 4, ... places is known. The search goes to the left over larger and larger
    blocks until one holds such a value, and then down into that.
    """
    least = [values]
    while len(least[-1]) > 1:
        even = np.append(least[-1], np.iinfo(np.int64).max) if len(least[-1]) % 2 else least[-1]
        least.append(np.minimum(even[::2], even[1::2]))
    index, found_at = np.full(len(end), -1), np.full(len(end), -1)
    block = end - 1
    for level, minimum in enumerate(least):
        for before in (0, 1):  # the block itself, and the one before it if both are of one pair
            rows = np.flatnonzero((found_at == -1) & (block >= 0) & ((before == 0) | (block % 2 == 1)))
            rows = rows[minimum[block[rows] - before] < limit[rows]]
            index[rows], found_at[rows] = block[rows] - before, level
        block = block // 2 - 1
    for level in range(len(least) - 2, -1, -1):
        rows = np.flatnonzero(found_at > level)
        right = np.minimum(2 * index[rows] + 1, len(least[level]) - 1)  # the last block may be alone
        index[rows] = np.where(least[level][right] < limit[rows], right, 2 * index[rows])
    return index
