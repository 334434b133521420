"""Each claim with figures that confirm it, refute it, leave it open, and are missing."""

import pytest
from bench_builder import H200, BenchBuilder, count, gbps, measured, ms

from pinprof.bench.catalogue import EXPERIMENTS
from pinprof.bench.results import Figure, Machine
from pinprof.bench.verdicts import CASES, CLAIMS, STRATEGIES, Outcome, Verdict, verdicts

GIB = 1 << 30
Figures = tuple[Figure, ...]


def judged(number: str, claim: str, *figures: Figure, machine: Machine = H200) -> Verdict:
    """Return the verdict on the claim of an experiment that begins so."""
    found = [
        verdict
        for verdict in verdicts(BenchBuilder(machine).add(number, *figures).build())
        if verdict.number == number and verdict.claim.startswith(claim)
    ]
    assert len(found) == 1, found
    return found[0]


def six(**changed: float) -> Figures:
    """Return the published times of the six strategies; by name without blanks others."""
    published = (394, 316, 315, 300, 573, 324)
    return tuple(
        ms(name, changed.get(name.replace(", ", "_").replace(" ", "_"), time))
        for name, time in zip(STRATEGIES, published, strict=True)
    )


def overlapped(*shares: float) -> Figures:
    return tuple(count(f"overlapped, {case}", "%", share) for case, share in zip(CASES, shares, strict=True))


def loader(blocking: float, best: float, none: float) -> Figures:
    return ms("pageable, blocking", blocking), ms("pinned, non_blocking", best), ms("no copy", none)


def prefetched(share: float, ahead: float, plain: float) -> Figures:
    return count("overlapped, prefetcher", "%", share), ms("prefetcher", ahead), ms("plain loop", plain)


def processes(first: float, pageable: float, pinned: float) -> Figures:
    return ms("pageable, first", first), ms("pageable, later", pageable), ms("pinned, later", pinned)


def links(htod: float, dtoh: float) -> Figures:
    return (
        gbps("HtoD pinned", 4096, 1.0),
        gbps("HtoD pinned", GIB, htod),
        gbps("DtoH pinned", 4096, 1.0),
        gbps("DtoH pinned", GIB, dtoh),
    )


def staged(htod: float, dtoh: float) -> Figures:
    return (*links(50, 50), gbps("HtoD pageable", GIB, htod), gbps("DtoH pageable", GIB, dtoh))


def child(parent: float, arrived: float) -> Figures:
    return count("pinned in the parent", "yes", parent), count("pinned in the child", "yes", arrived)


def loop(with_waits: float, without: float, step: float, freed: float) -> Figures:
    return (
        count("waits, as written", "waits", with_waits),
        count("waits, without .item()", "waits", without),
        ms("as written", step),
        ms("without .item()", freed),
    )


WIDE = (0.2, 0.5)
"""Runs that lie among those of any other figure here."""
CASES_OF_CLAIMS: list[tuple[str, str, Outcome, Figures]] = [
    ("E1", "A copy from pinned", "confirmed", (ms("pinned.to", 0.315), ms("pageable.to", 0.369))),
    ("E1", "A copy from pinned", "refuted", (ms("pinned.to", 0.369), ms("pageable.to", 0.315))),
    ("E1", "A copy from pinned", "refuted", (ms("pinned.to", 0.365), ms("pageable.to", 0.369))),
    ("E1", "A copy from pinned", "depends", (ms("pinned.to", 0.315, *WIDE), ms("pageable.to", 0.369))),
    ("E1", "To pin and then", "confirmed", (ms("pageable.to", 0.369), ms("pageable.pin_memory().to", 0.433))),
    ("E1", "To pin and then", "refuted", (ms("pageable.to", 0.433), ms("pageable.pin_memory().to", 0.369))),
    ("E1", "To pin and then", "depends", (ms("pageable.to", 0.369, *WIDE), ms("pageable.pin_memory().to", 0.433))),
    ("E2", "Of many small", "confirmed", (ms("non_blocking, one synchronize", 12.05), ms("blocking", 16.35))),
    ("E2", "Of many small", "refuted", (ms("non_blocking, one synchronize", 16.35), ms("blocking", 12.05))),
    (
        "E2",
        "The host waits",
        "confirmed",
        (count("waits, blocking", "waits", 1000), count("waits, non_blocking", "waits", 1)),
    ),
    (
        "E2",
        "The host waits",
        "depends",
        (count("waits, blocking", "waits", 1000), count("waits, non_blocking", "waits", 500)),
    ),
    (
        "E2",
        "The host waits",
        "refuted",
        (count("waits, blocking", "waits", 1000), count("waits, non_blocking", "waits", 1000)),
    ),
    ("E3", "To pin and copy", "confirmed", six()),
    ("E3", "To pin and copy", "refuted", six(pin_and_copy_blocking=350)),
    ("E3", "To pin and copy", "depends", six(pin_and_copy_blocking=395)),
    ("E3", "Pinned and", "confirmed", six()),
    ("E3", "Pinned and", "refuted", six(pinned_blocking=200)),
    ("E3", "Pinned and", "depends", six(pinned_blocking=301)),
    ("E4", "A copy overlaps", "confirmed", overlapped(0, 0, 2, 98)),
    ("E4", "A copy overlaps", "refuted", overlapped(0, 0, 2, 3)),
    ("E4", "A copy overlaps", "refuted", overlapped(0, 0, 90, 98)),
    ("E4", "A copy overlaps", "depends", overlapped(0, 0, 30, 98)),
    ("E5", "Values read", "confirmed", (count("read at once", "wrong", 99, 100),)),
    ("E5", "Values read", "depends", (count("read at once", "wrong", 0, 100),)),
    ("E5", "After", "confirmed", (count("read after synchronize", "wrong", 0, 100),)),
    ("E5", "After", "refuted", (count("read after synchronize", "wrong", 1, 100),)),
    ("E6", "What is written", "confirmed", (count("pinned source", "wrong", 50, 100),)),
    ("E6", "What is written", "depends", (count("pinned source", "wrong", 0, 100),)),
    ("E6", "With a pageable", "confirmed", (count("pageable source", "wrong", 0, 100),)),
    ("E6", "With a pageable", "refuted", (count("pageable source", "wrong", 3, 100),)),
    ("E6", "After", "confirmed", (count("pinned source, written after synchronize", "wrong", 0, 100),)),
    ("E6", "After", "refuted", (count("pinned source, written after synchronize", "wrong", 3, 100),)),
    ("E7", "To pin in other", "confirmed", (ms("pin in threads then copy", 302), ms("pin then copy", 321))),
    ("E7", "To pin in other", "refuted", (ms("pin in threads then copy", 321), ms("pin then copy", 302))),
    ("E7", "To pin in other", "depends", (ms("pin in threads then copy", 302, 280, 330), ms("pin then copy", 321))),
    ("E8", "Pinned batches", "confirmed", loader(20, 10.1, 10)),
    ("E8", "Pinned batches", "depends", loader(20, 12, 10)),
    ("E8", "Pinned batches", "refuted", loader(20, 20, 10)),
    ("E9", "A batch without", "confirmed", (count("pinned, without pin_memory()", "yes", 0),)),
    ("E9", "A batch without", "refuted", (count("pinned, without pin_memory()", "yes", 1),)),
    ("E9", "With it", "confirmed", (count("pinned, with pin_memory()", "yes", 1),)),
    ("E9", "With it", "refuted", (count("pinned, with pin_memory()", "yes", 0),)),
    ("E10", "In the plain", "confirmed", (count("overlapped, plain loop", "%", 0),)),
    ("E10", "In the plain", "depends", (count("overlapped, plain loop", "%", 30),)),
    ("E10", "In the plain", "refuted", (count("overlapped, plain loop", "%", 90),)),
    ("E10", "A prefetcher", "confirmed", prefetched(98, 10, 12)),
    ("E10", "A prefetcher", "depends", prefetched(98, 12, 12)),
    ("E10", "A prefetcher", "refuted", prefetched(2, 10, 12)),
    ("E11", "The first", "confirmed", processes(1054, 20, 5)),
    ("E11", "The first", "refuted", processes(20, 20, 5)),
    ("E11", "After it", "confirmed", processes(1054, 20, 5)),
    ("E11", "After it", "depends", processes(1054, 200, 5)),
    ("E11", "After it", "refuted", processes(1054, 500, 5)),
    ("E12", "A pinned tensor", "confirmed", child(1, 0)),
    ("E12", "A pinned tensor", "refuted", child(1, 1)),
    ("E12", "A pinned tensor", "unknown", child(0, 0)),
    ("E12", "So its copy", "confirmed", (ms("pinned, sent to the child", 13.5), ms("pageable", 13.7))),
    ("E12", "So its copy", "refuted", (ms("pinned, sent to the child", 3), ms("pageable", 13.7))),
    ("E12", "So its copy", "depends", (ms("pinned, sent to the child", 11, 9, 14), ms("pageable", 13.7))),
    ("E13", "Copies of pinned", "confirmed", links(55.3, 52)),
    ("E13", "Copies of pinned", "depends", links(55.3, 40)),
    ("E13", "Copies of pinned", "refuted", links(25, 25)),
    ("E13", "Copies of pinned", "unknown", links(80, 80)),
    ("E13", "Those of pageable", "confirmed", staged(9, 9)),
    ("E13", "Those of pageable", "depends", staged(9, 50)),
    ("E13", "Those of pageable", "refuted", staged(50, 50)),
    ("E14", "The .item()", "confirmed", loop(2, 0, 12, 10)),
    ("E14", "The .item()", "depends", loop(2, 0, 10, 10)),
    ("E14", "The .item()", "refuted", loop(2, 2, 12, 10)),
]


@pytest.mark.parametrize(("number", "claim", "outcome", "figures"), CASES_OF_CLAIMS)
def test_a_verdict_follows_from_the_figures(number: str, claim: str, outcome: Outcome, figures: Figures) -> None:
    assert judged(number, claim, *figures).outcome == outcome


@pytest.mark.parametrize(("number", "claim"), [(number, claim) for number, claim, _ in CLAIMS])
def test_without_figures_a_claim_is_unknown_and_says_what_is_missing(number: str, claim: str) -> None:
    verdict = judged(number, claim)
    assert verdict.outcome == "unknown"
    assert verdict.text.startswith("not measured: ")
    (other,) = (each for each in verdicts(BenchBuilder().build()) if each.claim == claim and each.number == number)
    assert (other.outcome, other.text) == ("unknown", "the experiment did not run")


def test_every_experiment_has_a_claim_and_every_claim_can_turn_out_either_way() -> None:
    assert {number for number, _, _ in CLAIMS} == {known.number for known in EXPERIMENTS}
    for number, claim, _ in CLAIMS:
        outcomes = {outcome for at, begin, outcome, _ in CASES_OF_CLAIMS if at == number and claim.startswith(begin)}
        assert "confirmed" in outcomes, claim
        assert outcomes & {"refuted", "depends"}, claim


def test_what_went_wrong_is_said_with_the_missing_figure() -> None:
    bench = BenchBuilder().add("E7", ms("blocking", 1.0), problem="out of memory").build()
    (verdict,) = (each for each in verdicts(bench) if each.number == "E7")
    assert verdict.text == "not measured: pin in threads then copy (out of memory)"


def test_a_difference_is_told_with_its_figures() -> None:
    text = judged("E1", "A copy from pinned", ms("pinned.to", 0.1), ms("pageable.to", 0.4)).text
    assert text == "100 µs (pinned.to) against 400 µs (pageable.to), 4 times as fast"


def test_a_difference_within_the_spread_is_told_with_the_spread() -> None:
    text = judged("E1", "A copy from pinned", ms("pinned.to", 0.315, 0.2, 0.5), ms("pageable.to", 0.4, 0.3, 0.6)).text
    assert "a difference within the spread (200 to 500 µs; 300 to 600 µs)" in text


def test_a_hazard_that_did_not_show_may_all_the_same() -> None:
    text = judged("E5", "Values", count("read at once", "wrong", 0, 100)).text
    assert text == "did not show in 100 tries on this machine; it may all the same"


def test_a_link_that_the_driver_does_not_report_leaves_the_claim_open() -> None:
    unknown = Machine("NVIDIA H200", None, None, "2.11.0", "3.12.3", None, 16, None, None)
    verdict = judged("E13", "Copies of pinned", *links(55.3, 52), machine=unknown)
    assert verdict.outcome == "unknown"
    assert "55.3 GB/s" in verdict.text


def test_figures_of_nothing_are_judged_all_the_same() -> None:
    bench = BenchBuilder()
    for number, _, _, figures in CASES_OF_CLAIMS:
        bench.add(number, *(measured(figure.name, figure.unit, 0, 0, 0, figure.size) for figure in figures))
        assert verdicts(bench.build())
