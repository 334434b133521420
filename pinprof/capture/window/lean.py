"""Recordings of torch.profiler without stacks: a few steps, or a stretch of time if nothing marks a step."""

import json
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TypeAlias, final

import torch

from pinprof.capture.observe.journal import Journal
from pinprof.capture.options import NS_PER_S, Progress
from pinprof.capture.window.trace_file import as_capture_error, warm_up_profiler, write_trace
from pinprof.errors import CaptureError
from pinprof.program.constructors import constructors
from pinprof.program.machine import loaders_pin

MakeProfiler: TypeAlias = Callable[[int], torch.profiler.profile]
"""Returns a profiler that warms up for `WARM_UP_STEPS` steps and then records the given number of steps."""


@final
class LeanWindow:
    """The window whose steps are the trace; `steps` is the number of complete ones so far.

    `sections` returns pinprof's sections of the trace, as JSON by name.
    """

    def __init__(
        self, journal: Journal, make_profiler: MakeProfiler, sections: Callable[[], Mapping[str, str]]
    ) -> None:
        self.steps = 0
        self.is_open = False
        self._journal = journal
        self._make_profiler = make_profiler
        self._sections = sections
        self._steps_before = 0
        self._loaders_pin: bool | None = None
        self._drawn_before: Counter[int] = Counter()

    def record(self, steps: int, path: Callable[[], Path], place: Callable[[], int]) -> Generator[Progress, None, None]:
        """Record `steps` steps; at the end, however early, write the complete ones to `path`.

        `place` returns how many steps the program has made.
        """
        self._loaders_pin = loaders_pin()
        with as_capture_error("the profiler did not start"):
            profiler = self._make_profiler(steps)
            profiler.start()
        self.is_open = True
        try:
            yield from warm_up_profiler(profiler)
            self._steps_before = place()
            self._drawn_before = self._journal.batch_source.of_sampler.copy()
            for step in range(1, steps + 1):
                yield Progress("recorded", step, steps)
                self.steps = step
                if step < steps:
                    profiler.step()
        finally:
            self.is_open = False
            self._write(profiler, path())

    def facts(self) -> dict[str, object]:
        """Return the facts about the program at this window; without a recorded window, those known so far."""
        made = constructors.described(self._journal.batch_source.of_sampler - self._drawn_before)
        return {"steps_before": self._steps_before, "loaders_pin": self._loaders_pin, "made": asdict(made)}

    def _write(self, profiler: torch.profiler.profile, path: Path) -> None:
        """Stop the profiler, and write the trace if it has a complete step."""
        steps, self.steps = self.steps, 0
        with as_capture_error("the recording could not be finished"):
            if steps:  # the profiler takes metadata only while it records
                for name, text in self._sections().items():
                    profiler.add_metadata_json(name, text)
            profiler.stop()
            if steps:
                write_trace(profiler, path)
        self.steps = steps


SHORTEST_KEPT_S = 0.02
"""A shorter stretch mostly shows the start of the profiler."""

UNTIL_STOPPED = 0
"""In place of a number of steps: the profiler records from its start until it is stopped."""


@final
class Stretch:
    """A recording between two moments, for a program in which nothing marks a step.

    `describe` returns the facts that the trace stores, given the text of the marker. Call the methods in the thread to
    record.
    """

    def __init__(
        self,
        path: Path,
        make_profiler: MakeProfiler,
        describe: Callable[[str], Mapping[str, object]],
    ) -> None:
        self.path = path
        self.marker = ""
        self.is_written = False
        self._make_profiler = make_profiler
        self._describe = describe
        self._running: torch.profiler.profile | None = None
        self._start_ns = 0

    @property
    def seconds(self) -> float:
        """How long it has recorded so far."""
        return (time.perf_counter_ns() - self._start_ns) / NS_PER_S

    @property
    def is_open(self) -> bool:
        """Whether it records now."""
        return self._running is not None

    def begin(self) -> None:
        """Start the profiler, unless the program runs one of its own: two would crash both."""
        if torch._C._autograd._profiler_enabled():  # noqa: SLF001  no public name
            raise CaptureError("the profiler did not start: the program runs one of its own")
        with as_capture_error("the profiler did not start"):
            profiler = self._make_profiler(UNTIL_STOPPED)
            profiler.start()
        self._running, self._start_ns = profiler, time.perf_counter_ns()

    def end(self) -> None:
        """Stop the profiler, if it runs, and write what it has recorded."""
        profiler, self._running = self._running, None
        if profiler is None:
            return
        seconds = self.seconds
        self.marker = f"a stretch of {seconds:.1f} s; nothing marked a step"
        with as_capture_error("the recording could not be finished"):
            profiler.add_metadata_json("pinprof", json.dumps(self._describe(self.marker)))
            profiler.stop()
            if seconds >= SHORTEST_KEPT_S:
                write_trace(profiler, self.path)
                self.is_written = True
