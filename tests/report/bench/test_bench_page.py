"""The bench of a machine as a page: what a person reads, and what the charts are drawn from."""

import pytest
from bench_builder import H200, BenchBuilder, ms
from bench_example import example
from msgspec.structs import replace
from page_reader import Page

from pinprof import hues
from pinprof.bench import verdicts
from pinprof.bench.advice import advice
from pinprof.bench.results import Bar, Picture
from pinprof.report.bench.page import bandwidth_chart, picture_chart, times_chart, to_html
from pinprof.report.bench.view import OUTCOME_WORDS, claimed_by, experiments, reason_of

HOSTILE = "</script><img src=x onerror=alert(1)>"


def words(text: str) -> str:
    return " ".join(text.split())  # numbers keep their units by blanks that do not break


def test_the_page_begins_with_what_to_do() -> None:
    page = Page(to_html(example()))
    assert page.misnested == []
    text = words(page.text)
    for piece in advice(example()):
        assert words(piece.text) in text
    assert (
        text.index("pinprof bench on NVIDIA H200")
        < text.index("What to do")
        < text.index("What holds of the published claims")
    )
    assert words(advice(example())[-1].text) in text[: text.index("What holds of the published claims")]


def test_every_claim_has_its_verdict() -> None:
    text = words(Page(to_html(example())).text)
    for verdict in verdicts(example()):
        claim = (verdict.claim, OUTCOME_WORDS[verdict.outcome], verdict.number, claimed_by(verdict))
        figures = (verdict.published or "-", verdict.measured or "-")
        assert words(" ".join((*claim, *figures))) in text
    for known, _, _ in experiments(example()):
        for verdict in (verdict for verdict in verdicts(example()) if verdict.number == known.number):
            outcome = OUTCOME_WORDS[verdict.outcome].capitalize()
            reason = f"{outcome} {verdict.claim} ({claimed_by(verdict)}): {reason_of(verdict)}."
            assert text.count(words(reason)) == 1


def test_experiments_that_failed_or_did_not_run_are_named() -> None:
    text = words(Page(to_html(example())).text)
    assert "Problem: the child was killed: out of memory" in text
    assert "Not run: E2, E3, E5, E7, E9, E10, E11, E14, E15." in text


def test_there_is_a_chart_for_all_times_the_rates_and_each_case() -> None:
    page = to_html(example())
    assert len(page) < 400_000
    assert page.count('text-anchor="middle">size of the copy</text>') == 1
    assert page.count('class="xtitle"') == 1 + 2 + 4  # experiments with several times, and the cases of E4


def test_a_bar_is_a_time_with_its_spread_and_the_published_one() -> None:
    chart = times_chart([ms("pageable.to", 0.4, 0.3, 0.6), ms("pinned.to", 0.1)], {"pageable.to": 0.369})
    assert chart is not None
    here, published = chart.data
    assert (here["x"], here["y"]) == ([0.4, 0.1], [0, 1])
    assert here["error_x"]["array"] == pytest.approx([0.2, 0.001])
    assert here["error_x"]["arrayminus"] == pytest.approx([0.1, 0.001])
    assert (published["x"], published["y"]) == ([0.369], [0])


def test_rates_are_drawn_with_those_of_the_link() -> None:
    chart = bandwidth_chart(example())
    assert chart is not None
    assert [len(line["x"]) for line in chart.data] == [10] * 4
    assert chart.layout["xaxis"]["type"] == "log"
    assert [shape["y0"] for shape in chart.layout["shapes"]] == pytest.approx([63.0, 55.0], rel=1e-3)
    without = bandwidth_chart(replace(example(), machine=replace(H200, pcie_generation=None)))
    assert without is not None
    assert "shapes" not in without.layout


def test_a_picture_has_the_host_above_its_streams() -> None:
    bars = (
        Bar("stream 7", "kernel", 1.0, 3.0),
        Bar("host", "launch", 0.0, 0.5),
        Bar("stream 7", "overlapped copy", 0, 1),
        Bar("stalls", "item", 2.0, 3.0),
    )
    chart = picture_chart(Picture("side stream, pinned", bars, "it overlaps", 40.0), 4.0)
    assert chart.layout["yaxis"]["ticktext"] == ["host", "stalls", "stream 7"]
    assert chart.caption == "side stream, pinned (the first 3.00 ms of a step of 40.0 ms): it overlaps"
    series = {series_of["name"]: series_of for series_of in chart.data}
    assert series.keys() == {"runtime call", ".item()", "kernel", "overlapped copies"}
    kernel = series["kernel"]
    assert (kernel["base"], kernel["x"], kernel["y"]) == ([1.0], [2.0], [2])
    assert series["overlapped copies"]["marker"]["color"] == hues.OVERLAPPED
    assert series[".item()"]["hovertext"] == ["stalls: .item(), 1.00 ms"]


def test_what_a_file_holds_is_no_code_of_the_page() -> None:
    bench = BenchBuilder(replace(H200, gpu=HOSTILE, cpu=HOSTILE, torch=HOSTILE))
    bars = (Bar(HOSTILE, HOSTILE, 0.0, 1.0),)
    bench.add(
        "E4", ms(HOSTILE, 1.0), ms(f"{HOSTILE}2", 1.0), problem=HOSTILE, pictures=(Picture(HOSTILE, bars, HOSTILE),)
    )
    page = Page(to_html(bench.build(), recorded=True))
    assert "img" not in [tag for tag, _ in page.tags]
    assert page.misnested == []
