"""The way from the user's line to a wait: the library's function, and the frames between."""

import pytest
from trace_builder import TraceBuilder

from pinprof.trace.callers import CallPath, call_path, calling_function, stack_of
from pinprof.trace.lines import Place

USER = Place("train.py", 30, "main")
LIBRARY = "/opt/env/lib/python3.12/site-packages/torchvision/models/detection/"
DETECTOR = (
    *("torch/_tensor.py:100:__getitem__", f"{LIBRARY}roi_heads.py:632:fastrcnn_loss"),
    *(f"{LIBRARY}roi_heads.py:790:forward", "torch/nn/modules/module.py:1790:_call_impl"),
    *("torch/nn/modules/module.py:1779:_wrapped_call_impl", f"{LIBRARY}generalized_rcnn.py:104:forward"),
    *("torch/nn/modules/module.py:1790:_call_impl", "train.py:30:main", "train.py:50:<module>"),
)
LOSS = Place("torchvision/models/detection/roi_heads.py", 632, "fastrcnn_loss")
PATH = (
    "train.py:30:main",
    "torchvision/models/detection/generalized_rcnn.py:104:forward",
    "torchvision/models/detection/roi_heads.py:790:forward",
    "torchvision/models/detection/roi_heads.py:632:fastrcnn_loss",
)


@pytest.mark.parametrize(
    ("stack", "place", "expected"),
    [
        (DETECTOR, USER, CallPath(LOSS, PATH)),
        (DETECTOR, USER._replace(line=None), CallPath(LOSS._replace(line=None), PATH)),  # where functions begin
        (DETECTOR[:3], USER, CallPath(LOSS, (PATH[0], *PATH[2:]))),  # cut
        (DETECTOR[:-2], Place(), CallPath(LOSS, PATH[1:])),  # without a place of the user
        ((), USER, CallPath()),
        (("train.py:30:main",), USER, CallPath()),
        (("torch/_tensor.py:100:tolist", "train.py:30:main"), USER, CallPath()),
        (
            ("train.py:30:main", "lightning/pytorch/loops/optimization.py:9:run", "train.py:80:<module>"),
            USER,
            CallPath(),
        ),
    ],
)
def test_the_path_leads_from_the_users_line_to_the_innermost_frame_outside_of_torch(
    stack: tuple[str, ...], place: Place, expected: CallPath
) -> None:
    assert call_path(stack, place, certain=place.line is not None or not place.file) == expected


@pytest.mark.parametrize(
    "frame",
    [
        "torch/optim/optimizer.py:5:step",
        "/usr/lib/python3/dist-packages/torch/nn/functional.py:9:pad",
        "/usr/lib/python3.12/contextlib.py:81:inner",
        "contextlib.py:81:inner",
        "<frozen importlib._bootstrap>:241:_call_with_frames_removed",
        "<eval_with_key>.1 from /env/lib/python3.12/site-packages/torch/fx/x.py:17 in wrapped:9:forward",
        "/tmp/torchinductor_me/jq/cjq7r7iw5d3z3npy26rxkuyufj72hbecezzqtwsabaj4ytygqbs6.py:107:call",
        "cache/jq/cjq7r7iw5d3z3npy26rxkuyufj72hbecezzqtwsabaj4ytygqbs6.py:107:call",
        "pinprof/capture/markers.py:7:step",
        "<built-in method item of Tensor object at 0x7f00>",
        "nn.Module: Linear_0",
        "",
    ],
)
def test_frames_of_torch_and_python_and_what_torch_wrote_are_no_library(frame: str) -> None:
    assert call_path((frame, "train.py:30:main"), USER, certain=True) == CallPath()


def test_a_function_that_torch_compiled_has_no_line() -> None:
    stack = ("torch/_inductor/output_code.py:7:__call__", "torch/_dynamo/eval_frame.py:14:_fn", "model.py:3:forward")
    assert call_path((*stack, "train.py:30:main"), USER, certain=True).library == Place("model.py", None, "forward")


LOSS_FUNCTION = "torchvision/models/detection/roi_heads.py(20): fastrcnn_loss"


def test_a_stack_reaches_the_users_own_code_however_deep_the_library_is() -> None:
    builder = TraceBuilder()
    builder.step(1, 0, 4000)
    names = ("run.py(1): <module>", "train.py(3): main", *[LOSS_FUNCTION] * 60)
    for depth, name in enumerate(names):
        builder.function(name, 50 + depth, 2000 - 2 * depth)
    builder.call("cudaStreamSynchronize", 200, 50)
    trace = builder.read()
    waits = trace.calls.named("cudaStreamSynchronize".__eq__).nonzero()[0]
    stack = stack_of(trace, int(calling_function(trace, waits)[0]))
    assert stack == ("torchvision/models/detection/roi_heads.py:20:fastrcnn_loss",) * 60 + ("train.py:3:main",)
