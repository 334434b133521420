"""Samples the main thread's Python stack while no profiler runs, by a timer's signal.

The signal's handler runs on the main thread where Python next looks for signals: at the end of a call of a function in
C, at the start of one in Python, and at the end of a loop's body. A thread that reads `sys._current_frames()` gets
Python's lock only where the main thread releases it, in calls of torch: pure Python would seem to take no time
(measured: 0 of 14 %). But in a long call that releases the lock (a wait for the GPU in `if loss > 3`), only a thread
sees the line: the handler runs too late (measured: 2 of 37 %). So both watch the same clock, and the first to notice
that a sample is due takes it.
A known error: the time of an operator shorter than `LATE_SIGNAL_S` may count to the next call.
"""

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial, wraps
from os import getpid
from random import Random
from types import FrameType
from typing import Any

from pinprof.capture.observe.stacks import Sample, host_profile_of, raw_stack
from pinprof.ground.host_time import HOST_TIME
from pinprof.program.frames import frame_of_thread
from pinprof.program.hooks import contained, faults, replaced, start_unlisted
from pinprof.trace.metadata.sampled_stacks import HostProfile

SAMPLE_INTERVAL_S = 0.01
"""Mean time between samples. On an idle virtual machine, whose interrupts alone take 40 us, a sample cost 35 us by the
signal and up to 80 us with the thread (a step of small operators, 25 frames deep): 0.8 % of what the host limits."""
INTERVAL_JITTER_SHARE = 0.5
"""Each interval differs from the mean by up to this share of it, at random, so that samples do not follow the steps."""
LATE_SIGNAL_S = 0.0003
"""A signal handled this much later came in a long call, after which Python may be at another line."""
SHORTEST_TIMER_S = 1e-6
"""The shortest time that a timer takes; 0 would stop it."""
MAX_STACK_SAMPLES = 100_000
"""Sampling ends after this number of samples, about a quarter of an hour."""
NOT_MAIN = "the steps do not run in the main thread"
NO_TIMER = "this system has no timer that sends a signal"
SIGNAL_IN_USE = "the program uses the alarm signal itself"
SAMPLER_FAILED = "pinprof failed at it"
"""Why there are no samples."""


class HostSampler:
    """Takes samples between `start()` and `stop()`; `step()` says that a step ends and the next one begins."""

    def __init__(self, interval_s: float = SAMPLE_INTERVAL_S) -> None:
        self.interval_s = interval_s
        self.samples: list[Sample] = []
        self.why_not: str | None = None
        """Why it does not sample, or stopped sampling."""
        self._marks = [HOST_TIME.perf_counter()]
        self._step = 0
        self._first = 0
        self._last: int | None = None
        self._is_on = False
        self._draw = Random().random  # noqa: S311  not the program's generator, whose numbers stay as they are
        self._main = threading.get_ident()
        self._process = getpid()
        self._due = float("inf")
        self._came_late = False
        self._watcher: Callable[[float], bool] | None = None
        self._end = threading.Lock()
        self._undo = ExitStack()

    # What a window does

    def start(self) -> None:
        """Begin to sample if the alarm signal is free and this is the main thread; otherwise set `why_not`."""
        self.why_not = _obstacle()
        if self.why_not is None:
            _never_compiled(
                self._on_signal, self._look, self._take, self._pause, self._set_timer, raw_stack, Sample.__new__
            )
            self._arm: Callable[..., object] = signal.setitimer
            self._handle: Callable[..., object] = signal.signal
            self._handle(signal.SIGALRM, self._on_signal)
            signal.siginterrupt(signal.SIGALRM, False)
            for name, claims in CLAIMS_OF_TIMER.items():
                self._undo.enter_context(replaced(signal, name, partial(self._giving_way, claims)))
            for name in ("execv", "execve"):  # a timer outlives the program that it was set by, its handler does not
                self._undo.enter_context(replaced(os, name, self._pausing))
            atexit.register(self.stop)  # Python resets handlers as it ends: a timer that still ran would kill it
            self._undo.callback(atexit.unregister, self.stop)
            self._marks = [HOST_TIME.perf_counter()]
            self._due = self._marks[0] + self._pause()
            self._is_on = True
            self._set_timer()

    def step(self) -> None:
        """Note that a step ends here and the next begins."""
        self._marks.append(HOST_TIME.perf_counter())
        self._step += 1
        if self._came_late and self._watcher is None and self._is_on:
            self._first = self._step  # samples before may be at the wrong line
            self._end.acquire()
            self._watcher = start_unlisted(self._watch)

    def stop(self) -> None:
        """End sampling, and leave the signal as it was."""
        if self._is_on and signal.getsignal(signal.SIGALRM) != self._on_signal:
            self._first = self._step  # the program took the signal at an unknown time
            self._stop_here(SIGNAL_IN_USE)
        self._stop_here(self.why_not)
        self._undo.close()
        watcher, self._watcher = self._watcher, None
        if watcher is not None and getpid() == self._process:  # a fork has only its own thread
            self._end.release()
            watcher(-1)

    def profile(self, steps: Collection[int] | None = None) -> HostProfile:
        """Return the samples of these steps, counted from 0 in the window; by default of all whole ones."""
        last = len(self._marks) - 1 if self._last is None else min(self._last, len(self._marks) - 1)
        whole = [step for step in range(self._first, last) if steps is None or step in steps]
        length_s = sum(self._marks[step + 1] - self._marks[step] for step in whole)
        kept = set(whole)
        samples = [sample for sample in self.samples if sample.step in kept]
        return host_profile_of(samples, self.interval_s, len(whole), length_s, self.why_not)

    # How it samples

    def _pause(self) -> float:
        return self.interval_s * (1 - INTERVAL_JITTER_SHARE + 2 * INTERVAL_JITTER_SHARE * self._draw())

    def _set_timer(self) -> None:
        self._arm(signal.ITIMER_REAL, max(self._due - HOST_TIME.perf_counter(), SHORTEST_TIMER_S))

    def _on_signal(self, _: int, frame: FrameType | None) -> None:
        try:
            self._look(frame)
        except Exception as error:  # noqa: BLE001  it would come out of whatever line the program is at
            self._stop_here(SAMPLER_FAILED)
            faults.note(error)

    def _look(self, frame: FrameType | None) -> None:
        if getpid() != self._process:  # a child that was forked set an alarm
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGALRM)
        elif self._is_on:
            now = HOST_TIME.perf_counter()
            self._came_late |= self._due < now - LATE_SIGNAL_S
            self._take(now, frame)
            self._set_timer()

    def _take(self, now: float, frame: FrameType | None) -> None:
        """Take one sample for all times that are due: the program has been at this line since the first of them."""
        ticks = 0
        while self._due <= now:
            ticks += 1
            self._due += self._pause()
        if ticks:
            self.samples.append(Sample(self._step, ticks, raw_stack(frame)))
            if len(self.samples) >= MAX_STACK_SAMPLES:
                self._stop_here(f"only the first {MAX_STACK_SAMPLES:,} samples are taken")

    def _watch(self) -> None:
        """Take the samples that the signal's handler cannot take in time, in a thread."""
        while not self._end.acquire(timeout=self._patience()):
            now = HOST_TIME.perf_counter()
            if self._due <= now - LATE_SIGNAL_S:
                self._take(now, frame_of_thread(self._main))

    def _patience(self) -> float:
        """Return for how long the thread may sleep, in seconds."""
        left = self._due + LATE_SIGNAL_S - HOST_TIME.perf_counter()
        return min(max(left, LATE_SIGNAL_S), 1.0)  # when it is off, nothing is ever due

    # How it leaves the signal to the program

    def _stop_here(self, why: str | None) -> None:
        if not self._is_on:
            return
        self._is_on, self._due = False, float("inf")
        self._last, self.why_not = self._step, why
        self._arm(signal.ITIMER_REAL, 0)
        if signal.getsignal(signal.SIGALRM) == self._on_signal:
            with suppress(ValueError):  # only the main thread may change handlers; from now on ours does nothing
                self._handle(signal.SIGALRM, signal.SIG_DFL)

    def _pausing(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def paused(*args: Any, **kwargs: Any) -> Any:
            if getpid() != self._process:  # a fork has no timer
                return function(*args, **kwargs)
            was_on, self._is_on = self._is_on, False
            if was_on:
                self._arm(signal.ITIMER_REAL, 0)
            try:
                return function(*args, **kwargs)
            finally:  # the program could not be started
                self._is_on = was_on
                if was_on:
                    self._set_timer()

        return paused

    def _giving_way(self, claims: Callable[..., bool], function: Callable[..., Any]) -> Callable[..., Any]:
        @contained
        def give_way(*args: Any, **kwargs: Any) -> None:
            if claims(*args, **kwargs):
                self._stop_here(SIGNAL_IN_USE)

        @wraps(function)
        def given(*args: Any, **kwargs: Any) -> Any:
            give_way(*args, **kwargs)
            return function(*args, **kwargs)

        return given


@contextmanager
def sampling(interval_s: float = SAMPLE_INTERVAL_S) -> Iterator[HostSampler]:
    """Sample the Python stack of the main thread in the block."""
    sampler = HostSampler(interval_s)
    sampler.start()
    try:
        yield sampler
    finally:
        sampler.stop()


CLAIMS_OF_TIMER: dict[str, Callable[..., bool]] = {
    "signal": lambda number, *_: number == signal.SIGALRM,
    "setitimer": lambda which, *_: which == signal.ITIMER_REAL,
    "alarm": lambda *_: True,
}
"""Functions of `signal` by which a program takes the alarm signal, and whether given arguments do so."""


def _never_compiled(*functions: Callable[..., object]) -> None:
    """Keep torch.compile away from functions that a signal may call within the functions that it compiles."""
    dynamo: Any = sys.modules.get("torch._dynamo.eval_frame")
    skip = getattr(dynamo, "skip_code", None)
    if skip is None:  # nothing was compiled so far
        return
    for function in functions:
        skip(getattr(function, "__func__", function).__code__)


def _obstacle() -> str | None:
    """Return why the stack cannot be sampled here; None if it can."""
    if not hasattr(signal, "setitimer"):
        return NO_TIMER
    if threading.current_thread() is not threading.main_thread():
        return NOT_MAIN
    free = signal.getsignal(signal.SIGALRM) == signal.SIG_DFL and signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    return None if free else SIGNAL_IN_USE
