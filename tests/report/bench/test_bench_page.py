"""The bench of a machine as a page: what a person reads, and what the charts are drawn from."""

import re

import numpy as np
import pytest
from bench_builder import H200, BenchBuilder, ms
from bench_example import example
from msgspec.structs import replace
from page_reader import Page

from pinprof.bench import verdicts
from pinprof.bench.advice import advice
from pinprof.bench.results import Bar, Picture
from pinprof.ground import hues
from pinprof.report.bench.page import bandwidth_chart, picture_chart, times_chart, to_html
from pinprof.report.bench.view import OUTCOME_WORDS, claimed_by, experiments, reason_of
from pinprof.report.charts.svg import chart_svg

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


def test_there_is_a_chart_for_all_times_the_rates_and_each_case() -> None:
    page = to_html(example())
    assert len(page) < 400_000
    assert page.count('text-anchor="middle">size of the copy</text>') == 1
    assert page.count('class="xtitle"') == 1 + 2 + 4  # experiments with several times, and the cases of E4


def test_a_bar_is_a_time_with_its_spread_and_the_published_one() -> None:
    chart = times_chart([ms("pageable.to", 0.4, 0.3, 0.6), ms("pinned.to", 0.1)], {"pageable.to": 0.369})
    assert chart is not None
    (here,), (published,) = chart.bars, chart.marks
    assert (here.length, [*here.place]) == ([0.4, 0.1], [0, 1])
    assert np.array(here.spread) == pytest.approx(np.array([(0.3, 0.6), (0.099, 0.101)]))
    assert (published.x, published.y) == ([0.369], [0])


def test_rates_are_drawn_with_those_of_the_link() -> None:
    chart = bandwidth_chart(example())
    assert chart is not None
    assert [len(line.x) for line in chart.marks] == [10] * 4
    assert chart.x.is_log
    assert chart.lines == pytest.approx([63.0, 55.0], rel=1e-3)
    without = bandwidth_chart(replace(example(), machine=replace(H200, pcie_generation=None)))
    assert without is not None
    assert not without.lines
    assert not without.labels


def test_a_picture_has_the_host_above_its_streams() -> None:
    bars = (
        Bar("stream 7", "kernel", 1.0, 3.0),
        Bar("host", "launch", 0.0, 0.5),
        Bar("stream 7", "overlapped copy", 0, 1),
        Bar("stalls", "item", 2.0, 3.0),
        Bar("stream 7", "kernel", 3.5, 3.75),
    )
    chart = picture_chart(Picture("side stream, pinned", bars, "it overlaps", 40.0), 4.0)
    assert [text for _, text in chart.y.labels] == ["host", "stalls", "stream 7"]
    assert chart.caption == "side stream, pinned (the first 3.75 ms of a step of 40.0 ms): it overlaps"
    drawn = {one.key.label: one for one in chart.bars}
    assert drawn.keys() == {"runtime call", ".item()", "kernel", "overlapped copies"}
    kernel = drawn["kernel"]
    assert (kernel.start, kernel.length, kernel.place) == ([1.0, 3.5], [2.0, 0.25], [2, 2])
    assert drawn["overlapped copies"].key.colour == hues.OVERLAPPED
    assert drawn[".item()"].hover == ["stalls: .item(), 1.00 ms"]
    starts = re.findall(rf'light:{hues.KERNEL};[^>]* x="([\d.]+)%"', chart_svg(chart))
    assert starts == ["25.000", "87.500"]  # of 4 ms: bars of one row do not push each other


def test_what_a_file_holds_is_no_code_of_the_page() -> None:
    bench = BenchBuilder(replace(H200, gpu=HOSTILE, cpu=HOSTILE, torch=HOSTILE))
    bars = (Bar(HOSTILE, HOSTILE, 0.0, 1.0),)
    bench.add(
        "E4", ms(HOSTILE, 1.0), ms(f"{HOSTILE}2", 1.0), problem=HOSTILE, pictures=(Picture(HOSTILE, bars, HOSTILE),)
    )
    page = Page(to_html(bench.build(), recorded=True))
    assert "img" not in [tag for tag, _ in page.tags]
    assert page.misnested == []
