"""What kernels do, told by their names and ops, and whether on tensor cores."""

from pathlib import Path

import numpy as np
import pytest
from recordings import TRACES
from trace_builder import TraceBuilder

from pinprof.analyses.by_name.kernels import KernelSums, measure_kernels
from pinprof.trace import read_trace
from pinprof.trace.sources import Sources
from pinprof.trace.tables import KERNEL
from pinprof.trace.vendors import KERNEL_KINDS, kind_of_name, on_tensor_cores

ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, Array<char*, 3> >"
SGEMM = "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nt_align1>(cutlass_80_simt_sgemm::Params)"


def sums_of(path: Path) -> KernelSums:
    return measure_kernels(read_trace(path), Sources(str(path)))


@pytest.mark.parametrize(
    ("kernel", "op", "kind", "on_tensor_cores"),
    [
        (SGEMM, "aten::mm", "matrix products", False),
        ("volta_sgemm_64x64_nt", "aten::conv2d", "convolutions", False),
        (
            "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128>>",
            "aten::_flash_attention_forward",
            "attention",
            True,
        ),
        ("void (anonymous namespace)::softmax_warp_forward", "aten::scaled_dot_product_attention", "attention", False),
        ("void (anonymous namespace)::softmax_warp_forward", "aten::softmax", "reductions", None),
        ("void cudnn::bn_fw_tr_1C11_singleread<float, 512>", "aten::batch_norm", "normalization", None),
        (ELEMENTWISE, "aten::layer_norm", "normalization", None),
        (ELEMENTWISE, "aten::add", "elementwise", None),
        ("triton_poi_fused_add_0", "inductor", "elementwise", None),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "c10d::allreduce_", "collectives", None),
        ("my_kernel", "aten::mm", "matrix products", None),
        ("my_kernel", "my::op", "other", None),
    ],
)
def test_names_and_ops_tell_the_kind(
    tmp_path: Path, kernel: str, op: str, kind: str, *, on_tensor_cores: bool | None
) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 100)
    builder.op(op, 10, 20)
    builder.kernel(40, 30, launch=15, name=kernel)
    (row,) = sums_of(builder.write(tmp_path / "trace.json")).kinds
    assert (row.kind, row.count, row.time_ns) == (kind, 1, 30_000)
    assert row.tensor_core_ns == (None if on_tensor_cores is None else 30_000 * on_tensor_cores)


ROWS = [line.split("\t") for line in (Path(__file__).parent / "kernel_names.tsv").read_text().splitlines()]
CORES = {True: "on", False: "off", None: "unknown"}


def test_names_of_four_vendors_tell_the_kind_and_tensor_cores() -> None:
    """The names are of public traces, and of those of this project; long ones are cut."""
    assert len(ROWS) > 200
    assert {vendor for vendor, *_ in ROWS} == {"nvidia", "amd", "intel", "ascend"}
    told = [(kind_of_name(name), on_tensor_cores(name)) for *_, name in ROWS]
    assert [[kind.name, CORES[cores] if kind.multiplies else ""] for kind, cores in told] == [row[1:3] for row in ROWS]


def test_all_in_an_optimizer_is_the_optimizers(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.step(0, 0, 100)
    builder.event("user_annotation", "Optimizer.step#SGD.step", 10, 30)
    builder.op("aten::mm", 12, 10)
    builder.kernel(40, 30, launch=15, name=SGEMM)
    builder.op("aten::mm", 50, 10)
    builder.kernel(75, 20, launch=55, name=SGEMM)
    kinds = {row.kind: row.time_ns for row in sums_of(builder.write(tmp_path / "trace.json")).kinds}
    assert kinds == {"optimizer": 30_000, "matrix products": 20_000}


@pytest.mark.parametrize("name", ["launches/gpt2.before", "launches/resnet50.before", "pairs/graph_masks.before"])
def test_kinds_of_a_recording_add_up_and_little_is_other(name: str) -> None:
    path = TRACES / f"{name}.json.gz"
    sums = sums_of(path)
    trace = read_trace(path)
    rows = np.flatnonzero(trace.steps.holds(trace.links.activity_step) & (trace.gpu.category == KERNEL))
    assert sum(row.time_ns for row in sums.kinds) == sums.time_ns
    assert sum(row.count for row in sums.kinds) == len(rows)
    assert {row.kind for row in sums.kinds} <= {kind.name for kind in KERNEL_KINDS}
    other = sum(row.time_ns for row in sums.kinds if row.kind == "other")
    assert other < 0.02 * sums.time_ns


def test_tf32_moves_products_to_tensor_cores() -> None:
    def share(name: str) -> float:
        rows = [row for row in sums_of(TRACES / f"rules/{name}.json.gz").kinds if row.tensor_core_ns is not None]
        return sum(row.tensor_core_ns or 0 for row in rows) / sum(row.time_ns for row in rows)

    assert share("tf32_off") < 0.05
    assert share("tf32_off.mended") > 0.9
