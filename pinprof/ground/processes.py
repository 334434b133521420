"""Work in processes: programs that end with all that they started, functions called on many items, and no collections.

`multiprocessing` imports the user's program again in each process, and `concurrent.futures` abandons all waiting items
when one process dies.
"""

import gc
import os
import pickle
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from os import getpid
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

OWN_PROCESS_NAME = "pinprof"
"""The name of processes that multiprocessing starts for pinprof itself, not for the measured program."""
WORKER_PROGRAM = "import sys; sys.path[:] = {path!r}; from pinprof.ground.processes import serve; serve()"

MAX_ENDING_S = 10.0
"""How long a process that is asked to end may take; launchers end their ranks meanwhile."""

MAX_ASIDE_S = 60.0
"""How long a copy of this process may be silent: one takes some seconds at most."""
MAX_PIPE_BYTES = 1 << 20

MEMINFO = Path("/proc/meminfo")
MEMORY_ENTRY = re.compile(r"^(MemTotal|MemAvailable):\s*(\d+) kB$", re.MULTILINE)
KIB = 1024


def exit_status(command: Sequence[str]) -> int:
    """Run a command in this terminal; return its exit status, as a shell gives it.

    Ctrl-C goes to both processes, and ends the program alone; a second one, or another signal, ends this one, too.
    """
    handler = signal.getsignal(signal.SIGINT)
    process = subprocess.Popen(command)  # noqa: S603  this Python, and the user's program
    try:
        # an exception in `wait` would lose the status of a program that has just ended
        signal.signal(signal.SIGINT, lambda *_: signal.signal(signal.SIGINT, handler))
        status = process.wait()
        return status if status >= 0 else 128 - status
    finally:
        signal.signal(signal.SIGINT, handler)
        end_process(process)


def end_process(process: "subprocess.Popen[bytes]") -> None:
    """End a process and all that it started; a rank of a launcher is in a session of its own."""
    if process.poll() is not None:
        return
    family = _descendants(process.pid)
    process.terminate()
    try:
        process.wait(MAX_ENDING_S)
    except subprocess.TimeoutExpired:
        family = _descendants(process.pid)
        process.kill()
    for relative in family:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(relative, signal.SIGKILL)
    process.wait()


def children_of(process: int) -> list[int]:
    """Return the running processes that any thread of a process has started; none without Linux."""
    children: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{process}/task").iterdir():
            with suppress(OSError, ValueError):  # the thread has ended meanwhile
                children += map(int, (task / "children").read_text().split())
    return children


def _descendants(process: int) -> list[int]:
    return [relative for child in children_of(process) for relative in (child, *_descendants(child))]


def available_cores() -> int:
    """Return on how many cores this process may run."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def has_spare_core() -> bool:
    """Return whether a copy of this process can work on another core.

    Not where other cores have work of pinprof's own, or the machine much other work, nor where torch may use a GPU.
    """
    if sys.platform != "linux" or _Worker.is_here or "torch" in sys.modules:
        return False
    with suppress(OSError):  # without /proc nobody knows how much work there is
        return available_cores() > 1 and os.getloadavg()[0] <= available_cores() + 1
    return False


class Fork:
    """A copy of this process that runs a function of two pipes, its tasks and its answers. Raises OSError."""

    def __init__(self, work: Callable[[int, int], object]) -> None:
        ends: list[int] = []
        try:
            for _ in range(2):
                ends += os.pipe()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # the copy uses nothing that other threads may hold
                self._process = os.fork()
        except OSError:
            for end in ends:
                os.close(end)
            raise
        tasks, self._tasks, self.answers, answers = ends
        if not self._process:
            with suppress(BaseException):
                os.close(self._tasks)
                os.close(self.answers)
                work(tasks, answers)
            os._exit(0)
        os.close(tasks)
        os.close(answers)

    @property
    def is_alive(self) -> bool:
        """Whether it has not been ended."""
        return self._process > 0

    def give(self, task: bytes) -> None:
        """Send a task, which is shorter than a pipe; that the process is dead shows in its answers."""
        with suppress(BrokenPipeError):
            os.write(self._tasks, task)

    def end(self) -> None:
        """End the process, if it has not ended."""
        if self.is_alive:
            with suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(self._process, 0)
            self._process = 0
            os.close(self._tasks)
            os.close(self.answers)


def aside(function: Callable[[], Result], *, is_worth: bool) -> Callable[[], Result]:
    """Begin to call a function on another core if that `is_worth` a process; the returned one gives the result.

    What comes to nothing there is called here, when the result is needed.
    """
    if not is_worth or not has_spare_core():
        return function
    try:
        process = Fork(lambda _, answers: _answer(function, answers))
    except OSError:
        return function

    def result() -> Result:
        answered, pieces = select.poll(), list[bytes]()
        answered.register(process.answers, select.POLLIN)
        while answered.poll(MAX_ASIDE_S * 1000) and (piece := os.read(process.answers, MAX_PIPE_BYTES)):
            pieces.append(piece)
        process.end()
        with suppress(EOFError, pickle.UnpicklingError):
            value: Result = pickle.loads(b"".join(pieces))  # noqa: S301  from a copy of this process
            return value
        return function()

    return result


def _answer(function: Callable[[], object], answers: int) -> None:
    with os.fdopen(answers, "wb") as file:
        pickle.dump(function(), file, pickle.HIGHEST_PROTOCOL)


def machine_memory(meminfo: Path = MEMINFO) -> tuple[int, int]:
    """Return the total and the available memory of the machine, in bytes. Raises OSError or KeyError."""
    entries = dict(MEMORY_ENTRY.findall(meminfo.read_text()))
    return int(entries["MemTotal"]) * KIB, int(entries["MemAvailable"]) * KIB


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Give a folder that this process removes, not a forked child that leaves the block as well. Raises OSError."""
    maker, folder = getpid(), Path(tempfile.mkdtemp(prefix="pinprof-"))
    try:
        yield folder
    finally:
        if getpid() == maker:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def without_collections() -> Iterator[None]:
    """Keep Python from searching for unused cycles of objects while the block runs.

    An analysis makes many objects and hardly any cycles: the searches took a tenth of its time and found nothing.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def in_processes(
    function: Callable[[Item], Result], items: Sequence[Item], count: int
) -> Generator[tuple[Item, Result | None], None, None]:
    """Yield each item with the function's result as soon as that is done; None if the item's process died.

    Up to `count` processes import the function by its name; it must never return None. An item whose process died gets
    a second try after all others: together they may have needed too much memory.
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
    """Answer the tasks from standard input until it ends: the loop of a process."""
    _Worker.is_here = True
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # prints must not mix with the answers
    with suppress(EOFError, BrokenPipeError, MemoryError):  # the first two: the parent is gone
        while True:
            function, item = pickle.load(sys.stdin.buffer)  # noqa: S301  from the process that started this one
            pickle.dump(function(item), answers)
            answers.flush()


class _Worker:
    """A process that works on one item at a time."""

    is_here = False

    def __init__(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603  this very Python
            [sys.executable, "-c", WORKER_PROGRAM.format(path=sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C must reach the parent alone
        )
        assert self._process.stdin, "a pipe"
        assert self._process.stdout, "a pipe"
        self._tasks, self.answers = self._process.stdin, self._process.stdout

    def give(self, function: Callable[[Item], Any], item: Item) -> None:
        """Send an item; `answer` notices if the process is dead."""
        with suppress(BrokenPipeError):
            self._tasks.write(pickle.dumps((function, item)))
            self._tasks.flush()

    def answer(self) -> Any:
        """Return the function's result for the item; None if the process died."""
        try:
            return pickle.load(self.answers)  # noqa: S301  from a process started here
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
