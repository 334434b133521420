from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.races.pending_copies import Extent


def every_byte(extent: Extent) -> set[int]:
    return {
        extent.address + byte + sum(index * stride for index, stride in zip(place, extent.strides, strict=True))
        for place in product(*(range(size) for size in extent.shape))
        for byte in range(extent.itemsize)
    }


extents = st.builds(
    lambda address, dims, itemsize: Extent(
        address, tuple(size for size, _ in dims), tuple(stride * itemsize for _, stride in dims), itemsize
    ),
    st.integers(1 << 20, (1 << 20) + 40),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=3),
    st.sampled_from((1, 2, 4)),
)


@given(extents, extents)
def test_extents_overlap_if_they_share_a_byte(one: Extent, other: Extent) -> None:
    assert one.overlaps(other) == other.overlaps(one) == bool(every_byte(one) & every_byte(other))


@given(extents)
def test_the_end_and_the_size_are_those_of_the_bytes(extent: Extent) -> None:
    covered = every_byte(extent)
    assert extent.end == max(covered, default=extent.address - 1) + 1
    if extent.is_dense:
        assert extent.nbytes == len(covered) == extent.end - extent.address


@pytest.mark.parametrize(("column", "shared"), [(0, True), (9, True), (10, False), (19, False)])
def test_columns_of_a_matrix(column: int, *, shared: bool) -> None:
    left = Extent(4096, (1000, 10), (80, 4), 4)
    assert left.overlaps(Extent(4096 + 4 * column, (1000, 1), (80, 4), 4)) == shared


def test_in_doubt_two_tensors_overlap() -> None:
    strides = (7919, 6101, 4787, 3571, 2393, 1223)
    one = Extent(1 << 20, (50,) * 6, strides, 1)
    assert one.overlaps(Extent((1 << 20) + 1, (50,) * 6, tuple(2 * stride + 1 for stride in strides), 1))
