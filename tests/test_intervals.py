"""The algebra on intervals against brute force: sets of whole times, small enough to list."""

from collections.abc import Iterable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pinprof.ground import intervals

TIMES = st.integers(-12, 12)
PAIRS = st.lists(st.tuples(TIMES, TIMES), max_size=12)
"""Start and end, in any order: reversed and empty intervals are among them."""


def columns(pairs: Iterable[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(list(pairs), dtype=np.int64).reshape(-1, 2)
    return table[:, 0].copy(), table[:, 1].copy()


def united(pairs: Iterable[tuple[int, int]]) -> intervals.Intervals:
    return intervals.union(*columns(pairs))


def listed(pairs: Iterable[tuple[int, int]]) -> set[int]:
    """Return every time t whose unit [t, t + 1) one of the intervals covers."""
    return {time for start, end in pairs for time in range(start, end)}


def pairs_of(a: intervals.Intervals) -> list[tuple[int, int]]:
    return list(zip(a.start.tolist(), a.end.tolist(), strict=True))


def is_normal(a: intervals.Intervals) -> bool:
    """Return whether the intervals are non-empty, sorted, disjoint and do not touch."""
    return bool((a.end > a.start).all() and (a.start[1:] > a.end[:-1]).all())


@given(PAIRS)
def test_union_covers_what_any_interval_covers(pairs: list[tuple[int, int]]) -> None:
    result = united(pairs)
    assert listed(pairs_of(result)) == listed(pairs)
    assert is_normal(result)


@given(PAIRS, PAIRS)
def test_intersect_covers_what_both_cover_and_subtract_the_rest(
    a: list[tuple[int, int]], b: list[tuple[int, int]]
) -> None:
    both, rest = intervals.intersect(united(a), united(b)), intervals.subtract(united(a), united(b))
    assert listed(pairs_of(both)) == listed(a) & listed(b)
    assert listed(pairs_of(rest)) == listed(a) - listed(b)
    assert is_normal(both)
    assert is_normal(rest)


@given(PAIRS)
def test_gaps_cover_what_is_missing_between_first_and_last(pairs: list[tuple[int, int]]) -> None:
    times = listed(pairs)
    result = intervals.gaps(united(pairs))
    assert listed(pairs_of(result)) == (set(range(min(times), max(times))) - times if times else set())
    assert is_normal(result)


@given(PAIRS, PAIRS)
def test_covered_measures_each_interval_by_itself(a: list[tuple[int, int]], asked: list[tuple[int, int]]) -> None:
    result = intervals.covered(united(a), *columns(asked))
    assert result.tolist() == [len(listed(a) & listed([interval])) for interval in asked]
    assert result.dtype == np.int64


@given(PAIRS, st.lists(TIMES, max_size=12))
def test_contains_knows_every_time(a: list[tuple[int, int]], asked: list[int]) -> None:
    result = intervals.contains(united(a), np.array(asked, dtype=np.int64))
    assert result.tolist() == [time in listed(a) for time in asked]
    assert result.dtype == bool


@given(PAIRS, PAIRS)
def test_divided_cuts_each_interval_at_the_ends_of_the_others(
    a: list[tuple[int, int]], b: list[tuple[int, int]]
) -> None:
    asked = [(start, end) for start, end in b if start <= end]
    parts = list(zip(*(column.tolist() for column in intervals.divided(united(a), *columns(asked))), strict=True))
    for place, (start, end) in enumerate(asked):
        own_parts = [part for part in parts if part[3] == place]
        assert (own_parts[0][0], own_parts[-1][1]) == (start, end)
        assert [part[1] for part in own_parts[:-1]] == [part[0] for part in own_parts[1:]]
        assert [part[2] for part in own_parts[:-1]] != [part[2] for part in own_parts[1:]] or len(own_parts) == 1
        inside = {time for begin, finish, is_inside, _ in own_parts if is_inside for time in range(begin, finish)}
        assert inside == listed(a) & listed([(start, end)])


@given(PAIRS, PAIRS)
def test_time_adds_up(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    one, other = united(a), united(b)
    both, either = intervals.intersect(one, other), united([*a, *b])
    assert intervals.length(one) == intervals.length(both) + intervals.length(intervals.subtract(one, other))
    assert intervals.length(either) == intervals.length(one) + intervals.length(other) - intervals.length(both)
    assert intervals.length(both) == int(intervals.covered(other, one.start, one.end).sum())
    span = int(one.end[-1] - one.start[0]) if len(one.start) else 0
    assert intervals.length(one) + intervals.length(intervals.gaps(one)) == span


@given(PAIRS, PAIRS)
def test_inputs_stay_as_they_are(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    raw, one, other = columns(a), united(a), united(b)
    for array in (*raw, *one, *other):
        array.setflags(write=False)  # any write raises
    intervals.union(*raw)
    intervals.intersect(one, other)
    intervals.subtract(one, other)
    intervals.gaps(one)
    intervals.covered(one, *raw)
    intervals.contains(one, raw[0])
    assert [array.tolist() for array in raw] == [array.tolist() for array in columns(a)]


def test_nothing_in_nothing_out() -> None:
    nothing = united([])
    none = np.empty(0, np.int64)
    something = united([(1, 3)])
    for result in (
        nothing,
        intervals.gaps(nothing),
        intervals.intersect(nothing, something),
        intervals.subtract(nothing, something),
    ):
        assert pairs_of(result) == []
        assert result.start.dtype == result.end.dtype == np.int64
    assert pairs_of(intervals.subtract(something, nothing)) == [(1, 3)]
    assert intervals.length(nothing) == 0
    assert intervals.covered(nothing, *columns([(0, 5)])).tolist() == [0]
    assert intervals.covered(something, none, none).tolist() == []
    assert intervals.contains(nothing, np.array([0])).tolist() == [False]
    assert intervals.contains(something, none).tolist() == []


def test_intervals_are_half_open() -> None:
    assert intervals.contains(united([(2, 5)]), np.array([1, 2, 4, 5])).tolist() == [False, True, True, False]
    assert pairs_of(intervals.intersect(united([(1, 2)]), united([(2, 3)]))) == []
    assert pairs_of(intervals.subtract(united([(1, 9)]), united([(3, 5)]))) == [(1, 3), (5, 9)]


def test_absolute_nanoseconds_stay_exact() -> None:
    now = 1_754_000_000_123_456_789
    a = united([(now, now + 3), (now + 2, now + 10)])
    assert pairs_of(a) == [(now, now + 10)]
    assert intervals.covered(a, np.array([now + 9]), np.array([now + 20])).tolist() == [1]


@given(st.lists(st.integers(-3, 3)))
def test_distinct_values_come_sorted_and_once(values: list[int]) -> None:
    assert intervals.distinct(np.array(values, np.int64)).tolist() == sorted(set(values))


@given(st.lists(st.tuples(st.integers(-3, 3), st.sampled_from([-1, 0, 5, 10**12])), max_size=12))
def test_rows_are_numbered_in_their_order(rows: list[tuple[int, int]]) -> None:
    first, which = intervals.numbered(*columns(rows))
    assert [rows[place] for place in first] == sorted(set(rows))
    assert [rows[place] for place in first[which]] == rows
    assert all(place == rows.index(rows[place]) for place in first)
