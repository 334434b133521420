"""The plotly timeline: bars that can be checked by eye, identities with the report, and the page in Chromium."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from analysed import analysed
from chromium import Pages
from playwright.sync_api import Page
from quick import slow_but
from recordings import TRACES, analysis_of
from trace_builder import SIDE, TraceBuilder

from pinprof.ground.units import NS_PER_MS
from pinprof.measurement.trust.doubt import given
from pinprof.report.timeline.figure import MAX_STEP_BUTTONS, PlotlyFigure, timeline_chart, timeline_page
from pinprof.report.timeline.steps import whole_window

TITLE = ("trace.json", "1.00 ms per step.")
RECORDED = ("loss_item.stack", "overlap_side_pinned", "experiments/e10.prefetcher", "ranks/averaged_loss.rank0.before")


def steps(count: int, *, cut_off: bool = False) -> TraceBuilder:
    """Return steps of 1 ms: a kernel from 100 to 400 µs, a copy from 300 to 500 on another stream, a wait for it."""
    builder = TraceBuilder()
    for number in range(count):
        at = 1000 * number
        builder.step(number + 3, at, 990)
        builder.kernel(at + 100, 300, launch=at + 50)
        builder.copy("HtoD (Pinned -> Device)", at + 300, 200, launch=at + 60, stream=SIDE)
        builder.call("cudaDeviceSynchronize", at + 70, 440)
    if cut_off:
        builder.step(count + 3, 1000 * count, 990)
        builder.kernel(1000 * count + 100, 50, launch=1000 * count + 50)
    return builder


def drawn(chart: PlotlyFigure) -> list[tuple[str, str, float, float]]:
    """Return row, kind, start and length of series bar, by row and start."""
    axis = chart.layout["yaxis"]
    texts = dict(zip(axis["tickvals"], axis["ticktext"], strict=True))
    bars = [
        (row, start, texts.get(row, ""), series["name"], length)
        for series in chart.data
        for row, start, length in zip(series["y"], series["base"], series["x"], strict=True)
    ]
    return [(text, kind, start, length) for _, start, text, kind, length in sorted(bars)]


def one(chart: PlotlyFigure, name: str) -> dict[str, Any]:
    (only,) = [series for series in chart.data if series["name"] == name]
    return only


def lines_of(chart: PlotlyFigure) -> list[str]:
    """Return what stands below the title."""
    lines: list[str] = chart.layout["title"]["subtitle"]["text"].split("<br>")
    return lines


# what is drawn


def test_each_event_has_its_bar(tmp_path: Path) -> None:
    assert drawn(timeline_chart(analysed(steps(2), tmp_path), TITLE)) == [
        ("host", "step", 0.0, 0.99),
        ("host", "step", 1.0, 0.99),
        ("GPU", "step", 0.1, 0.4),  # from its first work
        ("GPU", "step", 0.5, 1.0),  # from the end of the step before
        ("stalls", "torch.cuda.synchronize()", 0.07, 0.44),
        ("stalls", "torch.cuda.synchronize()", 1.07, 0.44),
        ("calls", "runtime call", 0.05, 0.002),
        ("calls", "runtime call", 0.06, 0.002),
        ("calls", "runtime call", 0.07, 0.44),
        ("calls", "runtime call", 1.05, 0.002),
        ("calls", "runtime call", 1.06, 0.002),
        ("calls", "runtime call", 1.07, 0.44),
        ("overlap", "kernels alone", 0.1, 0.2),
        ("overlap", "overlapped copies", 0.3, 0.1),
        ("overlap", "exposed copies", 0.4, 0.1),
        ("overlap", "idle", 0.5, 0.6),
        ("overlap", "kernels alone", 1.1, 0.2),
        ("overlap", "overlapped copies", 1.3, 0.1),
        ("overlap", "exposed copies", 1.4, 0.1),
        ("stream 7", "kernel", 0.1, 0.3),
        ("stream 7", "kernel", 1.1, 0.3),
        ("stream 20", "overlapped copies", 0.3, 0.1),
        ("stream 20", "exposed copies", 0.4, 0.1),
        ("stream 20", "overlapped copies", 1.3, 0.1),
        ("stream 20", "exposed copies", 1.4, 0.1),
    ]


def test_a_part_of_a_copy_says_which_part_it_is_and_a_stall_its_call(tmp_path: Path) -> None:
    chart = timeline_chart(analysed(steps(1), tmp_path), TITLE)
    copy = "copies: Memcpy HtoD (Pinned -&gt; Device)</b><br>100 µs, from"
    assert one(chart, "overlapped copies")["hovertext"][-1].startswith(f"<b>overlapped {copy} 300 µs on<br>977 KiB, ")
    assert one(chart, "exposed copies")["hovertext"][-1].startswith(f"<b>exposed {copy} 400 µs on<br>977 KiB, ")
    stall = "<b>torch.cuda.synchronize(): cudaDeviceSynchronize</b><br>440 µs, from 70.0 µs on"
    assert one(chart, "torch.cuda.synchronize()")["hovertext"] == [stall]


def test_it_counts_from_the_first_complete_step(tmp_path: Path) -> None:
    chart = timeline_chart(analysed(steps(2, cut_off=True), tmp_path), TITLE)
    assert chart.layout["xaxis"]["title"]["text"] == "ms from the beginning of ProfilerStep#3"
    assert one(chart, "step")["text"] == ["ProfilerStep#3", "ProfilerStep#4"] * 2  # the third is cut off
    assert chart.layout["title"]["text"] == "trace.json"
    assert lines_of(chart) == ["1.00 ms per step.", "All 2 steps, 1.99 ms."]


# steps


def test_buttons_choose_a_step(tmp_path: Path) -> None:
    (menu,) = timeline_chart(analysed(steps(3), tmp_path), TITLE).layout["updatemenus"]
    assert [button["label"] for button in menu["buttons"]] == ["all steps", "step 3", "step 4", "step 5"]
    assert menu["buttons"][2]["args"] == [{"xaxis.range": [0.9901, 1.9999]}]  # 990 µs with 1 % on each side


def test_many_steps_are_chosen_from_a_menu(tmp_path: Path) -> None:
    counts = (1, MAX_STEP_BUTTONS, MAX_STEP_BUTTONS + 1)
    single, few, many = (timeline_chart(analysed(steps(count), tmp_path), TITLE).layout for count in counts)
    assert "updatemenus" not in single
    assert few["updatemenus"][0]["type"] == "buttons"
    assert many["updatemenus"][0]["type"] == "dropdown"
    assert len(many["updatemenus"][0]["buttons"]) == MAX_STEP_BUTTONS + 2


def test_steps_that_do_not_fit_are_left_out_whole_and_named(tmp_path: Path) -> None:
    analysis = analysed(steps(3), tmp_path)
    assert len(drawn(timeline_chart(analysis, TITLE, max_bars=38))) == 38
    chart = timeline_chart(analysis, TITLE, max_bars=37)  # 12 of each, and the idle time between two
    assert len(drawn(chart)) == 25
    assert one(chart, "step")["text"] == ["ProfilerStep#3", "ProfilerStep#4"] * 2
    assert " ".join(lines_of(chart)[1:]) == (
        "ProfilerStep#3 to ProfilerStep#4, the first of 3 steps, 1.99 ms. More would be too many bars for plotly: "
        "pinprof timeline without --plotly draws all steps."
    )


def test_of_a_step_that_does_not_fit_short_events_are_merged(tmp_path: Path) -> None:
    builder = steps(2)
    for place in range(200):
        builder.op("aten::mm", 600 + place, 0.5)
    chart = timeline_chart(analysed(builder, tmp_path), TITLE, max_bars=60)
    assert len(drawn(chart)) <= 60
    assert one(chart, "step")["text"] == ["ProfilerStep#3"] * 2
    sentences = " ".join(lines_of(chart))
    assert "events shorter than" in sentences
    assert "draws each event." in sentences


def test_a_trace_without_steps_is_drawn_whole(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(10, 5, launch=1)
    chart = timeline_chart(analysed(builder, tmp_path), TITLE)
    assert lines_of(chart)[1] == "The whole trace, in which no step is marked, 14.0 µs."
    assert chart.layout["xaxis"]["title"]["text"] == "ms from the beginning of the drawn part"
    assert ("stream 7", "kernel", 0.009, 0.005) in drawn(chart)


def test_copies_are_whole_where_their_overlap_is_withheld(tmp_path: Path) -> None:
    builder = steps(3)
    for number in range(100):
        builder.call("cudaLaunchKernel", 910 + number / 2, 0.2)  # their kernels are lost
    analysis = analysed(builder, tmp_path)
    assert analysis.profile.withheld.overlap
    chart = timeline_chart(analysis, TITLE)
    assert {kind for row, kind, *_ in drawn(chart) if row == "stream 20"} == {"copy HtoD pinned"}
    assert "overlap" not in {row for row, *_ in drawn(chart)}
    assert "The overlap of copies is not drawn: " in " ".join(lines_of(chart))


@pytest.mark.parametrize("name", slow_but(["loss_item.stack"], RECORDED))
def test_times_add_up_to_those_of_the_report(name: str) -> None:
    analysis = analysis_of(TRACES / f"{name}.json.gz")
    trace, details, profile = analysis.trace, analysis.details, analysis.profile
    bars = drawn(timeline_chart(analysis, TITLE, whole_window(analysis.trace), max_bars=100_000))

    def time_ns(kind: str, row: str) -> float:
        return round(sum(length for text, found, _, length in bars if found == kind and row in text) * NS_PER_MS)

    hidden = [found for group in profile.copies if (found := given(group.hidden))]
    assert hidden
    assert time_ns("exposed copies", "stream") == pytest.approx(sum(copies.exposed_ns for copies in hidden), abs=10)
    assert time_ns("overlapped copies", "stream") == pytest.approx(
        sum(copies.overlapped_ns for copies in hidden), abs=10
    )
    exposed_ns = details.overlap.copy_ns - details.overlap.overlapped_ns
    assert time_ns("exposed copies", "overlap") == pytest.approx(exposed_ns, abs=10)
    stalls = sum(length for text, _, _, length in bars if text == "stalls") * NS_PER_MS
    assert stalls == pytest.approx(int(trace.calls.duration_ns[details.syncs.stalls.call].sum()), abs=1000)


# in a browser


@pytest.fixture(scope="module")
def page(pages: Pages, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Give a page on a laptop's screen with the timeline of a recording."""
    file = tmp_path_factory.mktemp("page") / "timeline.html"
    file.write_text(timeline_page(analysis_of(TRACES / "loss_item.stack.json.gz")))
    with pages.opened(file, width=1280, height=800) as page:
        page.wait_for_selector("#figure .legend")
        yield page


def shown_ms(page: Page, *, before: Sequence[float] = ()) -> list[float]:
    """Return the range that is shown, once it differs from the one before."""
    page.wait_for_function("(old) => document.querySelector('#figure').layout.xaxis.range[0] !== old[0]", arg=before)
    range_ms: list[float] = page.evaluate("document.querySelector('#figure').layout.xaxis.range")
    return range_ms


@pytest.mark.slow
@pytest.mark.browser
def test_the_legend_is_seen_whole(page: Page) -> None:
    sizes = page.evaluate(
        """() => {
          const box = (name) => document.querySelector(`#figure ${name}`).getBoundingClientRect();
          const [legend, bar, plot] = [box(".legend"), box(".legend .scrollbar"), box(".nsewdrag")];
          return { bar: bar.height, below: legend.bottom, rows: plot.top, above: legend.top, end: plot.bottom };
        }"""
    )
    assert sizes["bar"] == 0
    assert 0 < sizes["above"] < sizes["below"] <= sizes["rows"] + 1
    assert sizes["end"] < 800


@pytest.mark.slow
@pytest.mark.browser
def test_many_thin_bars_of_the_band_take_no_more_room_than_their_time(pages: Pages, tmp_path: Path) -> None:
    (tmp_path / "timeline.html").write_text(timeline_page(analysis_of(TRACES / "runs/images.before.json.gz")))
    with pages.opened(tmp_path / "timeline.html", width=1280, height=800) as page:
        page.wait_for_selector("#figure .legend")
        drawn, meant = page.evaluate(
            """() => {
              const figure = document.querySelector("#figure");
              const number = figure.data.findIndex(({ name }) => name === "kernels alone");
              const paths = [...figure.querySelectorAll(".barlayer .trace")[number].querySelectorAll(".point path")];
              const ms = Array.from(figure.data[number].x).reduce((one, other) => one + other, 0);
              const { _length, range } = figure._fullLayout.xaxis;
              const pixels = paths.reduce((sum, path) => sum + path.getBBox().width, 0);
              return [pixels, (ms * _length) / (range[1] - range[0])];
            }"""
        )
    assert drawn == pytest.approx(meant, rel=0.1)


@pytest.mark.slow
@pytest.mark.browser
def test_buttons_show_a_step_and_hovering_tells_the_line(page: Page) -> None:
    before = shown_ms(page)
    page.locator("#figure .updatemenu-button").nth(2).click()
    layout = page.evaluate("document.querySelector('#figure').layout")
    assert shown_ms(page, before=before) == layout["updatemenus"][0]["buttons"][2]["args"][0]["xaxis.range"]
    place = page.evaluate(
        """() => {
          const canvas = document.querySelector("#figure");
          const { base, x, y } = canvas.data.find(({ name }) => name === ".item()");
          const { xaxis, yaxis } = canvas._fullLayout;
          const box = canvas.querySelector(".nsewdrag").getBoundingClientRect();
          return [box.left + xaxis.l2p(base[1] + x[1] / 2), box.top + yaxis.l2p(y[1])];
        }"""
    )
    page.mouse.move(place[0] - 5, place[1])
    page.mouse.move(*place)
    page.wait_for_selector("#figure .hovertext")
    text = page.locator("#figure .hovertext").first.text_content() or ""
    assert "called at pinprof/workloads/waits.py:43 (step)" in text
    assert ".item(): cuda" in text
