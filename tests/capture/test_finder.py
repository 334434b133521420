"""What one step of a program is, told from made-up sequences of what programs do."""

from collections.abc import Iterable, Iterator
from itertools import pairwise, repeat

import pytest
import torch

from pinprof.capture.steps.finder import StepFinder
from pinprof.capture.steps.groups import ordinal
from pinprof.capture.steps.sources import BACKWARD_CALLS, BATCH_DRAWS, MODULE_CALLS, OPTIMIZER_STEPS, Source, StepEvent

BATCH = "batch drawn from a DataLoader"

TRAIN, VALID, OTHER = (StepEvent(BATCH_DRAWS, name) for name in ("train", "valid", "other"))
ADAM, CRITIC, SGD = (StepEvent(OPTIMIZER_STEPS, name, name) for name in ("Adam", "Critic", "SGD"))
BACKWARD_PASS, OTHER_PASS = (StepEvent(BACKWARD_CALLS, ("train.py", line)) for line in (10, 20))
MODEL, ENCODER = (StepEvent(MODULE_CALLS, name, name) for name in ("Model", "Encoder"))


EVENTS = TRAIN, VALID, OTHER, ADAM, CRITIC, SGD, BACKWARD_PASS, OTHER_PASS, MODEL, ENCODER
CODES = dict(zip("TVOACSBPME", EVENTS, strict=True))
"""The events of programs that are written as texts: `"TA" * 10` draws ten batches, and makes a step after each."""


def events_of(program: str) -> list[StepEvent]:
    return [CODES[code] for code in program]


def follow(
    program: str | Iterable[StepEvent], optimizers: int = 1, wanted: Source | None = None
) -> tuple[StepFinder, list[int]]:
    """Return the finder after these events, and at which of them a step ended."""
    finder = StepFinder(lambda: optimizers, wanted)
    events = events_of(program) if isinstance(program, str) else program
    return finder, [place for place, event in enumerate(events) if finder.see(event)]


def chosen(program: str, optimizers: int = 1, wanted: Source | None = None) -> str | None:
    return follow(program, optimizers, wanted)[0].marker or None


def test_one_batch_per_optimizer_step_is_marked_by_the_draw() -> None:
    finder, ends = follow("TA" * 10)
    assert finder.choice is not None
    assert finder.choice.event == TRAIN
    assert ends == [8, 10, 12, 14, 16, 18]  # from the fifth batch on, each before its draw


@pytest.mark.parametrize(("cycles", "batches", "first"), [(10, 4, 19), (4, 64, 129)])
def test_gradient_accumulation_is_marked_by_the_optimizer_after_two_steps(
    cycles: int, batches: int, first: int
) -> None:
    finder, ends = follow(("T" * batches + "A") * cycles)
    assert finder.marker == f"optimizer step (Adam), every {batches} batches"
    assert ends == list(range(first, cycles * (batches + 1), batches + 1))


PROGRAMS: dict[str, tuple[str, int, str, int]] = {
    "an evaluation after the first step": ("TA" + "V" * 95 + "TA" * 20, 1, "TA", 19),
    "a long validation": ("TA" * 6 + "V" * 5000 + "TA" * 6, 1, "TA", 8),
    "validation before the training": ("V" * 150 + "TA" * 6, 1, "TA", 4),
    "a look at the data of an inference": ("O" + "TV" * 40, 0, "T", 29),
    "a GAN": ("TCA" * 20, 2, "TA", 20 - 12),
    "a GAN without a loader": ("CA" * 20, 2, "AA", 20 - 11),
    "a WGAN that draws once for five critic steps": ("TCCCCCA" * 8, 2, "TA", 5),
    "a second loader of each step": ("TOA" * 8, 1, "TA", 4),
    "an optimizer used at the beginning only": ("SSS" + "TA" * 20, 2, "TA", 8),
    "a batch per call of backward": ("TB" * 20, 0, "TB", 20 - 12),
    "several calls of backward": ("BBP" * 20, 0, "PP", 15),
    "an optimizer that comes later": ("B" * 20 + "A" * 10, 0, "AA", 9 + 7),
    "a rollout before the first optimizer step": ("M" * 900 + "A" * 10, 1, "AA", 7),
    "a training after an inference": ("M" * 20 + "A" * 10, 0, "AA", 9 + 7),
    "calls of backward after an inference": ("M" * 20 + "B" * 30, 0, "BB", 9 + 19),
    "a loop with a loader after an inference": ("M" * 20 + "TA" * 10, 0, "TA", 9 + 6),
    "a training after a very long evaluation": ("V" * 1000 + "TA" * 10, 1, "TA", 801 + 6),
    "an evaluation with the loader of the training": ("T" * 250 + "TA" * 10, 1, "TA", 51 + 1 + 6),
    "a statistic of the data, then gradient accumulation": ("T" * 40 + "TTTA" * 6, 0, "AA", 29 + 3 + 3),
    "a second optimizer for the same loader": ("TA" * 20 + "TS" * 20, 2, "TS", 8 + 4 + 4),
    "a second loader and optimizer, each loader once": ("TA" * 20 + "VS" * 30, 2, "VS", 8 + 18),
    "a second stage with its own optimizer": ("TA" * 20 + "OS" * 80, 1, "OS", 16 + 68),
}
"""The events of a program, how many optimizers it has, what marks its steps and their cycle, and how many steps end."""


@pytest.mark.parametrize(("program", "optimizers", "marker", "steps"), PROGRAMS.values(), ids=PROGRAMS)
def test_the_steps_of_a_program_are_found(program: str, optimizers: int, marker: str, steps: int) -> None:
    finder, ends = follow(program, optimizers)
    assert finder.choice is not None
    assert (finder.choice.event, finder.choice.cycle) == (CODES[marker[0]], CODES.get(marker[1:]))
    assert ends[-3:] == [place for place, code in enumerate(program) if code == marker[0]][-3:]
    assert len(ends) == steps


SAC = "CCASAS"
"""Delayed updates of the policy: two steps of the critics, then two of the policy and of its temperature."""


@pytest.mark.parametrize("begin", range(len(SAC)))
def test_a_step_is_one_round_of_all_optimizers_wherever_the_program_begins(begin: int) -> None:
    finder, ends = follow(SAC[begin:] + SAC * 20, optimizers=3)
    assert finder.marker in {f"every 2nd optimizer step ({optimizer.name})" for optimizer in (ADAM, SGD, CRITIC)}
    late = [end for end in ends if end > 8 * len(SAC)]
    assert {later - earlier for earlier, later in pairwise(late)} == {len(SAC)}
    assert {(end + begin) % len(SAC) for end in late} <= {1, 4, 5}  # the last of its optimizer in a round


@pytest.mark.parametrize(("wanted", "group"), [(OPTIMIZER_STEPS, True), (None, False)])
def test_rounds_of_optimizers_are_not_grouped_where_nobody_wants_it(wanted: Source | None, group: bool) -> None:
    finder = StepFinder(lambda: 3, wanted, group=group)
    ends = [place for place, event in enumerate(events_of(SAC * 20)) if finder.see(event)]
    assert len([end for end in ends if end >= 10 * len(SAC)]) == 20


def test_a_wgan_has_one_step_per_generator_step() -> None:
    finder, ends = follow("TCTCTCTCTCA" * 6, optimizers=2)
    assert finder.marker == "optimizer step (Adam), every 5 batches"
    assert {later - earlier for earlier, later in pairwise(ends)} == {11}


@pytest.mark.parametrize("every", [1, 2, 3, 7])
def test_validation_between_steps_neither_confuses_nor_ends_steps(every: int) -> None:
    program = ("TA" * every + "V" * 5) * 10
    finder, ends = follow(program)
    if every > 1:  # with one step each, five batches of the other loader are as much a part of every step
        assert finder.choice is not None
        assert finder.choice.event == TRAIN
    assert all(program[end] != "V" for end in ends)
    assert len(ends) >= 10 * every - 4


def test_an_evaluation_of_the_batches_of_the_training_is_no_steps() -> None:
    finder, ends = follow("TA" * 10 + "T" * 30 + "TA" * 10)
    assert finder.choice is not None
    assert finder.choice.event == TRAIN
    assert ends == [*range(8, 20, 2), 20, *range(52, 70, 2)]  # the first of its batches ends the step before it


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


ALL = "TMBA" * 20


@pytest.mark.parametrize(
    ("wanted", "program", "text"),
    [
        *((BATCH_DRAWS, ALL, BATCH), (BATCH_DRAWS, "TTA" * 5, BATCH), (BATCH_DRAWS, "T" * 20, BATCH)),
        *((BATCH_DRAWS, "A" * 50, None), (OPTIMIZER_STEPS, ALL, "optimizer step (Adam)")),
        *((OPTIMIZER_STEPS, "T" * 500, None), (BACKWARD_CALLS, ALL, "call of backward")),
        *((BACKWARD_CALLS, "TA" * 300, None), (MODULE_CALLS, ALL, "call of Model")),
        (MODULE_CALLS, "TA" * 300, None),
    ],
)
def test_a_marker_that_was_asked_for_is_kept_and_not_replaced(wanted: Source, program: str, text: str | None) -> None:
    assert chosen(program, wanted=wanted) == text


@pytest.mark.parametrize(("event", "marker"), [("B", "call of backward"), ("M", "call of Model")])
def test_without_an_optimizer_other_calls_mark_the_steps(event: str, marker: str) -> None:
    finder, ends = follow(event * 20, optimizers=0)
    assert finder.marker == marker
    assert ends == list(range(11, 20))
    assert finder.marks_passed == 20


def test_beside_an_optimizer_neither_backward_nor_modules_change_anything() -> None:
    finder, ends = follow("TMBA" * 10)
    assert finder.choice == follow("TA" * 10)[0].choice
    assert len(ends) == 6


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


def calls_in_a_step(seconds: float, *, closure: bool = True) -> StepFinder:
    """Call backward 96 times within some seconds, in one step of an optimizer or outside of any."""
    finder = StepFinder(lambda: 1)

    def called() -> float:
        for number in range(96):
            finder.see(BACKWARD_PASS, 1 + round(1e9 * seconds * number / 96))
        return 0.0

    torch.optim.SGD([torch.zeros(1)]).step(called) if closure else called()
    return finder


def test_a_step_that_goes_on_for_seconds_has_steps_in_its_closure() -> None:
    finder = calls_in_a_step(20)
    assert finder.choice is not None
    assert finder.choice.event == BACKWARD_PASS
    assert finder.is_in_long_step
    finder.see(ADAM, 21_000_000_000)  # it returns: there may be more of them
    assert finder.choice is None
    assert not finder.is_in_long_step


@pytest.mark.parametrize(("seconds", "closure"), [(4, True), (20, False)])
def test_calls_in_a_short_step_or_outside_are_no_steps(seconds: float, closure: bool) -> None:
    assert calls_in_a_step(seconds, closure=closure).choice is None


def test_an_evaluation_and_the_training_after_it_are_steps_of_two_kinds() -> None:
    finder, _ = follow("T" * 250)
    evaluation = finder.kind
    assert not finder.is_final
    finder.see(ADAM)
    assert finder.choice is None
    assert not finder.is_final
    assert follow("TA" * 6)[0].kind != evaluation
    assert follow("TA" * 6)[0].is_final


@pytest.mark.parametrize(("wanted", "group"), [(OPTIMIZER_STEPS, True), (None, False)])
def test_optimizer_steps_that_were_asked_for_are_not_grouped(wanted: Source | None, group: bool) -> None:
    finder = StepFinder(lambda: 1, wanted, group=group)
    assert play(finder, 8)[-3:] == [30, 31, 32]


@pytest.mark.parametrize(("number", "text"), [(2, "2nd"), (3, "3rd"), (4, "4th"), (12, "12th"), (21, "21st")])
def test_numbers_are_written_as_people_say_them(number: int, text: str) -> None:
    assert ordinal(number) == text
