"""Where the steps of a running program end: hooks into torch, a function's calls, or `pinprof.step()`."""

import ast
import gc
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from importlib import import_module
from inspect import getattr_static
from typing import Any, cast

from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data.dataloader import _BaseDataLoaderIter

from pinprof.capture.choice import HOWS, Chooser, How, MarkerEvent
from pinprof.capture.replaced import replaced
from pinprof.errors import CaptureError

BY_HAND = "pinprof.step()"

DECORATOR = "__pinprof_marks_steps__"
"""The name under which a marked script finds the decorator of its function."""

EndStep = Callable[[str], None]
"""Called where a step ends, with the words for what marked it."""


class Marks:
    """Tells `end_step` where the steps end while a `with` block of `placed()` is open, by the marker asked for.

    `step_marker` is `auto`, `loader`, `optimizer`, or a function: `MODULE:NAME`, which is imported, or the NAME of one
    that the script defines, which `decorated()` marks. Only the thread and the process that placed the marks count.
    """

    def __init__(self, step_marker: str, end_step: EndStep) -> None:
        self.step_marker = step_marker
        self._end_step = end_step
        self._owner = (0, 0)
        self._by_hand = False
        self._calls = 0
        self.chooser: Chooser | None = None
        if step_marker in HOWS:
            self.chooser = Chooser(count_optimizers, cast("How", step_marker))

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Watch the program within the block; nothing of it is left behind."""
        global _placed  # noqa: PLW0603  pinprof.step() has to find them
        self._owner = _here()
        with ExitStack() as undo:
            if self.chooser is not None:
                undo.enter_context(_told_of_draws(self._saw, self._exhausted))
                undo.callback(register_optimizer_step_post_hook(_left_to_python(self._stepped)).remove)
            elif ":" in self.step_marker:
                undo.enter_context(replaced(*_imported(self.step_marker), self.mark_calls))
            outer, _placed = _placed, self
            try:
                yield
            finally:
                _placed = outer

    @property
    def in_script(self) -> bool:
        """Whether a function of the script marks the steps, so that its code has to be `decorated`."""
        return self.chooser is None and ":" not in self.step_marker

    @property
    def place(self) -> int:
        """How many steps the program has made since its start, counted such that all ranks of a job count alike."""
        return self._calls if self.chooser is None or self._by_hand else self.chooser.place

    def decorated(self, tree: ast.Module) -> ast.Module:
        """Return the script's code with its function marked by the decorator of the name DECORATOR."""
        if not _decorate(tree, self.step_marker):
            raise CaptureError(
                f"--step-marker {self.step_marker}: the script defines no such function; it may be auto, loader, "
                "optimizer, a function or Class.method of the script, or MODULE:FUNCTION of one that it imports"
            )
        return tree

    def mark_calls(self, function: Any) -> Any:
        """Return the function such that each call ends the step before it."""
        if isinstance(function, staticmethod | classmethod):
            return type(function)(self.mark_calls(function.__func__))
        if not callable(function):
            raise CaptureError(f"{self.step_marker}: is no function, but a {type(function).__name__}")
        text = f"{self.step_marker.rpartition(':')[2]}()"

        @wraps(function)
        def marked(*args: Any, **kwargs: Any) -> Any:
            if _here() == self._owner:
                self._calls += 1
                if self._calls > 1:  # there is no step before the first call
                    self._end_step(text)
            return function(*args, **kwargs)

        return marked

    def end_by_hand(self) -> None:
        """End a step, and from now on only here; a marker given on the command line goes first."""
        if self.step_marker == "auto" and _here() == self._owner:
            self._by_hand = True
            self._calls += 1
            self._end_step(BY_HAND)

    def _exhausted(self, draw: MarkerEvent) -> None:
        if self.chooser is not None and _here() == self._owner:
            self.chooser.exhausted(draw)

    def _stepped(self, optimizer: Optimizer, *_: object) -> None:
        """Take an optimizer step; torch calls this inside its own range of the step, which so ends a little later."""
        self._saw(MarkerEvent("optimizer", id(optimizer), type(optimizer).__name__))

    def _saw(self, event: MarkerEvent) -> None:
        chooser = self.chooser
        if chooser is None or self._by_hand or _here() != self._owner:
            return
        if chooser.see(event) and chooser.choice is not None:
            self._end_step(chooser.choice.text)


_placed: Marks | None = None


def step() -> None:
    """Say that a training step ends here, if `pinprof run` records this program; else do nothing.

    In a program that says so, nothing else marks its steps, unless `--step-marker` does.
    """
    if _placed is not None:
        _placed.end_by_hand()


def _here() -> tuple[int, int]:
    """Return the process and thread; a forked process has the thread id of its parent."""
    return os.getpid(), threading.get_ident()


def count_optimizers() -> int:
    """Return how many optimizers the program has now."""
    return sum(issubclass(type(thing), Optimizer) for thing in gc.get_objects())


def _left_to_python(hook: Callable[..., None]) -> Callable[..., None]:
    """Return the hook such that torch.compile calls it and does not compile it with a compiled `Optimizer.step`."""

    def called(*args: Any) -> None:
        hook(*args)

    called._torchdynamo_disable = True  # type: ignore[attr-defined]  # noqa: SLF001  torch.compiler.disable loads it all
    return called


@contextmanager
def _told_of_draws(before: Callable[[MarkerEvent], None], exhausted: Callable[[MarkerEvent], None]) -> Iterator[None]:
    """Call `before` when a batch is about to be drawn from any DataLoader, `exhausted` if there was none.

    An epoch has an iterator of its own; the sampler, which an iterator shares with its DataLoader, tells DataLoaders
    apart.
    """
    draw = _BaseDataLoaderIter.__next__

    @wraps(draw)
    def told(iterator: Any) -> Any:
        event = MarkerEvent("batch", id(iterator._index_sampler))  # noqa: SLF001  an iterator does not name its DataLoader
        before(event)
        try:
            return draw(iterator)
        except StopIteration:
            exhausted(event)
            raise

    with replaced(_BaseDataLoaderIter, "__next__", lambda _: told):
        yield


def _imported(place: str) -> tuple[Any, str]:
    """Return what holds the function at MODULE:NAME, and its name in there."""
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
    """Put the decorator on every definition of the function in a script, in place; return whether there is one.

    It is the outermost decorator: it has to be around a compiled function, not in it. Lines stay as they are.
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
    """Return the name placed at the first line of another node: there Python looks for where a function begins."""
    name.lineno = name.end_lineno = place.lineno
    name.col_offset = name.end_col_offset = place.col_offset
    return name
