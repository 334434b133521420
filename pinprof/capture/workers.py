"""Finds the processes that this one has started, such as workers of a DataLoader, and lets them stand still."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def own_workers() -> list[int]:
    """Return the processes that this one has started and that run, by whichever thread; none where Linux is not."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path("/proc/self/task").iterdir():
            with suppress(OSError, ValueError):  # the thread has ended meanwhile
                found += map(int, (task / "children").read_text().split())
    return found


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
