"""Run functions in another process, where they may fail, crash or hang without harm to this one."""

import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context, set_start_method
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from types import TracebackType
from typing import Any, final

from pinprof.errors import PinprofError
from pinprof.processes import OWN

GOODBYE_S = 5
"""How long a process may take to end by itself."""


class SpawnedProcessError(PinprofError):
    """A function failed in the other process; the text says how, in one line."""


@dataclass(frozen=True)
class _Value:
    value: object


@dataclass(frozen=True)
class _Ended:
    problem: str | None


@final
class SpawnedProcess:
    """A process in which generator functions run one after the other; after a failure a new one takes its place.

    It is spawned, not forked, so that it can use the GPU; functions and what they yield must be picklable.
    """

    def __init__(self) -> None:
        self._process: SpawnProcess | None = None
        self._connection: Connection | None = None

    def __enter__(self) -> "SpawnedProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.renew()

    def call(self, function: Callable[..., Iterator[Any]], *args: object, timeout_s: float) -> Iterator[Any]:
        """Yield what the function yields there. Raises SpawnedProcessError if it fails, dies or takes too long."""
        connection = self._started()
        has_answered = False
        try:
            connection.send((function, args))
            deadline = time.monotonic() + timeout_s
            while isinstance(answer := self._answer(connection, deadline, timeout_s), _Value):
                yield answer.value
            if answer.problem is not None:
                raise SpawnedProcessError(answer.problem)
            has_answered = True
        finally:
            if not has_answered:
                self._kill()

    def renew(self) -> None:
        """End the process; the next call starts a new one."""
        if self._process is not None and self._connection is not None:
            with suppress(OSError):
                self._connection.send(None)
            self._process.join(GOODBYE_S)
        self._kill()

    def _started(self) -> Connection:
        if self._connection is None:
            context = get_context("spawn")
            self._connection, child_end = context.Pipe()
            self._process = context.Process(target=_serve, args=(child_end,), name=OWN)
            self._process.start()
            child_end.close()
        return self._connection

    def _answer(self, connection: Connection, deadline: float, timeout_s: float) -> _Value | _Ended:
        try:
            if not connection.poll(max(0.0, deadline - time.monotonic())):
                return _Ended(f"not done after {timeout_s:.0f} s")
            answer: _Value | _Ended = connection.recv()
        except (EOFError, OSError):
            return _Ended(self._how_it_died())
        return answer

    def _how_it_died(self) -> str:
        if self._process is None:
            return "its process ended"
        self._process.join(GOODBYE_S)
        code = self._process.exitcode
        if code is not None and code < 0:
            return f"its process was ended by {signal.Signals(-code).name}"
        return f"its process ended with exit status {code}"

    def _kill(self) -> None:
        """End the process with all that it started."""
        if self._process is not None and self._process.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                if os.getpgid(self._process.pid) == self._process.pid:
                    os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
            self._process.join()
        if self._connection is not None:
            self._connection.close()
        self._process = self._connection = None


def _serve(connection: Connection) -> None:
    """Call the functions that come, one after the other, and send back what each yields and how it ended."""
    os.setsid()  # its children end with it, and Ctrl-C goes only to the process that started it
    os.dup2(2, 1)  # libraries print, and a program may read standard output
    warnings.simplefilter("ignore")
    # The default in a spawned process is to spawn: each worker of a loader would import torch again, and abort at its
    # end, when Python stops under its threads. So loaders start workers here as they do in a user's program.
    set_start_method(None, force=True)
    with suppress(EOFError, BrokenPipeError):
        while (job := connection.recv()) is not None:
            function, args = job
            problem = None
            try:
                for value in function(*args):
                    connection.send(_Value(value))
            except BrokenPipeError:
                raise
            except Exception as error:  # noqa: BLE001  the caller gets any error
                problem = sentence(error)
            connection.send(_Ended(problem))


def sentence(error: BaseException) -> str:
    """Return an error in one line: its first line, with its class if that is not pinprof's own."""
    first = next(iter(str(error).strip().splitlines()), "")
    return first if isinstance(error, PinprofError) and first else f"{type(error).__name__}: {first}".removesuffix(": ")
