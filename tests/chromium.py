"""A real Chromium for tests that open pages, and what a page does that it should not."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Locator, Page, sync_playwright

Scheme = Literal["light", "dark"]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE_MS = 120_000
"""How long what comes at once may take on a machine that others use."""
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"),
    *("--disable-component-update", "--disable-sync"),
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Give the browser; without one the test is skipped."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium (apt-get install chromium)")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS), timeout=PATIENCE_MS)
        yield browser
        browser.close()


@dataclass(frozen=True)
class Pages:
    """Opens files, in pages that others are done with: in a process of its own, a page takes three times as long."""

    browser: Browser
    _idle: list[Page] = field(default_factory=list)

    @contextmanager
    def opened(
        self,
        file: Path,
        *,
        address: str = "",
        width: int = 1440,
        height: int = 900,
        scheme: Scheme = "light",
        **options: Any,
    ) -> Iterator[Page]:
        """Give a file's page, at an address in it; in the end it must have kept to itself and complained of nothing."""
        is_new = bool(options) or not self._idle
        page = self.browser.new_page(**options) if is_new else self._idle.pop()
        page.set_default_timeout(PATIENCE_MS)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(media="null", color_scheme=scheme)
        with complaints_of(page, file) as complaints:
            page.goto(file.as_uri() + address)
            yield page
            page.goto("about:blank")
        if options:
            page.close()
        else:
            page.mouse.move(0, 0)
            self._idle.append(page)
        assert complaints == []


@contextmanager
def complaints_of(page: Page, file: Path) -> Iterator[list[str]]:
    """Give what a page with this file writes to the console, asks, fails at or requests besides."""
    own, complaints = file.as_uri(), list[str]()

    def requested(url: str) -> None:
        if url.partition("#")[0] != own and not url.startswith(("data:", "blob:")):
            complaints.append(f"request: {url}")

    listeners: dict[str, Callable[[Any], None]] = {
        "console": lambda message: complaints.append(f"{message.type}: {message.text}"),
        "pageerror": lambda error: complaints.append(f"error: {error}"),
        "dialog": lambda dialog: complaints.append(f"dialog: {dialog.message}"),
        "request": lambda request: requested(request.url),
    }
    for event, listener in listeners.items():
        page.on(event, listener)  # type: ignore[call-overload]
    yield complaints
    for event, listener in listeners.items():
        page.remove_listener(event, listener)


def box_of(part: Locator) -> dict[str, float]:
    """Return where a part of a page is, in pixels of the window; it must be there."""
    box = part.bounding_box()
    assert box
    return dict(box)  # type: ignore[arg-type]


def come_to_rest(page: Page) -> None:
    """Wait until timelines stand still and what a key or a click asks for is painted, however slow the machine is."""
    page.evaluate("""async () => {
      const states = () => [...document.querySelectorAll(".plot")].map(({ dataset }) => dataset);
      const end = performance.now() + 120_000;
      for (let still = 0, before; still < 3; ) {
        await new Promise(requestAnimationFrame);
        const views = states().map(({ view }) => view).join();
        still = views === before && states().every((state) => state.moving === undefined) ? still + 1 : 0;
        before = views;
        if (performance.now() > end) throw new Error("a timeline does not come to rest");
      }
    }""")


VIEW = "document.querySelector('.plot').dataset.view.split(' ').map((time) => time / 1e6)"


class Hands:
    """A page with a timeline, and what is done to it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        if self.page.locator(".timeline").count():
            self.page.locator(".timeline").first.scroll_into_view_if_needed()
            self.page.wait_for_selector(".timeline[data-drawn]")
            self.view()

    def view(self) -> tuple[float, float]:
        """Return what is shown, in ms, once it has come to rest."""
        come_to_rest(self.page)
        start, end = self.page.evaluate(VIEW)
        return start, end

    def span(self) -> float:
        start, end = self.view()
        return end - start

    def press(self, key: str) -> tuple[float, float]:
        self.page.keyboard.press(key)
        return self.view()

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def click(self, name: str) -> tuple[float, float]:
        self.button(name).click()
        return self.view()

    def move(self, x: float, y: float) -> None:
        self.page.mouse.move(x, y)
        self.view()

    def area(self) -> dict[str, float]:
        """Return where the lanes are drawn."""
        return box_of(self.page.locator(".plot .rows").first)

    def place(self, label: str, time_ms: float) -> tuple[float, float]:
        """Return where a time is in the lane with this label."""
        start, end = self.view()
        return self.part(label, (time_ms - start) / (end - start))

    def part(self, label: str, share: float) -> tuple[float, float]:
        """Return where a share of what is shown is in the lane with this label."""
        lane = self.page.locator(".timeline .names span", has_text=label).first
        lane.scroll_into_view_if_needed()
        name, area = box_of(lane), self.area()
        return area["x"] + share * area["width"], name["y"] + name["height"] / 2

    def point_at(self, label: str, share: float) -> str:
        """Move the mouse to a part of the lane with this label, and return what the page says of it, if anything."""
        x, y = self.part(label, share)
        self.view()
        self.page.mouse.move(x - 2, y)
        self.move(x, y)
        tip = self.page.locator(".tip")
        return tip.inner_text() if tip.is_visible() else ""

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> tuple[float, float]:
        self.page.mouse.move(*start)
        self.page.mouse.down()
        self.page.mouse.move(*end, steps=4)
        self.page.mouse.up()
        return self.view()

    def lanes(self) -> list[str]:
        return self.page.locator(".timeline .names span").all_text_contents()

    def choose_step(self, **option: Any) -> None:
        self.page.locator("select.step").select_option(**option)
        self.view()

    def details(self) -> str:
        self.view()
        return self.page.locator(".chosen").inner_text()


def painted(page: Page) -> list[str]:
    """Return the texts that the timeline paints anew."""
    colours: list[str] = page.evaluate("""async () => {
      const texts = [];
      const own = CanvasRenderingContext2D.prototype.fillText;
      CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
        texts.push(text);
        return own.call(this, text, ...rest);
      };
      dispatchEvent(new Event("afterprint"));
      CanvasRenderingContext2D.prototype.fillText = own;
      return texts;
    }""")
    return colours


@contextmanager
def with_scripts(pages: Pages, *names: str) -> Iterator[Page]:
    """Give an empty page with these scripts of the timeline."""
    from pinprof.report.timeline import constants  # noqa: PLC0415  few tests need it

    folder = files("pinprof.report.timeline").joinpath("scripts")
    page = pages.browser.new_page()
    page.add_script_tag(
        content=constants() + "".join(folder.joinpath(f"{name}.js").read_text("utf-8") for name in names)
    )
    yield page
    page.close()
