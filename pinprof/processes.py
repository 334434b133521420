"""A function called on many things in Python processes, of which each may die without harm to the others.

`multiprocessing` imports the program of the user again in each process, and `concurrent.futures` gives up all that is
waiting when one dies.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from selectors import EVENT_READ, DefaultSelector
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

PROGRAM = "import sys; sys.path[:] = {path!r}; from pinprof.processes import serve; serve()"


def in_processes(
    function: Callable[[Item], Result], items: Sequence[Item], count: int
) -> Generator[tuple[Item, Result | None], None, None]:
    """Yield each item with what the function makes of it, as soon as that is there; None if the process died of it.

    The function goes to up to `count` processes by its name, and never returns None. An item whose process died is
    tried once more when no other one is left: all together may have been too much for the memory.
    """
    died = []
    for item, result in _side_by_side(function, items, count):
        if result is None:
            died.append(item)
        else:
            yield item, result
    for item in died:
        yield from _side_by_side(function, [item], 1)


def serve() -> None:
    """Answer what comes at standard input until it ends: the loop of a process."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anybody prints must not get among the answers
    with suppress(EOFError, BrokenPipeError, MemoryError):  # the first two: nobody is there any more
        while True:
            function, item = pickle.load(sys.stdin.buffer)  # noqa: S301  from the process that started this one
            pickle.dump(function(item), answers)
            answers.flush()


class _Worker:
    """A process that works on one thing at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603  this very Python
            [sys.executable, "-c", PROGRAM.format(path=sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the one who waits
        )
        assert self._process.stdin, "a pipe"
        assert self._process.stdout, "a pipe"
        self._tasks, self.answers = self._process.stdin, self._process.stdout

    def give(self, function: Callable[[Item], Any], item: Item) -> None:
        """Begin with a thing; that nobody is there is seen when the answer is taken."""
        with suppress(BrokenPipeError):
            self._tasks.write(pickle.dumps((function, item)))
            self._tasks.flush()

    def answer(self) -> Any:
        """Return what the function made of the thing, None if the process died."""
        try:
            return pickle.load(self.answers)  # noqa: S301  from a process that was started here
        except (EOFError, pickle.UnpicklingError):
            return None

    def end(self) -> None:
        self._process.kill()
        with suppress(BrokenPipeError):
            self._process.communicate()


def _side_by_side(
    function: Callable[[Item], Result], items: Sequence[Item], count: int
) -> Iterator[tuple[Item, Result | None]]:
    waiting = list(reversed(items))
    with DefaultSelector() as at_work:

        def begin(worker: _Worker) -> None:
            item = waiting.pop()
            at_work.register(worker.answers, EVENT_READ, (worker, item))
            worker.give(function, item)

        try:
            for _ in range(min(count, len(items))):
                begin(_Worker())
            while at_work.get_map():
                for key, _ in at_work.select():
                    worker, item = key.data
                    at_work.unregister(worker.answers)
                    result = worker.answer()
                    if result is None or not waiting:
                        worker.end()
                    if waiting:
                        begin(_Worker() if result is None else worker)
                    yield item, result
        finally:
            for key in at_work.get_map().values():
                key.data[0].end()
