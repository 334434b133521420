"""The numbers of a report by name: named as in the JSON, and without what is withheld."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from analysed import analysed
from recordings import TRACES, analysis_of
from trace_builder import TraceBuilder

from pinprof.notebook import Report
from pinprof.report.trace.json import trace_of


@cache
def report_on(name: str) -> Report:
    return Report(analysis_of(TRACES / f"{name}.json.gz"))


def at(document: Any, path: str) -> Any:
    """Return what stands at a place in a document; of a range, its low or high end."""
    value = document
    for name in path.split("/"):
        value = value[("low", "high").index(name)] if isinstance(value, list | tuple) else getattr(value, name)
    return value


@pytest.mark.parametrize("name", ["loss_item_host_work.stack", "overlap_side_pinned.stack", "launches/bert.before"])
def test_a_number_stands_in_the_json_under_its_name(name: str) -> None:
    report = report_on(name)
    document = trace_of(report.profile, report.analysis.findings)
    scalars = report.scalars()
    for path, value in scalars.items():
        assert isinstance(value, float)
        if "/findings/" not in path:
            assert value == at(document, path.removeprefix("pinprof/")), path
    assert {"pinprof/steps/step_ms", "pinprof/steps/range_ms/high", "pinprof/verdict/ms"} <= scalars.keys()
    assert scalars["pinprof/findings/count"] == len(document.findings)
    for finding in document.findings:
        saved = scalars.get(f"pinprof/findings/{finding.rule}/saving_ms")
        assert saved is None if finding.saving_ms is None else saved is not None and saved >= finding.saving_ms


def test_what_a_trace_does_not_tell_is_left_out(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for step, start in enumerate(builder.steps(4)):
        for number in range(8):
            call = builder.event("cuda_runtime", "cudaLaunchKernel", start + 10 * number + 5, 2)
            call["args"]["correlation"] = 100_000 + 10 * step + number  # of a kernel that the trace lost
        builder.kernel(start + 200, 300, launch=start + 150)
    scalars = Report(analysed(builder, tmp_path)).scalars()
    assert scalars["pinprof/steps/traced_ms"] > 0
    assert not {"pinprof/steps/busy_ms", "pinprof/overlap/fraction", "pinprof/findings/count"} & scalars.keys()
