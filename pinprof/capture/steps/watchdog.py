"""Watches a program in which nothing marks a step: lets modules mark steps, then records some seconds.

A thread looks at the program. What has to happen in the main thread (watch modules, start and stop torch's profiler,
which records the thread that starts it, end the program), the interpreter calls there between two bytecodes of the
program's own code, without a signal. So a loop of plain operators is recorded as well as calls of modules, but

- nothing happens within one long call of C, during an import or while torch.compile compiles;
- other threads than the main one are not recorded, nor is a program without a tensor, or with a profiler of its own;
- the program is stopped at a line of the user's own code: without one it runs on to its end, and pinprof says so.
"""

import gc
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import CodeType, FrameType

import torch

from pinprof.capture.options import NS_PER_S
from pinprof.capture.steps.marks import Marks
from pinprof.capture.steps.sources import AUTO, CALL_MODULE
from pinprof.capture.steps.stepper import Stepper
from pinprof.ground.errors import CaptureError
from pinprof.ground.host_time import HOST_TIME
from pinprof.program.ending import call_in_main
from pinprof.program.frames import callers, calling_line, frame_of_thread
from pinprof.program.hooks import contained, faults, start_unlisted
from pinprof.program.machine import uses_cuda
from pinprof.program.user_program import OWN_FOLDERS

STRETCH_AFTER_S, STRETCH_S = 30.0, 3.0
"""Seconds of work without a step after which a stretch of time is recorded, and for how long: some steps of an
inference with large models, or thousands of a small one. A program's start usually takes less than 30 s."""
MODULES_AFTER_S, MODULES_WITH_OPTIMIZER_S = 3.0, 40.0
"""Seconds of work without a step after which modules are watched, which costs each call less than a microsecond. An
inference of some seconds gets steps this way; a program that has an optimizer will probably train later."""
PATIENCE_FACTOR_WITH_OPTIMIZER = 4
"""How many times longer to wait for a stretch in a program that has an optimizer, or had steps."""
LOST_MARKER_FACTOR = 5  # a marker is lost after this multiple of the longest time that it ever took
WATCHDOG_POLL_S, MAX_POLL_S = 0.25, 1.0
"""How often the thread looks at the program, and the most time that counts from one look to the next: if the thread
could not run, it has seen nothing."""
STOPPED_ENDS_WITHIN_S = 5.0  # if a stopped program runs on for longer, pinprof says where it is
STILL_RUNS = "pinprof has {what} and waits for the script to end: it is in {line.function} ({line.file}:{line.line})"


class Watchdog:
    """In the block of `awake()`, lets modules mark steps and records a stretch of time if nothing else marks steps.

    After the stretch, the watchdog stops the program if it `may_stop` it, and again if the program runs on for long: it
    may have caught that. It also stops a program that makes no more steps when its stepper `may_end`. `body` is the
    code of the function that runs the program. Time in which the program waits for processes that it has started
    (`waits_for_others`) does not count as work.
    """

    def __init__(
        self, marks: Marks, stepper: Stepper, *, may_stop: bool, body: CodeType, waits_for_others: Callable[[], bool]
    ) -> None:
        self._marks, self._recording, self._body = marks, stepper.recording, body
        self._stop, self._may_stop, self._may_end = stepper.stop, may_stop, stepper.may_end
        self._waits_for_others = waits_for_others
        self._work = Work(HOST_TIME.perf_counter_ns())
        self._asleep = threading.Event()
        self._is_asking = self._ends = self._has_said = False
        self._over_ns = 0
        self._main = threading.main_thread().ident or 0

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Watch the program in the block; only where its main thread runs it."""
        if threading.get_ident() != self._main:
            yield
            return
        join = start_unlisted(self._watch)
        try:
            yield
        finally:
            self._asleep.set()
            join(WATCHDOG_POLL_S)

    def _watch(self) -> None:
        while not self._asleep.wait(WATCHDOG_POLL_S):
            with suppress(RuntimeError):  # of torch, while the interpreter or CUDA ends
                if contained(self._is_due)() and not self._is_asking:
                    self._is_asking = call_in_main(self._act)

    def _is_due(self) -> bool:
        recording, marks, now_ns = self._recording, self._marks, HOST_TIME.perf_counter_ns()
        frame = frame_of_thread(self._main)
        is_late = bool(self._stop.times or self._ends) and self._is_late(now_ns, frame)
        if recording.stretch.is_open:
            return recording.stretch.seconds >= STRETCH_S
        if recording.done or marks.step_marker != AUTO:
            self._ends |= self._may_stop and not self._stop.times and self._may_end()
            return self._ends and (is_late or not self._stop.times)
        self._work.add(now_ns, marks.last_ns, counts=is_programs(frame, self._body))
        if self._waits_for_others():
            self._work.seconds = 0.0
        return self._work.seconds >= patience_s(marks)

    def _is_late(self, now_ns: int, frame: FrameType | None) -> bool:
        """Return whether the program runs on long after its recording; if so, say once where it is."""
        self._over_ns = self._over_ns or now_ns
        line = calling_line(frame)
        if now_ns - self._over_ns < STOPPED_ENDS_WITHIN_S * NS_PER_S:
            return False
        if line is not None and not self._has_said:
            self._has_said = True
            faults.say(STILL_RUNS.format(line=line, what="a stretch of its time" if self._ends else "its steps"))
        return True

    def _act(self, frame: FrameType) -> None:
        """Do what is due, in the main thread, unless its innermost frame is not of the program's own code."""
        try:
            if not self._asleep.is_set() and is_programs(frame, self._body):
                self._do()
        except Exception as error:  # noqa: BLE001  it must not end the program
            self._asleep.set()
            if not isinstance(error, CaptureError):  # such as that the program runs a profiler of its own
                faults.note(error)
        finally:
            self._is_asking = False

    def _do(self) -> None:
        recording, marks, work = self._recording, self._marks, self._work
        if recording.stretch.is_open:
            recording.stretch.end()
            recording.done, self._ends = True, self._may_stop
        elif recording.done:
            self._stop()
        elif not has_tensors():
            work.seconds = 0.0
        elif not marks.has_marker and not marks.watches_modules:
            marks.watch_modules()
            work.seconds = min(work.seconds, STRETCH_AFTER_S / 3)  # they need the rest of the time too
        else:
            recording.abandon()
            if recording.recorded_steps:
                recording.done, self._ends = True, self._may_stop
            else:
                recording.stretch.begin()


def patience_s(marks: Marks) -> float:
    """Return after how many seconds of work without a sign of a step to act."""
    trains = bool(marks.has_marker or marks.optimizers)
    if not marks.has_marker and not marks.watches_modules:
        return MODULES_WITH_OPTIMIZER_S if trains else MODULES_AFTER_S
    lost_after_s = LOST_MARKER_FACTOR * marks.longest_ns / NS_PER_S
    return max(STRETCH_AFTER_S, lost_after_s) * (PATIENCE_FACTOR_WITH_OPTIMIZER if trains else 1)


PREPARING_FILES = (
    "<frozen importlib._bootstrap>",
    f"_dynamo{os.sep}convert_frame.py",
    f"_inductor{os.sep}compile_fx.py",
)
"""Ends of the names of files whose functions run while a program imports modules, or torch.compile compiles."""


def is_programs(frame: FrameType | None, body: CodeType) -> bool:
    """Return whether this innermost frame is of the program that `body` runs, not of an import or of pinprof."""
    for caller in callers(frame):
        file, name = caller.f_code.co_filename, caller.f_code.co_name
        if caller.f_code is body:
            return caller is not frame
        if file.endswith(PREPARING_FILES) or (file.startswith(OWN_FOLDERS) and name != CALL_MODULE):
            return False
    return False


def has_tensors() -> bool:
    """Return whether the program has a tensor; in its own thread, as another could hold a tuple that is being built."""
    return any(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())


MIN_FREED_BLOCKS = 10
"""The program works if it has freed this number of blocks of GPU memory since the last look. A working model allocates
and frees temporary tensors; a model that is being loaded only allocates."""
QUIET_SECOND_SHARE = 0.1
"""How much a second counts in which the program freed less: it may replay graphs, which need no memory, or only prepare
data on the host."""


class Work:
    """The `seconds` in which a program worked since something last marked a step."""

    def __init__(self, now_ns: int) -> None:
        self.seconds = 0.0
        self._now_ns = now_ns
        self._marked_ns = 0
        self._freed = 0
        self._has_gpu = torch.cuda.device_count() > 0  # unlike `is_available`, this lets a fork use the GPU

    def add(self, now_ns: int, marked_ns: int, *, counts: bool) -> None:
        """Add the time since the last call; a step was last marked at `marked_ns`; `counts`: its own code runs now."""
        freed = _freed_blocks()
        share = QUIET_SECOND_SHARE if self._has_gpu and freed - self._freed < MIN_FREED_BLOCKS else 1.0
        worked_s = min((now_ns - self._now_ns) / NS_PER_S, MAX_POLL_S) * share if counts else 0.0
        self.seconds = self.seconds + worked_s if marked_ns == self._marked_ns else 0.0
        self._now_ns, self._marked_ns, self._freed = now_ns, marked_ns, freed


def _freed_blocks() -> int:
    devices = range(torch.cuda.device_count()) if uses_cuda() else ()
    stats = [torch.cuda.memory_stats_as_nested_dict(device) for device in devices]
    return sum(int(of_device["allocation"]["all"]["freed"]) for of_device in stats if of_device)
