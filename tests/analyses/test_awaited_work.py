"""What streams still had to do when a wait began, against a look at each piece of work."""

from operator import itemgetter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pinprof.analyses.syncs.blocking_calls import NO_END_NS, Queued

TIME = st.integers(0, 12)
WORK = st.lists(st.tuples(st.integers(0, 3), TIME, TIME), max_size=12)
"""Stream, launch and end of each activity."""


def queued(work: list[tuple[int, int, int]]) -> Queued:
    return Queued(*np.array(work, np.int64).reshape(-1, 3).T)


def reached(work: list[tuple[int, int, int]], stream: int) -> list[tuple[int, int]]:
    """Return launch and end of the work of a stream, by launch, where work ends with all that is before it."""
    on_stream = sorted(((launch, end) for on, launch, end in work if on == stream), key=itemgetter(0))
    return [(launch, max(end for _, end in on_stream[: place + 1])) for place, (launch, _) in enumerate(on_stream)]


@given(WORK, st.integers(0, 4), TIME)
def test_a_wait_for_a_stream_is_for_the_last_end_of_what_was_launched_before(
    work: list[tuple[int, int, int]], stream: int, issued: int
) -> None:
    ends = [end for on, launch, end in work if on == stream and launch < issued]
    awaited_ns = queued(work).last_on(np.array([stream]), np.array([issued]))
    assert awaited_ns.tolist() == [max(ends, default=NO_END_NS)]


@given(WORK, st.lists(st.tuples(TIME, TIME), max_size=5))
def test_a_wait_for_no_known_stream_is_for_what_was_launched_before_and_had_ended(
    work: list[tuple[int, int, int]], waits: list[tuple[int, int]]
) -> None:
    issued, ended = np.array(waits, np.int64).reshape(-1, 2).T
    expected = [
        max((end for on in range(4) for at, end in reached(work, on) if at < before and end <= by), default=NO_END_NS)
        for before, by in waits
    ]
    assert queued(work).last_before(issued, ended).tolist() == expected
