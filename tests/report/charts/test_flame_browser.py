"""Opens a page with two flame graphs in a real Chromium: zoom, keys, search, and what is text of a box."""

from collections.abc import Iterator

import pytest
from chromium import Pages, box_of
from host_builder import host_profile
from playwright.sync_api import Locator, Page
from wait_builder import HOSTILE, waiting

from pinprof.report.trace.page import to_html

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SAMPLES = host_profile(
    (60, "train.py:9:<module> > model.py:4:forward > torch/nn/linear.py:5:linear"),
    (30, "train.py:9:<module> > model.py:3:forward"),
    (10, "train.py:8:<module> > torch/utils/data/dataloader.py:7:__next__ > torch/utils/data/fetch.py:5:fetch"),
    (1, f"train.py:7:{HOSTILE.replace(':', '')} > logs.py:1:write"),
)


@pytest.fixture(scope="module", params=[(1440, "light"), (390, "dark")])
def page(pages: Pages, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Page]:
    folder = tmp_path_factory.mktemp("page")
    (folder / "page.html").write_text(to_html([waiting(folder, SAMPLES)]), encoding="utf-8")
    width, scheme = request.param
    with pages.opened(folder / "page.html", width=width, height=844, scheme=scheme) as page:
        yield page


@pytest.fixture
def host(page: Page) -> Iterator[Locator]:
    """Give the graph of the host, as it is at first, and leave it so."""
    graph = page.locator(".flame", has_text="samples of the main thread")
    graph.scroll_into_view_if_needed()
    yield graph
    graph.locator(".lights").fill("")
    graph.locator(".box").first.press("Home")
    assert names(graph)[0] == "the main thread"


def names(graph: Locator) -> list[str]:
    labels = graph.locator(".box").evaluate_all("boxes => boxes.map((box) => box.ariaLabel.split(',')[0])")
    return list(labels)


def box(graph: Locator, name: str) -> Locator:
    return graph.locator(f".box[aria-label^='{name}']").first


def test_boxes_lie_under_their_callers_as_wide_as_their_time(host: Locator) -> None:
    whole, top, forward = (box_of(one) for one in (box(host, "the main"), box(host, "train.py"), box(host, "forward")))
    assert top["width"] / whole["width"] == pytest.approx(90 / 101, abs=0.01)
    assert forward["width"] / whole["width"] == pytest.approx(60 / 101, abs=0.01)
    assert whole["y"] < top["y"] < forward["y"]
    assert HOSTILE.replace(":", "") in names(host)


def test_a_click_enlarges_a_box_and_the_path_leads_back(page: Page, host: Locator) -> None:
    assert box(host, "forward").inner_text() == "forward:4"  # functions alone look alike
    box(host, "forward").click()
    assert names(host) == ["forward", "linear"]
    assert host.locator(".crumbs button").all_text_contents() == ["the main thread", "train.py", "forward"]
    page.mouse.move(0, 0)
    assert "model.py:4" in host.locator(".told").inner_text()
    host.locator(".crumbs button", has_text="train.py").click()
    assert names(host) == ["train.py", "forward", "linear", "forward"]
    assert host.locator(".crumbs [aria-current]").all_text_contents() == ["train.py"]


def test_keys_go_through_the_tree_enlarge_and_go_back(page: Page, host: Locator) -> None:
    def focused() -> str:
        label: str = page.evaluate("document.activeElement.ariaLabel ?? document.activeElement.className")
        return label

    host.locator(".box[tabindex='0']").focus()
    assert focused().startswith("the main thread, ")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert focused().startswith("train.py, train.py:8, ")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowDown")
    assert focused().startswith("forward, model.py:4, ")
    assert "60 samples" in host.locator(".told").inner_text()
    page.keyboard.press("Enter")
    assert names(host)[0] == "forward"
    assert focused().startswith("forward, ")
    page.keyboard.press("Escape")
    assert names(host)[0] == "train.py"
    assert focused().startswith("forward, ")
    page.keyboard.press("ArrowUp")
    assert focused().startswith("train.py, train.py:9, ")
    assert host.locator(".box[tabindex='0']").count() == 1


def test_pointing_at_a_box_tells_its_values(page: Page, host: Locator) -> None:
    box(host, "train.py").hover()
    text = host.locator(".told").inner_text()
    assert text.splitlines() == ["train.py train.py:9", "89 % of the time, 90 samples; all of it in what it calls"]
    box(host, "linear").hover()
    assert host.locator(".told").inner_text().endswith("; all its own")
    page.mouse.move(0, 0)
    assert host.locator(".told").inner_text().startswith("the main thread")


def test_what_is_searched_for_lights_up(page: Page, host: Locator) -> None:
    host.locator(".lights").fill("MODEL.py")
    assert host.locator(".lit").inner_text() == "2 found, 89 % of the time"
    lit = host.locator(".box.found").evaluate_all("boxes => boxes.map((box) => box.ariaLabel.split(',')[1])")
    assert lit == [" model.py:4", " model.py:3"]
    page.locator(".find").first.fill("fetch")
    assert host.locator(".lights").input_value() == "fetch"
    assert host.locator(".lit").inner_text() == "1 found, 10 % of the time"
    page.locator(".find").first.fill("")
    assert host.locator(".box.found").count() == 0
    host.locator(".lights").fill("no such")
    assert host.locator(".lit").inner_text() == "not found"


def test_inverted_what_takes_the_time_is_on_top_of_what_calls_it(host: Locator) -> None:
    turn = host.get_by_role("button", name="inverted", exact=True)
    turn.click()
    assert turn.get_attribute("aria-pressed") == "true"
    assert names(host)[0] == "the main thread"
    assert host.locator(".box[aria-label^='forward'][aria-level='2']").is_visible()
    tops = host.locator(".box[aria-level='2']").evaluate_all("boxes => boxes.map((box) => parseFloat(box.style.width))")
    assert sum(tops) == pytest.approx(100, abs=0.01)
    assert tops == sorted(tops, reverse=True)
    callers = host.locator(".box[aria-level='3']").evaluate_all(
        "boxes => boxes.map((box) => box.ariaLabel.split(',')[0])"
    )
    assert "train.py" in callers
    turn.click()
    assert turn.get_attribute("aria-pressed") == "false"


def test_waits_are_as_wide_as_they_stall_or_leave_idle(page: Page) -> None:
    graph = page.locator(".flame", has_text="places in which the host waits")
    graph.scroll_into_view_if_needed()
    assert names(graph)[0] == "loop"  # what all ends in before the paths part
    assert graph.locator(".crumbs button").first.inner_text() == "all waits"
    item = box(graph, "item")
    stalled = box_of(item)
    graph.get_by_role("button", name="GPU idle after", exact=True).click()
    idle = box_of(box(graph, "log"))
    assert abs(stalled["width"] - idle["width"]) > 20
    assert "of the idle time that waits leave" in graph.locator(".told").inner_text()
    assert "per step" in graph.locator(".told").inner_text()


def test_nothing_sticks_out_of_the_page(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    colours = page.locator(".box").evaluate_all(
        "boxes => boxes.map((box) => getComputedStyle(box).backgroundColor === getComputedStyle(box).color)"
    )
    assert not any(colours)
