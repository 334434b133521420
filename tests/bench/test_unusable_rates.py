"""Rates beyond what the link carries: PCIe 5.0 x16, 63.0 GB/s."""

import pytest
from bench_builder import H200, BenchBuilder, gbps, measured
from msgspec.structs import replace

from pinprof.bench.advice import advice
from pinprof.bench.catalogue import ClaimVerdict, verdicts
from pinprof.bench.figures import refused
from pinprof.bench.results import Figure, Machine

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
QUIET = tuple(gbps("HtoD pinned", size, 54) for size in (4 * MIB, 16 * MIB, 64 * MIB))
WILD = gbps("HtoD pinned", GIB, 54, 13, 207)


def names(*figures: Figure, machine: Machine = H200) -> list[tuple[str, int | None]]:
    return [(rate.figure, rate.size) for rate in refused(BenchBuilder(machine).add("E13", *figures).build())]


@pytest.mark.parametrize(
    ("figure", "is_refused"),
    [
        (WILD, True),
        (gbps("DtoH pageable", MIB, 12, 5, 70), True),
        (gbps("HtoD pinned", GIB, 54, 13, 62), False),
        (gbps("DtoD", GIB, 1500, 100, 4000), False),  # not over the link
        (measured("host busy, HtoD pageable", "%", 100, 90, 110, GIB), False),
        (measured("rate, pinned, non_blocking", "GB/s", 50, 10, 100), True),  # of a training step
    ],
)
def test_a_rate_whose_spread_goes_beyond_the_link_is_refused(figure: Figure, is_refused: bool) -> None:
    assert names(*QUIET, figure) == ([(figure.name, figure.size)] if is_refused else [])


def test_the_reason_has_the_figures() -> None:
    (refusal,) = refused(BenchBuilder().add("E13", *QUIET, WILD).build())
    assert refusal.text == (
        "the rounds differ too much: HtoD pinned at 1.00 GiB 54.0 GB/s (13.0 GB/s to 207 GB/s), where PCIe 5.0 x16 "
        "carries 63.0 GB/s"
    )


IDLE = replace(H200, pcie_generation=1)
"""A link of 4 GB/s, as it is reported while it rests."""


def test_a_link_that_is_faster_than_the_driver_reports_refuses_nothing() -> None:
    assert names(*QUIET, WILD, machine=replace(H200, pcie_generation=None)) == []  # not known
    assert names(*QUIET, WILD, machine=IDLE) == []
    noisy = [gbps("HtoD pinned", size, 54, 3, 200) for size in (4 * MIB, 16 * MIB, 64 * MIB)]
    assert names(*noisy, machine=IDLE) == []  # by the medians of most
    small = gbps("HtoD pinned", 4 * KIB, 3, 1, 9)
    assert names(small, gbps("HtoD pinned", GIB, 3), machine=IDLE) == [("HtoD pinned", 4 * KIB)]


def judged(claim: str, *figures: Figure) -> ClaimVerdict:
    of_bench = verdicts(BenchBuilder().add("E13", *figures).build())
    return next(verdict for verdict in of_bench if verdict.number == "E13" and verdict.claim.startswith(claim))


def both_ways(size: int, pinned: float, low: float, high: float) -> tuple[Figure, ...]:
    return tuple(
        figure
        for way in ("HtoD", "DtoH")
        for figure in (gbps(f"{way} pinned", size, pinned, low, high), gbps(f"{way} pageable", size, 12))
    )


def test_what_is_refused_decides_no_claim() -> None:
    verdict = judged("Copies of pinned memory have", *both_ways(16 * MIB, 53, 13, 207))
    assert verdict.outcome == "unknown"
    assert verdict.text.startswith("the rounds differ too much: HtoD pinned at 16.0 MiB 53.0 GB/s")


def test_other_sizes_decide_without_it_if_they_are_half_of_all_at_least() -> None:
    quiet, wild = both_ways(16 * MIB, 53, 52, 54), both_ways(64 * MIB, 53, 13, 207)
    verdict = judged("Those of pageable", *quiet, *wild)
    assert verdict.outcome == "confirmed"
    assert verdict.text.endswith("; 2 rates of other sizes left out, as their rounds differ too much")
    assert judged("Those of pageable", *quiet, *wild, *both_ways(256 * MIB, 53, 13, 207)).outcome == "unknown"


def test_that_copies_vary_is_judged_by_those_that_do() -> None:
    quiet, wild = (
        [figure for part in (1, 2, 4) for figure in both_ways(part * size, 53, *spread)]
        for size, spread in ((MIB, (53, 53)), (16 * MIB, (1, 207)))
    )
    assert judged("Pinned memory makes", *quiet).outcome == "confirmed"
    assert judged("Pinned memory makes", *quiet, *wild).outcome == "depends"
    assert judged("Pinned memory makes", *wild).outcome == "refuted"


def test_no_advice_is_made_of_it() -> None:
    pieces = {piece.name: piece for piece in advice(BenchBuilder().add("E13", *both_ways(GIB, 53, 13, 207)).build())}
    assert "pinning_pays_from_htod" not in pieces
    assert "link_reached" not in pieces
