"""Repeated looks at a long training: a few recorded steps each time, for a small share of its time."""

import json
from collections import deque
from collections.abc import Callable, Generator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import TypeAlias, final

import numpy as np

from pinprof.capture.observe.journal import Journal
from pinprof.capture.options import Progress
from pinprof.capture.window.lean import LeanWindow, MakeProfiler
from pinprof.capture.window.timing import PlainWindow
from pinprof.capture.window.trace_file import description, is_packed
from pinprof.errors import CaptureError
from pinprof.program.hooks import contained, faults
from pinprof.program.machine import Clock
from pinprof.units import NS_PER_MS

MOST_SHARE = 0.005
"""The share of the program's time that looks may take: after a costly look, the next one comes later."""
BETWEEN = "between"
"""The window of the steps between two looks."""
KEPT_STEPS = 1000
"""The last steps before a look, at most, from which the step without the profiler is calculated."""
UNLIKE = 3.0
"""Steps longer than this multiple of the median are left out of the mean: they evaluate, or write a checkpoint."""

OnLook: TypeAlias = Callable[[Path, int], None]
"""Called after each look with its trace, which the next one replaces, and the number of the program's last step."""


def latest(path: Path) -> Path:
    """Return where the trace of the latest look is, given that of the first recording."""
    suffix = ".json.gz" if is_packed(path) else ".json"
    return path.with_name(f"{path.name.removesuffix(suffix)}.latest{suffix}")


@final
class RepeatedLooks:
    """Looks at a program whose first steps are recorded already; `place` returns how many steps it has made."""

    def __init__(self, journal: Journal, make_profiler: MakeProfiler, place: Callable[[], int]) -> None:
        self._journal = journal
        self._make_profiler = make_profiler
        self._place = place

    def record(
        self, every: int, steps: int, path: Callable[[], Path], marker: str, on_look: OnLook
    ) -> Generator[Progress, None, None]:
        """Record `steps` steps again and again, at least `every` steps apart, and call `on_look` after each time."""
        clock, place = self._journal.clock, self._place
        tell = contained(on_look)
        begin_ns = clock.now_ns()
        tell(path(), place())
        cost_ns = clock.now_ns() - begin_ns
        while True:
            times_ns, step_ns = yield from self._between(every, cost_ns)
            begin_ns, first = clock.now_ns(), place()
            if (yield from self._look(steps, latest(path()), _plain(times_ns), marker)):
                tell(latest(path()), place())
            cost_ns = clock.now_ns() - begin_ns - int((place() - first) * step_ns)

    def _between(self, every: int, cost_ns: int) -> Generator[Progress, None, tuple[list[int], float]]:
        """Wait for `every` steps, and until the cost of the last look is a small share of the time since.

        Return the times of the last steps, and the mean time of all steps, in ns.
        """
        clock = self._journal.clock
        begin_ns, count = clock.now_ns(), 0
        ends_ns = deque([begin_ns], KEPT_STEPS + 1)
        while count < every or ends_ns[-1] - begin_ns < cost_ns / MOST_SHARE:
            count += 1
            yield Progress(BETWEEN, count, every)
            ends_ns.append(clock.now_ns())
        return [end - start for start, end in pairwise(ends_ns)], (ends_ns[-1] - begin_ns) / count

    def _look(self, steps: int, path: Path, plain: PlainWindow, marker: str) -> Generator[Progress, None, bool]:
        """Record these steps, and return whether that succeeded: after a look that fails, a later one may succeed."""

        def sections() -> dict[str, str]:
            return {"pinprof": json.dumps(description(plain, marker) | lean.facts())}

        lean = LeanWindow(self._journal, self._make_profiler, sections)
        boundaries = lean.record(steps, lambda: path, self._place)
        try:
            for progress in boundaries:  # noqa: UP028  `yield from` would close the look outside of this `try`
                yield progress
        except CaptureError as error:
            faults.say(f"A look is left out: {error}")
            return False
        finally:
            with suppress(CaptureError):  # of a look that the program's end has cut short
                boundaries.close()
        return True


def _plain(times_ns: list[int]) -> PlainWindow:
    """Return the step without the profiler, of these times in ns."""
    usual_ns = median(times_ns)
    mean_ms = fmean(time_ns for time_ns in times_ns if time_ns <= UNLIKE * usual_ns) / NS_PER_MS
    p10_ms, p90_ms = (float(ns) / NS_PER_MS for ns in np.percentile(times_ns, [10, 90]))
    return PlainWindow(len(times_ns), mean_ms, usual_ns / NS_PER_MS, p10_ms, p90_ms, Clock.kind)
