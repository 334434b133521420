"""What several rounds say of the next one."""

import pytest

from pinprof.bench.results import Figure, Measured, of_rounds, times


def rounds(unit: str, *medians: float) -> list[Measured]:
    return [Measured("copy", unit, middle, 0.99 * middle, 1.01 * middle, runs=10) for middle in medians]


@pytest.mark.parametrize(
    ("unit", "medians", "spread"),
    [
        ("ms", (4.0,), (3.96, 4.04)),
        ("ms", (4.0, 4.0, 4.0), (3.96, 4.04)),  # rounds that agree have the spread of their runs
        *((unit, (2.0, 4.0, 8.0), (1.98, 8.08)) for unit in ("%", "times", "waits")),  # of their runs
    ],
)
def test_the_spread_of_rounds_says_how_far_another_bench_may_lie(
    unit: str, medians: tuple[float, ...], spread: tuple[float, float]
) -> None:
    figure = of_rounds(rounds(unit, *medians))
    assert (figure.median, figure.runs) == (4.0, 10 * len(medians))
    assert (figure.low, figure.high) == pytest.approx(spread, rel=1e-3)


ALIKE = (50.0, 50.5, 51.0, 51.5, 52.0, 52.5)


@pytest.mark.parametrize("disturbed", [3.0, 900.0])
def test_one_round_of_seven_that_was_disturbed_widens_nothing(disturbed: float) -> None:
    figure = of_rounds(rounds("GB/s", *ALIKE, disturbed))
    assert 48 < figure.low < figure.median < figure.high < 56
    assert figure.runs == 70


@pytest.mark.parametrize(("medians", "disturbed"), [(ALIKE[:5], (3.0, 3.0)), (ALIKE[:3], (3.0,))])
def test_two_of_seven_and_one_of_four_do(medians: tuple[float, ...], disturbed: tuple[float, ...]) -> None:
    figure = of_rounds(rounds("GB/s", *medians, *disturbed))
    assert figure.low < 3.0


def test_a_figure_is_the_median_of_its_values_with_tenths_and_an_answer_is_whether_all_are_yes() -> None:
    assert Figure("E1", "copy").of([*range(1, 12)], 8) == Measured("copy", "ms", 6.0, 2.0, 10.0, 11, 8)
    assert Figure("E1", "copy").of([3.0]) == Measured("copy", "ms", 3.0, 3.0, 3.0, 1)
    assert Figure("E9", "pinned", "yes").of([True, False]) == Measured("pinned", "yes", 0.0, 0.0, 1.0, 2)


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
