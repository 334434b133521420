"""The first steps of a program: what happens in them is passed on, and the program ends after them."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, final

from pinprof.capture.program import Stop
from pinprof.capture.steps.finder import StepFinder
from pinprof.capture.steps.marks import here
from pinprof.capture.steps.sources import BACKWARD, MODULE, OPTIMIZER, Event, Observer, count_optimizers

LONGEST_S = 120.0
"""A program that makes few steps in so long is ended all the same."""


def _nothing(_: Any) -> None:
    pass


@final
class FirstSteps(Observer):
    """Ends the program after so many steps, which the best source so far marks.

    `on_loss` gets the tensors that a call of backward differentiates, `on_step` the optimizer after its step, `on_call`
    an outermost module before its call, and `on_output` what it returned.
    """

    def __init__(
        self,
        most: int,
        *,
        on_loss: Callable[[Any], None] = _nothing,
        on_step: Callable[[Any], None] = _nothing,
        on_call: Callable[[Any], None] = _nothing,
        on_output: Callable[[Any], None] = _nothing,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stop = Stop()
        self._most = most
        self._acts = {BACKWARD: on_loss, OPTIMIZER: on_step, MODULE: on_call}
        self._on_output = on_output
        self._now = now
        self._begun: float | None = None
        self._owner = (0, 0)
        self._finder = StepFinder(count_optimizers)

    @property
    def steps(self) -> int:
        """How many steps the program has made."""
        return self._finder.first_steps

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Watch the program in the block."""
        self._owner = here()
        with ExitStack() as undo:
            for source in self._acts:
                undo.enter_context(source.hook(self))
            yield

    def saw(self, event: Event, subject: Any = None) -> None:
        """Pass on what the program does; count it, if it has done it."""
        if event.source is OPTIMIZER and here() != self._owner:
            return
        self._acts[event.source](subject)
        if event.source is not MODULE:
            self._count(event)

    def returned(self, call: Event, output: Any) -> None:
        """Pass on what a module returned, and count its call."""
        self._on_output(output)
        self._count(call)

    def _count(self, event: Event) -> None:
        finder, now = self._finder, self._now()
        self._begun = now if self._begun is None else self._begun
        finder.see(event)
        is_step = event.source is finder.first_source and finder.first_steps >= self._most
        if now - self._begun > LONGEST_S or (is_step and finder.first_steps_are_certain):
            self.stop()
