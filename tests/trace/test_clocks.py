"""Clocks of ranks: what brings them together, by hand, and recorded jobs whose ranks had one clock."""

import numpy as np
import pytest
from recordings import TRACES

from pinprof.trace import read_trace
from pinprof.trace.collectives import Collectives, align_clocks, collectives_of, match_collectives

RECORDED = TRACES / "ranks"


def table(*events: tuple[str, int, int], name: str = "allreduce") -> Collectives:
    """Return collectives of one step from (group, start, end)."""
    groups, start, end = zip(*events, strict=True) if events else ((), (), ())
    count = len(events)
    whole = np.arange(count, dtype=np.int64)
    return Collectives(
        whole,
        np.zeros(count, np.int64),
        (name,) * count,
        tuple(groups),
        np.array(start, np.int64),
        np.array(end, np.int64),
        np.array(end, np.int64) - np.array(start, np.int64),
        whole - 1,
        whole - 1,
    )


def test_what_the_ends_of_collectives_differ_by_is_the_clocks_difference() -> None:
    ranks = [
        table(("a", 0, 100), ("a", 200, 300), ("a", 400, 500)),
        table(("a", 40, 107), ("a", 250, 309), ("a", 450, 508)),
    ]
    clocks = align_clocks(ranks, [0, 0], match_collectives(ranks))
    assert clocks.ahead_ns == (0, 8)
    assert clocks.add_ns == (0, -8)
    assert clocks.within_ns == 1  # 107 - 8 and 309 - 8 are one off


def test_times_that_count_from_another_moment_are_not_another_clock() -> None:
    ranks = [table(("a", 1_000, 1_100)), table(("a", 40, 100))]
    clocks = align_clocks(ranks, [5_000, 6_000], match_collectives(ranks))
    assert clocks.ahead_ns == (0, 0)
    assert clocks.add_ns == (0, 1_000)


def test_ranks_that_share_no_collective_with_the_first_are_reached_through_others() -> None:
    ranks = [table(("a", 0, 100)), table(("a", 10, 105), ("b", 200, 300)), table(("b", 210, 320))]
    clocks = align_clocks(ranks, [0, 0, 0], match_collectives(ranks))
    assert clocks.ahead_ns == (0, 5, 25)


@pytest.mark.parametrize("name", ["broadcast", "reduce", "_reduce_oop", "gather", "scatter"])
def test_a_collective_that_not_all_leave_together_tells_nothing(name: str) -> None:
    ranks = [table(("a", 0, 100), name=name), table(("a", 10, 405), name=name)]
    clocks = align_clocks(ranks, [0, 0], match_collectives(ranks))
    assert (clocks.ahead_ns, clocks.within_ns) == ((0, 0), None)


@pytest.mark.parametrize("name", ["reduce_scatter", "_reduce_scatter_base", "all_gather", "_allgather_base"])
def test_one_that_all_leave_together_does(name: str) -> None:
    ranks = [table(("a", 0, 100), name=name), table(("a", 10, 405), name=name)]
    assert align_clocks(ranks, [0, 0], match_collectives(ranks)).ahead_ns == (0, 305)


@pytest.mark.parametrize("name", ["sleeping_rank", "pageable_rank", "timed_parts_ranks"])
def test_recorded_ranks_of_one_machine_have_one_clock(name: str) -> None:
    traces = [read_trace(path) for path in sorted(RECORDED.glob(f"{name}.rank?.before.json.gz"))]
    tables = [collectives_of(trace, np.flatnonzero(trace.steps.complete).tolist()) for trace in traces]
    clocks = align_clocks(tables, [trace.info.base_ns or 0 for trace in traces], match_collectives(tables))
    assert abs(clocks.ahead_ns[1]) < 20_000  # CUPTI converts the times of each GPU by itself
    assert clocks.within_ns is not None
    assert clocks.within_ns < 20_000
