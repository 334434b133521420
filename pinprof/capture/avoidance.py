"""Waits with the recording until no irregular work is expected in its steps."""

import time
from collections.abc import Generator

from pinprof.analyses.course import expected
from pinprof.capture.journal import Journal
from pinprof.capture.plain import Progress

MOST_STEPS = 100
MOST_SECONDS = 30.0
"""So long it waits at most: irregular work in the recorded steps is recognized, and left out of the figures."""


def await_regular(journal: Journal, steps: int) -> Generator[Progress, None, None]:
    """Wait at every step boundary until so many steps without irregular work are expected.

    Where that cannot be had, it says so in the journal.
    """
    start, waited = time.monotonic(), 0
    while (coming := expected(journal.log())) is not None and coming.ahead < steps:
        comes_back = f"{coming.reason} comes back every {coming.every} steps"
        if coming.every <= steps:
            journal.unavoidable = f"{comes_back}, and the recording needs {steps}"
            return
        if waited == MOST_STEPS or time.monotonic() - start >= MOST_SECONDS:
            journal.unavoidable = f"{comes_back}, and waiting for steps without it took too long"
            return
        waited += 1
        yield Progress("regular", waited, MOST_STEPS)
