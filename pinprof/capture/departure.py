"""Tells where a program leaves its process at once: by `os._exit`, or by starting another program in its place."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

from pinprof.capture.commands import as_line
from pinprof.capture.faults import contained
from pinprof.capture.replaced import replaced


@contextmanager
def told_of_departure(leaves: Callable[[str], None]) -> Iterator[None]:
    """Call `leaves` with what the program does before it leaves this process; nothing of pinprof runs after it.

    All functions of `os` that start another program in place of this one go through `execv` and `execve`.
    """
    process, leave = os.getpid(), contained(leaves)

    def executing(execute: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(execute)
        def executed(path: Any, args: Any, *environment: Any) -> Any:
            if os.getpid() == process and _is_program(path):  # `execvp` tries every folder of PATH
                leave(f"started another program in its place ({contained(as_line)(args)})")
            return execute(path, args, *environment)

        return executed

    def exiting(leave_now: Callable[[int], Any]) -> Callable[[int], Any]:
        @wraps(leave_now)
        def exited(status: int) -> Any:
            if os.getpid() == process:
                leave(f"ended by os._exit({status})")
            return leave_now(status)

        return exited

    with ExitStack() as undo:
        undo.enter_context(replaced(os, "execv", executing))
        undo.enter_context(replaced(os, "execve", executing))
        undo.enter_context(replaced(os, "_exit", exiting))
        yield


def _is_program(path: Any) -> bool:
    try:
        return os.access(path, os.X_OK) and not os.path.isdir(path)  # noqa: PTH112  a path of any type
    except (TypeError, ValueError, OSError):
        return False
