"""A hand-built trace of a program whose waits are in libraries: a detector of torchvision that one line calls."""

from collections.abc import Sequence
from typing import NamedTuple

from trace_builder import TraceBuilder

STEPS, STEP_US = 4, 2_000
"""Steps, and the length of each."""
WAIT_US = 50
"""Stall of each wait: the kernel before it ends 5 µs before the host goes on."""
FOLDER = "torchvision/models/detection"
MODULE = ("torch/nn/modules/module.py:1790:_call_impl", "torch/nn/modules/module.py:1779:_wrapped_call_impl")


class Wait(NamedTuple):
    """A wait of each step."""

    op: str
    cause: str
    stack: tuple[str, ...]
    """Of its recorded line, innermost first; empty for none."""
    line: int
    """Of the user's code, in train.py."""
    function: str = "main"


def in_detector(op: str, cause: str, *frames: str, line: int = 30, function: str = "main") -> Wait:
    """Return a wait in frames of torchvision, innermost first, that a line of the user's code calls."""
    outer = (*MODULE, f"{FOLDER}/generalized_rcnn.py:104:forward", *MODULE, f"train.py:{line}:{function}")
    return Wait(op, cause, ("torch/functional.py:9:where", *frames, *outer), line, function)


LOSS = f"{FOLDER}/roi_heads.py:32:fastrcnn_loss"
NMS = "torchvision/ops/boxes.py:83:batched_nms"
PROPOSALS = f"{FOLDER}/rpn.py:287:filter_proposals"
WAITS = (
    in_detector("aten::item", "item", f"{FOLDER}/transform.py:245:batch_images"),
    in_detector("aten::nonzero", "nonzero", f"{FOLDER}/_utils.py:60:__call__", f"{FOLDER}/rpn.py:316:assign"),
    in_detector("aten::nonzero", "nonzero", NMS, PROPOSALS),
    in_detector("aten::nonzero", "nonzero", LOSS),
    in_detector("aten::index", "mask_index", LOSS),
    in_detector("aten::nonzero", "nonzero", f"{FOLDER}/roi_heads.py:40:fastrcnn_loss"),
    Wait("aten::item", "item", ("train.py:32:main",), 32),
    in_detector("aten::nonzero", "nonzero", NMS, f"{FOLDER}/roi_heads.py:700:post", line=60, function="evaluate"),
)
"""Seven waits in libraries and one of the user's own; one function of a library is called from two lines."""


def detector(waits: Sequence[Wait] = WAITS, *, with_lines: bool = True) -> TraceBuilder:
    """Return a trace of steps with these waits in order, each behind a kernel that it awaits; the GPU is idle after."""
    builder = TraceBuilder()
    for first in builder.steps(STEPS, STEP_US):
        for position, wait in enumerate(waits):
            start = first + 20 + 200 * position
            builder.kernel(start, 60, launch=start - 15)
            builder.op(wait.op, start + 10, WAIT_US + 8)
            builder.call("cudaStreamSynchronize", start + 15, WAIT_US)
        builder.kernel(first + STEP_US - 200, 20, launch=first + STEP_US - 210)
    if with_lines:
        builder.metadata["pinprof_lines"] = lines(waits)
    return builder


def lines(waits: Sequence[Wait]) -> list[dict[str, object]]:
    """Return what the lines window stores of these waits."""
    made: dict[str, list[object]] = {}
    for wait in waits:
        place = {"file": "train.py", "line": wait.line, "function": wait.function}
        made.setdefault(wait.op, []).append({**place, "stack": list(wait.stack), "cause": wait.cause})
    return [{"op": op, "thread": "main", "at": at} for op, at in made.items()]
