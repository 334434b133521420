"""Opens the page of a comparison in a real Chromium: two timelines on one time axis."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright

from pinprof.notebook import compare

pytestmark = pytest.mark.browser

TRACES = Path(__file__).parents[2] / "traces"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
RANGES = "() => [...document.querySelectorAll('.plot')].map((plot) => plot.layout.xaxis.range.map(Number))"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Give the page with both timelines drawn; in the end it must have kept to itself and complained of nothing."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium (apt-get install chromium)")
    file = tmp_path_factory.mktemp("page") / "compare.html"
    compare(TRACES / "pageable_blocking.stack.json.gz", TRACES / "prefetch.stack.json.gz").html(file)
    complaints: list[str] = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--headless", "--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: complaints.append(request.url) if "://" in request.url else None)
        page.goto(file.as_uri())
        complaints.remove(file.as_uri())
        page.locator(".timeline").first.scroll_into_view_if_needed()
        page.locator(".timeline").last.scroll_into_view_if_needed()
        page.wait_for_selector(".timeline[data-linked]", timeout=20_000)
        yield page
        browser.close()
    assert [each for each in complaints if not each.startswith(("data:", "blob:"))] == []


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


def test_each_step_has_a_frame_of_its_length(page: Page) -> None:
    ends = page.evaluate("() => [...document.querySelectorAll('.plot')].map((plot) => plot.layout.shapes[0].x1)")
    assert ends == pytest.approx([12.47, 9.55], abs=0.01)
    assert page.get_by_text("a step: 9.55 ms").count() == 1


@pytest.mark.parametrize(("leader", "follower"), [(0, 1), (1, 0)])
def test_zooming_one_zooms_the_other(page: Page, leader: int, follower: int) -> None:
    page.locator(".plot").nth(leader).focus()
    page.keyboard.press("0")
    whole = ranges(page)[follower]
    page.keyboard.press("+")
    page.wait_for_function(f"() => ({RANGES})()[{leader}][1] < {whole[1]} - 1")
    zoomed = ranges(page)
    assert zoomed[0] == pytest.approx(zoomed[1])
    page.locator(".timeline").nth(follower).get_by_role("button", name="all", exact=True).click()
    page.wait_for_function(f"() => ({RANGES})()[{leader}][1] > {whole[1]} - 0.001")
    assert ranges(page)[leader] == pytest.approx(whole)


def test_the_buttons_of_both_show_the_view(page: Page) -> None:
    page.locator(".timeline").last.get_by_role("button", name="one step", exact=True).click()
    ranges(page)
    for number in range(2):
        pressed = page.locator(".timeline").nth(number).locator('.steps button[aria-pressed="true"]')
        assert pressed.all_text_contents() == ["one step"]
