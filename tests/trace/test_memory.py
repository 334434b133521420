"""What the reader makes of the events of memory that `profile_memory=True` records."""

from typing import Any

import pytest
from trace_builder import AUTOGRAD, MAIN, TraceBuilder

from pinprof.trace.reader.assemble import MAX_COPY_BYTES
from pinprof.trace.tables import HOST_DEVICE

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
