"""Starts processes of pinprof by a fork of this one, which has loaded torch: ten times as fast as new ones.

So a hundred comparisons on a busy machine end within the hour. A pair is still two fresh processes of the program,
ordered by lot; what they have in common is how torch lies in memory.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from pinprof.ab import worker
from pinprof.processes import Running, end_process

LOOK_S = 0.01
LOADED = "torch._dynamo", "pinprof.ab.turns", "pinprof.cli.run"
"""What a run loads: torch's compiler comes with the first optimizer."""
AFTER = "-c"
"""In a command that starts pinprof, its code follows this, and then its arguments."""


def fork_from_now_on() -> None:
    """Let `pinprof ab` start its processes by forks; this process must have a single thread."""
    for name in LOADED:
        import_module(name)
    worker.running = running  # type: ignore[attr-defined]


class Child:
    """A forked process, with what is used of `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.status: int | None = None

    def poll(self) -> int | None:
        """Return the exit status; None while it runs."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = os.waitstatus_to_exitcode(status) if pid else None
        return self.status

    def wait(self, timeout: float = 1e9) -> int:
        """Return the exit status when it has ended."""
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("fork", timeout)
            time.sleep(LOOK_S)
        return self.status or 0

    def kill(self) -> None:
        """End it at once."""
        os.kill(self.pid, signal.SIGKILL)


@contextmanager
def running(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], descriptors: Sequence[int] = ()
) -> Iterator[Running]:
    """Run a command of pinprof while the block is open, as `pinprof.processes.running` does."""
    with tempfile.TemporaryFile() as printed:
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            _become(command[command.index(AFTER) + 2 :], folder, environment, descriptors, printed.fileno())
        child: Any = Child(pid)
        try:
            yield Running(cast("subprocess.Popen[bytes]", child), printed)
        finally:
            end_process(child)


def _become(words: Sequence[str], folder: Path, environment: Mapping[str, str], kept: Sequence[int], out: int) -> None:
    """Be pinprof with these arguments, and end."""
    status = 1
    try:
        os.setsid()
        os.chdir(folder)
        os.environ.update(environment)
        null = os.open(os.devnull, os.O_RDONLY)
        for old, new in ((null, 0), (out, 1), (out, 2)):
            os.dup2(old, new)
        for entry in list(Path("/proc/self/fd").iterdir()):  # of the other process: its pipes must end with it
            if int(entry.name) > 2 and int(entry.name) not in kept:  # noqa: PLR2004
                _close(int(entry.name))
        sys.argv, sys.path[0] = ["pinprof", *words], ""
        from pinprof.cli import main  # noqa: PLC0415

        main()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else bool(ended.code)
    except BaseException:  # noqa: BLE001  a child must not go on as its parent
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _close(descriptor: int) -> None:
    try:
        os.close(descriptor)
    except OSError:
        return
