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
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Give the browser; without one the test is skipped."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium (apt-get install chromium)")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


@dataclass(frozen=True)
class Pages:
    """Opens files, in pages that others are done with: in a process of its own, a page takes three times as long."""

    browser: Browser
    _idle: list[Page] = field(default_factory=list)

    @contextmanager
    def opened(
        self, file: Path, *, width: int = 1440, height: int = 900, scheme: Scheme = "light", **options: Any
    ) -> Iterator[Page]:
        """Give a file's page; in the end it must have kept to itself and complained of nothing."""
        is_new = bool(options) or not self._idle
        page = self.browser.new_page(**options) if is_new else self._idle.pop()
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(media="null", color_scheme=scheme)
        with complaints_of(page, file) as complaints:
            page.goto(file.as_uri())
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
        if url != own and not url.startswith(("data:", "blob:")):
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
      const end = performance.now() + 30_000;
      for (let still = 0, before; still < 3; ) {
        await new Promise(requestAnimationFrame);
        const views = states().map(({ view }) => view).join();
        still = views === before && states().every((state) => state.moving === undefined) ? still + 1 : 0;
        before = views;
        if (performance.now() > end) throw new Error("a timeline does not come to rest");
      }
    }""")


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

    folder = files("pinprof.report.timeline")
    page = pages.browser.new_page()
    page.add_script_tag(
        content=constants() + "".join(folder.joinpath(f"{name}.js").read_text("utf-8") for name in names)
    )
    yield page
    page.close()
