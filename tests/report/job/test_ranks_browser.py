"""Opens the page of a job of 1,024 ranks in a real Chromium: the heat map of its ranks."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from chromium import Pages, box_of
from job_builder import job
from playwright.sync_api import Page

from pinprof.analysis import analyse
from pinprof.ranks.compare import compare_ranks
from pinprof.report.job.page import to_html

pytestmark = [pytest.mark.browser, pytest.mark.slow]

MANY, SLOW = 1024, 700


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    parts, trace = job(folder, MANY, slowest=SLOW)
    shown = replace(analyse(trace), profile=parts[SLOW].profile, findings=parts[SLOW].findings)
    text = to_html(compare_ranks(parts), parts, shown)
    assert len(text) < 2_000_000
    (folder / "job.html").write_text(text, encoding="utf-8")
    return folder / "job.html"


@pytest.fixture(params=[1440, 360], scope="module")
def page(pages: Pages, file: Path, request: pytest.FixtureRequest) -> Iterator[Page]:
    """Give the page; each test leaves it as it was."""
    with pages.opened(file, width=request.param) as page:
        yield page


def test_nothing_is_wider_than_the_screen_but_each_rank_has_a_column(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    columns = page.locator("#job .rank")
    assert columns.count() == MANY
    assert box_of(columns.nth(SLOW))["width"] >= 0.9
    wider = page.locator("#job-ranks ~ .table").first.evaluate("(part) => part.scrollWidth - part.clientWidth")
    assert page.viewport_size
    assert wider == 0 or page.viewport_size["width"] < 1440


def test_a_column_lies_over_the_cells_of_its_rank_and_tells_of_it(page: Page) -> None:
    column, slow = (page.locator("#job .rank").nth(rank) for rank in (SLOW - 1, SLOW))
    cells = page.locator("#job .cells").last.locator("rect")  # what waits for others: all but one
    assert box_of(cells.nth(1))["x"] == pytest.approx(box_of(slow)["x"] + box_of(slow)["width"], abs=1)
    assert "waited: 590 µs" in (column.text_content() or "")
    assert f"rank {SLOW}: train.rank{SLOW}.json.gz\nstep: 983 µs" in (slow.text_content() or "")


def test_on_paper_the_long_table_stays_folded(page: Page) -> None:
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert not page.evaluate("() => document.querySelector('details.long').open")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
