"""Where a call was made, by the Python functions and ops around it, and by the source that is at hand."""

from pathlib import Path

import numpy as np
import pytest
from msgspec import to_builtins
from trace_builder import AUTOGRAD, MAIN, TraceBuilder

from pinprof.trace import Trace, read_trace
from pinprof.trace.callers import call_places, calling_function, places_of_ops, stack_of, usual_place
from pinprof.trace.lines import OPS_KEY, OpPlace, Place
from pinprof.trace.sources import Sources
from pinprof.trace.tables import Int64s

TRAIN = """\
import torch

def train(model, batches):
    for batch in batches:
        loss = model(batch).mean()
        loss.backward()
        print(loss.item())

def check(x):
    return x.item() if x else x.max().item()

def load(batch):
    torch.cuda.synchronize()
    return batch

train(None, [])
"""
"""A program; functions begin on lines 3, 9 and 12."""

ITEM = "<built-in method item of Tensor object at 0x7f00>"
BACKWARD = "<built-in method run_backward of torch._C._EngineBase object at 0x7f00>"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the program, and be in another one."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def wait(builder: TraceBuilder, start: float, *, op: str = "aten::item", thread: int = MAIN) -> None:
    builder.op(op, start, 30, thread=thread)
    builder.call("cudaStreamSynchronize", start + 5, 20, thread=thread)


def called_from(*functions: str) -> TraceBuilder:
    """A wait in an op, called from the last of some Python functions."""
    builder = TraceBuilder()
    for depth, function in enumerate(functions):
        builder.function(function, 10 + depth, 200 - 2 * depth)
    wait(builder, 100)
    builder.kernel(310, 5, launch=302)
    return builder


def place(builder: TraceBuilder, folder: Path) -> tuple[str | None, int | None, str | None]:
    trace = read_trace(builder.write(folder / "trace.json"))
    (line,) = call_places(trace, waits_of(trace), Sources(trace.path))
    return (line.file, line.line, line.function) if line else (None, None, None)


def waits_of(trace: Trace) -> Int64s:
    return np.flatnonzero(trace.calls.named("cudaStreamSynchronize".__eq__))


@pytest.mark.parametrize(
    ("functions", "line"),
    [
        (("train.py(3): train", ITEM), 7),
        (("train.py(1): <module>", "train.py(3): train", ITEM), 7),
        (("train.py(3): train", ITEM.replace("Tensor", "Parameter")), 7),
        (("train.py(16): <module>", "train.py(5): train", ITEM), 7),  # where they stood when the recording began
        (("train.py(12): load", "torch/cuda/__init__.py(1083): synchronize", "<built-in function _cuda>"), 13),
    ],
)
def test_a_wait_has_the_line_of_the_only_place_that_fits(program: Path, functions: tuple[str, ...], line: int) -> None:
    function = next(name.rpartition(" ")[2] for name in reversed(functions) if name.startswith("train.py"))
    assert place(called_from(*functions), program) == ("train.py", line, function)


@pytest.mark.parametrize(
    "functions",
    [
        ("train.py(9): check", ITEM),  # two places
        ("train.py(12): load", ITEM),  # none
        ("train.py(3): train",),  # what it called is unknown
        ("train.py(3): train", "nn.Module: Net_0", ITEM),
        ("train.py(3): train", "torch/nn/modules/module.py(1783): _call_impl", ITEM),
        ("train.py(3): train", "torch/nn/modules/loss.py(7): mean_of", ITEM),
        ("train.py(15): train", ITEM),  # not a line of it
        ("other.py(3): train", ITEM),
    ],
)
def test_a_wait_that_could_be_at_no_place_or_several_has_no_line(program: Path, functions: tuple[str, ...]) -> None:
    assert place(called_from(*functions), program)[1] is None


@pytest.mark.parametrize(
    ("other", "line"),
    [
        ("train.py(11): load", None),  # in the source on line 12
        ("train.py(3): evaluate", None),  # not in the source
        ("train.py(4): <lambda>", None),
        ("other.py(3): evaluate", 7),
        ("other.py(4): <lambda>", 7),
    ],
)
def test_a_file_that_lacks_a_recorded_function_is_not_the_one_that_ran(
    program: Path, other: str, line: int | None
) -> None:
    builder = called_from("train.py(3): train", ITEM)
    builder.function(other, 250, 10)
    assert place(builder, program) == ("train.py", line, "train")


def in_backward(*functions: str, start: float = 100, end: float = 200) -> TraceBuilder:
    """A wait of the autograd thread from 105 to 125 µs, while or not while the main thread is in some functions."""
    builder = TraceBuilder()
    builder.step(1, 0, 400)
    for depth, function in enumerate(functions):
        builder.function(function, start - 10 + depth, end - start + 20 - 2 * depth)
    builder.op("autograd::engine::evaluate_function: IndexBackward0", 99, 50, thread=AUTOGRAD)
    wait(builder, 100, op="aten::nonzero", thread=AUTOGRAD)
    builder.kernel(310, 5, launch=302)
    return builder


BACKWARDS = ("torch/_tensor.py(570): backward", "torch/autograd/graph.py(820): _engine_run_backward", BACKWARD)


def test_waits_in_the_autograd_engine_belong_to_the_function_that_runs_backward(program: Path) -> None:
    builder = in_backward("train.py(3): train", *BACKWARDS)
    assert place(builder, program) == ("train.py", 6, "train")
    trace = read_trace(program / "trace.json")
    (wait,) = waits_of(trace).tolist()
    assert trace.threads[trace.calls.thread[wait]].role == "autograd"
    assert stack_of(trace, int(calling_function(trace, np.array([wait]))[0])) == (
        BACKWARD,
        "torch/autograd/graph.py:820:_engine_run_backward",
        "torch/_tensor.py:570:backward",
        "train.py:3:train",
    )


@pytest.mark.parametrize(
    "functions", [("train.py(3): train",), ("train.py(3): train", BACKWARDS[0]), ("train.py(3): train", ITEM), ()]
)
def test_waits_in_the_autograd_engine_have_no_function_where_none_runs_backward(
    program: Path, functions: tuple[str, ...]
) -> None:
    assert place(in_backward(*functions), program) == (None, None, None)


def test_the_place_of_an_op_is_known_where_it_is_the_only_one(program: Path) -> None:
    """And then that of the same op in a trace without functions."""
    builder = TraceBuilder()
    for number, function in enumerate(("train.py(3): train", "train.py(9): check", "torch/nn/functional.py(1): mse")):
        begin = 100 * number
        builder.function(function, begin, 90)
        for position, op in enumerate(("aten::add", "aten::item")[: 1 + (number == 1)]):
            at = begin + 10 + 30 * position
            builder.op(op, at, 20)
            builder.op("aten::inner", at + 2, 15)
            builder.kernel(at + 10, 5, launch=at + 5)
    marked = builder.read()
    learned = places_of_ops(marked, Sources(str(program / "trace.json")))
    assert learned == [OpPlace("aten::item", "train.py", None, "check")]
    builder.events = [event for event in builder.events if event["cat"] != "python_function"]
    builder.metadata[OPS_KEY] = to_builtins(learned)
    lean = builder.read()
    launching = np.flatnonzero(lean.launches_work)
    sources = Sources(lean.path)
    assert usual_place(lean, launching[2:3], sources) == Place("train.py", None, "check")
    assert usual_place(lean, launching[:1], sources) == Place()
