"""Names of a trace on a page, cut to a length that one can read."""

import re

import numpy as np

from pinprof.report.words import cut, printable
from pinprof.trace.frames import called_name
from pinprof.trace.serving import is_serving
from pinprof.trace.tables import Int64s, Trace
from pinprof.trace.threads import STEP_PREFIX

MAX_LABEL = 40
"""Longest label in characters."""

DECORATION = re.compile(
    r"^void |\(anonymous namespace\)::|^autograd::engine::evaluate_function: "
    r"|^(?:ampere|volta|turing|maxwell|pascal|sm\d+_xmma|cutlass\d*_\d+(?:_tensorop|_simt|_wmma)?)_(?=\w)"
)
"""What many names begin with, so that what tells them apart would be cut off in a narrow rectangle."""
WRAPPER = re.compile(
    r"^(?:\w*elementwise_kernel\w*|reduce_kernel|multi_tensor_apply_kernel|Kernel2?|device_kernel"
    r"|gpu_kernel_impl\w*|[AB]Unary\w*|BinaryFunctor|func_wrapper_t|ReduceOp|TensorList\w*"
    r"|std|array|function|c10|at|native|cuda|detail|\w+_internal|cutlass|kernel|gemm|TensorIteratorBase|operator|lambda"
    r"|bool|char|int|long|short|float|double|half|unsigned|signed|const|void|u?int\d*_t|Half|BFloat16|complex)$"
)
"""Templates and types of kernels that do a thing which only an argument of theirs names, as torch and CUTLASS do it."""
WORD = re.compile(r"(?<!#)\b[A-Za-z_]\w*")
ENDS_IN_NUMBER = re.compile(r"\d{1,15}$", re.ASCII)
ARGUMENTS = re.compile(r"(?<=\w)[<(].*", re.DOTALL)


def step_names(trace: Trace) -> list[str]:
    """Return what the trace calls each step (`ProfilerStep#7`); steps without names of their own count from 1."""
    steps, marks = trace.steps, trace.annotations
    counted = [f"step {number}" for number in range(1, len(steps) + 1)]
    if steps.source not in {"profiler_step", "annotation"} or is_serving(steps):  # its numbers are sizes of batches
        return counted
    wanted = np.isin(marks.start_ns, steps.start_ns)
    if steps.source == "profiler_step":
        wanted &= marks.named(lambda name: name.startswith(STEP_PREFIX))
    by_start = {int(marks.start_ns[row]): marks.name_of(row) for row in np.flatnonzero(wanted).tolist()}
    named = [cut(by_start.get(start, "")) for start in steps.start_ns.tolist()]
    return named if all(named) and len(set(named)) == len(named) else counted


def shown_numbers(trace: Trace) -> Int64s:
    """Return by which number each step goes: that which its name ends in, if all do and rise; else from 1."""
    ends = [ENDS_IN_NUMBER.search(name) for name in step_names(trace)]
    numbers = np.array([int(end[0]) if end else -1 for end in ends], np.int64)
    rises = bool((numbers >= 0).all() and (np.diff(numbers) > 0).all())
    return numbers if rises else np.arange(1, len(numbers) + 1)


def short(name: str) -> str:
    """Return what is left of a name in a narrow rectangle, as plain text.

    Of a template it is its own name, or what tells which of many such kernels it is: of `elementwise_kernel<..,
    CUDAFunctor_add<float>, ..>` the functor. Of a Python function it is its name without the file.
    """
    plain = DECORATION.sub("", printable(name))
    called = called_name(plain)
    if called:
        return _cut(called)
    head = ARGUMENTS.sub("", plain)
    if head != plain:
        head = head.rsplit("::", maxsplit=1)[-1]
        if WRAPPER.match(head):
            head = next((word for word in WORD.findall(plain[: 20 * MAX_LABEL]) if not WRAPPER.match(word)), head)
            head = DECORATION.sub("", head)
    return _cut(head)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…"
