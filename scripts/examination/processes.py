"""Runs an examined program in a process group of its own, keeps its last lines and time, and leaves nothing behind."""

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.examination.made_up import HUB
from scripts.examination.program import Program

TERMINAL_SIZE = 24, 80  # rows, columns
TAIL_BYTES = 3000
START_SECONDS = 60  # of a program, until its first steps
ENDING_SECONDS = 5  # of what still writes a trace when its time is up
HOOKS = Path(__file__).parent / "hooks"
PROJECT = Path(__file__).parents[2]

Noted = dict[str, Any]


@dataclass(frozen=True)
class Ended:
    """How a program ended: its exit status, None where its time was up; its wall time in seconds; its last lines."""

    status: int | None
    seconds: float
    tail: str

    @property
    def last_line(self) -> str:
        """Return the last line that says something."""
        lines = [line.strip() for line in self.tail.splitlines() if line.strip()]
        return lines[-1] if lines else ""


@dataclass(frozen=True)
class Place:
    """Where a program lies and with what it is started."""

    program: Program
    repository: Path

    @property
    def folder(self) -> Path:
        """Return the working folder."""
        return self.repository / self.program.folder

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of its processes: without network, with the hooks that are asked for."""
        own = [str(self.repository / path) for path in self.program.paths]
        path = os.environ.get("PYTHONPATH", "")
        paths = [str(HOOKS), str(PROJECT), *own, *path.split(os.pathsep)]
        unchecked = {"EXAM_UNCHECKED": "1"} if self.program.unchecked else {}
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in paths if path),
            "PYTHONUNBUFFERED": "1",
            "HF_HOME": str(self.folder / HUB),
            "HF_HUB_OFFLINE": "1",
            **unchecked,
            **more,
        }

    def command(self, *, profiled: Sequence[str] | None = None) -> list[str]:
        """Return the command as a user types it, under `pinprof run` with these options or alone.

        With --repeat pinprof starts the launcher anew for each run; else the launcher starts pinprof.
        """
        run = [] if profiled is None else ["-m", "pinprof", "run", *self.program.pinprof_options, *profiled]
        if "--repeat" in run:
            return [sys.executable, *run, *self.program.launcher, *self.program.command]
        return [sys.executable, *self.program.launcher, *run, *self.program.command]


@dataclass(frozen=True)
class Hook:
    """What a hook notes, and when it ends the program.

    Mode `truth` notes the ends of steps, `lines` the lines that wait. The program is ended after `steps`, but not
    before the least, nor after the most seconds.
    """

    mode: str
    steps: int
    least_s: float
    most_s: float


def run(place: Place, command: Sequence[str], environment: Mapping[str, str], seconds: float, log: Path) -> Ended:
    """Run a command in the program's folder; end its whole process group when it is done or its time is up."""
    began = time.perf_counter()
    with log.open("wb") as output, standard_input(terminal=place.program.terminal) as standard:
        process = subprocess.Popen(
            list(command),
            cwd=place.folder,
            env=place.environment(environment),
            stdin=standard,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        status = wait(process, seconds)
    return Ended(status, time.perf_counter() - began, log.read_bytes()[-TAIL_BYTES:].decode(errors="replace"))


def run_hooked(place: Place, hook: Hook, noted: Path, seconds: float) -> tuple[Ended, Noted | None]:
    """Run a program with a hook; return what the first of its processes noted that made steps.

    `noted` begins the names of the files.
    """
    environment = {
        "EXAM_MODE": hook.mode,
        "EXAM_OUT": str(noted),
        "EXAM_STEPS": str(hook.steps),
        "EXAM_LEAST_SECONDS": str(hook.least_s),
        "EXAM_SECONDS": str(hook.most_s),
        "EXAM_MARKER": place.program.marker,
        "EXAM_CALLS_PER_STEP": str(place.program.calls_per_step),
    }
    longest = min(START_SECONDS + hook.most_s, seconds)
    ended = run(place, place.command(), environment, longest, noted.with_name(f"{noted.name}.log"))
    files = sorted(noted.parent.glob(f"{noted.name}.*.json"))
    stamps: Noted | None = json.loads(files[0].read_text()) if files else None
    for file in files:
        file.unlink()
    return ended, stamps


def reported(place: Place, trace: Path, answer: Path, seconds: float) -> tuple[Ended, Noted | None]:
    """Return how `pinprof report` ended on a trace, and what its JSON says of it; None where it failed."""
    command = [sys.executable, "-m", "pinprof", "report", "--force", "--json", str(answer), str(trace)]
    ended = run(place, command, {}, seconds, answer.with_name(f"{answer.name}.log"))
    said: Noted | None = json.loads(answer.read_text())["traces"][0] if ended.status == 0 else None
    return ended, said


def wait(process: "subprocess.Popen[bytes]", seconds: float) -> int | None:
    """Return the exit status, or None where the time was up; end the whole group."""
    status: int | None = None
    with suppress(subprocess.TimeoutExpired):
        status = process.wait(seconds)
    if status is None:
        _signal(process, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(ENDING_SECONDS)
    _signal(process, signal.SIGKILL)  # workers that outlive their program disturb the next one
    process.wait()
    return status


def _signal(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


@contextmanager
def standard_input(*, terminal: bool) -> Iterator[int]:
    """Open a terminal of the usual size, or nothing."""
    if not terminal:
        yield subprocess.DEVNULL
        return
    controller, terminal_end = pty.openpty()
    fcntl.ioctl(terminal_end, termios.TIOCSWINSZ, struct.pack("4H", *TERMINAL_SIZE, 0, 0))
    try:
        yield terminal_end
    finally:
        os.close(controller)
        os.close(terminal_end)
