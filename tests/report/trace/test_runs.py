"""What a report says of a step that was timed in one run, or in several: how far it holds for others."""

import json
from pathlib import Path

import msgspec
import pytest
from trace_builder import TraceBuilder

from pinprof.document import range_ms
from pinprof.measurement.measure import measure
from pinprof.measurement.profile import Profile
from pinprof.report.trace.brief_json import traces_to_brief_json
from pinprof.report.trace.json import trace_of
from pinprof.report.trace.sections.whole_run import precision
from pinprof.report.trace.step import step_fact
from pinprof.report.trace.verdict import step_length
from pinprof.report.view import Fact
from pinprof.rules.rule import Findings
from pinprof.trace import read_trace
from pinprof.trace.metadata.run_log import RunLog

MS = 1_000_000


def timed(folder: Path, *step_ms: float, runs_ms: tuple[float, ...] = ()) -> Profile:
    """Return the figures of a trace of three steps, in whose run these were timed."""
    builder = TraceBuilder()
    for start in builder.steps(3, 10_000, length=9_900):
        builder.kernel(start + 100, 400, launch=start + 1)
    nothing = (0,) * len(step_ms)
    step_ns = tuple(round(step * MS) for step in step_ms)
    runs_ns = tuple(run * MS for run in runs_ms)
    log = RunLog(0, (("plain", len(step_ms)),), step_ns, nothing, nothing, nothing, 0, runs_ns=runs_ns)
    builder.metadata["pinprof_run"] = msgspec.to_builtins(log)
    return measure(read_trace(builder.write(folder / "trace.json")))


def facts(profile: Profile) -> list[Fact]:
    assert profile.whole_run is not None
    return list(precision(profile.whole_run))


@pytest.mark.parametrize(
    ("runs_ms", "meaning", "headline"),
    [
        (
            (9.0, 10.0, 11.0),
            "of 9.00 ms, 10.0 ms, 11.0 ms per step; the next one: 6.05 to 16.4 ms with 95 % confidence",
            "10 ms per step (6.1 to 16 in other runs)",
        ),
        (
            (10.0, 11.0),
            "of 10.0 ms, 11.0 ms per step; a range needs three",
            "10.0 ms per step (10.0 to 11.0 in 2 runs)",
        ),
    ],
)
def test_several_runs_give_a_range_for_one_more(
    runs_ms: tuple[float, ...], meaning: str, headline: str, tmp_path: Path
) -> None:
    profile = timed(tmp_path, *[10.0] * 20, runs_ms=runs_ms)
    of_this_run, of_all = facts(profile)
    assert of_this_run.meaning.endswith("with 95 % confidence in this run")
    assert of_all == Fact("mean of", f"{len(runs_ms)} runs", meaning, is_named=False)
    assert " ".join(step_length(profile)) == headline
    whole, brief = trace_of(profile, Findings()).steps, json.loads(traces_to_brief_json([(profile, Findings())]))
    assert brief["traces"][0]["step"]["range_ms"] == whole.range_ms == range_ms(profile.step_range_ns)
    assert step_fact(profile).meaning.partition(" (")[2].rstrip(")") in headline
