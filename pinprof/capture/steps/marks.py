"""Watches the sources of steps in a running program, and acts where its steps end."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from os import getpid
from pathlib import Path
from types import FrameType
from typing import Any

from torch.nn import Module

from pinprof.capture.steps import sources
from pinprof.capture.steps.finder import Choice, StepFinder
from pinprof.capture.steps.functions import FunctionCalls
from pinprof.capture.steps.sources import STEP_SOURCES, Observer, Source, StepEvent
from pinprof.ground.host_time import HOST_TIME
from pinprof.program.ending import Stop, caused_by_stop
from pinprof.program.frames import callers, frame_of_thread
from pinprof.program.hooks import replaced
from pinprof.program.user_program import CodeChange

MIN_LEAD_CALLS = 12
"""If several threads call the step's marker, the steps move to a thread that has made this many calls more."""
AWAITS_OPTIMIZER_S, AWAITS_UNUSED_OPTIMIZER_S = 20.0, 60.0
"""Seconds of batches, calls of modules or of backward after which a program without an optimizer, or with one that has
not stepped, is not expected to train. Until then it may look at its data, or evaluate its model, and train it later."""


WAITING_FOR_THREAD = (("join", "threading.py"), ("result", "_base.py"))
"""The functions in which a thread waits for another, each with the name of its file."""


class Marks(Observer):
    """Calls `end_step` with the name of the marker where steps end, while a `with` block of `placed()` is open.

    `step_marker` is AUTO, the option of a source, or names a `function`, whose calls mark the steps. Only the process
    that placed the marks counts, and in it one thread: the one that placed them, unless another makes better steps and
    `may_move`. After a `stop`, all others are ended too. `group` says whether several optimizer steps may be found to
    be one step.
    """

    def __init__(
        self,
        step_marker: str,
        end_step: Callable[[str], None],
        *,
        group: bool = True,
        may_move: Callable[[], bool] = lambda: True,
        stop: Stop | None = None,
    ) -> None:
        super().__init__()
        self.step_marker = step_marker
        self.function = FunctionCalls(step_marker) if sources.is_function(step_marker) else None
        self.last_ns = 0  # when the program last did something that can mark a step; 0 before
        self.longest_ns = 0  # the longest time between two such events
        self._wanted = self.function.source if self.function is not None else sources.SOURCES_BY_OPTION.get(step_marker)
        self._end_step = end_step
        self._may_move = may_move
        self._stop = stop
        self._group = group
        self._process = 0
        self._owner = 0
        self._choice: Choice | None = None  # the choice of the thread that counts, when `_settle` was last called
        self._finders: dict[int, StepFinder] = {}
        self._is_by_hand = False
        self._modules = ExitStack()
        self._watched: type[Module] | None = None

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Watch the program in the block, and undo all changes at its end."""
        self._process, self._owner = process_and_thread()
        with ExitStack() as undo:
            undo.enter_context(replaced(threading, "excepthook", silent_of_stops))
            for source in self._sources():
                undo.enter_context(source.hook(self))
            if self._wanted is None:
                undo.enter_context(sources.before_evaluation(lambda: self._finder_here().evaluated()))
            undo.callback(self._watch, None)
            if self._wanted is sources.MODULE_CALLS:
                self._watch(Module)
            yield

    def _sources(self) -> list[Source]:
        if self.function is not None:
            return [self.function.source]
        is_auto = self._wanted is None
        return [source for source in STEP_SOURCES if not source.is_costly and (is_auto or not source.is_certain)]

    def watch_modules(self) -> None:
        """Let calls of the outermost module mark the steps if nothing better does; this slows down calls of modules."""
        if not self.has_marker:
            self._watch(Module)

    def _watch(self, modules: type[Module] | None) -> None:
        """Watch the calls of modules of one class, of all by their base class, or of none."""
        if modules is not self._watched:
            self._modules.close()
            self._watched = modules
            if modules is not None:
                self._modules.enter_context(sources.reporting_modules(self, modules))

    @property
    def watches_modules(self) -> bool:
        """Whether calls of modules are watched now."""
        return self._watched is not None

    @property
    def finder(self) -> StepFinder:
        """The finder of the thread that counts, or of the thread with most events if that thread has none."""
        finder = self._finders.get(self._owner)
        if finder is not None and finder.event_counts.total():
            return finder
        others = max(self._finders.values(), key=lambda other: other.event_counts.total(), default=None)
        return others or self._finders.setdefault(self._owner, self._new_finder())

    @property
    def change(self) -> CodeChange | None:
        """The change of the script's code by which one of its functions marks the steps; None if none does."""
        return self.function.change if self.function is not None else None

    @property
    def threads(self) -> set[int]:
        """The threads that have made steps, or may make some."""
        return set(self._finders)

    @property
    def has_marker(self) -> bool:
        """Whether it is known what marks the steps."""
        return self.finder.choice is not None

    @property
    def trains(self) -> bool:
        """Whether the steps are those of a training: a loop that only draws batches or calls modules evaluates."""
        return self.has_marker and self.finder.source.trains

    @property
    def awaits_optimizer_s(self) -> float:
        """How many seconds of steps may pass before no better marker than this one is expected."""
        if self.finder.is_final:
            return 0.0
        may_step = self.optimizers and not self.finder.is_in_long_step
        return AWAITS_UNUSED_OPTIMIZER_S if may_step else AWAITS_OPTIMIZER_S

    def saw(self, event: StepEvent, subject: Any = None) -> None:
        """Note an event, and end a step if one ends with it."""
        process, thread = process_and_thread()
        if process != self._process or (self._is_by_hand and event.source is not sources.STEP_CALLS):
            return
        if thread != self._owner and self._stop is not None and self._stop.times:
            self._stop()  # another thread of a program that was stopped at a step of the thread that counts
        finder, now_ns = self._finder_here(), HOST_TIME.perf_counter_ns()
        ends = finder.see(event, now_ns)
        if thread != self._owner and not self._moves_to(thread, finder):
            return
        source = event.source
        self._is_by_hand |= source is sources.STEP_CALLS
        if source is finder.source or not source.is_costly:
            self.longest_ns = max(self.longest_ns, now_ns - (self.last_ns or now_ns))
            self.last_ns = now_ns
        if self._watched is not None or finder.choice is not self._choice or finder.wants_calls:
            self._settle(finder, event, subject)
        if ends:
            self._end_step(finder.marker)

    def exhausted(self, draw: StepEvent) -> None:
        """Note that a DataLoader had no batch left."""
        if _process == self._process:
            self._finder_here().exhausted(draw)

    def _new_finder(self) -> StepFinder:
        return StepFinder(lambda: len(self.optimizers), self._wanted, group=self._group)

    def _finder_here(self) -> StepFinder:
        thread = threading.get_ident()
        if thread not in self._finders:
            self._finders[thread] = self._new_finder()
        return self._finders[thread]

    def _moves_to(self, thread: int, finder: StepFinder) -> bool:
        """Let the steps of this thread count from now on if they are better; return whether they count."""
        if finder.choice is None or not self._may_move():
            return False
        owner_finder, frame = self._finders.get(self._owner), frame_of_thread(self._owner)
        if finder.source is sources.BATCH_DRAWS and not is_waiting_for_thread(frame):
            return False  # it may only prefetch batches
        better = worth_of(finder) - worth_of(owner_finder)
        lead = finder.marks_passed - owner_finder.marks_passed if owner_finder is not None else 0
        is_ahead = finder.source.is_certain and lead >= MIN_LEAD_CALLS
        if better > 0 or (better == 0 and (frame is None or is_ahead)):
            self._owner = thread
        return thread == self._owner

    def _settle(self, finder: StepFinder, event: StepEvent, subject: Any) -> None:
        """Watch calls of modules and of backward only while they may decide what a step is, or do decide."""
        self._choice = finder.choice
        self.needs_backward = finder.choice is None or not (
            finder.source is sources.OPTIMIZER_STEPS or finder.source.is_certain
        )
        is_auto = self._wanted is None
        if is_auto and finder.wants_calls:
            self._watch(Module)
        elif event.source is sources.MODULE_CALLS and finder.choice is not None and finder.choice.event == event:
            self._watch(type(subject))
        elif is_auto and finder.choice is not None and finder.source is not sources.MODULE_CALLS:
            self._watch(None)


_process = getpid()


def _forked() -> None:
    global _process  # noqa: PLW0603  one for the process
    _process = getpid()


os.register_at_fork(after_in_child=_forked)


def process_and_thread() -> tuple[int, int]:
    """Return the process and the thread. It makes no system call; the thread of a fork has its parent's number."""
    return _process, threading.get_ident()


def worth_of(finder: StepFinder | None) -> int:
    """Return how good the steps of a thread are: those of training are better than of evaluation or prefetching."""
    if finder is None or not finder.event_counts.total():
        return -1
    if finder.choice is None:
        return 0
    return len(STEP_SOURCES) if finder.source.is_certain else len(STEP_SOURCES) - STEP_SOURCES.index(finder.source)


def is_waiting_for_thread(frame: FrameType | None) -> bool:
    """Return whether a thread with this innermost frame waits for another thread, or for its result."""
    codes = (caller.f_code for caller in callers(frame))
    return any((code.co_name, Path(code.co_filename).name) in WAITING_FOR_THREAD for code in codes)


def silent_of_stops(show: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return a `threading.excepthook` that shows all errors except those by which pinprof ends a thread."""

    def shown(failure: Any) -> None:
        if failure.exc_value is None or not caused_by_stop(failure.exc_value):
            show(failure)

    return shown
