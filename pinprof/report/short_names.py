"""Short names of events, for narrow rectangles and rows."""

import re

from pinprof.report.words import printable
from pinprof.trace.frames import called_name

MAX_SHORT_NAME_CHARS = 40
"""Longest label in characters."""

SHARED_BEGINNING = re.compile(
    r"^void |\(anonymous namespace\)::|^autograd::engine::evaluate_function: "
    r"|^(?:ampere|volta|turing|maxwell|pascal|sm\d+_xmma|cutlass\d*_\d+(?:_tensorop|_simt|_wmma)?)_(?=\w)"
)
"""Beginnings that many names share; in a narrow rectangle they would leave no room for the rest."""
WRAPPING_TEMPLATE = re.compile(
    r"^(?:\w*elementwise_kernel\w*|reduce_kernel|multi_tensor_apply_kernel|Kernel2?|device_kernel"
    r"|gpu_kernel_impl\w*|[AB]Unary\w*|BinaryFunctor|func_wrapper_t|ReduceOp|TensorList\w*"
    r"|std|array|function|c10|at|native|cuda|detail|\w+_internal|cutlass|kernel|gemm|TensorIteratorBase|operator|lambda"
    r"|bool|char|int|long|short|float|double|half|unsigned|signed|const|void|u?int\d*_t|Half|BFloat16|complex)$"
)
"""Templates and types of kernels that do a thing which only an argument of theirs names, as torch and CUTLASS do it."""
NAME_WORD = re.compile(r"(?<!#)\b[A-Za-z_]\w*")
NAME_ARGUMENTS = re.compile(r"(?<=\w)[<(].*", re.DOTALL)


def short(name: str) -> str:
    """Return a short form of a name for a narrow rectangle, as plain text.

    A template keeps its own name, or the argument that distinguishes it among many such kernels:
    `elementwise_kernel<.., CUDAFunctor_add<float>, ..>` becomes `CUDAFunctor_add`. A Python function loses its file.
    """
    plain = SHARED_BEGINNING.sub("", printable(name))
    called = called_name(plain)
    if called:
        return _cut(called)
    head = NAME_ARGUMENTS.sub("", plain)
    if head != plain:
        head = head.rsplit("::", maxsplit=1)[-1][: 20 * MAX_SHORT_NAME_CHARS]
        if WRAPPING_TEMPLATE.match(head):
            head = next(
                (
                    word
                    for word in NAME_WORD.findall(plain[: 20 * MAX_SHORT_NAME_CHARS])
                    if not WRAPPING_TEMPLATE.match(word)
                ),
                head,
            )
            head = SHARED_BEGINNING.sub("", head)
    return _cut(head)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_SHORT_NAME_CHARS else text[: MAX_SHORT_NAME_CHARS - 1] + "…"
