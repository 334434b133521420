"""A real Chromium for tests that open pages, and what a page does that it should not."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

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


def open_file(page: Page, file: Path, complaints: list[str]) -> None:
    """Open a file; whatever the page writes to the console, asks, fails at or requests besides becomes a complaint."""
    own = file.as_uri()

    def requested(url: str) -> None:
        if url != own and not url.startswith(("data:", "blob:")):
            complaints.append(f"request: {url}")

    page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
    page.on("request", lambda request: requested(request.url))
    page.goto(own)


def painted(page: Page) -> list[str]:
    """Return the texts that the timeline paints anew."""
    found: list[str] = page.evaluate("""async () => {
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
    return found
