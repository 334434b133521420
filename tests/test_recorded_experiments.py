"""What the reports say of the recorded experiments is what their texts say, or what the bench found instead."""

from dataclasses import replace
from pathlib import Path

import pytest
from recordings import TRACES, analysis_of

from pinprof.analysis import analyse
from pinprof.measurement.known import Known
from pinprof.report.trace.changes import to_do
from pinprof.report.whatif.text import to_text
from pinprof.whatif import Scenario, predict
from pinprof.whatif.fixes import changes_of
from pinprof.whatif.scenarios import ALL, edits_of

RECORDED = TRACES / "experiments"

GUARDING = {"e5.read-at-once", "e5.read-after-synchronize", "e6.pinned-source-written-after-synchronize"}
"""The cases in which a copy of pinned memory is in flight when a synchronize begins."""
HTOD_PAGEABLE, HTOD_PINNED = ("HtoD", "pageable"), ("HtoD", "pinned")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "waits", "overlapped", "htod", "rule"),
    [
        ("e2.blocking", 1000, 0, HTOD_PAGEABLE, "PIN102"),
        ("e2.non_blocking-one-synchronize", 1, 0, HTOD_PAGEABLE, "PIN101"),
        ("e5.read-at-once", 2, 0, None, "PIN508"),
        ("e5.read-after-synchronize", 3, 0, None, "PIN216"),
        ("e5.pageable-sent-and-read-on-the-gpu", 2, 0, HTOD_PAGEABLE, "PIN101"),
        ("e5.pinned-sent-and-read-on-the-gpu", 1, 0, HTOD_PINNED, "PIN301"),
        ("e6.pinned-source-copy-then-kernel", 2, 0, HTOD_PINNED, "PIN202"),
        ("e6.pageable-source-copy-then-kernel", 3, 0, HTOD_PAGEABLE, "PIN101"),
        ("e6.pinned-source", 1, 0, HTOD_PINNED, "PIN202"),
        ("e6.pageable-source", 2, 0, HTOD_PAGEABLE, "PIN101"),
        ("e6.pinned-source-written-after-synchronize", 2, 0, HTOD_PINNED, "PIN301"),
        ("e9.pinned-without-pin_memory", 4, 0, HTOD_PAGEABLE, "PIN402"),
        ("e9.pinned-with-pin_memory", 0, 0, HTOD_PINNED, "PIN402"),
        ("e10.plain-loop", 0, 0, HTOD_PINNED, "PIN301"),
        ("e10.prefetcher", 0, 1, HTOD_PINNED, None),
        ("e10.prefetcher-pageable", 1, 0, HTOD_PAGEABLE, "PIN101"),
        ("e10.no-copy", 0, None, None, None),
        ("e11.pageable", 1, 0, HTOD_PAGEABLE, "PIN101"),
        ("e11.pinned-as-it-arrives", 1, 0, HTOD_PAGEABLE, "PIN101"),
        ("e11.pinned-in-the-child", 0, 0, HTOD_PINNED, None),
        ("e12.pageable", 1, 0, HTOD_PAGEABLE, "PIN101"),
        ("e12.pinned-sent-to-the-child", 1, 0, HTOD_PAGEABLE, "PIN101"),
        ("e12.pinned-in-the-child-itself", 0, 0, HTOD_PINNED, None),
        ("e14.as-written", 2, 0, HTOD_PINNED, "PIN201"),
        ("e14.without-item", 0, 0, HTOD_PINNED, "PIN301"),
    ],
)
def test_a_recorded_experiment_shows_what_it_is_about(
    name: str, waits: int, overlapped: float | None, htod: tuple[str, str] | None, rule: str | None
) -> None:
    analysis = analysis_of(RECORDED / f"{name}.json.gz")
    profile, findings = analysis.profile, analysis.findings
    assert profile.sums
    assert isinstance(profile.sums.waits, Known)
    assert profile.sums.waits.value.count == waits
    assert isinstance(profile.overlap, Known)
    fraction = profile.overlap.value.fraction
    assert fraction == (overlapped if overlapped is None else pytest.approx(overlapped, abs=0.02))
    assert {(group.direction, group.host_memory) for group in profile.copies if group.direction == "HtoD"} == (
        {htod} if htod else set()
    )
    rules = {finding.rule.id for finding in findings} - {"PIN701"}  # some experiments multiply float32 as it is
    assert (rule in rules) if rule else not rules


def test_batches_of_a_class_are_not_said_to_come_from_a_loader_that_does_not_pin() -> None:
    """E9's DataLoader has pin_memory=True and no workers: of its batches without pin_memory() no event tells so."""
    analysis = analysis_of(RECORDED / "e9.pinned-without-pin_memory.json.gz")
    found = [each for each in analysis.findings if each.rule.id in {"PIN104", "PIN105"}]
    said = "the trace does not show whether the DataLoader has pin_memory=True: if so, the class of the batches"
    assert {each.rule.id for each in found} == {"PIN104"}
    assert all(said in each.evidence.text for each in found)
    assert all(to_do(each, analysis.findings).startswith("Add pin_memory=True to the DataLoader, or") for each in found)
    trace = analysis.trace
    told = replace(trace, info=replace(trace.info, loaders_pin=True))  # as it is recorded of a DataLoader that lives on
    found = [each for each in analyse(told).findings if each.rule.id in {"PIN104", "PIN105"}]
    assert {each.rule.id for each in found} == {"PIN105"}
    assert all("has pin_memory=True, but this memory is not pinned" in each.evidence.text for each in found)


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.gz")), ids=lambda path: path.name.removesuffix(".json.gz"))
def test_no_report_takes_away_a_wait_that_guards_a_copy(path: Path) -> None:
    """E5's and E6's waits are what makes their numbers right; without them the text's programs fail."""
    analysis = analysis_of(path)
    guarding = {site.place for site in analysis.details.syncs.sites if site.must_stay}
    for finding in analysis.findings:
        if finding.rule.family == "waits" and guarding & {site.evidence.place for site in finding.sites}:
            assert finding.saving is None
            assert finding.rule.id == "PIN216" or finding.evidence.keep
    if path.name.removesuffix(".json.gz") in GUARDING:
        assert guarding


def test_a_what_if_leaves_a_wait_that_guards_a_copy_and_names_it_where_it_is_asked_for() -> None:
    details = analysis_of(RECORDED / "e5.read-after-synchronize.json.gz").details
    assert not edits_of(details, Scenario(drop_syncs=(ALL,)))
    (site,) = (site for site in details.syncs.sites if site.must_stay)
    asked = Scenario(drop_syncs=(site.place.names[0],))
    text = to_text([(details.trace, changes_of(details, asked))], predict(details.trace, asked))
    assert ", at most.\n" in text
    assert "another wait must come in their place, for they guard copies in flight (PIN216)" in text


def test_every_recorded_experiment_is_named_above() -> None:
    marks = test_a_recorded_experiment_shows_what_it_is_about.pytestmark  # type: ignore[attr-defined]
    (cases,) = (mark.args[1] for mark in marks if mark.name == "parametrize")
    assert {path.name for path in RECORDED.glob("*.gz")} == {f"{case[0]}.json.gz" for case in cases}
