"""Opens pages in a real Chromium: what people see, and that a page keeps to itself."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, sync_playwright
from playwright.sync_api import TimeoutError as TookTooLong
from trace_builder import TraceBuilder

from pinprof.measure import measure
from pinprof.notebook import analyze
from pinprof.report.html_report import to_html
from pinprof.rules import find
from pinprof.trace import read_trace

pytestmark = pytest.mark.browser

TRACES = Path(__file__).parents[2] / "traces"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
)
HOSTILE = "</script><img src=x onerror=alert(1)>"
OWN_SCHEMES = ("file:", "data:", "blob:")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs Chromium (apt-get install chromium)")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


Opened = Callable[..., Page]


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Opened]:
    """Return what opens the report on traces with its timeline drawn; afterwards the page must have kept to itself."""
    complaints: list[str] = []
    contexts = []

    def open_report(*paths: Path, width: int = 1440, scheme: str = "light") -> Page:
        traces = [read_trace(path) for path in paths]
        profiles = [measure(trace) for trace in traces]
        entries = [(trace, profile, find(profile, trace)) for trace, profile in zip(traces, profiles, strict=True)]
        file = tmp_path / "report.html"
        file.write_text(to_html(entries), encoding="utf-8")
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: _complain(complaints, request.url))
        page.goto(file.as_uri())
        if page.locator(".timeline").count():
            page.locator(".timeline").first.scroll_into_view_if_needed()
            page.wait_for_selector(".timeline[data-drawn]", timeout=20_000)
        return page

    yield open_report
    for context in contexts:
        context.close()
    assert complaints == []


def _complain(complaints: list[str], url: str) -> None:
    if not url.startswith(OWN_SCHEMES):
        complaints.append(f"request: {url}")


def point_at(page: Page, label: str, fraction: float, timeout: float = 10_000) -> str:
    """Move the mouse to a place in the lane with this label, and return what the page says about it, if anything."""
    tick = page.locator(".timeline .ytick text", has_text=label).first.bounding_box()
    area = page.locator(".timeline .nsewdrag").first.bounding_box()
    assert tick
    assert area
    x, y = area["x"] + fraction * area["width"], tick["y"] + tick["height"] / 2
    page.mouse.move(x - 2, y)
    page.mouse.move(x, y)
    tip = page.locator(".tip")
    with suppress(TookTooLong):
        tip.wait_for(state="visible", timeout=timeout)
    return tip.inner_text() if tip.is_visible() else ""


def view(page: Page) -> tuple[float, float]:
    """Return the range of x that is shown."""
    start, end = page.evaluate("document.querySelector('.plot').layout.xaxis.range")
    return start, end


def button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True)


def test_a_recording_has_its_lanes_and_hovering_tells_what_ran(opened: Opened) -> None:
    page = opened(TRACES / "pageable_blocking.stack.json.gz")
    lanes = page.locator(".timeline .ytick text").all_text_contents()
    assert [lanes[0], *lanes[-2:]] == ["host", "overlap", "stream 7"]
    assert {"stalls", "ops", "calls"} <= set(lanes)
    button(page, "step 2").click()
    told = point_at(page, "stalls", 0.3)
    assert told.startswith("blocking copy htod: cudaMemcpyAsync\nstarts ")
    assert "for its own copy" in told
    assert point_at(page, "stream 7", 0.3).splitlines()[1].startswith("starts ")


def test_wide_rectangles_are_labelled(opened: Opened) -> None:
    page = opened(TRACES / "pageable_blocking.stack.json.gz")
    labels = page.locator(".labels span").all_inner_texts()
    assert {"step 1", "blocking copy htod", "aten::to", "HtoD pageable 48.0 MiB"} <= set(labels)


def test_the_buttons_show_a_step_and_all_again(opened: Opened) -> None:
    page = opened(TRACES / "loss_item.json.gz")
    whole = view(page)
    button(page, "step 3").click()
    page.wait_for_function("document.querySelector('[aria-pressed=true]').textContent == 'step 3'")
    start, end = view(page)
    assert whole[0] < start < end <= whole[1]
    assert end - start < 0.6 * (whole[1] - whole[0])
    button(page, "all").click()
    page.wait_for_function("document.querySelector('[aria-pressed=true]').textContent == 'all'")
    assert view(page) == whole


def test_keys_zoom_and_move(opened: Opened) -> None:
    page = opened(TRACES / "loss_item.json.gz")
    whole = view(page)
    page.locator(".plot").focus()
    page.keyboard.press("+")
    closer = view(page)
    assert whole[0] < closer[0] < closer[1] < whole[1]
    page.keyboard.press("ArrowRight")
    moved = view(page)
    assert moved[0] > closer[0]
    assert moved[1] - moved[0] == pytest.approx(closer[1] - closer[0])
    page.keyboard.press("0")
    assert view(page) == whole


def test_dragging_zooms(opened: Opened) -> None:
    page = opened(TRACES / "loss_item.json.gz")
    whole = view(page)
    area = page.locator(".timeline .nsewdrag").first.bounding_box()
    assert area
    page.mouse.move(area["x"] + 100, area["y"] + 50)
    page.mouse.down()
    page.mouse.move(area["x"] + 300, area["y"] + 50, steps=5)
    page.mouse.up()
    page.wait_for_function(f"document.querySelector('.plot').layout.xaxis.range[0] > {whole[0]}")
    start, end = view(page)
    assert (end - start) / (whole[1] - whole[0]) == pytest.approx(200 / area["width"], rel=0.05)


def test_the_legend_hides_and_shows_a_kind(opened: Opened) -> None:
    page = opened(TRACES / "prefetch.json.gz")
    copy = button(page, "copy HtoD pinned")
    shown = "document.querySelector('.plot')._fullData.filter(t => t.name == 'copy HtoD pinned' && t.visible === true)"
    assert page.evaluate(f"{shown}.length") > 0
    copy.click()
    page.wait_for_function(f"{shown}.length == 0")
    assert copy.get_attribute("aria-pressed") == "false"
    copy.click()
    page.wait_for_function(f"{shown}.length > 0")


def test_what_is_narrower_than_a_pixel_is_seen(opened: Opened, tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 100_000)
    for time in (10_000, 70_000):
        builder.copy("DtoH (Device -> Pinned)", time, 1, launch=time - 5, size=4)
    page = opened(builder.write(tmp_path / "narrow.json"))
    area = page.locator(".timeline .nsewdrag").first.bounding_box()
    assert area
    place = (70 + 1) / 102  # 1 % of 100 ms is shown before and after
    told = {point_at(page, "stream 7", place + pixels / area["width"], timeout=500) for pixels in (-20, 0, 1, 2, 20)}
    assert any("Memcpy DtoH (Device -> Pinned)" in text for text in told)
    assert "" in told


def test_names_of_the_trace_stay_text(opened: Opened, tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.metadata["deviceProperties"] = [{"id": 0, "name": HOSTILE}]
    builder.step(0, 0, 1000)
    builder.function(f"/home/me/{HOSTILE}.py(1): {HOSTILE}", 0, 990)
    builder.op(HOSTILE, 5, 900)
    builder.call("cudaDeviceSynchronize", 10, 50)
    builder.kernel(100, 800, launch=70, name=HOSTILE)
    page = opened(builder.write(tmp_path / "hostile.json"))
    assert point_at(page, "stream 7", 0.5).startswith(HOSTILE)
    assert HOSTILE in point_at(page, "ops", 0.5)
    assert page.locator("img").count() == 0
    assert page.evaluate("document.querySelectorAll('[onerror]').length") == 0
    assert any(HOSTILE in text for text in page.locator(".annotation-text").all_text_contents())


@pytest.mark.parametrize("width", [400, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_its_window(opened: Opened, width: int, scheme: str) -> None:
    page = opened(TRACES / "mask_loss.stack.json.gz", width=width, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    told = point_at(page, "stalls", 0.15)
    tip = page.locator(".tip").bounding_box()
    assert told.startswith("mask index")
    assert tip
    assert tip["x"] >= 0
    assert tip["x"] + tip["width"] <= width


def test_several_timelines_are_drawn_when_they_come_into_sight(opened: Opened) -> None:
    page = opened(*(TRACES / f"{name}.json.gz" for name in ("clean", "prefetch", "loss_item")))
    assert page.locator(".timeline").count() == 3
    page.locator(".timeline").last.scroll_into_view_if_needed()
    page.wait_for_selector("#trace-3 .timeline[data-drawn]")


@pytest.mark.parametrize("host", [True, False])
def test_traces_that_lack_something_have_a_page(opened: Opened, tmp_path: Path, host: bool) -> None:
    builder = TraceBuilder()
    if host:
        builder.op("aten::add", 0, 5)
    page = opened(builder.write(tmp_path / "little.json"))
    assert page.locator(".timeline").count() == int(host)
    assert page.get_by_text("Before you trust this trace").count() == 1


def test_in_a_notebook_the_report_draws_itself_and_keeps_to_its_frame(browser: Browser, tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 1000)
    builder.kernel(100, 400, launch=1, name="</iframe><img src=x onerror=alert(1)>\"'")
    shown = analyze(builder.write(tmp_path / "<iframe>\"'.json"))
    file = tmp_path / "notebook.html"
    file.write_text(f"<!DOCTYPE html><meta charset=utf-8><p>cell</p>{shown._repr_html_()}<p>next cell</p>")
    context = browser.new_context()
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    page.on("request", lambda request: _complain(complaints, request.url))
    page.goto(file.as_uri())
    frame = page.frame_locator("iframe")
    frame.locator(".timeline").first.scroll_into_view_if_needed()
    frame.locator(".timeline[data-drawn]").wait_for(timeout=20_000)
    assert page.locator("p").all_text_contents() == ["cell", "next cell"]
    assert page.locator("body > *").count() == 3
    assert page.evaluate("typeof Plotly") == "undefined"
    assert complaints == []
    context.close()


# charts and what is around them


def draw_charts(page: Page) -> None:
    for chart in page.locator(".chart").all():
        chart.scroll_into_view_if_needed()
    page.wait_for_function("[...document.querySelectorAll('.chart')].every(c => c.querySelector('.main-svg'))")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_are_drawn_when_they_come_into_sight_in_the_colours_of_the_page(opened: Opened, scheme: str) -> None:
    page = opened(TRACES / "pageable_blocking.stack.json.gz", scheme=scheme)
    assert page.locator(".chart").count() == 5
    assert page.locator(".chart").last.get_attribute("data-drawn") is None
    draw_charts(page)
    told = "getComputedStyle(document.querySelector('.canvas .xtick text')).fill"
    assert page.evaluate(told) == {"light": "rgb(27, 32, 38)", "dark": "rgb(228, 232, 236)"}[scheme]
    page.emulate_media(color_scheme="dark" if scheme == "light" else "light")
    assert page.evaluate(told) == {"dark": "rgb(27, 32, 38)", "light": "rgb(228, 232, 236)"}[scheme]


@pytest.mark.parametrize("width", [360, 390, 1024])
def test_a_page_with_all_charts_does_not_scroll_sideways(opened: Opened, width: int) -> None:
    page = opened(TRACES / "loader_pageable.stack.json.gz", width=width)
    draw_charts(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for canvas in page.locator(".canvas .main-svg").all():
        box = canvas.bounding_box()
        assert box
        assert box["x"] + box["width"] <= width


def test_a_finding_leads_to_where_it_happens_in_the_timeline(opened: Opened) -> None:
    page = opened(TRACES / "loss_item_host_work.stack.json.gz")
    whole = view(page)
    page.locator(".best .see").click()
    page.wait_for_function(f"document.querySelector('.plot').layout.xaxis.range[0] > {whole[0]}")
    start, end = view(page)
    assert end - start < whole[1] - whole[0]
    assert point_at(page, "stalls", 0.5).startswith("item")


def test_the_first_key_leads_past_the_header_and_the_next_to_what_to_do(opened: Opened) -> None:
    page = opened(TRACES / "loss_item_host_work.stack.json.gz")
    focused = "document.activeElement.getAttribute('href')"
    links = []
    for _ in range(4):
        page.keyboard.press("Tab")
        links.append(page.evaluate(focused))
    assert links == ["#report", "#finding-1-1", "#finding-1-1", "#timeline-1"]
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#timeline-1"


def test_on_paper_charts_and_fixes_are_there_and_controls_are_not(opened: Opened) -> None:
    page = opened(TRACES / "pageable_blocking.stack.json.gz", scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".chart .main-svg").count() >= 5
    assert page.locator(".finding details:not([open]), .table details[open]").count() == 0
    assert all(box["width"] <= 680 for svg in page.locator(".main-svg").all() if (box := svg.bounding_box()))
    assert not page.locator(".contents").is_visible()
    assert not page.locator(".steps").is_visible()
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(27, 32, 38)"
    assert page.evaluate("getComputedStyle(document.querySelector('.canvas .xtick text')).fill") == "rgb(27, 32, 38)"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
