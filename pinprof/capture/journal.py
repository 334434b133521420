"""The journal of a run: how long each step took, how long it was in a DataLoader, and what else was in it."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Final

import numpy as np

from pinprof.capture.plain import Clock, Mark
from pinprof.capture.supply import Supply
from pinprof.trace.lines import Place
from pinprof.trace.run import NOWHERE, Later, RunLog, Work
from pinprof.usual import Times

MOST_STEPS: Final = 20_000
"""Steps after so many are only summed: a run may have millions."""
MOST_WORK: Final = 5_000
"""Work in steps is noted so often at most: a program may call `eval()` in every step."""
MOST_UNTIMED: Final = 500
"""After so many steps the GPU's times are asked for: seldom, since an answer takes a virtual machine some 50 us."""


class Journal:
    """Notes the steps of a run as they end; `log()` returns what it noted.

    What comes before the first `end_step` is the first step, or the start-up if `begin` was told so. What other threads
    than the one that made it, or that called `move`, do is not noted.
    """

    def __init__(self, make_clock: Callable[[], Clock]) -> None:
        self.clock = make_clock()
        self.supply = Supply()
        self.unavoidable: str | None = None
        self._make_clock = make_clock
        self._begins_with_step = True
        self._start_up_ns = 0
        self._thread = get_ident()
        self._windows: list[tuple[str, int]] = []
        self._step_ns: list[int] = []
        self._own_ns: list[int] = []
        self._input_ns: list[int] = []
        self._gpu_ns: list[int] = []
        self._work: list[Work] = []
        self._places: dict[Place, int] = {}
        self._later = Later()
        self._resumed_ns = self._ended_ns = self.clock.now_ns()
        self._waited_ns = 0
        self._times_gpu = False
        self._opened: Mark = None
        self._untimed: deque[tuple[int, Mark, Mark]] = deque()

    def __len__(self) -> int:
        return len(self._step_ns)

    @property
    def is_full(self) -> bool:
        """Whether further steps are only summed."""
        return len(self) == MOST_STEPS

    @property
    def steps_left(self) -> int | None:
        """How many steps the program surely still makes in its first epoch; None where nobody knows, or in a later."""
        left = self.supply.left
        return None if left is None else left // max(1, round(self.supply.drawn / max(1, len(self))))

    def begin(self, *, with_step: bool) -> None:
        """Note the begin of the run: of its first step, or of its start-up."""
        self._begins_with_step = with_step
        self._resumed_ns = self._ended_ns = self.clock.now_ns()

    def end_step(self, window: str) -> None:
        """Note the end of a step, which pinprof used for this window; call `resume` when the next one begins."""
        now = self.clock.now_ns()
        took, own, waited = now - self._resumed_ns, self._resumed_ns - self._ended_ns, self._waited_ns
        self._ended_ns, self._waited_ns = now, 0
        mark = self.clock.mark() if self._times_gpu else None
        if not self._begins_with_step:
            self._begins_with_step, self._start_up_ns = True, took + own
        elif self.is_full:
            later = self._later
            self._later = Later(later.steps + 1, later.ns + took + own, later.input_ns + waited)
        else:
            self._note(window, took, own, waited, mark)
        if len(self._untimed) >= MOST_UNTIMED:
            self._settle()

    def move(self) -> None:
        """Note from now on what this thread does."""
        self._thread = get_ident()

    def begin_anew(self) -> None:
        """Take all steps so far for start-up, because they were marked otherwise than those that come."""
        self._start_up_ns += sum(self._step_ns) + sum(self._own_ns)
        for noted in (self._windows, self._step_ns, self._own_ns, self._input_ns, self._gpu_ns, self._work):
            noted.clear()
        self._untimed.clear()

    def resume(self) -> None:
        """Note that the next step begins; the GPU may have been idle since the last one ended."""
        if self.clock.kind == Clock.kind:
            self.renew_clock()
        if self._times_gpu:
            self._opened = self.clock.mark()
            self.clock.make_ready()
        else:
            self._opened = None
        self._resumed_ns = self.clock.now_ns()

    def renew_clock(self) -> Clock:
        """Take the clock of the GPU that the program uses now, if any, and return it."""
        self.clock = self._make_clock()
        return self.clock

    @contextmanager
    def timing_gpu(self) -> Iterator[None]:
        """Take the GPU's times of the steps that begin in the block too; enter it between two steps."""
        self.clock.make_ready(2 * MOST_UNTIMED)
        self._times_gpu = True
        try:
            yield
        finally:
            self._times_gpu = False

    def waited_for_input(self, ns: int) -> None:
        """Note a time in a DataLoader that ends now, as far as it lies in the current step."""
        if get_ident() == self._thread:
            self._waited_ns += min(ns, self.clock.now_ns() - self._resumed_ns)

    def worked(self, kind: str, ns: int = 0, place: Place | None = None) -> None:
        """Note irregular work in the current step; see `Work`."""
        if len(self._work) < MOST_WORK and not self.is_full and get_ident() == self._thread:
            number = NOWHERE if place is None else self._places.setdefault(place, len(self._places))
            self._work.append(Work(len(self), kind, ns, number))

    def times_ns(self, first: int = 0) -> Times:
        """Return the time of each step from this one on: the GPU's from end to end of its work, else the host's."""
        self._settle()
        on_gpu = np.array(self._gpu_ns[first:], dtype=np.int64)
        return np.where(on_gpu > 0, on_gpu, np.array(self._step_ns[first:], dtype=np.int64))

    def ns_in(self, window: str) -> int:
        """Return how long the steps of a window took together, by the host's clock."""
        of_window = np.repeat([name == window for name, _ in self._windows], [count for _, count in self._windows])
        return int(np.array(self._step_ns, dtype=np.int64)[of_window.astype(bool)].sum())

    def steps_in(self, window: str) -> int:
        """Return how many steps a window had."""
        return sum(count for name, count in self._windows if name == window)

    def log(self) -> RunLog:
        """Return what was noted until now."""
        self._settle()
        now = self.clock.now_ns()
        return RunLog(
            start_up_ns=self._start_up_ns,
            windows=tuple(self._windows),
            step_ns=tuple(self._step_ns),
            own_ns=tuple(self._own_ns),
            input_ns=tuple(self._input_ns),
            gpu_ns=tuple(self._gpu_ns),
            after_ns=now - self._resumed_ns,
            own_after_ns=self._resumed_ns - self._ended_ns,
            work=tuple(self._work),
            places=tuple(self._places),
            later=self._later,
            unavoidable=self.unavoidable,
        )

    def _note(self, window: str, took: int, own: int, waited: int, mark: Mark) -> None:
        name, steps = self._windows[-1] if self._windows else ("", 0)
        if name == window:
            self._windows[-1] = window, steps + 1
        else:
            self._windows.append((window, 1))
        if self._opened is not None and mark is not None:
            self._untimed.append((len(self), self._opened, mark))
        self._step_ns.append(took)
        self._own_ns.append(own)
        self._input_ns.append(waited)
        self._gpu_ns.append(0)

    def _settle(self) -> None:
        """Ask for the GPU's times of all steps to which it has come."""
        while self._untimed:
            step, start, end = self._untimed[0]
            time = self.clock.between(start, end)
            if time is None:
                return
            self._gpu_ns[step] = time
            self._untimed.popleft()
