"""Finds the steps of a program: from batches, optimizer steps, else calls of backward, else calls of modules."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from operator import itemgetter
from statistics import median
from typing import Literal, NamedTuple, TypeAlias

from pinprof.capture.steps.groups import Cycles, Iterations

HOWS = ("auto", "loader", "optimizer", "backward", "module")

How: TypeAlias = Literal["auto", "loader", "optimizer", "backward", "module"]
"""The wanted marker: any that fits, a batch drawn from a DataLoader, an optimizer step, a call of backward, or one of
the outermost module."""

Kind: TypeAlias = Literal["batch", "optimizer", "backward", "module"]

BATCH = "batch drawn from a DataLoader"

BACKWARD = "call of backward"

FEW_STEPS = 4
"""Optimizer steps that suffice for a program with a single optimizer: three whole cycles."""

MANY_STEPS = 12
"""The same with several: a WGAN makes five critic steps per generator step, and two of these are necessary."""

MANY_BATCHES = 12
"""Batches that suffice for a program without an optimizer."""

MANY_CALLS = 12
"""Calls of backward that suffice for a program without an optimizer, or calls of modules without both."""

RANK: dict[Kind, int] = {"optimizer": 3, "batch": 2, "backward": 1, "module": 0}
"""Which event is the better sign of a step."""

CALLS = ("backward", "module")
"""What stands for optimizer steps in programs without; where there is something better, they do not matter."""

UNUSED_OPTIMIZER = 1000
"""So many of them suffice for a program with an optimizer: fewer may be one step that accumulates gradients, or a
rollout before the first."""

PATIENCE = 50
"""Events of one kind after which fewer cycles suffice for a choice, or a lost marker leads to a new one."""

LONGEST_MEMORY = 2000
"""How many events to remember; a long evaluation has more, and none of them matters."""

EVALUATED_BATCHES = 200
"""Batches without an optimizer step after which a program with an optimizer counts as an evaluation; before that it may
evaluate its model first and train it later."""


class MarkerEvent(NamedTuple):
    """A batch that the program draws, an optimizer step or backward pass that it has made, or a module it calls."""

    kind: Kind
    source: Hashable
    """The DataLoader, optimizer or module; the line that calls backward."""
    name: str = ""
    """The class of the optimizer or module."""


@dataclass(frozen=True)
class Choice:
    """The event that marks the steps. `cycle` is the event other than a batch whose cycle is a step, or None."""

    event: MarkerEvent
    cycle: MarkerEvent | None
    text: str


def choose(events: Sequence[MarkerEvent], optimizers: Callable[[], int], how: How = "auto") -> Choice | None:
    """Return what marks the steps of a program with these events; None if it takes more of them to tell.

    A step is one cycle of the least frequent of the recurring optimizers. If a cycle draws one batch, the draw marks
    the step, so that the wait for the input is in the step that uses it. Without optimizer steps, calls of backward
    stand for them, and without these, calls of modules. `optimizers` returns how many optimizers the program has, and
    is called only if that matters.
    """
    draws = Counter(event for event in events if event.kind == "batch")
    if how not in CALLS:
        steps = _steps_of("optimizer", events)
        most_steps = max(map(len, steps.values()), default=0)
        if _seen_enough_steps(most_steps, max(draws.values(), default=0), optimizers):
            return _cycle_of_slowest(steps, events, how)
        if how == "optimizer" or most_steps > 1:
            return None
    return _choose_without_steps(events, draws, optimizers, how)


def _choose_without_steps(
    events: Sequence[MarkerEvent], draws: Counter[MarkerEvent], optimizers: Callable[[], int], how: How
) -> Choice | None:
    most_draws = max(draws.values(), default=0)
    for kind in _kinds_of_calls(how):
        calls = _steps_of(kind, events)
        most_calls = max(map(len, calls.values()), default=0)
        if _seen_enough_calls(most_calls, how, optimizers):
            return _cycle_of_slowest(calls, events, how)
        if 2 * most_calls > most_draws:
            return None
    if how in CALLS or most_draws < MANY_BATCHES:
        return None
    if how == "loader" or most_draws >= EVALUATED_BATCHES or not optimizers():
        draw = next(draw for draw, times in draws.items() if times > 1)  # a single draw only looks at the data
        return Choice(draw, None, BATCH)
    return None


def _kinds_of_calls(how: How) -> tuple[Kind, ...]:
    """Return the calls that can stand for optimizer steps, the better sign first."""
    if how in ("backward", "module"):
        return (how,)
    return ("backward", "module") if how == "auto" else ("backward",)


def _seen_enough_calls(most: int, how: How, optimizers: Callable[[], int]) -> bool:
    """Return whether so many calls make a marker, in a program without optimizer steps."""
    if most < MANY_CALLS:
        return False
    return how in ("backward", "module") or most >= UNUSED_OPTIMIZER or not optimizers()


def _seen_enough_steps(most_steps: int, most_draws: int, optimizers: Callable[[], int]) -> bool:
    if most_steps >= MANY_STEPS or (most_steps > 1 and most_draws >= PATIENCE):
        return True
    return most_steps >= FEW_STEPS and optimizers() <= 1


def _steps_of(kind: Kind, events: Sequence[MarkerEvent]) -> dict[MarkerEvent, list[int]]:
    """Return where each event of one kind is in the sequence of all of that kind."""
    positions: dict[MarkerEvent, list[int]] = defaultdict(list)
    for position, event in enumerate(event for event in events if event.kind == kind):
        positions[event].append(position)
    return positions


def _slowest(steps: dict[MarkerEvent, list[int]]) -> MarkerEvent | None:
    """Return the least frequent of the recurring optimizers or calls; of equally frequent ones, the last."""
    now = sum(map(len, steps.values()))
    recurring = {
        step: at
        for step, at in steps.items()
        if len(at) > 1 and now - at[-1] <= 2 * max(later - earlier for earlier, later in pairwise(at))
    }
    return min(recurring, key=lambda step: (len(recurring[step]), -recurring[step][0]), default=None)


def _cycle_of_slowest(steps: dict[MarkerEvent, list[int]], events: Sequence[MarkerEvent], how: How) -> Choice | None:
    slowest = _slowest(steps)
    return _cycle_of(slowest, events, how) if slowest else None


def _cycle_of(step: MarkerEvent, events: Sequence[MarkerEvent], how: How) -> Choice | None:
    """Return the marker of the cycles that end with this optimizer step or call."""
    ends = [place for place, event in enumerate(events) if event == step]
    cycles = [Counter(event for event in events[start:end] if event.kind == "batch") for start, end in pairwise(ends)]
    usual = {draw: median(cycle[draw] for cycle in cycles) for cycle in cycles for draw in cycle}
    drawn = [(draw, count) for draw, count in usual.items() if count >= 1]
    draw, batches = min(drawn, key=itemgetter(1), default=(None, 0.0))  # an evaluation in the first steps draws more
    if draw is not None and (how == "loader" or (how == "auto" and batches == 1)):
        return Choice(draw, step, BATCH)
    if how == "loader":
        return None
    return Choice(step, step, _text(step, batches))


def _text(step: MarkerEvent, batches: float) -> str:
    if step.kind == "backward":
        return BACKWARD
    if step.kind == "module":
        return f"call of {step.name}"
    several = f", every {round(batches)} batches" if batches > 1 else ""
    return f"optimizer step ({step.name}){several}"


class StepFinder:
    """Tells for each event of a program, in order, whether a step ends with it; `choice` is None until it knows.

    It sees a batch before the program draws it. If the marker stops coming, because training goes on with another
    optimizer or DataLoader, it chooses again.
    """

    def __init__(self, optimizers: Callable[[], int], how: How = "auto", *, group: bool = True) -> None:
        """Watch for a marker; `group` says whether optimizer steps may be found to be parts of a longer step."""
        self.choice: Choice | None = None
        self.seen: Counter[str] = Counter()
        self._optimizers = cache(optimizers)
        self._how: How = how
        self._since: deque[MarkerEvent] = deque(maxlen=LONGEST_MEMORY)
        """The events since the last marker, or since the beginning."""
        self._counts: Counter[MarkerEvent] = Counter()
        """How often `_since` contains each event."""
        self._exhausted = False
        self._has_trained = True
        """Whether an optimizer step came since the last marker; else a batch of its DataLoader is an evaluation's."""
        self._groups = group and how == "auto"
        self._iterations = Iterations() if self._groups else None
        self._iterated: MarkerEvent | None = None
        """The optimizer step of which `_iterations` are."""
        self._cycles: Cycles | None = None
        self._is_grouped = False

    @property
    def place(self) -> int:
        """How many optimizer steps the program has made, or what else makes a step; all ranks of a job count alike."""
        return self.seen[self.kind]

    @property
    def kind(self) -> Kind:
        """The kind of event that makes a step."""
        if self.choice is None:
            return "optimizer"
        return self.choice.cycle.kind if self.choice.cycle is not None else "batch"

    @property
    def optimizers(self) -> int:
        """How many optimizers the program had when that mattered first."""
        return self._optimizers()

    @property
    def wants_calls(self) -> bool:
        """Whether calls of modules would help to tell what a step is."""
        return self._iterations is not None and self._iterations.wants_calls

    def evaluated(self) -> None:
        """Note that the program switches a model to evaluation."""
        if self._iterations is not None:
            self._iterations.evaluated()

    def see(self, event: MarkerEvent, at_ns: int = 0) -> bool:
        """Return whether a step ends with this event."""
        self.seen[event.kind] += 1
        self._has_trained |= event.kind == "optimizer"
        choice = self.choice
        if choice is not None:
            if event == choice.event:
                ends = event.kind != "optimizer" or self._ends_group(event, at_ns)
                return self._marked() and ends
            if event.kind == "optimizer" and self._cycles is not None:
                self._cycles.other(event)
            if event.kind in CALLS and RANK[event.kind] < RANK[self.kind]:
                return self._passed(event)
        if choice is None and event.kind == "optimizer":
            self._ends_iteration(event, at_ns)
        self._since.append(event)
        self._counts[event] += 1
        if choice is None or self._is_lost():
            return self._choose_at(event)
        if event.kind == "batch" and self._exhausted and choice.cycle is None:
            self._go_on_with(event, choice)
        elif event == choice.cycle:
            self._follow(choice)
        return False

    def _passed(self, event: MarkerEvent) -> bool:
        """Note a call that marks no step, because the program has a better marker."""
        if event.kind == "module" and self._iterations is not None:
            self._iterations.called()
        return False

    def _ends_group(self, step: MarkerEvent, at_ns: int) -> bool:
        """Return whether a step of the program ends with this optimizer step, if the program's has several."""
        if self._cycles is not None:
            ends = self._cycles.ends()
            if self._cycles.size > 1:
                self._group(self._cycles.size)
            if not self._cycles.is_even:
                self._iterated = None
                return ends
        return self._ends_iteration(step, at_ns)

    def _ends_iteration(self, step: MarkerEvent, at_ns: int) -> bool:
        """Return whether an iteration ends with this optimizer step, if the program has iterations of several."""
        if self._iterations is None or self.seen["batch"]:
            self._iterations = None
            return True
        if step != self._iterated:
            self._iterations, self._iterated, self._is_grouped = Iterations(), step, False
        ends = self._iterations.stepped(at_ns)
        if self._iterations.size is not None:
            self._group(self._iterations.size, ": one iteration of rollout and updates")
        return ends

    def _group(self, size: int, what: str = "") -> None:
        choice = self.choice
        if choice is not None and not self._is_grouped:
            text = f"every {ordinal(size)} {choice.text}{what}"
            self.choice, self._is_grouped = Choice(choice.event, choice.cycle, text), True

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
        if not self._may_choose_at(event):
            return False
        choice = choose(list(self._since), self._optimizers, self._how)
        if choice is None:
            return False
        self.choice, self._exhausted = choice, False
        self._cycles, self._is_grouped = None, False
        if self._groups and choice.event.kind == "optimizer":
            self._cycles = Cycles(choice.event, [one for one in self._since if one.kind == "optimizer"])
            if self._cycles.size > 1:
                self._group(self._cycles.size)
        self._forget()
        return event == choice.event and (self._cycles is None or self._cycles.at_end)

    def _may_choose_at(self, event: MarkerEvent) -> bool:
        """Return whether this event may decide; not at every call, of which a program can make thousands first."""
        if self._how == "optimizer":
            return event.kind == "optimizer"
        if event.kind not in CALLS:
            return True
        times = self._counts[event]
        return times % (MANY_CALLS if times < EVALUATED_BATCHES else EVALUATED_BATCHES) == 0

    def _marked(self) -> bool:
        """Note the marker; return whether it ends a step."""
        self._forget()
        evaluates = self._how == "auto" and self.kind == "optimizer" and not self._has_trained
        after_the_last, self._exhausted, self._has_trained = self._exhausted, False, False
        return not (after_the_last or evaluates)

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

    def _is_lost(self) -> bool:
        """Return whether so many other events came since the marker that it will not come again."""
        if len(self._since) < FEW_STEPS:
            return False
        most: Counter[str] = Counter()
        for event, times in self._counts.items():
            most[event.kind] = max(most[event.kind], times)
        if any(most[kind] >= FEW_STEPS for kind in ("optimizer", "backward") if RANK[kind] > RANK[self.kind]):
            return True
        if self.kind == "module" and most["batch"] >= MANY_BATCHES:
            return True
        return most[self.kind] >= PATIENCE


def ordinal(number: int) -> str:
    """Return the number as in "every 16th"."""
    endings = {1: "st", 2: "nd", 3: "rd"}
    teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teen else endings.get(number % 10, 'th')}"
