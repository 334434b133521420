"""Opens the page of a comparison in a real Chromium: two timelines on one time axis."""

from collections.abc import Iterator

import pytest
from chromium import open_file
from playwright.sync_api import Browser, Page
from recordings import TRACES

from pinprof.notebook import compare

pytestmark = [pytest.mark.browser, pytest.mark.slow]

RANGES = (
    "() => [...document.querySelectorAll('.plot')].map(({ dataset }) => dataset.view.split(' ').map((ns) => ns / 1e6))"
)


@pytest.fixture(scope="module")
def page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Give the page with both timelines drawn; in the end it must have kept to itself and complained of nothing."""
    file = tmp_path_factory.mktemp("page") / "compare.html"
    compare(TRACES / "pageable_blocking.stack.json.gz", TRACES / "prefetch.stack.json.gz").html(file)
    complaints: list[str] = []
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    open_file(page, file, complaints)
    page.locator(".timeline").first.scroll_into_view_if_needed()
    page.locator(".timeline").last.scroll_into_view_if_needed()
    page.wait_for_selector(".timeline[data-drawn] >> nth=1", timeout=20_000)
    yield page
    page.close()
    assert complaints == []


def ranges(page: Page) -> list[list[float]]:
    """Return the ranges of both plots, once they agree."""
    page.wait_for_function(
        f"() => {{ const [a, b] = ({RANGES})(); return Math.abs(a[0] - b[0]) + Math.abs(a[1] - b[1]) < 1e-6 }}"
    )
    found: list[list[float]] = page.evaluate(RANGES)
    return found


def test_both_begin_with_one_step(page: Page) -> None:
    first, second = ranges(page)
    assert first == second
    assert first[0] < 0
    assert 12.4 < first[1] < 13
    assert page.locator(".plot").count() == 2


def test_the_step_that_is_chosen_is_the_one_that_the_axis_counts_from(page: Page) -> None:
    for timeline in page.locator(".timeline").all():
        chosen = timeline.locator("select.step").evaluate("select => select.selectedOptions[0].text")
        assert timeline.locator(".xtitle").text_content() == f"since the start of {chosen}"
        assert f"from the start of {chosen}" in timeline.inner_text()


def span(page: Page) -> float:
    """Return how much both plots show, once they agree."""
    page.wait_for_timeout(300)
    start, end = ranges(page)[0]
    return end - start


@pytest.mark.parametrize(("leader", "follower"), [(0, 1), (1, 0)])
def test_zooming_one_zooms_the_other(page: Page, leader: int, follower: int) -> None:
    page.locator(".plot").nth(leader).focus()
    page.keyboard.press("0")
    whole = span(page)
    page.keyboard.press("+")
    zoomed = span(page)
    assert zoomed < 0.8 * whole
    page.locator(".plot").nth(follower).focus()
    page.keyboard.press("Home")
    assert span(page) > 1.2 * zoomed


def test_the_first_has_the_tools_for_both(page: Page) -> None:
    first, second = page.locator(".timeline").all()
    for name in ("select", "back", "zoom in", "all", "copy link", "keys"):
        assert first.get_by_role("button", name=name, exact=True).is_visible()
        assert not second.get_by_role("button", name=name, exact=True).is_visible()
    assert second.get_by_role("button", name="save PNG").is_visible()
    assert [one.locator(".hint").is_visible() for one in (first, second)] == [True, False]
    first.get_by_role("button", name="select").click()
    assert page.locator(".plot.selecting").count() == 2
    first.get_by_role("button", name="move").click()
    assert page.locator(".plot.selecting").count() == 0

    second.locator(".plot").focus()
    page.keyboard.press("/")
    assert first.locator(".find").evaluate("find => find === document.activeElement")
    page.keyboard.type("addmm")
    for one in (first, second):
        one.locator(".found", has_text=" found").wait_for()
    second.get_by_role("button", name="next", exact=True).click()
    second.locator(".found", has_text="1 of ").wait_for()
    first.locator(".find").press("Escape")
    page.wait_for_function("() => [...document.querySelectorAll('.found')].every((said) => !said.textContent)")

    first.get_by_role("button", name="all", exact=True).click()
    whole = span(page)
    first.get_by_role("button", name="zoom in").click()
    assert span(page) < 0.8 * whole
    first.get_by_role("button", name="back").click()
    assert span(page) == pytest.approx(whole)
