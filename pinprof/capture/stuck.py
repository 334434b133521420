"""Stops a script that waits for what its stopped children will never send."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from pinprof.capture.ending import Finished

IDLE_S = 20.0
"""How long the script may stand still after its children were stopped."""
BUSY = 0.02
"""The share of a core that a script uses which does not stand still: loading or evaluating something takes more."""
LOOK_S = 0.5
"""How often to look, once the children are stopped."""


class StuckScript:
    """Raises Finished in the main thread of this process if the script stands still after its children were stopped.

    `are_stopped` says whether they were, and is asked when a child has ended: there is no thread before, which could
    disturb a fork. `interrupted` says whether it has raised.
    """

    def __init__(self, are_stopped: Callable[[], bool]) -> None:
        self.interrupted = False
        self._are_stopped = are_stopped
        self._process = os.getpid()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._signals: dict[int, Callable[[int, FrameType | None], object]] = {
            signal.SIGCHLD: self._look,
            signal.SIGRTMAX - 1: self._finish,  # nobody else uses it
        }
        self._before: dict[int, object] = {}

    def watch(self) -> None:
        """Watch from now on, unless the script looks after its children by the signal itself."""
        in_main = os.getpid() == self._process and threading.current_thread() is threading.main_thread()
        if not in_main or self._before or signal.getsignal(signal.SIGCHLD) is not signal.SIG_DFL:
            return
        for number, handler in self._signals.items():
            self._before[number] = signal.signal(number, handler)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Stop watching at the end of the block."""
        try:
            yield
        finally:
            self._over.set()
            for number in self._before:
                if signal.getsignal(number) == self._signals[number]:
                    signal.signal(number, signal.SIG_DFL)

    def _look(self, _number: int, _frame: FrameType | None) -> None:
        if os.getpid() == self._process and self._thread is None and self._are_stopped():
            self._thread = threading.Thread(target=self._interrupt_if_idle, daemon=True)
            self._thread.start()

    def _finish(self, _number: int, _frame: FrameType | None) -> None:
        if not self._over.is_set() and os.getpid() == self._process:
            self.interrupted = True
            raise Finished

    def _interrupt_if_idle(self) -> None:
        since, used = time.monotonic(), time.process_time()
        while not self._over.wait(LOOK_S):
            now = time.monotonic()
            if time.process_time() - used > BUSY * (now - since) or not self._are_stopped():
                since, used = now, time.process_time()
            elif now - since >= IDLE_S:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGRTMAX - 1)
                return
