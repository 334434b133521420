"""Which of two figures is less, where they are the same, and where their spreads do not say."""

import pytest
from bench_builder import BenchBuilder, count, measured, ms

from pinprof.bench.figures import Order, order, times
from pinprof.bench.judging import Measured, against, not_less
from pinprof.bench.results import Figure


def exact(value: float) -> Figure:
    return ms("x", value, value, value)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (ms("x", 1.0, 0.9, 1.1), ms("y", 1.3, 1.2, 1.4), "less"),
        (ms("x", 1.3, 1.2, 1.4), ms("y", 1.0, 0.9, 1.1), "more"),
        (
            ms("x", 1.0, 0.9, 1.25),
            ms("y", 1.3, 1.2, 1.4),
            "less",
        ),  # they overlap, but both are off at once in few cases
        (ms("x", 1.0, 0.9, 1.3), ms("y", 1.3, 1.2, 1.4), "unsure"),
        (ms("x", 1.0, 0.98, 1.03), ms("y", 1.02, 1.0, 1.05), "same"),  # at most 7 % apart
        (ms("x", 1.0, 0.9, 1.1), ms("y", 1.0, 0.9, 1.1), "unsure"),  # 20 % apart, for all that is known
        (ms("x", 1.0, 0.96, 1.0), ms("y", 1.0, 1.0, 1.05), "same"),  # 9 % apart
        (ms("x", 1.0, 0.96, 1.0), ms("y", 1.0, 1.0, 1.07), "same"),  # 8 % apart, unless both are off at once
        (ms("x", 1.0, 0.94, 1.0), ms("y", 1.0, 1.0, 1.1), "unsure"),
        (ms("x", 2.18, 0.255, 18.6), ms("y", 2.17, 1.5, 8.02), "unsure"),
        (exact(1.0), exact(1.03), "same"),
        (exact(1.0), exact(1.05), "less"),
        (exact(0.0), exact(0.0), "same"),
        (exact(0.0), exact(1.0), "less"),
        (ms("x", 0.0, 0.0, 0.0), ms("y", 0.0, 0.0, 1.0), "unsure"),
        (measured("x", "%", 0, 0, 0.4), measured("y", "%", 1, 0.6, 1.4), "same"),  # in points
        (measured("x", "%", 0, 0, 12), measured("y", "%", 1, 0, 12), "unsure"),
        (measured("x", "%", 0, 0, 0), measured("y", "%", 90, 89, 91), "less"),
        (count("x", "waits", 2), count("y", "waits", 1000), "less"),
        (count("x", "waits", 1000), count("y", "waits", 1000), "same"),
    ],
)
def test_the_order_of_two_figures(first: Figure, second: Figure, expected: Order) -> None:
    assert order(first, second) == expected
    assert order(second, first) == {"less": "more", "more": "less"}.get(expected, expected)


def test_medians_that_are_the_same_where_the_spreads_are_not_are_told_so() -> None:
    text = against(ms("x", 2.18, 0.255, 18.6), ms("y", 2.17, 1.5, 8.02))
    assert text == (
        "2.18 ms (x) against 2.17 ms (y), the same in the middle, but not within the spread "
        "(255 µs to 18.6 ms; 1.50 to 8.02 ms)"
    )


@pytest.mark.parametrize(
    ("more", "less", "text"),
    [
        (1.17, 1, "1.17 times"),
        (6823, 1, "6,820 times"),
        (66, 2, "33 times"),
        (0.2, 3, "0.0667 times"),
        (1, 0, "many times"),
    ],
)
def test_how_many_times_one_number_is_another_reads_in_three_digits(more: float, less: float, text: str) -> None:
    assert times(more, less) == text


@pytest.mark.parametrize(
    ("first", "outcome"),
    [
        (ms("x", 1.0, 0.99, 1.01), "confirmed"),
        (ms("x", 1.06, 0.95, 1.2), "confirmed"),  # unsure, but at least 94 % of the other
        (ms("x", 1.06, 0.85, 1.2), "depends"),
        (ms("x", 0.9, 0.89, 0.91), "refuted"),
    ],
)
def test_no_less_is_what_may_not_be_less_by_as_much_as_matters(first: Figure, outcome: str) -> None:
    bench = BenchBuilder().add("E1", first, ms("y", 1.0)).build()
    assert not_less("x", "y")(Measured(bench, "E1")).outcome == outcome
