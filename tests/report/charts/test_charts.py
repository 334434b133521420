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
from pinprof.report.charts.chart import Axis, Chart, Key, PlotBars
from pinprof.report.charts.copies import MAX_COPY_MARKS, copies_chart
from pinprof.report.charts.steps import steps_chart
from pinprof.report.charts.svg import chart_svg
from pinprof.report.trace.first_screen import first_screen
from pinprof.report.trace.page import to_html
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


def test_copies_are_drawn_by_size_and_rate_with_kinds_and_the_link_apart(tmp_path: Path) -> None:
    builder = waiting()
    builder.metadata["deviceProperties"] = [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}]
    builder.copy("DtoH (Device -> Pinned)", 900, 10, launch=880, size=400_000)
    builder.copy("DtoD (Device -> Device)", 920, 1, launch=881, size=900_000)
    chart = copies_chart(measured(builder, tmp_path)[0])
    assert chart
    drawn = {marks.key.label: (marks.x, marks.y, marks.key.symbol) for marks in chart.marks}
    assert drawn == {
        "HtoD pageable: 3 copies": ([300_000] * 3, [10.0] * 3, "x"),
        "DtoH pinned: 1 copy": ([400_000], [40.0], "circle-open"),
    }
    assert len({key.colour for key in chart.keys}) == 2
    assert chart.lines == [55]
    assert "PCIe 5.0" in chart.labels[0].text
    assert "Not drawn: 1 that are not between host and GPU" in chart.caption


def test_many_copies_are_gathered_and_the_chart_says_so(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for number in range(MAX_COPY_MARKS + 1):
        builder.copy("HtoD (Pinned -> Device)", 10 * number + 5, 2, launch=10 * number, size=1000 + number % 2)
    chart = copies_chart(measured(builder, tmp_path)[0])
    assert chart
    assert chart.marks[0].x == [1000]
    assert "2,001 like this" in chart.marks[0].hover[0]
    assert "A mark stands for all copies of about the same size and rate" in chart.caption


def stepping(lengths: Sequence[int], busy: int = 50) -> TraceBuilder:
    """Steps of these lengths in µs, each with one kernel."""
    builder, time = TraceBuilder(), 0.0
    for step, length in enumerate(lengths):
        builder.step(step, time, length - 1)
        builder.kernel(time + 5, busy, launch=time + 1)
        time += length
    return builder


def test_the_parts_of_a_bar_add_up_to_its_step_and_the_first_step_is_as_long_as_on_the_host(tmp_path: Path) -> None:
    chart = steps_chart(*measured(stepping([100] * 6), tmp_path), 0)
    assert chart
    kernels, idle, host = chart.bars
    assert [one.key.label.split(":")[0] for one in chart.bars] == ["kernels alone", "idle", "on the host"]
    assert (kernels.place, host.place) == ([1, 2, 3, 4, 5], [0])  # where the work of the first begins is not known
    assert [sum(both) for both in zip(kernels.length, idle.length, strict=True)] == pytest.approx([0.1] * 5)
    assert "None of these is unlike the others" in chart.caption


def test_a_step_unlike_the_others_is_drawn_to_the_top_with_its_length(tmp_path: Path) -> None:
    trace, profile = measured(stepping([100, 101, 99, 100, 1000, 100, 100, 100]), tmp_path)
    chart = steps_chart(trace, profile, 0)
    assert chart
    (unlike,) = chart.marks
    assert unlike.x == [5]  # on the GPU it is the next one that ends late
    assert unlike.y[0] < chart.y.high < 0.5
    assert "1.00 ms" in [label.text for label in chart.labels]
    assert "Step 5 is unlike the others" in chart.caption
    drawn = chart_svg(chart)
    assert "step 5: 1.00 ms, unlike the others" in drawn
    assert all(float(high) <= 180 for high in re.findall(r'<rect[^>]* height="([^"]+)"', drawn))


def test_a_chart_is_drawn_with_its_axes_marks_and_patterns(tmp_path: Path) -> None:
    chart = copies_chart(measured(waiting(sizes=(300_000, 400_000, 900_000)), tmp_path)[0])
    assert chart
    page = Page(chart_svg(chart))
    assert page.misnested == []
    drawn = [attributes for tag, attributes in page.tags if tag == "text"]
    assert sum((one.get("class") or "").startswith("hue mark") for one in drawn) == 3
    assert "HtoD pageable, 293 KiB in 30.0 µs: 10.0 GB/s" in page.text.replace("\N{NO-BREAK SPACE}", " ")
    assert {"GB/s", "size of the copy"} <= set(re.findall(r">([^<>]+)</text>", chart_svg(chart)))


# on the page


def test_a_chart_says_in_words_what_it_shows_and_cannot_break_out() -> None:
    key = Key("</script><b>", "#000", pattern="/")
    series = PlotBars(key, [1], [2], ["\x1b<b>"])
    page = Page(chart_svg(Chart("a < b", 200, Axis(0, 2), Axis(0, 2), [series], keys=[key])))
    assert page.misnested == []
    assert page.text.startswith("a < b </script><b>")
    assert "\N{REPLACEMENT CHARACTER}<b>" in page.text
    assert next(attributes for _, attributes in page.tags if "role" in attributes)["aria-label"] == "a < b"


@pytest.mark.parametrize(
    ("figure", "absent"),
    [
        ("overlap", {"A bar is a step on GPU 0"}),
        ("copies", {"the fastest at"}),
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
