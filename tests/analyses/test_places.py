from pathlib import Path

import pytest
from trace_builder import AUTOGRAD, MAIN, TraceBuilder

from pinprof.analyses.syncs import learn_lines, measure_stalls, measure_syncs
from pinprof.trace import read_trace
from pinprof.trace.lines import RecordedLines, SourceLine

LINES = [SourceLine("train.py", number, "train", (f"train.py:{number}:train",)) for number in (10, 20, 30)]


def mark(builder: TraceBuilder, at: float, line: int) -> None:
    """The mark that follows a wait once control is back in Python."""
    builder.event("user_annotation", f"pinprof line {line}", at, 1)


def item(builder: TraceBuilder, start: float, *, op: str = "aten::item", thread: int = MAIN) -> None:
    builder.op(op, start, 30, thread=thread)
    builder.call("cudaStreamSynchronize", start + 5, 20, thread=thread)


def learned(builder: TraceBuilder, folder: Path) -> dict[tuple[str, str], list[int | None]]:
    trace = read_trace(builder.write(folder / "marked.json"))
    recorded = learn_lines(trace, measure_stalls(trace), LINES)
    return {(entry.op, entry.thread): [line.line if line else None for line in entry.at] for entry in recorded}


def steps(builder: TraceBuilder, count: int = 3) -> range:
    for number in range(count):
        builder.step(number, 1000 * number, 990)
        builder.kernel(1000 * number + 10, 5, launch=1000 * number + 2)
    return range(0, 1000 * count, 1000)


def test_each_wait_has_the_mark_that_follows_it(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for start in steps(builder):
        item(builder, start + 100)
        mark(builder, start + 135, 0)
        item(builder, start + 200)
        mark(builder, start + 235, 1)
    assert learned(builder, tmp_path) == {("aten::item", "main"): [10, 20]}


def test_two_waits_of_one_call_share_its_line(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for start in steps(builder):
        builder.op("aten::repeat_interleave", start + 100, 80)
        builder.call("cudaStreamSynchronize", start + 110, 20)
        builder.call("cudaStreamSynchronize", start + 140, 20)
        mark(builder, start + 181, 2)
        mark(builder, start + 184, 2)
    assert learned(builder, tmp_path) == {("aten::repeat_interleave", "main"): [30, 30]}


def test_a_call_that_is_not_marked_gets_no_line_of_another(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for start in steps(builder):
        builder.op("aten::empty", start + 50, 20)
        builder.call("cudaMalloc", start + 55, 10)
        item(builder, start + 100)
        mark(builder, start + 135, 0)
    assert learned(builder, tmp_path) == {("aten::empty", "main"): [None], ("aten::item", "main"): [10]}


def test_a_wait_inside_of_python_code_within_an_op_has_its_own_mark(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for start in steps(builder):
        builder.op("mine::layer", start + 90, 300)
        item(builder, start + 100)
        mark(builder, start + 135, 0)
        item(builder, start + 200)
        mark(builder, start + 235, 1)
    assert learned(builder, tmp_path) == {("mine::layer", "main"): [10, 20]}


def test_waits_of_the_autograd_thread_have_the_line_of_backward(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for start in steps(builder):
        builder.op("autograd::engine::evaluate_function: IndexBackward0", start + 90, 200, thread=AUTOGRAD)
        item(builder, start + 100, op="aten::nonzero", thread=AUTOGRAD)
        item(builder, start + 150, op="aten::nonzero", thread=AUTOGRAD)
        mark(builder, start + 300, 2)
        mark(builder, start + 303, 2)
        item(builder, start + 400)
        mark(builder, start + 435, 0)
    assert learned(builder, tmp_path) == {("aten::nonzero", "autograd"): [30, 30], ("aten::item", "main"): [10]}


def test_a_wait_without_a_mark_has_its_function_at_least(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for start in steps(builder):
        builder.function("train.py(3): allocate", start + 50, 30)
        builder.op("aten::empty", start + 55, 20)
        builder.call("cudaMalloc", start + 60, 10)
        item(builder, start + 100)
        mark(builder, start + 135, 0)
    trace = read_trace(builder.write(tmp_path / "marked.json"))
    recorded = {entry.op: entry.at for entry in learn_lines(trace, measure_stalls(trace), LINES)}
    (place,) = recorded["aten::empty"]
    assert place == SourceLine("train.py", None, "allocate", ("train.py:3:allocate",), "device_malloc")


def test_lines_on_which_the_steps_differ_are_not_certain(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for number, start in enumerate(steps(builder)):
        item(builder, start + 100)
        mark(builder, start + 135, number % 2)
        item(builder, start + 200)
        mark(builder, start + 235, 2)
    assert learned(builder, tmp_path) == {("aten::item", "main"): [None, 30]}


def test_a_step_with_another_number_of_waits_does_not_spoil_the_usual_ones(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for number, start in enumerate(steps(builder)):
        item(builder, start + 100)
        mark(builder, start + 135, 0)
        if number == 1:
            item(builder, start + 200)
            mark(builder, start + 235, 1)
    assert learned(builder, tmp_path) == {("aten::item", "main"): [10]}


def sites_of(builder: TraceBuilder, lines: list[RecordedLines], folder: Path) -> list[tuple[int | None, int]]:
    builder.metadata["pinprof_lines"] = [
        {"op": entry.op, "thread": entry.thread, "at": [line and vars(line) for line in entry.at]} for entry in lines
    ]
    trace = read_trace(builder.write(folder / "lean.json"))
    return sorted((site.line, site.total.count) for site in measure_syncs(trace).sites)


def two_items(builder: TraceBuilder) -> TraceBuilder:
    for start in steps(builder):
        item(builder, start + 100)
        item(builder, start + 200)
    return builder


def test_recorded_lines_go_to_the_waits_in_order(tmp_path: Path) -> None:
    recorded = [RecordedLines("aten::item", "main", (LINES[0], LINES[1]))]
    assert sites_of(two_items(TraceBuilder()), recorded, tmp_path) == [(10, 3), (20, 3)]


def test_another_number_of_waits_gets_a_line_only_if_all_are_one(tmp_path: Path) -> None:
    recorded = [RecordedLines("aten::item", "main", (LINES[0], LINES[0], LINES[0]))]
    assert sites_of(two_items(TraceBuilder()), recorded, tmp_path) == [(10, 6)]


def test_another_number_of_waits_at_several_lines_gets_none(tmp_path: Path) -> None:
    recorded = [RecordedLines("aten::item", "main", (LINES[0], LINES[1], LINES[2]))]
    trace = two_items(TraceBuilder())
    trace.metadata["pinprof_lines"] = [
        {"op": entry.op, "thread": entry.thread, "at": [line and vars(line) for line in entry.at]} for entry in recorded
    ]
    (site,) = measure_syncs(read_trace(trace.write(tmp_path / "lean.json"))).sites
    assert (site.line, site.total.count) == (None, 6)


def test_a_recorded_line_brings_cause_function_and_stack(tmp_path: Path) -> None:
    line = SourceLine("src/loss.py", 7, "compute", ("src/loss.py:7:compute", "train.py:3:<module>"), "tolist")
    builder = TraceBuilder()
    for start in steps(builder):
        item(builder, start + 100)
    builder.metadata["pinprof_lines"] = [{"op": "aten::item", "thread": "main", "at": [vars(line)]}]
    (site,) = measure_syncs(read_trace(builder.write(tmp_path / "lean.json"))).sites
    assert (site.cause, site.file, site.line, site.function) == ("tolist", "src/loss.py", 7, "compute")
    assert site.stack == line.stack


def test_all_waits_of_one_line_and_cause_are_one_site(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for start in steps(builder):
        item(builder, start + 100)
        item(builder, start + 200, op="aten::masked_select")
    shown = [SourceLine("train.py", 7, "train", (f"torch/_tensor_str.py:{number}:_str",), "print") for number in (1, 2)]
    builder.metadata["pinprof_lines"] = [
        {"op": "aten::item", "thread": "main", "at": [vars(shown[0])]},
        {"op": "aten::masked_select", "thread": "main", "at": [vars(shown[1])]},
    ]
    (site,) = measure_syncs(read_trace(builder.write(tmp_path / "lean.json"))).sites
    assert (site.cause, site.line, site.total.count) == ("print", 7, 6)


def test_broken_lines_in_the_metadata_are_left_out(tmp_path: Path) -> None:
    builder = two_items(TraceBuilder())
    builder.metadata["pinprof_lines"] = [{"op": 5}]
    (site,) = measure_syncs(read_trace(builder.write(tmp_path / "lean.json"))).sites
    assert site.line is None


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


def called_from(*functions: str) -> TraceBuilder:
    """A wait in an op, called from the last of some Python functions."""
    builder = TraceBuilder()
    for depth, function in enumerate(functions):
        builder.function(function, 10 + depth, 200 - 2 * depth)
    item(builder, 100)
    builder.kernel(310, 5, launch=302)
    return builder


def place(builder: TraceBuilder, folder: Path) -> tuple[str | None, int | None, str | None]:
    (site,) = measure_syncs(read_trace(builder.write(folder / "trace.json"))).sites
    return site.file, site.line, site.function


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
        ("train.py(3): train",),  # nothing tells what it called
        ("train.py(3): train", "nn.Module: Net_0", ITEM),
        ("train.py(3): train", "torch/nn/modules/module.py(1783): _call_impl", ITEM),
        ("train.py(3): train", "torch/nn/modules/loss.py(7): mean_of", ITEM),
        ("train.py(15): train", ITEM),  # not a line of it
        ("other.py(3): train", ITEM),
    ],
)
def test_a_wait_that_could_be_at_no_place_or_several_has_no_line(program: Path, functions: tuple[str, ...]) -> None:
    assert place(called_from(*functions), program)[1] is None


def test_the_line_is_that_of_the_call_in_the_users_code(program: Path) -> None:
    functions = ("train.py(3): train", "torch/_tensor.py(570): backward", "torch/autograd/__init__.py(7): backward")
    assert place(called_from(*functions, BACKWARD), program) == ("train.py", 6, "train")


def test_a_file_whose_functions_moved_is_not_the_one_that_ran(program: Path) -> None:
    builder = called_from("train.py(3): train", ITEM)
    builder.function("train.py(11): load", 250, 10)  # the source has it on line 12
    assert place(builder, program) == ("train.py", None, "train")


def test_a_function_that_the_file_does_not_have_spoils_it(program: Path) -> None:
    builder = called_from("train.py(3): train", ITEM)
    builder.function("train.py(3): evaluate", 250, 10)
    assert place(builder, program) == ("train.py", None, "train")


def test_functions_of_other_files_do_not_spoil_it(program: Path) -> None:
    builder = called_from("train.py(3): train", ITEM)
    builder.function("other.py(3): evaluate", 250, 10)
    builder.function("train.py(4): <lambda>", 250, 10)
    assert place(builder, program) == ("train.py", 7, "train")


@pytest.mark.parametrize("source", ["", "def train(", "\0", "print 'old'"])
def test_a_source_that_is_no_python_gives_no_line(program: Path, source: str) -> None:
    (program / "train.py").write_text(source)
    assert place(called_from("train.py(3): train", ITEM), program) == ("train.py", None, "train")


def test_a_recorded_line_goes_before_one_that_is_looked_up(program: Path) -> None:
    builder = called_from("train.py(3): train", ITEM)
    builder.metadata["pinprof_lines"] = [{"op": "aten::item", "thread": "main", "at": [vars(LINES[1])]}]
    assert place(builder, program) == ("train.py", 20, "train")


def in_backward(*functions: str, start: float = 100, end: float = 200) -> TraceBuilder:
    """A wait of the autograd thread from 105 to 125 µs, while or not while the main thread is in some functions."""
    builder = TraceBuilder()
    builder.step(1, 0, 400)
    for depth, function in enumerate(functions):
        builder.function(function, start - 10 + depth, end - start + 20 - 2 * depth)
    builder.op("autograd::engine::evaluate_function: IndexBackward0", 99, 50, thread=AUTOGRAD)
    item(builder, 100, op="aten::nonzero", thread=AUTOGRAD)
    builder.kernel(310, 5, launch=302)
    return builder


BACKWARDS = ("torch/_tensor.py(570): backward", "torch/autograd/graph.py(820): _engine_run_backward", BACKWARD)


def test_waits_in_the_autograd_engine_belong_to_the_function_that_runs_backward(program: Path) -> None:
    builder = in_backward("train.py(3): train", *BACKWARDS)
    (site,) = measure_syncs(read_trace(builder.write(program / "trace.json"))).sites
    assert (site.thread, site.file, site.line, site.function) == ("autograd", "train.py", 6, "train")
    assert site.stack == (
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


def test_waits_in_the_autograd_engine_have_no_function_once_backward_has_returned(program: Path) -> None:
    assert place(in_backward("train.py(3): train", *BACKWARDS, start=20, end=90), program) == (None, None, None)


def test_python_code_in_the_autograd_engine_is_its_own_function(program: Path) -> None:
    builder = in_backward("train.py(3): train", *BACKWARDS)
    builder.function("train.py(12): load", 99.5, 40, thread=AUTOGRAD)
    builder.function(ITEM, 99.7, 39, thread=AUTOGRAD)
    assert place(builder, program) == ("train.py", None, "load")


def test_waits_of_other_threads_do_not_belong_to_backward(program: Path) -> None:
    builder = TraceBuilder()
    builder.step(1, 0, 400)
    for depth, function in enumerate(("train.py(3): train", *BACKWARDS)):
        builder.function(function, 50 + depth, 200 - 2 * depth)
    item(builder, 100, thread=777)
    builder.kernel(310, 5, launch=302)
    assert place(builder, program) == (None, None, None)
