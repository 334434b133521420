"""Opens the page of a job of 1,024 ranks in a real Chromium: the heat map of its ranks."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chromium import Pages, box_of
from job_builder import job
from playwright.sync_api import Page

from pinprof.analysis import analyse
from pinprof.ranks.compare import compare_ranks
from pinprof.report.job.page import to_html

pytestmark = [pytest.mark.browser, pytest.mark.slow]

MANY, SLOW = 1024, 700
CANVAS = "document.querySelector('#job .canvas')"
ORDER = f"() => {CANVAS}._fullLayout.xaxis._categories"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    parts, trace = job(folder, MANY, slowest=SLOW)
    shown = replace(analyse(trace), profile=parts[SLOW].profile, findings=parts[SLOW].findings)
    text = to_html(compare_ranks(parts), parts, shown)
    (folder / "job.html").write_text(text, encoding="utf-8")
    return folder / "job.html"


@pytest.fixture(params=[1440, 360], scope="module")
def page(pages: Pages, file: Path, request: pytest.FixtureRequest) -> Iterator[Page]:
    """Give the page with the heat map drawn; each test leaves it as it was."""
    with pages.opened(file, width=request.param) as page:
        page.locator("#job .chart").scroll_into_view_if_needed()
        page.wait_for_selector("#job .chart[data-drawn] .heatmaplayer image", state="attached")
        yield page


def press(page: Page, name: str) -> None:
    button = page.get_by_role("button", name=name, exact=True)
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    page.wait_for_timeout(200)


def point_at(page: Page, column: int, line: str) -> str:
    """Return what hovering over a cell says."""
    page.locator("#job .scroll").evaluate("(part) => part.scrollTo(0, 0)")
    offset: dict[str, Any] = page.evaluate(
        f"""() => {{
          const {{ xaxis, yaxis, _size: size }} = {CANVAS}._fullLayout;
          return {{ x: size.l + xaxis.c2p({column}) + 0.5, y: size.t + yaxis._offset - size.t + yaxis.d2p("{line}") }};
        }}"""
    )
    box = box_of(page.locator("#job .canvas"))
    x, y = box["x"] + offset["x"], box["y"] + offset["y"]
    page.mouse.move(x, y + 3)
    page.mouse.move(x, y)
    page.wait_for_timeout(200)  # of moves in quick succession plotly heeds the first
    label = page.locator("#job .hoverlayer .hovertext")
    label.wait_for(state="visible")
    return " ".join(label.locator("tspan").all_text_contents())


def test_nothing_is_wider_than_the_screen(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_the_table_of_ranks_fits_a_wide_screen(page: Page) -> None:
    wider = page.locator("#job-ranks + .table").evaluate("(part) => part.scrollWidth - part.clientWidth")
    assert page.viewport_size
    assert wider == 0 or page.viewport_size["width"] < 1440


def test_each_rank_has_a_column_of_its_own(page: Page) -> None:
    width = page.evaluate(f"() => {CANVAS}._fullLayout.xaxis._length")
    assert width >= MANY
    labels = page.locator("#job .xtick text").all_text_contents()
    assert 4 <= len(labels) <= 20


def test_hovering_names_the_rank_its_time_and_its_file(page: Page) -> None:
    assert point_at(page, 5, "host runs no op") == "rank 5, host runs no op: 0.113 ms per step train.rank5.json.gz"
    press(page, "step alone, longest first")
    assert page.evaluate(ORDER)[:3] == [str(SLOW), str(MANY - 1), str(MANY - 2)]
    said = point_at(page, 0, "host runs no op")
    assert said == f"rank {SLOW}, host runs no op: 0.61 ms per step train.rank{SLOW}.json.gz"
    press(page, "difference from the median rank")
    said = point_at(page, 0, "waited for others")
    assert said.startswith(f"rank {SLOW}, waited for others: -0.59 ms per step from the median rank")
    press(page, "ms per step")
    press(page, "rank")


def test_the_longest_alone_can_be_looked_at_by_themselves(page: Page) -> None:
    press(page, "the 32 longest alone")
    assert page.evaluate(f"() => {CANVAS}.layout.xaxis.range") == [-0.5, 31.5]
    press(page, "rank")
    assert page.evaluate(f"() => {CANVAS}.layout.xaxis.range") == [-0.5, MANY - 0.5]
    assert page.evaluate(ORDER)[:2] == ["0", "1"]


def test_on_paper_the_chart_is_as_wide_as_the_sheet_and_the_long_table_stays_folded(page: Page) -> None:
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(f"() => {CANVAS}._fullLayout.width") == 680
    assert not page.evaluate("() => document.querySelector('details.long').open")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
