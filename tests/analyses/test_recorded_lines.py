"""Recorded source lines: learned from marks next to waits, and given to the waits of another trace."""

from pathlib import Path

from trace_builder import AUTOGRAD, MAIN, TraceBuilder

from pinprof.analyses.syncs import measure_stalls, measure_syncs
from pinprof.analyses.syncs.lines.recorded import learn_lines, lines_of_stalls
from pinprof.trace import read_trace
from pinprof.trace.lines import RecordedLines, SourceLine
from pinprof.trace.tables import Trace

REPLICA = 102
"""A thread that is neither the main thread nor one of the autograd engine."""

LINES = [SourceLine("train.py", number, "train", (f"train.py:{number}:train",)) for number in (10, 20, 30)]


def mark(builder: TraceBuilder, at: float, line: int) -> None:
    """The mark that follows a wait once control is back in Python."""
    builder.event("user_annotation", f"pinprof line {line}", at, 1)


def item(builder: TraceBuilder, start: float, *, op: str = "aten::item", thread: int = MAIN) -> None:
    builder.op(op, start, 30, thread=thread)
    builder.call("cudaStreamSynchronize", start + 5, 20, thread=thread)


def learn(trace: Trace) -> tuple[RecordedLines, ...]:
    stalls = measure_stalls(trace)
    return learn_lines(trace, stalls, lines_of_stalls(trace, stalls, LINES))


def learned(builder: TraceBuilder, folder: Path) -> dict[tuple[str, str], list[int | None]]:
    trace = read_trace(builder.write(folder / "marked.json"))
    recorded = learn(trace)
    return {(entry.op, entry.thread): [line.line if line else None for line in entry.at] for entry in recorded}


def steps(builder: TraceBuilder, count: int = 3) -> range:
    for start in builder.steps(count):
        builder.kernel(start + 10, 5, launch=start + 2)
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


def test_waits_of_one_call_of_a_builtin_share_its_line(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for start in steps(builder):
        builder.function("train.py(3): train", start + 80, 400)
        builder.function("<built-in function pad>", start + 90, 200)  # it reads three tensors
        for place in (100, 150, 200):
            item(builder, start + place)
        mark(builder, start + 291, 2)
    assert learned(builder, tmp_path) == {("aten::item", "main"): [30, 30, 30]}


def test_a_wait_in_python_code_that_a_builtin_calls_has_no_line_of_it(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for start in steps(builder):
        builder.function("train.py(3): train", start + 80, 400)
        builder.function("<built-in method sort of list object at 0x1>", start + 90, 200)
        builder.function("train.py(9): key", start + 95, 50)
        item(builder, start + 100)
        item(builder, start + 200)
        mark(builder, start + 291, 2)
    assert learned(builder, tmp_path) == {("aten::item", "main"): [None, 30]}


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


def test_marks_of_a_thread_are_of_its_own_waits(tmp_path: Path) -> None:
    """A replica of DataParallel waits, and marks its wait, while the main thread does."""
    builder = TraceBuilder()
    for start in steps(builder):
        item(builder, start + 100)
        item(builder, start + 102, thread=REPLICA)
        builder.on_thread(REPLICA, "user_annotation", "pinprof line 1", start + 134, 1)
        mark(builder, start + 140, 0)
    assert learned(builder, tmp_path) == {("aten::item", "main"): [10], ("aten::item", "other"): [20]}


def test_a_wait_without_a_mark_has_its_function_at_least(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for start in steps(builder):
        builder.function("train.py(3): allocate", start + 50, 30)
        builder.op("aten::empty", start + 55, 20)
        builder.call("cudaMalloc", start + 60, 10)
        item(builder, start + 100)
        mark(builder, start + 135, 0)
    trace = read_trace(builder.write(tmp_path / "marked.json"))
    recorded = {entry.op: entry.at for entry in learn(trace)}
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


def test_steps_with_different_numbers_of_waits_have_lines_of_their_own(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for number, start in enumerate(steps(builder)):
        if number == 1:
            item(builder, start + 50)
            mark(builder, start + 85, 1)
        item(builder, start + 100)
        mark(builder, start + 135, 0)
    trace = read_trace(builder.write(tmp_path / "marked.json"))
    recorded = learn(trace)
    assert [[line.line if line else None for line in entry.at] for entry in recorded] == [[10], [20, 10]]
    assert sites_of(builder, list(recorded), tmp_path) == [(10, 3), (20, 1)]


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


def test_a_recorded_line_goes_before_one_that_is_looked_up(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("def train(loss):\n    loss.item()\n")
    builder = TraceBuilder()
    builder.function("train.py(1): train", 10, 200)
    builder.function("<built-in method item of Tensor object at 0x7f00>", 50, 100)
    item(builder, 100)
    builder.kernel(310, 5, launch=302)
    path = builder.write(tmp_path / "trace.json")
    assert [site.line for site in measure_syncs(read_trace(path)).sites] == [2]
    builder.metadata["pinprof_lines"] = [{"op": "aten::item", "thread": "main", "at": [vars(LINES[1])]}]
    path = builder.write(tmp_path / "trace.json")
    assert [site.line for site in measure_syncs(read_trace(path)).sites] == [20]
