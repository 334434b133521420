"""Lets two programs take turns: each makes a few steps while the other waits between two of its own.

So both are timed under the same conditions, a fraction of a second apart, however those change. `pinprof ab` starts
both and says whose turn it is, and on which cores the other has just run.
"""

import atexit
import os
import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress

from pinprof.ab.cores import ANY_CORES, CORES_BYTES, Cores
from pinprof.ab.tasks import Turns
from pinprof.capture.bounds import Progress
from pinprof.capture.observe.journal import Journal
from pinprof.program.machine import own_workers
from pinprof.trace.run_log import PLAIN, SETTLING


def wait_for_turn(turns: Turns, cores: Cores) -> None:
    """Wait for the turn, and the workers with it; where nobody is left who could give it, it is this program's."""
    told = ANY_CORES
    with workers_stopped(), suppress(OSError):
        os.write(turns.told, cores.leave())
        told = os.read(turns.asked, CORES_BYTES)
    cores.go_to(told)


class QuickExit:
    """Ends this process without Python's tidying up, which takes 0.7 s with torch.

    That is after all that the program wants to be done at its exit, once it has an exit status, and not where it has
    left processes.
    """

    def __init__(self) -> None:
        self.status: int | None = None
        atexit.register(self._leave)

    def _leave(self) -> None:
        if self.status is None or own_workers():
            return
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, OSError, ValueError):
                stream.flush()
        os._exit(self.status)


class Delay:
    """How long this thread has been ready to run while its CPU was with others, as Linux counts it.

    A file of `/proc` tells, in 2 us. It stays 0 where there is none.
    """

    def __init__(self) -> None:
        self._file = -1
        with suppress(OSError):
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)

    def now_ns(self) -> int:
        """Return the sum so far."""
        with suppress(OSError, IndexError, ValueError):
            return int(os.pread(self._file, 64, 0).split()[1]) if self._file >= 0 else 0
        return 0

    def close(self) -> None:
        """Ask no more."""
        if self._file >= 0:
            os.close(self._file)


def turn_window(turns: Turns, journal: Journal, delays_ns: list[int]) -> Generator[Progress, None, None]:
    """Wait at every step boundary until all turns are over; each turn is a plain window of its own in the journal.

    The GPU is synchronized where a turn ends, so that no work is left for the other's. `delays_ns` gets for each step
    that counts how long the CPU was with others.
    """
    clock, delay, cores = journal.renew_clock(), Delay(), Cores()
    with closing(delay), journal.timing_gpu():
        for turn in range(turns.number):
            clock.synchronize()
            wait_for_turn(turns, cores)
            for step in range(turns.settling):
                yield Progress(SETTLING, step + 1, turns.settling)
            cores.stay()
            for step in range(turns.steps):
                before_ns = delay.now_ns()
                yield Progress(PLAIN, turn * turns.steps + step + 1, turns.number * turns.steps)
                delays_ns.append(delay.now_ns() - before_ns)
        clock.synchronize()
    wait_for_turn(turns, cores)


@contextmanager
def workers_stopped() -> Iterator[None]:
    """Stop them while the block is open, wherever they are.

    A program that waits for its turn would else find full queues when it goes on, and be quicker than its workers for
    many steps: if it needs 10 ms for a step and its worker 12 ms for a batch, two that are ready last for twelve steps
    of 10 ms. Stopped workers also leave the cores to the other program.
    """
    workers = own_workers()
    _signal(workers, signal.SIGSTOP)
    try:
        yield
    finally:
        _signal(workers, signal.SIGCONT)


def _signal(processes: list[int], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)
