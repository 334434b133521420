"""The ends of a program's steps, as its optimizer or its backward calls tell them."""

import os
from collections.abc import Callable
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook


def call_at_ends(ended: Callable[[], None]) -> None:
    """Call `ended` whenever a step has ended."""
    counted = 0
    per_step = int(os.environ["EXAM_CALLS_PER_STEP"])

    def count(*_: object) -> None:
        nonlocal counted
        counted += 1
        if counted % per_step == 0:
            ended()

    if os.environ["EXAM_MARKER"] == "optimizer":
        register_optimizer_step_post_hook(count)
    else:
        _after_backward(count)


def _after_backward(count: Callable[[], None]) -> None:
    backward: Callable[..., None] = torch.Tensor.backward

    def counted_backward(self: torch.Tensor, *arguments: Any, **options: Any) -> None:
        backward(self, *arguments, **options)
        count()

    torch.Tensor.backward = counted_backward  # type: ignore[method-assign]
