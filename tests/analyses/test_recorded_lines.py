"""Recorded source lines: learned from marks next to waits, and given to the waits of another trace."""

import pytest
from trace_builder import AUTOGRAD, MAIN, TraceBuilder
from trace_parts import Part, call, function, on_thread, op, scene_of

from pinprof.analyses.syncs.lines.recorded import kinds_of_calls, lines_of_stalls
from pinprof.analyses.syncs.sites import measure_syncs
from pinprof.analyses.syncs.stalls import measure_stalls
from pinprof.trace.lines import RecordedLines, SourceLine

REPLICA = 102
"""A thread that is neither the main thread nor one of the autograd engine."""

LINES = [SourceLine("train.py", number, "train", (f"train.py:{number}:train",)) for number in (10, 20, 30)]


def mark(builder: TraceBuilder, at: float, line: int) -> None:
    """The mark that follows a wait once control is back in Python."""
    builder.event("user_annotation", f"pinprof line {line}", at, 1)


def item(builder: TraceBuilder, start: float, *, op: str = "aten::item", thread: int = MAIN) -> None:
    builder.op(op, start, 30, thread=thread)
    builder.call("cudaStreamSynchronize", start + 5, 20, thread=thread)


def learned(builder: TraceBuilder) -> list[dict[tuple[str, str], list[SourceLine | None]]]:
    """Return per complete step the lines of its waits by their kind."""
    trace = builder.read()
    stalls = measure_stalls(trace)
    steps: list[dict[tuple[str, str], list[SourceLine | None]]] = [{} for _ in range(len(trace.steps))]
    lines, kinds = lines_of_stalls(trace, stalls, LINES), kinds_of_calls(trace, stalls.call)
    for step, kind, at in zip(stalls.call_step.tolist(), kinds, lines, strict=True):
        steps[step].setdefault(kind, []).append(at)
    return steps


def steps(builder: TraceBuilder, count: int = 3) -> range:
    for start in builder.steps(count):
        builder.kernel(start + 10, 5, launch=start + 2)
    return range(0, 1000 * count, 1000)


def wait(start: float, *, op: str = "aten::item", thread: int = MAIN) -> Part:
    return lambda builder: item(builder, start, op=op, thread=thread)


def line(at: float, number: int) -> Part:
    return lambda builder: mark(builder, at, number)


MAIN_ITEM = ("aten::item", "main")
BACKWARD = "autograd::engine::evaluate_function: IndexBackward0"
LEARNED: dict[str, tuple[list[Part], dict[tuple[str, str], list[int | None]]]] = {
    "each wait has the mark that follows it": (
        [wait(100), line(135, 0), wait(200), line(235, 1)],
        {MAIN_ITEM: [10, 20]},
    ),
    "two waits of one call share its line": (
        [
            op("aten::repeat_interleave", 100, 80),
            *(call("cudaStreamSynchronize", at, 20) for at in (110, 140)),
            *(line(181, 2), line(184, 2)),
        ],
        {("aten::repeat_interleave", "main"): [30, 30]},
    ),
    "waits of one call of a builtin share its line": (
        [
            *(function("train.py(3): train", 80, 400), function("<built-in function pad>", 90, 200)),
            *(wait(100), wait(150), wait(200), line(291, 2)),
        ],
        {MAIN_ITEM: [30, 30, 30]},
    ),
    "a wait in Python code that a builtin calls has no line of it": (
        [
            *(
                function("train.py(3): train", 80, 400),
                function("<built-in method sort of list object at 0x1>", 90, 200),
            ),
            *(function("train.py(9): key", 95, 50), wait(100), wait(200), line(291, 2)),
        ],
        {MAIN_ITEM: [None, 30]},
    ),
    "a call that is not marked gets no line of another": (
        [op("aten::empty", 50, 20), call("cudaMalloc", 55, 10), wait(100), line(135, 0)],
        {("aten::empty", "main"): [None], MAIN_ITEM: [10]},
    ),
    "a wait inside of Python code within an op has its own mark": (
        [op("mine::layer", 90, 300), wait(100), line(135, 0), wait(200), line(235, 1)],
        {("mine::layer", "main"): [10, 20]},
    ),
    "waits of the autograd thread have the line of backward": (
        [
            op(BACKWARD, 90, 200, thread=AUTOGRAD),
            *(wait(at, op="aten::nonzero", thread=AUTOGRAD) for at in (100, 150)),
            *(line(300, 2), line(303, 2), wait(400), line(435, 0)),
        ],
        {("aten::nonzero", "autograd"): [30, 30], MAIN_ITEM: [10]},
    ),
    "marks of a thread, as of a replica, are of its own waits": (
        [
            *(wait(100), wait(102, thread=REPLICA)),
            *(on_thread(REPLICA, "user_annotation", "pinprof line 1", 134, 1), line(140, 0)),
        ],
        {MAIN_ITEM: [10], ("aten::item", "other"): [20]},
    ),
}
"""What each of three steps has, and the lines that its waits get."""


@pytest.mark.parametrize(("parts", "lines"), LEARNED.values(), ids=LEARNED)
def test_waits_have_the_lines_of_their_marks(parts: list[Part], lines: dict[tuple[str, str], list[int | None]]) -> None:
    builder = TraceBuilder()
    for start in steps(builder):
        scene_of(*parts)(builder, start)
    for step in learned(builder):
        assert {kind: [at.line if at else None for at in found] for kind, found in step.items()} == lines


def test_a_wait_without_a_mark_has_its_function_at_least() -> None:
    builder = TraceBuilder()
    for start in steps(builder):
        builder.function("train.py(3): allocate", start + 50, 30)
        builder.op("aten::empty", start + 55, 20)
        builder.call("cudaMalloc", start + 60, 10)
        item(builder, start + 100)
        mark(builder, start + 135, 0)
    ((place,), *_) = (step["aten::empty", "main"] for step in learned(builder))
    assert place == SourceLine("train.py", None, "allocate", ("train.py:3:allocate",), "device_malloc")


def sites_of(builder: TraceBuilder, lines: list[RecordedLines]) -> list[tuple[int | None, int]]:
    builder.metadata["pinprof_lines"] = [
        {"op": entry.op, "thread": entry.thread, "at": [line and vars(line) for line in entry.at]} for entry in lines
    ]
    trace = builder.read()
    return sorted((site.line, site.total.count) for site in measure_syncs(trace).sites)


def two_items(builder: TraceBuilder) -> TraceBuilder:
    for start in steps(builder):
        item(builder, start + 100)
        item(builder, start + 200)
    return builder


@pytest.mark.parametrize(("at", "sites"), [((0, 1), [(10, 3), (20, 3)]), ((0, 1, 2), [(None, 6)])])
def test_recorded_lines_go_to_as_many_waits_in_order(at: tuple[int, ...], sites: list[tuple[int | None, int]]) -> None:
    recorded = [RecordedLines("aten::item", "main", tuple(LINES[place] for place in at))]
    assert sites_of(two_items(TraceBuilder()), recorded) == sites


def test_a_recorded_line_brings_cause_function_and_stack() -> None:
    line = SourceLine("src/loss.py", 7, "compute", ("src/loss.py:7:compute", "train.py:3:<module>"), "tolist")
    builder = TraceBuilder()
    for start in steps(builder):
        item(builder, start + 100)
    builder.metadata["pinprof_lines"] = [{"op": "aten::item", "thread": "main", "at": [vars(line)]}]
    (site,) = measure_syncs(builder.read()).sites
    assert (site.cause, site.file, site.line, site.function) == ("tolist", "src/loss.py", 7, "compute")
    assert site.stack == line.stack
