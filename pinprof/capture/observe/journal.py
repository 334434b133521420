"""The journal of a run: how long each step took, how long it waited in a DataLoader, and its irregular work."""

import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from itertools import groupby
from threading import get_ident
from typing import Any, Final

import msgspec
import numpy as np
import torch
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from pinprof.capture.observe.compiler import compiled_frames, graph_breaks, last_compiled, recompilations
from pinprof.capture.observe.stops import Stops
from pinprof.ground.host_time import HOST_TIME
from pinprof.ground.step_statistics import Series
from pinprof.program.frames import calling_line
from pinprof.program.hooks import contained, replaced
from pinprof.program.loaders import BatchSource
from pinprof.program.machine import Clock, EventMark
from pinprof.trace.lines import Place
from pinprof.trace.metadata import run_log
from pinprof.trace.metadata.run_log import IrregularWork, LaterSteps, RunLog

MAX_LOGGED_STEPS: Final = 20_000  # further steps are only summed: a run may have millions
MAX_LOGGED_WORK: Final = 5_000  # irregular work that is noted at most: a program may call `eval()` in every step
MAX_UNTIMED_STEPS: Final = 500
"""Steps whose GPU times are read together: on a virtual machine each read takes some 50 us."""
MIN_COLLECTION_SHARE_OF_STEP: Final = 0.5
"""Collections of all objects that take more than this share of a step make it irregular: it is twice as long."""
LONG_PAUSE_NS: Final = 20_000_000
"""A pause between two steps in which workers fill their queues, as where a profiler starts or stops."""


class _Step(msgspec.Struct, gc=False):
    """A step; its fields are those of `RunLog`. The garbage collector skips it, as there may be thousands."""

    window: str
    ns: int
    own_ns: int
    input_ns: int
    is_filling: bool
    off_cpu_ns: int
    gpu_ns: int = 0


class Journal:
    """Notes the steps of a run as they end; `log()` returns what it noted.

    The first `end_step` ends the first step, or the start-up if `begin` says so. The journal notes the work of one
    thread: the one that made the journal, or that called `move`.
    """

    def __init__(self, make_clock: Callable[[], Clock]) -> None:
        self.clock = make_clock()
        self.batch_source = BatchSource()
        self.stops = Stops()
        self.unavoidable: str | None = None
        self._make_clock = make_clock
        self._begins_with_step = True
        self._start_up_ns = 0
        self._thread = get_ident()
        self._steps: list[_Step] = []
        self._work: list[IrregularWork] = []
        self._places: dict[Place, int] = {}
        self._later = LaterSteps()
        self._resumed_ns = self._ended_ns = self.clock.now_ns()
        self._waited_ns = self._drawn_before = 0
        self._compiled = compiled_frames()
        self._times_gpu = False
        self._opened: EventMark = None
        self._untimed: deque[tuple[_Step, EventMark, EventMark]] = deque()

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def is_full(self) -> bool:
        """Whether further steps are only summed."""
        return len(self) == MAX_LOGGED_STEPS

    @property
    def steps_left(self) -> int | None:
        """How many steps are left in the program's first epoch; None where that is unknown, and in later epochs."""
        left = self.batch_source.left
        drawn = self.batch_source.drawn - self._drawn_before
        return None if left is None else left // max(1, round(drawn / max(1, len(self))))

    def begin(self, *, with_step: bool) -> None:
        """Note where the run begins: with its first step, or with its start-up."""
        self._begins_with_step = with_step
        self.stops.resume()
        self._resumed_ns = self._ended_ns = self.clock.now_ns()

    def end_step(self, window: str) -> None:
        """Note the end of a step of this window; call `resume` when the next step begins."""
        off_cpu_ns = self.stops.end_step(window) if self._begins_with_step else 0
        compiled_before, self._compiled = self._compiled, compiled_frames()
        if self._compiled > compiled_before:
            self.note_work(run_log.COMPILE, place=last_compiled())
        now = self.clock.now_ns()
        took, own, waited = now - self._resumed_ns, self._resumed_ns - self._ended_ns, self._waited_ns
        self._ended_ns, self._waited_ns = now, 0
        mark = self.clock.mark() if self._times_gpu else None
        if not self._begins_with_step:
            self._begins_with_step = True
            self._start_up_ns += took + own
        elif self.is_full:
            later = self._later
            self._later = LaterSteps(later.steps + 1, later.ns + took + own, later.input_ns + waited)
        else:
            collected = self.stops.long_collections_ns
            if collected > MIN_COLLECTION_SHARE_OF_STEP * took:
                self.note_work(run_log.GARBAGE, collected)
            step = _Step(window, took, own, waited, self.batch_source.is_filling, off_cpu_ns)
            self._steps.append(step)
            if self._opened is not None and mark is not None:
                self._untimed.append((step, self._opened, mark))
        if len(self._untimed) >= MAX_UNTIMED_STEPS:
            self._settle()

    def move(self) -> None:
        """Note the work of the calling thread from now on."""
        self._thread = get_ident()
        self.stops.begin_anew()

    def begin_anew(self, *, with_step: bool) -> None:
        """Count all steps so far as start-up, because other steps follow; also the open one if not `with_step`."""
        self._start_up_ns += sum(step.ns + step.own_ns for step in self._steps)
        self._begins_with_step, self.unavoidable, self._drawn_before = with_step, None, self.batch_source.drawn
        self._steps.clear()
        self.stops.begin_anew()
        self._work.clear()
        self._untimed.clear()

    def resume(self) -> None:
        """Note that the next step begins; the GPU may have been idle since the last one ended."""
        if self._times_gpu:
            self._opened = self.clock.mark()
            self.clock.make_ready()
        else:
            self._opened = None
        self.stops.resume()
        self._resumed_ns = self.clock.now_ns()
        if self._resumed_ns - self._ended_ns >= LONG_PAUSE_NS:
            self.batch_source.stand_still()

    def renew_clock(self) -> Clock:
        """Return a new clock: that of the GPU which the program uses now, if any."""
        self.clock = self._make_clock()
        return self.clock

    @contextmanager
    def timing_gpu(self) -> Iterator[None]:
        """Time the steps that begin in the block on the GPU as well; enter it between two steps."""
        self.clock.make_ready(2 * MAX_UNTIMED_STEPS)
        self._times_gpu = True
        try:
            yield
        finally:
            self._times_gpu = False

    def note_input_wait(self, ns: int) -> None:
        """Note the last `ns` as time in a DataLoader, as far as they lie in the current step."""
        if get_ident() == self._thread:
            self._waited_ns += min(ns, self.clock.now_ns() - self._resumed_ns)

    def note_work(self, kind: str, ns: int = 0, place: Place | None = None) -> None:
        """Note irregular work in the current step; see `IrregularWork`."""
        if len(self._work) < MAX_LOGGED_WORK and not self.is_full and get_ident() == self._thread:
            number = run_log.NOWHERE if place is None else self._places.setdefault(place, len(self._places))
            self._work.append(IrregularWork(len(self), kind, ns, number))

    def times_ns(self, first: int = 0) -> Series:
        """Return the time of each step from step `first` on: that of the GPU if it was timed, otherwise the host's."""
        self._settle()
        return np.array([step.gpu_ns or step.ns for step in self._steps[first:]], dtype=np.int64)

    def ns_in(self, window: str) -> int:
        """Return how long the steps of a window took together, by the host's clock."""
        return sum(step.ns for step in self._steps if step.window == window)

    def steps_in(self, window: str) -> int:
        """Return how many steps a window had."""
        return sum(step.window == window for step in self._steps)

    def log(self) -> RunLog:
        """Return what was noted until now."""
        self._settle()
        now, steps = self.clock.now_ns(), self._steps
        return RunLog(
            start_up_ns=self._start_up_ns,
            windows=tuple((window, len(list(of))) for window, of in groupby(step.window for step in steps)),
            step_ns=tuple(step.ns for step in steps),
            own_ns=tuple(step.own_ns for step in steps),
            input_ns=tuple(step.input_ns for step in steps),
            gpu_ns=tuple(step.gpu_ns for step in steps),
            off_cpu_ns=tuple(step.off_cpu_ns for step in steps),
            after_ns=now - self._resumed_ns,
            own_after_ns=self._resumed_ns - self._ended_ns,
            work=tuple(self._work),
            places=tuple(self._places),
            later=self._later,
            unavoidable=self.unavoidable,
            stops=self.stops.sums(),
            graph_breaks=graph_breaks(),
            recompiled=recompilations(),
            filling=tuple(number for number, step in enumerate(steps) if step.is_filling),
        )

    def _settle(self) -> None:
        while self._untimed:
            step, start, end = self._untimed[0]
            time = self.clock.between(start, end)
            if time is None:
                return
            step.gpu_ns = time
            self._untimed.popleft()


@contextmanager
def noticing_work(journal: Journal) -> Iterator[None]:
    """Note in the journal the block's irregular work, its DataLoaders and the waits in them."""
    began_ns = 0

    def begun(took_ns: int) -> None:
        nonlocal began_ns
        began_ns = HOST_TIME.perf_counter_ns() - took_ns

    captured = _noting(journal, run_log.CAPTURE, lambda _: HOST_TIME.perf_counter_ns() - began_ns)
    evaluates = _noting(journal, run_log.EVALUATION, lambda _: 0)  # only its beginning is known
    with (
        journal.stops.watching(),
        replaced(_BaseDataLoaderIter, "__next__", _drawing(journal)),
        replaced(DataLoader, "__iter__", _timed(_noting(journal, run_log.EPOCH))),
        replaced(torch, "save", _timed(_noting(journal, run_log.CHECKPOINT))),
        replaced(torch.cuda.CUDAGraph, "capture_begin", _timed(begun)),
        replaced(torch.cuda.CUDAGraph, "capture_end", _timed(captured)),
        replaced(torch.nn.Module, "eval", _timed(evaluates)),
    ):
        yield


def _drawing(journal: Journal) -> Callable[[Any], Any]:
    @contained
    def note(iterator: Any, start_ns: int) -> None:
        journal.note_input_wait(HOST_TIME.perf_counter_ns() - start_ns)
        journal.batch_source.drew(iterator)

    end, describe = contained(journal.batch_source.end), contained(journal.batch_source.got)

    def change(draw: Any) -> Any:
        @wraps(draw)
        def drawn(iterator: Any) -> Any:
            start = HOST_TIME.perf_counter_ns()
            try:
                batch = draw(iterator)
            except StopIteration:
                end(iterator)
                raise
            finally:
                note(iterator, start)
            describe(iterator, batch)
            return batch

        return drawn

    return change


def _timed(note: Callable[[int], None]) -> Callable[[Any], Any]:
    """Return a change of a function: after each call, also a failed one, it notes how many ns the call took."""

    def change(function: Any) -> Any:
        @wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            start = HOST_TIME.perf_counter_ns()
            try:
                return function(*args, **kwargs)
            finally:
                note(HOST_TIME.perf_counter_ns() - start)

        return timed

    return change


def _noting(journal: Journal, kind: str, length: Callable[[int], int] = lambda ns: ns) -> Callable[[int], None]:
    """Return a function that notes irregular work, whose `length` follows from the time of the call."""

    @contained
    def note(ns: int) -> None:
        line = calling_line(sys._getframe(3))  # noqa: SLF001  the caller of the changed function
        journal.note_work(kind, length(ns), line.place if line else None)

    return note
