from collections.abc import Iterator
from itertools import product
from operator import itemgetter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recordings import TRACES
from trace_builder import AUTOGRAD, COMPUTE, TraceBuilder

from pinprof.analyses.by_name.kernels import GpuStream, KernelSums
from pinprof.analyses.by_name.names import LONGEST_KEPT_NAME_CHARS, MAX_KEPT_NAMES, Origin
from pinprof.analyses.by_name.ops import OpSums, own_times
from pinprof.ground.intervals import length, union
from pinprof.measurement.measure import measure
from pinprof.measurement.profile import Profile
from pinprof.measurement.trust.doubt import Known, KnownOrWithheld, Withheld
from pinprof.trace import read_trace
from pinprof.trace.tables import KERNEL, HostEvents, Trace

US = 1000
UNKNOWN = Origin(None, None, None, 0, None, 0)
OTHER = 555
"""A thread that launches nothing."""
MOMENTS = 40


def profile_of(builder: TraceBuilder) -> Profile:
    return measure(builder.read())


def known(figure: KnownOrWithheld[OpSums] | KnownOrWithheld[KernelSums]) -> OpSums | KernelSums:
    assert isinstance(figure, Known)
    return figure.value


def ops_of(profile: Profile) -> OpSums:
    sums = known(profile.ops)
    assert isinstance(sums, OpSums)
    return sums


def kernels_of(profile: Profile) -> KernelSums:
    sums = known(profile.kernels)
    assert isinstance(sums, KernelSums)
    return sums


def own(profile: Profile) -> dict[str, tuple[int, float]]:
    """Return count and own time in µs by name."""
    return {row.name: (row.count, row.own_ns / US) for row in ops_of(profile).rows}


def gpu_time(profile: Profile) -> dict[str, tuple[int, float]]:
    """Return count and time in µs by name."""
    return {row.name: (row.count, row.time_ns / US) for row in kernels_of(profile).rows}


def steps(count: int = 2) -> TraceBuilder:
    """Steps of 1 ms without a pause."""
    builder = TraceBuilder()
    for number in range(count):
        builder.step(number, 1000 * number, 1000)
    return builder


def training() -> TraceBuilder:
    """In each of two steps: `aten::linear` calls `aten::addmm`, which launches; then a launch of its own and a copy."""
    builder = steps()
    for start in (0, 1000):
        builder.op("aten::linear", start + 100, 100)  # 60 of its own
        builder.op("aten::addmm", start + 120, 40)
        builder.kernel(start + 150, 300, launch=start + 130, name="gemm")
        builder.op("aten::relu", start + 250, 30)
        builder.kernel(start + 450, 50, launch=start + 260, name="relu")
        builder.kernel(start + 500, 50, launch=start + 270, name="relu")
        builder.copy("HtoD (Pinned -> Device)", start + 600, 100, launch=start + 300)
    return builder


# ---------------------------------------------------------------- ops


def test_each_moment_counts_to_the_innermost_op() -> None:
    profile = profile_of(training())
    assert own(profile) == {"aten::linear": (2, 120), "aten::addmm": (2, 80), "aten::relu": (2, 60)}
    sums = ops_of(profile)
    assert (sums.own_ns, sums.host_ns, sums.names, sums.left_ns) == (260 * US, 2000 * US, 3, 0)


def test_kernels_count_to_the_op_that_launches_them_itself() -> None:
    rows = ops_of(profile_of(training())).rows
    launched = {row.name: (row.kernels, row.kernel_ns) for row in rows}
    assert launched == {"aten::linear": (0, 0), "aten::addmm": (2, 600 * US), "aten::relu": (4, 200 * US)}


def test_ops_of_autograd_and_of_threads_that_launch_count_and_no_others() -> None:
    builder = training()
    builder.op("autograd::engine::evaluate_function: MmBackward0", 400, 100, thread=AUTOGRAD)
    builder.op("aten::mm", 410, 60, thread=AUTOGRAD)
    builder.op("aten::pin_memory", 400, 500, thread=OTHER)
    builder.op("replica", 400, 30, thread=OTHER + 1)
    builder.kernel(710, 10, launch=410, thread=OTHER + 1)
    own_times = own(profile_of(builder))
    assert own_times["autograd::engine::evaluate_function: MmBackward0"] == (1, 40)
    assert own_times["aten::mm"] == (1, 60)
    assert own_times["replica"] == (1, 30)
    assert "aten::pin_memory" not in own_times


@st.composite
def forests(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Draw nested ranges of two threads: begin, end, thread; in order of begin, the outer before the inner ones."""

    def ranges(start: int, end: int, depth: int) -> Iterator[tuple[int, int]]:
        while start < end and draw(st.booleans()):
            begin = draw(st.integers(start, end - 1))
            stop = draw(st.integers(begin, end))
            yield begin, stop
            if depth:
                yield from ranges(begin, stop, depth - 1)
            start = stop + 1

    events = [(*moments, thread) for thread in range(2) for moments in ranges(0, MOMENTS, 3)]
    return sorted(events, key=itemgetter(0))  # stable


@given(forests())
def test_own_times_are_those_of_a_stack(ranges: list[tuple[int, int, int]]) -> None:
    start, end, thread = np.array(ranges, np.int64).reshape(-1, 3).T.copy()
    ops = HostEvents(("op",), start, end, np.zeros(len(start), np.int32), thread.astype(np.int32))
    expected = [0] * len(ops)
    for at, moment in product(range(2), range(MOMENTS)):
        inside = [row for row, (begin, stop, of) in enumerate(ranges) if of == at and begin <= moment < stop]
        for row in inside[-1:]:
            expected[row] += 1
    assert own_times(ops).tolist() == expected


def covered_by_ops(trace: Trace, role: str) -> int:
    (thread,) = np.flatnonzero(trace.has_role(role)).tolist()
    on_thread = trace.ops.thread == thread
    return length(union(trace.ops.start_ns[on_thread], trace.ops.end_ns[on_thread]))


@pytest.mark.parametrize("name", ["clean.stack", "loss_item", "small_kernels", "mask_loss.stack"])
def test_own_times_of_recordings_add_up_to_the_covered_time(name: str) -> None:
    trace = read_trace(TRACES / f"{name}.json.gz")
    times = own_times(trace.ops)
    for index, thread in enumerate(trace.threads):
        if thread.role in {"main", "autograd"}:
            assert times[trace.ops.thread == index].sum() == covered_by_ops(trace, thread.role)


# ---------------------------------------------------------------- kernels


def test_kernels_are_counted_by_name_with_what_launches_them() -> None:
    profile = profile_of(training())
    assert gpu_time(profile) == {"gemm": (2, 600), "relu": (4, 200)}
    gemm, relu = kernels_of(profile).rows
    assert (gemm.op, relu.op) == ("aten::linear", "aten::relu")  # the outermost
    assert gemm.lanes == (GpuStream(0, COMPUTE),)
    assert not gemm.communication
    assert gemm.origin == UNKNOWN


def test_copies_make_the_gpu_busy_and_are_no_kernels() -> None:
    sums = kernels_of(profile_of(training()))
    assert (sums.time_ns, sums.busy_ns, sums.devices, sums.names) == (800 * US, 1000 * US, 1, 2)


def test_all_kernels_of_a_graph_belong_to_its_launch() -> None:
    builder = steps()
    for start in (0, 1000):
        builder.op("replay", start + 100, 50)
        graph = builder.call("cudaGraphLaunch", start + 110, 20)
        for at, name in ((150, "a"), (250, "b"), (350, "b")):
            builder.activity("kernel", name, start + at, 100, correlation=graph, device=0, stream=COMPUTE)
    profile = profile_of(builder)
    assert gpu_time(profile) == {"a": (2, 200), "b": (4, 400)}
    assert {row.op for row in kernels_of(profile).rows} == {"replay"}
    (op,) = ops_of(profile).rows
    assert (op.count, op.kernels, op.kernel_ns) == (2, 6, 600 * US)


@pytest.mark.parametrize("name", ["clean", "prefetch.stack", "loader_pinned", "overlap_side_pinned"])
def test_kernels_of_recordings_add_up(name: str) -> None:
    trace = read_trace(TRACES / f"{name}.json.gz")
    profile = measure(trace)
    sums = kernels_of(profile)
    inside = trace.steps.holds(trace.links.activity_step) & (trace.gpu.category == KERNEL)
    assert sum(row.time_ns for row in sums.rows) == sums.time_ns == trace.gpu.duration_ns[inside].sum()
    assert sum(row.count for row in sums.rows) == inside.sum()
    launched = sum(row.kernel_ns or 0 for row in ops_of(profile).rows)
    assert launched <= sums.time_ns


# ---------------------------------------------------------------- where they come from


def test_the_costliest_place_and_module_stand_for_all() -> None:
    builder = steps(1)
    builder.function("train.py(1): step", 50, 800)
    for number, at in enumerate((100, 300, 500)):
        builder.function(f"model.py({10 + number}): forward_{number % 2}", at, 100)
        builder.function(f"nn.Module: Linear_{number}", at + 1, 90)
        builder.function("torch/nn/modules/linear.py(120): forward", at + 2, 80)
        builder.op("aten::linear", at + 10, 40 + number)
        builder.kernel(at + 40, 50 + number, launch=at + 20)
    profile = profile_of(builder)
    (kernel,), (op,) = kernels_of(profile).rows, ops_of(profile).rows
    assert kernel.origin == Origin("model.py", None, "forward_0", 2, "Linear_2", 3)
    assert op.origin == kernel.origin


def test_the_line_is_told_where_the_source_has_only_one(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("def step(x):\n    y = 1\n    return x.relu()\n")
    builder = steps(1)
    builder.function("train.py(1): step", 50, 800)
    builder.function("<built-in method relu of Tensor object at 0x7f>", 90, 50)
    builder.op("aten::relu", 100, 30)
    builder.kernel(150, 50, launch=110)
    profile = measure(read_trace(builder.write(tmp_path / "trace.json")))
    expected = Origin("train.py", 3, "step", 1, None, 0)
    (kernel,), (op,) = kernels_of(profile).rows, ops_of(profile).rows
    assert (kernel.origin, op.origin) == (expected, expected)


# ---------------------------------------------------------------- little, much, and withheld


def test_the_cheapest_of_many_names_are_left_out() -> None:
    builder = steps(1)
    more = 30
    for number in range(MAX_KEPT_NAMES + more):
        builder.op(f"op {number}", 3 * number, 2)
        name = f"kernel {number} {'x' * (5000 if number % 50 == 0 else 1)}"
        builder.kernel(4 * number + 1, 1 + (number >= more), launch=3 * number, name=name)
    profile = profile_of(builder)
    kernels, ops = kernels_of(profile), ops_of(profile)
    assert len(kernels.rows) == len(ops.rows) == MAX_KEPT_NAMES
    assert kernels.names == ops.names == MAX_KEPT_NAMES + more
    assert kernels.left_ns == more * US
    assert sum(row.time_ns for row in kernels.rows) + kernels.left_ns == kernels.time_ns
    assert max(len(row.name) for row in kernels.rows) <= LONGEST_KEPT_NAME_CHARS


def test_kernels_are_withheld_where_some_are_lost() -> None:
    builder = training()
    for at in (110, 113, 116):  # before other work of the step: its length is known
        builder.call("cudaLaunchKernel", at, 2)
    profile = profile_of(builder)
    assert isinstance(profile.kernels, Withheld)
    assert {(row.kernels, row.kernel_ns) for row in ops_of(profile).rows} == {(None, None)}
