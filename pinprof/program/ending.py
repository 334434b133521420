"""Executes a user's program in this process, and ends it at a step, or from another thread, when pinprof asks."""

import ctypes
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any, NoReturn

from pinprof.ground.errors import CaptureError
from pinprof.program.user_program import OWN_FOLDERS, CodeChange, UserProgram, is_installed, status_after


@dataclass(frozen=True)
class Ending:
    """The exit status of a program, and whether pinprof ended it."""

    exit_status: int
    stopped: bool = False


class StopRequested(BaseException):
    """Ends the script at a step boundary; the script's own `except Exception` does not catch it."""


FINISH_SIGNAL = getattr(signal, "SIGRTMAX", signal.SIGTERM + 3) - 2
"""The signal by which another thread ends the main thread; no other code uses it."""
_can_finish = False


@contextmanager
def finishable() -> Iterator[None]:
    """Let `finish_main` end the block, which runs in the main thread; after it, no line raises an error of ours."""
    global _can_finish  # noqa: PLW0603  one for the process
    is_ours = (
        threading.current_thread() is threading.main_thread() and signal.getsignal(FINISH_SIGNAL) is signal.SIG_DFL
    )
    if is_ours:
        signal.signal(FINISH_SIGNAL, _finish)
        _can_finish = True
    try:
        yield
    finally:
        if isinstance(sys.gettrace(), _AtNextLine):
            sys.settrace(None)
        if is_ours:
            _can_finish = False
            if signal.getsignal(FINISH_SIGNAL) is _finish:
                signal.signal(FINISH_SIGNAL, signal.SIG_DFL)


def finish_main() -> bool:
    """End the main thread with StopRequested if it is in the program; return whether. Call this in another thread."""
    is_possible = _can_finish and signal.getsignal(FINISH_SIGNAL) is _finish
    if is_possible:
        signal.pthread_kill(threading.main_thread().ident or 0, FINISH_SIGNAL)
    return is_possible


def _finish(_number: int, _frame: FrameType | None) -> None:
    if _can_finish:
        raise StopRequested


def ending_of(program: UserProgram, main: ModuleType, change: CodeChange | None = None) -> Ending:
    """Execute the program, print its traceback if it fails, and return how it ended."""
    try:
        code = program.load(main, change)
    except CaptureError:
        raise
    except BaseException as exc:  # noqa: BLE001  as python itself does
        return Ending(status_after(exc))
    vars(main).update(change.names if change else {})
    try:
        with finishable():
            exec(code, vars(main))  # noqa: S102  running the user's program is the purpose
    except BaseException as exc:  # noqa: BLE001  as python itself does
        return Ending(0 if caused_by_stop(exc) else status_after(exc))
    return Ending(0)


def caused_by_stop(exc: BaseException) -> bool:
    """Return whether the exception is the one by which pinprof ends the script, or was raised because of it."""
    chain: list[BaseException | None] = [exc]
    for link in chain:
        if isinstance(link, StopRequested):
            return True
        if link is not None:
            chain += [earlier for earlier in (link.__cause__, link.__context__) if earlier not in chain]
    return False


MAX_POLITE_STOPS = 2  # how often to ask a script to stop before its exception handlers are interrupted, too


class Stop:
    """Ends the program when it is called; `times` says how often it was called."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> NoReturn:
        """End the program, also from another thread; if it catches that, interrupt it at a later line."""
        self.times += 1
        if threading.current_thread() is not threading.main_thread():
            finish_main()
        if self.times > MAX_POLITE_STOPS:
            raise_at_next_line(StopRequested())
        raise StopRequested


class _AtNextLine:
    """A trace function that raises an error at the next line of the user's own code; then Python removes it."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        if event == "line" and not _is_installed(frame):
            raise self._error
        return None if event == "call" else self


def raise_at_next_line(error: BaseException) -> None:
    """Let the next line that runs in the user's own code raise an error."""
    raising = _AtNextLine(error)
    sys.settrace(raising)
    caller: FrameType | None = sys._getframe()  # noqa: SLF001  the only way to the frames below
    while caller is not None:
        if not _is_installed(caller):
            caller.f_trace = raising
        caller = None if caller.f_code is ending_of.__code__ else caller.f_back


_calls = deque[Callable[[FrameType], None]]()
"""What the main thread is asked to call. The interpreter may still do so after the program's end."""


def call_in_main(act: Callable[[FrameType], None]) -> bool:
    """Let the main thread call `act` between two bytecodes, with its innermost frame; return whether it will.

    This is a pending call of the interpreter: unlike a signal, it needs no handler and interrupts no system call. It
    has to wait while one call of C runs. What `act` raises, the next line of the user's own code raises.
    """
    _calls.append(act)
    if ctypes.pythonapi.Py_AddPendingCall(_CALL_NEXT, None) == 0:
        return True
    _calls.pop()
    return False


def _call(_: object) -> int:
    try:
        _calls.popleft()(sys._getframe(1))  # noqa: SLF001  the only way to the frame below
    except BaseException as error:  # noqa: BLE001  Ctrl-C, too: C would lose it
        raise_at_next_line(error)
    return 0


_CALL_NEXT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(_call)


def _is_installed(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(OWN_FOLDERS) or is_installed(frame.f_code.co_filename)
