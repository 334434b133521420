"""Alignments of the waits of a step with those of watched steps, held to a search of all of them."""

from collections.abc import Iterator, Sequence
from random import Random

import pytest

from pinprof.analyses.syncs.lines.matching import Slot, align

Aligned = list[frozenset[int] | None] | None
A, B = range(2)


def slot(*fits: int, noticed: bool = True) -> Slot:
    return Slot(frozenset(fits), noticed)


def alignments(slots: Sequence[Slot], sequence: Sequence[int], shown: frozenset[int]) -> Iterator[list[int | None]]:
    """Yield, by plain recursion, which wait each slot is in each alignment, None for none."""
    if not slots and not sequence:
        yield []
    if slots and sequence and sequence[0] in slots[0].fits:
        yield from ([sequence[0], *rest] for rest in alignments(slots[1:], sequence[1:], shown))
    if slots and not slots[0].is_noticed:
        yield from ([None, *rest] for rest in alignments(slots[1:], sequence, shown))
    if sequence and sequence[0] not in shown:
        yield from alignments(slots, sequence[1:], shown)


def searched(slots: Sequence[Slot], sequences: Sequence[Sequence[int]], shown: frozenset[int]) -> Aligned:
    every = [alignment for sequence in sequences for alignment in alignments(slots, sequence, shown)]
    if not every:
        return None
    return [
        None if None in waits else frozenset(wait for wait in waits if wait is not None)
        for waits in ([alignment[number] for alignment in every] for number in range(len(slots)))
    ]


@pytest.mark.parametrize("first", range(0, 1000, 250))
def test_it_is_what_a_search_of_all_alignments_leaves(first: int) -> None:
    for seed in range(first, first + 250):
        random = Random(seed)
        waits = range(random.randint(1, 4))
        slots = [
            Slot(frozenset(wait for wait in waits if random.random() < 0.5), random.random() < 0.6)
            for _ in range(random.randint(0, 6))
        ]
        sequences = [random.choices(waits, k=random.randint(0, 6)) for _ in range(random.randint(1, 3))]
        shown = frozenset(wait for wait in waits if random.random() < 0.6)
        assert align(slots, sequences, shown) == searched(slots, sequences, shown), f"seed {seed}"


def test_many_waits_take_no_long_time() -> None:
    slots = [slot(A, B, noticed=number % 3 > 0) for number in range(500)]
    sequences = [[A] * (500 - number) + [B] * number for number in range(0, 400, 10)]
    aligned = align(slots, sequences, frozenset({A, B}))
    assert aligned is not None
    assert all(aligned)
