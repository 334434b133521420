"""Tells the repeated texts of a trace apart without making an object of each: names, categories, threads."""

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any

import numpy as np

from pinprof.trace.scan.words import Words, mask
from pinprof.trace.tables import NONE, Int32s, Int64s

MOST_BYTES = 1 << 16
"""A longer text is left to the caller."""
SLOT_BITS = 16
"""Room for the names of a large model and its Python functions; those that find none cost a look into a dictionary."""

_WORD = 8
_SEEDS = np.random.default_rng()
"""A trace cannot be written to make its texts collide: every process has another hash."""
_KEYS = _SEEDS.integers(1 << 64, size=MOST_BYTES // _WORD + 1, dtype=np.uint64, endpoint=False) | np.uint64(1)
_MIXERS = tuple(_SEEDS.integers(1 << 64, size=2, dtype=np.uint64, endpoint=False) | np.uint64(1))
_HALF, _THIRD = np.uint64(32), np.uint64(29)


class Codes:
    """Numbers for values in the order in which they are first asked for; may be asked by many threads."""

    def __init__(self) -> None:
        self._codes: dict[Hashable, int] = {}
        self._lock = Lock()

    def __getitem__(self, value: Hashable) -> int:
        with self._lock:
            return self._codes.setdefault(value, len(self._codes))

    def values(self) -> tuple[Any, ...]:
        """Return the values in the order of their numbers."""
        return tuple(self._codes)


class Texts:
    """What the texts of one kind mean: `meaning` is asked once for each text, -1 for one that means nothing.

    For one thread alone. Two texts are one if their 64-bit hashes are equal, which chance alone brings about once in
    thousands of years of reading traces.
    """

    def __init__(self, meaning: Callable[[bytes], int], slot_bits: int = SLOT_BITS) -> None:
        self._meaning = meaning
        self._shift = 64 - slot_bits
        self._known: dict[int, int] = {}
        self._hashes = np.zeros(1 << slot_bits, np.uint64)
        self._values = np.zeros(1 << slot_bits, np.int32)

    def codes(self, buffer: bytearray, words: Words, begin: Int64s, end: Int64s) -> Int32s:
        """Return what the text means that lies from `begin` to `end`, for each of them."""
        if len(begin) == 0:
            return np.empty(0, np.int32)
        hashes = _hashes(words, begin, np.minimum(end, begin + MOST_BYTES + 1))
        slot = (hashes >> np.uint64(self._shift)).view(np.int64)
        codes = self._values[slot]
        others = np.flatnonzero(self._hashes[slot] != hashes)
        if len(others):
            codes[others] = self._look_up(buffer, hashes[others], begin[others], end[others])
        return codes

    def _look_up(self, buffer: bytearray, hashes: Words, begin: Int64s, end: Int64s) -> Int32s:
        different, first, which = np.unique(hashes, return_index=True, return_inverse=True)
        values = []
        for key, row in zip(different.tolist(), first.tolist(), strict=True):
            value = self._known.get(key)
            if value is None:
                is_long = end[row] - begin[row] > MOST_BYTES
                value = NONE if is_long else self._meaning(bytes(buffer[begin[row] : end[row]]))
                self._known[key] = value
                slot = key >> self._shift
                if not self._hashes[slot]:
                    self._hashes[slot], self._values[slot] = key, value
            values.append(value)
        return np.array(values, np.int32)[which]


def _hashes(words: Words, begin: Int64s, end: Int64s) -> Words:
    """Return a hash of each text, never 0: the sum of its words, each mixed with its place."""
    length = end - begin
    count = np.maximum((length + (_WORD - 1)) >> 3, 1)
    behind = np.cumsum(count)
    first = behind - count
    place = np.arange(behind[-1]) - np.repeat(first, count)
    loaded = words[np.repeat(begin, count) + (place << 3)]
    loaded[behind - 1] &= mask(length - ((count - 1) << 3))
    loaded *= _MIXERS[0]
    loaded ^= loaded >> _HALF
    loaded += _KEYS[place]
    loaded *= _MIXERS[1]
    loaded ^= loaded >> _THIRD
    loaded *= _KEYS[place]
    loaded ^= loaded >> _HALF
    sums = np.add.reduceat(loaded, first) + length.view(np.uint64)
    sums *= _MIXERS[0]
    return np.maximum(sums ^ (sums >> _HALF), np.uint64(1))
