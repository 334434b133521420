"""Host threads: their names and roles."""

from typing import Any

import pytest
from trace_builder import AUTOGRAD, MAIN, TraceBuilder

BACKWARD = "autograd::engine::evaluate_function: MmBackward0"
OTHER = 202


def label(builder: TraceBuilder, thread: Any, name: Any) -> None:
    """Name a thread as the profiler does it, in an event without duration."""
    builder.events.append(
        {"ph": "M", "name": "thread_name", "pid": MAIN, "tid": thread, "ts": 0, "args": {"name": name}}
    )


def roles(builder: TraceBuilder) -> dict[Any, str]:
    return {thread.tid: thread.role for thread in builder.read().threads}


@pytest.mark.parametrize(
    ("ops", "thread", "name", "others"),
    [
        (["aten::mm"] * 20, OTHER, None, {OTHER: "other"}),  # however busy it is
        ([BACKWARD], AUTOGRAD, None, {AUTOGRAD: "autograd"}),
        ([BACKWARD], MAIN, None, {}),
        (["aten::pin_memory"], OTHER, None, {OTHER: "pin_memory"}),
        (["aten::_pin_memory"], OTHER, None, {OTHER: "pin_memory"}),
        (["aten::empty"], OTHER, "thread 202 (pt_data_pin)", {OTHER: "pin_memory"}),
    ],
)
def test_the_thread_that_marks_the_steps_is_main_and_others_are_told_by_their_ops_or_name(
    ops: list[str], thread: int, name: str | None, others: dict[int, str]
) -> None:
    builder = TraceBuilder()
    builder.step(1, 0, 100)
    for time, op in enumerate(ops, start=10):
        builder.op(op, time, 1, thread=thread)
    label(builder, thread, name)
    assert roles(builder) == {MAIN: "main", **others}


def test_without_steps_the_busiest_thread_is_main() -> None:
    builder = TraceBuilder()
    builder.op("aten::mm", 0, 1, thread=OTHER)
    builder.op("aten::mm", 2, 1)
    builder.call("cudaLaunchKernel", 4, 1)
    assert roles(builder) == {OTHER: "other", MAIN: "main"}


def test_without_steps_the_thread_with_most_annotations_is_main() -> None:
    builder = TraceBuilder()
    builder.op("aten::mm", 0, 1)  # the process's own thread
    builder.on_thread(OTHER, "user_annotation", "Optimizer.step#Adam.step", 5, 1)
    for time in range(20):
        builder.op(BACKWARD, 10 + time, 1, thread=AUTOGRAD)
    assert roles(builder) == {MAIN: "other", OTHER: "main", AUTOGRAD: "autograd"}


def test_the_steps_tell_more_than_other_annotations() -> None:
    builder = TraceBuilder()
    builder.step(1, 0, 100)
    for time in range(5):
        builder.on_thread(OTHER, "user_annotation", "nccl:all_reduce", 10 * time, 5)
    assert roles(builder) == {MAIN: "main", OTHER: "other"}


def test_the_processs_own_thread_is_main_although_the_backward_pass_has_more_ops() -> None:
    builder = TraceBuilder()
    builder.op("aten::mm", 0, 1)
    for time in range(20):
        builder.op(BACKWARD, 10 + time, 1, thread=AUTOGRAD)
        builder.call("cudaLaunchKernel", 10 + time, 0.5, thread=AUTOGRAD)
    assert roles(builder) == {MAIN: "main", AUTOGRAD: "autograd"}


def test_the_processs_own_thread_is_not_main_if_it_does_nothing() -> None:
    builder = TraceBuilder()
    builder.function("train.py(1): <module>", 0, 100)
    builder.op("aten::mm", 10, 1, thread=OTHER)
    assert roles(builder) == {MAIN: "other", OTHER: "main"}


def test_the_track_of_the_profilers_overhead_is_never_main() -> None:
    builder = TraceBuilder()
    builder.op("aten::mm", 0, 1, thread=OTHER)
    for time in range(20):
        builder.overhead("Activity Buffer Request", time, 0.5)
    assert roles(builder) == {OTHER: "main", 0: "other"}


def test_a_hook_that_pins_in_the_backward_pass_leaves_it_autograd() -> None:
    builder = TraceBuilder()
    builder.step(1, 0, 100)
    builder.op(BACKWARD, 10, 5, thread=AUTOGRAD)
    builder.op("aten::pin_memory", 12, 1, thread=AUTOGRAD)
    assert roles(builder) == {MAIN: "main", AUTOGRAD: "autograd"}


def test_threads_have_the_name_that_the_trace_gives_them_else_their_id() -> None:
    builder = TraceBuilder()
    for thread in (MAIN, AUTOGRAD, OTHER):
        builder.op("aten::mm", 0, 1, thread=thread)
    label(builder, MAIN, "thread 100 (python3)   ")
    label(builder, OTHER, None)
    label(builder, 999, "nobody")
    names = {thread.tid: thread.name for thread in builder.read().threads}
    assert names == {MAIN: "thread 100 (python3)", AUTOGRAD: "thread 101", OTHER: "thread 202"}


def test_threads_of_two_processes_with_one_id_are_two() -> None:
    builder = TraceBuilder()
    builder.op("aten::mm", 0, 1)
    builder.event("cpu_op", "aten::mm", 5, 1)["pid"] = 7
    trace = builder.read()
    assert [(thread.pid, thread.tid) for thread in trace.threads] == [(MAIN, MAIN), (7, MAIN)]
    assert trace.ops.thread.tolist() == [0, 1]


def test_streams_are_no_threads() -> None:
    builder = TraceBuilder()
    builder.kernel(10, 5, launch=0)
    assert [thread.tid for thread in builder.read().threads] == [MAIN]
