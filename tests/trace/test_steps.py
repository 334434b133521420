"""How the training steps of a trace are found: by marks, by annotations, by repetition."""

import random
from collections.abc import Iterable

import pytest
from trace_builder import AUTOGRAD, COMPUTE, LAUNCH_US, MAIN, TraceBuilder

from pinprof.trace import Trace
from pinprof.trace.spans.step_names import names_of_steps
from pinprof.trace.spans.steps import is_serving
from pinprof.trace.tables import NONE

BASE_US = 1000
"""Start of the trace in these tests."""
STEP_US = 1000
NAMES = [*(f"layer_{number}" for number in range(8)), "adam"]
"""Kernels of a step that hold no smaller repetition; by the last one, it is one of a training."""
LAYER = NAMES[:8]
"""Kernels that may as well be those of a layer."""


@pytest.fixture
def builder() -> TraceBuilder:
    return TraceBuilder(base_us=BASE_US)


def ranges(trace: Trace) -> list[tuple[float, float]]:
    """Return start and end of each step in µs from the start of the trace."""
    start, end = (column / 1000 - BASE_US for column in (trace.steps.start_ns, trace.steps.end_ns))
    return list(zip(start.tolist(), end.tolist(), strict=True))


def launch(builder: TraceBuilder, start: float, names: Iterable[str], *, apart: float = 20) -> None:
    """Launch kernels; each runs 10 µs later."""
    for position, name in enumerate(names):
        builder.kernel(start + position * apart + 10, 5, launch=start + position * apart, name=name)


def run_on_gpu(builder: TraceBuilder, start: float, names: Iterable[str], *, apart: float = 20) -> None:
    """Run kernels for which the trace has no launch."""
    for position, name in enumerate(names):
        builder.activity("kernel", name, start + position * apart, 5, correlation=NONE, device=0, stream=COMPUTE)


# ---------------------------------------------------------------- the profiler's marks


def test_the_profilers_marks_are_steps(builder: TraceBuilder) -> None:
    for number in range(3):
        builder.step(number + 7, number * STEP_US, STEP_US - 10)
        launch(builder, number * STEP_US + 5, NAMES)
    trace = builder.read()
    assert trace.steps.source == "profiler_step"
    assert trace.steps.marker == "ProfilerStep#N"
    assert ranges(trace) == [(0, 990), (1000, 1990), (2000, 2990)]
    assert trace.steps.complete.all()
    assert trace.steps.on_host


def test_marks_are_preferred_to_every_other_evidence(builder: TraceBuilder) -> None:
    builder.step(1, 0, 5 * STEP_US)
    for number in range(6):
        builder.event("user_annotation", "train", number * STEP_US, 900)
        launch(builder, number * STEP_US + 5, NAMES)
    assert builder.read().steps.source == "profiler_step"


@pytest.mark.parametrize(
    ("launched", "complete"),
    [
        ((9, 9, 9, 0), (True, True, True)),  # the last mark is the profiler's own
        ((9, 0, 9, 9), (True, True, True, True)),
        ((4, 9, 9, 9), (False, True, True, True)),
        ((9, 9, 9, 4), (True, True, True, False)),
        ((9, 9, 9, 8), (True, True, True, True)),
        ((2, 9), (True, True)),  # of two, nobody can tell which one is cut off
    ],
)
def test_a_mark_at_the_edge_that_launches_far_less_is_cut_off_or_no_step(
    builder: TraceBuilder, launched: tuple[int, ...], complete: tuple[bool, ...]
) -> None:
    for number, count in enumerate(launched):
        builder.step(number, number * STEP_US, STEP_US)
        launch(builder, number * STEP_US + 5, NAMES[:count])
    assert tuple(builder.read().steps.complete) == complete


def test_marks_without_any_launch_are_steps_of_the_host(builder: TraceBuilder) -> None:
    for start in builder.steps(3, STEP_US, length=STEP_US):
        builder.op("aten::mm", start + 5, 100)
    trace = builder.read()
    assert (trace.steps.source, len(trace.steps)) == ("profiler_step", 3)
    assert trace.steps.on_host


def test_marks_of_another_thread_are_left_out_and_come_before_those_of_a_server(builder: TraceBuilder) -> None:
    serve(builder, ["step[DECODE bs=16]"] * 3)
    for number in range(3):
        builder.step(number, number * STEP_US, STEP_US)
    builder.on_thread(555, "user_annotation", "ProfilerStep#1", 300, 2000)
    trace = builder.read()
    assert trace.steps.source == "profiler_step"
    assert ranges(trace) == [(0, 1000), (1000, 2000), (2000, 3000)]


# ---------------------------------------------------------------- a server's batches


def serve(builder: TraceBuilder, names: Iterable[str], *, thread: int = MAIN) -> None:
    """Mark batches; each launches work within its mark, and a last kernel behind it."""
    for number, name in enumerate(names):
        builder.on_thread(thread, "user_annotation", name, number * STEP_US, 400)
        launch(builder, number * STEP_US + 5, NAMES[: 2 + 3 * (number % 2)])
        launch(builder, number * STEP_US + 600, ["sample"])


@pytest.mark.parametrize(
    ("marker", "names"),
    [
        (
            "vLLM's execute_context_N_generation_N",
            ["execute_context_1(512)_generation_0(0)", "execute_context_0(0)_generation_3(3)"] * 2,
        ),
        (
            "vLLM's execute_context_N_generation_N",
            ["execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)"] * 4,
        ),
        ("vLLM's execute_new_N_cached_N", [f"execute_new_1_cached_{number}" for number in range(4)]),
        ("vLLM's gpu_model_runner: forward", ["gpu_model_runner: forward"] * 4),
        ("SGLang's scheduler.run_batch", ["scheduler.run_batch"] * 4),
        (
            "SGLang's step[MODE bs=N]",
            ["step[EXTEND bs=2 toks=4096]", "step[DECODE bs=16]", "step[TARGET_VERIFY bs=4]", "step[DECODE bs=18]"],
        ),
    ],
)
def test_a_servers_marks_are_steps_however_their_batches_differ(
    builder: TraceBuilder, marker: str, names: list[str]
) -> None:
    serve(builder, names)
    trace = builder.read()
    assert (trace.steps.source, trace.steps.marker) == ("annotation", marker)
    assert ranges(trace) == [(0, 1000), (1000, 2000), (2000, 3000), (3000, 3400)]
    assert trace.steps.complete.tolist() == [True, True, True, False]
    assert names_of_steps(trace) == ["step 1", "step 2", "step 3", "step 4"]  # the numbers are sizes
    assert trace.links.activity_step.tolist() == [0] * 3 + [1] * 6 + [2] * 3 + [3] * 5 + [NONE]


@pytest.mark.parametrize("own", ["step[DECODE bs=32]", "function"])
def test_sglang_makes_marks_of_vllms_name(builder: TraceBuilder, own: str) -> None:
    serve(builder, ["execute_32_context_0(sq0)_generation_32(sq32)"] * 4)
    if own == "function":
        builder.function("/sgl-workspace/sglang/python/sglang/srt/managers/scheduler.py(2919): run", 5, 10)
    else:
        builder.event("user_annotation", own, 5, 300)
    steps = builder.read().steps
    assert steps.marker == "SGLang's execute_context_N_generation_N"
    assert is_serving(steps)


@pytest.mark.parametrize(
    ("around", "name", "kernels"),
    [("capture_8192_PIECEWISE", "some code", 9), ("start", "## Call CompiledFxGraph fb3en3pm ##", 2)],
)
def test_neither_what_a_server_captures_at_its_start_nor_compiled_code_is_a_step(
    builder: TraceBuilder, around: str, name: str, kernels: int
) -> None:
    builder.event("user_annotation", around, 0, 10 * STEP_US)
    for number in range(8):
        builder.event("user_annotation", name, number * STEP_US, 400)
        launch(builder, number * STEP_US + 5, NAMES[:kernels])
    assert builder.read().steps.source == "whole_trace"


def test_a_servers_outer_marks_are_its_steps(builder: TraceBuilder) -> None:
    for number in range(4):
        builder.event("user_annotation", "scheduler.run_batch", number * STEP_US, 900)
        for mode, start in (("TARGET_VERIFY", 10), ("DRAFT_EXTEND", 400)):
            builder.event("user_annotation", f"step[{mode} bs=4]", number * STEP_US + start, 300)
        launch(builder, number * STEP_US + 20, NAMES)
    assert builder.read().steps.marker == "SGLang's scheduler.run_batch"


@pytest.mark.parametrize("name", ["step", "step[3]", "forward", "execute", "run_batch", "execute_context"])
def test_an_annotation_that_only_resembles_a_servers_is_one_like_any_other(builder: TraceBuilder, name: str) -> None:
    serve(builder, [name] * 3)  # too few to show a step
    assert builder.read().steps.source == "whole_trace"


# ---------------------------------------------------------------- annotations


@pytest.mark.parametrize(("name", "marker"), [("train_step", "train_step"), ("epoch 1, batch {}", "epoch 1, batch 98")])
def test_an_annotation_that_repeats_marks_steps_from_start_to_start_whatever_its_numbers(
    builder: TraceBuilder, name: str, marker: str
) -> None:
    for number in range(4):
        builder.event("user_annotation", name.format(number + 98), number * STEP_US, 700)
        launch(builder, number * STEP_US + 5, NAMES[:3])
    trace = builder.read()
    assert (trace.steps.source, trace.steps.marker) == ("annotation", marker)
    assert ranges(trace) == [(0, 1000), (1000, 2000), (2000, 3000)]
    assert trace.steps.complete.all()


@pytest.mark.parametrize("launched", [(3, 3, 3), (3, 9, 1, 5, 3), (0, 0, 0, 0, 0)])
def test_annotations_that_are_too_few_or_launch_irregularly_or_nothing_mark_no_steps(
    builder: TraceBuilder, launched: tuple[int, ...]
) -> None:
    for number, count in enumerate(launched):
        builder.event("user_annotation", "sometimes", number * STEP_US, 700)
        launch(builder, number * STEP_US + 5, NAMES[:count])
    launch(builder, 9000, NAMES)
    assert builder.read().steps.source == "whole_trace"


def test_an_annotation_nested_in_itself_marks_no_steps(builder: TraceBuilder) -> None:
    for number in range(5):
        builder.event("user_annotation", "module", number * 100, 1000 - 150 * number)
        launch(builder, number * 100 + 5, NAMES[:2])
    assert builder.read().steps.source == "whole_trace"


def test_of_several_annotations_the_one_that_covers_most_time_marks_the_steps(builder: TraceBuilder) -> None:
    for number in range(5):
        builder.event("user_annotation", "Optimizer.step#SGD.step", number * STEP_US + 600, 100)
        builder.event("user_annotation", "forward and backward", number * STEP_US, 500)
        builder.event("user_annotation", "zero_grad", number * STEP_US + 800, 50)
        launch(builder, number * STEP_US + 5, NAMES[:3])
        launch(builder, number * STEP_US + 605, NAMES[3:5])
    trace = builder.read()
    assert trace.steps.marker == "forward and backward"
    assert ranges(trace)[0] == (0, 1000)


# ---------------------------------------------------------------- repetition


def test_a_sequence_of_kernels_that_repeats_begins_after_its_longest_pause(builder: TraceBuilder) -> None:
    """The recording begins in the middle of a step, at its sixth kernel."""
    launch(builder, 100, NAMES[5:])
    for number in range(1, 6):
        launch(builder, number * STEP_US, NAMES)
    trace = builder.read()
    assert trace.steps.source == "repetition"
    assert trace.steps.marker == "a sequence of 9 kernel launches that repeats"
    assert ranges(trace) == [(1000, 2000), (2000, 3000), (3000, 4000), (4000, 5000)]
    assert trace.steps.on_host


def test_few_kernels_of_a_step_may_differ(builder: TraceBuilder) -> None:
    for number in range(6):
        names = [f"{name}_{part}" for part in range(4) for name in NAMES]
        if number == 2:
            names[20] = "autotuned"
        launch(builder, number * STEP_US, names)
    trace = builder.read()
    assert trace.steps.source == "repetition"
    assert [end - start for start, end in ranges(trace)] == [1000] * len(trace.steps)


def test_a_loop_inside_a_step_is_no_step(builder: TraceBuilder) -> None:
    """Each step runs one layer of nine kernels four times, then an optimizer of its own."""
    for number in range(5):
        launch(builder, number * STEP_US, NAMES * 4 + ["norm", "adam", "adam"])
    trace = builder.read()
    assert trace.steps.marker == "a sequence of 39 kernel launches that repeats"
    assert [end - start for start, end in ranges(trace)] == [1000] * len(trace.steps)


@pytest.mark.parametrize("length", [1, 4, 7])
def test_a_loop_of_few_kernels_is_no_step_nor_are_several_of_its_rounds(builder: TraceBuilder, length: int) -> None:
    for number in range(40):
        launch(builder, number * 200, NAMES[:length])
    assert builder.read().steps.source == "whole_trace"


@pytest.mark.parametrize("names", [NAMES * 2, random.Random(5).choices(NAMES, k=200)])
def test_a_sequence_that_repeats_once_and_kernels_in_no_order_are_no_steps(
    builder: TraceBuilder, names: list[str]
) -> None:
    launch(builder, 0, names)
    assert builder.read().steps.source == "whole_trace"


def test_a_graph_launch_counts_once_however_many_kernels_it_has(builder: TraceBuilder) -> None:
    for number in range(6):
        start = number * STEP_US
        launch(builder, start, NAMES)
        correlation = builder.call("cudaGraphLaunch", start + 400, LAUNCH_US)
        for kernel in range(30 + number):  # the profiler may lose some of them
            builder.activity(
                "kernel", f"node_{kernel}", start + 410 + kernel, 1, correlation=correlation, device=0, stream=COMPUTE
            )
    trace = builder.read()
    assert trace.steps.marker == "a sequence of 10 kernel launches that repeats"
    assert [end - start for start, end in ranges(trace)] == [1000] * len(trace.steps)
    assert len(trace.steps) >= 4


def test_without_host_events_steps_are_found_in_the_work_of_the_gpu(builder: TraceBuilder) -> None:
    for number in range(5):
        run_on_gpu(builder, number * STEP_US, NAMES)
    trace = builder.read()
    assert trace.steps.source == "repetition"
    assert not trace.steps.on_host
    assert ranges(trace) == [(1000, 2000), (2000, 3000), (3000, 4000)]
    assert trace.links.call_step.tolist() == []
    step = trace.links.activity_step
    assert [(step == number).sum() for number in range(3)] == [9, 9, 9]


def blocks(builder: TraceBuilder, count: int = 6, *, names: Iterable[str] = LAYER) -> None:
    """Launch the same kernels several times, with one before and one after all of them."""
    launch(builder, 0, ["lookup"])
    for number in range(count):
        launch(builder, number * STEP_US + 100, names)
    launch(builder, count * STEP_US, ["head"])


PART = "no step was found: a sequence of 8 kernel launches that repeats {} times"


@pytest.mark.parametrize("mark", ["layer_{}", "Block {}", "nccl:all_reduce", "TorchDynamo Cache Lookup", "moe.experts"])
def test_marks_of_layers_are_no_steps(builder: TraceBuilder, mark: str) -> None:
    blocks(builder)
    for number in range(6):
        builder.event("user_annotation", mark.format(number), number * STEP_US + 90, 500)
    assert builder.read().steps.source == "whole_trace"


@pytest.mark.parametrize("annotated", [False, True])
def test_layers_in_one_call_of_a_network_are_no_steps(builder: TraceBuilder, annotated: bool) -> None:
    blocks(builder, names=NAMES)  # of whatever kernels
    builder.function("nn.Module: Net_0", 0, 6 * STEP_US + 900)
    for number in range(6):
        builder.function(f"nn.Module: Block_{number}", number * STEP_US + 95, 800)
        if annotated:
            builder.event("user_annotation", "run", number * STEP_US + 90, 850)
    steps = builder.read().steps
    assert steps.source == "whole_trace"
    assert steps.marker == f"{PART.replace('8', '9').format(6)} in one call of Net_0"


def test_each_call_of_a_network_is_a_step(builder: TraceBuilder) -> None:
    blocks(builder)
    for number in range(6):
        builder.function("nn.Module: Net_0", number * STEP_US + 95, 800)
        builder.function("nn.Module: Block_0", number * STEP_US + 96, 700)
    assert builder.read().steps.source == "repetition"


def test_each_batch_of_a_loader_is_a_step(builder: TraceBuilder) -> None:
    blocks(builder)
    for number in range(7):
        name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        builder.event("user_annotation", name, number * STEP_US + 80, 10)
    assert builder.read().steps.source in {"annotation", "repetition"}


@pytest.mark.parametrize(
    ("backward_at", "annotated", "optimizers", "source"),
    [
        (95, True, 0, "whole_trace"),  # layers of a backward pass: none has a forward pass
        (155, False, 0, "repetition"),  # a forward and a backward pass are a step
        (155, False, 1, "whole_trace"),  # micro-batches of one step of an optimizer
    ],
)
def test_a_step_of_a_training_has_a_forward_a_backward_pass_and_an_optimizer(
    builder: TraceBuilder, *, backward_at: int, annotated: bool, optimizers: int, source: str
) -> None:
    blocks(builder)
    for _ in range(optimizers):
        builder.event("user_annotation", "Optimizer.step#Adam.step", 5 * STEP_US + 900, 50)
    for number in range(6):
        if annotated:
            builder.event("user_annotation", "run", number * STEP_US + 90, 850)
        builder.op("autograd::engine::evaluate_function: MmBackward0", number * STEP_US + backward_at, 800)
    assert builder.read().steps.source == source


@pytest.mark.parametrize(
    ("mark", "source"), [("micro step", "annotation"), ("enumerate(DataLoader)#_Iter.__next__", "whole_trace")]
)
def test_only_the_users_marks_are_steps_though_some_have_no_optimizer(
    builder: TraceBuilder, mark: str, source: str
) -> None:
    blocks(builder)
    builder.event("user_annotation", "Optimizer.step#Adam.step", 3 * STEP_US + 900, 50)
    for number in range(6):
        builder.event("user_annotation", mark, number * STEP_US + 90, 5)
    assert builder.read().steps.source == source


def test_the_marks_of_torch_1_8_are_recorded_as_ops() -> None:
    builder = TraceBuilder()
    for number in range(3):
        start = number * STEP_US
        builder.event("Operator", f"ProfilerStep#{number}", start, 990)
        builder.event("Operator", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", start + 1, 20)
        builder.event("Operator", "Optimizer.step#SGD.step", start + 800, 100)
        builder.event("Operator", "aten::mm", start + 100, 40)
        builder.on_thread(AUTOGRAD, "Operator", "MmBackward", start + 300, 40)
        correlation = builder.call("cudaLaunchKernel", start + 310, LAUNCH_US, thread=AUTOGRAD)
        event = builder.event("Kernel", "gemm", start + 400, 50, device=0, stream=COMPUTE, correlation=correlation)
        event |= {"pid": 0, "tid": COMPUTE}
    trace = builder.read()
    assert (trace.steps.source, len(trace.steps)) == ("profiler_step", 3)
    assert len(trace.annotations) == 9
    assert [trace.ops.name_of(row) for row in range(2)] == ["aten::mm", "MmBackward"]
    assert [thread.role for thread in trace.threads] == ["main", "autograd"]


# ---------------------------------------------------------------- no steps
