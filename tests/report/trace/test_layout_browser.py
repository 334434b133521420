"""How the page is laid out in a real Chromium: nothing that decides is cut off, on no screen."""

import shutil
from collections.abc import Callable

import pytest
from chromium import box_of
from playwright.sync_api import Page
from recordings import TRACES, analysis_of

from pinprof.analysis import analyse
from pinprof.comparison import compare
from pinprof.report.comparison.page import to_html as compared
from pinprof.report.html import Markup
from pinprof.report.trace.page import to_html
from pinprof.trace import read_trace

pytestmark = [pytest.mark.browser, pytest.mark.slow]

COPIES = ".group .table:has-text('Each copy counted')"
SCREENS = [(1440, 900), (1280, 720), (390, 844)]
OVERLAPPING = """() => {
  const touch = (one, other) =>
    one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;
  const found = [];
  for (const chart of document.querySelectorAll(".canvas")) {
    const all = [...chart.querySelectorAll(".xtitle, .ytitle, .xtick, .ytick")];
    const texts = all.map((text) => text.getBoundingClientRect());
    if (texts.some((one, at) => texts.slice(at + 1).some((other) => touch(one, other)))) found.push(chart.textContent);
  }
  return found;
}"""


@pytest.fixture
def opened(opened_text: Callable[..., Page]) -> Callable[..., Page]:
    """Return what opens a page on a screen."""
    return lambda text, screen, scheme="light": opened_text(text, width=screen[0], height=screen[1], scheme=scheme)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Markup:
    """Return the report on a recording that is newer than the sources: of a file that is edited, no line is quoted."""
    trace = tmp_path_factory.mktemp("report") / "mask_loss.stack.json.gz"
    shutil.copyfile(TRACES / trace.name, trace)
    return to_html([analyse(read_trace(trace))])


def cut_off(page: Page, what: str) -> int:
    """Return by how many pixels a part is wider than its place."""
    return int(page.locator(what).first.evaluate("part => part.scrollWidth - part.clientWidth"))


@pytest.mark.parametrize("screen", SCREENS)
def test_all_of_the_copies_is_seen_and_nothing_hits_anything(
    opened: Callable[..., Page], report: Markup, screen: tuple[int, int]
) -> None:
    page = opened(report, screen)
    assert cut_off(page, COPIES) == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= screen[0]
    row = page.locator(f"{COPIES} tbody tr").first
    assert " ".join(row.inner_text().split()).startswith("DtoH pinned 9")
    time = row.locator("td").nth(3)
    assert time.inner_text().replace("\xa0", " ") == "13.1 µs"
    is_list = screen[0] < 700
    label = time.evaluate("cell => getComputedStyle(cell, '::before').content")
    assert label == ('"time"' if is_list else "none")
    assert page.evaluate(OVERLAPPING) == []
    numbers = page.locator(".answer").inner_text()
    assert "\xa0ms" in numbers
    assert " ms" not in numbers


@pytest.mark.parametrize("screen", SCREENS)
def test_the_first_screen_has_the_verdict_the_changes_and_the_timeline_s_beginning(
    opened: Callable[..., Page], report: Markup, screen: tuple[int, int]
) -> None:
    page = opened(report, screen)
    seen = [".headline", ".share .bar", ".short", ".finding summary"]  # the first change is open
    for what in [*seen, ".timeline .steer"] if screen[0] == SCREENS[0][0] else seen:
        box = box_of(page.locator(what).first)
        assert box["y"] + box["height"] <= screen[1]
    assert 1 < page.locator(".contents a").count() <= 7
    page.mouse.wheel(0, 3000)
    page.wait_for_function("() => scrollY > 500")
    links = box_of(page.locator(".contents"))
    assert 0 <= links["y"] < 20


@pytest.mark.parametrize(("screen", "scheme"), [(SCREENS[0], "dark"), (SCREENS[2], "light")])
def test_the_line_of_a_finding_is_quoted_with_what_to_change_in_sight(
    opened: Callable[..., Page], report: Markup, screen: tuple[int, int], scheme: str
) -> None:
    page = opened(report, screen, scheme)
    quote = page.locator(".finding .quote").first
    quote.scroll_into_view_if_needed()
    assert quote.locator(".line").count() == 5
    line = quote.locator("[aria-current]")
    hint = line.locator(".change")
    assert hint.inner_text() == "← keep the shape: torch.where"
    box = box_of(hint)
    assert box["x"] + box["width"] <= screen[0]
    assert quote.inner_text().count("\n\n\n") == 0


@pytest.mark.parametrize(
    ("before", "after", "said"), [("clean", "loss_item", "worse"), ("mask_loss", "clean", "better")]
)
def test_a_comparison_says_better_or_worse_and_fits_a_phone(
    opened: Callable[..., Page], before: str, after: str, said: str
) -> None:
    old, new = (analysis_of(TRACES / f"{name}.json.gz") for name in (before, after))
    page = opened(compared(old, new, compare(old, new)), SCREENS[2])
    assert page.locator(f".{said}", has_text=said).count() >= 3
    status = {"worse": "new", "better": "gone"}[said]
    assert page.locator(f".{said}", has_text=status).count() >= 1
    assert page.locator({"worse": ".better", "better": ".worse"}[said]).count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= SCREENS[2][0]
    assert cut_off(page, ".table") == 0
