"""What stops the host's thread within steps: Python's garbage collector, and other threads on its CPU."""

import gc
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final

from pinprof.ground.host_time import HOST_TIME
from pinprof.program.frames import called_at, calling_line
from pinprof.program.hooks import contained
from pinprof.program.machine import Delay
from pinprof.trace.lines import Place
from pinprof.trace.metadata.run_log import PROFILED_WINDOWS, WATCH_WINDOW, Collections, HostStops

OLDEST_GENERATION: Final = 2
"""The generation of the oldest objects: its collections look at all objects, are few, and take long."""
UNTYPICAL_WINDOWS: Final = frozenset({"warm-up", WATCH_WINDOW, *PROFILED_WINDOWS})
"""Windows whose steps differ from those of a run without pinprof."""
MAX_COLLECTION_PLACES: Final = 100  # places that are kept at most: a collection may begin at any line


class Stops:
    """Sums up the stops of steps; a collection in any thread counts, as no other thread runs Python meanwhile."""

    def __init__(self) -> None:
        self._delay = Delay()
        self._delayed_ns = self._delay.now_ns()
        self._off_cpu_ns = self._steps = self._began_ns = 0
        self._new: list[tuple[int, int]] = []
        self._sums: dict[int, Collections] = {}
        self._places: Counter[Place] = Counter()
        self._on_collection = contained(self._note)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Listen to the garbage collector in the block."""
        gc.callbacks.append(self._on_collection)
        try:
            yield
        finally:
            with suppress(ValueError):  # the program may have emptied the list
                gc.callbacks.remove(self._on_collection)
            self._delay.close()

    def end_step(self, window: str) -> int:
        """Count the stops of a step, unless the window makes its steps longer; return its ns off the CPU."""
        off_cpu_ns = max(self._delay.now_ns() - self._delayed_ns, 0)
        if window in UNTYPICAL_WINDOWS:
            return off_cpu_ns
        self._steps += 1
        self._off_cpu_ns += off_cpu_ns
        for generation, ns in self._new:
            old = self._sums.get(generation, Collections(generation, 0, 0, 0))
            self._sums[generation] = Collections(generation, old.count + 1, old.ns + ns, max(old.longest_ns, ns))
        return off_cpu_ns

    @property
    def long_collections_ns(self) -> int:
        """How long collections of all objects have taken in the current step."""
        return sum(ns for generation, ns in self._new if generation == OLDEST_GENERATION)

    def resume(self) -> None:
        """Leave out what happened since the last step ended."""
        self._new.clear()
        self._delayed_ns = self._delay.now_ns()

    def begin_anew(self) -> None:
        """Forget the steps so far, and watch the thread that calls it."""
        self._delay.close()
        self._delay = Delay()
        self._off_cpu_ns = self._steps = 0
        self._sums.clear()
        self._places.clear()
        self.resume()

    def sums(self) -> HostStops:
        """Return the sums so far."""
        place, times = next(iter(self._places.most_common(1)), (Place(), 0))
        oldest = self._sums.get(OLDEST_GENERATION)
        collections = tuple(self._sums[generation] for generation in sorted(self._sums))
        asked_at = place if oldest is not None and times > oldest.count / 2 else None
        return HostStops(self._steps, self._off_cpu_ns, collections, asked_at)

    def _note(self, phase: str, info: dict[str, Any]) -> None:
        now = HOST_TIME.perf_counter_ns()
        if phase == "start":
            self._began_ns = now
        elif self._began_ns:
            self._new.append((info["generation"], now - self._began_ns))
            self._began_ns = 0
            if info["generation"] == OLDEST_GENERATION and len(self._places) < MAX_COLLECTION_PLACES:
                with suppress(ValueError):  # no Python code runs: the interpreter collects as it ends
                    self._note_line(sys._getframe(2))  # noqa: SLF001  of the code that ran, outside the wrapper

    def _note_line(self, frame: FrameType) -> None:
        """Note the line that asked for a collection; before Python 3.11 any line of code that may ask for one."""
        called = called_at(frame.f_code, frame.f_lasti) if sys.version_info >= (3, 11) else "collect"
        if called == "collect" and "collect" in frame.f_code.co_names and (line := calling_line(frame)):
            self._places[line.place] += 1
