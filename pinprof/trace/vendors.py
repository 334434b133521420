"""The names that vendors give: of runtime calls, categories of events, kernels, and libraries of collectives.

What such a name means is written once, here: to add a vendor, add words to this module. Other modules know at most
the names of calls without the vendor's prefix (`calls`). A name that none of the patterns knows means nothing: it is
"other" or "unknown", never "none".
"""

import re
from dataclasses import dataclass
from typing import Final

# Categories of events (libkineto/include/ActivityType.h)

OWN_CALLS: Final = ("cuda_runtime", "cuda_driver")  # categories of the runtime calls of CUDA and HIP
FOREIGN_CALL: Final = re.compile(r"(?!cuda_)[a-z]\w{0,40}_(?:runtime|driver)|hpu_op")
"""Categories of the runtime calls of other vendors than those of `RUNTIME`."""
VENDORS: Final = {
    "xpu": "Intel's XPU",
    "mtia": "Meta's MTIA",
    "hpu": "Intel's Gaudi",
    "privateuse1": "a PrivateUse1 device, such as Ascend's NPU",
    "npu": "Ascend's NPU",
}


def foreign_vendor(category: str) -> str:
    """Return the vendor whose calls or work have this category; empty for CUDA, ROCm and all other categories."""
    prefix = category.partition("_")[0]
    return VENDORS.get(prefix, f"the {prefix} device" if FOREIGN_CALL.fullmatch(category) else "")


# Runtime calls of CUDA, its driver, and HIP

RUNTIME: Final = r"(?:cuda|cu|hip)"
RUNTIME_CALL: Final = re.compile(rf"{RUNTIME}([A-Z]\w*?)(?:_v\d+|_ptsz|_ptds)*")
"""`cudaMemcpy_v3020`, `cudaStreamSynchronize_ptsz`: variants of one call carry suffixes."""
KERNEL_LAUNCH: Final = re.compile(rf"{RUNTIME}(?:Ext)?(?:Module)?Launch(?:Cooperative)?Kernel\w*")
"""`cudaLaunchKernelExC`, `cuLaunchKernel_ptsz`, `hipExtModuleLaunchKernel`; not cudaLaunchHostFunc, which runs on the
host."""
COPY_CALL: Final = re.compile(rf"{RUNTIME}Memcpy\w*")
GRAPH_LAUNCH: Final = re.compile(rf"{RUNTIME}GraphLaunch\w*")
BEGIN_CAPTURE: Final = re.compile(rf"{RUNTIME}StreamBeginCapture\w*")
END_CAPTURE: Final = re.compile(rf"{RUNTIME}StreamEndCapture\w*")
RECORD_EVENT: Final = re.compile(rf"{RUNTIME}EventRecord")
AWAIT_EVENT: Final = re.compile(rf"{RUNTIME}StreamWaitEvent")
MAKES_GRAPH: Final = re.compile(r"StreamBeginCapture|StreamEndCapture|GraphInstantiate")
LAUNCHES_WORK: Final = re.compile(r"Memcpy|Memset|Launch")
LAUNCHES_OR_WAITS: Final = re.compile(r"Synchronize|Memcpy|Memset|Launch|EventQuery|StreamQuery|StreamWait")
LOADS_CODE: Final = re.compile(r"(?:Module|Library)(?:Load|Get)|LazyLoad|hipCreateModule|hiprtc|nvrtc")
"""Calls that load or compile code."""
SYNCHRONIZE: Final = frozenset(
    f"{runtime}{what}Synchronize" for runtime in ("cuda", "hip") for what in ("Device", "Stream", "Event")
)
FREE_CALLS: Final = frozenset({"cudaFree", "hipFree"})
WAITING_COPY: Final = "hipMemcpyWithStream"
"""What torch calls to copy between host and device and wait for it (c10/cuda/CUDAFunctions.h, memcpy_and_sync)."""
WAITING_FOR_STREAM: Final = frozenset({"cudaStreamSynchronize", "hipStreamSynchronize", WAITING_COPY})


def is_of_rocm(call: str) -> bool:
    """Return whether a runtime call of this name is HIP's."""
    return call.startswith("hip")


COPY_DIRECTIONS: Final = {
    **dict.fromkeys(("m2d", "h2d", "s2d"), "HtoD"),
    **dict.fromkeys(("d2m", "d2h", "d2s"), "DtoH"),
    "d2d": "DtoD",
    "9": "HtoH",
}
"""Other names of directions of copies: those of Intel, for which M is memory of the host, and S is shared memory; and
CUPTI's number (CUpti_ActivityMemcpyKind), which torch's own CUPTI backend writes for a kind without a name."""

# Collectives

COLLECTIVE_PREFIXES: Final = ("c10d::", "nccl:", "gloo:", "hccl:", "xccl:", "record_param_comms")
"""Ops and annotations that torch.distributed records around a collective."""
NAMED_COLLECTIVE: Final = re.compile("^(?:c10d::|nccl:)")
"""Begins the name of a range that says which collective is in it."""
COLLECTIVE_KERNEL: Final = re.compile(
    r"(?i)^(?:void )?(?:\(anonymous namespace\)::|<unnamed>::)?(?:nccl|rccl|msccl|oneccl|hccl|hcom_)"
    r"|^(?!triton_).*(?:all_?reduce|cross_device_reduce|reduce_?scatter_kernel|all_?gather_kernel"
    r"|all_?to_?all_kernel|nvshmem|deep_ep::)"
)
"""Kernels of collectives in traces that do not name the collective: those of libraries, and torch's, vLLM's and
TensorRT-LLM's own, which read the memory of other GPUs (`multimem_all_reduce_kernel`, `cross_device_reduce_1stage`)."""


# Kernels


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


COLLECTIVES: Final = KernelKind("collectives", COLLECTIVE_KERNEL)
UPDATE: Final = re.compile(r"(?i)multi_tensor_apply|(?<![a-z])(?:adam|sgd|lamb|adagrad|rmsprop|lion)(?![a-z])")
"""In the names of kernels that may change the weights; those of `torch._foreach_*` also do other things."""
OF_OPTIMIZER: Final = KernelKind(
    "optimizer", re.compile(r"(?i)fused_?(?:adam|sgd)|(?:adam|sgd|lamb)w?_?(?:math|functor)")
)
ATTENTION: Final = KernelKind(
    "attention",
    re.compile(
        r"(?i)(?<!cache_)flash(?!infer)|fmha|attention|_attn_|attn_[fb]wd|mha_|[_:]sdpa|flashinfer::Batch(?:Pre|De)|"
        r"mla_(?:dec|fwd|a\d)"
    ),
    re.compile(r"(?i)_attention|FlashAttn"),
    all_of_op=True,
    multiplies=True,
)
CONVOLUTION_KERNELS: Final = KernelKind(
    "convolutions",
    re.compile(r"(?i)fprop|dgrad|wgrad|conv(?!ert)|scudnn|implicit_gemm|winograd|igemm_(?:fwd|bwd|wrw)_"),
    re.compile(r"aten::(_?conv|cudnn_conv|mkldnn_conv|miopen_conv)|ConvolutionBackward|ConvNd"),
    all_of_op=True,
    multiplies=True,
)
PRODUCTS: Final = KernelKind(
    "matrix products",
    re.compile(
        r"(?i)(?<!fb)gemm|gemv|cutlass|cublas|xmma|nvjet|matmul|splitK|dot_kernel|Cijk_|triton_tem|^bmm_|_b?mm_kernel|"
        r"marlin(?:_moe_wna16)?(?:::|<)|machete|fused_moe_kernel|[_:]fmoe_|grouped_mm"
    ),
    re.compile(r"aten::(mm|addmm|bmm|baddbmm|matmul|linear|einsum|_scaled_mm|mv|addmv|dot)$"),
    multiplies=True,
)
NORMALIZATION: Final = KernelKind(
    "normalization",
    re.compile(r"(?i)(batch|layer|group|instance|rms)_?norm|bn_(fw|bw)|GammaBeta|RowwiseMoments|Welford"),
    re.compile(r"(?i)(batch|layer|group|instance|rms)_?norm"),
    all_of_op=True,
)
COPY_KERNELS: Final = KernelKind(
    "copies",
    re.compile(
        r"(?i)direct_copy|CatArray|nchwToNhwc|nhwcToNchw|transpose|copy_device_to_device|float16_copy|and_?cache|"
        r"convertTensor|tensorTransform|TransData"
    ),
    re.compile(r"aten::(copy_|to|_to_copy|contiguous|clone|cat|stack)$"),
)
INDEXING: Final = KernelKind(
    "indexing",
    re.compile(
        r"(?i)index|gather|scatter|(?<!rotary_)embedding|_embs_|(?<!ten)sort|topk|DeviceSelect|compact|(?<!s)take|masked_select|"
        r"nonzero"
    ),
)
REDUCTIONS: Final = KernelKind(
    "reductions", re.compile(r"(?i)reduce|softmax|nll_loss|cross_entropy|argm(ax|in)|cumsum|scan|pool|norm")
)
ELEMENTWISE: Final = KernelKind(
    "elementwise",
    re.compile(
        r"(?i)elem(ent)?wise|fill|Functor|dropout|activation|pointwise|distribution|arange|act_and_mul|"
        r"rotary|quant|TensorOpWith|Op\dd?Tensor"
    ),
)
OTHER: Final = KernelKind("other")
BY_NAME: Final = (
    ATTENTION,
    CONVOLUTION_KERNELS,
    PRODUCTS,
    NORMALIZATION,
    COPY_KERNELS,
    INDEXING,
    REDUCTIONS,
    ELEMENTWISE,
)
"""The first that fits a kernel's name is its kind."""
KERNEL_KINDS: Final = (COLLECTIVES, OF_OPTIMIZER, *BY_NAME, OTHER)
TENSOR_CORES: Final = re.compile(
    r"tensorop|[sh](884|1688|16816|16832)|i8816|wgmma|hmma|[gG]mma|nvjet|(?<!cache_)flash(?!infer)|"
    r"_(f16|bf16|tf32)(f16|bf16|tf32|f32)*_|(ampere|turing|volta|sm\d+)_(h|fp16_s|bf16_s|fp16|bf16)|tensor\d+x\d+x\d+|"
    r"SM\d+_\d+x\d+x\d+|umma|tcgen05|^bmm_(?!Fp32)|fmhaSm|deep_gemm|marlin|machete|(bf16|fp16|fp8)x(bf16|fp16|fp8|mx)|"
    r"_MI\d+x\d+x\d+|xdl|mfma|gtcx|dpas|(?i:(?:ck_tile|aiter).*fmha)"
)
"""Names of products on tensor cores, which AMD calls matrix cores: by their instruction, by their types, or since
Hopper by cuBLAS's `nvjet`. Tensile's `MI16x16x1`, Composable Kernel's `xdl`, MIOpen's `gtcx` are AMD's instructions."""
NO_TENSOR_CORES: Final = re.compile(
    r"(?i)sgemm|simt|_f32f32_f32f32_f32_|_ffma_|scudnn|dgemm|gemv|[^a-z]dot_kernel|splitKreduce|ReduceSplitK|scal_kernel|"
    r"epilogue::impl|OffsetsKernel|workspace_kernel|reduce_wgrad|depthwise|grad\w*_(?:alg\d|engine)|winograd_nonfused"
)
"""Names of products that are not on tensor cores."""
AMD_KERNEL: Final = re.compile(r"^Cijk_|ck_tile|igemm_\w+_gtcx|_ISA9|MIOpen|rocblas")  # in the names of AMD's kernels
SEARCHED_CHARACTERS: Final = 20_000
"""Characters of a name in which a kind is looked for: names of templates are long, and a trace may have any name."""


FUSED_KERNEL: Final = re.compile(r"triton_(?:(poi)|red|per)_")
"""How torch.compile names the kernels that it makes: pointwise ones and reductions. The names of the fused ops follow,
and also those of neighbouring ops."""


SMALL_LOOKUP: Final = re.compile(r"indexSelectSmallIndex")
"""The kernel of a lookup of at most 16 tokens (aten/src/ATen/native/cuda/Indexing.cu)."""
LARGE_LOOKUP: Final = re.compile(r"vectorized_gather_kernel|indexSelectLargeIndex")
"""The kernels of a lookup of more tokens."""
FUSED_LOOKUP: Final = re.compile(r"\btriton_\w+_embedding_")
"""A kernel that Inductor made of a lookup and other ops: torch.compile has compiled the call."""
TOKEN_CHOICE: Final = re.compile(r"argmax|multinomial|exponential|topk")  # ops and kernels that choose the next token
ANY_ATTENTION: Final = re.compile(r"attention|flash_fwd|fmha", re.IGNORECASE)  # ops and kernels of attention
ANY_SOFTMAX: Final = re.compile(r"softmax")  # ops and kernels of attention written by hand, and of other models


def kind_of_name(name: str) -> KernelKind:
    """Return what a kernel of this name does; `OTHER` if the name does not tell."""
    if (fused := FUSED_KERNEL.match(name)) and not (NORMALIZATION.kernels and NORMALIZATION.kernels.search(name)):
        return ELEMENTWISE if fused[1] else REDUCTIONS
    kinds = (kind for kind in KERNEL_KINDS if kind.kernels and kind.kernels.search(name, 0, SEARCHED_CHARACTERS))
    return next(kinds, OTHER)


def on_tensor_cores(name: str) -> bool | None:
    """Return whether a kernel of this name works on tensor cores; None if the name does not tell."""
    kind = kind_of_name(name)
    if NO_TENSOR_CORES.search(name, 0, SEARCHED_CHARACTERS) or not (kind.multiplies or kind is OTHER):
        return False
    return True if TENSOR_CORES.search(name, 0, SEARCHED_CHARACTERS) else None


FULL_FLOAT32: Final = re.compile(r"(?<![a-z])sgemm|simt_s(gemm|fprop|dgrad|wgrad)|_f32f32_f32f32_f32_|scudnn")
"""Kernels of cuBLAS and cuDNN that multiply float32 in full precision."""
TF32: Final = re.compile(r"tf32|s1688(?!.*(f16|fp16|bf16))")
"""Kernels that use TF32: products of 16 x 8 x 8 with sums in float32."""
HALF: Final = re.compile(r"fp16|bf16|f16|half|bfloat16|h884|h1688")
"""Names of kernels that read or write smaller types than float32, even if they also name a float32 kernel."""
OF_CONVOLUTION: Final = re.compile(r"fprop|dgrad|wgrad|convolve|scudnn|cudnn")
LAYOUT_CHANGE: Final = re.compile(
    r"nchwTo\w{0,20}nhwc|n\w{0,8}hwcTo\w{0,20}nchw|cudnn::.*convertTensor_kernel", re.IGNORECASE
)
"""How cuDNN names the kernels that change layouts."""
