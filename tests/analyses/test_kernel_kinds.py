"""What kernels do, told by their names and ops, and whether on tensor cores."""

from pathlib import Path

import numpy as np
import pytest
from recordings import TRACES

from pinprof.analyses.by_name.kernels import KernelSums, measure_kernels
from pinprof.trace import read_trace
from pinprof.trace.sources import Sources
from pinprof.trace.tables import KERNEL
from pinprof.trace.vendors import KERNEL_KINDS, kind_of_name, on_tensor_cores


def sums_of(path: Path) -> KernelSums:
    return measure_kernels(read_trace(path), Sources(str(path)))


ROWS = [line.split("\t") for line in (Path(__file__).parent / "kernel_names.tsv").read_text().splitlines()]
CORES = {True: "on", False: "off", None: "unknown"}


def test_names_of_four_vendors_tell_the_kind_and_tensor_cores() -> None:
    """The names are of public traces, and of those of this project; long ones are cut."""
    assert len(ROWS) > 200
    assert {vendor for vendor, *_ in ROWS} == {"nvidia", "amd", "intel", "ascend"}
    told = [(kind_of_name(name), on_tensor_cores(name)) for *_, name in ROWS]
    assert [[kind.name, CORES[cores] if kind.multiplies else ""] for kind, cores in told] == [row[1:3] for row in ROWS]


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
