import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from chromium import Pages
    from playwright.sync_api import Page

pytest_plugins = ["pytester"]
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]  # jsonschema loads it for 2 s, for a format unused
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the tests beside it use the other cores; torch's threads would spin
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background; commands inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)
gc.set_threshold(100_000, 20, 100)  # what tests cache grows to millions of objects
settings.register_profile("any machine", deadline=None)  # how long an example takes is the load's doing
settings.register_profile("not slow", settings.get_profile("any machine"), max_examples=25)  # of 100
settings.load_profile("any machine")

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="Write the expected texts anew; say why in the commit."
    )
    parser.addoption(
        "--recordings", action="store_true", help="Look at all recordings where a chosen few stand for them otherwise."
    )


def pytest_configure(config: pytest.Config) -> None:
    if "not slow" in config.getoption("markexpr"):
        settings.load_profile("not slow")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    from warm_python import share_warm_python  # noqa: PLC0415  for runs in several processes

    share_warm_python()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("recordings") and config.getoption("markexpr") != "recordings":
        others = [item for item in items if item.get_closest_marker("recordings")]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if not item.get_closest_marker("recordings")]
    items.sort(key=_recording)
    needy = [item for item in items if item.get_closest_marker("gpu")]
    if not needy:
        return
    import torch  # noqa: PLC0415  slow to load, and most runs of a few tests do not need it

    if not torch.cuda.is_available():
        for item in needy:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
    elif "pytester" in {name for item in needy for name in getattr(item, "fixturenames", ())}:
        import torch._dynamo  # noqa: PLC0415  a run of pytest in this process would load it again: torch forbids it


def pytest_collection_finish() -> None:
    """Let the garbage collector never look at the thousands of tests again: that took half a second each time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Collect the garbage once: pytest does so five times, and Python as it ends, to look for files left open."""
    gc.collect()
    gc.freeze()


def _recording(item: pytest.Item) -> str:
    """Return the recording that a test looks at: one process then reads and analyses it for all such tests."""
    values = item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ()
    return next((Path(str(value)).name for value in values if str(value).endswith(".json.gz")), "")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return a check that a text is the one kept under this name."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.write_text(text)
        assert text == path.read_text()

    return check


@pytest.fixture(scope="module")
def no_recording() -> None:
    """Undo what a recording of another test has changed of torch: one that no one ended does so when it goes.

    The module's own collections then pass over what was there before, which takes half a second each time.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def pages() -> "Iterator[Pages]":
    """Give the pages of a Chromium for all tests that open some."""
    from chromium import Pages, chromium  # noqa: PLC0415  not every run opens pages

    with chromium() as browser:
        yield Pages(browser)


@pytest.fixture
def opened_text(pages: "Pages", tmp_path: Path) -> "Iterator[Callable[..., Page]]":
    """Return what opens a page with this text, in a window as `Pages.opened` takes it, until the test ends."""

    def open_text(text: str, **window: Any) -> "Page":
        file = tmp_path / "page.html"
        file.write_text(text, encoding="utf-8")
        return open_pages.enter_context(pages.opened(file, **window))

    with ExitStack() as open_pages:
        yield open_text


@pytest.fixture
def warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pinprof start the programs that it measures without the seconds in which each loads torch."""
    from warm_python import warm_python  # noqa: PLC0415  most tests start none

    monkeypatch.setattr("sys.executable", warm_python())
