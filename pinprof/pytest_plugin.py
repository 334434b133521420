"""A pytest plugin: a test marked `no_gpu_sync` fails if it makes the host wait for the GPU, and names the lines.

A test with the fixture `pinprof_guard` fails if it uses host memory before an asynchronous copy of it has ended.

pytest loads the plugin in every run, so it imports torch and the code that detects waits only before such a test.
"""

import linecache
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pinprof.races.gpu import Gpu
    from pinprof.races.guard import Guard
    from pinprof.trace.lines import SourceLine

MARKER = "no_gpu_sync"
FIXTURE = "pinprof_no_sync"
GUARD_FIXTURE = "pinprof_guard"

MAX_FRAMES_WITHIN_LINE = 5

Noticing = Callable[[Callable[[], None]], AbstractContextManager[None]]
"""Calls a function right after each wait in a block, on the thread that waited."""

NOTICING = pytest.StashKey[Noticing]()
"""In a config's stash: a replacement for the detection of waits by torch."""

GPU_KEY: "pytest.StashKey[Gpu]" = pytest.StashKey()
"""In a config's stash: a replacement for torch's GPUs, which the guard watches."""


@dataclass(frozen=True)
class Allow:
    """The allowed waits: a number of them, or all whose line matches one of the glob patterns."""

    times: int = 0
    patterns: tuple[str, ...] = ()

    def covers(self, line: "SourceLine") -> bool:
        """Return whether a pattern matches the function, the file or `FILE:LINE`, with or without folders."""
        names = line.function, f"/{line.file}", f"/{line.file}:{line.line}"
        patterns = [each for pattern in self.patterns for each in (pattern, f"*/{pattern}")]
        return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


class Watched:
    """The waits of one test for the GPU; the value of the fixture `pinprof_no_sync`."""

    def __init__(self, item: pytest.Item, noticing: Noticing, allow: Allow) -> None:
        self.allow = allow
        self._item = item
        self._noticing = noticing
        self._waits: list[SourceLine] = []
        self._thread: int | None = None
        self._allowing = 0

    @property
    def waits(self) -> "tuple[SourceLine, ...]":
        """The user's line of each wait so far, in order, without waits that a block or a pattern allows."""
        return tuple(self._waits)

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Let the block wait for the GPU."""
        self._allowing += 1
        try:
            yield
        finally:
            self._allowing -= 1

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Note the waits of this thread in the block; those of other threads do not count."""
        self._thread = threading.get_ident()
        with self._noticing(self._waited):
            yield

    def _waited(self) -> None:
        if self._allowing or threading.get_ident() != self._thread:
            return
        from pinprof.program.frames import calling_line  # noqa: PLC0415  slow to load, see above

        caller = sys._getframe(1)  # noqa: SLF001  the only way to a caller without building a whole stack
        line = calling_line(caller, also=str(self._item.path)) or _test_place(self._item)
        if not self.allow.covers(line):
            self._waits.append(line)


TEST_WATCH = pytest.StashKey[Watched]()
TEST_GUARD: "pytest.StashKey[Guard]" = pytest.StashKey()


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(allow=0): fail the test if it makes the host wait for the GPU. allow: how many waits it may "
        "have, or glob patterns of the functions, files or FILE:LINE that may wait.",
    )


@pytest.fixture
def pinprof_no_sync(request: pytest.FixtureRequest) -> Watched:
    """Fail the test if it makes the host wait for the GPU outside of `with pinprof_no_sync.allowed():`."""
    watch = request.node.stash.get(TEST_WATCH, None)
    if watch is None:
        pytest.fail(f"{FIXTURE}: make it an argument of the test; asking for it in the test is too late", pytrace=False)
    return watch


@pytest.fixture
def pinprof_guard(request: pytest.FixtureRequest) -> "Iterator[Guard]":
    """Fail the test if it uses host memory before an asynchronous copy of it is known to have ended."""
    gpu = request.config.stash.get(GPU_KEY, None)
    if gpu is None and _noticing_of_torch() is None:
        pytest.skip(f"{GUARD_FIXTURE}: needs a GPU that torch can see")
    from pinprof.races.guard import Guard  # noqa: PLC0415  loads torch

    with Guard("collect", gpu=gpu) as guard:
        request.node.stash[TEST_GUARD] = guard
        yield guard


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Prepare to watch a test that must not wait; skip it without a GPU."""
    marker = item.get_closest_marker(MARKER)
    if marker is None and FIXTURE not in getattr(item, "fixturenames", ()):
        return
    try:
        allow = _allow(marker) if marker else Allow()
    except ValueError as exc:
        raise pytest.fail.Exception(f"{MARKER}: {exc}", pytrace=False) from None
    noticing = item.config.stash.get(NOTICING, None) or _noticing_of_torch()
    if noticing is None:
        pytest.skip(f"{MARKER}: needs a GPU that torch can see")
    item.stash[TEST_WATCH] = Watched(item, noticing, allow)


def _allow(marker: pytest.Mark) -> Allow:
    if marker.args or set(marker.kwargs) - {"allow"}:
        raise ValueError("it takes only allow=")
    value = marker.kwargs.get("allow", 0)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return Allow(times=value)
    patterns = (value,) if isinstance(value, str) else value
    if isinstance(patterns, Sequence) and all(isinstance(pattern, str) and pattern for pattern in patterns):
        return Allow(patterns=tuple(patterns))
    raise ValueError(f"allow must be a number of waits, a glob pattern or several in a list, not {value!r}")


def _noticing_of_torch() -> Noticing | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of an old driver, and -W error would raise that
        from pinprof.program.machine import has_gpu  # noqa: PLC0415  loads torch
        from pinprof.program.waits import noticing  # noqa: PLC0415  loads torch

        return partial(noticing, linger=True) if has_gpu() else None


def _test_place(item: pytest.Item) -> "SourceLine":
    """Return where a test begins: the place of waits without a line of a file."""
    from pinprof.trace.lines import SourceLine  # noqa: PLC0415  slow to load, see above

    file, line, function = item.location
    return SourceLine(file, None if line is None else line + 1, function)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Watch the test alone: within pytest's capture of warnings, without set-up and teardown of fixtures."""
    watch = item.stash.get(TEST_WATCH, None)
    try:
        with watch.watching() if watch else nullcontext():
            result = yield
    except BaseException:
        _add_sections(item)
        raise
    if getattr(item, "_excinfo", None):  # unittest keeps its failures here and does not raise them
        _add_sections(item)
    elif texts := dict(_texts(item)):
        pytest.fail("\n\n".join(texts.values()), pytrace=False)
    return result


def _add_sections(item: pytest.Item) -> None:
    for name, text in _texts(item):
        item.add_report_section("call", name, text)


def _texts(item: pytest.Item) -> Iterator[tuple[str, str]]:
    watch, guard = item.stash.get(TEST_WATCH, None), item.stash.get(TEST_GUARD, None)
    if watch and len(watch.waits) > watch.allow.times:
        yield MARKER, _waits_text(watch, item.config)
    if guard and not guard.is_clean:
        yield GUARD_FIXTURE, str(guard)


def _waits_text(watch: Watched, config: pytest.Config) -> str:
    places = Counter((line.file, line.line, line.function, _library_frames(line)) for line in watch.waits)
    parts = [f"the host waited for the GPU {_how_often(places.total())}; allowed: {watch.allow.times or 'never'}"]
    for (file, number, function, library_frames), times in places.items():
        rows = [f"{file}:{number} in {function}, {_how_often(times)}"]
        if source := _source(config.invocation_params.dir, file, number):
            rows.append(f"    {source}")
        rows += [f"      {frame}" for frame in library_frames]
        parts.append("\n".join(rows))
    way = f"@pytest.mark.{MARKER}(allow=...), or `with {FIXTURE}.allowed():` around it in the test"
    parts.append(f"If a wait is meant: {way}.")
    return "\n\n".join(parts)


def _how_often(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _library_frames(line: "SourceLine") -> tuple[str, ...]:
    """Return the last library frames between the user's line and the wait, outermost first."""
    own_frame = f"{line.file}:{line.line}:{line.function}"
    inner = line.stack[: line.stack.index(own_frame)] if own_frame in line.stack else line.stack
    frames = [" in ".join(frame.rsplit(":", 1)) for frame in reversed(inner[:MAX_FRAMES_WITHIN_LINE])]
    return ("...", *frames) if len(inner) > MAX_FRAMES_WITHIN_LINE else tuple(frames)


def _source(folder: Path, file: str, number: int | None) -> str:
    """Return the text of a line; file names start at the working folder or an entry of `sys.path`."""
    if number is None:
        return ""
    return (linecache.getline(str(folder / file), number) or linecache.getline(file, number)).strip()
