"""Show on one line of the terminal what a recording uses each step for, and say at the end what took long."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pinprof.standard_streams import is_terminal, own_error

WINDOW_NAMES = {
    "warm-up": "warming up",
    "ranks": "waiting for the other ranks",
    "plain": "timing without profiler",
    "regular": "waiting for regular steps",
    "profiler warm-up": "starting the profiler",
    "recorded": "recording",
    "lines": "learning source lines",
    "watch": "looking for waits that come only now and then",
    "end": "waiting for the script to end",
}

WAITS_FOR = {"warm-up": ", until their time is steady", "plain": ", until their mean is precise"}
"""Why a window goes on after its number of steps."""

RECORDED, BETWEEN = "recorded", "between"
NEEDED = ("warm-up", "plain", "profiler warm-up", RECORDED)
"""The windows that a trace of measured steps needs."""

LONG_S = 30.0
"""A run that takes longer than this beyond the steps that it needs says what took the time."""

SHORT_S = 3.0
"""What took less than this is not named."""


class Spent:
    """The time that a run takes beyond the steps that it needs, by what it does."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._seconds = defaultdict[str, float](float)
        self._doing: str | None = None
        self._since = now()
        self._has_recorded = False

    def step(self, window: str, step: int, of: int) -> None:
        """Note what the step that begins is used for."""
        is_needed = window in NEEDED and step <= of and not (self._has_recorded and window != RECORDED)
        self._has_recorded |= window == RECORDED
        self.begin(None if is_needed else WINDOW_NAMES.get(window, window))

    def begin(self, doing: str | None) -> None:
        """Note what is done from now on; None for what is needed."""
        now = self._now()
        if self._doing is not None:
            self._seconds[self._doing] += now - self._since
        self._doing, self._since = doing, now

    def summary(self) -> str:
        """Return what took long, with its seconds; empty if all of it together was short."""
        self.begin(None)
        total = sum(self._seconds.values())
        if total <= LONG_S:
            return ""
        parts = (f"{what} {seconds:.0f} s" for what, seconds in self._seconds.items() if seconds >= SHORT_S)
        return f"Beyond the steps that it needs, pinprof took {total:.0f} s: {', '.join(parts)}"


@contextmanager
def step_counter(spent: Spent) -> Iterator[Callable[[str, int, int], None]]:
    """Give a callback that shows on one line of the terminal what each step is used for; clear it at the end."""

    def write(text: str) -> None:
        stream = own_error()
        if is_terminal(stream):
            stream.write(f"\r\x1b[K{text}")
            stream.flush()

    def show(window: str, step: int, of: int) -> None:
        if window == BETWEEN:  # the line is the script's for hours
            if step == 1:
                write("")
            return
        spent.step(window, step, of)
        number = f" of {of}" if step <= of else WAITS_FOR.get(window, "")
        write(f"pinprof: {WINDOW_NAMES.get(window, window)}" + (f", step {step}{number}" if step else ""))

    try:
        yield show
    finally:
        write("")
