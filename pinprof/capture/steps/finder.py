"""Finds the steps of a running program: from the events of its sources, chooses what marks them."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter
from statistics import median

from pinprof.capture.steps.groups import Groups
from pinprof.capture.steps.sources import BATCH_DRAWS, MODULE_CALLS, OPTIMIZER_STEPS, STEP_SOURCES, Source, StepEvent
from pinprof.program.frames import is_in_optimizer_step
from pinprof.trace.spans.steps import MIN_STEP_REPEATS

MIN_OPTIMIZER_STEPS = MIN_STEP_REPEATS + 1
"""Optimizer steps that suffice for a program with a single optimizer: the ends of MIN_STEP_REPEATS whole cycles."""
MIN_CALLS_BESIDE_OPTIMIZER = 1000
"""Calls that suffice if the program has an optimizer that has not stepped: fewer may be one step that accumulates
gradients, or a rollout before the first step."""
LONG_STEP_NS = 5_000_000_000  # from here on an optimizer's step may be the whole training, as LBFGS can make it
PATIENCE_EVENTS = 50
"""Events of one source after which fewer cycles suffice for a choice, or a lost marker leads to a new one."""
MAX_REMEMBERED_EVENTS = 2000  # how many events to remember; a long evaluation has more, which do not matter
MIN_EVALUATED_BATCHES = 200
"""Batches without an optimizer step after which a program with an optimizer counts as an evaluation. With fewer
batches, it may evaluate its model first and train it later."""
CYCLE_SOURCES = tuple(source for source in STEP_SOURCES if not source.is_certain and source is not BATCH_DRAWS)
"""The sources whose cycle is a step, the better sign first."""
CALL_SOURCES = tuple(source for source in CYCLE_SOURCES if source is not OPTIMIZER_STEPS)
"""The sources that mark the steps of programs without optimizer steps."""


@dataclass(frozen=True)
class Choice:
    """The event that marks the steps; a step lasts to the next `cycle`, None if the program only draws batches."""

    event: StepEvent
    cycle: StepEvent | None
    text: str

    @property
    def source(self) -> Source:
        """The source whose events make a step."""
        return (self.cycle or self.event).source


def choose(events: Sequence[StepEvent], optimizers: Callable[[], int], wanted: Source | None = None) -> Choice | None:
    """Return what marks the steps of a program with these events; None if more events are needed.

    A step is one cycle of the least frequent of the recurring optimizers. If a cycle draws one batch, the draw marks
    the step, so that the wait for the input is in the step that uses it. A program without optimizer steps has cycles
    of backward calls, of module calls if it has no backward calls, and of draws if it has neither. `optimizers` returns
    how many optimizers the program has, and is called only if that matters.
    """
    draws = Counter(event for event in events if event.source is BATCH_DRAWS)
    most_draws = max(draws.values(), default=0)
    usual = (source for source in CYCLE_SOURCES if wanted is None or not source.is_costly)
    for source in (wanted,) if wanted in CYCLE_SOURCES else usual:
        places = _places(source, events)
        most = max(map(len, places.values()), default=0)
        if source is OPTIMIZER_STEPS:
            enough = most >= source.enough or (most > 1 and most_draws >= PATIENCE_EVENTS)
            enough, better_possible = enough or (most >= MIN_OPTIMIZER_STEPS and optimizers() <= 1), most > 1
        else:  # a program with an optimizer may not have stepped so far
            trains_not = wanted is source or most >= MIN_CALLS_BESIDE_OPTIMIZER
            enough = most >= source.enough and (trains_not or not optimizers())
            better_possible = 2 * most > most_draws
        if enough:
            slowest = _slowest(places)
            return _cycle_of(slowest, events, wanted) if slowest else None
        if better_possible:
            return None
    if wanted in CYCLE_SOURCES or most_draws < BATCH_DRAWS.enough:
        return None
    if wanted is BATCH_DRAWS or most_draws >= MIN_EVALUATED_BATCHES or not optimizers():
        draw = next(draw for draw, times in draws.items() if times > 1)  # a single draw only looks at the data
        return Choice(draw, None, draw.text)
    return None


def _places(source: Source, events: Iterable[StepEvent]) -> dict[StepEvent, list[int]]:
    """Return the positions of each event among all events of one source."""
    places: dict[StepEvent, list[int]] = defaultdict(list)
    for index, event in enumerate(event for event in events if event.source is source):
        places[event].append(index)
    return places


def _slowest(places: dict[StepEvent, list[int]]) -> StepEvent | None:
    """Return the least frequent of the recurring optimizers or calls; of equally frequent ones, the one seen last."""
    now = sum(map(len, places.values()))
    recurring = {
        event: indices
        for event, indices in places.items()
        if len(indices) > 1 and now - indices[-1] <= 2 * max(later - earlier for earlier, later in pairwise(indices))
    }
    return min(recurring, key=lambda event: (len(recurring[event]), -recurring[event][0]), default=None)


def _cycle_of(cycle: StepEvent, events: Sequence[StepEvent], wanted: Source | None) -> Choice | None:
    ends = [index for index, event in enumerate(events) if event == cycle]
    draws = [
        Counter(event for event in events[start:end] if event.source is BATCH_DRAWS) for start, end in pairwise(ends)
    ]
    usual = {draw: median(of_cycle[draw] for of_cycle in draws) for of_cycle in draws for draw in of_cycle}
    drawn = [(draw, count) for draw, count in usual.items() if count >= 1]
    draw, batches = min(drawn, key=itemgetter(1), default=(None, 0.0))  # the DataLoader of an evaluation yields more
    if draw is not None and (wanted is BATCH_DRAWS or (wanted is None and batches == 1)):
        return Choice(draw, cycle, draw.text)
    if wanted is BATCH_DRAWS:
        return None
    accumulates = batches > 1 and cycle.source is OPTIMIZER_STEPS
    return Choice(cycle, cycle, f"{cycle.text}, every {round(batches)} batches" if accumulates else cycle.text)


class StepFinder:
    """Decides for each event of a program, in order, whether a step ends with it; `choice` is None until it knows.

    It is told of a draw before the program gets the batch. If the marker stops coming, because training goes on with
    another optimizer or DataLoader, it chooses again. A program in which no optimizer has stepped may only evaluate, or
    look at its data, before it trains: the first step of an optimizer ends a choice of other marks.
    """

    def __init__(self, optimizers: Callable[[], int], wanted: Source | None = None, *, group: bool = True) -> None:
        """Watch for a marker; `group` says whether several optimizer steps may be one step."""
        self.choice: Choice | None = None
        self.source = OPTIMIZER_STEPS  # the source whose events make a step, as far as is known
        self.event_counts: Counter[Source] = Counter()
        self.is_in_long_step = False  # whether the marks are in a step of an optimizer that has not returned for long
        self._stepping_since_ns = 0
        self._optimizers = optimizers
        self._wanted = wanted
        self._since: deque[StepEvent] = deque(maxlen=MAX_REMEMBERED_EVENTS)
        """The events since the last marker, or since the beginning."""
        self._counts: Counter[StepEvent] = Counter()  # how often `_since` contains each event
        self._exhausted = False
        self._has_trained = True
        """Whether an optimizer step came since the last marker; if none came, the program is evaluating."""
        self._others_trained = 0
        """In how many steps, one after the other, only optimizers stepped that are not of the chosen cycle."""
        self._groups = Groups(wanted=group and wanted is None)

    @property
    def marks_passed(self) -> int:
        """How many optimizer steps, or other marks of a step, the program has made; equal in all ranks."""
        return self.event_counts[self.source]

    @property
    def wants_calls(self) -> bool:
        """Whether calls of modules would help to find what a step is."""
        return self._groups.wants_calls

    @property
    def is_final(self) -> bool:
        """Whether nothing better than the marker may come; false without a marker, unless the user names one."""
        return self._wanted is not None or (
            self.choice is not None and (self.source is OPTIMIZER_STEPS or self.source.is_certain)
        )

    @property
    def kind(self) -> Hashable:
        """What the steps are; recorded and timed steps have to be of one kind."""
        if self.choice is None:
            return None
        # a program may make a module anew for each step
        return self.marker, self.choice.cycle if self.source is not MODULE_CALLS else None

    def evaluated(self) -> None:
        """Note that the program switches a model to evaluation."""
        self._groups.evaluated()

    def see(self, event: StepEvent, at_ns: int = 0) -> bool:
        """Return whether a step ends with this event."""
        source, choice = event.source, self.choice
        self.event_counts[source] += 1
        if source.is_certain:
            self._take(Choice(event, event, event.text))
            return self.event_counts[source] >= source.enough
        if self.source.is_certain:
            return False
        self._has_trained |= source is OPTIMIZER_STEPS
        if source is OPTIMIZER_STEPS and choice is not None and not self.is_final:
            choice = None
            self._drop()
        if source is BATCH_DRAWS:
            self._groups.drew()
        is_step = source is OPTIMIZER_STEPS and (choice is None or choice.event.source is OPTIMIZER_STEPS)
        ends_group = not is_step or self._groups.stepped(event, at_ns)
        if choice is not None and event == choice.event:
            return self._marked() and ends_group
        is_worse = source in CALL_SOURCES and STEP_SOURCES.index(source) > STEP_SOURCES.index(self.source)
        if choice is not None and is_worse:
            if source is MODULE_CALLS:
                self._groups.called()
            return False
        return self._see_other(event, at_ns)

    def _see_other(self, event: StepEvent, at_ns: int) -> bool:
        """Return whether a step ends with an event that is not the marker, or not yet."""
        self._since.append(event)
        self._counts[event] += 1
        if self.choice is None or self._is_lost():
            return self._choose_at(event, at_ns)
        if event.source is BATCH_DRAWS and self._exhausted and self.choice.cycle is None:
            self._take(replace(self.choice, event=event))
        elif event == self.choice.cycle:
            self._switch_loader(self.choice)
        return False

    def exhausted(self, draw: StepEvent) -> None:
        """Undo the last draw, which got no batch: the first draw of the next epoch then ends no step."""
        self.event_counts[BATCH_DRAWS] -= 1
        if self._since and self._since[-1] == draw:
            self._since.pop()
            self._counts[draw] -= 1
        elif self.choice is not None and self.choice.event == draw:
            self._exhausted = True

    @property
    def marker(self) -> str:
        """What marks the steps, in words; empty while that is unknown."""
        return self._groups.named(self.choice.text) if self.choice is not None else ""

    def _choose_at(self, event: StepEvent, at_ns: int) -> bool:
        if not self._may_choose_at(event):
            return False
        if not self._stepping_since_ns or event.source is OPTIMIZER_STEPS or not is_in_optimizer_step():
            self._stepping_since_ns = at_ns
        self.is_in_long_step = at_ns - self._stepping_since_ns >= LONG_STEP_NS
        optimizers = (lambda: 0) if self.is_in_long_step else self._optimizers  # the only one may never return
        choice = choose(list(self._since), optimizers, self._wanted)
        if choice is None:
            return False
        self._take(choice)
        earlier = [earlier for earlier in self._since if earlier.source is OPTIMIZER_STEPS]
        at_end = self._groups.begin(choice.event, earlier)
        self._forget()
        return event == choice.event and at_end

    def _may_choose_at(self, event: StepEvent) -> bool:
        """Return whether to choose at this event; of calls, which may come by the thousand, only some are looked at."""
        if self._wanted is OPTIMIZER_STEPS:
            return event.source is OPTIMIZER_STEPS
        if event.source not in CALL_SOURCES:
            return True
        times = self._counts[event]
        return times % (event.source.enough if times < MIN_EVALUATED_BATCHES else MIN_EVALUATED_BATCHES) == 0

    def _marked(self) -> bool:
        optimizers = {event for event in self._since if event.source is OPTIMIZER_STEPS}
        if self.source is OPTIMIZER_STEPS and optimizers and self.choice:
            is_other = self.choice.cycle != self.choice.event and self.choice.cycle not in optimizers
            self._others_trained = self._others_trained + 1 if is_other else 0
        self._forget()
        if self._others_trained >= MIN_OPTIMIZER_STEPS:
            self._drop()
            return False
        evaluates = self._wanted is None and self.source is OPTIMIZER_STEPS and not self._has_trained
        after_the_last, self._exhausted, self._has_trained = self._exhausted, False, False
        return not (after_the_last or evaluates)

    def _drop(self) -> None:
        """Give up the marker, because the program begins to train, or goes on with another optimizer."""
        self.choice, self.source, self._others_trained = None, OPTIMIZER_STEPS, 0
        self._forget()

    def _forget(self) -> None:
        self._since.clear()
        self._counts.clear()

    def _switch_loader(self, choice: Choice) -> None:
        """Switch to the DataLoader of the last cycle: programs may make a new one for every epoch."""
        if choice.cycle is None or not (self._exhausted or self._counts[choice.cycle] > 1):
            return
        drawn: Counter[StepEvent] = Counter()
        for event in list(self._since)[-2::-1]:
            if event == choice.cycle:
                break
            drawn[event] += event.source is BATCH_DRAWS
        once = next((draw for draw, times in drawn.items() if times == 1), None)
        if once is not None:
            self._take(replace(choice, event=once))

    def _take(self, choice: Choice) -> None:
        self.choice, self.source, self._exhausted = choice, choice.source, False

    def _is_lost(self) -> bool:
        """Return whether the marker will not come again, judged by the events since it came last."""
        if len(self._since) < MIN_OPTIMIZER_STEPS:
            return False
        most: Counter[Source] = Counter()
        for event, times in self._counts.items():
            most[event.source] = max(most[event.source], times)
        better = STEP_SOURCES[: STEP_SOURCES.index(self.source)]
        if any(most[source] >= MIN_OPTIMIZER_STEPS for source in better if source.trains):
            return True
        if most[BATCH_DRAWS] >= BATCH_DRAWS.enough:
            if self.source is MODULE_CALLS:
                return True
            choice = self.choice  # a draw may mark the steps of an optimizer that steps no more
            is_for_others = choice and choice.event != choice.cycle and self._counts[choice.cycle or choice.event] <= 1
            if most[OPTIMIZER_STEPS] >= OPTIMIZER_STEPS.enough and is_for_others:
                return True
        return most[self.source] >= PATIENCE_EVENTS
