"""Decimal microseconds to nanoseconds, against the arithmetic of the standard library."""

from decimal import ROUND_HALF_UP, Decimal, localcontext

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pinprof.trace.reader.decimals import MAX_EXACT_US, InexactError, exact_nanoseconds, nanoseconds

DIGITS = st.text("0123456789", min_size=1, max_size=16)
FRACTIONS = st.text("0123456789", min_size=0, max_size=24)
SIGNS = st.sampled_from(["", "-"])
EXPONENTS = st.sampled_from(["", "e0", "E3", "e+2", "e-7"])
LIMIT = np.iinfo(np.int64).max


def expected(text: str) -> int:
    with localcontext() as context:
        context.prec = 100
        return int((Decimal(text) * 1000).to_integral_value(ROUND_HALF_UP))


def one(text: bytes) -> int | None:
    """Return the ns of one text, None where it is not a number."""
    value, valid = nanoseconds([text])
    assert value.dtype == np.int64
    return int(value[0]) if valid[0] else None


@given(st.lists(st.tuples(st.integers(1, 4 * 10**15), st.integers(0, 999)), min_size=1, max_size=20))
def test_epoch_microseconds_with_three_decimals_are_exact(times: list[tuple[int, int]]) -> None:
    texts = [f"{whole}.{fraction:03}" for whole, fraction in times]
    value, valid = nanoseconds([text.encode() for text in texts])
    assert valid.all()
    assert value.tolist() == [int(Decimal(text) * 1000) for text in texts]


@given(st.lists(st.integers(0, 10**20), min_size=1, max_size=5))
@example([LIMIT])
@example([LIMIT - 1])
@example([LIMIT + 1])
def test_times_with_three_decimals_are_read_as_among_others(times: list[int]) -> None:
    texts = [f"{time // 1000}.{time % 1000:03}".encode() for time in times]
    among_others = nanoseconds([*texts, b"1e0"])
    for read, expected_of_them in zip(nanoseconds(texts), among_others, strict=True):
        assert read.tolist() == expected_of_them[:-1].tolist()


@given(st.lists(st.tuples(SIGNS, DIGITS, FRACTIONS, EXPONENTS), min_size=1, max_size=10))
def test_every_number_that_fits_is_exact_and_every_other_is_invalid(parts: list[tuple[str, str, str, str]]) -> None:
    texts = [f"{sign}{whole}{'.' * bool(part)}{part}{exponent}" for sign, whole, part, exponent in parts]
    value, valid = nanoseconds([text.encode() for text in texts])
    for text, ns, fits in zip(texts, value.tolist(), valid.tolist(), strict=True):
        if fits:
            assert ns == expected(text)
        else:
            assert ns == 0
            assert abs(expected(text)) > LIMIT - 1_000_000  # the last microseconds before overflow may be refused


@pytest.mark.parametrize(
    "time",
    [0.0005, 1.0005, float(MAX_EXACT_US), 1754000000123456.789, float("nan"), float("inf"), LIMIT, 2**64, 2**999],
)
def test_a_double_that_may_have_lost_digits_is_refused(time: float) -> None:
    for times in ([time], [1, time], [1.5, time]):
        with pytest.raises(InexactError):
            exact_nanoseconds(times)


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_any_bytes_are_read_or_refused(texts: list[bytes]) -> None:
    value, valid = nanoseconds(texts)
    assert len(value) == len(valid) == len(texts)
    assert not value[~valid].any()


FORMS: dict[bytes, int | None] = {
    b"0": 0,
    b"7": 7_000,
    b"1754000000123456": 1_754_000_000_123_456_000,
    b"4458676416788.066": 4_458_676_416_788_066,
    b"1754000000123456.789": 1_754_000_000_123_456_789,
    b"0.001": 1,
    b"0.3": 300,
    b"1.50": 1_500,
    b"1e3": 1_000_000,
    b"1.5E-3": 2,
    b"2.5e+2": 250_000,
    b"-3.25": -3_250,
    b"-0": 0,
    b'"12.5"': 12_500,
    b'"-1"': -1_000,
    b'" 4 "': 4_000,
    # more than three decimals round half up
    b"1.0004": 1_000,
    b"1.0005": 1_001,
    b"1.00049999": 1_000,
    b"1.0009": 1_001,
    b"1.9999": 2_000,
    b"0.00050000000000000000000000000000000001": 1,
    b"1.00049999999999999999999999999999999999": 1_000,
}
OVERFLOWS = (
    *(b"9223372036854776", b"9999999999999999999", b"18446744073709551617", b"123456789012345678901234567890"),
    *(b"1e30", b"-1e30", b"1e999999", b"1e999999999", b"-1e999999999999999999", b"9" * 400, b"9" * 400_000),
)
NO_NUMBERS = (
    *(b"", b'""', b"null", b"true", b"abc", b"1.2.3", b".", b"-", b"1e", b"1 2", b"0x10", b"NaN", b'"inf"', b'"sNaN"'),
    *(b"[1]", b"{}", b"1,5", b"\xd9\xa1", b"\xff"),
)


@pytest.mark.parametrize(("text", "ns"), [*FORMS.items(), *((text, None) for text in (*OVERFLOWS, *NO_NUMBERS))])
def test_a_number_is_read_and_anything_else_invalid(text: bytes, ns: int | None) -> None:
    assert one(text) == ns
