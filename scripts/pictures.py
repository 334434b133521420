"""Take the pictures of the README anew: a page, its timeline, the timeline as a plotly figure, and the terminal.

Run from the repository root:  PYTHONPATH=.:tests python scripts/pictures.py

They are of `scripts/demo`, and lie in pinprof/guides. Look at them before they are committed.
"""

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from chromium import chromium
from playwright.sync_api import Browser
from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

RECORDING = "traces/runs/images.before.json.gz"
GUIDES = Path("pinprof/guides")
COLUMNS, LINES = 104, 30
WIDTH = 1280
TERMINAL = """\
<body style="margin: 0; background: {background}">
<style>
pre {{ display: inline-block; margin: 0; padding: 16px 24px; font: 14px/1.45 'DejaVu Sans Mono', monospace }}
</style>
<pre style="color: {foreground}">{code}</pre>
"""


def pinprof(*words: str) -> str:
    """Return what a terminal shows of a command."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    command = [sys.executable, "-m", "pinprof", *words]
    shown = b""
    environment = os.environ | {"TERM": "xterm-256color"}
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, env=environment):
        os.close(theirs)
        try:
            while piece := os.read(ours, 1 << 16):
                shown += piece
        except OSError:  # the end of a terminal
            pass
    return shown.decode()


def as_html(text: str) -> str:
    """Return what a terminal shows as a page."""
    console = Console(record=True, file=io.StringIO(), width=COLUMNS, force_terminal=True)
    console.print(Text.from_ansi(text))
    return console.export_html(theme=SVG_EXPORT_THEME, inline_styles=True, code_format=TERMINAL)


def main() -> None:
    """Write the pictures."""
    with chromium() as browser, tempfile.TemporaryDirectory() as folder:
        page, terminal, plotly = (Path(folder, f"{name}.html") for name in ("page", "terminal", "plotly"))
        shown = pinprof("report", RECORDING, "--html", str(page)).splitlines()[:LINES]
        pinprof("timeline", RECORDING, "--plotly", "-o", str(plotly))
        terminal.write_text(as_html("\n".join([f"$ pinprof report {Path(RECORDING).name}", *shown])))
        take(browser, terminal, "terminal.png", "pre")
        take(browser, page, "page.png", "body", 1000)
        take(browser, page, "timeline.png", "#timeline-1", 780)
        take(browser, plotly, "plotly.png", "figure")


def take(browser: Browser, file: Path, name: str, element: str, height: int = 800) -> None:
    """Take the picture of a window with an element at its top; of a terminal or a figure, of that alone."""
    tab = browser.new_page(viewport={"width": WIDTH, "height": height})
    tab.goto(file.as_uri())
    shown = tab.locator(element)
    shown.evaluate("element => element.scrollIntoView()")
    tab.wait_for_timeout(3000)
    target = GUIDES / name
    (shown if element in {"pre", "figure"} else tab).screenshot(path=target)
    print(f"{target}: {target.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
