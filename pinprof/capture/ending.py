"""How a program ends that pinprof runs: by itself, by its failure, or by pinprof at the end of a step."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import TYPE_CHECKING

from pinprof.capture.program import UserProgram, status_after
from pinprof.errors import CaptureError

if TYPE_CHECKING:
    from pinprof.capture.markers import Marks


@dataclass(frozen=True)
class Ending:
    """The exit status of a program, and whether pinprof ended it."""

    exit_status: int
    stopped: bool = False


class Finished(BaseException):
    """Ends the script at a step boundary; the script's own `except Exception` does not catch it."""


FINISH = getattr(signal, "SIGRTMAX", signal.SIGTERM + 3) - 2
"""The signal by which another thread ends the main thread: nobody else uses it."""
_can_finish = False


@contextmanager
def finishable() -> Iterator[None]:
    """Let `finish_main` end the block, which runs in the main thread."""
    global _can_finish  # noqa: PLW0603  one for the process
    is_ours = threading.current_thread() is threading.main_thread() and signal.getsignal(FINISH) is signal.SIG_DFL
    if is_ours:
        signal.signal(FINISH, _finish)
        _can_finish = True
    try:
        yield
    finally:
        if is_ours:
            _can_finish = False
            if signal.getsignal(FINISH) is _finish:
                signal.signal(FINISH, signal.SIG_DFL)


def finish_main() -> None:
    """End the main thread with Finished, if it is still in the program; for another thread."""
    if _can_finish and signal.getsignal(FINISH) is _finish:
        signal.pthread_kill(threading.main_thread().ident or 0, FINISH)


def _finish(_number: int, _frame: FrameType | None) -> None:
    if _can_finish:
        raise Finished


def ending_of(program: UserProgram, main: ModuleType, marks: "Marks | None") -> Ending:
    """Execute the program, print its traceback if it fails, and return how it ended.

    `marks` mark the steps in its code, if they are by a function of the script.
    """
    in_script = marks if marks is not None and marks.in_script else None
    try:
        code = program.load(main, in_script.decorated if in_script else None)
    except CaptureError:
        raise
    except BaseException as exc:  # noqa: BLE001  as python itself does
        return _shown(exc)
    if in_script:
        from pinprof.capture.markers import DECORATOR  # noqa: PLC0415  it imports torch

        vars(main)[DECORATOR] = in_script.mark_calls
    try:
        with finishable():
            exec(code, vars(main))  # noqa: S102  running the user's program is the purpose
    except BaseException as exc:  # noqa: BLE001  as python itself does
        return Ending(0) if is_our_doing(exc) else _shown(exc)
    return Ending(0)


def _shown(exc: BaseException) -> Ending:
    """Print an exception as python does, and return the exit status of python after it."""
    return Ending(status_after(exc))


def is_our_doing(exc: BaseException) -> bool:
    """Return whether the exception is our end of the script, or one that the script raised from it."""
    chain: list[BaseException | None] = [exc]
    for link in chain:
        if isinstance(link, Finished):
            return True
        if link is not None:
            chain += [earlier for earlier in (link.__cause__, link.__context__) if earlier not in chain]
    return False
