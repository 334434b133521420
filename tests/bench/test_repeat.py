"""Two benches beside each other, so that every count can be checked by eye."""

import pytest
from bench_builder import BenchBuilder, count, gbps, ms

from pinprof.bench.results import Bench
from scripts.bench_repeat import flips, repeats


def bench(pinned: float, rate: float) -> Bench:
    return (
        BenchBuilder()
        .add("E1", ms("pageable.to", 4.0, 3.5, 4.5), ms("pinned.to", pinned))
        .add("E2", count("waits, blocking", "waits", 1000))
        .add("E13", gbps("HtoD pinned", 4096, rate))
        .build()
    )


def test_times_and_rates_that_both_have_are_compared_and_counts_are_not() -> None:
    found = list(repeats(bench(1.0, 50), bench(1.0, 60)))
    assert [(each.number, each.first.name, each.is_within) for each in found] == [
        ("E1", "pageable.to", True),
        ("E1", "pinned.to", True),
        ("E13", "HtoD pinned", False),
    ]
    assert str(found[2]) == "E13 HtoD pinned at 4.00 KiB: 60.0 GB/s, 20 % from 50.0 GB/s (49.5 GB/s to 50.5 GB/s)"


@pytest.mark.parametrize(("median", "is_within"), [(3.49, False), (3.5, True), (4.5, True), (4.51, False)])
def test_a_median_on_the_edge_of_the_spread_is_in_it(median: float, is_within: bool) -> None:
    second = BenchBuilder().add("E1", ms("pageable.to", median)).build()
    (found,) = repeats(bench(1.0, 50), second)
    assert found.is_within is is_within


def test_verdicts_that_differ_are_named() -> None:
    assert list(flips(bench(1.0, 50), bench(1.0, 50))) == []
    (flip,) = flips(bench(1.0, 50), bench(6.0, 50))
    assert flip == "E1 A copy from pinned memory is faster: confirmed, then refuted"
