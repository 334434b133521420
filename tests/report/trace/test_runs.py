"""What a report says of a step that was timed in one run, or in several: how far it holds for others."""

import json
from pathlib import Path

import msgspec
import pytest
from trace_builder import TraceBuilder

from pinprof.analysis import analyse
from pinprof.document import range_ms
from pinprof.measurement.measure import measure
from pinprof.measurement.profile import Profile
from pinprof.report.findings.json import costs_of
from pinprof.report.trace.brief_json import traces_to_brief_json
from pinprof.report.trace.json import trace_of
from pinprof.report.trace.sections.whole_run import precision, unsteady
from pinprof.report.trace.step import step_fact
from pinprof.report.trace.text import to_brief
from pinprof.report.trace.verdict import step_length
from pinprof.report.view import Fact
from pinprof.rules.rule import Findings
from pinprof.trace import read_trace
from pinprof.trace.metadata.run_log import IrregularWork, RunLog
from pinprof.verdict.verdict import LimitCost, Verdict

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


def test_the_range_of_one_run_is_said_to_be_of_that_run(tmp_path: Path) -> None:
    profile = timed(tmp_path, *[10.0] * 20)
    lies = "9.95 to 10.1 ms with 95 % confidence in this run"
    others = "another process may differ by 15 % (pinprof run --repeat 3)"
    assert facts(profile) == [
        Fact("precision", "±0.5 %", f"the mean of 20 regular steps, {lies}; {others}", is_named=False)
    ]
    assert str(step_length(profile)) == "10.0 ms per step"


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
    assert str(step_length(profile)) == headline
    whole, brief = trace_of(profile, Findings()).steps, json.loads(traces_to_brief_json([(profile, Findings())]))
    assert brief["traces"][0]["step"]["range_ms"] == whole.range_ms == range_ms(profile.step_range_ns)
    assert step_fact(profile).meaning.partition(" (")[2].rstrip(")") in headline


def test_irregular_steps_take_a_share_of_all_steps_which_is_no_more_than_1() -> None:
    cost = LimitCost("irregular", 3.0 * MS, (3.0 * MS, 3.0 * MS), 1.0)
    (row,) = costs_of(Findings(verdict=Verdict("irregular", 1.0 * MS, (cost,))))
    assert (row.ms, row.fraction) == (3.0, 0.75)


def test_an_unsteady_pace_of_the_host_is_told(tmp_path: Path) -> None:
    assert unsteady(timed(tmp_path, *[10.0] * 60, *[12.0] * 60)) == (
        "The host sets the pace, and it was unsteady: parts of this run took 10.0 to 12.0 ms per step. Do other "
        "programs use this machine?"
    )
    assert not unsteady(timed(tmp_path, *[10.0] * 60, *[11.0] * 60))
    assert not unsteady(timed(tmp_path, *[10.0] * 20))  # too few to be parts


def test_work_that_takes_most_of_a_run_is_the_first_line_with_its_own_advice(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for start in builder.steps(3, 10_000, length=9_900):
        builder.kernel(start + 100, 400, launch=start + 1)
    step_ns = tuple((910 if number % 10 == 9 else 10) * MS for number in range(100))
    nothing = (0,) * 100
    work = tuple(IrregularWork(number, "evaluation", 900 * MS) for number in range(9, 100, 10))
    log = RunLog(0, (("plain", 100),), step_ns, nothing, nothing, nothing, 0, work=work)
    builder.metadata["pinprof_run"] = msgspec.to_builtins(log)
    analysis = analyse(read_trace(builder.write(tmp_path / "trace.json")))
    assert analysis.findings.verdict.cause == "irregular"
    text = " ".join(to_brief(analysis.profile, analysis.findings, width=1000).split())
    assert text.index("First: evaluate less often") > 0
