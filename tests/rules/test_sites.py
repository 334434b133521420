"""Sites with one rule and one fix: one finding, and what fixing all of them and each alone saves."""

from collections.abc import Callable

import pytest
from one_after_another import one_after_another
from trace_builder import TraceBuilder

from pinprof.analysis import Analysis, analyse
from pinprof.report.trace.text import MAX_LISTED_SITES, trace_to_text
from pinprof.rules import savings
from pinprof.rules.rule import Finding

Scene = Callable[[TraceBuilder, float], None]


def analysed(builder: TraceBuilder) -> Analysis:
    return analyse(builder.read())


def findings_of(builder: TraceBuilder) -> list[Finding]:
    """Return what is found besides launches that come late, which these hand-built hosts have, too."""
    return [finding for finding in analysed(builder).findings if finding.rule.family != "launches"]


def text_of(analysis: Analysis) -> str:
    return " ".join(trace_to_text(analysis.profile, analysis.findings, width=160).split())


def saving_ns(finding: Finding) -> float:
    assert finding.saving
    return finding.saving.saving_ns


def scene(add: Scene) -> TraceBuilder:
    """Return a trace of four steps of 1 ms with a kernel at each end of a step."""
    builder = TraceBuilder()
    for start in builder.steps(4):
        builder.kernel(start + 20, 80, launch=start + 10)
        add(builder, start)
        builder.kernel(start + 800, 180, launch=start + 790)
    return builder


def copies_at(*functions: str, memory: str = "Pageable", first: float = 120) -> Scene:
    """Return copies to the GPU of 50 µs, one in each function."""

    def add(builder: TraceBuilder, start: float) -> None:
        for number, name in enumerate(functions):
            at = start + first + 100 * number
            builder.function(f"train.py(3): {name}", at, 95)
            builder.copy(f"HtoD ({memory} -> Device)", at + 10, 50, launch=at + 5, call=60)

    return add


# waits


def test_ten_sites_that_each_only_move_the_wait_are_one_finding_that_saves_what_all_of_them_save() -> None:
    (finding,) = findings_of(one_after_another(10))
    assert finding.rule.id == "PIN201"
    assert {str(site.evidence.place) for site in finding.sites} == {f"value{number}" for number in range(10)}
    assert [site.saving.saving_ns for site in finding.sites if site.saving] == [0] * 10
    assert saving_ns(finding) > 2_500_000  # the host works for 3 ms while the first kernel still runs
    assert finding.severity == "high"


def test_a_site_says_how_many_others_the_wait_may_move_to_and_all_together_say_nothing() -> None:
    three, two = (findings_of(one_after_another(reads))[0].evidence for reads in (3, 2))
    moves = "for the same work: removed only here, the wait may move there"
    assert three.sites[0].text.endswith(f"; 2 more sites wait {moves}")
    assert two.sites[0].text.endswith(f"; one more site waits {moves}")
    assert "same work" not in three.text


def test_the_figures_of_a_finding_are_the_sums_of_its_sites_the_costliest_first() -> None:
    (finding,) = findings_of(one_after_another(3))
    costs = [site.evidence.cost_ns for site in finding.sites]
    assert costs == sorted(costs, reverse=True)
    assert finding.evidence.cost_ns == sum(costs)
    assert finding.evidence.place == finding.sites[0].evidence.place
    assert finding.evidence.text.startswith("aten::item at 3 sites: 3 per step; as traced, the host waits ")
    assert finding.evidence.edits.unwaited == frozenset().union(
        *(site.evidence.edits.unwaited for site in finding.sites)
    )


def test_what_costs_nothing_and_waits_for_nothing_else_is_no_site() -> None:
    def waits(builder: TraceBuilder, start: float) -> None:
        for name, at in (("idle", start + 30), ("busy", start + 810)):  # the last kernel covers what comes after
            builder.function(f"train.py(3): {name}", at - 2, 104)
            builder.op("aten::item", at, 100)
            builder.call("cudaStreamSynchronize", at + 10, 80)
        builder.kernel(start + 985, 12, launch=start + 780)

    (finding,) = findings_of(scene(waits))
    assert [site.evidence.function for site in finding.sites] == ["idle"]


# copies


def test_copies_of_several_places_are_one_finding_with_their_sums() -> None:
    (finding,) = findings_of(scene(copies_at("one", "two", "three")))
    assert finding.evidence.text.startswith("3 HtoD copies of pageable memory per step at 3 sites (")
    assert "exposed for 150 µs of 150 µs" in finding.evidence.text
    assert [site.evidence.figures.split(",")[0] for site in finding.sites] == ["1 per step"] * 3
    assert len(finding.evidence.edits.pinned) == 3 * 4
    assert finding.saving is not None
    assert len(finding.alone) == 3


def test_copies_together_hide_behind_no_more_kernels_than_there_are() -> None:
    (finding,) = findings_of(scene(copies_at("a", "b", "c", "d", "e", "f", memory="Pinned")))
    assert [site.evidence.cost_ns for site in finding.sites] == [50_000] * 6
    assert finding.evidence.cost_ns == 260_000  # of 300 µs exposed, beside 260 µs of kernels


# replays


def test_so_many_sites_get_a_replay_of_their_own_the_costliest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(savings, "MAX_REPLAYS", 2)
    (finding,) = findings_of(one_after_another(5))
    assert finding.saving
    assert [site.saving is not None for site in finding.sites] == [True, True, False, False, False]


# words


def test_the_terminal_lists_some_sites_and_counts_the_rest() -> None:
    text = text_of(analysed(one_after_another(10))).split("What to do")[1]
    assert text.count("(train.py): aten::item, 1 per step, as traced stall ") == MAX_LISTED_SITES == 5
    assert text.count("alone saves nothing") == 5
    assert "- and 5 more sites: --json Fix: " in text
    assert text.count("Fix: Keep the value on the GPU") == 1
