"""What the interpreter calls in the main thread, and what that raises in the user's own code."""

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

from pinprof.program.ending import StopRequested, call_in_main, finishable, raise_at_next_line
from pinprof.program.frames import frame_of_thread
from pinprof.program.user_program import INSTALLED_FOLDERS

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
    source = "with finishable():\n    raise_at_next_line(StopRequested())\n"
    names = {"finishable": finishable, "raise_at_next_line": raise_at_next_line, "StopRequested": StopRequested}
    exec(compile(source, f"{INSTALLED_FOLDERS[0]}package.py", "exec"), names)
    assert sys.gettrace() is None


STRESS = """
import gc, sys, threading, time
from pinprof.program.frames import frame_of_thread

class Thing: pass
main, wrong, ends = threading.get_ident(), set(), False

def switch(phase, info):
    if threading.get_ident() != main:
        time.sleep(2e-5)  # a finalizer may do so: other threads run, and their frames end

def look():
    while not ends:
        frame = frame_of_thread(main)
        while frame is not None:
            wrong.add(type(frame).__name__)
            frame = frame.f_back

def call(depth, *things):
    return call(depth - 1, Thing(), *things[:2]) if depth else things

gc.callbacks.append(switch)
gc.set_threshold(3)
sys.setswitchinterval(1e-6)
thread = threading.Thread(target=look)
thread.start()
end = time.monotonic() + 2
while time.monotonic() < end:
    for depth in range(20):
        call(depth, Thing())
ends = True
thread.join()
print(wrong, gc.isenabled())
"""


@pytest.mark.slow
def test_frames_of_another_thread_are_frames_while_garbage_is_collected() -> None:
    command = (sys.executable, "-c", STRESS)  # Python 3.11 crashes where they are not
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (ended.returncode, ended.stdout) == (0, "{'frame'} True\n"), ended.stderr


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_stays_as_the_program_has_it(enabled: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        assert frame_of_thread(threading.get_ident()) is not None
        assert frame_of_thread(-1) is None
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()
