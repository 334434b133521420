"""Finds where the steps of a running program end: by changes of torch, calls of a function, or `pinprof.step()`."""

import ast
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from importlib import import_module
from inspect import getattr_static
from pathlib import Path
from types import FrameType
from typing import Any, cast

from torch.nn import Module
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from pinprof.capture.hooks import contained, replaced
from pinprof.capture.observe.frames import frame_of_thread
from pinprof.capture.program import Change, Stop, is_our_doing
from pinprof.capture.steps.finder import HOWS, MANY_CALLS, Chooser, How, Kind, MarkerEvent
from pinprof.capture.steps.sources import (
    ModuleCalls,
    calling_place,
    count_optimizers,
    is_only_a_function,
    left_to_python,
    told_of_backward,
    told_of_draws,
    told_of_evaluation,
)
from pinprof.errors import CaptureError

BY_HAND = "pinprof.step()"

DECORATOR = "__pinprof_marks_steps__"
"""The name of the decorator in a marked script."""

EndStep = Callable[[str], None]
"""Called where a step ends, with the name of its marker."""


class Marks:
    """Calls `end_step` where the steps end, by the given marker, while a `with` block of `placed()` is open.

    `step_marker` is one of HOWS, or a function: `MODULE:NAME`, which it imports, or the NAME of a function of the
    script, whose code `change` marks. Only the process that placed the marks counts, and in it one thread: the one that
    placed them, unless another makes better steps and `may_move`. After a `stop`, all others are ended too. `group`
    says whether several optimizer steps may be found to be one step.
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
        self._end_step = end_step
        self._may_move = may_move
        self._stop = stop
        self._group = group
        self._process = 0
        self._owner = 0
        self._by_hand = False
        self._calls: Counter[int] = Counter()
        self._choosers: dict[int, Chooser] = {}
        self.pace = Pace()
        self._modules: ModuleCalls | None = None

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Watch the program in the block, and undo all changes at its end."""
        global _placed  # noqa: PLW0603  for pinprof.step()
        self._process, self._owner = here()
        with ExitStack() as undo:
            undo.enter_context(replaced(threading, "excepthook", silent_of_stops))
            if self.chooses:
                self._place_hooks(undo)
            elif ":" in self.step_marker:
                undo.enter_context(replaced(*_imported(self.step_marker), self.mark_calls))
            outer, _placed = _placed, self
            try:
                yield
            finally:
                _placed = outer

    def _place_hooks(self, undo: ExitStack) -> None:
        undo.enter_context(told_of_draws(self._saw, self._exhausted))
        undo.callback(register_optimizer_step_post_hook(left_to_python(contained(self._stepped))).remove)
        undo.enter_context(told_of_backward(self._ran_backward))
        undo.enter_context(told_of_evaluation(lambda: self._chooser_here().evaluated()))
        self._modules = ModuleCalls(self._calls_module)
        undo.callback(self._modules.stop)
        if self.step_marker == "module":
            self._modules.watch_all()

    def watch_modules(self) -> None:
        """Let calls of the outermost module mark the steps if nothing better does; this slows down all of them."""
        if self._modules is not None and not self.watches_modules and self.marker_kind is None:
            self._modules.watch_all()

    @property
    def chooses(self) -> bool:
        """Whether events mark the steps, rather than calls of a function."""
        return self.step_marker in HOWS

    @property
    def chooser(self) -> Chooser | None:
        """What finds the steps of the thread that counts; without events in it, of the one with most of them."""
        if not self.chooses:
            return None
        chooser = self._choosers.get(self._owner)
        if chooser is not None and chooser.seen.total():
            return chooser
        others = max(self._choosers.values(), key=lambda other: other.seen.total(), default=None)
        return others or self._choosers.setdefault(self._owner, self._new_chooser())

    @property
    def threads(self) -> set[int]:
        """The threads that made steps, or may."""
        return {*self._choosers, *self._calls}

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
        chooser = self.chooser
        if chooser is None or self._by_hand:
            return "call" if self._calls else None
        return chooser.kind if chooser.choice is not None else None

    @property
    def has_signs(self) -> bool:
        """Whether the program did anything that can mark a step."""
        return bool(self._calls) or any(chooser.seen.total() > 0 for chooser in self._choosers.values())

    @property
    def watches_modules(self) -> bool:
        """Whether calls of modules are watched now."""
        return self._modules is not None and self._modules.watched is not None

    @property
    def in_script(self) -> bool:
        """Whether a function of the script marks the steps, so that its code must change."""
        return not self.chooses and ":" not in self.step_marker

    @property
    def place(self) -> int:
        """How many steps the program has made since its start; all ranks of a job count alike."""
        chooser = self.chooser
        return self._calls[self._owner] if chooser is None or self._by_hand else chooser.place

    @property
    def change(self) -> Change | None:
        """The change of the script's code by which one of its functions marks the steps; None if none does."""
        return Change(self._decorated, {DECORATOR: self.mark_calls}) if self.in_script else None

    def _decorated(self, tree: ast.Module) -> ast.Module:
        """Return the script's code with the decorator DECORATOR on its function."""
        if not _decorate(tree, self.step_marker):
            raise CaptureError(
                f"--step-marker {self.step_marker}: the script does not define this function; name auto, loader, "
                "optimizer, backward, module, a function or Class.method of the script, or MODULE:FUNCTION of one that "
                "it imports"
            )
        return tree

    def mark_calls(self, function: Any) -> Any:
        """Return the function, changed so that each call ends the previous step."""
        if isinstance(function, staticmethod | classmethod):
            return type(function)(self.mark_calls(function.__func__))
        if not callable(function):
            raise CaptureError(f"{self.step_marker}: not a function, but of type {type(function).__name__}")
        text = f"{self.step_marker.rpartition(':')[2]}()"

        @contained
        def end() -> None:
            if self._called_here() and self._calls[self._owner] > 1:  # no step precedes the first call
                self._end_step(text)

        @wraps(function)
        def marked(*args: Any, **kwargs: Any) -> Any:
            end()
            return function(*args, **kwargs)

        return marked

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

    def _new_chooser(self) -> Chooser:
        return Chooser(count_optimizers, cast("How", self.step_marker), group=self._group)

    def _chooser_here(self) -> Chooser:
        """Return what finds the steps of this thread."""
        thread = threading.get_ident()
        if thread not in self._choosers:
            self._choosers[thread] = self._new_chooser()
        return self._choosers[thread]

    def _exhausted(self, draw: MarkerEvent) -> None:
        if os.getpid() == self._process:
            self._chooser_here().exhausted(draw)

    def _stepped(self, optimizer: Optimizer, *_: object) -> None:
        """Take an optimizer step; torch calls this within its own range of the step, which ends slightly later."""
        self._saw(MarkerEvent("optimizer", id(optimizer), type(optimizer).__name__))

    def _ran_backward(self, caller: FrameType, _roots: Any) -> None:
        chooser = self._chooser_here()
        if not (chooser.choice is not None and chooser.kind in ("optimizer", "batch")):
            self._saw(MarkerEvent("backward", calling_place(caller)))

    def _calls_module(self, module: Module) -> None:
        if not is_only_a_function(module):
            original = getattr(module, "_orig_mod", module)  # what torch.compile was given
            self._saw(MarkerEvent("module", id(module), type(original).__name__))
            chooser, modules = self._chooser_here(), self._modules
            if modules and chooser.choice and chooser.choice.event.source == id(module):
                modules.watch(type(module))

    def _saw(self, event: MarkerEvent) -> None:
        process, thread = here()
        if self._by_hand or process != self._process:
            return
        self._end_if_stopped(thread)
        chooser, now_ns = self._chooser_here(), time.perf_counter_ns()
        ends = chooser.see(event, now_ns)
        if thread != self._owner and not self._moves_to(thread, chooser):
            return
        if event.kind == chooser.kind or event.kind != "module":
            self.pace.note(now_ns)
        if chooser.wants_calls or self.watches_modules:
            self._settle(chooser)
        if ends and chooser.choice is not None:
            self._end_step(chooser.choice.text)

    def _moves_to(self, thread: int, chooser: Chooser) -> bool:
        """Let the steps of this thread count from now on if they are better than those of the one that counted."""
        if chooser.choice is None or not self._may_move():
            return False
        of_owner = self._choosers.get(self._owner)
        worth, frame = worth_of(chooser), frame_of_thread(self._owner)
        if chooser.kind == "batch" and not is_waiting_for_thread(frame):
            return False  # it may only prefetch them
        if worth > worth_of(of_owner) or (frame is None and worth == worth_of(of_owner)):
            self._owner = thread
        return thread == self._owner

    def _settle(self, chooser: Chooser) -> None:
        """Watch the calls of modules only as long as they can tell something."""
        if self._modules is None or self.step_marker == "module":
            return
        if chooser.wants_calls:
            self._modules.watch_all()
        elif chooser.choice is not None and chooser.kind != "module":
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


def _imported(place: str) -> tuple[Any, str]:
    """Return the module or class of the function at MODULE:NAME, and its name there."""
    module, _, qualname = place.partition(":")
    *path, name = qualname.split(".")
    try:
        holder: Any = import_module(module)
        for part in path:
            holder = getattr(holder, part)
        getattr_static(holder, name)
    except (ImportError, AttributeError, ValueError) as exc:
        raise CaptureError(f"--step-marker {place}: {exc}") from exc
    return holder, name


def _decorate(tree: ast.Module, qualname: str) -> bool:
    """Put the decorator on every definition of the function in a script, in place; return whether it has one.

    It is the outermost decorator, because it must be around a compiled function, not in it. Line numbers do not change.
    """
    found = False
    todo: list[tuple[ast.AST, str]] = [(tree, "")]
    while todo:
        node, prefix = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            here = prefix + node.name
            if here == qualname and not isinstance(node, ast.ClassDef):
                first = node.decorator_list[0] if node.decorator_list else node
                name = ast.Name(DECORATOR, ast.Load())
                node.decorator_list.insert(0, _at(name, first))
                found = True
            prefix = f"{here}."
        todo += [(child, prefix) for child in ast.iter_child_nodes(node)]
    return found


def _at(name: ast.Name, place: ast.expr | ast.stmt) -> ast.Name:
    """Return the name with the position of another node, whose first line Python takes as the function's."""
    name.lineno = name.end_lineno = place.lineno
    name.col_offset = name.end_col_offset = place.col_offset
    return name


WORTH: dict[Kind, int] = {"optimizer": 4, "backward": 3, "module": 2, "batch": 1}
"""Whose steps count, where several threads make some: a thread that trains, before one that evaluates or prefetches."""

WAITING_FOR_THREAD = (("join", "threading.py"), ("result", "_base.py"))
"""The functions in which a thread waits for another, each with the name of its file."""


def here() -> tuple[int, int]:
    """Return the process and thread; a forked process has the thread id of its parent."""
    return os.getpid(), threading.get_ident()


def worth_of(chooser: Chooser | None) -> int:
    """Return how good the steps of a thread are, to compare it with those of another."""
    if chooser is None or not chooser.seen.total():
        return -1
    return WORTH[chooser.kind] if chooser.choice is not None else 0


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
