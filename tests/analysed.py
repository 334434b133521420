"""Reads and analyses a trace that a test builds by hand."""

from pathlib import Path

from trace_builder import TraceBuilder

from pinprof.analysis import Analysis, analyse
from pinprof.trace import read_trace


def analysed(builder: TraceBuilder, folder: Path, name: str = "trace.json") -> Analysis:
    """Write the trace into a folder, and analyse it."""
    return analyse(read_trace(builder.write(folder / name)))


def host_alone(steps: int = 3) -> TraceBuilder:
    """Return a trace of steps of 100 µs, each with an op of 5 µs, without work of a GPU."""
    builder = TraceBuilder()
    for start in builder.steps(steps, 100):
        builder.op("aten::add", start + 10, 5)
    return builder
