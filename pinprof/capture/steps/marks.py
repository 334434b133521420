"""Finds where the steps of a running program end: by changes of torch, calls of a function, or `pinprof.step()`."""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, cast

from torch.nn import Module
from torch.optim import Optimizer

from pinprof.capture.hooks import contained, replaced
from pinprof.capture.observe.frames import frame_of_thread
from pinprof.capture.program import Change, Stop, is_our_doing
from pinprof.capture.steps.finder import HOWS, MANY_CALLS, How, Kind, MarkerEvent, StepFinder
from pinprof.capture.steps.functions import FunctionCalls
from pinprof.capture.steps.sources import (
    ModuleCalls,
    calling_place,
    count_optimizers,
    is_only_a_function,
    told_of_backward,
    told_of_draws,
    told_of_evaluation,
    told_of_steps,
)

BY_HAND = "pinprof.step()"

EndStep = Callable[[str], None]
"""Called where a step ends, with the name of its marker."""


class Marks:
    """Calls `end_step` where the steps end, by the given marker, while a `with` block of `placed()` is open.

    `step_marker` is one of HOWS, or names a `function`, whose calls mark the steps. Only the process that placed the
    marks counts, and in it one thread: the one that placed them, unless another makes better steps and `may_move`.
    After a `stop`, all others are ended too. `group` says whether several optimizer steps may be found to be one step.
    """

    def __init__(
        self,
        step_marker: str,
        end_step: EndStep,
        *,
        group: bool = True,
        may_move: Callable[[], bool] = lambda: True,
        stop: Stop | None = None,
    ) -> None:
        self.step_marker = step_marker
        self.function = None if step_marker in HOWS else FunctionCalls(step_marker, self._end_at_call)
        self._end_step = end_step
        self._may_move = may_move
        self._stop = stop
        self._group = group
        self._process = 0
        self._owner = 0
        self._by_hand = False
        self._calls: Counter[int] = Counter()
        self._finders: dict[int, StepFinder] = {}
        self.pace = Pace()
        self._modules: ModuleCalls | None = None

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Watch the program in the block, and undo all changes at its end."""
        global _placed  # noqa: PLW0603  for pinprof.step()
        self._process, self._owner = here()
        with ExitStack() as undo:
            undo.enter_context(replaced(threading, "excepthook", silent_of_stops))
            if self.function is None:
                self._place_hooks(undo)
            else:
                undo.enter_context(self.function.placed())
            outer, _placed = _placed, self
            try:
                yield
            finally:
                _placed = outer

    def _place_hooks(self, undo: ExitStack) -> None:
        undo.enter_context(told_of_draws(self._saw, self._exhausted))
        undo.enter_context(told_of_steps(contained(self._stepped)))
        undo.enter_context(told_of_backward(self._ran_backward))
        undo.enter_context(told_of_evaluation(lambda: self._finder_here().evaluated()))
        self._modules = ModuleCalls(self._calls_module)
        undo.callback(self._modules.stop)
        if self.step_marker == "module":
            self._modules.watch_all()

    def watch_modules(self) -> None:
        """Let calls of the outermost module mark the steps if nothing better does; this slows down all of them."""
        if self._modules is not None and not self.watches_modules and self.marker_kind is None:
            self._modules.watch_all()

    @property
    def finder(self) -> StepFinder | None:
        """What finds the steps of the thread that counts; without events in it, of the one with most of them."""
        if self.function is not None:
            return None
        finder = self._finders.get(self._owner)
        if finder is not None and finder.seen.total():
            return finder
        others = max(self._finders.values(), key=lambda other: other.seen.total(), default=None)
        return others or self._finders.setdefault(self._owner, self._new_finder())

    @property
    def change(self) -> Change | None:
        """The change of the script's code by which one of its functions marks the steps; None if none does."""
        return self.function.change if self.function is not None else None

    @property
    def threads(self) -> set[int]:
        """The threads that made steps, or may."""
        return {*self._finders, *self._calls}

    @property
    def thread(self) -> int:
        """The thread whose steps count."""
        return self._owner

    @property
    def trains(self) -> bool:
        """Whether the steps that it found train: a loop that only draws batches or calls modules evaluates."""
        return self.marker_kind in ("optimizer", "backward", "call")

    @property
    def marker_kind(self) -> str | None:
        """What makes a step: the kind of an event, "call" for a function and by hand, None while it is unknown."""
        finder = self.finder
        if finder is None or self._by_hand:
            return "call" if self._calls else None
        return finder.kind if finder.choice is not None else None

    @property
    def has_signs(self) -> bool:
        """Whether the program did anything that can mark a step."""
        return bool(self._calls) or any(finder.seen.total() > 0 for finder in self._finders.values())

    @property
    def watches_modules(self) -> bool:
        """Whether calls of modules are watched now."""
        return self._modules is not None and self._modules.watched is not None

    @property
    def place(self) -> int:
        """How many steps the program has made since its start; all ranks of a job count alike."""
        finder = self.finder
        return self._calls[self._owner] if finder is None or self._by_hand else finder.place

    def _end_at_call(self, text: str) -> None:
        if self._called_here() and self._calls[self._owner] > 1:  # no step precedes the first call
            self._end_step(text)

    def end_by_hand(self) -> None:
        """End a step, and from now on only here, unless the command line names a marker."""
        if self.step_marker == "auto" and self._called_here():
            self._by_hand = True
            self.pace.note(time.perf_counter_ns())
            self._end_step(BY_HAND)

    def _called_here(self) -> bool:
        """Note a call that ends a step; return whether it counts, as that of the thread with most calls."""
        process, thread = here()
        if process != self._process:
            return False
        self._end_if_stopped(thread)
        self._calls[thread] += 1
        lead = self._calls[thread] - self._calls[self._owner]
        if thread != self._owner and (not self._calls[self._owner] or lead >= MANY_CALLS) and self._may_move():
            self._owner = thread
        return thread == self._owner

    def _end_if_stopped(self, thread: int) -> None:
        """End another thread of a program that was stopped at a step of the thread that counts."""
        if thread != self._owner and self._stop is not None and self._stop.times:
            self._stop()

    def _new_finder(self) -> StepFinder:
        return StepFinder(count_optimizers, cast("How", self.step_marker), group=self._group)

    def _finder_here(self) -> StepFinder:
        """Return what finds the steps of this thread."""
        thread = threading.get_ident()
        if thread not in self._finders:
            self._finders[thread] = self._new_finder()
        return self._finders[thread]

    def _exhausted(self, draw: MarkerEvent) -> None:
        if os.getpid() == self._process:
            self._finder_here().exhausted(draw)

    def _stepped(self, optimizer: Optimizer) -> None:
        self._saw(MarkerEvent("optimizer", id(optimizer), type(optimizer).__name__))

    def _ran_backward(self, caller: FrameType, _roots: Any) -> None:
        finder = self._finder_here()
        if not (finder.choice is not None and finder.kind in ("optimizer", "batch")):
            self._saw(MarkerEvent("backward", calling_place(caller)))

    def _calls_module(self, module: Module) -> None:
        if not is_only_a_function(module):
            original = getattr(module, "_orig_mod", module)  # what torch.compile was given
            self._saw(MarkerEvent("module", id(module), type(original).__name__))
            finder, modules = self._finder_here(), self._modules
            if modules and finder.choice and finder.choice.event.source == id(module):
                modules.watch(type(module))

    def _saw(self, event: MarkerEvent) -> None:
        process, thread = here()
        if self._by_hand or process != self._process:
            return
        self._end_if_stopped(thread)
        finder, now_ns = self._finder_here(), time.perf_counter_ns()
        ends = finder.see(event, now_ns)
        if thread != self._owner and not self._moves_to(thread, finder):
            return
        if event.kind == finder.kind or event.kind != "module":
            self.pace.note(now_ns)
        if finder.wants_calls or self.watches_modules:
            self._settle(finder)
        if ends and finder.choice is not None:
            self._end_step(finder.choice.text)

    def _moves_to(self, thread: int, finder: StepFinder) -> bool:
        """Let the steps of this thread count from now on if they are better than those of the one that counted."""
        if finder.choice is None or not self._may_move():
            return False
        of_owner = self._finders.get(self._owner)
        worth, frame = worth_of(finder), frame_of_thread(self._owner)
        if finder.kind == "batch" and not is_waiting_for_thread(frame):
            return False  # it may only prefetch them
        if worth > worth_of(of_owner) or (frame is None and worth == worth_of(of_owner)):
            self._owner = thread
        return thread == self._owner

    def _settle(self, finder: StepFinder) -> None:
        """Watch the calls of modules only as long as they can tell something."""
        if self._modules is None or self.step_marker == "module":
            return
        if finder.wants_calls:
            self._modules.watch_all()
        elif finder.choice is not None and finder.kind != "module":
            self._modules.stop()


class Pace:
    """When a program last did what can mark a step (0 before), and how long it took at most to do so again."""

    def __init__(self) -> None:
        self.last_ns = self.longest_ns = 0

    def note(self, now_ns: int) -> None:
        """Note that it does so now."""
        if self.last_ns:
            self.longest_ns = max(self.longest_ns, now_ns - self.last_ns)
        self.last_ns = now_ns


_placed: Marks | None = None


def step() -> None:
    """Mark the end of a training step if `pinprof run` records this program; else do nothing.

    In a program that calls it, nothing else marks steps, except an explicit `--step-marker`.
    """
    if _placed is not None:
        contained(_placed.end_by_hand)()


WORTH: dict[Kind, int] = {"optimizer": 4, "backward": 3, "module": 2, "batch": 1}
"""Whose steps count, where several threads make some: a thread that trains, before one that evaluates or prefetches."""

WAITING_FOR_THREAD = (("join", "threading.py"), ("result", "_base.py"))
"""The functions in which a thread waits for another, each with the name of its file."""


def here() -> tuple[int, int]:
    """Return the process and thread; a forked process has the thread id of its parent."""
    return os.getpid(), threading.get_ident()


def worth_of(finder: StepFinder | None) -> int:
    """Return how good the steps of a thread are, to compare it with those of another."""
    if finder is None or not finder.seen.total():
        return -1
    return WORTH[finder.kind] if finder.choice is not None else 0


def is_waiting_for_thread(frame: FrameType | None) -> bool:
    """Return whether a thread waits for the end of another, or of its work, from its innermost frame."""
    while frame is not None:
        if (frame.f_code.co_name, Path(frame.f_code.co_filename).name) in WAITING_FOR_THREAD:
            return True
        frame = frame.f_back
    return False


def silent_of_stops(show: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return a `threading.excepthook` that shows all but our own end of a thread."""

    def shown(failure: Any) -> None:
        if failure.exc_value is None or not is_our_doing(failure.exc_value):
            show(failure)

    return shown
