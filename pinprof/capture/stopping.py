"""Ends a program at a step boundary, also one that catches what ends it."""

import sys
import threading
from types import FrameType
from typing import Any, NoReturn

from pinprof.capture.ending import Finished, ending_of, finish_main
from pinprof.capture.frames import INSTALLED
from pinprof.capture.program import OWN_FOLDERS

POLITE_STOPS = 2
"""How often to ask a script to stop before interrupting its handlers too."""


class Stop:
    """Asks the program to end, `times` so far."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> NoReturn:
        """End the program; interrupt one that catches this and goes on in its next line, outside of that `try`.

        A thread that makes the steps ends with the main thread, which may wait for its results.
        """
        self.times += 1
        if threading.current_thread() is not threading.main_thread():
            finish_main()
        if self.times > POLITE_STOPS:
            interrupt_next_line()
        raise Finished


def interrupt_next_line() -> None:
    """Let the next line that runs in the user's own code raise Finished, whatever it is."""

    def interrupt(frame: FrameType, event: str, _: object) -> Any:
        if event == "line" and not _is_installed(frame):
            raise Finished
        return None if event == "call" else interrupt

    sys.settrace(interrupt)
    caller: FrameType | None = sys._getframe()  # noqa: SLF001  of the frames below only a frame can be told
    while caller is not None:
        if not _is_installed(caller):
            caller.f_trace = interrupt
        caller = None if caller.f_code is ending_of.__code__ else caller.f_back


def _is_installed(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith((*OWN_FOLDERS, *INSTALLED))
