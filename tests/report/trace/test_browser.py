"""Opens pages in a real Chromium: what people see, and that a page keeps to itself."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from analysed import analysed
from chromium import Hands, Pages, Scheme, box_of, painted, with_scripts
from playwright.sync_api import Page, expect
from recordings import TRACES, analysis_of
from trace_builder import SIDE, TraceBuilder, without_known_events

from pinprof.analysis import Analysis
from pinprof.ground.units import duration, how_many, percent, rate, size
from pinprof.notebook import load
from pinprof.report.html import Markup
from pinprof.report.page import page as page_around
from pinprof.report.timeline import fragment
from pinprof.report.timeline.drawn_lanes import lanes_of_page
from pinprof.report.timeline.payload import packed
from pinprof.report.timeline.steps import choose_window
from pinprof.report.trace.page import to_html

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOSTILE = "</script><img src=x onerror=alert(1)>"
BARS = """() => {
  let count = 0;
  const own = CanvasRenderingContext2D.prototype.fillRect;
  CanvasRenderingContext2D.prototype.fillRect = function (...shape) {
    count += 1;
    return own.apply(this, shape);
  };
  dispatchEvent(new Event("afterprint"));
  CanvasRenderingContext2D.prototype.fillRect = own;
  return count;
}"""
"""Counts what the timeline fills when it paints anew."""
Opened = Callable[..., Hands]


@pytest.fixture
def opened(opened_text: Callable[..., Page]) -> Opened:
    """Return what opens the report on traces with its timeline drawn."""

    def open_report(
        *paths: Path, width: int = 1440, scheme: Scheme = "light", made: Callable[[Analysis], Markup] | None = None
    ) -> Hands:
        entries = [analysis_of(path) for path in paths]
        text = page_around("timelines", made(entries[0])) if made else to_html(entries)
        return Hands(opened_text(text, width=width, scheme=scheme))

    return open_report


def groups(hands: Hands) -> list[str]:
    return hands.page.locator(".headings button").all_text_contents()


def test_a_recording_has_its_lanes_and_hovering_tells_what_ran(opened: Opened) -> None:
    hands = opened(TRACES / "pageable_blocking.stack.json.gz")
    lanes = hands.lanes()
    assert lanes[:3] == ["host", "overlap", "stream 7"]
    assert {"stalls", "ops", "calls"} <= set(lanes)
    hands.choose_step(label="ProfilerStep#3")
    lines = hands.point_at("stalls", 0.3).splitlines()
    assert lines[0] == "blocking copy to the GPU: cudaMemcpyAsync"
    assert lines[1].endswith("into ProfilerStep#3")
    assert "for its own copy" in lines[2]
    assert lines[-1] == "called at pinprof/workloads/copies.py:23 (step)"
    lines = hands.point_at("stream 7", 0.45).splitlines()
    assert lines[0] == "Memcpy HtoD (Pageable -> Device)"
    assert re.fullmatch(r"lasts 2\.\d\d ms: 48\.0 MiB at 1\d\.\d GB/s", lines[2])
    assert lines[4:6] == ["stream 7 of GPU 0 (NVIDIA H200)", lines[5]]
    assert re.fullmatch(r"launched [\d.]+ ms earlier by cudaMemcpyAsync", lines[5])
    named = {"ProfilerStep#3", "blocking copy to the GPU", "aten::to", "HtoD pageable 48.0 MiB"}
    assert named <= set(painted(hands.page))


def test_memory_over_time_is_an_area_below_the_overlap_band(opened: Opened, tmp_path: Path) -> None:
    builder = TraceBuilder()
    for start in builder.steps(3):
        builder.kernel(start + 500, 400, launch=start + 100)
        builder.memory(start, 3 << 30, 4 << 30)
        builder.memory(start + 600, 1 << 30, 4 << 30)
    hands = opened(builder.write(tmp_path / "trace.json"))
    assert hands.lanes()[:4] == ["host", "overlap", "memory", "stream 7"]
    places = [hands.part(label, 0.5)[1] for label in ("overlap", "memory", "stream 7")]
    assert places[2] - places[0] == pytest.approx(60, abs=1)
    assert hands.page.locator(".legend").get_by_role("button", name="allocated memory").count() == 1
    lines = hands.point_at("memory", 0.45).splitlines()
    assert lines[:2] == ["3.00 GiB allocated", "4.00 GiB reserved"]
    assert "Peak GPU memory: 3.00\u00a0GiB" in hands.page.locator(".short").inner_text()
    hands.page.locator("input.find").fill("memory")
    expect(hands.page.locator(".found")).to_have_text("not found")


def test_a_step_is_chosen_by_its_name_or_a_double_click_and_times_are_relative_to_it(opened: Opened) -> None:
    hands = opened(TRACES / "loss_item.json.gz")
    first = hands.view()
    names = hands.page.locator("select.step option").all_text_contents()
    hands.choose_step(label=names[3])
    start, end = hands.view()
    assert end - start < 0.6 * (first[1] - first[0])
    assert hands.page.locator(".timeline .xtitle").text_content() == f"since the start of {names[3]}"
    assert hands.page.locator(".ticks span").first.text_content() in {"0 ms", "0.0 ms", "0.00 ms", "0 µs"}
    assert hands.click("next step")[0] > start
    assert hands.click("previous step") == pytest.approx((start, end))
    hands.page.locator(".plot").focus()
    assert hands.press("PageDown")[0] > start
    assert hands.press("PageUp") == pytest.approx((start, end))
    hands.click("all")
    assert hands.span() >= first[1] - first[0]
    assert hands.button("all").get_attribute("aria-pressed") == "true"
    whole = hands.view()
    zoomed = 0.6 * (whole[1] - whole[0])
    for _ in range(5):  # a busy machine may take a double click for two
        hands.page.mouse.dblclick(*hands.part("host", 0.5))
        if hands.span() < zoomed:
            break
    assert "ProfilerStep" in hands.details()
    assert hands.span() < zoomed
    for _ in range(5):
        x, y = hands.part("host", 0.5)
        hands.page.mouse.dblclick(x, y - 20)  # next to the name of its group
        if hands.span() > zoomed:
            break
    assert hands.view() == pytest.approx(first)


def test_a_finding_zooms_to_its_worst_instance_and_marks_it_and_lanes_fold(opened: Opened) -> None:
    hands = opened(TRACES / "pageable_blocking.stack.json.gz")
    before = hands.view()
    hands.page.locator(".finding .see").first.click()
    after = hands.view()
    assert after[1] - after[0] < 0.7 * (before[1] - before[0])
    assert {"its launch", "chosen"} <= set(hands.page.locator(".labels .mark").all_inner_texts())
    assert "Memcpy HtoD (Pageable -> Device)" in hands.details()
    shown = len(hands.lanes())
    main = next(name for name in groups(hands) if "main" in name)
    hands.click(main)
    folded = next(name for name in groups(hands) if "main" in name)
    assert folded.endswith("lanes folded")
    assert len(hands.lanes()) < shown
    hands.page.keyboard.press("Enter")  # the button keeps the focus
    hands.view()
    assert main in groups(hands)
    assert len(hands.lanes()) == shown


def test_searching_counts_and_goes_to_what_was_found(opened: Opened) -> None:
    hands = opened(TRACES / "loss_item.json.gz")
    before = hands.view()
    find = hands.page.get_by_role("searchbox", name="find")
    find.fill("ATEN::ITEM")
    hands.page.wait_for_function("() => document.querySelector('.found').textContent.endsWith(' found')")
    find.press("Enter")
    assert hands.view() == before  # it is wide enough to be seen
    shown = hands.page.locator(".timeline .found").first.inner_text().split(" of ")[1]
    listed = hands.page.locator(".matches").inner_text()
    in_view = re.match(r"in view:\naten::item (\d+), ", listed)
    assert in_view
    assert 0 < int(in_view[1]) < hands.page.locator("select.step option").count() - 1
    assert 0 < int(shown) <= hands.page.locator("select.step option").count() - 1  # those of the steps that are shown
    assert hands.details().startswith("aten::item")
    places = [hands.page.locator(".found").inner_text().split()[0]]
    for key in ("Enter", "Shift+Enter", "Shift+Enter"):
        find.press(key)
        hands.view()
        places.append(hands.page.locator(".found").inner_text().split()[0])
    assert [places[2], len(set(places))] == [places[0], 3]  # on, back, and back once more
    expect(hands.page.locator(".labels .mark")).to_have_text(["chosen"])
    find.fill("no such name")
    hands.page.wait_for_function("() => document.querySelector('.found').textContent == 'not found'")


def test_what_was_found_is_listed_by_name_with_kernels_before_python_frames(opened: Opened) -> None:
    hands = opened(TRACES / "mask_loss.stack.json.gz")
    hands.page.locator(".timeline .find").fill("index")
    names = hands.page.locator(".matches button")
    names.first.wait_for()
    listed = names.all_inner_texts()
    places = [next(at for at, name in enumerate(listed) if part in name) for part in ("kernel", "aten::", "_utils.py")]
    assert places == sorted(places)
    names.nth(places[1]).click()
    hands.view()
    assert hands.details().startswith("aten::index")


def test_the_lanes_of_the_gpu_stay_in_sight_with_details_open_until_they_are_let_go(opened: Opened) -> None:
    hands = opened(TRACES / "mask_loss.stack.json.gz")
    hands.page.set_viewport_size({"width": 1280, "height": 720})
    hands.page.locator(".timeline").scroll_into_view_if_needed()
    pinned = hands.page.locator(".plot .pinned")
    assert not pinned.is_visible()
    hands.page.evaluate("scrollTo(0, document.querySelector('.plot .body').getBoundingClientRect().top + scrollY)")
    expect(pinned).to_be_visible()
    box = box_of(pinned)
    assert box["height"] < 0.4 * 720
    hands.page.mouse.click(box["x"] + 300, box["y"] + box["height"] - 12)  # in the stream, though other lanes lie below
    hands.page.wait_for_selector(".chosen:not([hidden])")
    assert "stream 7" in hands.details()
    lanes = hands.page.locator(".names span")
    assert lanes.all_inner_texts()[:2] == ["host", "overlap"]
    hands.click("GPU on top")
    assert lanes.all_inner_texts()[:2] == ["host", "stalls"]


def test_what_is_merged_in_the_page_is_drawn_as_blocks(opened: Opened) -> None:
    hands = opened(TRACES / "loss_item.json.gz", made=lambda analysis: fragment(analysis, max_events=600))
    assert "of them are here in full. Elsewhere " in hands.page.locator(".timeline .note").inner_text()
    hands.page.locator(".plot").focus()
    hands.press("0")
    assert re.search(r"\d+ events, (merged in this page|most time)", hands.point_at("ops", 0.03))
    assert "narrower than a pixel here or merged in this page" in hands.page.locator(".drawn").inner_text()


def test_of_a_large_trace_no_more_is_painted_than_can_be_seen(opened: Opened, tmp_path: Path) -> None:
    builder = TraceBuilder()
    for start in builder.steps(20, 100_000, length=99_000):
        for event in range(1500):
            time = start + 60 * event
            builder.op(f"aten::op{event % 50}", time, 30 + event % 7)
            builder.kernel(time + 20, 25 + event % 11, launch=time + 5, name=f"kernel{event % 40}")
    hands = opened(builder.write(tmp_path / "large.json"))
    hands.page.locator(".plot").focus()
    hands.press("0")
    assert "narrower than a pixel here, as" in hands.page.locator(".drawn").inner_text()
    assert " events, most time in: " in hands.point_at("stream 7", 0.53)
    band = hands.point_at("overlap", 0.53).splitlines()
    assert {line.split(":")[0] for line in band[1:]} == {"idle", "kernels alone"}
    assert 500 < hands.page.evaluate(BARS) < 15_000  # of 90,000 events: by pixels, so that nobody waits
    for _ in range(12):
        hands.press("+")
    assert "events, " not in hands.point_at("stream 7", 0.5)


def test_hovers_do_not_show_what_the_report_withholds(opened: Opened, tmp_path: Path) -> None:
    builder = TraceBuilder()
    for start in builder.steps(4, 10_000):
        for number in range(30):
            time = start + 100 + 300 * number
            builder.kernel(time - 100, 100, launch=time)  # the clocks disagree: it begins before its launch
        builder.copy("HtoD (Pageable -> Device)", start + 9_200, 300, launch=start + 9_195, call=310)
        builder.call("cudaDeviceSynchronize", start + 9_600, 300)
    hands = opened(builder.write(tmp_path / "early.json"))
    hands.choose_step(label="ProfilerStep#1")
    stall, copy = hands.point_at("stalls", 0.96), hands.point_at("stream 7", 0.92)
    assert "the host is in the call for 300 µs" in stall
    assert not re.search("idle|queued|own copy", stall)
    assert re.search("exposed for 300 µs \\(100 %\\)$", copy, re.MULTILINE)
    assert hands.page.locator(".finding .see").count() == 0


def test_the_legend_hides_and_shows_a_kind(opened: Opened) -> None:
    hands = opened(TRACES / "prefetch.json.gz")
    hands.choose_step(index=2)
    for _ in range(2):
        hands.click("zoom in")
    copy = hands.button("copy HtoD pinned")
    assert any(text.startswith("HtoD") for text in painted(hands.page))
    copy.click()
    assert not any(text.startswith("HtoD") for text in painted(hands.page))
    assert copy.get_attribute("aria-pressed") == "false"
    copy.click()
    assert any(text.startswith("HtoD") for text in painted(hands.page))


def test_what_is_narrower_than_a_pixel_is_seen(opened: Opened, tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 100_000)
    for time in (10_000, 70_000):
        builder.copy("DtoH (Device -> Pinned)", time, 1, launch=time - 5, size=4)
    hands = opened(builder.write(tmp_path / "narrow.json"))
    area = hands.area()
    place = (70 + 1) / 102  # 1 % of 100 ms is shown before and after
    texts = {hands.point_at("stream 7", place + pixels / area["width"]) for pixels in (-20, 0, 1, 2, 20)}
    assert any("Memcpy DtoH (Device -> Pinned)" in text for text in texts)
    assert "" in texts


def test_names_of_the_trace_stay_text(opened: Opened, tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.metadata["deviceProperties"] = [{"id": 0, "name": HOSTILE}]
    builder.step(0, 0, 1000)
    builder.function(f"/home/me/{HOSTILE}.py(1): {HOSTILE}", 0, 990)
    builder.op(HOSTILE, 5, 900)
    builder.call("cudaDeviceSynchronize", 10, 50)
    builder.kernel(100, 800, launch=70, name=HOSTILE)
    hands = opened(builder.write(tmp_path / "hostile.json"))
    assert hands.point_at("stream 7", 0.5).startswith(HOSTILE)
    assert HOSTILE in hands.point_at("ops", 0.5)
    assert hands.page.locator("img").count() == 0
    assert hands.page.evaluate("document.querySelectorAll('[onerror]').length") == 0
    assert any(HOSTILE in name for name in groups(hands))


def test_what_is_told_of_an_event_fits_a_narrow_window(opened: Opened) -> None:
    width = 400
    hands = opened(TRACES / "mask_loss.stack.json.gz", width=width, scheme="dark")
    text = hands.point_at("stalls", 0.15)
    tip = box_of(hands.page.locator(".tip"))
    assert text.startswith("x[mask]")
    assert tip["x"] >= 0
    assert tip["x"] + tip["width"] <= width


@pytest.mark.parametrize("host", [True, False])
def test_traces_that_lack_something_have_a_page(opened: Opened, tmp_path: Path, host: bool) -> None:
    builder = TraceBuilder() if host else without_known_events()
    if host:
        builder.op("aten::add", 0, 5)
    hands = opened(builder.write(tmp_path / "little.json"))
    assert hands.page.locator(".timeline").count() == int(host)
    assert hands.page.get_by_text("Before you trust this trace").count() == 1


def test_in_a_notebook_the_report_draws_itself_and_keeps_to_its_frame(pages: Pages, tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 1000)
    builder.kernel(100, 400, launch=1, name="</iframe><img src=x onerror=alert(1)>\"'")
    shown = load(builder.write(tmp_path / "<iframe>\"'.json"))
    file = tmp_path / "notebook.html"
    file.write_text(f"<!DOCTYPE html><meta charset=utf-8><p>cell</p>{shown._repr_html_()}<p>next cell</p>")
    with pages.opened(file) as page:
        frame = page.frame_locator("iframe")
        frame.locator(".timeline").first.scroll_into_view_if_needed()
        frame.locator(".timeline[data-drawn]").wait_for()
        assert page.locator("p").all_text_contents() == ["cell", "next cell"]
        assert page.locator("body > *").count() == 3
        assert page.evaluate("typeof Plotly") == "undefined"


# words, which the figure says too


@pytest.fixture(scope="module")
def scripts(pages: Pages) -> Iterator[Page]:
    """Return an empty page with the functions that word what one hovers over."""
    with with_scripts(pages, "data", "event_text", "rows") as page:
        yield page


@pytest.mark.parametrize(
    ("written", "numbers"),
    [
        (duration, [0, 7, 999, 1000, 430_000, 999_900, 2_200_000, 18_640_000, 99_960_000, 1_500_000_000, -430_000]),
        (size, [0, 512, 1023, 1024, 1_047_552, 48 * 2**20, 6 * 2**30, 5 * 2**40]),
        (rate, [0, 0.00255, 0.0999, 0.1, 0.5, 9.99, 9.996, 55.31, 99.96, 2900]),
        (percent, [0, 0.001, 0.42, 0.994, 0.999, 1]),
        (how_many, [1, 999, 1600, 1_234_567]),
    ],
)
def test_numbers_read_the_same_in_the_page_and_in_python(
    scripts: Page, written: Callable[[float], str], numbers: list[float]
) -> None:
    name = "counted" if written is how_many else written.__name__
    in_page = scripts.evaluate(f"numbers => numbers.map({name})", numbers)
    assert in_page == [written(number) for number in numbers]


def steps_with_waits(builder: TraceBuilder) -> None:
    builder.metadata["deviceProperties"] = [{"id": 0, "name": HOSTILE}]
    builder.function("/home/me/train.py(12): train_step", 0, 4000)
    for start in builder.steps(3, length=900):
        builder.op(HOSTILE, start + 100, 100)
        builder.copy("HtoD (Pageable -> Device)", start + 150, 40, launch=start + 110, call=85, size=4096)
        builder.copy("DtoH (Device -> Pinned)", start + 320, 20, launch=start + 201, stream=SIDE)
        builder.kernel(start + 300, 400, launch=start + 210)
        builder.call("cudaDeviceSynchronize", start + 400, 320)
        builder.op("between the steps", start + 920, 30)


def words_of(scripts: Page, analysis: Analysis) -> list[list[list[str]]]:
    """Return the lines that the page shows of each event of each lane."""
    view = choose_window(analysis.trace)
    words: list[list[list[str]]] = scripts.evaluate(
        """async (text) => {
          const data = await readTimeline(text);
          const places = (lane) => Array.from({ length: lane.size }, (_, at) => at);
          const ofLane = (lane) => places(lane).map((at) => textOfEvent(data, cellOfEvent(lane, at)));
          return data.lanes.map(ofLane);
        }""",
        packed(analysis, lanes_of_page(analysis, view), view),
    )
    assert not re.search("NaN|undefined", str(words))
    return words


def test_the_page_says_what_an_event_is(scripts: Page, tmp_path: Path) -> None:
    builder = TraceBuilder()
    steps_with_waits(builder)
    words = words_of(scripts, analysed(builder, tmp_path))
    steps, stalls, ops, calls, frames, band, copies, back = (lane[:2] for lane in words)
    assert steps[0] == ["ProfilerStep#0", "900 µs on the host"]
    assert stalls[0] == [
        "torch.cuda.synchronize(): cudaDeviceSynchronize",
        "starts 400 µs into ProfilerStep#0",
        "the host waits 320 µs: 300 µs for work queued before, 20.0 µs in the call itself",
        "then the GPU is idle for 450 µs",
        "from train_step (/home/me/train.py)",
    ]
    assert ops[1] == [
        "between the steps",
        "starts 920 µs after the start of ProfilerStep#0, in no step",
        "lasts 30.0 µs",
    ]
    assert calls[0][-1] == "from train_step (/home/me/train.py)"
    assert frames[0] == ["/home/me/train.py(12): train_step", "starts 0 ns into ProfilerStep#0", "lasts 4.00 ms"]
    assert band[0] == ["exposed copies", "lasts 40.0 µs"]
    assert copies[0] == [
        *("Memcpy HtoD (Pageable -> Device)", "starts 150 µs into ProfilerStep#0"),
        *("lasts 40.0 µs: 4.00 KiB at 0.10 GB/s", "exposed for 40.0 µs (100 %): the memory is not pinned"),
        *(f"stream 7 of GPU 0 ({HOSTILE})", "launched 40.0 µs earlier by cudaMemcpyAsync", f"in {HOSTILE}"),
        "from train_step (/home/me/train.py)",
    ]
    assert back[0][3] == "overlapped: kernels run during all of it"


def test_the_page_counts_from_the_beginning_of_a_trace_without_steps(scripts: Page, tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.op("aten::mm", 10, 30)
    builder.kernel(60, 50, launch=20)
    builder.activity("memset", "Memset", 200, 5, correlation=0, device=0, stream=20)
    words = words_of(scripts, analysed(builder, tmp_path))
    assert [lane[0] for lane in words] == [
        ["aten::mm", "starts 0 ns into the trace", "lasts 30.0 µs"],
        ["cudaLaunchKernel", "starts 10.0 µs into the trace", "lasts 2.00 µs", "in aten::mm"],
        ["kernels alone", "lasts 50.0 µs"],
        [
            *("gemm", "starts 50.0 µs into the trace", "lasts 50.0 µs", "stream 7 of GPU 0"),
            *("launched 40.0 µs earlier by cudaLaunchKernel", "in aten::mm"),
        ],
        [
            "Memset",
            "starts 190 µs into the trace",
            "lasts 5.00 µs",
            "stream 20 of GPU 0",
            "its launch is not in the trace",
        ],
    ]


# charts and what is around them


TICK_COLOUR = "getComputedStyle(document.querySelector('.canvas .xtick')).fill"


def test_charts_are_there_without_a_script_in_the_colours_of_the_page(opened: Opened) -> None:
    hands = opened(TRACES / "prefetch.json.gz")
    assert hands.page.locator(".chart svg").count() == 1  # its copies are all of one size
    assert hands.page.evaluate(TICK_COLOUR) == "rgb(27, 32, 38)"
    hands.page.emulate_media(color_scheme="dark")
    assert hands.page.evaluate(TICK_COLOUR) == "rgb(228, 232, 236)"


@pytest.mark.parametrize("width", [360, 390, 1024])
def test_a_page_with_all_charts_does_not_scroll_sideways(opened: Opened, width: int) -> None:
    hands = opened(TRACES / "launches" / "lstm.before.json.gz", width=width)
    assert hands.page.evaluate("document.documentElement.scrollWidth") <= width
    for canvas in hands.page.locator(".canvas > svg").all():
        box = box_of(canvas)
        assert box["x"] + box["width"] <= width


def test_the_first_key_leads_past_the_header_and_the_next_to_the_parts(opened: Opened) -> None:
    hands = opened(TRACES / "loss_item_host_work.stack.json.gz")
    focused = "document.activeElement.getAttribute('href')"
    links = []
    for _ in range(3):
        hands.page.keyboard.press("Tab")
        links.append(hands.page.evaluate(focused))
    assert links == ["#report", "#findings-1", "#timeline-1"]
    hands.page.locator("#finding-1-1 .see").focus()
    whole = hands.view()
    hands.page.keyboard.press("Enter")  # the button that shows it in the timeline
    assert hands.view() != whole


def test_on_paper_charts_and_fixes_are_there_and_controls_are_not(opened: Opened) -> None:
    hands = opened(TRACES / "prefetch.json.gz", scheme="dark")
    hands.page.emulate_media(media="print", color_scheme="dark")
    hands.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert all(fix.is_visible() for fix in hands.page.locator(".finding .codes").all())
    assert hands.page.locator(".table details[open]").count() == 0
    assert all(box["width"] <= 680 for svg in hands.page.locator(".chart svg").all() if (box := svg.bounding_box()))
    assert not hands.page.locator(".contents").is_visible()
    assert not hands.page.locator(".steps").is_visible()
    assert hands.page.evaluate("getComputedStyle(document.body).color") == "rgb(27, 32, 38)"
    assert hands.page.evaluate(TICK_COLOUR) == "rgb(27, 32, 38)"
    hands.page.evaluate("dispatchEvent(new Event('afterprint'))")
