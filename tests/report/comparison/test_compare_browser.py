"""Opens the page of a comparison in a real Chromium: two timelines on one time axis."""

from collections.abc import Iterator

import pytest
from chromium import Pages, box_of, come_to_rest, painted
from playwright.sync_api import Page
from recordings import TRACES

from pinprof.notebook import compare

pytestmark = [pytest.mark.browser, pytest.mark.slow]

RANGES = (
    "() => [...document.querySelectorAll('.plot')].map(({ dataset }) => dataset.view.split(' ').map((ns) => ns / 1e6))"
)

BAR = 40
"""The height in pixels of the links that stay in sight."""


@pytest.fixture(scope="module")
def page(pages: Pages, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Give the page with both timelines drawn."""
    file = tmp_path_factory.mktemp("page") / "compare.html"
    compare(TRACES / "pageable_blocking.stack.json.gz", TRACES / "prefetch.stack.json.gz").save(file)
    with pages.opened(file) as page:
        page.locator(".timeline").first.scroll_into_view_if_needed()
        page.locator(".timeline").last.scroll_into_view_if_needed()
        page.wait_for_selector(".timeline[data-drawn] >> nth=1")
        yield page


def ranges(page: Page) -> list[list[float]]:
    """Return the ranges of both plots, once they agree."""
    page.wait_for_function(
        f"() => {{ const [a, b] = ({RANGES})(); return Math.abs(a[0] - b[0]) + Math.abs(a[1] - b[1]) < 1e-6 }}"
    )
    shown: list[list[float]] = page.evaluate(RANGES)
    return shown


def test_both_begin_with_one_step(page: Page) -> None:
    first, second = ranges(page)
    assert first == second
    assert first[0] < 0
    assert 12.4 < first[1] < 13
    assert page.locator(".plot").count() == 2


def test_both_count_from_their_compared_step_wherever_they_show(page: Page) -> None:
    page.locator(".plot").first.focus()
    for key in ("PageDown", "0"):
        page.keyboard.press(key)
        span(page)
        ticks = [timeline.locator(".ticks span").all_text_contents() for timeline in page.locator(".timeline").all()]
        assert ticks[0] == ticks[1] != []
        assert set(page.locator(".xtitle").all_text_contents()) == {"since the start of the compared step of each"}
    page.get_by_role("button", name="back", exact=True).first.click()
    page.get_by_role("button", name="back", exact=True).first.click()


def test_both_are_on_one_axis_that_is_always_there(page: Page) -> None:
    first, second = page.locator(".timeline").all()

    def seen() -> list[bool]:
        return [timeline.locator(".ticks span").first.is_visible() for timeline in (first, second)]

    first.scroll_into_view_if_needed()
    assert seen() == [True, False]
    boxes = [box_of(timeline.locator(".rows")) for timeline in (first, second)]
    assert boxes[0]["x"] == boxes[1]["x"]
    assert boxes[0]["width"] == boxes[1]["width"]
    assert page.locator(".overview:visible").count() == 1
    second.locator(".drawn").scroll_into_view_if_needed()
    page.evaluate("scrollTo(0, document.querySelectorAll('.plot')[1].getBoundingClientRect().top + scrollY + 60)")
    page.wait_for_function("() => document.querySelectorAll('.timeline')[1].matches('.on-top')")
    assert seen() == [False, True]
    assert box_of(second.locator(".head"))["y"] == pytest.approx(BAR, abs=1)
    first.scroll_into_view_if_needed()


def test_the_name_of_a_timeline_does_not_hide_its_axis_on_a_phone(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    second = page.locator(".timeline").nth(1)
    second.locator(".title").evaluate("title => scrollTo(0, title.getBoundingClientRect().top + scrollY - 2)")
    page.wait_for_function("() => document.querySelectorAll('.timeline')[1].matches('.on-top')")
    come_to_rest(page)
    ticks, title = box_of(second.locator(".ticks")), box_of(second.locator(".title"))
    assert ticks["y"] >= title["y"] + title["height"] - 1
    assert second.locator(".ticks span").first.is_visible()
    page.wait_for_function("() => document.documentElement.scrollWidth <= 390")
    page.set_viewport_size({"width": 1440, "height": 900})
    come_to_rest(page)


def test_one_selection_sums_both(page: Page) -> None:
    first, second = page.locator(".timeline").all()
    page.evaluate("document.querySelector('.timeline').scrollIntoView()")
    page.locator(".plot").first.focus()
    span(page)
    names = [box_of(timeline.locator(".names span", has_text="stream 7")) for timeline in (first, second)]
    rows = box_of(first.locator(".rows"))
    page.keyboard.down("Shift")
    page.mouse.move(rows["x"] + 0.1 * rows["width"], names[0]["y"] + 5)
    page.mouse.down()
    page.mouse.move(rows["x"] + 0.8 * rows["width"], names[1]["y"] + 5, steps=5)
    page.mouse.up()
    page.keyboard.up("Shift")
    come_to_rest(page)
    assert page.locator(".sums:visible").count() == 1
    heads = first.locator(".sums thead button").all_inner_texts()
    assert heads == ["name", "total before ▾", "total after", "change", "count before", "count after"]
    sums = first.locator(".sums").inner_text()
    assert "before, GPU 0" in sums
    assert "after, GPU 0" in sums
    assert page.locator(".rubber:visible").count() == 2
    page.get_by_role("button", name="copy link", exact=True).first.click()
    address = page.evaluate("location.hash")
    assert "&s=" in address
    assert "&s2=" in address
    page.keyboard.press("Escape")
    assert page.locator(".sums:visible").count() == 0
    page.evaluate("(hash) => { location.hash = ''; location.hash = hash }", address)
    first.locator(".sums").wait_for()
    assert first.locator(".sums").inner_text() == sums
    first.locator(".plot").focus()
    page.keyboard.press("Escape")


def test_one_legend_is_of_both(page: Page) -> None:
    first, second = page.locator(".timeline").all()
    assert second.locator(".legend button").count() == 0
    before = painted(page)
    first.locator(".legend button", has_text="kernels alone").click()
    come_to_rest(page)
    assert {"kernels alone"} & set(before)
    assert not {"kernels alone"} & set(painted(page))
    first.locator(".legend button", has_text="kernels alone").click()


def span(page: Page) -> float:
    """Return how much both plots show, once they agree and stand still."""
    come_to_rest(page)
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
    assert [timeline.locator(".hint").is_visible() for timeline in (first, second)] == [True, False]
    first.get_by_role("button", name="select", exact=True).click()
    assert page.locator(".plot.selecting").count() == 2
    first.get_by_role("button", name="move").click()
    assert page.locator(".plot.selecting").count() == 0

    first.get_by_role("button", name="all", exact=True).click()
    span(page)
    second.locator(".plot").focus()
    page.keyboard.press("/")
    assert first.locator(".find").evaluate("find => find === document.activeElement")
    page.keyboard.type("addmm")
    first.locator(".found", has_text=" found").wait_for()
    chosen = set()
    for _ in range(8):
        first.get_by_role("button", name="next", exact=True).click()
        come_to_rest(page)
        chosen |= {at for at, timeline in enumerate((first, second)) if timeline.locator(".chosen").is_visible()}
    assert first.locator(".found").inner_text().startswith("8 of ")
    assert chosen == {0, 1}
    first.locator(".find").press("Escape")
    page.wait_for_function("() => [...document.querySelectorAll('.found')].every((sums) => !sums.textContent)")
