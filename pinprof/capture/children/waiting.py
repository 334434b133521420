"""Waits for a script's children at its end, and ends a script that stands still after its children were stopped."""

import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import getpid
from threading import Thread
from types import FrameType

from pinprof.ground.host_time import HOST_TIME
from pinprof.program.ending import finish_main
from pinprof.program.hooks import contained

MAX_IDLE_S = 20.0  # how long the script may stand still after its children were stopped
MAX_IDLE_CPU_SHARE = 0.02
"""A script that uses less than this share of a core stands still: loading or evaluating something takes more."""
IDLE_POLL_S = 0.5  # how often to look, once the children are stopped


class StuckScript:
    """Ends the main thread of this process if the script stands still after its children were stopped.

    `are_stopped` says whether they were. It is called when a child has ended, and only then a thread starts: earlier it
    could disturb a fork. `interrupted` says whether it was ended. Before a signal ends the process, `tidy` is called.
    """

    def __init__(self, are_stopped: Callable[[], bool], tidy: Callable[[], None]) -> None:
        self.interrupted = False
        self._tidy = tidy
        self._are_stopped = are_stopped
        self._process = getpid()
        self._over = threading.Event()
        self._thread: Thread | None = None
        self._signals: dict[int, Callable[[int, FrameType | None], object]] = {
            signal.SIGCHLD: contained(self._child_ended),
            signal.SIGTERM: self._end,
            signal.SIGHUP: self._end,
        }
        self._is_watching = False

    def watch(self) -> None:
        """Watch from now on, by the signals that the script does not handle itself."""
        in_main = getpid() == self._process and threading.current_thread() is threading.main_thread()
        if not in_main or self._is_watching:
            return
        self._is_watching = True
        for number, handler in self._signals.items():
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, handler)

    def leave(self) -> None:
        """Give the signals their default effect again: at the end, or in a fork."""
        for number, handler in self._signals.items():
            if signal.getsignal(number) == handler:
                signal.signal(number, signal.SIG_DFL)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Stop watching at the end of the block."""
        try:
            yield
        finally:
            self._over.set()
            if threading.current_thread() is threading.main_thread():
                self.leave()

    def _child_ended(self, _number: int, _frame: FrameType | None) -> None:
        if getpid() == self._process and self._thread is None and self._are_stopped():
            self._thread = Thread(target=contained(self._interrupt_if_idle), daemon=True)
            self._thread.start()

    def _end(self, number: int, _frame: FrameType | None) -> None:
        if getpid() == self._process:
            contained(self._tidy)()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    def _interrupt_if_idle(self) -> None:
        since, used = HOST_TIME.monotonic(), HOST_TIME.process_time()
        while not self._over.wait(IDLE_POLL_S):
            now = HOST_TIME.monotonic()
            if HOST_TIME.process_time() - used > MAX_IDLE_CPU_SHARE * (now - since) or not self._are_stopped():
                since, used = now, HOST_TIME.process_time()
            elif now - since >= MAX_IDLE_S:
                self.interrupted = True  # first: the main thread goes on at once
                self.interrupted = finish_main()
                return


CHILD_ENDS_WITHIN_S = 10.0  # how long a process that is asked to end may take


def end_children(*, stop: bool) -> None:
    """Wait for the processes of `multiprocessing`, as python does at its exit; `stop` ends them instead."""
    for child in multiprocessing.active_children():
        if stop or child.daemon:
            child.terminate()
            child.join(CHILD_ENDS_WITHIN_S)
            if child.is_alive():
                child.kill()
        child.join()
