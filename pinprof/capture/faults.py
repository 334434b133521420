"""Keeps pinprof's own failures out of the program: each is told in a line, once, and the program runs on.

Everything of pinprof that a program calls without knowing (a hook of torch, a changed function, the handler of a
signal) passes through `contained`. What ends a program on purpose (`Finished`, Ctrl-C) is no `Exception`, and passes.
"""

import os
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any

from pinprof.errors import TRACEBACK, unexpected
from pinprof.streams import own_error


class Faults:
    """The failures of pinprof in this process; `tell` gets a sentence on each."""

    def __init__(self) -> None:
        self.tell: Callable[[str], None] = _say
        self.told: list[str] = []

    def note(self, error: Exception) -> None:
        """Tell of an unexpected error, once; this fails never."""
        with suppress(Exception):
            self.say(f"{unexpected(error)}. The program runs on")
            if os.environ.get(TRACEBACK):
                traceback.print_exception(error, file=own_error())

    def say(self, text: str) -> None:
        """Tell this sentence, once."""
        if text not in self.told:
            self.told.append(text)
            self.tell(text)


def _say(text: str) -> None:
    with suppress(Exception):
        stream = own_error()
        stream.write(f"{text}\n")
        stream.flush()


faults = Faults()
"""Those of this process."""


def contained(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of pinprof, changed for the program to call: where it fails, it returns None."""

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  whatever it is, it is not the program's
            faults.note(error)
            return None

    return called
