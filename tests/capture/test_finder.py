"""What one step of a program is, told from made-up sequences of what programs do."""

from collections.abc import Iterable, Iterator
from itertools import pairwise, repeat

import pytest

from pinprof.capture.steps.finder import StepFinder, choose
from pinprof.capture.steps.groups import ordinal
from pinprof.capture.steps.sources import BACKWARD_CALLS, BATCH_DRAWS, MODULE_CALLS, OPTIMIZER_STEPS, Source, StepEvent

BATCH = "batch drawn from a DataLoader"

TRAIN, VALID, OTHER = (StepEvent(BATCH_DRAWS, name) for name in ("train", "valid", "other"))
ADAM, CRITIC, SGD = (StepEvent(OPTIMIZER_STEPS, name, name) for name in ("Adam", "Critic", "SGD"))
BACKWARD_PASS, OTHER_PASS = (StepEvent(BACKWARD_CALLS, ("train.py", line)) for line in (10, 20))
MODEL, ENCODER = (StepEvent(MODULE_CALLS, name, name) for name in ("Model", "Encoder"))


def times(count: int, *events: StepEvent) -> list[StepEvent]:
    return list(events) * count


def follow(
    events: Iterable[StepEvent], optimizers: int = 1, wanted: Source | None = None
) -> tuple[StepFinder, list[int]]:
    """Return the finder after these events, and at which of them a step ended."""
    finder = StepFinder(lambda: optimizers, wanted)
    return finder, [place for place, event in enumerate(events) if finder.see(event)]


def chosen(events: Iterable[StepEvent], optimizers: int = 1, wanted: Source | None = None) -> str | None:
    return follow(events, optimizers, wanted)[0].marker or None


def test_one_batch_per_optimizer_step_is_marked_by_the_draw() -> None:
    finder, ends = follow(times(10, TRAIN, ADAM))
    assert finder.choice is not None
    assert finder.choice.event == TRAIN
    assert ends == [8, 10, 12, 14, 16, 18]  # from the fifth batch on, each before its draw


@pytest.mark.parametrize(("cycles", "batches", "first"), [(10, 4, 19), (4, 64, 129)])
def test_gradient_accumulation_is_marked_by_the_optimizer_after_two_steps(
    cycles: int, batches: int, first: int
) -> None:
    finder, ends = follow(times(cycles, *times(batches, TRAIN), ADAM))
    assert finder.marker == f"optimizer step (Adam), every {batches} batches"
    assert ends == list(range(first, cycles * (batches + 1), batches + 1))


PROGRAMS: dict[str, tuple[list[StepEvent], int, StepEvent, StepEvent | None, int]] = {
    "an evaluation after the first step": (
        [TRAIN, ADAM, *times(95, VALID), *times(20, TRAIN, ADAM)],
        1,
        TRAIN,
        ADAM,
        19,
    ),
    "a long validation": ([*times(6, TRAIN, ADAM), *times(5000, VALID), *times(6, TRAIN, ADAM)], 1, TRAIN, ADAM, 8),
    "validation before the training": ([*times(150, VALID), *times(6, TRAIN, ADAM)], 1, TRAIN, ADAM, 4),
    "a look at the data of an inference": ([OTHER, *times(40, TRAIN, VALID)], 0, TRAIN, None, 29),
    "a GAN": (times(20, TRAIN, CRITIC, ADAM), 2, TRAIN, ADAM, 20 - 12),
    "a GAN without a loader": (times(20, CRITIC, ADAM), 2, ADAM, ADAM, 20 - 11),
    "a WGAN that draws once for five critic steps": (times(8, TRAIN, *times(5, CRITIC), ADAM), 2, TRAIN, ADAM, 5),
    "a second loader of each step": (times(8, TRAIN, OTHER, ADAM), 1, TRAIN, ADAM, 4),
    "an optimizer used at the beginning only": ([*times(3, SGD), *times(20, TRAIN, ADAM)], 2, TRAIN, ADAM, 8),
    "a batch per call of backward": (times(20, TRAIN, BACKWARD_PASS), 0, TRAIN, BACKWARD_PASS, 20 - 12),
    "several calls of backward": (times(20, BACKWARD_PASS, BACKWARD_PASS, OTHER_PASS), 0, OTHER_PASS, OTHER_PASS, 15),
    "an optimizer that comes later": ([*times(20, BACKWARD_PASS), *times(10, ADAM)], 0, ADAM, ADAM, 9 + 7),
    "a rollout before the first optimizer step": ([*times(900, MODEL), *times(10, ADAM)], 1, ADAM, ADAM, 7),
    "a training after an inference": ([*times(20, MODEL), *times(10, ADAM)], 0, ADAM, ADAM, 9 + 7),
    "calls of backward after an inference": (
        [*times(20, MODEL), *times(30, BACKWARD_PASS)],
        0,
        BACKWARD_PASS,
        BACKWARD_PASS,
        9 + 19,
    ),
    "a loop with a loader after an inference": ([*times(20, MODEL), *times(10, TRAIN, ADAM)], 0, TRAIN, ADAM, 9 + 6),
    "a training after a very long evaluation": (
        [*times(1000, VALID), *times(10, TRAIN, ADAM)],
        1,
        TRAIN,
        ADAM,
        801 + 6,
    ),
    "an evaluation with the loader of the training": (
        [*times(250, TRAIN), *times(10, TRAIN, ADAM)],
        1,
        TRAIN,
        ADAM,
        51 + 1 + 6,
    ),
    "a statistic of the data, then gradient accumulation": (
        [*times(40, TRAIN), *times(6, *times(3, TRAIN), ADAM)],
        0,
        ADAM,
        ADAM,
        29 + 3 + 3,
    ),
    "a second optimizer for the same loader": (
        [*times(20, TRAIN, ADAM), *times(20, TRAIN, SGD)],
        2,
        TRAIN,
        SGD,
        8 + 4 + 4,
    ),
    "a second loader and optimizer, each loader once": (
        [*times(20, TRAIN, ADAM), *times(30, VALID, SGD)],
        2,
        VALID,
        SGD,
        8 + 18,
    ),
    "a second stage with its own optimizer": (
        [*times(20, TRAIN, ADAM), *times(80, OTHER, SGD)],
        1,
        OTHER,
        SGD,
        16 + 68,
    ),
}
"""The events of a program, how many optimizers it has, what marks its steps, the cycle, and how many steps end."""


@pytest.mark.parametrize(("events", "optimizers", "event", "cycle", "steps"), PROGRAMS.values(), ids=PROGRAMS)
def test_the_steps_of_a_program_are_found(
    events: list[StepEvent], optimizers: int, event: StepEvent, cycle: StepEvent | None, steps: int
) -> None:
    finder, ends = follow(events, optimizers)
    assert finder.choice is not None
    assert (finder.choice.event, finder.choice.cycle) == (event, cycle)
    assert ends[-3:] == [place for place, other in enumerate(events) if other == event][-3:]
    assert len(ends) == steps


SAC = (*times(2, CRITIC), *times(2, ADAM, SGD))
"""Delayed updates of the policy: two steps of the critics, then two of the policy and of its temperature."""


@pytest.mark.parametrize("begin", range(len(SAC)))
def test_a_step_is_one_round_of_all_optimizers_wherever_the_program_begins(begin: int) -> None:
    finder, ends = follow([*SAC[begin:], *times(20, *SAC)], optimizers=3)
    assert finder.marker in {f"every 2nd optimizer step ({optimizer.name})" for optimizer in (ADAM, SGD, CRITIC)}
    late = [end for end in ends if end > 8 * len(SAC)]
    assert {later - earlier for earlier, later in pairwise(late)} == {len(SAC)}
    assert {(end + begin) % len(SAC) for end in late} <= {1, 4, 5}  # the last of its optimizer in a round


@pytest.mark.parametrize(("wanted", "group"), [(OPTIMIZER_STEPS, True), (None, False)])
def test_rounds_of_optimizers_are_not_grouped_where_nobody_wants_it(wanted: Source | None, group: bool) -> None:
    finder = StepFinder(lambda: 3, wanted, group=group)
    ends = [place for place, event in enumerate(times(20, *SAC)) if finder.see(event)]
    assert len([end for end in ends if end >= 10 * len(SAC)]) == 20


def test_longer_rounds_are_found_later() -> None:
    finder, ends = follow(times(20, *times(5, CRITIC), *times(5, ADAM)), optimizers=2)
    assert finder.marker == "every 5th optimizer step (Adam)"
    assert {later - earlier for earlier, later in pairwise(ends[-8:])} == {10}


def test_a_step_that_an_optimizer_once_left_out_does_not_hide_the_rounds() -> None:
    begin = [*SAC, *SAC, *SAC[:2], *SAC[3:]]  # one step of ADAM is missing
    finder, ends = follow([*begin, *times(20, *SAC)], optimizers=3)
    assert finder.marker.startswith("every 2nd ")
    assert {(end - len(begin)) % len(SAC) for end in ends[-8:]} <= {1, 4, 5}
    assert {later - earlier for earlier, later in pairwise(ends[-8:])} == {len(SAC)}


def test_optimizers_without_a_round_end_a_step_each_time() -> None:
    uneven = [event for number in range(40) for event in (*times(1 + number * number % 37, CRITIC), ADAM)]
    finder, ends = follow(uneven, optimizers=2)
    assert finder.marker == "optimizer step (Adam)"
    assert [uneven[end] for end in ends] == times(len(ends), ADAM)


def test_a_wgan_has_one_step_per_generator_step() -> None:
    cycle = (*times(5, TRAIN, CRITIC), ADAM)
    finder, ends = follow(times(6, *cycle), optimizers=2)
    assert finder.marker == "optimizer step (Adam), every 5 batches"
    assert {later - earlier for earlier, later in pairwise(ends)} == {11}


@pytest.mark.parametrize("every", [1, 2, 3, 7])
def test_validation_between_steps_neither_confuses_nor_ends_steps(every: int) -> None:
    events = times(10, *times(every, TRAIN, ADAM), *times(5, VALID))
    finder, ends = follow(events)
    if every > 1:  # with one step each, five batches of the other loader are as much a part of every step
        assert finder.choice is not None
        assert finder.choice.event == TRAIN
    assert all(events[end] != VALID for end in ends)
    assert len(ends) >= 10 * every - 4


def test_an_evaluation_of_the_batches_of_the_training_is_no_steps() -> None:
    finder, ends = follow([*times(10, TRAIN, ADAM), *times(30, TRAIN), *times(10, TRAIN, ADAM)])
    assert finder.choice is not None
    assert finder.choice.event == TRAIN
    assert ends == [*range(8, 20, 2), 20, *range(52, 70, 2)]  # the first of its batches ends the step before it


def test_batches_that_were_asked_for_are_steps_whatever_is_done_with_them() -> None:
    _, ends = follow([*times(10, TRAIN, ADAM), *times(30, TRAIN)], wanted=BATCH_DRAWS)
    assert len(ends) == 6 + 30


def test_an_evaluation_with_an_unused_optimizer_is_recognised_later() -> None:
    assert chosen(times(199, VALID)) is None
    assert chosen(times(200, VALID)) == BATCH


def run_epochs(finder: StepFinder, epochs: Iterable[StepEvent], batches: int) -> Iterator[int]:
    """Draw as a `for` loop does: once more than there are batches."""
    for draw in epochs:
        for _ in range(batches):
            yield finder.see(draw)
            yield finder.see(ADAM)
        yield finder.see(draw)
        finder.exhausted(draw)


def test_the_end_of_an_epoch_makes_no_step_more() -> None:
    finder = StepFinder(lambda: 1)
    ends = sum(run_epochs(finder, repeat(TRAIN, 6), 10))
    assert ends == 60 - 3  # of the fourth to the last, which the last draw of all ends
    assert finder.event_counts == {BATCH_DRAWS: 60, OPTIMIZER_STEPS: 60}


def test_the_end_of_an_epoch_makes_no_step_more_with_a_new_loader_in_each() -> None:
    epochs = [StepEvent(BATCH_DRAWS, epoch) for epoch in range(6)]
    assert sum(run_epochs(StepFinder(lambda: 1), epochs, 10)) == 60 - 3


def test_an_inference_program_with_a_new_loader_in_every_epoch_is_followed() -> None:
    finder = StepFinder(lambda: 0)
    ends = 0
    for epoch in range(6):
        draw = StepEvent(BATCH_DRAWS, epoch)
        for _ in range(20):
            ends += finder.see(draw)
        ends += finder.see(draw)
        finder.exhausted(draw)
    assert ends == 120 - 10


def test_epochs_of_one_batch_have_one_step_each() -> None:
    ends = sum(run_epochs(StepFinder(lambda: 1), repeat(TRAIN, 20), 1))
    assert 20 - 5 <= ends <= 20


ALL_SOURCES = times(20, TRAIN, MODEL, BACKWARD_PASS, ADAM)


@pytest.mark.parametrize(
    ("wanted", "events", "text"),
    [
        (BATCH_DRAWS, ALL_SOURCES, BATCH),
        (BATCH_DRAWS, times(5, TRAIN, TRAIN, ADAM), BATCH),
        (BATCH_DRAWS, times(20, TRAIN), BATCH),
        (BATCH_DRAWS, times(50, ADAM), None),
        (OPTIMIZER_STEPS, ALL_SOURCES, "optimizer step (Adam)"),
        (OPTIMIZER_STEPS, times(500, TRAIN), None),
        (BACKWARD_CALLS, ALL_SOURCES, "call of backward"),
        (BACKWARD_CALLS, times(300, TRAIN, ADAM), None),
        (MODULE_CALLS, ALL_SOURCES, "call of Model"),
        (MODULE_CALLS, times(300, TRAIN, ADAM), None),
    ],
)
def test_a_marker_that_was_asked_for_is_kept_and_not_replaced(
    wanted: Source, events: list[StepEvent], text: str | None
) -> None:
    assert chosen(events, wanted=wanted) == text


def test_nothing_is_chosen_from_nothing() -> None:
    assert choose([], lambda: 0) is None


def test_optimizers_of_which_none_recurs_are_watched_on() -> None:
    events = [*times(2, ADAM), *(StepEvent(OPTIMIZER_STEPS, number) for number in range(8)), *times(50, TRAIN)]
    assert choose(events, lambda: 9) is None


def test_the_optimizers_are_counted_only_when_it_matters() -> None:
    def fail() -> int:
        raise AssertionError

    assert choose(times(3, TRAIN, ADAM), fail) is None
    assert choose(times(12, TRAIN, ADAM), fail) is not None


@pytest.mark.parametrize(("event", "marker"), [(BACKWARD_PASS, "call of backward"), (MODEL, "call of Model")])
def test_without_an_optimizer_other_calls_mark_the_steps(event: StepEvent, marker: str) -> None:
    finder, ends = follow(times(20, event), optimizers=0)
    assert finder.marker == marker
    assert ends == list(range(11, 20))
    assert finder.marks_passed == 20


def test_calls_of_backward_that_accumulate_gradients_mark_no_step() -> None:
    assert chosen(times(256, TRAIN, BACKWARD_PASS)) is None
    assert chosen(times(2, *times(256, TRAIN, BACKWARD_PASS), ADAM)) == "optimizer step (Adam), every 256 batches"
    assert chosen(times(4, *times(64, BACKWARD_PASS), ADAM)) == "optimizer step (Adam)"


def test_an_optimizer_that_is_never_used_does_not_hide_the_calls_of_backward_for_ever() -> None:
    assert chosen(times(999, BACKWARD_PASS)) is None
    assert chosen(times(1000, BACKWARD_PASS)) == "call of backward"


def test_a_few_calls_of_backward_do_not_hide_an_inference() -> None:
    assert chosen([*times(3, BACKWARD_PASS), *times(40, TRAIN)], optimizers=0) == BATCH


def test_beside_an_optimizer_neither_backward_nor_modules_change_anything() -> None:
    finder, ends = follow(times(10, TRAIN, MODEL, BACKWARD_PASS, ADAM))
    assert finder.choice == follow(times(10, TRAIN, ADAM))[0].choice
    assert len(ends) == 6


def test_of_several_modules_the_least_frequent_that_recurs_marks_the_step() -> None:
    assert chosen(times(5, ENCODER, *times(10, MODEL)), optimizers=0) == "call of Encoder"
    assert chosen([ENCODER, *times(50, MODEL)], optimizers=0) == "call of Model"


def play(finder: StepFinder, iterations: int, *, calls: int = 100, draws: bool = False) -> list[int]:
    """Return after how many of its optimizer steps a step ended: 4 updates of 5 ms, after rollouts of 100 ms."""
    now_ns, ends, steps = 0, list[int](), 0
    for _ in range(iterations):
        for _ in range(calls):
            now_ns += 1_000_000
            finder.see(MODEL, now_ns)
        for _ in range(4):
            now_ns += 5_000_000
            if draws:
                finder.see(TRAIN, now_ns)
            steps += 1
            if finder.see(ADAM, now_ns):
                ends.append(steps)
    return ends


def test_rollout_and_updates_together_are_a_step() -> None:
    finder = StepFinder(lambda: 1)
    ends = play(finder, 8)
    assert finder.marker == "every 4th optimizer step (Adam): one iteration of rollout and updates"
    assert ends[-3:] == [24, 28, 32]


def test_a_batch_drawn_once_hides_no_rollout() -> None:
    finder = StepFinder(lambda: 1)
    finder.see(TRAIN)
    assert play(finder, 8)[-3:] == [24, 28, 32]


def test_an_evaluation_and_the_training_after_it_are_steps_of_two_kinds() -> None:
    finder, _ = follow(times(250, TRAIN))
    evaluation = finder.kind
    assert not finder.is_final
    finder.see(ADAM)
    assert finder.choice is None
    assert not finder.is_final
    assert follow(times(6, TRAIN, ADAM))[0].kind != evaluation
    assert follow(times(6, TRAIN, ADAM))[0].is_final


def test_epochs_of_a_loader_are_no_iterations() -> None:
    finder = StepFinder(lambda: 1)
    play(finder, 8, draws=True)
    assert finder.marker == BATCH


@pytest.mark.parametrize(("wanted", "group"), [(OPTIMIZER_STEPS, True), (None, False)])
def test_optimizer_steps_that_were_asked_for_are_not_grouped(wanted: Source | None, group: bool) -> None:
    finder = StepFinder(lambda: 1, wanted, group=group)
    assert play(finder, 8)[-3:] == [30, 31, 32]


@pytest.mark.parametrize(("number", "text"), [(2, "2nd"), (3, "3rd"), (4, "4th"), (12, "12th"), (21, "21st")])
def test_numbers_are_written_as_people_say_them(number: int, text: str) -> None:
    assert ordinal(number) == text
