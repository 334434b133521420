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


Event = tuple[str, str, float, float, int]
"""Category, name, start, duration and thread."""
MM = ("cpu_op", "aten::mm", 0, 1)
BACKWARDS = [("cpu_op", BACKWARD, 10 + time, 1, AUTOGRAD) for time in range(20)]
LAUNCHES = [("cuda_runtime", "cudaLaunchKernel", 10 + time, 0.5, AUTOGRAD) for time in range(20)]
STEP = ("user_annotation", "ProfilerStep#1", 0, 100, MAIN)
REDUCTIONS = [("user_annotation", "nccl:all_reduce", 10 * time, 5, OTHER) for time in range(5)]
OVERHEADS = [("overhead", "Activity Buffer Request", time, 0.5, 0) for time in range(20)]
MAIN_THREADS: dict[str, tuple[list[Event], dict[int, str]]] = {
    "the busiest, without steps": (
        [(*MM, OTHER), (*MM, MAIN), ("cuda_runtime", "cudaLaunchKernel", 4, 1, MAIN)],
        {OTHER: "other", MAIN: "main"},
    ),
    "the one with most annotations, though not the process's own": (
        [(*MM, MAIN), ("user_annotation", "Optimizer.step#Adam.step", 5, 1, OTHER), *BACKWARDS],
        {MAIN: "other", OTHER: "main", AUTOGRAD: "autograd"},
    ),
    "the one with steps rather than other annotations": ([STEP, *REDUCTIONS], {MAIN: "main", OTHER: "other"}),
    "the process's own, though the backward pass has more ops": (
        [(*MM, MAIN), *BACKWARDS, *LAUNCHES],
        {MAIN: "main", AUTOGRAD: "autograd"},
    ),
    "not the process's own if it does nothing": (
        [("python_function", "train.py(1): <module>", 0, 100, MAIN), (*MM, OTHER)],
        {MAIN: "other", OTHER: "main"},
    ),
    "never the track of the profiler's overhead": ([(*MM, OTHER), *OVERHEADS], {OTHER: "main", 0: "other"}),
    "and a hook that pins in the backward pass leaves it autograd": (
        [STEP, ("cpu_op", BACKWARD, 10, 5, AUTOGRAD), ("cpu_op", "aten::pin_memory", 12, 1, AUTOGRAD)],
        {MAIN: "main", AUTOGRAD: "autograd"},
    ),
}


@pytest.mark.parametrize(("events", "expected"), MAIN_THREADS.values(), ids=MAIN_THREADS)
def test_the_main_thread_is(events: list[Event], expected: dict[int, str]) -> None:
    builder = TraceBuilder()
    for category, name, start, duration, thread in events:
        builder.on_thread(thread, category, name, start, duration)
    assert roles(builder) == expected


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
