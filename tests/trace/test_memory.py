"""What the reader makes of the events of memory that `profile_memory=True` records."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trace_builder import AUTOGRAD, MAIN, TraceBuilder

from pinprof.trace import read_trace
from pinprof.trace.reader.assemble import MAX_COPY_BYTES
from pinprof.trace.tables import HOST_DEVICE, NONE

MIB = 1 << 20


def with_memory(base_us: float = 1_000_000.0) -> TraceBuilder:
    builder = TraceBuilder(base_us)
    builder.op("aten::mm", 0, 20)
    builder.on_thread(AUTOGRAD, "cpu_op", "autograd::engine::evaluate_function: MmBackward0", 30, 10)
    builder.kernel(40, 10, launch=5)
    builder.memory(35, 3 * MIB, 8 * MIB, thread=AUTOGRAD)
    builder.memory(10.5, 2 * MIB, 4 * MIB)
    builder.memory(11, 512, device=None)
    return builder


def test_is_in_the_order_of_time() -> None:
    trace = with_memory().read()
    memory = trace.memory
    assert ((memory.at_ns - trace.ops.start_ns[0]) / 1000).tolist() == [10.5, 11, 35]
    assert memory.device.tolist() == [0, HOST_DEVICE, 0]
    assert memory.allocated.tolist() == [2 * MIB, 512, 3 * MIB]
    assert memory.reserved.tolist() == [4 * MIB, 0, 8 * MIB]
    assert [trace.threads[thread].tid for thread in memory.thread] == [MAIN, MAIN, AUTOGRAD]
    assert {device: rows.tolist() for device, rows in memory.of_gpu.items()} == {0: [0, 2]}


def test_is_nothing_where_it_was_not_recorded() -> None:
    builder = TraceBuilder()
    builder.kernel(40, 10, launch=5)
    builder.events.append({"ph": "i", "name": "Record Window End", "pid": "", "tid": "", "ts": 1_000_050, "s": "g"})
    memory = builder.read().memory
    assert len(memory.at_ns) == 0
    assert memory.of_gpu == {}


def test_is_the_same_with_times_since_1970() -> None:
    memory = with_memory(1_700_000_000_000_000.0).read().memory
    assert memory.allocated.tolist() == [2 * MIB, 512, 3 * MIB]
    assert memory.at_ns.tolist() == [1_700_000_000_000_000_000 + ns for ns in (10_500, 11_000, 35_000)]


def test_is_found_in_a_file_that_was_cut_off_or_is_broken(tmp_path: Path) -> None:
    builder = with_memory()
    whole = builder.write(tmp_path / "whole.json").read_bytes()
    cut, broken = tmp_path / "cut.json.gz", tmp_path / "broken.json"
    cut.write_bytes(gzip.compress(whole[:-30]))
    broken.write_bytes(whole.replace(b'"aten::mm"', b'"aten::"mm""'))
    assert read_trace(cut).memory.allocated.tolist() == [2 * MIB, 3 * MIB]
    assert read_trace(broken).memory.allocated.tolist() == [2 * MIB, 512, 3 * MIB]


@pytest.mark.parametrize(
    ("changes", "known"),
    [
        ({"Total Allocated": str(3 * MIB)}, True),
        ({"Total Allocated": None}, False),
        ({"Total Allocated": -5}, False),
        ({"Total Allocated": MAX_COPY_BYTES + 1}, False),
        ({"Device Id": 1 << 40}, False),
    ],
)
def test_odd_numbers(changes: dict[str, Any], known: bool) -> None:
    builder = with_memory()
    builder.events[-3]["args"] |= changes
    memory = builder.read().memory
    assert memory.allocated.tolist() == [2 * MIB, 512] + known * [3 * MIB]


def test_odd_events_are_left_out_and_the_others_read() -> None:
    builder = with_memory()
    builder.events[-3]["ts"] = "soon"
    builder.memory(12, 5 * MIB)["args"] = "none"
    builder.memory(13, 6 * MIB)["args"].pop("Total Reserved")
    builder.memory(10**9, 7 * MIB)
    trace = builder.read()
    assert trace.memory.allocated.tolist() == [2 * MIB, 512, 6 * MIB]
    assert trace.memory.reserved.tolist() == [4 * MIB, 0, NONE]
    assert trace.skipped == {}


def test_a_recording_of_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(1000, 10)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        kept = [torch.zeros(1 << 18) for _ in range(3)]
        model(torch.ones(8, 1000)).sum().backward()
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    trace = read_trace(tmp_path / "trace.json")
    assert len(kept) == 3
    assert (trace.memory.device == HOST_DEVICE).all()
    assert trace.memory.allocated.max() >= 3 * 4 * (1 << 18)
    assert (np.diff(trace.memory.at_ns) >= 0).all()
    within = (trace.memory.at_ns >= trace.ops.start_ns.min()) & (trace.memory.at_ns <= trace.ops.end_ns.max())
    assert within.all()
