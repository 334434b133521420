"""Links between rows, against an oracle that looks at every pair."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.trace.links import RecordedWork, enclosing, find_links, launches, outermost
from pinprof.trace.tables import KERNEL, NONE, Activities, Calls, HostEvents, Links, Steps

Range = tuple[int, int, int]
"""Thread, start and end."""
EVERY_THREAD = st.integers(0, 3)


def in_table_order(ranges: list[Range]) -> list[Range]:
    return sorted(ranges, key=lambda row: (row[1], -row[2]))


def host_events(ranges: list[Range], *, scale: int = 1) -> HostEvents:
    thread, start, end = np.array(ranges, np.int64).reshape(-1, 3).T
    return HostEvents(("",), start * scale, end * scale, np.zeros(len(start), np.int32), thread.astype(np.int32))


NOTHING_RECORDED = host_events([])


def calls_of(starts: list[int], correlations: list[int], *, thread: int = 0) -> Calls:
    start = np.array(starts, np.int64)
    zeros = np.zeros(len(start), np.int32)
    return Calls(("",), start, start + 2, zeros, zeros + thread, np.array(correlations, np.int64))


def kernels_of(starts: list[int], correlations: list[int]) -> Activities:
    start, count = np.array(starts, np.int64), len(starts)
    texts, tiny = np.zeros(count, np.int32), np.full(count, NONE, np.int8)
    correlation = np.array(correlations, np.int64)
    category = np.full(count, KERNEL, np.int8)
    return Activities(
        ("",),
        start,
        start + 5,
        texts,
        category,
        texts.copy(),
        start * 0,
        correlation,
        start * 0,
        tiny,
        tiny.copy(),
        texts - 1,
        texts - 1,
        texts - 1,
    )


def steps_of(ranges: list[tuple[int, int]], *, on_host: bool = True) -> Steps:
    start, end = np.array(ranges, np.int64).reshape(-1, 2).T
    return Steps("profiler_step", "ProfilerStep#N", start, end, np.ones(len(start), bool), on_host)


def innermost(outer: list[Range], thread: int, time: int, before: int) -> int:
    """Return the last of the ranges before this row that are open at the time; an empty range is open at its start."""
    around = [
        row
        for row, (of, start, end) in enumerate(outer[:before])
        if of == thread and start <= time < max(end, start + 1)
    ]
    return around[-1] if around else NONE


@st.composite
def nested(draw: st.DrawFn) -> list[Range]:
    """Return properly nested ranges of several threads in the order of a table, empty and equal ones among them."""
    ranges: list[Range] = []
    for thread in range(draw(st.integers(1, 4))):
        pending = [(0, draw(st.integers(0, 24)))]
        for _ in range(draw(st.integers(0, 12))):
            if not pending:
                break
            low, high = pending.pop(draw(st.integers(0, len(pending) - 1)))
            start = draw(st.integers(low, high))
            end = draw(st.integers(start, high))
            ranges.append((thread, start, end))
            pending += [part for part in ((low, start), (start, end), (end, high)) if part[1] > part[0]]
    return in_table_order(ranges)


@pytest.mark.slow
@given(nested(), st.lists(st.tuples(EVERY_THREAD, st.integers(-2, 26)), max_size=15))
def test_a_call_lies_in_the_innermost_open_range_of_its_thread(
    outer: list[Range], asked: list[tuple[int, int]]
) -> None:
    inner = in_table_order([(thread, time, time + 1) for thread, time in asked])
    ranges_around = enclosing(host_events(outer), host_events(inner)).tolist()
    assert ranges_around == [innermost(outer, thread, time, len(outer)) for thread, time, _ in inner]


@given(st.lists(st.tuples(st.integers(2, 9), st.booleans()), min_size=1, max_size=10), st.booleans())
def test_ends_that_overlap_by_a_microsecond_of_rounding_change_nothing(
    lengths: list[tuple[int, bool]], around: bool
) -> None:
    """Ranges follow each other; some end one microsecond after the next one starts."""
    ranges, calls, start = [], [], 0
    for length, overlaps in lengths:
        ranges.append((0, start, start + length + overlaps))
        calls += [(0, time, time) for time in range(start, start + length)]
        start += length
    table = host_events([(0, 0, start + 10), *ranges] if around else ranges, scale=1000)
    parents = enclosing(table, host_events(calls, scale=1000)).tolist()
    expected = [row + around for row, (length, _) in enumerate(lengths) for _ in range(length)]
    assert parents == expected
    assert enclosing(table, table).tolist() == ([NONE] if around else []) + [0 if around else NONE] * len(lengths)


SECOND = 10**9
"""In ns: a length that fits 32 bits, though several of them do not."""
DEPTH = 3000
ENCLOSED: dict[str, tuple[list[Range], list[Range] | None, list[int]]] = {
    "of equal ranges the earlier row is the outer one": ([(0, 5, 9)] * 3, None, [NONE, 0, 1]),
    "and a call of the same time lies in the last": ([(0, 5, 9)] * 3, [(0, 5, 9)], [2]),
    "an equal copy of the table is another table": ([(0, 0, 9), (0, 2, 5)], [(0, 0, 9), (0, 2, 5)], [0, 1]),
    "touching ranges do not enclose each other": ([(0, 0, 5), (0, 5, 9)], None, [NONE, NONE]),
    "nor does the first what begins at its end": ([(0, 0, 5), (0, 5, 9)], [(0, 5, 6), (0, 9, 10)], [1, NONE]),
    "threads do not enclose each other": (
        [(0, 0, 100), (2, 10, 50)],
        [(1, 20, 21), (2, 20, 21), (0, 20, 21)],
        [NONE, 1, 0],
    ),
    "many threads of a short trace are kept apart": (
        [(thread, 0, SECOND) for thread in range(9)],
        [(thread, 5, 6) for thread in range(9)],
        [*range(9)],
    ),
    "deep nesting is followed to the end": (
        [(0, level, 2 * DEPTH - level) for level in range(DEPTH)],
        None,
        [NONE, *range(DEPTH - 1)],
    ),
    "without ranges there are no links": ([], [(0, 1, 2)], [NONE]),
    "and without calls": ([(0, 1, 2)], [], []),
    "of nothing": ([], None, []),
}
"""Ranges, what is looked for in them, if it is not the table itself, and in which row each lies."""


@pytest.mark.parametrize(("outer", "inner", "rows"), ENCLOSED.values(), ids=ENCLOSED)
def test_a_row_lies_in_the_innermost_range(outer: list[Range], inner: list[Range] | None, rows: list[int]) -> None:
    table = host_events(outer)
    assert enclosing(table, table if inner is None else host_events(inner)).tolist() == rows


# ---------------------------------------------------------------- launches


def test_of_several_calls_with_one_correlation_that_of_the_devices_own_thread_launched_it() -> None:
    calls = calls_of([0, 1, 10, 12], [1, 2, 7, 7])
    calls = replace(calls, thread=np.array([0, 1, 0, 1], np.int32))
    gpu = kernels_of([5, 6, 20, 21], [1, 2, 7, 7])
    gpu = replace(gpu, device=np.array([0, 1, 0, 1], np.int32))
    assert launches(calls, gpu).tolist() == [0, 1, 2, 3]
    alone = replace(gpu, device=np.array([0, 0, 0, 0], np.int32))
    assert launches(calls, alone).tolist() == [0, 1, 3, 3]  # both launch to it: time decides


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(-1, 4)), max_size=12),
    st.lists(st.tuples(st.integers(0, 30), st.integers(-1, 4)), max_size=12),
)
def test_launches_agree_with_a_search_through_all_calls(
    calls: list[tuple[int, int]], activities: list[tuple[int, int]]
) -> None:
    calls, activities = sorted(calls, key=lambda row: row[0]), sorted(activities, key=lambda row: row[0])
    expected = []
    for start, correlation in activities:
        same = [row for row, (_, of) in enumerate(calls) if of == correlation > 0]
        before = [row for row in same if calls[row][0] <= start]
        expected.append(before[-1] if before else same[0] if same else NONE)
    call_columns = [row[0] for row in calls], [row[1] for row in calls]
    activity_columns = [row[0] for row in activities], [row[1] for row in activities]
    assert launches(calls_of(*call_columns), kernels_of(*activity_columns)).tolist() == expected


# ---------------------------------------------------------------- steps


def links_of(
    calls: Calls,
    gpu: Activities,
    steps: Steps,
    ops: HostEvents = NOTHING_RECORDED,
    functions: HostEvents = NOTHING_RECORDED,
) -> Links:
    return find_links(RecordedWork(ops, NOTHING_RECORDED, functions, calls, gpu, launches(calls, gpu)), steps)


def test_an_activity_belongs_to_the_step_that_launched_it_however_late_it_runs() -> None:
    calls, gpu = calls_of([12, 22], [1, 2]), kernels_of([25, 99, 100], [1, 2, 8])
    links = links_of(calls, gpu, steps_of([(10, 20), (20, 30)]))
    assert links.call_step.tolist() == [0, 1]
    assert links.activity_step.tolist() == [0, 1, NONE]


def test_links_lead_from_a_call_up_through_ops_and_functions() -> None:
    ops = host_events([(0, 0, 50), (0, 5, 40)])
    functions = host_events([(0, 0, 90), (0, 1, 80), (0, 2, 60)])
    calls, gpu = calls_of([10, 45, 95], [1, 2, 3]), kernels_of([], [])
    links = links_of(calls, gpu, steps_of([]), ops, functions)
    assert links.op.tolist() == [1, 0, NONE]
    assert links.op_parent.tolist() == [NONE, 0]
    assert links.function.tolist() == [2, 2, NONE]
    assert links.function_parent.tolist() == [NONE, 0, 1]


@given(st.lists(st.integers(-1, 30), max_size=30), st.sets(st.integers(0, 29)), st.integers(0, 2))
def test_the_outermost_row_is_found_however_deep_rows_are(links: list[int], chosen: set[int], usual: int) -> None:
    parents = [parent if parent < row else NONE for row, parent in enumerate(links)]
    flagged = np.array([row in chosen for row in range(len(parents))], bool)

    def up(row: int) -> Iterator[int]:
        while row != NONE:
            yield row
            row = parents[row]

    rows = np.arange(-1, len(parents), dtype=np.int32)
    expected = [([NONE] + [around for around in up(row) if flagged[around]])[-1] for row in rows.tolist()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pinprof.trace.links.USUAL_DEPTH", usual)
        assert outermost(flagged, rows, np.array(parents, np.int32)).tolist() == expected
