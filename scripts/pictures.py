"""Take the pictures of the README anew: a page, its timeline, and the timeline as a plotly figure.

Run from the repository root:  PYTHONPATH=.:tests python scripts/pictures.py

They are of `scripts/demo`, and lie in pinprof/guides. Look at them before they are committed.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from chromium import chromium
from playwright.sync_api import Browser

RECORDING = "traces/runs/images.before.json.gz"
GUIDES = Path("pinprof/guides")
WIDTH = 1280
PLOTLY_FIGURE = ".plotly-graph-div"


def main() -> None:
    """Write the pictures."""
    with chromium() as browser, tempfile.TemporaryDirectory() as folder:
        page, plotly = (Path(folder, f"{name}.html") for name in ("page", "plotly"))
        for words in (["report", "--html", str(page)], ["timeline", "--plotly", "-o", str(plotly)]):
            subprocess.run([sys.executable, "-m", "pinprof", *words, RECORDING], check=True, stdout=subprocess.DEVNULL)
        take(browser, page, "page.png", "body", 700)
        take(browser, page, "timeline.png", "#timeline-1", 780)
        take(browser, plotly, "plotly.png", PLOTLY_FIGURE)


def take(browser: Browser, file: Path, name: str, element: str, height: int = 800) -> None:
    """Take the picture of a window with an element at its top; of a figure, of that alone."""
    tab = browser.new_page(viewport={"width": WIDTH, "height": height})
    tab.goto(file.as_uri())
    shown = tab.locator(element)
    shown.evaluate("element => element.scrollIntoView()")
    tab.wait_for_timeout(3000)
    target = GUIDES / name
    (shown if element == PLOTLY_FIGURE else tab).screenshot(path=target)
    print(f"{target}: {target.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
