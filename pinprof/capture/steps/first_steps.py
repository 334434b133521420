"""The first steps of a program: what happens in them is told, and the program ends after them."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any, final

from torch.nn import Module
from torch.optim import Optimizer

from pinprof.capture.program import Stop
from pinprof.capture.steps.marks import here
from pinprof.capture.steps.sources import (
    ModuleCalls,
    count_optimizers,
    is_only_a_function,
    told_of_backward,
    told_of_steps,
)

LONGEST_S = 120.0
"""A program that makes few steps in so long is ended all the same."""

Told = Callable[[Any], None]


def _nothing(_: Any) -> None:
    pass


@final
class FirstSteps:
    """Ends the program after so many steps: of an optimizer, else calls of backward, else of the outermost module.

    `on_loss` gets the tensors that a call of backward differentiates, `on_step` the optimizer after its step, `on_call`
    an outermost module before its call, and `on_output` what it returned.
    """

    def __init__(
        self,
        most: int,
        *,
        on_loss: Told = _nothing,
        on_step: Told = _nothing,
        on_call: Told = _nothing,
        on_output: Told = _nothing,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stop = Stop()
        self.steps = 0
        self._most = most
        self._on_loss, self._on_step, self._on_call, self._on_output = on_loss, on_step, on_call, on_output
        self._now = now
        self._begun: float | None = None
        self._has_optimizer = False
        self._owner = (0, 0)
        self._of: dict[str, Counter[int]] = {"step": Counter(), "loss": Counter(), "output": Counter()}

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Watch the program in the block."""
        self._owner = here()
        modules = ModuleCalls(self._calls, self._returned)
        with ExitStack() as undo:
            undo.enter_context(told_of_steps(self._stepped))
            undo.enter_context(told_of_backward(self._ran_backward))
            undo.callback(modules.stop)
            modules.watch_all()
            yield

    def _ran_backward(self, _caller: FrameType, roots: Any) -> None:
        self._on_loss(roots)
        self._count("loss", 0)

    def _stepped(self, optimizer: Optimizer) -> None:
        if here() == self._owner:
            self._on_step(optimizer)
            self._count("step", id(optimizer))

    def _calls(self, module: Module) -> None:
        if not is_only_a_function(module):
            self._on_call(module)

    def _returned(self, module: Module, output: Any) -> None:
        if not is_only_a_function(module):
            self._on_output(output)
            self._count("output", id(module))

    def _count(self, kind: str, of: int) -> None:
        now = self._now()
        self._begun = now if self._begun is None else self._begun
        count = self._of[kind]
        count[of] += 1
        self.steps = self._steps()
        if now - self._begun > LONGEST_S or (count[of] >= self._most and self._marks(kind)):
            self.stop()

    def _marks(self, kind: str) -> bool:
        """Return whether such events are the program's steps, for all that is known by now."""
        if kind == "step":
            return True
        self._has_optimizer = self._has_optimizer or bool(self._of["step"]) or count_optimizers() > 0
        if self._has_optimizer:
            return False
        return kind == "loss" or not self._of["loss"]

    def _steps(self) -> int:
        counts = next((count for count in self._of.values() if count), Counter[int]())
        return max(counts.values(), default=0)
