"""The line on the terminal that says what each step of a recording is used for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pinprof.streams import is_terminal, own_error

WINDOW_NAMES = {
    "warm-up": "warming up",
    "ranks": "waiting for the other ranks",
    "plain": "timing without profiler",
    "regular": "waiting for regular steps",
    "profiler warm-up": "starting the profiler",
    "recorded": "recording",
    "lines": "learning source lines",
    "watch": "looking for waits that come only now and then",
}


@contextmanager
def step_counter() -> Iterator[Callable[[str, int, int], None]]:
    """Give a callback that shows on one line of the terminal what each step is used for; clear it at the end."""

    def write(text: str) -> None:
        stream = own_error()
        if is_terminal(stream):
            stream.write(f"\r\x1b[K{text}")
            stream.flush()

    def show(window: str, step: int, of: int) -> None:
        write(f"pinprof: {WINDOW_NAMES.get(window, window)}, step {step}" + (f" of {of}" if step <= of else ""))

    try:
        yield show
    finally:
        write("")
