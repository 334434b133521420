"""Finds the training steps of a program from the batches that it draws and its optimizer steps."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from statistics import median
from typing import Literal, NamedTuple, TypeAlias

HOWS = ("auto", "loader", "optimizer")

How: TypeAlias = Literal["auto", "loader", "optimizer"]
"""The wanted marker: any that fits, a batch drawn from a DataLoader, or an optimizer step."""

BATCH = "batch drawn from a DataLoader"

FEW_STEPS = 4
"""Optimizer steps that suffice for a program with a single optimizer: three whole cycles."""
MANY_STEPS = 12
"""The same with several: a WGAN makes five critic steps per generator step, and two of these are necessary."""
MANY_BATCHES = 12
"""Batches that suffice for a program without an optimizer."""
PATIENCE = 50
"""Events of one kind after which fewer cycles suffice for a choice, or a lost marker leads to a new one."""
LONGEST_MEMORY = 2000
"""How many events to remember; a long evaluation has more, and none of them matters."""
EVALUATED_BATCHES = 200
"""Batches without an optimizer step after which a program with an optimizer counts as an evaluation; before that it may
evaluate its model first and train it later."""


class MarkerEvent(NamedTuple):
    """A batch that the program draws, or an optimizer step that it has made."""

    kind: Literal["batch", "optimizer"]
    source: Hashable
    """The DataLoader or optimizer."""
    name: str = ""
    """The optimizer's class."""


@dataclass(frozen=True)
class Choice:
    """The event that marks the steps. `cycle` is the optimizer step whose cycle is a step, or None."""

    event: MarkerEvent
    cycle: MarkerEvent | None
    text: str


def choose(events: Sequence[MarkerEvent], optimizers: Callable[[], int], how: How = "auto") -> Choice | None:
    """Return what marks the steps of a program with these events; None if it takes more of them to tell.

    A step is one cycle of the least frequent of the recurring optimizers. If a cycle draws one batch, the draw marks
    the step, so that the wait for the input is in the step that uses it. `optimizers` returns how many optimizers the
    program has, and is called only if that matters.
    """
    steps = _positions([event for event in events if event.kind == "optimizer"])
    draws = Counter(event for event in events if event.kind == "batch")
    most_steps = max(map(len, steps.values()), default=0)
    most_draws = max(draws.values(), default=0)
    if _seen_enough_steps(most_steps, most_draws, optimizers):
        slowest = _slowest(steps)
        return _cycle_of(slowest, events, how) if slowest else None
    if how == "optimizer" or most_steps > 1:
        return None
    if most_draws >= MANY_BATCHES and (how == "loader" or most_draws >= EVALUATED_BATCHES or not optimizers()):
        draw = next(draw for draw, times in draws.items() if times > 1)  # a single draw only looks at the data
        return Choice(draw, None, BATCH)
    return None


def _seen_enough_steps(most_steps: int, most_draws: int, optimizers: Callable[[], int]) -> bool:
    if most_steps >= MANY_STEPS or (most_steps > 1 and most_draws >= PATIENCE):
        return True
    return most_steps >= FEW_STEPS and optimizers() <= 1


def _positions(steps: Sequence[MarkerEvent]) -> dict[MarkerEvent, list[int]]:
    """Return where each optimizer's steps are in the sequence of all optimizer steps."""
    positions: dict[MarkerEvent, list[int]] = defaultdict(list)
    for position, event in enumerate(steps):
        positions[event].append(position)
    return positions


def _slowest(steps: dict[MarkerEvent, list[int]]) -> MarkerEvent | None:
    """Return the least frequent of the recurring optimizers; of equally frequent ones, the last to step."""
    now = sum(map(len, steps.values()))
    recurring = {
        step: at
        for step, at in steps.items()
        if len(at) > 1 and now - at[-1] <= 2 * max(later - earlier for earlier, later in pairwise(at))
    }
    return min(recurring, key=lambda step: (len(recurring[step]), -recurring[step][0]), default=None)


def _cycle_of(step: MarkerEvent, events: Sequence[MarkerEvent], how: How) -> Choice | None:
    """Return the marker of the cycles that end with this optimizer step."""
    ends = [place for place, event in enumerate(events) if event == step]
    cycles = [Counter(event for event in events[start:end] if event.kind == "batch") for start, end in pairwise(ends)]
    usual = {draw: median(cycle[draw] for cycle in cycles) for cycle in cycles for draw in cycle}
    draw, batches = next(((draw, count) for draw, count in usual.items() if count >= 1), (None, 0.0))
    if draw is not None and (how == "loader" or (how == "auto" and batches == 1)):
        return Choice(draw, step, BATCH)
    if how == "loader":
        return None
    several = f", every {round(batches)} batches" if batches > 1 else ""
    return Choice(step, step, f"optimizer step ({step.name}){several}")


class Chooser:
    """Tells for each event of a program, in order, whether a step ends with it; `choice` is None until it knows.

    It sees a batch before the program draws it. If the marker stops coming, because training goes on with another
    optimizer or DataLoader, it chooses again.
    """

    def __init__(self, optimizers: Callable[[], int], how: How = "auto") -> None:
        self.choice: Choice | None = None
        self.seen: Counter[str] = Counter()
        self._optimizers = cache(optimizers)
        self._how: How = how
        self._since: deque[MarkerEvent] = deque(maxlen=LONGEST_MEMORY)
        """The events since the last marker, or since the beginning."""
        self._counts: Counter[MarkerEvent] = Counter()
        """How often `_since` contains each event."""
        self._exhausted = False

    @property
    def place(self) -> int:
        """How many optimizer steps the program has made; if batches alone mark its steps, how many it has drawn."""
        return self.seen["batch" if self.choice is not None and self.choice.cycle is None else "optimizer"]

    def see(self, event: MarkerEvent) -> bool:
        """Return whether a step ends with this event."""
        self.seen[event.kind] += 1
        choice = self.choice
        if choice is not None and event == choice.event:
            return self._marked()
        self._since.append(event)
        self._counts[event] += 1
        if choice is None or self._is_lost(choice):
            return self._choose_at(event)
        if event.kind == "batch" and self._exhausted and choice.cycle is None:
            self._go_on_with(event, choice)
        elif event == choice.cycle:
            self._follow(choice)
        return False

    def exhausted(self, draw: MarkerEvent) -> None:
        """Undo the last draw: the DataLoader had no more batches.

        If that draw ended a step, the first draw of the next epoch does not end one: the work between the two belongs
        to the step that uses the first batch.
        """
        self.seen["batch"] -= 1
        if self._since and self._since[-1] == draw:
            self._since.pop()
            self._counts[draw] -= 1
        elif self.choice is not None and self.choice.event == draw:
            self._exhausted = True

    def _choose_at(self, event: MarkerEvent) -> bool:
        if self._how == "optimizer" and event.kind == "batch":
            return False
        choice = choose(list(self._since), self._optimizers, self._how)
        if choice is None:
            return False
        self.choice, self._exhausted = choice, False
        self._forget()
        return event == choice.event

    def _marked(self) -> bool:
        """Note the marker; return whether it ends a step."""
        self._forget()
        after_the_last, self._exhausted = self._exhausted, False
        return not after_the_last

    def _forget(self) -> None:
        self._since.clear()
        self._counts.clear()

    def _follow(self, choice: Choice) -> None:
        """Go on with the DataLoader of the last cycle, if that did not draw from the chosen one.

        This happens in programs that make a new DataLoader for every epoch.
        """
        if choice.cycle is None or not (self._exhausted or self._counts[choice.cycle] > 1):
            return
        drawn: Counter[MarkerEvent] = Counter()
        for event in list(self._since)[-2::-1]:
            if event == choice.cycle:
                break
            drawn[event] += event.kind == "batch"
        once = next((draw for draw, times in drawn.items() if times == 1), None)
        if once is not None:
            self._go_on_with(once, choice)

    def _go_on_with(self, draw: MarkerEvent, choice: Choice) -> None:
        self.choice, self._exhausted = Choice(draw, choice.cycle, choice.text), False

    def _is_lost(self, choice: Choice) -> bool:
        """Return whether so many other events came since the marker that it will not come again."""
        if len(self._since) < FEW_STEPS:
            return False
        steps = max((times for event, times in self._counts.items() if event.kind == "optimizer"), default=0)
        if choice.cycle is None:
            draws = max((times for event, times in self._counts.items() if event.kind == "batch"), default=0)
            return steps >= FEW_STEPS or draws >= PATIENCE
        return steps >= PATIENCE
