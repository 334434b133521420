"""Watches a program in which nothing marks a step, from a thread: lets modules mark them, then records some seconds."""

import _thread
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from pinprof.capture.options import NS_PER_S
from pinprof.capture.steps.marks import Marks
from pinprof.capture.steps.sources import AUTO, MODULE_CALL, count_optimizers
from pinprof.capture.window.recording import Recording
from pinprof.errors import CaptureError
from pinprof.program.frames import calling_line
from pinprof.program.hooks import contained, faults
from pinprof.program.machine import uses_cuda
from pinprof.program.user_program import OWN_FOLDERS, Stop

STRETCH_AFTER_S = 30.0
"""Seconds of work without a step after which a stretch of time is recorded; a program's start usually takes less."""

STRETCH_S = 3.0
"""How long to record: some steps of an inference with large models, or thousands of a small one."""

MODULES_AFTER_S = 3.0
"""Seconds of work without a step after which modules are watched, which costs each call less than a microsecond. An
inference of some seconds gets steps this way."""

WITH_OPTIMIZER = 4
"""How many times longer to wait in a program that has an optimizer, or had steps: it will probably train later."""

LONGER_THAN_ANY = 5
"""A marker is lost after this multiple of the longest time that it ever took."""

LOOK_S = 0.25
"""How often the thread looks at the program."""

ENDS_WITHIN_S = 5.0
"""If a stopped program runs on for longer, pinprof says where it is."""

LATE = "pinprof has its steps and waits for the script to end: it is in {line.function} ({line.file}:{line.line})"

RETRY_S = 0.02
"""How soon to try again to act if the main thread was in a function of pinprof."""

SIGNAL = getattr(signal, "SIGRTMAX", signal.SIGUSR2)
"""The signal whose Python handler acts. No process sends it: `_thread.interrupt_main` only notes it in the interpreter,
so it interrupts no system call of the program. Unlike a pending call of C, a handler may raise."""

Due: TypeAlias = Literal["modules", "stretch"]
"""To watch modules, or to record a stretch of time."""


@dataclass(frozen=True)
class Situation:
    """What a program has done: its work since the last sign of a step, and the longest time between two signs."""

    work_s: float
    longest_s: float
    has_marker: bool
    watches_modules: bool


def due(stretch_after_s: float, now: Situation, has_optimizer: Callable[[], bool]) -> Due | None:
    """Return what to do now, if anything; `has_optimizer` is called only if it matters."""
    if now.has_marker or now.watches_modules:
        what: Due = "stretch"
        after_s = unless_trains_s = max(stretch_after_s, LONGER_THAN_ANY * now.longest_s)
    else:
        what = "modules"
        unless_trains_s = stretch_after_s / 3
        after_s = min(MODULES_AFTER_S, unless_trains_s)
    if stretch_after_s <= 0 or now.work_s < after_s:
        return None
    if now.work_s < WITH_OPTIMIZER * unless_trains_s and (now.has_marker or has_optimizer()):
        return None
    return what


class Watchdog:
    """In the block of `awake()`, lets modules mark steps and records a stretch of time if nothing else marks steps.

    The stretch begins after `stretch_after_s` seconds of work; 0: never. After it, `stop` is called again and again if
    the watchdog `may_stop` the program. `body` is the code of the function that runs the program. Time in which the
    program waits for processes that it has started (`waits_for_others`) does not count as work. If the program runs on
    long after it was stopped, the watchdog says where it is.
    """

    def __init__(
        self,
        marks: Marks,
        recording: Recording,
        stretch_after_s: float,
        *,
        stop: Stop,
        may_stop: bool,
        body: CodeType,
        waits_for_others: Callable[[], bool] = lambda: False,
    ) -> None:
        self._marks, self._recording, self._stretch_after_s = marks, recording, stretch_after_s
        self._stop, self._may_stop, self._body, self._waits_for_others = stop, may_stop, body, waits_for_others
        self._work = Activity(time.perf_counter_ns())
        self._action: Callable[[], None] | None = None
        self._asleep = threading.Event()
        self._acts = self._has_recorded = self._has_optimizer = False
        self._stopped_ns = 0
        self._main = threading.main_thread().ident or 0

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Watch the program in the block; only where its main thread runs it."""
        if threading.get_ident() != self._main:
            yield
            return
        before = signal.signal(SIGNAL, self._act)
        self._work = Activity(time.perf_counter_ns())
        thread = threading.Thread(target=self._watch, name="pinprof watchdog", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._sleep()
            thread.join(LOOK_S)
            signal.signal(SIGNAL, before if before is not None else signal.SIG_DFL)

    @property
    def worked_s(self) -> float:
        """How long the program was seen to work, in total."""
        return self._work.total_s

    def _sleep(self) -> None:
        self._action = None
        self._asleep.set()

    def _watch(self) -> None:
        while not self._asleep.wait(RETRY_S if self._action else LOOK_S):
            if self._action is None and not self._acts:
                with suppress(RuntimeError):  # of torch, while the interpreter or CUDA ends
                    self._action = contained(self._next)()
            if self._action is not None:
                _thread.interrupt_main(SIGNAL)

    def _next(self) -> Callable[[], None] | None:
        """Return what the main thread has to do now."""
        recording, marks, work, now_ns = self._recording, self._marks, self._work, time.perf_counter_ns()
        frame = sys._current_frames().get(self._main)  # noqa: SLF001  the public way
        if self._stop.times:
            self._say_if_late(now_ns, frame)
        if marks.step_marker != AUTO or (recording.done and not self._has_recorded):
            return None
        work.look(now_ns, frame, marks.last_ns)
        if recording.stretch.is_open:
            return self._end if recording.stretch.seconds >= STRETCH_S else None
        if self._has_recorded:
            return self._stop if self._may_stop else None
        if self._waits_for_others():
            work.seconds = 0.0
        elif self._due(lambda: self._has_optimizer) is not None:
            return self._decide
        return None

    def _say_if_late(self, now_ns: int, frame: FrameType | None) -> None:
        self._stopped_ns = self._stopped_ns or now_ns
        line = calling_line(frame)
        if line is not None and now_ns - self._stopped_ns >= ENDS_WITHIN_S * NS_PER_S:
            faults.say(LATE.format(line=line))
            self._stopped_ns = sys.maxsize  # once

    def _due(self, has_optimizer: Callable[[], bool]) -> Due | None:
        marks = self._marks
        longest_s = marks.longest_ns / NS_PER_S
        now = Situation(self._work.seconds, longest_s, marks.has_marker, marks.watches_modules)
        decision = due(self._stretch_after_s, now, has_optimizer)
        return decision if decision == "modules" or not self._recording.options.times_only else None

    def _decide(self) -> None:
        """Do what is due. Call it in the program's own thread, because it looks at all objects."""
        what, work = self._due(self._finds_optimizer), self._work
        if what is not None and not work.is_with_tensors():
            work.seconds = 0.0
        elif what == "modules":
            self._marks.watch_modules()
            work.seconds = min(work.seconds, self._stretch_after_s / 3)  # they need the rest of the time too
        elif what == "stretch":
            self._begin()

    def _finds_optimizer(self) -> bool:
        self._has_optimizer = self._has_optimizer or count_optimizers() > 0
        return self._has_optimizer

    def _act(self, _number: int, frame: FrameType | None) -> None:
        """Act in the main thread, if it runs the program's own code now."""
        action = self._action
        if action is None or self._asleep.is_set() or not is_in_program(frame, self._body) or is_preparing(frame):
            return
        self._action, self._acts = None, True
        try:
            action()
        except CaptureError:  # such as that the program runs a profiler of its own; this must not end the program
            self._sleep()
        except Exception as error:  # noqa: BLE001  nor must an unexpected error
            self._sleep()
            faults.note(error)
        finally:
            self._acts = False

    def _begin(self) -> None:
        recording = self._recording
        recording.abandon()
        recording.done = self._has_recorded = bool(recording.recorded_steps)
        if not recording.done:
            recording.stretch.begin()

    def _end(self) -> None:
        self._recording.stretch.end()
        self._recording.done = self._has_recorded = True


def is_in_program(frame: FrameType | None, body: CodeType) -> bool:
    """Return whether a frame belongs to the program that the function with the code `body` runs, not to pinprof.

    A frame of pinprof that only passes on a call of a module counts as the program's.
    """
    depth = 0
    while frame is not None and frame.f_code is not body:
        own = frame.f_code.co_filename.startswith(OWN_FOLDERS)
        if own and frame.f_code.co_name != MODULE_CALL:
            return False
        depth += 1
        frame = frame.f_back
    return frame is not None and depth > 0


PREPARING = ("<frozen importlib._bootstrap>", f"_dynamo{os.sep}convert_frame.py", f"_inductor{os.sep}compile_fx.py")
"""Ends of the names of files whose functions run while a program imports modules, or torch.compile compiles."""

DEEPEST = 200
"""Frames that are looked at, at most."""

FREED = 10
"""The program works if it has freed this number of blocks of GPU memory since the last look. A working model allocates
and frees temporary tensors; a model that is being loaded only allocates."""

QUIET_SHARE = 0.1
"""How much a second counts in which the program freed less: it may replay graphs, which need no memory, or only prepare
data on the host."""

LONGEST_LOOK_S = 1.0
"""The most time that counts from one look to the next: if this thread could not run, it has seen nothing."""


class Activity:
    """The seconds in which a program worked: since something last marked a step, and in total."""

    def __init__(self, now_ns: int) -> None:
        self.seconds = 0.0
        self.total_s = 0.0
        self._now_ns = now_ns
        self._marked_ns = 0
        self._freed = 0
        self._has_gpu = torch.cuda.device_count() > 0  # unlike `is_available`, this lets a fork use the GPU
        self._tensors = set[int]() if self._has_gpu else tensors()

    def look(self, now_ns: int, frame: FrameType | None, marked_ns: int) -> None:
        """Look at the program: `frame` is the innermost of its main thread, `marked_ns` when a step was last marked."""
        worked_s = min((now_ns - self._now_ns) / NS_PER_S, LONGEST_LOOK_S) * self._share(frame)
        self._now_ns = now_ns
        self.total_s += worked_s
        self.seconds = self.seconds + worked_s if marked_ns == self._marked_ns else 0.0
        self._marked_ns = marked_ns

    def is_with_tensors(self) -> bool:
        """Return whether the program uses torch; call it in the program's own thread, as `tensors`."""
        return self._has_gpu or not tensors() <= self._tensors

    def _share(self, frame: FrameType | None) -> float:
        """Return how much of the time since the last look counts."""
        freed = _freed_pieces()
        newly, self._freed = freed - self._freed, freed
        if is_preparing(frame):
            return 0.0
        return 1.0 if newly >= FREED or not self._has_gpu else QUIET_SHARE


def is_preparing(frame: FrameType | None) -> bool:
    """Return whether a thread with this innermost frame imports or compiles."""
    for _ in range(DEEPEST):
        if frame is None:
            return False
        if frame.f_code.co_filename.endswith(PREPARING):
            return True
        frame = frame.f_back
    return False


def tensors() -> set[int]:
    """Return the ids of all tensors that exist.

    Call it in the program's own thread: another thread could hold a tuple that the program is still building, and the
    program would fail.
    """
    return {id(thing) for thing in gc.get_objects() if issubclass(type(thing), Tensor)}


def _freed_pieces() -> int:
    """Return how many blocks of GPU memory the program has freed."""
    if not uses_cuda():
        return 0
    devices = range(torch.cuda.device_count())
    stats = [torch.cuda.memory_stats_as_nested_dict(device) for device in devices]
    return sum(int(of_device["allocation"]["all"]["freed"]) for of_device in stats if of_device)
