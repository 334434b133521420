"""Runs a command of pinprof for a call in a process of its own, which never imports from the server's folder."""

import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import TypeAlias

import anyio
from anyio.abc import ByteReceiveStream, Process
from anyio.streams.text import TextReceiveStream

from pinprof.errors import PinprofError
from pinprof.git import NEVER
from pinprof.server.import_path import import_path
from pinprof.trace.sources import WITHIN

PROGRAM = "import sys; sys.path[:] = {path!r}; from pinprof.cli import main; main()"
"""Runs this very pinprof, which works in the folder and imports nothing from it."""
MODULES = "PYTHONPATH"
"""It may name the folder, from which Python would import `sitecustomize` at its start."""
EVERY_S = 2.0
"""How often a call reports its progress."""
ENDS_WITHIN_S = 15.0
"""How long a command may take to clean up after SIGTERM."""
SIDE_BY_SIDE = 2
"""The most commands that run at the same time; others wait."""
REMARKS = ("Note: ", "Skipped: ", "Not the ranks")
MOST_REMARKS = 8
OWN = ("COLUMNS", "FORCE_COLOR", "CLICOLOR_FORCE")
"""Variables of the environment that would change texts."""

Tell: TypeAlias = Callable[[float, str], Awaitable[None]]
"""Reports progress: how long a call has run, in s, and what it does."""


@dataclass
class Done:
    """The output of a command, and the remarks that it printed on standard error."""

    output: str
    remarks: list[str]


class Runner:
    """Runs a few commands at a time in a folder; a command that measures a program runs alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._slots = anyio.Semaphore(SIDE_BY_SIDE)
        self._entrance = anyio.Lock()

    async def run(self, words: Sequence[str], tell: Tell, most_s: float, *, runs_program: bool = False) -> Done:
        """Return what a command prints. Raises PinprofError with its one line of error, or if it takes too long."""
        await tell(0.0, f"pinprof {words[0]}")
        async with AsyncExitStack() as stack:
            async with self._entrance:  # without it, two that measure would hold a place each and wait for the other
                for _ in range(SIDE_BY_SIDE if runs_program else 1):
                    await stack.enter_async_context(self._slots)
            try:
                with anyio.fail_after(most_s):
                    return await _run(words, self._folder, tell, _environment(self._folder, runs_program=runs_program))
            except TimeoutError:
                raise PinprofError(f"pinprof {words[0]} took longer than {most_s:.0f} s; use a terminal") from None


def _environment(folder: Path, *, runs_program: bool) -> dict[str, str]:
    """Return the environment of a command; unless it runs a program, it can start nothing from the folder."""
    left_out = OWN if runs_program else (*OWN, MODULES)
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    never = {} if runs_program else {NEVER: "1"}
    return {**kept, **never, "NO_COLOR": "1", "PYTHONUTF8": "1", WITHIN: str(folder)}


async def _run(words: Sequence[str], folder: Path, tell: Tell, environment: Mapping[str, str]) -> Done:
    path = import_path(folder, sys.path)
    process = await anyio.open_process(
        [sys.executable, "-c", PROGRAM.format(path=path), *words],
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        cwd=folder,
        env=environment,
        start_new_session=True,
    )
    output: list[str] = []
    stderr, begun = ErrorOutput(), time.monotonic()

    async def heartbeat() -> None:
        while True:
            await anyio.sleep(EVERY_S)
            await tell(time.monotonic() - begun, stderr.last or f"pinprof {words[0]}")

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(heartbeat)
            async with anyio.create_task_group() as readers:
                readers.start_soon(_read, process.stdout, output.append)
                readers.start_soon(_read, process.stderr, stderr.take)
            status = await process.wait()
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)
    text = "".join(output)
    if status and not text.strip():
        raise PinprofError(stderr.error(status))
    return Done(text, stderr.remarks())


class ErrorOutput:
    """What a command prints on standard error."""

    def __init__(self) -> None:
        self._text = ""

    def take(self, text: str) -> None:
        """Add a piece."""
        self._text += text

    @property
    def last(self) -> str:
        """The last whole line."""
        return next(iter(self._text.splitlines()[-1:]), "")

    def error(self, status: int) -> str:
        """Return the line of an error."""
        lines = [line.removeprefix("Error: ") for line in self._text.splitlines() if line.startswith("Error: ")]
        return lines[-1] if lines else f"pinprof ended with status {status}; {self.last or 'it said nothing'}"

    def remarks(self) -> list[str]:
        """Return the remarks for the reader of the output."""
        return [line for line in self._text.splitlines() if line.startswith(REMARKS)][:MOST_REMARKS]


async def _read(stream: ByteReceiveStream | None, take: Callable[[str], None]) -> None:
    assert stream is not None
    async for text in TextReceiveStream(stream, errors="replace"):
        take(text)


async def _end(process: Process) -> None:
    """End a command that still runs, give it time to remove its files, and wait for it."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        with anyio.move_on_after(ENDS_WITHIN_S):
            await process.wait()
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    await process.aclose()
