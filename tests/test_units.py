import pytest

from pinprof.ground.units import between, counted, duration, listed, milliseconds, percent, ranged, rate, size


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        *((0, "0 ns"), (-0.4, "0 ns"), (7, "7 ns"), (999, "999 ns"), (1000, "1.00 µs"), (430_000, "430 µs")),
        *((999_900, "1.00 ms"), (2_200_000, "2.20 ms"), (18_640_000, "18.6 ms"), (99_960_000, "100 ms")),
        *((1_500_000_000, "1.50 s"), (3_600_000_000_000, "3600 s"), (-430_000, "-430 µs")),
    ],
)
def test_a_duration_has_three_digits_and_the_unit_that_suits_it(ns: float, text: str) -> None:
    assert duration(ns) == text


@pytest.mark.parametrize(
    ("ms", "range_ms", "text"),
    [
        (3.0, None, "3.00 ms"),
        (3.0, (3.0, 3.0), "3.00 ms"),
        (3.0, (2.98, 3.02), "3.00 ms"),  # the digits tell as much
        (9.91, (9.5, 10.4), "9.91 ms (9.50 to 10.4)"),
        (16.9, (14.0, 24.1), "17 ms (14 to 24)"),
        (2.6, (1.9, 3.3), "2.6 ms (1.9 to 3.3)"),
        (0.93, (0.61, 1.24), "0.93 ms (0.61 to 1.2)"),
        (68.9, (20.0, 240.0), "about 70 ms (20 to 240)"),
        (11.6, (5.6, 21.9), "about 12 ms (5.6 to 22)"),  # one digit would be a sixth off
        (26.7, (3.24, 27.5), "about 27 ms (3.2 to 28)"),  # one digit would lie outside
        (0.7, (0.0, 1.44), "about 0.7 ms (0 to 1.4)"),
        (1.25, (0.0892, 2.42), "about 1.2 ms (0.089 to 2.4)"),
        (0.9996, (0.8, 1.3), "1.0 ms (0.80 to 1.3)"),
        (0.0, (0.0, 1.0), "0 ns"),
    ],
)
def test_a_time_has_the_digits_that_its_range_justifies(
    ms: float, range_ms: tuple[float, float] | None, text: str
) -> None:
    range_ns = None if range_ms is None else (range_ms[0] * 1e6, range_ms[1] * 1e6)
    assert str(ranged(ms * 1e6, range_ns)) == text


@pytest.mark.parametrize(
    ("ns", "text"), [(0, "0"), (430_000, "0.43"), (18_640_000, "18.6"), (99_960_000, "100"), (1_204_000_000, "1204")]
)
def test_a_time_of_a_column_in_ms_has_no_unit(ns: float, text: str) -> None:
    assert milliseconds(ns) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        *((0, "0 B"), (512, "512 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (1_047_552, "1023 KiB")),
        *((48 * 2**20, "48.0 MiB"), (6 * 2**30, "6.00 GiB"), (5 * 2**40, "5.00 TiB")),
    ],
)
def test_a_size_is_in_binary_units(count: float, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("gbps", "text"), [(0, "0 GB/s"), (0.5, "0.50 GB/s"), (55.31, "55.3 GB/s"), (2900, "2900 GB/s")]
)
def test_a_rate_is_in_gigabytes_per_second(gbps: float, text: str) -> None:
    assert rate(gbps) == text


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        *((0, "0 %"), (0.001, "<1 %"), (0.005, "<1 %"), (-0.1, "-10 %"), (0.42, "42 %"), (0.994, "99 %")),
        *((0.999, ">99 %"), (1, "100 %")),
    ],
)
def test_a_share_never_rounds_to_nothing_or_all(fraction: float, text: str) -> None:
    assert percent(fraction) == text


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [
        *((1.5e6, 2.7e6, "1.50 to 2.70 ms"), (0, 222e3, "0 to 222 µs"), (0.9e6, 1.1e6, "0.90 to 1.10 ms")),
        *((12.7e6, 0.95e6, "12.7 to 0.95 ms"), (0.03e6, 1.1e6, "0.030 to 1.10 ms"), (3, 18, "3 to 18 ns")),
        (1e6, 1.0001e6, "1.00 ms"),
    ],
)
def test_two_times_have_the_unit_of_the_longer_one(start: float, end: float, text: str) -> None:
    assert between(start, end) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        *((0, "0 waits"), (1, "1 wait"), (1.0, "1 wait"), (0.833333, "0.833 waits"), (1.001, "1 wait")),
        *((14.84, "14.8 waits"), (1234, "1,234 waits"), (1234.4, "1,234 waits")),
    ],
)
def test_what_is_counted_is_one_or_several(count: float, text: str) -> None:
    assert counted(count, "wait") == text


def test_of_many_names_the_first_are_listed_and_the_others_counted() -> None:
    assert listed(["a", "b", "c", "d"], 2) == "a, b and 2 more"
    assert listed(["a", "b"], 2, " and ") == "a and b"
    assert listed([], 2) == ""
