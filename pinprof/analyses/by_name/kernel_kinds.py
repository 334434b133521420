"""What kernels do: products, attention, convolutions and so on, and which of these run on tensor cores.

A kernel of a collective or of an optimizer's step has that kind. The kind of others follows from the name, which
cuBLAS, cuDNN, torch or Triton chose; if the name says nothing, from the outermost op that launched the kernel.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from pinprof.trace.callers import outermost_op
from pinprof.trace.collectives import is_collective_kernel
from pinprof.trace.links import follow
from pinprof.trace.phases import OPTIMIZER, phase_of_calls
from pinprof.trace.tables import NONE, Bools, Int64s, Trace


@dataclass(frozen=True)
class KernelKind:
    """A kind of kernel, and the names of its kernels and of the ops that launch them."""

    name: str
    kernels: re.Pattern[str] | None = None
    ops: re.Pattern[str] | None = None
    all_of_op: bool = False
    """Whether all kernels of such an op are of this kind; otherwise only those whose own name says nothing."""
    multiplies: bool = False
    """Whether tensor cores can do most of its work."""


COLLECTIVES = KernelKind("collectives")
OF_OPTIMIZER = KernelKind("optimizer")
ATTENTION = KernelKind(
    "attention",
    re.compile(r"(?i)flash|fmha|attention|_attn_|mha_"),
    re.compile(r"(?i)_attention|FlashAttn"),
    all_of_op=True,
    multiplies=True,
)
CONVOLUTIONS = KernelKind(
    "convolutions",
    re.compile(r"(?i)fprop|dgrad|wgrad|conv(?!ert)|scudnn|implicit_gemm|winograd"),
    re.compile(r"aten::(_?conv|cudnn_conv|mkldnn_conv|miopen_conv)|ConvolutionBackward|ConvNd"),
    all_of_op=True,
    multiplies=True,
)
PRODUCTS = KernelKind(
    "matrix products",
    re.compile(r"(?i)(?<!fb)gemm|gemv|cutlass|cublas|xmma|nvjet|matmul|splitK|dot_kernel|Cijk_|triton_tem"),
    re.compile(r"aten::(mm|addmm|bmm|baddbmm|matmul|linear|einsum|_scaled_mm|mv|addmv|dot)$"),
    multiplies=True,
)
NORMALIZATION = KernelKind(
    "normalization",
    re.compile(r"(?i)(batch|layer|group|instance|rms)_?norm|bn_(fw|bw)|GammaBeta|RowwiseMoments|Welford"),
    re.compile(r"(?i)(batch|layer|group|instance|rms)_?norm"),
    all_of_op=True,
)
COPIES = KernelKind(
    "copies",
    re.compile(r"(?i)direct_copy|CatArray|nchwToNhwc|nhwcToNchw|transpose|copy_device_to_device|float16_copy"),
    re.compile(r"aten::(copy_|to|_to_copy|contiguous|clone|cat|stack)$"),
)
INDEXING = KernelKind(
    "indexing",
    re.compile(r"(?i)index|gather|scatter|embedding|_embs_|sort|topk|DeviceSelect|compact|take|masked_select|nonzero"),
)
REDUCTIONS = KernelKind(
    "reductions",
    re.compile(r"(?i)reduce|softmax|nll_loss|cross_entropy|triton_(red|per)_|argm(ax|in)|cumsum|scan|pool|norm"),
)
ELEMENTWISE = KernelKind(
    "elementwise",
    re.compile(r"(?i)elem(ent)?wise|triton_poi_|fill|Functor|dropout|activation|pointwise|distribution|arange"),
)
OTHER = KernelKind("other")

BY_NAME: Final = (ATTENTION, CONVOLUTIONS, PRODUCTS, NORMALIZATION, COPIES, INDEXING, REDUCTIONS, ELEMENTWISE)
"""The first that fits a kernel's name is its kind."""
KERNEL_KINDS: Final = (COLLECTIVES, OF_OPTIMIZER, *BY_NAME, OTHER)

TENSOR_CORES = re.compile(
    r"tensorop|[sh](884|1688|16816|16832)|i8816|wgmma|hmma|gmma|nvjet|flash|"
    r"_(f16|bf16|tf32)(f16|bf16|tf32|f32)*_|(ampere|turing|volta|sm\d+)_(h|fp16_s|bf16_s|fp16|bf16)"
)
"""Names of products on tensor cores: by their instruction, by their types, or since Hopper by cuBLAS's `nvjet`."""
NO_TENSOR_CORES = re.compile(r"(?i)sgemm|simt|_f32f32_f32f32_f32_|scudnn|dgemm|gemv")
"""Names of products that are not on tensor cores."""


SEARCHED_CHARACTERS = 20_000
"""Characters of a name in which a kind is looked for: names of templates are long, and a trace may have any name."""


@dataclass(frozen=True)
class KindTime:
    """The kernels of one kind that the complete steps launched; times in ns."""

    kind: str
    count: int
    time_ns: int
    tensor_core_ns: int | None
    """The part on tensor cores, judged by names; None where the kind has no use for them."""


def kind_of_kernels(trace: Trace, rows: Int64s) -> Int64s:
    """Return the kind of each of these kernels, as an index into `KERNEL_KINDS`."""
    gpu, launch = trace.gpu, trace.links.launch[rows]
    op = follow(outermost_op(trace, np.arange(len(trace.calls))), launch)

    def launched_by(ops: re.Pattern[str] | None) -> Bools:
        wanted = trace.ops.named(_finds(ops)) if ops else np.zeros(len(trace.ops), bool)
        return (op != NONE) & np.append(wanted, False)[op]

    kind = np.full(len(rows), KERNEL_KINDS.index(OTHER), np.int64)
    for candidate in reversed(BY_NAME):
        fits = gpu.named(_finds(candidate.kernels))[rows] if candidate.kernels else np.zeros(len(rows), bool)
        fits |= launched_by(candidate.ops) & (candidate.all_of_op | (kind == KERNEL_KINDS.index(OTHER)))
        kind[fits] = KERNEL_KINDS.index(candidate)
    kind[follow(phase_of_calls(trace).astype(np.int32), launch) == OPTIMIZER] = KERNEL_KINDS.index(OF_OPTIMIZER)
    kind[is_collective_kernel(gpu)[rows]] = KERNEL_KINDS.index(COLLECTIVES)
    return kind


def _finds(pattern: re.Pattern[str]) -> Callable[[str], object]:
    return lambda name: pattern.search(name, 0, SEARCHED_CHARACTERS)


def times_of_kinds(trace: Trace, rows: Int64s, kind: Int64s) -> tuple[KindTime, ...]:
    """Return the time of these kernels by kind, the costliest kind first; `kind` is what `kind_of_kernels` returns."""
    time = trace.gpu.duration_ns[rows]
    on_tensor_cores = (trace.gpu.named(TENSOR_CORES.search) & ~trace.gpu.named(NO_TENSOR_CORES.search))[rows]
    times = [
        KindTime(
            KERNEL_KINDS[number].name,
            int((kind == number).sum()),
            int(time[kind == number].sum()),
            int(time[(kind == number) & on_tensor_cores].sum()) if KERNEL_KINDS[number].multiplies else None,
        )
        for number in np.unique(kind).tolist()
    ]
    return tuple(sorted(times, key=lambda of_kind: -of_kind.time_ns))
