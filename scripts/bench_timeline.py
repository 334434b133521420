"""Measures the page of a trace in a real Chromium without a GPU: its size, how fast it opens, frames per second.

PYTHONPATH=.:tests python scripts/bench_reader.py make big.json --megabytes 100
PYTHONPATH=.:tests python scripts/bench_timeline.py big.json

The wheel, the drag and the keys are real input events. Frames are counted as the browser asks for them, at most 60 a
second; an input event comes every 17 to 33 ms, and each moves the view once.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import click
from chromium import chromium, complaints_of
from playwright.sync_api import Browser, Page

from pinprof.analysis import analyse
from pinprof.report.trace.page import to_html
from pinprof.trace import read_trace

SIZES = ((1440, 900), (1280, 720), (390, 844))
ROUNDS = 3
COUNT = """() => {
  const plot = document.querySelector(".plot");
  [window.times, window.moved] = [[], 0];
  let last;
  const note = (time) => {
    window.times.push(time);
    if (plot.dataset.view !== last) window.moved += 1;
    last = plot.dataset.view;
    requestAnimationFrame(note);
  };
  requestAnimationFrame(note);
}"""
READY = "() => document.querySelector('.timeline[data-drawn]') !== null"


@click.command()
@click.argument("trace", type=click.Path(exists=True, dir_okay=False))
def main(trace: str) -> None:
    """Print what the page of TRACE weighs and how fast it is."""
    analysis = analyse(read_trace(trace))
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        file = Path(folder) / "page.html"
        start = time.perf_counter()
        file.write_text(to_html([analysis]), encoding="utf-8")
        made_s = time.perf_counter() - start
        events = len(analysis.trace.ops) + len(analysis.trace.calls) + len(analysis.trace.gpu)
        print(
            f"{events:,} ops, calls and GPU activities; page {file.stat().st_size / 1e6:.1f} MB, made in {made_s:.1f} s"
        )
        for width, height in SIZES:
            _measure(browser, file, width, height)


def _measure(browser: Browser, file: Path, width: int, height: int) -> None:
    opened = []
    for number in range(ROUNDS):
        page = browser.new_page(viewport={"width": width, "height": height})
        with complaints_of(page, file) as complaints:
            start = time.perf_counter()
            page.goto(file.as_uri())
            page.evaluate("document.querySelector('.timeline').scrollIntoView()")
            page.wait_for_function(READY)
            opened.append(time.perf_counter() - start)
            if number == ROUNDS - 1:
                print(f"{width} x {height}: opened and drawn in {statistics.median(opened):.2f} s (median of {ROUNDS})")
                _use(page)
        page.close()
    if complaints:
        raise click.ClickException("; ".join(complaints))


def _use(page: Page) -> None:
    page.evaluate(COUNT)
    for what, act in (("wheel", _wheel), ("drag", _drag), ("held W", _hold)):
        page.keyboard.press("0")
        page.wait_for_selector(".plot:not([data-moving])")
        print(f"  {what}: {_frames(page, act)}")


def _frames(page: Page, act: Callable[[Page, float, float], None]) -> str:
    box = page.locator(".plot .rows").bounding_box()
    if box is None:
        raise click.ClickException("the timeline is not there")
    page.evaluate("() => { [window.times, window.moved] = [[], 0] }")
    act(page, box["x"] + 0.6 * box["width"], box["y"] + 150)
    times, moved = page.evaluate("() => [window.times, window.moved]")
    gaps = sorted(after - before for before, after in pairwise(times))
    slow = gaps[int(0.95 * len(gaps))]
    rate = f"{1000 / statistics.mean(gaps):.0f} frames per second, 95 % of them within {slow:.0f} ms"
    return f"{rate}; {len(gaps)} frames, the view moved in {moved}"


def _wheel(page: Page, x: float, y: float) -> None:
    page.mouse.move(x, y)
    page.keyboard.down("Control")
    for turn in range(90):
        page.mouse.wheel(0, -40 if turn < 45 else 40)  # noqa: PLR2004  in, then out
    page.keyboard.up("Control")


def _drag(page: Page, x: float, y: float) -> None:
    for _ in range(3):
        page.locator(".closer").click()
    page.wait_for_selector(".plot:not([data-moving])")
    page.evaluate("() => { [window.times, window.moved] = [[], 0] }")
    page.mouse.move(x, y)
    page.mouse.down()
    for move in range(120):
        page.mouse.move(x - 100 + abs(move % 40 - 20) * 5, y)
    page.mouse.up()


def _hold(page: Page, x: float, y: float) -> None:
    page.mouse.move(x, y)
    page.keyboard.down("w")
    page.wait_for_timeout(1500)
    page.keyboard.up("w")


if __name__ == "__main__":
    main()
