"""Reads numbers and compares texts at many positions of a buffer at once, eight bytes to a word.

No step loops over rows in Python: a word is loaded at each position, and its eight characters are worked on together.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from pinprof.trace.tables import Bools, Int64s

Words: TypeAlias = npt.NDArray[np.uint64]

WORD = 8
PADDING = 2048
"""Bytes that a buffer must have beyond the last position that is read: the texts that are compared may lie there."""
MAX_WHOLE_US = 9 * 10**15
"""More microseconds than this may not fit int64 as nanoseconds."""

_ZEROS = np.uint64(0x3030303030303030)
_ONES = np.uint64(0x0101010101010101)
_HIGH_BITS = np.uint64(0x8080808080808080)
_ABOVE_NINE = np.uint64(0x7676767676767676)
_BYTE = np.uint64(0xFF)
_POWERS = 10 ** np.arange(9, dtype=np.int64)
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)


def overlapping_words(buffer: bytearray) -> Words:
    """Return the eight bytes at each position of a buffer as a little-endian number, without a copy."""
    return np.ndarray((len(buffer) - WORD + 1,), "<u8", buffer=buffer, strides=(1,))


def word(text: bytes) -> np.uint64:
    """Return a text of up to eight bytes as it is loaded from a buffer, zeros after it."""
    return np.uint64(int.from_bytes(text, "little"))


def mask(size: Int64s) -> Words:
    """Return words with ones in as many first bytes, up to eight."""
    return _MASKS[size]


def byte_at(words: Words, at: Int64s) -> Words:
    """Return the byte at each position."""
    return words[at] & _BYTE


def stands_at(words: Words, at: Int64s, text: bytes) -> Bools:
    """Return at which of the positions the text stands."""
    result = np.ones(len(at), bool)
    for offset in range(0, len(text), WORD):
        part = text[offset : offset + WORD]
        loaded = words[at + offset]
        result &= (loaded if len(part) == WORD else loaded & _MASKS[len(part)]) == word(part)
    return result


def decimals_at(words: Words, at: Int64s) -> tuple[Int64s, Int64s, Bools]:
    """Return the microseconds at each position in ns, where they end, and which are `digits[.digits]` and exact."""
    whole, end, plain = _naturals(words, at)
    following = words[end]
    fraction, decimals = _leading_digits(following >> np.uint64(8))
    has_point = (following & _BYTE) == ord(".")
    decimals = np.where(has_point, decimals, 0)
    plain &= (whole < MAX_WHOLE_US) & (decimals <= 3) & (has_point <= (decimals > 0))  # noqa: PLR2004  ns
    value = whole * 1000 + np.where(has_point, fraction, 0) * _POWERS[3 - np.minimum(decimals, 3)]
    return value, end + decimals + has_point, plain


def integers_at(words: Words, at: Int64s) -> tuple[Int64s, Bools]:
    """Return the integer at each position, and which are one of up to 16 digits and nothing more."""
    negative = (words[at] & _BYTE) == ord("-")
    value, end, plain = _naturals(words, at + negative)
    ending = words[end] & _BYTE
    plain &= (ending == ord(",")) | (ending == ord("}")) | (ending == ord("\n")) | (ending == ord(" "))
    return np.where(negative, -value, value), plain


def _naturals(words: Words, at: Int64s) -> tuple[Int64s, Int64s, Bools]:
    """Return the digits at each position as a number, where they end, and which are 1 to 16 without a leading zero."""
    first = words[at]
    value, count = _leading_digits(first)
    plain = (count > 0) & (((first & _BYTE) != ord("0")) | (count == 1))
    end = at + count
    longer = np.flatnonzero(count == WORD)
    if len(longer):
        everywhere = len(longer) == len(at)
        chosen = slice(None) if everywhere else longer
        more, digits = _leading_digits(words[end[chosen]])
        value[chosen] = value[chosen] * _POWERS[digits] + more
        end[chosen] += digits
        beyond = (words[end[chosen]] & _BYTE) - np.uint64(ord("0"))
        plain[chosen] &= (digits < WORD) | (beyond > 9)  # noqa: PLR2004  no digit
    return value, end, plain


def _leading_digits(loaded: Words) -> tuple[Int64s, Int64s]:
    """Return the number that the first digits of each word make, and how many they are."""
    digits = loaded ^ _ZEROS
    others = ((digits + _ABOVE_NINE) | digits) & _HIGH_BITS  # right up to the first that is not a digit
    others &= ~others + np.uint64(1)
    kept = (others >> np.uint64(7)) - np.uint64(1)
    count = ((kept & _ONES) * _ONES) >> np.uint64(56)
    digits &= kept
    digits <<= (np.uint64(WORD) - count) << np.uint64(3)
    digits = (digits * np.uint64(10) + (digits >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
    digits = (digits * np.uint64(100) + (digits >> np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
    digits = (digits * np.uint64(10_000) + (digits >> np.uint64(32))) & np.uint64(0xFFFFFFFF)
    return digits.view(np.int64), count.view(np.int64)
