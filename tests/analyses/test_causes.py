"""Why the host waited: for every cause a trace that shows it, and one that is nearly the same and does not."""

import re
from typing import NamedTuple

import pytest
from recordings import ROOT
from trace_builder import COMPUTE, MAIN, TraceBuilder
from trace_parts import Part, built, function, op

from pinprof.analyses.syncs.causes import WAIT_CAUSES
from pinprof.analyses.syncs.sites import measure_syncs

TO_HOST, FROM_HOST = "DtoH (Device -> Pageable)", "HtoD (Pageable -> Device)"
PINNED_TO_HOST, PINNED_FROM_HOST = "DtoH (Device -> Pinned)", "HtoD (Pinned -> Device)"


class Case(NamedTuple):
    cause: str
    shows: Part
    nearly: Part
    instead: tuple[str, ...] = ()
    """Causes that the near miss has."""


def nested(builder: TraceBuilder, ops: tuple[str, ...], functions: tuple[str, ...] = ()) -> None:
    """Ops and around them functions, each inside of the one before; all are open from 120 to 180 µs."""
    for depth, name in enumerate(functions):
        builder.function(name, 80 + depth, 140 - 2 * depth)
    for depth, name in enumerate(ops):
        builder.op(name, 100 + depth, 100 - 2 * depth)


def copies(kind: str, *ops: str, function: str | None = None, size: int = 10**6, awaited: bool = True) -> Part:
    """A copy in ops, 125 to 160 µs; if it is not awaited, its call returns at once."""

    def build(builder: TraceBuilder) -> None:
        nested(builder, ops, ("train.py(3): train", function) if function else ())
        builder.copy(kind, 125, 35, launch=120, size=size)
        if awaited:
            builder.call("cudaStreamSynchronize", 124, 40)

    return build


def calls(name: str, *ops: str) -> Part:
    def build(builder: TraceBuilder) -> None:
        nested(builder, ops)
        builder.kernel(30, 120, launch=10)
        builder.call(name, 120, 40)
        builder.kernel(420, 10, launch=410)

    return build


def copied(call: str, kind: str) -> Part:
    """A copy of a megabyte by a call of this name that takes 40 µs."""

    def build(builder: TraceBuilder) -> None:
        correlation = builder.call(call, 120, 40)
        name = f"Memcpy {kind}"
        builder.activity(
            "gpu_memcpy", name, 125, 30, correlation=correlation, device=0, stream=COMPUTE, bytes=1_000_000
        )

    return build


def staged(kind: str, size: int) -> Part:
    """A copy that is not awaited, but whose call takes 38 µs, as staging does."""

    def build(builder: TraceBuilder) -> None:
        builder.op("aten::copy_", 100, 100)
        builder.copy(kind, 125, 35, launch=120, call=38, size=size)

    return build


def beside(op: str, *ops: str) -> Part:
    """An op that has ended when those begin that wait."""

    def build(builder: TraceBuilder) -> None:
        builder.op(op, 50, 40)
        copies(TO_HOST, *ops)(builder)

    return build


def in_a_row(*ops: str) -> Part:
    """Ops that follow each other; the one from 100 to 200 µs, `aten::to` if it is there, copies from the host."""

    def build(builder: TraceBuilder) -> None:
        copying = ops.index("aten::to")
        for place, name in enumerate(ops):
            builder.op(name, 100 + 200 * (place - copying), 100)
        builder.op("aten::_to_copy", 101, 98)
        builder.op("aten::copy_", 102, 96)
        builder.copy(FROM_HOST, 125, 35, launch=120)
        builder.call("cudaStreamSynchronize", 124, 40)

    return build


def long_launch(*overheads: str, call: str = "cudaLaunchKernel") -> Part:
    """A launch of 700 µs, and what CUPTI says of it, the later the longer; also of a time without calls."""

    def build(builder: TraceBuilder) -> None:
        correlation = builder.call(call, 1000, 700)
        builder.activity("kernel", "gemm", 1800, 10, correlation=correlation, device=0, stream=COMPUTE)
        builder.overhead("Command Buffer Full", 900, 50)
        for place, overhead in enumerate(overheads):
            builder.overhead(overhead, 1010 + 100 * place, 50 + place)

    return build


def pending_launches(count: int, *, length: float = 700) -> Part:
    """N launches behind a kernel of 50 ms, then one more that takes long."""

    def build(builder: TraceBuilder) -> None:
        builder.kernel(3, 50_000, launch=0)
        for place in range(1, count):
            builder.kernel(51_000 + place, 1, launch=3 * place)
        correlation = builder.call("cudaLaunchKernel", 10_000, length)
        builder.activity("kernel", "gemm", 60_000, 10, correlation=correlation, device=0, stream=COMPUTE)

    return build


def launches_of(*kernels: tuple[float, bool]) -> Part:
    """Launches of kernels of these lengths in µs, and whether they return only after the kernel has ended."""

    def build(builder: TraceBuilder) -> None:
        for place, (length, waits) in enumerate(kernels):
            start = 1000 * place
            correlation = builder.call("cudaLaunchKernel", start, length + 20 if waits else 4)
            builder.activity("kernel", "gemm", start + 10, length, correlation=correlation, device=0, stream=COMPUTE)

    return build


def ends_with(call: str, *, then_launches: bool = False) -> Part:
    """A step, and after it a call; the profiler ends its window so."""

    def build(builder: TraceBuilder) -> None:
        builder.step(1, 0, 100)
        builder.kernel(20, 300, launch=10)
        builder.call(call, 150, 180)
        if then_launches:
            builder.kernel(350, 10, launch=340)

    return build


def in_function(name: str) -> Part:
    return copies(TO_HOST, "aten::item", function=name)


def checked(op: str) -> Part:
    """A node of the autograd engine whose gradient is looked through for NaN, by this op."""

    def build(builder: TraceBuilder) -> None:
        builder.op("autograd::engine::evaluate_function: MmBackward0", 20, 200)
        builder.op("aten::isnan", 40, 20)
        builder.op(op, 70, 20)
        copies(TO_HOST, "aten::item", "aten::_local_scalar_dense")(builder)

    return build


TABLE = (
    Case(
        "item",
        copies(TO_HOST, "aten::item", "aten::_local_scalar_dense"),
        calls("cudaMalloc", "aten::item"),
        ("device_malloc",),
    ),
    Case(
        "optimizer_state",
        in_function("torch/optim/optimizer.py(91): _get_value"),
        in_function("mine/optim/optimizer.py(91): _get_value"),
        ("item",),
    ),
    Case("nan_check", checked("aten::_is_any_true"), checked("aten::any"), ("item",)),
    Case(
        "bool", copies(TO_HOST, "aten::is_nonzero", "aten::item"), beside("aten::is_nonzero", "aten::item"), ("item",)
    ),
    Case(
        "tolist",
        in_function("<built-in method tolist of Tensor object at 0x7f>"),
        in_function("<built-in method tolist of numpy.ndarray object at 0x7f>"),
        ("item",),
    ),
    Case(
        "to_cpu",
        copies(TO_HOST, "aten::to", "aten::_to_copy", "aten::copy_"),
        copies(FROM_HOST, "aten::to", "aten::_to_copy", "aten::copy_"),
        ("blocking_copy_htod",),
    ),
    Case("print", in_function("torch/_tensor_str.py(708): _str"), in_function("<built-in function print>"), ("item",)),
    Case("nonzero", copies(TO_HOST, "aten::nonzero"), calls("cudaMalloc", "aten::nonzero"), ("device_malloc",)),
    Case(
        "mask_index",
        copies(TO_HOST, "aten::index", "aten::nonzero"),
        copies(FROM_HOST, "aten::index", "aten::copy_"),
        ("blocking_copy_htod",),
    ),
    Case(
        "masked_select",
        copies(TO_HOST, "aten::masked_select", "aten::nonzero"),
        beside("aten::masked_select", "aten::nonzero"),
        ("nonzero",),
    ),
    Case("unique", copies(TO_HOST, "aten::_unique2", "aten::item"), beside("aten::_unique2", "aten::item"), ("item",)),
    Case(
        "repeat_interleave",
        copies(TO_HOST, "aten::repeat_interleave", "aten::item"),
        copies(TO_HOST, "aten::repeat", "aten::item"),
        ("other",),
    ),
    Case("equal", copies(TO_HOST, "aten::equal", "aten::item"), beside("aten::equal", "aten::item"), ("item",)),
    Case(
        "blocking_copy_htod", copies(FROM_HOST, "aten::copy_"), copies(PINNED_FROM_HOST, "aten::copy_", awaited=False)
    ),
    Case(
        "blocking_copy_dtoh",
        copies(PINNED_TO_HOST, "aten::copy_"),
        copies(TO_HOST, "aten::to", "aten::_to_copy", "aten::copy_"),
        ("to_cpu",),
    ),
    Case("pageable_copy", staged(FROM_HOST, 64 * 1024 + 1), staged(FROM_HOST, 64 * 1024)),
    Case(
        "tensor_from_host",
        in_a_row("aten::empty", "aten::to", "aten::lift_fresh"),
        in_a_row("aten::to"),
        ("blocking_copy_htod",),
    ),
    Case("device_synchronize", calls("cudaDeviceSynchronize"), calls("cudaGetDevice")),
    Case("stream_synchronize", calls("cudaStreamSynchronize"), calls("cudaStreamQuery")),
    Case("event_synchronize", calls("cudaEventSynchronize"), calls("cudaEventQuery")),
    Case("device_malloc", calls("cudaMalloc", "aten::empty"), calls("cudaMallocAsync", "aten::empty")),
    Case("device_free", calls("cudaFree"), calls("cudaFreeAsync")),
    Case("host_alloc", calls("cudaHostAlloc"), calls("cudaHostGetDevicePointer")),
    Case("module_load", long_launch("Lazy Function Loading"), long_launch()),
    Case("queue_full", long_launch("Command Buffer Full"), long_launch()),
    Case(
        "launch_blocking", launches_of((100, True), (100, True), (100, False)), launches_of((100, True), (100, False))
    ),
    Case(
        "collective",
        calls("cudaStreamSynchronize", "c10d::barrier"),
        copies(TO_HOST, "c10d::broadcast_", "aten::item"),
        ("other",),
    ),
    Case(
        "profiler",
        ends_with("cudaDeviceSynchronize"),
        ends_with("cudaDeviceSynchronize", then_launches=True),
        ("device_synchronize",),
    ),
    Case(
        "other",
        copied("cudaMemcpyPeer", "PtoP (Device -> Device)"),
        copied("cudaMemcpyPeerAsync", "PtoP (Device -> Device)"),
    ),
)


def causes(builder: TraceBuilder) -> set[str]:
    return {site.cause for site in measure_syncs(builder.read()).sites}


def test_every_cause_is_in_the_table() -> None:
    assert [case.cause for case in TABLE] == list(WAIT_CAUSES)


def test_each_cause_that_an_expression_makes_is_in_the_catalogue_for_a_gpu() -> None:
    named = set(re.findall(r'"(\w+)"', (ROOT / "tests/catalogue.py").read_text()))
    assert set(WAIT_CAUSES) - named == {"module_load", "queue_full", "launch_blocking", "collective", "profiler"}


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case.cause)
def test_a_trace_that_shows_the_cause(case: Case) -> None:
    assert causes(built(case.shows)) == {case.cause}


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case.cause)
def test_a_trace_that_nearly_shows_it(case: Case) -> None:
    assert causes(built(case.nearly)) == set(case.instead)


def overhead(name: str, start: float, duration: float) -> Part:
    return lambda builder: builder.overhead(name, start, duration)


NEW_TENSOR = "aten::empty", "aten::to", "aten::lift_fresh"
MORE: dict[str, tuple[list[Part], set[str]]] = {
    "an allocation, whatever Python function is around it": (
        [calls("cudaMalloc", "aten::item"), function("<built-in method tolist of Tensor object at 0x7f>", 90, 150)],
        {"device_malloc"},
    ),
    "an allocation in a collective": ([calls("cudaMalloc", "c10d::allreduce_")], {"device_malloc"}),
    "a blocking copy without an activity": ([calls("cudaMemcpy")], {"other"}),
    "a wait behind a copy within the device": ([copies("DtoD (Device -> Device)", "aten::copy_")], {"other"}),
    "a pageable copy to the host, however small": ([staged(TO_HOST, 4)], {"pageable_copy"}),
    "print, whatever ops it is made of": (
        [copies(TO_HOST, "aten::masked_fill", "aten::item", function="torch/_tensor_str.py(708): _str")],
        {"print"},
    ),
    "a value that compiled code reads": (
        [copies(PINNED_TO_HOST, "Torch-Compiled Region: 0/0", "aten::item", "aten::_local_scalar_dense")],
        {"item"},
    ),
    "a new tensor, with ops of another thread between": (
        [in_a_row(*NEW_TENSOR), op("aten::mul", 50, 400, thread=321), op("aten::mul", 210, 10, thread=321)],
        {"tensor_from_host"},
    ),
    "no new tensor of ops of two threads": (
        [in_a_row(*NEW_TENSOR[:2]), op(NEW_TENSOR[2], 300, 100, thread=321)],
        {"blocking_copy_htod"},
    ),
    "the longest of several overheads": (
        [long_launch("Activity Buffer Request", "Lazy Function Loading", "Command Buffer Full")],
        {"queue_full"},
    ),
    "no overhead that outlasts the call": ([long_launch(), overhead("Lazy Function Loading", 1650, 51)], set()),
    "a call that waits by itself": (
        [calls("cudaStreamSynchronize", "aten::foo"), overhead("Activity Buffer Request", 130, 20)],
        {"other"},
    ),
    **{
        f"any op of unique: {name}": ([copies(TO_HOST, name, "aten::item")], {"unique"})
        for name in ("aten::unique_dim", "aten::_unique", "aten::_unique2", "aten::unique_consecutive")
    },
}


@pytest.mark.parametrize(("parts", "expected"), MORE.values(), ids=MORE)
def test_more_traces_and_their_causes(parts: list[Part], expected: set[str]) -> None:
    assert causes(built(*parts)) == expected


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        ("<built-in method cpu of Tensor object at 0x7f>", "to_cpu"),
        ("<built-in method tensor of type object at 0x7f>", "tensor_from_host"),
        ("<built-in method as_tensor of type object at 0x7f>", "tensor_from_host"),
        ("<built-in method asarray of type object at 0x7f>", "tensor_from_host"),
        ("<built-in method new_tensor of Tensor object at 0x7f>", "tensor_from_host"),
        ("torch/functional.py(3): tensor", "blocking_copy_htod"),
        ("<built-in method as_tensor_like of type object at 0x7f>", "blocking_copy_htod"),
    ],
)
def test_the_python_function_tells_where_the_values_come_from(function: str, cause: str) -> None:
    assert causes(built(copies(FROM_HOST, "aten::copy_", function=function))) == {cause}


@pytest.mark.parametrize(
    ("stack", "cause"),
    [
        (("torch/optim/optimizer.py:91:_get_value", "torch/optim/adam.py:773:_multi_tensor_adam"), "optimizer_state"),
        (("train.py:7:closure", "torch/optim/adam.py:215:step", "train.py:9:train"), "item"),
        (("torch/amp/grad_scaler.py:350:_maybe_opt_step", "train.py:9:train"), "item"),
        (("torch/nn/utils/clip_grad.py:50:clip_grad_norm_", "train.py:9:train"), "item"),
        (("optimizers/mine.py:30:step", "torch/optim/optimizer.py:480:wrapper", "train.py:9:train"), "item"),
        (("mine.py:3:_get_value", "torch/optim/optimizer.py:91:_get_value", "train.py:9:train"), "item"),
        ((), "item"),
    ],
)
def test_a_recorded_stack_tells_a_read_of_the_optimizer_from_others_within_its_step(
    stack: tuple[str, ...], cause: str
) -> None:
    builder = built(copies(TO_HOST, "aten::item", "aten::_local_scalar_dense"))
    line = {"file": "train.py", "line": 9, "function": "train", "stack": list(stack), "cause": "item"}
    builder.metadata["pinprof_lines"] = [{"op": "aten::item", "thread": "main", "at": [line, line]}]
    assert causes(builder) == {cause}


@pytest.mark.parametrize("holder", ["Tensor", "Parameter", "Buffer"])
def test_a_method_is_named_after_the_object_that_it_was_first_called_of(holder: str) -> None:
    assert causes(built(in_function(f"<built-in method tolist of {holder} object at 0x7f>"))) == {"tolist"}


@pytest.mark.parametrize(
    "ops",
    [
        ("aten::empty", "aten::to"),
        ("aten::to", "aten::lift_fresh"),
        ("aten::lift_fresh", "aten::to", "aten::empty"),
        ("aten::empty", "aten::to", "aten::add", "aten::lift_fresh"),
    ],
)
def test_other_rows_of_ops_make_no_new_tensor(ops: tuple[str, ...]) -> None:
    assert causes(built(in_a_row(*ops))) == {"blocking_copy_htod"}


@pytest.mark.parametrize("call", ["cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cudaFuncSetAttribute"])
@pytest.mark.parametrize(
    ("overhead", "cause"),
    [
        *(("Command Buffer Full", "queue_full"), ("Lazy Function Loading", "module_load")),
        *(("Runtime Triggered Module Loading", "module_load"), ("Activity Buffer Request", "profiler")),
        *(("Buffer Flush", "profiler"), ("Instrumentation", "profiler"), ("Resource", "profiler")),
    ],
)
def test_what_cupti_says_of_a_call_is_its_cause(call: str, overhead: str, cause: str) -> None:
    assert causes(built(long_launch(overhead, call=call))) == {cause}


@pytest.mark.parametrize("first", [MAIN, 321])
def test_an_overhead_during_calls_of_two_threads_belongs_to_the_later_one(first: int) -> None:
    builder = TraceBuilder()
    builder.op("aten::empty", 0, 1, thread=first)
    builder.kernel(5000, 10, launch=4000)
    builder.call("cudaStreamSynchronize", 100, 900, thread=321)
    builder.call("cudaLaunchKernel", 200, 700)
    builder.overhead("Lazy Function Loading", 300, 500)
    assert causes(builder) == {"stream_synchronize", "module_load"}


@pytest.mark.parametrize(
    ("pending", "length", "expected"),
    [(1000, 700, {"queue_full"}), (999, 700, set()), (900, 700, set()), (1000, 50, set()), (1000, 51, {"queue_full"})],
)
def test_without_cuptis_word_a_long_launch_behind_1000_others_is_held_up(
    pending: int, length: float, expected: set[str]
) -> None:
    assert causes(built(pending_launches(pending, length=length))) == expected


def test_where_cupti_records_a_full_queue_the_number_of_launches_does_not_matter() -> None:
    builder = built(pending_launches(1000))
    builder.overhead("Resource", 60_000, 10)
    assert causes(builder) == {"queue_full"}  # the profiler's own buffers are no queue
    builder.kernel(62_000, 10, launch=61_000)
    builder.overhead("Command Buffer Full", 61_001, 1)
    sites = measure_syncs(builder.read()).sites
    assert [site.total.count for site in sites if site.cause == "queue_full"] == [1]


def test_launches_that_have_ended_are_not_pending() -> None:
    builder = TraceBuilder()
    for place in range(1000):
        builder.kernel(3 * place + 3, 3, launch=3 * place)  # the last ends at 3003
    correlation = builder.call("cudaLaunchKernel", 3002, 700)
    builder.activity("kernel", "gemm", 4000, 10, correlation=correlation, device=0, stream=COMPUTE)
    assert causes(builder) == set()


@pytest.mark.parametrize(
    ("kernels", "expected"),
    [
        (((20, True),), {"launch_blocking"}),
        (((19.999, True),), set()),  # so short a kernel may have ended by itself
        (((20, False),), set()),
        (((20, True), (20, False)), set()),
        (((20, True), (20, True), (20, False), (5, False), (5, False)), {"launch_blocking"}),
    ],
)
def test_launches_wait_for_their_kernels_if_most_long_ones_do(
    kernels: tuple[tuple[float, bool], ...], expected: set[str]
) -> None:
    assert causes(built(launches_of(*kernels))) == expected


def test_a_launch_that_waits_awaits_its_own_kernel() -> None:
    trace = built(launches_of((100, True))).read()
    (site,) = measure_syncs(trace).sites
    assert (site.total.stall_ns, site.total.drain_ns, site.total.own_ns) == (120_000, 0, 100_000)


@pytest.mark.parametrize("op", ["c10d::allreduce_", "nccl:all_reduce", "gloo:barrier", "record_param_comms"])
@pytest.mark.parametrize("call", ["cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize"])
def test_waits_in_collectives_are_theirs(op: str, call: str) -> None:
    assert causes(built(calls(call, op))) == {"collective"}


@pytest.mark.parametrize(
    "ops",
    [
        ("torchvision::nms", "aten::masked_select", "aten::nonzero"),
        ("torchvision::nms", "aten::nonzero"),
        ("torchvision::nms", "aten::to", "aten::_to_copy", "aten::copy_"),
        ("mylib::sample", "aten::item", "aten::_local_scalar_dense"),
        ("mylib::check", "aten::is_nonzero", "aten::item"),
        ("mylib::group", "aten::_unique2"),
        ("mylib::copy", "aten::copy_"),
        ("aten::linalg_inv", "aten::_linalg_check_errors", "aten::item", "aten::_local_scalar_dense"),
        ("aten::masked_fill", "aten::masked_fill_", "aten::item"),
        ("aten::quantile", "aten::equal"),
        ("aten::to_sparse", "aten::_to_sparse", "aten::nonzero"),
        ("aten::linalg_eig", "aten::to", "aten::_to_copy", "aten::copy_"),
    ],
)
def test_what_waits_within_another_op_is_not_what_the_code_asks_for(ops: tuple[str, ...]) -> None:
    """A selection inside a custom op or an op of torch is not a mask of the user's."""
    assert causes(built(copies(TO_HOST, *ops))) == {"other"}


@pytest.mark.parametrize("op", ["mylib::sort", "aten::linalg_eigh"])
@pytest.mark.parametrize("call", ["cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize"])
def test_an_op_that_synchronizes_is_no_synchronize_of_the_code(call: str, op: str) -> None:
    assert causes(built(calls(call, op))) == {"other"}
    assert causes(built(calls(call))) != {"other"}


@pytest.mark.parametrize(
    ("ops", "cause"),
    [
        (("aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::nonzero"), "mask_index"),
        (("IndexBackward0", "aten::_index_put_impl_", "aten::nonzero"), "mask_index"),
        (("aten::where", "aten::nonzero_numpy", "aten::nonzero"), "nonzero"),
        (("aten::argwhere", "aten::nonzero"), "nonzero"),
        (("aten::isin", "aten::_unique"), "unique"),
        (("aten::allclose", "aten::item"), "equal"),
        (("aten::type_as", "aten::to", "aten::_to_copy", "aten::copy_"), "to_cpu"),
        (("torch::autograd::AccumulateGrad", "aten::item"), "item"),
    ],
)
def test_ops_that_do_what_the_code_asks_for_keep_the_cause(ops: tuple[str, ...], cause: str) -> None:
    assert causes(built(copies(TO_HOST, *ops))) == {cause}


@pytest.mark.parametrize(("file", "cause"), [("train.py", "item"), ("torchvision/ops/boxes.py", "other")])
def test_an_op_made_of_the_users_own_code_asks_for_what_this_code_does(file: str, cause: str) -> None:
    builder = TraceBuilder()
    builder.function("train.py(3): train", 80, 140)
    builder.op("mylib::op", 90, 120)
    builder.function(f"{file}(7): body", 95, 110)
    builder.op("aten::item", 100, 100)
    builder.copy(TO_HOST, 125, 35, launch=120, size=4)
    builder.call("cudaStreamSynchronize", 124, 40)
    assert causes(builder) == {cause}


@pytest.mark.parametrize(("op", "expected"), [("Torch-Compiled Region: 0/0", "other"), ("train", "device_synchronize")])
def test_what_torch_compiled_synchronizes_by_its_own_doing(op: str, expected: str) -> None:
    assert causes(built(calls("cudaDeviceSynchronize", op))) == {expected}


@pytest.mark.parametrize(
    ("call", "kind", "expected"),
    [
        ("hipMemcpyWithStream", "HtoD (Host -> Device)", "blocking_copy_htod"),
        ("hipMemcpyWithStream", "DtoH (Device -> Host)", "blocking_copy_dtoh"),
        ("cudaMemcpy", FROM_HOST, "blocking_copy_htod"),
        ("cudaMemcpy", PINNED_TO_HOST, "blocking_copy_dtoh"),
        ("cuMemcpyDtoH_v2", TO_HOST, "blocking_copy_dtoh"),
        ("cuMemcpyHtoD_v2", FROM_HOST, "blocking_copy_htod"),
        ("cuMemcpyHtoDAsync_v2", FROM_HOST, "pageable_copy"),
        ("cudaMemcpy2DAsync", FROM_HOST, "pageable_copy"),
    ],
)
def test_copies_by_other_calls(call: str, kind: str, expected: str) -> None:
    assert causes(built(copied(call, kind))) == {expected}


@pytest.mark.parametrize(("duration", "expected"), [(30, {"item"}), (300, set())])
def test_hip_records_a_value_that_is_read_as_a_copy_on_the_gpu(duration: int, expected: set[str]) -> None:
    builder = TraceBuilder()
    nested(builder, ("aten::item", "aten::_local_scalar_dense"))
    correlation = builder.call("hipMemcpyWithStream", 120, 40)
    name = "Memcpy DtoD (Device -> Device)"
    builder.activity("gpu_memcpy", name, 125, duration, correlation=correlation, device=0, stream=COMPUTE, bytes=1)
    assert causes(builder) == expected


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        *(("cudaMemcpyAsync", "DtoD (Device -> Device)"), ("cudaMemcpy", "DtoD (Device -> Device)")),
        *(("cuMemcpyDtoD_v2", "DtoD (Device -> Device)"), ("cudaMemcpyPeerAsync", "PtoP (Device -> Device)")),
        *(("cudaMemcpyAsync", PINNED_FROM_HOST), ("cudaMemcpyAsync", PINNED_TO_HOST)),
        ("hipMemcpyAsync", "HtoD (Host -> Device)"),
    ],
)
def test_copies_that_do_not_block_are_no_waits(call: str, kind: str) -> None:
    assert causes(built(copied(call, kind))) == set()
