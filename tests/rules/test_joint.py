"""What all findings bring together, beside what each brings alone."""

from pathlib import Path

import pytest
from recordings import RECORDINGS, TRACES, analysis_of, each_recording
from trace_builder import TraceBuilder

from pinprof.measurement.measure import measure
from pinprof.prediction.predict import Saving
from pinprof.report.words import joint_worth
from pinprof.rules.rule import Findings
from pinprof.rules.search import find

COSTS_MORE_TOGETHER = TRACES / "experiments" / "e2.non_blocking-one-synchronize.json.gz"
"""A thousand small copies, which take longer calls if they become pinned."""


def best(findings: Findings) -> Saving:
    of_steps = [finding for finding in findings if not finding.evidence.seen]  # others come on top of the step
    savings = [saving for finding in of_steps for saving in (finding.saving, finding.with_then) if saving]
    return max(savings, key=lambda saving: saving.saving_ns)


ABOUT = 0.98  # which worlds are the worst may be others


@pytest.mark.parametrize("path", each_recording(RECORDINGS))
def test_all_findings_bring_no_less_than_one_of_them(path: Path) -> None:
    findings = analysis_of(path).findings
    if findings.joint is None:
        assert not any(finding.saving for finding in findings if not finding.evidence.seen)
        return
    joint, single = findings.joint, best(findings)
    assert joint.saving_ns >= single.saving_ns
    assert joint.range_ns[0] >= ABOUT * single.range_ns[0]
    assert joint.range_ns[1] >= single.range_ns[1]
    assert joint.range_ns[0] <= joint.saving_ns <= joint.range_ns[1]


@pytest.mark.slow
def test_what_would_make_the_step_longer_is_left_out_and_named() -> None:
    analysis = analysis_of(COSTS_MORE_TOGETHER)
    findings = analysis.findings
    assert findings.joint is not None
    assert findings.joint.without == ("PIN101",)
    (pinning,) = (finding for finding in findings if finding.rule.id == "PIN101")
    assert pinning.saving is not None
    assert pinning.saving.saving_ns == 0
    assert joint_worth(findings, analysis.profile).startswith("all of these but PIN101 together: ")


def test_waits_of_which_each_hides_the_other_save_together_what_none_saves_alone() -> None:
    """A kernel of 600 us, then one wait behind the other for it, then 300 us of the host."""
    builder = TraceBuilder()
    for start in builder.steps(6):
        builder.kernel(start + 20, 600, launch=start + 10)
        for at, call in ((30, "cudaDeviceSynchronize"), (630, "cudaStreamSynchronize")):
            builder.call(call, start + at, 595 if at == 30 else 3)
        builder.op("aten::item", start + 640, 20)
        builder.copy("DtoH (Device -> Pinned)", start + 646, 2, launch=start + 642, size=4)
        builder.call("cudaStreamSynchronize", start + 648, 8)
    trace = builder.read()
    findings = find(measure(trace), trace)
    assert findings.joint is not None
    assert findings.joint.saving_ns > best(findings).saving_ns
    assert findings.joint.without == ()
