"""Advice whose figures and values can be checked by eye."""

import pytest
from bench_builder import BenchBuilder, gbps, ms

from pinprof.bench.advice import advice
from pinprof.prediction.pinning import Advice

KIB, MIB = 1 << 10, 1 << 20


def said(bench: BenchBuilder, name: str) -> Advice:
    (piece_found,) = (piece for piece in advice(bench.build()) if piece.name == name)
    return piece_found


def rates(pinned: list[float], pageable: list[float]) -> BenchBuilder:
    """Return rates of copies to the GPU of 4 KiB, 16 KiB, 64 KiB and so on."""
    return BenchBuilder().add(
        "E13",
        *(gbps("HtoD pinned", 4 * KIB * 4**place, rate) for place, rate in enumerate(pinned)),
        *(gbps("HtoD pageable", 4 * KIB * 4**place, rate) for place, rate in enumerate(pageable)),
    )


def test_pinning_pays_from_the_size_on_from_which_all_are_faster() -> None:
    piece = said(rates([1, 3, 10, 50], [2, 2, 8, 9]), "pinning_pays_from_htod")
    assert (piece.value, piece.unit) == (16 * KIB, "bytes")
    assert piece.text == (
        "Pin host memory of copies to the GPU from 16.0 KiB on: 3.00 GB/s pinned, 2.00 GB/s pageable there; "
        "50.0 GB/s pinned, 9.00 GB/s pageable at 256 KiB."
    )
    assert said(rates([3, 2, 10, 50], [2, 2, 8, 9]), "pinning_pays_from_htod").value == 64 * KIB  # not at 16


@pytest.mark.parametrize(
    ("fresh", "words", "anew"),
    [
        (2.0, ", but only in pinned memory that torch has kept: it takes 200 µs against 400 µs", "2.00 ms"),
        (0.3, ": it takes 200 µs against 400 µs", "300 µs"),
    ],
)
def test_to_pin_and_copy_is_told_with_what_fresh_memory_takes(fresh: float, words: str, anew: str) -> None:
    pinning = "pageable.pin_memory().to"
    figures = (ms(pinning, 0.2), ms("pageable.to", 0.4), ms(f"{pinning}, fresh memory", fresh))
    text = said(BenchBuilder().add("E1", *figures), "pin_then_copy").text
    assert text == f"x.pin_memory().to(device) is faster than x.to(device){words}; pinned in fresh memory, {anew}."


def test_where_the_spreads_do_not_say_whether_pinning_pays_nothing_is_said() -> None:
    unsure = BenchBuilder().add("E13", gbps("HtoD pinned", 4096, 20, 5, 60), gbps("HtoD pageable", 4096, 10, 4, 30))
    assert advice(unsure.build()) == []
