"""Advice whose figures and values can be checked by eye."""

import pytest
from bench_builder import BenchBuilder, count, gbps, ms

from pinprof.bench.advice import Advice, advice

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


def test_nothing_is_advised_without_figures() -> None:
    assert advice(BenchBuilder().build()) == []
    assert advice(BenchBuilder().add("E1").add("E13").add("E8").build()) == []


def test_pinning_pays_from_the_size_on_from_which_all_are_faster() -> None:
    piece = said(rates([1, 3, 10, 50], [2, 2, 8, 9]), "pinning_pays_from_htod")
    assert (piece.value, piece.unit) == (16 * KIB, "bytes")
    assert piece.text == (
        "Pin host memory of copies to the GPU from 16.0 KiB on: 3.00 GB/s pinned, 2.00 GB/s pageable there; "
        "50.0 GB/s pinned, 9.00 GB/s pageable at 256 KiB."
    )
    assert said(rates([3, 2, 10, 50], [2, 2, 8, 9]), "pinning_pays_from_htod").value == 64 * KIB  # not at 16


def test_pinning_that_never_pays_has_no_size() -> None:
    piece = said(rates([1, 2, 9], [1, 2, 9]), "pinning_pays_from_htod")
    assert piece.value is None
    assert "need no pinned memory" in piece.text


def test_pinning_is_paid_for_by_the_copies_that_it_makes_faster() -> None:
    bench = BenchBuilder().add(
        "E1",
        ms("pageable.to", 0.4),
        ms("pinned.to", 0.1),
        ms("pageable.pin_memory()", 0.7),
        ms("pageable.pin_memory().to", 0.8),
        sizes={"floats": 1_048_576},
    )
    piece = said(bench, "pinning_paid_after")
    assert piece.value == 3  # 700 µs, at 300 µs a copy
    assert "to pin 4.00 MiB costs 700 µs and saves 300 µs per copy, so it is paid for after 3 copies" in piece.text
    piece = said(bench, "pin_then_copy")
    assert piece.value == 2
    assert piece.text == "Write x.to(device), not x.pin_memory().to(device): it takes 800 µs against 400 µs."
    no_faster = (ms("pageable.to", 0.1), ms("pinned.to", 0.1), ms("pageable.pin_memory()", 0.7))
    never = BenchBuilder().add("E1", *no_faster, sizes={"floats": 1024})
    assert said(never, "pinning_paid_after").value is None


@pytest.mark.parametrize(
    ("pinning", "words"), [(0.2, "is faster than"), (0.4, "is no faster than"), (0.6, "Write x.to(device), not")]
)
def test_to_pin_and_copy_is_told_for_what_it_is(pinning: float, words: str) -> None:
    bench = BenchBuilder().add("E1", ms("pageable.pin_memory().to", pinning), ms("pageable.to", 0.4))
    assert words in said(bench, "pin_then_copy").text


def test_what_one_tensor_does_not_tell_of_to_pin_and_copy_many_do() -> None:
    bench = BenchBuilder().add("E1", ms("pageable.pin_memory().to", 0.2, 0.1, 0.4), ms("pageable.to", 0.3, 0.2, 0.5))
    assert said(bench, "pin_then_copy").text == (
        "Whether x.pin_memory().to(device) is faster than x.to(device) is not sure: it takes 200 µs against 300 µs."
    )
    bench.add("E3", ms("pin and copy, blocking", 200), ms("pageable, blocking", 400))
    assert said(bench, "pin_then_copy").text == (
        "x.pin_memory().to(device) is faster than x.to(device): it takes 200 µs against 300 µs and for many tensors "
        "200 ms against 400 ms."
    )


def test_what_is_pinned_once_is_pinned_in_fresh_memory() -> None:
    figures = (ms("pageable.to", 0.4), ms("pinned.to", 0.1), ms("pageable.pin_memory()", 0.05))
    piece = said(BenchBuilder().add("E1", *figures), "pinning_paid_after")
    assert piece.value == 1
    piece = said(BenchBuilder().add("E1", *figures, ms("pageable.pin_memory(), fresh memory", 2)), "pinning_paid_after")
    assert piece.value == 7  # 2 ms, at 300 µs a copy


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


@pytest.mark.parametrize(
    ("ahead", "words"),
    [(10, "Copy on a side stream"), (12, "brings no measurable gain"), (14, "Leave copies on the default")],
)
def test_a_side_stream_is_told_for_what_it_brings(ahead: float, words: str) -> None:
    bench = BenchBuilder().add("E10", ms("prefetcher", ahead), ms("plain loop", 12))
    bench.add("E4", count("overlapped, side stream, pinned", "%", 98))
    piece = said(bench, "side_stream")
    assert words in piece.text
    assert "98 %" in piece.text
    assert piece.value == pytest.approx(12 / ahead, abs=1e-3)


def test_pageable_copies_do_not_block_up_to_the_first_that_waits() -> None:
    blocked = (0.01, 0.02, 15.0, 0.03)
    bench = BenchBuilder().add(
        "E13", *(ms("blocked, HtoD pageable", time, size=16 * KIB * 4**place) for place, time in enumerate(blocked))
    )
    piece = said(bench, "pageable_free_up_to")
    assert (piece.value, piece.unit) == (64 * KIB, "bytes")
    assert "one of 256 KiB holds the host for 15.0 ms" in piece.text
    blocked_always = BenchBuilder().add("E13", ms("blocked, HtoD pageable", 15.0, size=4096))
    assert said(blocked_always, "pageable_free_up_to").value is None


@pytest.mark.parametrize(
    ("times", "enough"),
    [
        ((8, 4, 2, 1), 8),
        ((8, 4, 4, 4.1), 2),
        ((4, 4, 4, 4), 1),
        ((4, 4, 2, 2), 4),
        ((8, 4, 3.7, 3.7), 2),
        ((8, 4, 3.5, 3.4), 4),
    ],
)
def test_enough_workers_are_those_after_which_more_bring_little(times: tuple[float, ...], enough: int) -> None:
    bench = BenchBuilder().add("E8", *(ms("batch, N workers", time, size=2**place) for place, time in enumerate(times)))
    assert said(bench, "pin_workers").value == enough


def test_the_link_is_told_with_what_is_reached_of_it() -> None:
    piece = said(rates([1, 31.508], [1, 2]), "link_reached")
    assert piece.value == pytest.approx(0.5, abs=1e-3)
    assert piece.text == ("Pinned copies reach HtoD 31.5 GB/s of the 63.0 GB/s of PCIe 5.0 x16; 55.0 GB/s is usual.")


def test_where_the_spreads_do_not_say_whether_pinning_pays_nothing_is_said() -> None:
    unsure = BenchBuilder().add("E13", gbps("HtoD pinned", 4096, 20, 5, 60), gbps("HtoD pageable", 4096, 10, 4, 30))
    unsure.add("E1", ms("pageable.to", 0.1, 0.05, 0.3), ms("pinned.to", 0.1), ms("pageable.pin_memory()", 0.7))
    names = {piece.name for piece in advice(unsure.build())}
    assert not names & {"pinning_pays_from_htod", "pinning_paid_after"}
