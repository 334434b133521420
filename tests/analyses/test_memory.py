"""The peak of each GPU's memory: how much, when, and in which op."""

import json

import pytest
from trace_builder import AUTOGRAD, TraceBuilder

from pinprof.analyses.memory import MemoryPeak, measure_memory
from pinprof.analysis import analyse
from pinprof.report.trace.json import traces_to_json
from pinprof.report.trace.text import to_brief, trace_to_text

GIB = 1 << 30


def stepping() -> TraceBuilder:
    """Return three steps of 100 µs; in the second, at 45 %, a matrix product allocates most."""
    builder = TraceBuilder()
    for number, begin in enumerate(builder.steps(3, 100, length=100)):
        builder.op("aten::linear", begin + 40, 20)
        builder.op("aten::mm", begin + 42, 10)
        builder.op("aten::empty_strided", begin + 44, 4)
        builder.kernel(begin + 55, 30, launch=begin + 50)
        builder.memory(begin + 45, (2 + number % 2) * GIB, 4 * GIB)
        builder.memory(begin + 90, GIB, (4 + number) * GIB)
    return builder


def peaks(builder: TraceBuilder) -> list[MemoryPeak]:
    return list(measure_memory(builder.read()))


def test_peak_stands_in_a_step_and_in_the_op_that_allocates_for_itself() -> None:
    (peak,) = peaks(stepping())
    assert (peak.device, peak.allocated_bytes, peak.reserved_bytes) == (0, 3 * GIB, 6 * GIB)
    assert (peak.step, peak.op) == (1, "aten::mm")
    assert peak.step_fraction == pytest.approx(0.45)


def test_a_peak_outside_of_steps_and_ops() -> None:
    builder = stepping()
    builder.op("aten::relu", 320, 20)
    builder.memory(310, 7 * GIB, thread=AUTOGRAD)
    (peak,) = peaks(builder)
    assert (peak.step, peak.step_fraction, peak.op) == (None, None, None)


def test_each_gpu_has_its_own_and_the_host_none() -> None:
    builder = stepping()
    builder.memory(10, 9 * GIB, device=3)
    builder.memory(20, 90 * GIB, device=None)
    assert [(peak.device, peak.allocated_bytes) for peak in peaks(builder)] == [(0, 3 * GIB), (3, 9 * GIB)]


def test_report_says_it_in_all_forms() -> None:
    analysis = analyse(stepping().read())
    entry = (analysis.profile, analysis.findings)
    said = "3.00 GiB allocated, 6.00 GiB reserved, at 45 % of step 1, in aten::mm"
    assert f"peak GPU memory: {said}" in to_brief(*entry)
    assert "3.00 GiB  peak GPU memory: allocated, 6.00 GiB reserved" in trace_to_text(*entry)
    (trace,) = json.loads(traces_to_json([entry]))["traces"]
    assert trace["memory"] == [
        {
            "device": 0,
            "allocated_bytes": 3 * GIB,
            "reserved_bytes": 6 * GIB,
            "step": 1,
            "step_fraction": pytest.approx(0.45),
            "op": "aten::mm",
        }
    ]
