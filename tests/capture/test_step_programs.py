"""A step is the same to the finder of a running program and to that of its trace, which has no marks."""

from itertools import pairwise

import pytest
from trace_builder import TraceBuilder

from pinprof.capture.steps.finder import StepFinder
from pinprof.capture.steps.sources import BACKWARD_CALLS, BATCH_DRAWS, MODULE_CALLS, OPTIMIZER_STEPS, StepEvent

DRAW = StepEvent(BATCH_DRAWS, "train")
MODEL, CRITIC_CALL = (StepEvent(MODULE_CALLS, name, name) for name in ("Model", "Critic"))
PASS, CRITIC_PASS = (StepEvent(BACKWARD_CALLS, ("train.py", line)) for line in (10, 20))
ADAM, CRITIC, TEMPERATURE = (StepEvent(OPTIMIZER_STEPS, name, name) for name in ("Adam", "Critic", "Temperature"))

STEPS: dict[str, tuple[StepEvent, ...]] = {
    "a plain loop": (DRAW, MODEL, PASS, ADAM),
    "a loop without a loader": (MODEL, PASS, ADAM),
    "a loop without an optimizer": (MODEL, PASS),
    "an inference": (MODEL,),
    "gradient accumulation": (*(DRAW, MODEL, PASS) * 4, ADAM),
    "a GAN": (DRAW, CRITIC_CALL, CRITIC_PASS, CRITIC, MODEL, PASS, ADAM),
    "a WGAN": (*(DRAW, CRITIC_CALL, CRITIC_PASS, CRITIC) * 5, MODEL, PASS, ADAM),
    "delayed updates of a policy": (*(CRITIC_CALL, CRITIC_PASS, CRITIC) * 2, *(PASS, ADAM, TEMPERATURE) * 2),
}
programs = pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
KERNELS = 9
"""Kernels that each event but a draw launches."""
APART_US = 10


@programs
def test_the_finder_of_a_program_ends_a_step_once_per_round(step: tuple[StepEvent, ...]) -> None:
    finder = StepFinder(lambda: len({event for event in step if event.source is OPTIMIZER_STEPS}))
    ends = [place for place, event in enumerate(step * 40) if finder.see(event)]
    assert {later - earlier for earlier, later in pairwise(ends[-10:])} == {len(step)}


@programs
def test_the_finder_of_a_trace_ends_a_step_once_per_round(step: tuple[StepEvent, ...]) -> None:
    builder = TraceBuilder()
    launches = [
        f"{event.source.option}{event.key}{number}"
        for event in step
        if event.source is not BATCH_DRAWS
        for number in range(KERNELS)
    ]
    launches[-1] = "multi_tensor_apply_kernel"  # by which a trace shows that a repetition is a step
    for place, name in enumerate(launches * 8):
        at = APART_US * (place + place // len(launches))  # with a pause after each round
        builder.kernel(at + 5, 4, launch=at, name=name)
    steps = builder.read().steps
    assert steps.source == "repetition"
    assert set((steps.end_ns - steps.start_ns).tolist()) == {1000 * APART_US * (len(launches) + 1)}
