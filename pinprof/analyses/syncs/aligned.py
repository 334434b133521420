"""Aligns the waits of a step in the trace with those of the watched steps, both in order.

Each side may have waits that the other lacks: torch's sync debug mode does not warn of a synchronize that a library
calls, and a copy that was watched may be too small to stall. What a wait is, is certain if all alignments with all
watched steps agree.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple


class Slot(NamedTuple):
    """A wait of the trace, as far as it decides which watched waits it may be."""

    fits: frozenset[int]
    """The watched waits that it may be."""
    is_noticed: bool
    """Whether watching notices each such wait."""


def align(
    slots: Sequence[Slot], sequences: Sequence[Sequence[int]], shown: frozenset[int]
) -> list[frozenset[int] | None] | None:
    """Return per slot the watched waits that it is in some alignment; None where it is none of them in one.

    Return None if the slots can be aligned with no sequence. `shown` are the watched waits that every trace shows.
    """
    result: list[frozenset[int] | None] = [frozenset()] * len(slots)
    is_aligned = False
    for sequence in sequences:
        before = _states(slots, sequence, shown)
        if not before[-1] >> len(sequence) & 1:
            continue
        is_aligned = True
        behind = _states(slots[::-1], sequence[::-1], shown)[::-1]
        masks = _masks(slots, sequence)
        for number, slot in enumerate(slots):
            after = _reversed(behind[number + 1], len(sequence) + 1)
            places = _bits(before[number] & masks[slot.fits] & after >> 1)
            known, waits = result[number], frozenset(sequence[place] for place in places)
            may_be_none = not slot.is_noticed and bool(before[number] & after)
            result[number] = None if known is None or may_be_none else known | waits
    return result if is_aligned else None


def _states(slots: Sequence[Slot], sequence: Sequence[int], shown: frozenset[int]) -> list[int]:
    """Return how many waits of a sequence may lie before each slot, and before the end: bit j stands for j of them."""
    masks = _masks(slots, sequence)
    skipped = sum(1 << place for place, wait in enumerate(sequence) if wait not in shown)

    def with_skipped(states: int) -> int:
        return states | (skipped + (states & skipped)) ^ skipped  # the sum carries to the end of a run of ones

    def after(states: int, slot: Slot) -> int:
        unnoticed = 0 if slot.is_noticed else states
        return with_skipped((states & masks[slot.fits]) << 1 | unnoticed)

    return list(accumulate(slots, after, initial=with_skipped(1)))


def _masks(slots: Sequence[Slot], sequence: Sequence[int]) -> dict[frozenset[int], int]:
    """Return the places of a sequence that fit each slot, as bits."""
    return {
        fits: sum(1 << place for place, wait in enumerate(sequence) if wait in fits)
        for fits in {slot.fits for slot in slots}
    }


def _reversed(number: int, bits: int) -> int:
    return int(f"{number:0{bits}b}"[::-1], 2)


def _bits(number: int) -> Iterator[int]:
    """Yield the places of the ones of a number."""
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low
