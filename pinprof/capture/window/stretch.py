"""Records a stretch of time of a program in which nothing marks a step."""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import get_ident
from typing import Any, final

import torch

from pinprof.capture.bounds import NS_PER_S
from pinprof.capture.window.trace_file import as_capture_error, write_trace
from pinprof.errors import CaptureError

SHORTEST_KEPT_S = 0.02
"""A shorter stretch shows little but the start of the profiler."""

UNTIL_STOPPED = 0
"""In place of a number of steps: the profiler records from its start until it is stopped."""


@final
class Stretch:
    """A recording between two moments, kept in memory until `write`; a later one replaces it.

    `describe` returns what the trace stores, given the text of the marker. Call all of it in the thread to record.
    """

    def __init__(
        self,
        path: Path,
        make_profiler: Callable[[int], torch.profiler.profile],
        describe: Callable[[str], Mapping[str, object]],
    ) -> None:
        self.path = path
        self.marker = ""
        self.is_written = False
        self.has_begun = False
        """Whether a profiler has run: on a GPU, no later step is one without its cost."""
        self._make_profiler = make_profiler
        self._describe = describe
        self._running: Any = None
        self._start_ns = 0
        self._thread = 0
        self._kept: Any = None

    @property
    def seconds(self) -> float:
        """How long it has recorded so far."""
        return (time.perf_counter_ns() - self._start_ns) / NS_PER_S

    @property
    def is_elsewhere(self) -> bool:
        """Whether it records another thread now, which alone can end it."""
        return self.is_open and self._thread != get_ident()

    @property
    def is_open(self) -> bool:
        """Whether it records now."""
        return self._running is not None

    def begin(self) -> None:
        """Start the profiler; not beside one of the program's own, which would crash both."""
        if torch._C._autograd._profiler_enabled():  # noqa: SLF001  no public name
            raise CaptureError("the profiler did not start: the program runs one of its own")
        with as_capture_error("the profiler did not start"):
            profiler = self._make_profiler(UNTIL_STOPPED)
            profiler.start()
        self._running, self._start_ns, self.has_begun = profiler, time.perf_counter_ns(), True
        self._thread = get_ident()

    def end(self) -> None:
        """Stop the profiler, if it runs, and keep what it has recorded."""
        profiler, self._running = self._running, None
        if profiler is None:
            return
        seconds = self.seconds
        marker = f"a stretch of {seconds:.1f} s; nothing marked a step"
        with as_capture_error("the recording could not be finished"):
            profiler.add_metadata_json("pinprof", json.dumps(self._describe(marker)))
            profiler.stop()
        if seconds >= SHORTEST_KEPT_S:
            self._kept, self.marker = profiler, marker

    def write(self) -> bool:
        """Write what was recorded last to `path`; return whether there was anything."""
        self.end()
        profiler, self._kept = self._kept, None
        if profiler is not None:
            with as_capture_error("the recording could not be finished"):
                write_trace(profiler, self.path)
            self.is_written = True
        return self.is_written
