from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.races.clocks import Stream, Ticket
from pinprof.races.pending_copies import SWEEP_AT_COPIES, Access, Copy, Extent, PendingCopies


def memory(start: int, size: int) -> Extent:
    return Extent(start, (size,), (1,), 1)


def copy(start: int, size: int, number: int = 1, **fields: Any) -> Copy:
    values: dict[str, Any] = {"to_host": True, "freed": False, "ended": True}
    values |= {"stream": Stream(0, 0)} | fields
    return Copy(
        ticket=Ticket(values["stream"], number),
        memory=memory(start, size),
        to_host=values["to_host"],
        dtype="uint8",
        stack=None,
        has_ended=lambda: bool(values["ended"]),
        is_freed=lambda: bool(values["freed"]),
    )


ranges = st.tuples(st.integers(0, 60), st.integers(1, 20))


@given(st.lists(ranges, max_size=30), st.sets(st.integers(0, 29)), ranges)
def test_what_overlaps_is_found_wherever_it_lies(
    kept: list[tuple[int, int]], gone: set[int], asked: tuple[int, int]
) -> None:
    pending = PendingCopies()
    copies = [copy(start, size, stream=Stream(0, number)) for number, (start, size) in enumerate(kept)]
    for each in copies:
        pending.add(each)
    pending.drop(lambda each: each.ticket.stream.handle in gone)
    left = [each for each in copies if each.ticket.stream.handle not in gone]
    assert set(pending.overlapping(memory(*asked))) == {each for each in left if each.memory.overlaps(memory(*asked))}
    assert len(pending) == len(left)


def test_the_latest_of_the_copies_of_the_same_memory_on_a_stream_stands_for_all() -> None:
    pending = PendingCopies()
    for number in range(1, 100):
        pending.add(copy(8, 4, number))
    (left,) = pending.overlapping(memory(8, 4))
    assert left.ticket.number == 99
    pending.add(copy(8, 4, 1, stream=Stream(0, 7)))
    pending.add(copy(8, 4, 100, to_host=False))
    assert len(pending) == 3


def test_copies_of_memory_that_is_gone_do_not_gather() -> None:
    pending = PendingCopies()
    for number in range(10 * SWEEP_AT_COPIES):
        pending.add(copy(8 * number, 4, number, freed=True))
    assert len(pending) < SWEEP_AT_COPIES


@pytest.mark.parametrize(
    ("fields", "past"),
    [
        ({"freed": True}, True),
        ({"freed": False}, False),
        ({"freed": True, "ended": False}, False),  # torch would not have let it be used again
    ],
)
def test_freed_memory_that_torch_looks_after_is_another_tensors(fields: dict[str, bool], past: bool) -> None:
    assert copy(0, 1, **fields).is_past == past


@pytest.mark.parametrize(
    ("to_host", "kind", "unsafe"),
    [
        (True, "read", True),
        (True, "write", True),
        (False, "read", False),
        (False, "write", True),
        (False, "unpin", True),
    ],
)
def test_only_reading_a_source_is_safe(kind: Access, *, to_host: bool, unsafe: bool) -> None:
    assert copy(0, 1, to_host=to_host).conflicts_with(kind) == unsafe


# The bytes that a tensor covers


@pytest.mark.parametrize(("column", "shared"), [(0, True), (9, True), (10, False), (19, False)])
def test_columns_of_a_matrix(column: int, *, shared: bool) -> None:
    left = Extent(4096, (1000, 10), (80, 4), 4)
    assert left.overlaps(Extent(4096 + 4 * column, (1000, 1), (80, 4), 4)) == shared
