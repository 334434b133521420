"""Sources of step boundaries: hooks that report each draw, optimizer step, backward pass, and call of a module."""

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.nn import Module
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data.dataloader import _BaseDataLoaderIter

from pinprof.capture.hooks import contained, replaced
from pinprof.capture.steps.finder import MarkerEvent

TORCH = str(Path(torch.__file__).parent) + os.sep


@contextmanager
def told_of_backward(ended: Callable[[FrameType, Any], None]) -> Iterator[None]:
    """Call `ended` with the frame of the caller and the differentiated tensors, the loss, after each backward pass.

    Passes within another one of the same thread do not count.

    All of `Tensor.backward`, `torch.autograd.backward` and `torch.autograd.grad` run the engine through one function.
    torch.compile knows the three by their identity and leaves that function alone, so it is the one to change.
    """
    within = threading.local()
    told_end = contained(ended)

    def note(frame: FrameType, roots: Any) -> None:
        told_end(frame, roots)

    def change(run: Callable[..., Any]) -> Callable[..., Any]:
        def told(*args: Any, **options: Any) -> Any:
            if getattr(within, "now", False):
                return run(*args, **options)
            within.now = True
            try:
                result = run(*args, **options)
            finally:
                within.now = False
            note(sys._getframe(1), args[0] if args else ())  # noqa: SLF001  the only way to a caller without building a whole stack
            return result

        _leave_to_python(told, with_callees=False)
        return told

    _leave_to_python(note, with_callees=True)
    with replaced(torch.autograd, "_engine_run_backward", change):
        yield


def _leave_to_python(function: Any, *, with_callees: bool) -> None:
    """Keep torch.compile from compiling the function where a program's compiled code leads to it.

    What torch offers publicly loads all of torch.compile. Torch before 2.8 cannot say it of callees.
    """
    frames: Any = torch._C._dynamo.eval_frame  # noqa: SLF001
    if hasattr(frames, "set_code_exec_strategy"):
        action = frames._FrameAction  # noqa: SLF001
        callees = action.SKIP if with_callees else action.DEFAULT
        frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(action.SKIP, callees))  # noqa: SLF001
    elif hasattr(frames, "skip_code"):
        frames.skip_code(function.__code__)


def calling_place(frame: FrameType) -> tuple[str, int]:
    """Return file and line of the first frame outside of torch, from this one outwards."""
    caller: FrameType | None = frame
    while caller is not None and caller.f_code.co_filename.startswith(TORCH):
        frame, caller = caller, caller.f_back
    frame = caller or frame
    return frame.f_code.co_filename, frame.f_lineno


@contextmanager
def told_of_evaluation(begun: Callable[[], None]) -> Iterator[None]:
    """Call `begun` when the program switches a module to evaluation."""
    told_begin = contained(begun)

    def change(switch: Callable[[Module], Module]) -> Callable[[Module], Module]:
        def told(module: Module) -> Module:
            if not torch.compiler.is_dynamo_compiling():
                told_begin()
            return switch(module)

        return told

    with replaced(Module, "eval", change):
        yield


class ModuleCalls:
    """Calls `begins` before each call of a module that is not within another such call of the same thread.

    After it, it calls `ended` with the module and its output.

    It does nothing until `watch_all`, which slows down every call of any module, or `watch`, which slows down those of
    one class only. It changes `__call__`: hooks of torch would take the slow way through every call, and make
    torch.compile compile anew.
    """

    def __init__(
        self, begins: Callable[[Module], None], ended: Callable[[Module, Any], None] = lambda *_: None
    ) -> None:
        self.watched: type[Module] | None = None
        self._begins = contained(begins)
        self._ended = contained(ended)
        self._within = threading.local()
        self._change: AbstractContextManager[None] | None = None

    def watch_all(self) -> None:
        """Watch the calls of all modules."""
        self.watch(Module)

    def watch(self, module: type[Module]) -> None:
        """Watch the calls of modules of this class only."""
        if self.watched is module:
            return
        self.stop()
        self._change, self.watched = replaced(module, "__call__", self._told), module
        self._change.__enter__()

    def stop(self) -> None:
        """Watch nothing any more."""
        change, self._change, self.watched = self._change, None, None
        if change is not None:
            change.__exit__(None, None, None)

    def _told(self, call: Callable[..., Any]) -> Callable[..., Any]:
        watch = self

        def told_module_call(self: Module, /, *args: Any, **options: Any) -> Any:  # a profiler looks at its `self`
            compiling = torch.compiler.is_dynamo_compiling()  # first: compiled code must not depend on what follows
            if compiling or getattr(watch._within, "now", False):
                return call(self, *args, **options)
            watch._within.now = True
            try:
                watch._begins(self)
                output = call(self, *args, **options)
                watch._ended(self, output)
                return output
            finally:
                watch._within.now = False

        return told_module_call


def is_only_a_function(module: Module) -> bool:
    """Return whether a module neither has parameters nor contains others, as a loss does not."""
    return next(module.children(), None) is None and next(module.parameters(recurse=False), None) is None


def count_optimizers() -> int:
    """Return how many optimizers currently exist."""
    return sum(issubclass(type(thing), Optimizer) for thing in gc.get_objects())


@contextmanager
def told_of_steps(stepped: Callable[[Optimizer], None]) -> Iterator[None]:
    """Call `stepped` with the optimizer after each step of one; torch.compile leaves the call to Python.

    torch makes the call within its own range of the step, which ends slightly later.
    """

    def told(optimizer: Optimizer, *_: object) -> None:
        stepped(optimizer)

    told._torchdynamo_disable = True  # type: ignore[attr-defined]  # noqa: SLF001  torch.compiler.disable loads it all
    hook = register_optimizer_step_post_hook(told)
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def told_of_draws(before: Callable[[MarkerEvent], None], exhausted: Callable[[MarkerEvent], None]) -> Iterator[None]:
    """Call `before` before the program draws a batch from any DataLoader, and `exhausted` if it had none left.

    Each epoch has a new iterator; the sampler, which an iterator shares with its DataLoader, identifies the DataLoader.
    """
    draw = _BaseDataLoaderIter.__next__

    def event_of(iterator: Any) -> MarkerEvent:
        return MarkerEvent("batch", id(iterator._index_sampler))  # noqa: SLF001  an iterator does not name its DataLoader

    note_draw = contained(lambda iterator: before(event_of(iterator)))
    note_end = contained(lambda iterator: exhausted(event_of(iterator)))

    @wraps(draw)
    def told(iterator: Any) -> Any:
        note_draw(iterator)
        try:
            return draw(iterator)
        except StopIteration:
            note_end(iterator)
            raise

    with replaced(_BaseDataLoaderIter, "__next__", lambda _: told):
        yield
