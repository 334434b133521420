"""What the interpreter calls in the main thread, and what that raises in the user's own code."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

from pinprof.program.user_program import INSTALLED, Finished, call_in_main, finishable, raise_at_next_line

Act = Callable[[FrameType], None]


@pytest.fixture(autouse=True)
def _tracing() -> Iterator[None]:
    """Trace as before after the test, as a tool that measures coverage may do."""
    before = sys.gettrace()
    yield
    sys.settrace(before)


def wait_for(act: Act, called: list[object]) -> None:
    """Let a thread ask the main thread to call `act`, and wait until something was called."""
    thread = threading.Thread(target=call_in_main, args=(act,))
    thread.start()
    end = time.monotonic() + 30
    while not called and time.monotonic() < end:
        thread.join(0.001)


def test_another_thread_lets_the_main_thread_call_a_function() -> None:
    called: list[object] = []
    wait_for(lambda _: called.append(threading.get_ident()), called)
    assert called == [threading.main_thread().ident]


def test_the_function_gets_the_innermost_frame_of_the_main_thread() -> None:
    called: list[object] = []
    own = sys._getframe()

    def note(frame: FrameType | None) -> None:
        while frame is not None and frame is not own:
            frame = frame.f_back
        called.append(frame)

    wait_for(note, called)
    assert called == [own]


def test_the_next_line_raises_what_the_function_raises() -> None:
    def fail(_: FrameType) -> None:
        raise KeyError("of the function")

    with pytest.raises(KeyError, match="of the function"):
        wait_for(fail, [])


def test_after_the_program_no_line_raises() -> None:
    source = "with finishable():\n    raise_at_next_line(Finished())\n"
    names = {"finishable": finishable, "raise_at_next_line": raise_at_next_line, "Finished": Finished}
    exec(compile(source, f"{INSTALLED[0]}package.py", "exec"), names)
    assert sys.gettrace() is None
