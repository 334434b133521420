"""Small traces for the check, with figures that can be added up by eye."""

import json
from pathlib import Path
from typing import Any

from fitting import fitting
from trace_builder import SIDE, TraceBuilder

from pinprof.analysis import analyse
from pinprof.check.figures import TraceFigures, measure_figures
from pinprof.check.judge import Checked, judge
from pinprof.check.limits import Limits
from pinprof.measurement.measure import measure
from pinprof.report.trace.json import traces_to_json
from pinprof.rules.search import find
from pinprof.trace import read_trace

PAGEABLE, PINNED = "HtoD (Pageable -> Device)", "HtoD (Pinned -> Device)"
FUNCTION = "train.py(3): train"


def plain(steps: int = 4, function: str = FUNCTION) -> TraceBuilder:
    """Steps of 1000 µs with kernels of 180 µs, in a function of the user's own code."""
    builder = TraceBuilder()
    for start in builder.steps(steps):
        builder.function(function, start + 1, 980)
        builder.kernel(start + 20, 80, launch=start + 10)
        builder.kernel(start + 600, 100, launch=start + 550)
    return builder


def item(builder: TraceBuilder, start: float, op: str = "aten::item") -> TraceBuilder:
    """A hidden wait: a stall of 60 µs, and 2 µs of an exposed copy."""
    builder.op(op, start + 30, 100)
    builder.copy("DtoH (Device -> Pinned)", start + 100, 2, launch=start + 40, size=4)
    builder.call("cudaStreamSynchronize", start + 50, 60)
    return builder


def pageable(builder: TraceBuilder, start: float, time: float = 200, size: int = 1_000_000) -> TraceBuilder:
    """A copy of pageable memory, exposed for 200 µs; the host waits 260 µs."""
    builder.copy(PAGEABLE, start + 300, time, launch=start + 250, call=time + 60, size=size)
    return builder


def hidden_copy(builder: TraceBuilder, start: float) -> TraceBuilder:
    """A copy of 100 µs right under the second kernel."""
    builder.copy(PINNED, start + 600, 100, launch=start + 555, stream=SIDE)
    return builder


def with_waits(steps: int = 4) -> TraceBuilder:
    """One `item` and one pageable copy in each step."""
    builder = plain(steps)
    for start in range(0, 1000 * steps, 1000):
        pageable(item(builder, start), start)
    return builder


def measured_step(mean_ms: float) -> TraceBuilder:
    builder = plain()
    builder.metadata["pinprof"] = {"plain": {"steps": 20, "mean_ms": mean_ms, "p10_ms": 0.6, "p90_ms": 0.9}}
    return builder


def measured(builder: TraceBuilder, folder: Path, name: str = "trace.json") -> TraceFigures:
    """Return the figures of a trace."""
    return measure_figures(analyse(read_trace(builder.write(folder / name))))


def checked(builder: TraceBuilder, folder: Path, limits: Limits) -> Checked:
    """Return the check of a trace, whose path is shortened to its name."""
    result = judge(measured(builder, folder), limits)
    return Checked("trace.json", result.verdicts, result.findings)


def report_of(builder: TraceBuilder, folder: Path, **changes: Any) -> Path:
    trace = read_trace(builder.write(folder / "before.json"))
    profile = measure(trace)
    document = fitting(traces_to_json([(profile, find(profile, trace))]))
    trace_fields = document["traces"][0]
    for name, value in changes.items():
        trace_fields[name] = trace_fields[name] | value if isinstance(value, dict) else value
    path = folder / "baseline.json"
    path.write_text(json.dumps(document))
    return path


def statuses(result: Checked) -> dict[str, str]:
    return {verdict.key: verdict.status for verdict in result.verdicts if verdict.status != "kept"}
