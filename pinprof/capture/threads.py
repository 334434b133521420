"""The threads of a program: whose steps count, and what python shows where one of them is ended."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from pinprof.capture.choice import Chooser, Kind
from pinprof.capture.ending import is_our_doing

WORTH: dict[Kind, int] = {"optimizer": 4, "backward": 3, "module": 2, "batch": 1}
"""Whose steps count, where several threads make some: a thread that trains, before one that evaluates or prefetches."""
WAITING_FOR_THREAD = (("join", "threading.py"), ("result", "_base.py"))
"""The functions in which a thread waits for another, each with the name of its file."""


def here() -> tuple[int, int]:
    """Return the process and thread; a forked process has the thread id of its parent."""
    return os.getpid(), threading.get_ident()


def worth_of(chooser: Chooser | None) -> int:
    """Return how good the steps of a thread are, to compare it with those of another."""
    if chooser is None or not chooser.seen.total():
        return -1
    return WORTH[chooser.kind] if chooser.choice is not None else 0


def is_waiting_for_thread(frame: FrameType | None) -> bool:
    """Return whether a thread waits for the end of another, or of its work, from its innermost frame."""
    while frame is not None:
        if (frame.f_code.co_name, Path(frame.f_code.co_filename).name) in WAITING_FOR_THREAD:
            return True
        frame = frame.f_back
    return False


def silent_of_stops(show: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return a `threading.excepthook` that shows all but our own end of a thread."""

    def shown(failure: Any) -> None:
        if failure.exc_value is None or not is_our_doing(failure.exc_value):
            show(failure)

    return shown
