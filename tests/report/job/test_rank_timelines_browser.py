"""Opens the page of a job in a real Chromium: the way to a rank's timeline, and ranks on one axis."""

from collections.abc import Iterator

import pytest
from chromium import Pages
from playwright.sync_api import Page
from recordings import TRACES, analysis_of

from pinprof.ranks.compare import compare_ranks
from pinprof.ranks.rank import measure_rank
from pinprof.report.job.page import to_html

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SPANS = "() => [...document.querySelectorAll('.of-rank .drawn')].map((said) => said.textContent.split(' shown')[0])"


@pytest.fixture(scope="module", params=[1440, 390])
def page(pages: Pages, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Page]:
    analyses = {rank: analysis_of(TRACES / "ranks" / f"sleeping_rank.rank{rank}.before.json.gz") for rank in (0, 1)}
    parts = [measure_rank(analysis.trace) for analysis in analyses.values()]
    ranks = compare_ranks(parts)
    file = tmp_path_factory.mktemp("page") / "job.html"
    text = to_html(ranks, parts, analyses.pop(ranks.shown_rank), others=analyses)
    file.write_text(text, encoding="utf-8")
    with pages.opened(file, width=request.param) as page:
        yield page


def arrived(page: Page, rank: int) -> None:
    page.wait_for_function(
        f"() => document.activeElement.closest('.of-rank')?.dataset.rank === '{rank}' && "
        "document.activeElement.closest('.timeline').dataset.drawn === 'true'"
    )


def test_the_table_of_ranks_leads_to_a_rank_that_was_hidden(page: Page) -> None:
    button = page.locator(".ranks").get_by_role("button", name="rank 1", exact=True)
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert page.locator(".of-rank[data-rank='1']").is_hidden()
    page.locator(".to-rank[data-rank='1']").click()
    arrived(page, 1)
    assert button.get_attribute("aria-pressed") == "true"


def test_zooming_one_rank_zooms_the_others(page: Page) -> None:
    for rank in (0, 1):
        page.locator(f".to-rank[data-rank='{rank}']").click()
        arrived(page, rank)
    page.keyboard.press("+")
    page.wait_for_function(f"() => new Set(({SPANS})()).size === 1")
    (closer, _) = page.evaluate(SPANS)
    page.locator(".of-rank[data-rank='0'] .plot").focus()
    page.keyboard.press("+")
    page.wait_for_function(f"() => new Set(({SPANS})()).size === 1 && ({SPANS})()[0] !== '{closer}'")


def test_the_first_rank_that_is_seen_has_the_tools(page: Page) -> None:
    toggle = page.locator(".ranks [data-rank]").first
    for shown in (True, False, True):
        if toggle.get_attribute("aria-pressed") != str(shown).lower():
            toggle.click()
        tools = page.locator(".of-rank .find")
        assert [tools.nth(at).is_visible() for at in range(2)] == [shown, not shown]


def test_a_click_in_the_heat_map_leads_to_the_rank_or_says_that_it_is_not_drawn(page: Page) -> None:
    column = '<b data-rank="{}" data-file="run/&lt;b&gt;.json">{}</b>'  # this job is too small for a heat map
    figure = f'<figure class="chart">{column.format(1, "one")}{column.format(7, "seven")}</figure>'
    page.locator("#job").evaluate("(part, html) => part.insertAdjacentHTML('afterbegin', html)", figure)
    page.locator(".chart [data-rank='1']").click()
    arrived(page, 1)
    page.locator(".chart [data-rank='7']").click()
    said = page.locator(".rank-note")
    assert said.text_content() == "Rank 7 is not drawn here: pinprof report run/<b>.json --html FILE draws it."
