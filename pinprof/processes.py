"""Work in processes: programs that end with all that they started, functions called on many items, and no collections.

`multiprocessing` imports the user's program again in each process, and `concurrent.futures` abandons all waiting items
when one process dies.
"""

import fcntl
import gc
import os
import pickle
import pty
import re
import signal
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import IO, Any, TypeVar

from pinprof.git import environment_of_folders

Item = TypeVar("Item")
Result = TypeVar("Result")

OWN = "pinprof"
"""The name of processes that multiprocessing starts for pinprof itself, not for the measured program."""
PROGRAM = "import sys; sys.path[:] = {path!r}; from pinprof.processes import serve; serve()"

ENDS_WITHIN_S = 10.0
"""How long a process that is asked to end may take; launchers end their ranks meanwhile."""
LOOK_S = 0.05
LAST_LINES = 4
TAIL_BYTES = 8192
WINSIZE_BYTES = 8  # struct winsize: four shorts
END_OF_FILE = b"\x04"  # what a user types: Ctrl-D
MOST_READS = 256
"""The number of times that a program can read from its empty terminal; each read finds the end of the input."""

MEMINFO = Path("/proc/meminfo")
MEMORY_ENTRY = re.compile(r"^(MemTotal|MemAvailable):\s*(\d+) kB$", re.MULTILINE)
KIB = 1024
"""The unit of /proc/meminfo, which calls it kB."""

SCRIPT_FAILED, REFUSED = "The script failed", "Error: "
"""How the messages of `pinprof run` begin if the program failed, and if pinprof itself refused."""


class Running:
    """A process and what it prints."""

    def __init__(self, process: "subprocess.Popen[bytes]", printed: IO[bytes]) -> None:
        self.process = process
        self._printed = printed

    def wait(self, seconds: float) -> int | None:
        """Return the exit status; None if it still runs after this time."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    @property
    def script_failed(self) -> bool:
        """Whether it ended because the program that pinprof ran in it failed."""
        return any(line.startswith(SCRIPT_FAILED) for line in self._tail().splitlines())

    def why_failed(self, status: int) -> str:
        """Return why it ended with this exit status: what pinprof refused, or else what the program printed last."""
        lines = self._tail().splitlines()
        if lines and lines[-1].startswith(REFUSED) and not self.script_failed:
            return lines[-1].removeprefix(REFUSED)
        return f"the program failed with exit status {status}: {self.last_lines()}"

    def last_lines(self) -> str:
        """Return the last lines of its output, joined to one line."""
        lines = self._tail().splitlines()
        programs_own = [line.strip() for line in lines if not line.startswith((SCRIPT_FAILED, "Wrote "))]
        texts = [line for line in programs_own if line.strip("^~ ")]  # a traceback marks parts of a line in the next
        return " | ".join(texts[-LAST_LINES:]) or "it printed nothing"

    def _tail(self) -> str:
        end = self._printed.seek(0, os.SEEK_END)
        self._printed.seek(max(end - TAIL_BYTES, 0))
        return self._printed.read().decode(errors="replace")


@contextmanager
def running(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], descriptors: Sequence[int] = ()
) -> Iterator[Running]:
    """Run a command in a session of its own while the block is open."""
    with tempfile.TemporaryFile() as printed, _standard_input() as standard_input:
        process = subprocess.Popen(  # noqa: S603  the user's program
            command,
            cwd=folder,
            env={**environment_of_folders(), **environment},
            stdin=standard_input,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=tuple(descriptors),
        )
        try:
            yield Running(process, printed)
        finally:
            end_process(process)


@contextmanager
def _standard_input() -> Iterator[int]:
    """Open an empty terminal as large as the user's, for programs that ask how wide it is; if the user has one."""
    if not os.isatty(0):
        yield subprocess.DEVNULL
        return
    controller, terminal = pty.openpty()
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, fcntl.ioctl(0, termios.TIOCGWINSZ, b" " * WINSIZE_BYTES))
        os.write(controller, END_OF_FILE * MOST_READS)
        yield terminal
    finally:
        os.close(terminal)
        os.close(controller)


def end_process(process: "subprocess.Popen[bytes]") -> None:
    """End a process and all that it started; a rank of a launcher is in a session of its own."""
    family = _descendants(process.pid) if process.poll() is None else []
    if process.poll() is None:
        send_signal([process.pid], signal.SIGTERM)
    end = time.monotonic() + (ENDS_WITHIN_S if process.poll() is None else 0.0)
    while process.poll() is None and time.monotonic() < end:
        time.sleep(LOOK_S)
    if process.poll() is None:
        family = _descendants(process.pid)
        process.kill()
    send_signal(family, signal.SIGKILL)
    process.wait()
    with suppress(ProcessLookupError, PermissionError):  # workers that stood still when it was killed end by themselves
        os.killpg(process.pid, signal.SIGCONT)


def send_signal(processes: Iterable[int], number: int) -> None:
    """Send a signal to those of the processes that still exist."""
    for process in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def children_of(process: int | str) -> list[int]:
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


def machine_memory(meminfo: Path = MEMINFO) -> tuple[int, int]:
    """Return the total and the available memory of the machine, in bytes. Raises OSError or KeyError."""
    entries = dict(MEMORY_ENTRY.findall(meminfo.read_text()))
    return int(entries["MemTotal"]) * KIB, int(entries["MemAvailable"]) * KIB


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
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # prints must not mix with the answers
    with suppress(EOFError, BrokenPipeError, MemoryError):  # the first two: the parent is gone
        while True:
            function, item = pickle.load(sys.stdin.buffer)  # noqa: S301  from the process that started this one
            pickle.dump(function(item), answers)
            answers.flush()


class _Worker:
    """A process that works on one item at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603  this very Python
            [sys.executable, "-c", PROGRAM.format(path=sys.path)],
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
