import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from analysed import analysed
from page_reader import Page
from trace_builder import TraceBuilder

from pinprof.analysis import analyse
from pinprof.measurement.profile import Profile
from pinprof.measurement.trust import FIGURE_KINDS, Doubt
from pinprof.measurement.trust.doubt import FigureKind
from pinprof.report.timeline.kinds import EVENT_KINDS
from pinprof.report.trace.first_screen import first_screen
from pinprof.report.trace.page import to_html
from pinprof.report.trace.steps_chart import steps_chart, steps_svg
from pinprof.report.trace.verdict import why_no_finding
from pinprof.rules.search import find
from pinprof.trace import read_trace
from pinprof.trace.tables import Trace


def measured(builder: TraceBuilder, folder: Path) -> tuple[Trace, Profile]:
    analysis = analysed(builder, folder)
    return analysis.trace, analysis.profile


def waiting(sites: int = 1, steps: int = 3, sizes: Sequence[int] = (300_000,)) -> TraceBuilder:
    """Steps of 1000 µs: 100 to 500 a kernel, 510 to 540 a pageable copy of 300 kB, awaited from 20."""
    builder = TraceBuilder()
    for step, time in enumerate(builder.steps(steps)):
        builder.kernel(time + 100, 400, launch=time + 1)
        builder.op("aten::to", time + 15, 530)
        size = sizes[step % len(sizes)]
        builder.copy("HtoD (Pageable -> Device)", time + 510, 30, launch=time + 20, call=521, size=size)
        builder.kernel(time + 700, 100, launch=time + 690)
        for site in range(1, sites):
            builder.op(f"my::op{site}", time + 800 + 5 * site, 4)
            builder.call("cudaStreamSynchronize", time + 801 + 5 * site, 2)
    return builder


# each chart


def stepping(lengths: Sequence[int], busy: int = 50) -> TraceBuilder:
    """Steps of these lengths in µs, each with one kernel."""
    builder, time = TraceBuilder(), 0.0
    for step, length in enumerate(lengths):
        builder.step(step, time, length - 1)
        builder.kernel(time + 5, busy, launch=time + 1)
        time += length
    return builder


def test_the_parts_of_a_bar_add_up_to_its_step(tmp_path: Path) -> None:
    chart = steps_chart(*measured(stepping([100] * 6), tmp_path), 0)
    assert chart
    assert chart.numbers == [1, 2, 3, 4, 5]  # where the work of the first begins is not known
    assert [EVENT_KINDS[kind].label for kind in chart.parts] == ["kernels alone", "idle"]
    assert sum(chart.parts.values()).tolist() == chart.lengths == [100_000] * 5  # type: ignore[union-attr]
    assert "Unlike the others" not in chart.caption
    assert steps_chart(*measured(stepping([100] * 2), tmp_path), 0) is None


def test_a_step_unlike_the_others_is_drawn_to_the_top_with_its_length(tmp_path: Path) -> None:
    trace, profile = measured(stepping([100, 101, 99, 100, 1000, 100, 100, 100]), tmp_path)
    chart = steps_chart(trace, profile, 0)
    assert chart
    assert chart.unlike == [5]  # on the GPU it is the next one that ends late
    assert chart.top_ns < 500_000 < chart.lengths[4]
    assert "Unlike the others: 5." in chart.caption
    drawn = steps_svg(chart)
    assert "step 5: 1.00 ms, unlike the others" in drawn
    assert all(float(high) <= 180 for high in re.findall(r'<rect[^>]* height="([^"]+)"', drawn))


def test_many_steps_are_gathered_in_bars(tmp_path: Path) -> None:
    chart = steps_chart(*measured(stepping([100] * 402), tmp_path), 0)
    assert chart
    assert chart.gathered == 3
    assert "A bar is the mean of 3 steps" in chart.caption
    assert "3 steps from 1, idle: 50.0 \u00b5s" in steps_svg(chart)


def test_the_chart_has_axes_a_legend_and_patterns(tmp_path: Path) -> None:
    chart = steps_chart(*measured(waiting(), tmp_path), 0)
    assert chart
    drawn = steps_svg(chart)
    page = Page(drawn)
    assert page.misnested == []
    assert page.text.startswith("The median step takes 1.00")
    assert 'aria-label="The median step takes 1.00 ms' in drawn
    assert {"ms", "step", "0", "0.5", "1"} <= set(re.findall(r">([^<>]+)</text>", drawn))
    assert "exposed copies" in page.text
    hatches = set(re.findall(r'<pattern id="([^"]+)"', drawn))
    assert set(re.findall(r"url\(#([^)]+)\)", drawn)) == hatches
    assert len(hatches) == 1


# on the page


@pytest.mark.parametrize(
    ("figure", "absent"),
    [
        ("overlap", {"A bar is a step on GPU 0"}),
        ("busy", {"A bar is a step on GPU 0"}),
        ("step", {"The median step takes"}),
    ],
)
def test_what_the_trace_is_not_fit_for_is_not_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figure: FigureKind, absent: set[str]
) -> None:
    trace = read_trace(waiting(sites=8, steps=20, sizes=(300_000, 301_000, 302_000)).write(tmp_path / "trace.json"))
    whole = Page(to_html([analyse(trace)])).text
    lost = Doubt("a test", "is one", "stop it", frozenset({figure}))
    monkeypatch.setattr("pinprof.measurement.measure.doubts_of", lambda *_: (lost,))
    assert figure in FIGURE_KINDS
    text = Page(to_html([analyse(trace)])).text
    assert "a test" in text
    for words in absent:
        assert words in whole
        assert words not in text


# the headline


def test_what_no_rule_knows_is_not_called_nothing(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for step in range(3):  # the GPU is idle while work is queued, but for a short time
        builder.step(step, 1000 * step, 990)
        builder.op("aten::mm", 1000 * step, 985)
        builder.kernel(1000 * step + 800, 199, launch=1000 * step + 3)
        builder.kernel(1000 * step + 100, 400, launch=1000 * step + 1)
        builder.kernel(1000 * step + 700, 100, launch=1000 * step + 2)
    trace, profile = measured(builder, tmp_path)
    assert find(profile, trace) == ()
    assert why_no_finding(first_screen(profile, find(profile, trace))).startswith("No rule of pinprof fits")
