"""Turns decimal microseconds, as a trace prints them, into exact int64 nanoseconds.

A float does not suffice: the start times of a trace are microseconds since 1970 or since the last quarter of a year,
and a double has no room left for the digits after the point.
"""

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

import msgspec
import numpy as np

from pinprof.trace.tables import Bools, Int64s

MAX_DIGITS = 19  # more decimal digits do not fit int64
MAX_EXACT_US = 2**43  # smaller doubles are closer to each other than nanoseconds
_MAX = np.iinfo(np.int64).max


class InexactError(ValueError):
    """A float is not exact: the time has to be read from its text."""


def exact_nanoseconds(microseconds: Sequence[float]) -> Int64s:
    """Return times in ns. Raises InexactError if one is not a number or has digits that a float does not hold."""
    column = np.array(microseconds)
    if column.dtype == np.int64 and column.min() >= -(_MAX // 1000) and column.max() <= _MAX // 1000:
        return column * 1000
    if column.dtype != np.float64 or not (np.abs(column) < MAX_EXACT_US).all():
        raise InexactError
    whole = np.floor(column)
    value = whole.astype(np.int64) * 1000 + np.rint((column - whole) * 1000).astype(np.int64)
    if not np.array_equal(value / 1000, column):  # it has more than three decimals
        raise InexactError
    return value


def nanoseconds(texts: Sequence[bytes | msgspec.Raw]) -> tuple[Int64s, Bools]:
    """Return JSON numbers of microseconds, also in quotes, in ns, rounded half up, and whether each fits."""
    if not texts:
        return np.empty(0, np.int64), np.empty(0, bool)
    if (usual := _usual_decimals(b",".join(texts), len(texts))) is not None:
        return usual, np.ones(len(usual), bool)
    values = [_any_number(bytes(text)) for text in texts]
    return np.array([value or 0 for value in values], np.int64), np.array([value is not None for value in values])


def _usual_decimals(texts: bytes, count: int) -> Int64s | None:
    """Return the times if all have three decimals, as torch writes them: without the point they are ns; else None."""
    characters = np.frombuffer(texts + b",", np.uint8)
    ends, points = np.flatnonzero(characters == ord(",")), np.flatnonzero(characters == ord("."))
    if len(ends) != count or not np.array_equal(points, ends - len(".000")) or texts.translate(None, b"0123456789.,"):
        return None
    value = np.fromstring(texts.replace(b".", b""), np.int64, sep=",")
    is_exact = np.diff(ends, prepend=-1).max() <= MAX_DIGITS + len(".,") and value.max() < _MAX  # more digits give this
    return value if is_exact else None


def _any_number(text: bytes) -> int | None:
    """Return the time of any number, also with a sign, an exponent or quotes; None if it is none, or does not fit."""
    try:
        number = Decimal(text.decode("ascii").strip('" '))
    except (InvalidOperation, ValueError):
        return None
    # Arithmetic with a number out of Decimal's range raises; one of as many digits as its exponent says is slow.
    if not number.is_finite() or (number and number.adjusted() >= MAX_DIGITS):
        return None
    value = int(number.quantize(Decimal("0.001"), "ROUND_HALF_UP") * 1000)  # a product would round to 28 digits first
    return value if abs(value) < _MAX else None
