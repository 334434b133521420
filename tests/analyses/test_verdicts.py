"""Whether a wait is a problem: hidden in another call, asked for, harmless, or the profiler's own."""

import pytest
from trace_builder import COMPUTE, SIDE, TraceBuilder
from trace_parts import Part, built, call, event, kernel, long_launch

from pinprof.analyses.syncs.sites import Site, measure_syncs

CUDA = "torch/cuda/__init__.py(1083): synchronize"
BUILTIN = "<built-in function _cuda_synchronize>"
TRAIN = "train.py(3): train"


def only_site(builder: TraceBuilder) -> Site:
    (site,) = measure_syncs(builder.read()).sites
    return site


def verdict(builder: TraceBuilder) -> str:
    return only_site(builder).verdict


def synchronize(*functions: str, call: str = "cudaDeviceSynchronize", op: str | None = None) -> TraceBuilder:
    """A wait from 100 to 510 µs for a kernel that ends at 500, called from the last of some Python functions."""
    builder = TraceBuilder()
    builder.kernel(20, 480, launch=10)
    for depth, function in enumerate(functions):
        builder.function(function, 50 + depth, 500 - 2 * depth)
    if op:
        builder.op(op, 90, 430)
    builder.call(call, 100, 410)
    builder.kernel(600, 10, launch=590)
    return builder


@pytest.mark.parametrize(
    ("op", "call", "cause"), [("aten::foo", "cudaStreamSynchronize", "other"), (None, "cudaMalloc", "device_malloc")]
)
def test_a_wait_that_no_line_of_the_program_names_is_hidden(op: str | None, call: str, cause: str) -> None:
    site = only_site(synchronize(TRAIN, call=call, op=op))
    assert (site.cause, site.verdict) == (cause, "hidden")


CALLS = ("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize", "hipDeviceSynchronize")


@pytest.mark.parametrize("call", CALLS)
def test_without_stacks_a_synchronize_is_taken_to_be_asked_for(call: str) -> None:
    assert verdict(synchronize(call=call)) == "explicit"


@pytest.mark.parametrize("call", CALLS)
def test_a_synchronize_in_an_op_is_hidden(call: str) -> None:
    assert verdict(synchronize(call=call, op="aten::foo")) == "hidden"


@pytest.mark.parametrize(
    "functions",
    [
        (TRAIN,),
        (TRAIN, BUILTIN),
        (TRAIN, CUDA, BUILTIN),
        (TRAIN, CUDA, "torch/cuda/__init__.py(401): __exit__", BUILTIN),
        (TRAIN, "torch/cuda/streams.py(231): synchronize", "<built-in method synchronize of Event object at 0x7f>"),
        (TRAIN, "torch/accelerator/__init__.py(250): synchronize", "<built-in function _accelerator_synchronize>"),
        ("accelerate/launcher.py(3): launch", TRAIN, CUDA, BUILTIN),
        ("/home/me/train.py(3): train", CUDA, BUILTIN),
        ("mypackage/loop.py(3): train", CUDA, BUILTIN),
        (TRAIN, "nn.Module: Net_0", CUDA, BUILTIN),
        ("<string>(1): <module>", CUDA, BUILTIN),  # not a file
        (BUILTIN,),
    ],
)
def test_a_synchronize_that_the_users_code_calls_is_explicit(functions: tuple[str, ...]) -> None:
    assert verdict(synchronize(*functions)) == "explicit"


@pytest.mark.parametrize(
    "functions",
    [
        (TRAIN, "accelerate/utils/other.py(80): wait", CUDA, BUILTIN),
        (TRAIN, "transformers/trainer.py(2000): _inner_training_loop", CUDA, BUILTIN),
        (TRAIN, "torch/distributed/fsdp/_runtime_utils.py(9): _wait", "torch/cuda/streams.py(231): synchronize"),
        (TRAIN, "torch/utils/benchmark/timer.py(17): timer", CUDA, BUILTIN),
        (TRAIN, "/opt/venv/lib/python3.12/site-packages/unknown/loop.py(7): run", CUDA, BUILTIN),
        ("mypackage/loop.py(3): train", "lightning/pytorch/loops/fit_loop.py(7): run", CUDA),
    ],
)
def test_a_synchronize_that_a_library_calls_is_hidden(functions: tuple[str, ...]) -> None:
    assert verdict(synchronize(*functions)) == "hidden"


@pytest.mark.parametrize("folder", [".venv/lib/python3.12/site-packages/", "/usr/lib/python3/dist-packages/"])
def test_torchs_own_synchronize_is_known_wherever_torch_is_installed(folder: str) -> None:
    assert verdict(synchronize(TRAIN, folder + CUDA)) == "explicit"
    assert verdict(synchronize("accelerate/a.py(3): wait", folder + CUDA)) == "hidden"


def test_a_file_of_the_user_that_is_called_like_torchs_is_theirs() -> None:
    assert verdict(synchronize(TRAIN, "accelerate/a.py(3): f", "mytorch/cuda/a.py(7): wait", CUDA)) == "explicit"
    assert verdict(synchronize("accelerate/a.py(3): f", "torch/cuda/a.py(7): wait")) == "hidden"


def side_wait(call: str, *, queued_until: float, launch: float = 14) -> TraceBuilder:
    """A wait from 100 to 210 µs for a short kernel of a side stream, while the compute stream runs until some time."""
    builder = TraceBuilder()
    builder.kernel(15, 190, launch=10, stream=SIDE)  # ends at 205
    builder.kernel(20, queued_until - 20, launch=launch)
    builder.call(call, 100, 110, correlation=99)
    if call == "cudaStreamSynchronize":
        builder.event("cuda_sync", "Stream Sync", 100, 110, stream=SIDE, correlation=99, device=0)
    builder.kernel(2000, 1000, launch=1990)
    return builder


@pytest.mark.parametrize("call", ["cudaEventSynchronize", "cudaStreamSynchronize"])
def test_a_wait_is_benign_while_the_kernels_queued_before_keep_the_gpu_busy(call: str) -> None:
    assert verdict(side_wait(call, queued_until=500)) == "benign"


@pytest.mark.parametrize("call", ["cudaEventSynchronize", "cudaStreamSynchronize"])
@pytest.mark.parametrize("queued_until", [150, 208, 212])
def test_a_wait_after_which_the_kernels_are_done_is_not(call: str, queued_until: float) -> None:
    """It returns at 210, and the clocks of host and GPU agree to 2 µs."""
    assert verdict(side_wait(call, queued_until=queued_until)) == "explicit"


EVENT_WAIT = call("cudaEventSynchronize", 100, 105)
BUSY_ELSEWHERE: dict[str, list[Part]] = {
    "by kernels that another thread queued meanwhile": [
        *(kernel(15, 188, launch=10, stream=SIDE), kernel(20, 130, launch=14), EVENT_WAIT),
        *(kernel(150, 400, launch=130, thread=321), kernel(2000, 1000, launch=1990)),
    ],
    "on a stream with less work": [  # the compute stream is dry at 200
        *(kernel(20, 180, launch=10), kernel(20, 300, launch=12, stream=SIDE), EVENT_WAIT),
        kernel(700, 1000, launch=690),
    ],
    "on another GPU": [
        *(kernel(15, 2000, launch=5, device=1), kernel(20, 180, launch=10), EVENT_WAIT),
        kernel(700, 10, launch=690),
    ],
}


@pytest.mark.parametrize("parts", BUSY_ELSEWHERE.values(), ids=BUSY_ELSEWHERE)
def test_a_wait_is_not_benign_while_the_gpu_is_busy_otherwise(parts: list[Part]) -> None:
    assert verdict(built(*parts)) == "explicit"


@pytest.mark.parametrize(
    ("overhead", "cause"),
    [
        ("Command Buffer Full", "queue_full"),
        ("Lazy Function Loading", "module_load"),
        ("Driver Compiler", "module_load"),
    ],
)
def test_a_launch_that_is_held_up_is_benign_for_no_later_step_pays_for_it(overhead: str, cause: str) -> None:
    held_up = long_launch(100, 350, kernel=500), event("overhead", overhead, 101, 340)
    site = only_site(built(kernel(20, 480, launch=10), *held_up))
    assert (site.cause, site.verdict) == (cause, "benign")


def test_waits_of_a_site_are_benign_only_if_all_are() -> None:
    builder = side_wait("cudaEventSynchronize", queued_until=500)
    builder.call("cudaEventSynchronize", 2100, 905)  # until 3005, when the kernel has ended
    builder.kernel(4000, 10, launch=3990)
    site = only_site(builder)
    assert (site.total.count, site.verdict) == (2, "explicit")


LIMITER = "FullyShardedDataParallel.rate_limiter"


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        (((LIMITER, 90, 500),), "benign"),
        (((LIMITER, 80, 600), ("inner", 90, 500)), "benign"),
        ((("FullyShardedDataParallel.forward", 90, 500),), "explicit"),
        (((LIMITER, 10, 80),), "explicit"),
        (((LIMITER, 520, 60),), "explicit"),
    ],
)
def test_the_limiter_of_fsdp_is_benign(annotations: tuple[tuple[str, float, float], ...], expected: str) -> None:
    builder = synchronize(call="cudaEventSynchronize")
    for name, start, duration in annotations:
        builder.event("user_annotation", name, start, duration)
    assert verdict(builder) == expected


def test_the_profilers_synchronize_and_buffers_are_its_own() -> None:
    builder = TraceBuilder()
    builder.step(1, 0, 400)
    builder.kernel(20, 480, launch=10)
    correlation = builder.call("cudaLaunchKernel", 100, 250)
    builder.activity("kernel", "gemm", 500, 10, correlation=correlation, device=0, stream=COMPUTE)
    builder.overhead("Activity Buffer Request", 101, 240)
    builder.call("cudaDeviceSynchronize", 450, 65)
    site = only_site(builder)
    assert (site.cause, site.verdict, site.total.count, site.total.idle_ns) == ("profiler", "profiler", 2, 0)
