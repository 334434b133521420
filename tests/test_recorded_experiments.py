"""What the reports say of the recorded experiments is what their texts say, or what the bench found instead."""

import pytest
from quick import nightly_but
from recordings import TRACES, analysis_of

from pinprof.measurement.figures import SYNCS
from pinprof.measurement.trust.doubt import Known
from pinprof.prediction import Scenario, predict
from pinprof.prediction.scenarios import ALL_WAITS, changes_of, edits_of
from pinprof.report.findings.views import to_do
from pinprof.report.whatif import prediction_to_text

RECORDED = TRACES / "experiments"

GUARDING = {"e5.read-at-once", "e5.read-after-synchronize", "e6.pinned-source-written-after-synchronize"}
"""The cases in which a copy of pinned memory is in flight when a synchronize begins."""
HTOD_PAGEABLE, HTOD_PINNED = ("HtoD", "pageable"), ("HtoD", "pinned")


SHOWS = [
    ("e1.pageable-to", 1, 0, HTOD_PAGEABLE, "PIN101"),
    ("e1.pinned-to", 1, 0, HTOD_PINNED, "PIN102"),
    ("e1.pageable-pin_memory", 0, None, None, "PIN103"),
    ("e1.pageable-pin_memory-to", 1, 0, HTOD_PINNED, "PIN103"),
    ("e1.pageable-pin_memory-to-non_blocking", 0, 0, HTOD_PINNED, "PIN103"),
    ("e2.blocking", 1000, 0, HTOD_PAGEABLE, "PIN102"),
    ("e2.non_blocking-one-synchronize", 1, 0, HTOD_PAGEABLE, "PIN106"),
    ("e3.pageable-blocking", 100, 0, HTOD_PAGEABLE, "PIN101"),
    ("e3.pin-and-copy-blocking", 100, 0, HTOD_PINNED, "PIN103"),
    ("e5.read-at-once", 2, 0, None, "PIN508"),
    ("e5.read-after-synchronize", 3, 0, None, "PIN216"),
    ("e5.pageable-sent-and-read-on-the-gpu", 2, 0, HTOD_PAGEABLE, "PIN101"),
    ("e5.pinned-sent-and-read-on-the-gpu", 1, 0, HTOD_PINNED, "PIN301"),
    ("e6.pinned-source-copy-then-kernel", 2, 0, HTOD_PINNED, "PIN509"),
    ("e6.pageable-source-copy-then-kernel", 3, 0, HTOD_PAGEABLE, "PIN101"),
    ("e6.pinned-source", 1, 0, HTOD_PINNED, "PIN509"),
    ("e6.pageable-source", 2, 0, HTOD_PAGEABLE, "PIN101"),
    ("e6.pinned-source-written-after-synchronize", 2, 0, HTOD_PINNED, "PIN301"),
    ("e7.pin-in-threads-then-copy", 0, 0, HTOD_PINNED, "PIN603"),
    ("e8.pageable-blocking", 1, 0, HTOD_PAGEABLE, "PIN104"),
    ("e8.pinned-blocking", 1, 0, HTOD_PINNED, "PIN102"),
    ("e9.pinned-without-pin_memory", 4, 0, HTOD_PAGEABLE, "PIN105"),
    ("e9.pinned-with-pin_memory", 0, 0, HTOD_PINNED, "PIN401"),
    ("e10.plain-loop", 0, 0, HTOD_PINNED, "PIN301"),
    ("e10.prefetcher", 0, 1, HTOD_PINNED, None),
    ("e10.prefetcher-blocking", 1, 1, HTOD_PINNED, None),
    ("e10.prefetcher-pageable", 1, 0, HTOD_PAGEABLE, "PIN101"),
    ("e10.no-copy", 0, None, None, None),
    ("e11.pageable.process0", 1, 0, HTOD_PAGEABLE, "PIN101"),
    ("e11.pinned-as-it-arrives.process0", 1, 0, HTOD_PAGEABLE, "PIN101"),
    ("e11.pinned-as-it-arrives.process1", 1, 0, HTOD_PAGEABLE, "PIN101"),
    ("e11.pinned-in-the-child.process0", 0, 0, HTOD_PINNED, "PIN107"),
    ("e12.pageable.process0", 1, 0, HTOD_PAGEABLE, "PIN101"),
    ("e12.pageable.process1", 1, 0, HTOD_PAGEABLE, "PIN101"),
    ("e12.pinned-sent-to-the-child.process0", 1, 0, HTOD_PAGEABLE, "PIN101"),
    ("e12.pinned-sent-to-the-child.process1", 1, 0, HTOD_PAGEABLE, "PIN101"),
    ("e12.pinned-in-the-child-itself.process0", 0, 0, HTOD_PINNED, None),
    ("e12.pinned-in-the-child-itself.process1", 0, 0, HTOD_PINNED, None),
    ("e13.htod-pageable", 1, 0, HTOD_PAGEABLE, "PIN101"),
    ("e13.htod-pinned", 0, 0, HTOD_PINNED, None),
    ("e13.dtoh-pageable", 1, 0, None, "PIN108"),
    ("e13.dtoh-pinned", 0, 0, None, "PIN501"),
    ("e13.dtod", 0, None, None, None),
    ("e14.as-written", 2, 0, HTOD_PINNED, "PIN201"),
    ("e14.without-item", 0, 0, HTOD_PINNED, "PIN301"),
    ("e15.allocate-pageable", None, None, None, None),
    ("e15.allocate-pinned", 2, None, None, "PIN211"),
    ("e15.allocate-pinned-again", None, None, None, None),
]
"""Of each recorded experiment its waits per step, the share of its copies that is hidden, its copies to the GPU, and a
rule that it is about."""
ALWAYS = {
    "e2.blocking",
    "e9.pinned-without-pin_memory",
    "e10.prefetcher",
    "e13.dtoh-pageable",
    "e15.allocate-pinned",
    *GUARDING,
}
"""The cases that are looked at in every run; the others each night."""


@pytest.mark.parametrize(("name", "waits", "overlapped", "htod", "rule"), nightly_but(ALWAYS, SHOWS))
def test_a_recorded_experiment_shows_what_it_is_about(
    name: str, waits: int | None, overlapped: float | None, htod: tuple[str, str] | None, rule: str | None
) -> None:
    analysis = analysis_of(RECORDED / f"{name}.json.gz")
    profile, findings = analysis.profile, analysis.findings
    syncs = SYNCS.of(profile)
    assert (syncs.value if isinstance(syncs, Known) else None) == waits
    fraction = profile.overlap.value.fraction if isinstance(profile.overlap, Known) else None
    assert fraction == (overlapped if overlapped is None else pytest.approx(overlapped, abs=0.02))
    assert {(group.direction, group.host_memory) for group in profile.copies if group.direction == "HtoD"} == (
        {htod} if htod else set()
    )
    rules = {finding.rule.id for finding in findings} - {"PIN701"}  # some experiments multiply float32 as it is
    assert (rule in rules) if rule else not rules


ADVICE = {
    "e2.blocking": "Pack the many small copies into one",
    "e2.non_blocking-one-synchronize": "Pack the many small copies into one",
    "e6.pinned-source": "See whether each step needs it; pinprof knows no other way",
    "e7.pin-in-threads-then-copy": "See whether each step needs it; pinprof knows no other way",
    "e14.as-written": "See whether each step needs it; pinprof knows no other way",
}


@pytest.mark.parametrize("case", nightly_but(ALWAYS, [(case,) for case in ADVICE]))
def test_what_a_step_needs_is_not_advised_to_be_done_less_often(case: str) -> None:
    findings = analysis_of(RECORDED / f"{case}.json.gz").findings
    (finding,) = (finding for finding in findings if finding.rule.id == "PIN603")
    assert to_do(finding).startswith(ADVICE[case])
    assert "every N steps" not in finding.fix


@pytest.mark.parametrize("case", nightly_but(ALWAYS, [(name,) for name, *_ in SHOWS]))
def test_no_report_takes_away_a_wait_that_guards_a_copy(case: str) -> None:
    """E5's and E6's waits are what makes their numbers right; without them the text's programs fail."""
    analysis = analysis_of(RECORDED / f"{case}.json.gz")
    guarding = {site.place for site in analysis.details.syncs.sites if site.must_stay}
    for finding in analysis.findings:
        if finding.rule.family == "waits" and guarding & {site.evidence.place for site in finding.sites}:
            assert finding.saving is None
            assert finding.rule.id == "PIN216" or finding.evidence.keep
    if case in GUARDING:
        assert guarding


def test_a_what_if_leaves_a_wait_that_guards_a_copy_and_names_it_where_it_is_asked_for() -> None:
    details = analysis_of(RECORDED / "e5.read-after-synchronize.json.gz").details
    assert not edits_of(details, Scenario(drop_syncs=(ALL_WAITS,)))
    (site,) = (site for site in details.syncs.sites if site.must_stay)
    asked = Scenario(drop_syncs=(site.place.names[0],))
    text = prediction_to_text([(details.trace, changes_of(details, asked))], predict(details.trace, asked))
    assert ", at most.\n" in text
    assert "another wait must replace these, since they guard copies in flight (PIN216)" in text


def test_every_recorded_experiment_is_named_above() -> None:
    assert {path.name for path in RECORDED.glob("*.gz")} == {f"{name}.json.gz" for name, *_ in SHOWS}
