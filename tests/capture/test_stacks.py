"""Stacks of functions compiled here, whose files' names say whose they are."""

import sys
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import pinprof
from pinprof.capture.observe.stacks import RawStack, Sample, host_profile_of, raw_stack
from pinprof.trace.metadata.sampled_stacks import HostFrame, HostProfile

PACKAGE = Path(pinprof.__file__).parent
TORCH = Path(torch.__file__).parent
BODY = "def call(inner):\n    return inner()\n"


def function(file: str | Path, body: str = BODY) -> Any:
    scope: dict[str, Any] = {}
    exec(compile(body, str(file), "exec"), scope)
    return scope["call"]


def stack_of(*files: str | Path) -> RawStack:
    """Return the stack of functions in these files, the outermost first, without the frames of this test."""
    frames: list[FrameType] = []

    def note() -> None:
        frames.append(sys._getframe(1))

    inner: Any = note
    for file in reversed(files):
        inner = partial(function(file), inner)
    inner()
    stack = raw_stack(frames[0])
    kept = [pair for pair in zip(stack[::2], stack[1::2], strict=True) if getattr(pair[0], "co_name", "") == "call"]
    return tuple(part for pair in kept for part in pair)


def profile(*samples: tuple[int, RawStack]) -> HostProfile:
    return host_profile_of([Sample(0, ticks, stack) for ticks, stack in samples], 0.01, 3, 0.5, None)


def files(host: HostProfile) -> list[list[str]]:
    return [[Path(host.frames[index].file).name for index in stack.frames] for stack in host.stacks]


def test_frames_are_named_outermost_first_with_whose_they_are() -> None:
    host = profile((1, stack_of("/home/me/train.py", TORCH / "nn" / "linear.py", "<frozen importlib>")))
    assert host.frames == (
        HostFrame("/home/me/train.py", 2, "call", "user"),
        HostFrame("torch/nn/linear.py", 2, "call", "torch"),
        HostFrame("<frozen importlib>", 2, "call", "library"),
    )
    assert host.stacks[0].frames == (0, 1, 2)


def test_what_pinprof_does_between_steps_is_in_no_sample() -> None:
    between = PACKAGE / "capture" / "window" / "timing.py"
    host = profile((5, stack_of("train.py", between, "numpy/median.py")), (1, stack_of("train.py")))
    assert host.samples == 1
    wrapper = PACKAGE / "capture" / "observe" / "journal.py"  # which calls what the program called
    assert profile((5, stack_of("train.py", wrapper, TORCH / "utils" / "data.py"))).samples == 5


def test_equal_stacks_are_counted_the_most_frequent_first() -> None:
    one, two = stack_of("/home/me/one.py"), stack_of("/home/me/two.py")
    host = profile((1, one), (2, two), (1, two))
    assert [stack.count for stack in host.stacks] == [3, 1]
    assert (host.samples, host.steps, host.interval_ms, host.window_ms) == (4, 3, 10.0, 500.0)


def test_frames_of_pinprof_and_those_around_its_commands_are_left_out() -> None:
    stack = stack_of(
        "/home/me/bin.py",
        PACKAGE / "cli" / "run.py",
        PACKAGE / "capture" / "script.py",
        "/home/me/train.py",
        PACKAGE / "capture" / "markers.py",
        TORCH / "optim.py",
    )
    assert files(profile((1, stack))) == [["train.py", "optim.py"]]


def test_a_function_that_has_not_begun_belongs_to_its_caller() -> None:
    code = function("/home/me/model.py").__code__
    outer = stack_of("/home/me/train.py")
    begun = profile((1, (code, _after_entry(code), *outer)))
    assert files(begun) == [["train.py", "model.py"]]
    for entry in _entries(code):
        assert files(profile((1, (code, entry, *outer)))) == [["train.py"]]


def _entries(code: Any) -> list[int]:
    """Return the instructions at which a function has run nothing of its own."""
    return [-1] if sys.version_info < (3, 11) else [-1, 0]


def _after_entry(code: Any) -> int:
    return len(code.co_code) - 2
