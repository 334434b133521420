"""The bench of a machine as a page: what a person reads and sees."""

import re

from bench_builder import H200, BenchBuilder, ms
from bench_example import example
from msgspec.structs import replace
from page_reader import Page

from pinprof.bench import verdicts
from pinprof.bench.advice import advice
from pinprof.bench.results import Bar, Picture
from pinprof.ground import hues
from pinprof.report.bench import OUTCOME_WORDS, claimed_by, experiments, reason_of, to_html

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


def test_a_picture_has_the_host_above_its_streams() -> None:
    bars = (
        Bar("stream 7", "kernel", 1.0, 3.0),
        Bar("host", "launch", 0.0, 0.5),
        Bar("stream 7", "overlapped copy", 0, 1),
        Bar("stalls", "item", 2.0, 3.0),
        Bar("stream 7", "kernel", 3.5, 4.0),
    )
    bench = BenchBuilder().add("E4", pictures=(Picture("side stream, pinned", bars, "it overlaps", 40.0),)).build()
    page = to_html(bench)
    rows = re.findall(r'<div class="track"><span>([^<]+)<', page)
    assert rows == ["host", "stalls", "stream 7"]
    caption = "side stream, pinned (the beginning of a step of 40.0 ms): it overlaps. As wide as 4.00 ms."
    assert caption in words(Page(page).text)
    kernels = re.findall(rf"light:{hues.KERNEL};[^;]*;left:([\d.]+)%;width:([\d.]+)%", page)
    assert kernels == [("25.000", "50.000"), ("87.500", "12.500")]
    assert 'title="stalls: item, 1.00 ms"' in page


def test_what_a_file_holds_is_no_code_of_the_page() -> None:
    bench = BenchBuilder(replace(H200, gpu=HOSTILE, cpu=HOSTILE, torch=HOSTILE))
    bars = (Bar(HOSTILE, HOSTILE, 0.0, 1.0),)
    bench.add(
        "E4", ms(HOSTILE, 1.0), ms(f"{HOSTILE}2", 1.0), problem=HOSTILE, pictures=(Picture(HOSTILE, bars, HOSTILE),)
    )
    page = Page(to_html(bench.build(), recorded=True))
    assert "img" not in [tag for tag, _ in page.tags]
    assert page.misnested == []
