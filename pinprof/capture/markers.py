"""Finds the steps of a program from what it does: the batches that it draws and the optimizer steps that it takes."""

import ast
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from importlib import import_module
from statistics import median
from typing import Any, NamedTuple

from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import dataloader

from pinprof.errors import CaptureError

AUTO, LOADER, OPTIMIZER = "auto", "loader", "optimizer"

MIN_CYCLES = 7
"""More cycles than this are watched before a marker is chosen: a critic often steps five times per generator step."""
MAX_WATCHED = 50
"""After so many events of one kind the choice is made from what was seen."""

DECORATOR = "__pinprof_step_begins__"
"""Name of the decorator that a function gets which marks steps."""


class Event(NamedTuple):
    """Something that may mark a step: a batch drawn, or an optimizer step, and of what."""

    kind: str
    source: int
    name: str


class Marker(NamedTuple):
    """The events that end a step, and how to say so."""

    kind: str
    source: int
    text: str


def choose_marker(events: Sequence[Event], wanted: str = AUTO) -> Marker | None:
    """Return what marks the steps of a program that did all this, in this order; None while that is not clear yet.

    One cycle of the least frequent optimizer that recurs is a step: a GAN has two optimizers per step, a critic may
    step five times per generator step. Where one batch is drawn per cycle, the draw is the marker, since it stands
    outside of `Optimizer.step`; several batches per cycle are gradient accumulation. Without optimizer the draws mark
    the steps.
    """
    counts = Counter((event.kind, event.source) for event in events)
    if not counts:
        return None
    enough = max(counts.values()) >= MAX_WATCHED
    optimizers = {source: count for (kind, source), count in counts.items() if kind == OPTIMIZER}
    recurring = {source: count for source, count in optimizers.items() if count > 1}
    if wanted == LOADER or not optimizers:
        return _first_loader(events, counts, MIN_CYCLES if wanted == LOADER else MAX_WATCHED)
    if not recurring or (not enough and (min(recurring.values()) <= MIN_CYCLES or len(recurring) < len(optimizers))):
        return None
    source = min(recurring, key=lambda optimizer: recurring[optimizer])
    name = next(event.name for event in events if (event.kind, event.source) == (OPTIMIZER, source))
    drawn = _draws_per_cycle(events, source)
    if wanted == AUTO:
        for loader, draws in drawn.items():
            if set(draws) == {1}:
                return Marker(LOADER, loader, "batch drawn from a DataLoader")
    per_step = max((median(draws) for draws in drawn.values()), default=0)
    every = f", every {per_step:.0f} batches" if per_step > 1 else ""
    return Marker(OPTIMIZER, source, f"optimizer step ({name}){every}")


def _first_loader(events: Sequence[Event], counts: Counter[tuple[str, int]], needed: int) -> Marker | None:
    loader = next((event.source for event in events if event.kind == LOADER), None)
    if loader is None or counts[LOADER, loader] < needed:
        return None
    return Marker(LOADER, loader, "batch drawn from a DataLoader")


def _draws_per_cycle(events: Sequence[Event], optimizer: int) -> dict[int, list[int]]:
    """Return per loader the batches drawn in each whole cycle of the optimizer, from one of its steps to the next."""
    draws: dict[int, list[int]] = {event.source: [] for event in events if event.kind == LOADER}
    drawn: Counter[int] | None = None  # before the first step there is no whole cycle
    for event in events:
        if event.kind == LOADER and drawn is not None:
            drawn[event.source] += 1
        elif (event.kind, event.source) == (OPTIMIZER, optimizer):
            if drawn is not None:
                for loader, cycles in draws.items():
                    cycles.append(drawn[loader])
            drawn = Counter()
    return draws


class StepMarks:
    """Calls `boundary` where the program's steps begin or end, once it is known what marks them.

    `text` says what marks them, empty as long as that is open; `watched` is how many steps it took to see.
    """

    def __init__(self, boundary: Callable[[], None], wanted: str = AUTO) -> None:
        self.text = ""
        self.watched = 0
        self._boundary = boundary
        self._wanted = wanted
        self._marker: Marker | None = None
        self._events: list[Event] = []
        self._explicit = False
        self._exhausted: set[int] = set()
        self._thread = threading.get_ident()

    def mark(self) -> None:
        """End a step because the program says so; from now on nothing else does."""
        self._explicit = True
        self.text = "pinprof.step()"
        self._boundary()

    def begin(self, name: str) -> None:
        """End a step because the function that marks steps begins."""
        self.text = f"{name}()"
        self._boundary()

    def see(self, event: Event) -> None:
        """Take note of a batch or an optimizer step of the main thread."""
        if self._explicit or self._wanted not in (AUTO, LOADER, OPTIMIZER) or threading.get_ident() != self._thread:
            return
        if self._marker is None:
            self._events.append(event)
            self.watched = max(Counter(seen[:2] for seen in self._events).values())
            self._marker = choose_marker(self._events, self._wanted)
            if self._marker:
                self.text = self._marker.text
                self._events.clear()
        elif (event.kind, event.source) == self._marker[:2]:
            self._boundary()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch DataLoaders and optimizers, and answer `pinprof.step()`, until the end of the block."""
        with ExitStack() as undo:
            hook = register_optimizer_step_post_hook(self._stepped)
            undo.callback(hook.remove)
            undo.enter_context(_replaced(dataloader._BaseDataLoaderIter, "__next__", self._drawing))  # noqa: SLF001
            _active.append(self)
            undo.callback(_active.remove, self)
            if ":" in self._wanted:
                undo.enter_context(self._marking(self._wanted))
            yield

    def _stepped(self, optimizer: Any, *_: object) -> None:
        self.see(Event(OPTIMIZER, id(optimizer), type(optimizer).__name__))

    def _drawing(self, draw: Callable[..., Any]) -> Callable[..., Any]:
        """Return `__next__` of a DataLoader's iterator that notes the draw before it waits for the batch."""

        @wraps(draw)
        def noted(iterator: Any) -> Any:
            source = id(iterator._dataset)  # noqa: SLF001  what the iterators of one loader have in common
            if source in self._exhausted:
                self._exhausted.discard(source)  # the draw that found the epoch at its end has ended the step
            else:
                self.see(Event(LOADER, source, "DataLoader"))
            try:
                return draw(iterator)
            except StopIteration:
                self._exhausted.add(source)
                raise

        return noted

    def _marking(self, target: str) -> Any:
        """Return a block in which the function at `module:qualname` marks the steps."""
        module, _, qualname = target.partition(":")
        *path, name = qualname.split(".")
        try:
            holder: Any = import_module(module)
            for part in path:
                holder = getattr(holder, part)
            getattr(holder, name)
        except (ImportError, AttributeError) as exc:
            raise CaptureError(f"--step-marker {target}: there is no such function ({exc})") from exc
        return _replaced(holder, name, self.marked)

    def marked(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function so that each call of it begins a step."""

        @wraps(function)
        def marking(*args: Any, **more: Any) -> Any:
            self.begin(function.__qualname__)
            return function(*args, **more)

        return marking


_active: list[StepMarks] = []


def step() -> None:
    """Say that a training step ends here; does nothing unless `pinprof run` records the program."""
    if _active:
        _active[-1].mark()


@contextmanager
def _replaced(holder: Any, name: str, change: Callable[[Any], Any]) -> Iterator[None]:
    before = getattr(holder, name)
    setattr(holder, name, change(before))
    try:
        yield
    finally:
        setattr(holder, name, before)


def mark_function(tree: ast.Module, qualname: str, script: str) -> ast.Module:
    """Return a script's syntax tree in which the function `name` or `Class.method` has the decorator DECORATOR.

    Lines stay as they are. Raises CaptureError if the script does not define the function.
    """
    body: list[ast.stmt] = tree.body
    node: ast.AST | None = None
    for part in qualname.split("."):
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        node = next((each for each in body if isinstance(each, kinds) and each.name == part), None)
        if node is None:
            raise CaptureError(
                f"--step-marker {qualname}: {script} defines no such function; name one of it, or MODULE:FUNCTION"
            )
        body = node.body
    if isinstance(node, ast.FunctionDef):
        decorator = ast.Name(DECORATOR, ast.Load(), lineno=node.lineno, col_offset=0)
        node.decorator_list.append(ast.copy_location(decorator, node))
    return tree
