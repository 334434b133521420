"""Lets two programs take turns: each makes a few steps while the other waits between two of its own.

So both are timed under the same conditions, a fraction of a second apart, however those change. `pinprof ab` starts
both and says whose turn it is.
"""

import os
from collections.abc import Generator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from pinprof.capture.plain import Progress
from pinprof.trace.run import PLAIN, SETTLING

if TYPE_CHECKING:
    from pinprof.capture.journal import Journal

GO, DONE = b"g", b"d"
"""What is told: that it is this program's turn, and that it waits for one."""


class Turns(NamedTuple):
    """How a program takes turns: `settling` steps and `steps` that count in each of `number` turns."""

    asked: int
    """The descriptor from which it reads whose turn it is."""
    told: int
    """The descriptor to which it writes that it waits."""
    settling: int
    """Steps that begin with cold caches."""
    steps: int
    number: int

    @classmethod
    def from_text(cls, text: str) -> "Turns":
        """Return the turns in a text like `3,4,1,5,12`. Raises ValueError or TypeError if it is another."""
        return cls(*map(int, text.split(",")))

    def wait(self) -> None:
        """Wait for the turn; where nobody is left who could give it, it is this program's."""
        with suppress(OSError):
            os.write(self.told, DONE)
            os.read(self.asked, 1)


def turn_window(journal: "Journal", turns: Turns) -> Generator[Progress, None, None]:
    """Wait at every step boundary until all turns are over; each turn is a plain window of its own in the journal.

    The GPU is synchronized where a turn ends, so that no work is left for the other's.
    """
    clock = journal.renew_clock()
    with journal.timing_gpu():
        for turn in range(turns.number):
            clock.synchronize()
            turns.wait()
            for step in range(turns.settling):
                yield Progress(SETTLING, step + 1, turns.settling)
            for step in range(turns.steps):
                yield Progress(PLAIN, turn * turns.steps + step + 1, turns.number * turns.steps)
        clock.synchronize()
    turns.wait()
