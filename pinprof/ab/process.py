"""Runs a program in a fresh process, and ends that with all that it started, however the measurement ends."""

import fcntl
import os
import pty
import signal
import subprocess
import tempfile
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from pinprof.git import environment_of_folders

ENDS_WITHIN_S = 10.0
"""How long a process that is asked to end may take; launchers end their ranks meanwhile."""
LOOK_S = 0.05
LAST_LINES = 4
TAIL_BYTES = 8192
WINSIZE_BYTES = 8  # struct winsize: four shorts
END_OF_FILE = b"\x04"  # what a user types: Ctrl-D
MOST_READS = 256
"""So often a program may read from its terminal, and is told that nothing is there."""

SCRIPT_FAILED, REFUSED = "The script failed", "Error: "
"""How `pinprof run` says that the program failed, and that it could not do itself what was asked for."""


class Running:
    """A process and what it prints."""

    def __init__(self, process: "subprocess.Popen[bytes]", printed: IO[bytes]) -> None:
        self.process = process
        self._printed = printed

    def wait(self, seconds: float) -> int | None:
        """Return the exit status; None if it still runs after so many seconds."""
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
        """Return the last lines that it printed, in one line."""
        lines = self._tail().splitlines()
        said = [line.strip() for line in lines if not line.startswith((SCRIPT_FAILED, "Wrote "))]
        told = [line for line in said if line.strip("^~ ")]  # a traceback marks parts of a line in the next one
        return " | ".join(told[-LAST_LINES:]) or "it printed nothing"

    def _tail(self) -> str:
        end = self._printed.seek(0, os.SEEK_END)
        self._printed.seek(max(end - TAIL_BYTES, 0))
        return self._printed.read().decode(errors="replace")


@contextmanager
def running(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], descriptors: Sequence[int] = ()
) -> Iterator[Running]:
    """Run a command in a session of its own while the block is open."""
    with tempfile.TemporaryFile() as printed, _standard_input() as given:
        process = subprocess.Popen(  # noqa: S603  the user's program
            command,
            cwd=folder,
            env={**environment_of_folders(), **environment},
            stdin=given,
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
    """Open an empty terminal as large as the user's, for programs that ask how wide it is; without one, nothing."""
    if not os.isatty(0):
        yield subprocess.DEVNULL
        return
    ours, given = pty.openpty()
    try:
        fcntl.ioctl(given, termios.TIOCSWINSZ, fcntl.ioctl(0, termios.TIOCGWINSZ, b" " * WINSIZE_BYTES))
        os.write(ours, END_OF_FILE * MOST_READS)
        yield given
    finally:
        os.close(given)
        os.close(ours)


def end_process(process: "subprocess.Popen[bytes]") -> None:
    """End a process and all that it started; a rank of a launcher is in a session of its own."""
    family = _descendants(process.pid) if process.poll() is None else []
    if process.poll() is None:
        _signal([process.pid], signal.SIGTERM)
    end = time.monotonic() + (ENDS_WITHIN_S if process.poll() is None else 0.0)
    while process.poll() is None and time.monotonic() < end:
        time.sleep(LOOK_S)
    if process.poll() is None:
        family = _descendants(process.pid)
        process.kill()
    _signal(family, signal.SIGKILL)
    process.wait()
    with suppress(ProcessLookupError, PermissionError):  # workers that stood still when it was killed end by themselves
        os.killpg(process.pid, signal.SIGCONT)


def _signal(processes: Sequence[int], number: int) -> None:
    for process in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def _descendants(process: int) -> list[int]:
    """Return the processes that a process and its children have started, as far as Linux tells."""
    found: list[int] = []
    with suppress(OSError, ValueError):
        for task in Path(f"/proc/{process}/task").iterdir():
            children = [int(child) for child in (task / "children").read_text().split()]
            found += [each for child in children for each in (child, *_descendants(child))]
    return found
