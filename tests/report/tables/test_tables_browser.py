"""The tables in a real Chromium: sorted, filtered, saved, and leading to the timeline, with a mouse and with keys."""

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from chromium import Scheme
from detector import detector
from playwright.sync_api import Page
from recordings import TRACES, analysis_of
from trace_builder import TraceBuilder

from pinprof.analysis import analyse
from pinprof.report.timeline.lanes import MAX_STREAMS
from pinprof.report.trace.page import to_html
from pinprof.trace import read_trace

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOSTILE = "</script><img src=x onerror=alert(1)>"
FORMULA = '=HYPERLINK("http://example.org", "x")'
NAMES = 400


@pytest.fixture
def opened(opened_text: Callable[..., Page]) -> Callable[..., Page]:
    """Return what opens the report on a trace at its tables."""

    def open_report(path: Path, width: int = 1440, scheme: Scheme = "light") -> Page:
        analysis = analysis_of(path) if path.is_relative_to(TRACES) else analyse(read_trace(path))
        page = opened_text(to_html([analysis]), width=width, scheme=scheme)
        page.locator(".grids").scroll_into_view_if_needed()
        page.wait_for_selector(".grids[data-drawn]")
        return page

    return open_report


def column(page: Page, title: str) -> list[str]:
    titles = [text.strip() for text in page.locator(".sheet thead th").all_inner_texts()]
    at = titles.index(title)
    return [text.strip() for text in page.locator(f".sheet tbody tr > :nth-child({at + 1})").all_inner_texts()]


def head(page: Page, title: str) -> None:
    page.locator(".sheet thead").get_by_role("button", name=title, exact=True).click()


def saved(page: Page) -> list[dict[str, str]]:
    with page.expect_download() as download:
        page.locator(".grids .save").click()
    return list(csv.DictReader(io.StringIO(download.value.path().read_bytes().decode())))


def test_waits_are_gathered_by_line_and_have_their_stacks(opened: Callable[..., Page], tmp_path: Path) -> None:
    page = opened(detector().write(tmp_path / "trace.json"))
    page.get_by_role("tab", name="Waits").click()
    sites = [int(row["count"]) for row in saved(page)]
    assert len(sites) == 8
    gather = page.locator(".grids .gather")
    gather.select_option("by line")
    lines = column(page, "line")
    assert sorted(lines) == ["train.py:30 (main)", "train.py:32 (main)", "train.py:60 (evaluate)"]
    at = lines.index("train.py:30 (main)")
    assert column(page, "in")[at].count(",") == 4
    assert sum(int(row["count"]) for row in saved(page)) == sum(sites)
    gather.select_option("each by itself")
    assert len(column(page, "line")) == 8
    stack = page.locator(".sheet .stacks").first
    stack.locator("summary").click()
    assert "train.py" in stack.locator("li").last.inner_text()
    page.get_by_role("tab", name="Ops").click()
    assert not gather.is_visible()


def test_tables_are_sorted_filtered_and_saved(opened: Callable[..., Page]) -> None:
    page = opened(TRACES / "loader_pageable.stack.json.gz")
    assert page.locator(".tabs button").all_inner_texts() == ["Ops 45", "Kernels 14", "Copies 1", "Waits 1"]
    assert column(page, "op")[0] == "aten::copy_"
    assert page.locator(".sheet [aria-sort]").inner_text().strip() == "own time"
    head(page, "op")
    names = column(page, "op")
    assert page.locator(".sheet [aria-sort]").get_attribute("aria-sort") == "ascending"
    head(page, "op")
    assert column(page, "op") == names[::-1]
    assert page.evaluate("document.activeElement.dataset.sort") == "name"
    page.keyboard.press("Enter")
    assert page.locator(".sheet [aria-sort]").get_attribute("aria-sort") == "ascending"

    page.locator(".grids .filter").fill("MM model.py")
    ops = column(page, "op")
    assert ops
    assert all("mm" in name.lower() for name in ops)
    assert page.locator(".grids .rows").inner_text() == f"{len(ops)} of 45 rows, by MM model.py"
    assert [row["op"] for row in saved(page)] == ops
    page.locator(".grids .filter").press("Escape")
    assert len(column(page, "op")) == 45
    page.locator(".timeline .find").fill("addmm")
    page.wait_for_function("() => document.querySelectorAll('.sheet tbody tr').length < 10")
    assert "the timeline's search for “addmm”" in page.locator(".grids .rows").inner_text()
    assert column(page, "op")
    page.locator(".timeline .find").press("Escape")
    page.wait_for_function("() => document.querySelectorAll('.sheet tbody tr').length === 45")
    assert page.locator(".grids .rows").inner_text() == ""

    page.locator(".tabs button").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent") == "Kernels 14"
    assert page.locator(".sheet").get_attribute("aria-label") == "Kernels"
    once = [row["count"] for row in saved(page)]
    page.locator(".grids .scope").select_option("the whole recording")
    rows = saved(page)
    assert len(rows) == 14
    assert all(int(row["count"]) > float(few) for row, few in zip(rows, once, strict=True))
    assert all(float(row["mean_ns"]) * int(row["count"]) == pytest.approx(float(row["total_ns"])) for row in rows)


def test_a_row_leads_to_its_places_and_the_longest_to_its_own(opened: Callable[..., Page]) -> None:
    page = opened(TRACES / "loader_pageable.stack.json.gz")
    page.wait_for_selector(".timeline[data-drawn]")
    page.locator(".grids .scope").select_option("the whole recording")
    for tab, row in (("kernels", 2), ("copies", 0), ("waits", 0), ("ops", 1)):
        page.locator(f".tabs [data-grid={tab}]").click()
        count = column(page, "count")[row]
        page.locator(".sheet tbody .places").nth(row).click()
        page.wait_for_function(f"() => document.querySelector('.found').textContent == '1 of {count}'")
        page.wait_for_function("() => document.activeElement.classList.contains('plot')")
        assert page.locator(".sheet tr.seen").count() == 1
    page.locator(".tabs [data-grid=copies]").click()
    page.locator(".sheet tbody .longest").first.focus()
    page.keyboard.press("Enter")
    page.locator(".chosen", has_text="Memcpy HtoD (Pageable -> Device)").wait_for()


def test_no_column_is_cut_off(opened: Callable[..., Page]) -> None:
    page = opened(TRACES / "mask_loss.stack.json.gz")
    for tab in page.locator(".tabs button").all():
        tab.click()
        for width in (1440, 1280):
            page.set_viewport_size({"width": width, "height": 720})
            assert page.locator(".sheet").evaluate("sheet => sheet.scrollWidth - sheet.clientWidth") == 0
        texts = page.locator(".sheet td.text").evaluate_all(
            "cells => cells.map((one) => [one.title, (one.querySelector('summary') ?? one).textContent])"
        )
        assert [text for title, text in texts if len(title) < len(text)] == []


def test_a_row_that_the_timeline_does_not_draw_leads_to_where_it_is(
    opened: Callable[..., Page], tmp_path: Path
) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 2000)
    for stream in range(MAX_STREAMS + 1):
        length = 50 - stream  # the last stream is the least busy
        builder.kernel(100 * stream + 20, length, launch=100 * stream + 5, name=f"k{stream}", stream=stream + 1)
    page = opened(builder.write(tmp_path / "streams.json"))
    page.locator(".tabs [data-grid=kernels]").click()
    page.locator(".sheet tbody .places").last.click()
    page.wait_for_function("() => document.activeElement.classList.contains('plot')")
    assert "it shows where the longest is" in page.locator(".grids .rows").inner_text()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_many_rows_are_counted_and_names_stay_text(
    opened: Callable[..., Page], tmp_path: Path, width: int, scheme: str
) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 100 * NAMES)
    for number in range(NAMES):
        name = {0: HOSTILE, 1: FORMULA}.get(number, f"void at::native::kernel{number}<int>")
        builder.kernel(100 * number + 20, 80 - number / 10, launch=100 * number + 5, name=name)
    builder.step(1, 100 * NAMES, 10)
    page = opened(builder.write(tmp_path / "many.json"), width, scheme)
    page.locator(".tabs [data-grid=kernels]").click()
    assert page.locator(".sheet tbody tr").count() == 300
    assert page.locator(".grids .rows").inner_text() == "100 more rows are not shown: filter, or save them"
    assert column(page, "kernel")[:3] == [HOSTILE, FORMULA, "kernel2<int>"]
    rows = saved(page)
    assert len(rows) == NAMES
    assert rows[1]["kernel"] == f"'{FORMULA}"
    assert page.locator("img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator(".grids .filter").fill("no such kernel")
    assert page.locator(".sheet tbody tr").count() == 0
    assert page.locator(".grids .rows").inner_text() == f"0 of {NAMES} rows, by no such kernel"
