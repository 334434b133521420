"""Findings before and after, each made by hand: `(rule, function, line, saving in µs)`."""

from dataclasses import replace
from pathlib import Path

import pytest
from trace_builder import without_known_events

from pinprof.analysis import analyse
from pinprof.comparison.changes import FindingChange, finding_changes
from pinprof.comparison.figures import Side
from pinprof.prediction.predict import Saving
from pinprof.rules.rule import Evidence, Finding, Findings
from pinprof.rules.search import RULES
from pinprof.trace import read_trace

RULE = {rule.id: rule for rule in RULES}
Made = tuple[str, str | None, int | None, float | None]


def finding(made: Made) -> Finding:
    rule, function, line, saving = made
    file = None if function is None else "train.py"
    worth = None if saving is None else Saving(saving * 1000, (saving * 900, saving * 1100))
    return Finding(RULE[rule], "high", Evidence(1000, "text", file, line, function), worth)


@pytest.fixture
def empty(tmp_path: Path) -> Side:
    return Side(analyse(read_trace(without_known_events().write(tmp_path / "empty.json"))))


def changes(empty: Side, before: list[Made], after: list[Made]) -> list[FindingChange]:
    sides = (Side(replace(empty.analysis, findings=Findings(map(finding, made)))) for made in (before, after))
    return list(finding_changes(*sides))


@pytest.mark.parametrize(
    ("before", "after", "statuses"),
    [
        ([("PIN201", "step", 10, 50)], [("PIN201", "step", 14, 52)], ["same"]),  # at another line
        ([("PIN501", None, None, None)], [("PIN501", None, None, None)], ["same"]),  # without a replay
        ([("PIN201", "step", 10, 50)], [("PIN201", None, None, 50)], ["same"]),
        ([("PIN201", "step", 10, 50)], [("PIN201", "fit", 90, 50)], ["moved"]),  # the only one of its rule
        ([("PIN201", "step", 10, 50)], [("PIN101", "step", 10, 50)], ["gone", "new"]),
        # of several it is not known which moved
        ([("PIN201", "a", 1, 5.0), ("PIN201", "b", 2, 5.0)], [("PIN201", "c", 3, 5.0)], ["gone", "gone", "new"]),
    ],
)
def test_a_finding_is_known_again_by_its_rule_and_its_function(
    empty: Side, before: list[Made], after: list[Made], statuses: list[str]
) -> None:
    assert [change.status for change in changes(empty, before, after)] == statuses


def test_one_that_saves_more_than_the_ranges_allow_has_changed(empty: Side) -> None:
    (change,) = changes(empty, [("PIN201", "step", 10, 50)], [("PIN201", "step", 10, 100)])
    assert change.status == "changed"
    assert (change.saving.before.value, change.saving.after.value) == (50_000, 100_000)
    assert change.saving.noise == pytest.approx(15_000)  # up to 55 before, from 90 after


def test_lines_of_one_function_are_paired_in_order_if_there_are_as_many(empty: Side) -> None:
    lines: list[Made] = [("PIN201", "step", 20, 50), ("PIN201", "step", 10, 5)]
    first, second = changes(empty, lines, [("PIN201", "step", 13, 5), ("PIN201", "step", 23, 50)])
    assert (first.before[0].evidence.line, first.after[0].evidence.line) == (10, 13)
    assert (second.before[0].evidence.line, second.after[0].evidence.line) == (20, 23)
    (fewer,) = changes(empty, lines, [("PIN201", "step", 13, 5)])
    assert (fewer.status, len(fewer.before), len(fewer.after)) == ("changed", 2, 1)


def at_several(*made: Made) -> Findings:
    """Return one finding with these sites."""
    sites = [finding(site) for site in made]
    whole = replace(sites[0].evidence, sites=tuple(site.evidence for site in sites))
    return Findings([replace(sites[0], evidence=whole, alone=tuple(site.saving for site in sites))])


def test_sites_of_one_finding_are_compared_one_by_one(empty: Side) -> None:
    before = Findings([finding(("PIN201", "step", 10, 50))])
    after = at_several(("PIN201", "step", 12, 52), ("PIN201", "log", 40, 0), ("PIN201", "save", 50, None))
    sides = (Side(replace(empty.analysis, findings=findings)) for findings in (before, after))
    statuses = {change.members[0].evidence.function: change.status for change in finding_changes(*sides)}
    assert statuses == {"step": "same", "log": "new", "save": "new"}
