"""Recordings of torch.profiler without stacks: a few steps, once or again and again, or a stretch of time."""

from collections import Counter, deque
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import TypeAlias, final

import msgspec
import torch

from pinprof.capture.observe.journal import Journal
from pinprof.capture.options import NS_PER_S, Progress
from pinprof.capture.window.timing import PlainWindow
from pinprof.capture.window.trace_file import as_capture_error, description, is_packed, warm_up_profiler, write_trace
from pinprof.ground.errors import CaptureError
from pinprof.ground.host_time import HOST_TIME
from pinprof.ground.units import NS_PER_MS
from pinprof.program.frames import hashes_of_program, is_in_optimizer_step
from pinprof.program.hooks import contained, faults
from pinprof.program.machine import loaders_pin, tries_convolutions, unread_gradients
from pinprof.trace.metadata.info import UnreadGradients

MakeProfiler: TypeAlias = Callable[[int], torch.profiler.profile]
"""Returns a profiler that warms up for `WARM_UP_STEPS` steps and then records the given number of steps."""


def program_profiles() -> bool:
    """Return whether torch's profiler is on; before pinprof starts its own that is one of the program."""
    return bool(torch._C._autograd._profiler_enabled())  # noqa: SLF001  no public name


def _started(make_profiler: MakeProfiler, steps: int) -> torch.profiler.profile:
    with as_capture_error("the profiler did not start"):
        profiler = make_profiler(steps)
        profiler.start()
    return profiler


@final
class LeanWindow:
    """The window whose steps are the trace; `steps` counts the complete ones, `sections` returns what it stores."""

    def __init__(
        self, journal: Journal, make_profiler: MakeProfiler, sections: Callable[[], Mapping[str, str]]
    ) -> None:
        self.steps = 0
        self.is_open = False
        self.profiled = False
        """Whether a profiler of the program was on when the timed steps began, and still when these begin."""
        self._journal = journal
        self._make_profiler = make_profiler
        self._sections = sections
        self._steps_before = 0
        self._loaders_pin: bool | None = None
        self._drawn_before: Counter[int] = Counter()
        self._unread: UnreadGradients | None = None

    def record(self, steps: int, path: Path, steps_made: Callable[[], int]) -> Generator[Progress, None, None]:
        """Record `steps` steps; at the end, however early, write the complete ones. `steps_made` counts all."""
        self._loaders_pin = loaders_pin()
        self.profiled = self.profiled and program_profiles()
        profiler = _started(self._make_profiler, steps)
        self.is_open = True
        try:
            yield from warm_up_profiler(profiler)
            self._steps_before = steps_made()
            self._drawn_before = self._journal.batch_source.of_sampler.copy()
            for step in range(1, steps + 1):
                yield Progress("recorded", step, steps)
                self.steps = step
                if step < steps:
                    profiler.step()
        finally:
            self.is_open = False
            self._write(profiler, path)

    def facts(self) -> dict[str, object]:
        """Return the facts about the program at this window; without a recorded window, those known so far."""
        made = self._journal.batch_source.described(self._drawn_before)
        return {
            "steps_before": self._steps_before,
            "loaders_pin": self._loaders_pin,
            "tries_convolutions": tries_convolutions(),
            "made": asdict(replace(made, hashes=hashes_of_program())),
            "unread": asdict(self._unread) if self._unread else None,
            "profiled": self.profiled,
        }

    def _write(self, profiler: torch.profiler.profile, path: Path) -> None:
        """Stop the profiler, and write the trace if it has a complete step."""
        steps, self.steps = self.steps, 0
        with as_capture_error("the recording could not be finished"):
            if steps:  # the profiler takes metadata only while it records
                self._unread = None if is_in_optimizer_step() else contained(unread_gradients)()  # it reads them
                for name, text in self._sections().items():
                    profiler.add_metadata_json(name, text)
            profiler.stop()
            if steps:
                write_trace(profiler, path)
        self.steps = steps


SHORTEST_STRETCH_S = 0.02  # a shorter stretch mostly shows the start of the profiler
UNTIL_STOPPED = 0  # in place of a number of steps: the profiler records from its start until it is stopped


@final
class Stretch:
    """A recording between two moments of the calling thread; `describe` returns what it stores, given its marker."""

    def __init__(
        self, path: Path, make_profiler: MakeProfiler, describe: Callable[[str], Mapping[str, object]]
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
        return (HOST_TIME.perf_counter_ns() - self._start_ns) / NS_PER_S

    @property
    def is_open(self) -> bool:
        """Whether it records now."""
        return self._running is not None

    def begin(self) -> None:
        """Start the profiler, unless the program runs one of its own: two would crash both."""
        if program_profiles():
            raise CaptureError("the profiler did not start: the program runs one of its own")
        self._running, self._start_ns = _started(self._make_profiler, UNTIL_STOPPED), HOST_TIME.perf_counter_ns()

    def end(self) -> None:
        """Stop the profiler, if it runs, and write what it has recorded."""
        profiler, self._running = self._running, None
        if profiler is None:
            return
        seconds = self.seconds
        self.marker = f"a stretch of {seconds:.1f} s; nothing marked a step"
        with as_capture_error("the recording could not be finished"):
            profiler.add_metadata_json("pinprof", msgspec.json.encode(self._describe(self.marker)).decode())
            profiler.stop()
            if seconds >= SHORTEST_STRETCH_S:
                write_trace(profiler, self.path)
                self.is_written = True


# Repeated recordings of a long training: a few steps each time, for a small share of its time


MAX_SHARE_OF_RECORDINGS = 0.005
"""The share of the program's time that later recordings may take: after a costly one, the next one is later."""
BETWEEN_RECORDINGS = "between"  # the window of the steps between two recordings
MAX_STEPS_BEFORE_RECORDING = 1000  # the last steps before a recording that give the step without the profiler
UNLIKE_STEP_FACTOR = 3.0
"""Steps longer than this multiple of the median are left out of the mean: they evaluate, or write a checkpoint."""
OnRecorded: TypeAlias = Callable[[Path, int], None]
"""Called after each recording with its trace, which the next one replaces, and the number of the last step."""


def latest(path: Path) -> Path:
    """Return where the trace of the latest recording is, given that of the first one."""
    suffix = ".json.gz" if is_packed(path) else ".json"
    return path.with_name(f"{path.name.removesuffix(suffix)}.latest{suffix}")


@dataclass(frozen=True)
class RepeatedRecordings:
    """Later recordings of a program; `steps_made` returns how many steps it has made."""

    _journal: Journal
    _make_profiler: MakeProfiler
    _steps_made: Callable[[], int]

    def record(
        self, every: int, steps: int, path: Path, marker: str, on_recorded: OnRecorded
    ) -> Generator[Progress, None, None]:
        """Record `steps` steps again and again, at least `every` steps apart, and call `on_recorded` each time."""
        clock, steps_made, report = self._journal.clock, self._steps_made, contained(on_recorded)
        begin_ns = clock.now_ns()
        report(path, steps_made())
        cost_ns = clock.now_ns() - begin_ns
        while True:
            times_ns, step_ns = yield from self._await_next(every, cost_ns)
            begin_ns, first = clock.now_ns(), steps_made()
            longest_ns = UNLIKE_STEP_FACTOR * median(times_ns)
            usual_ns = [time_ns for time_ns in times_ns if time_ns <= longest_ns]
            plain = PlainWindow.of(times_ns, fmean(usual_ns) / NS_PER_MS)
            if (yield from self._record_next(steps, latest(path), plain, marker)):
                report(latest(path), steps_made())
            cost_ns = clock.now_ns() - begin_ns - int((steps_made() - first) * step_ns)

    def _await_next(self, every: int, cost_ns: int) -> Generator[Progress, None, tuple[list[int], float]]:
        """Wait for `every` steps, and until the last cost is a small share; return last times and mean, in ns."""
        clock = self._journal.clock
        begin_ns, count = clock.now_ns(), 0
        ends_ns = deque([begin_ns], MAX_STEPS_BEFORE_RECORDING + 1)
        while count < every or ends_ns[-1] - begin_ns < cost_ns / MAX_SHARE_OF_RECORDINGS:
            count += 1
            yield Progress(BETWEEN_RECORDINGS, count, every)
            ends_ns.append(clock.now_ns())
        return [end - start for start, end in pairwise(ends_ns)], (ends_ns[-1] - begin_ns) / count

    def _record_next(self, steps: int, path: Path, plain: PlainWindow, marker: str) -> Generator[Progress, None, bool]:
        """Record these steps, and return whether that succeeded: after a failure, a later recording may succeed."""

        def sections() -> dict[str, str]:
            return {"pinprof": msgspec.json.encode(description(plain, marker) | lean.facts()).decode()}

        lean = LeanWindow(self._journal, self._make_profiler, sections)
        boundaries = lean.record(steps, path, self._steps_made)
        try:
            for progress in boundaries:  # noqa: UP028  `yield from` would close the window outside of this `try`
                yield progress
        except CaptureError as error:
            faults.say(f"A later recording is left out: {error}")
            return False
        finally:
            with suppress(CaptureError):  # the program's end may cut it short
                boundaries.close()
        return True
