from collections.abc import Callable
from pathlib import Path

from check_traces import checked, plain, with_waits
from trace_builder import without_known_events

from pinprof.check.judge import Checked, LimitVerdict
from pinprof.check.limits import Limits
from pinprof.check.places import CodePlace
from pinprof.report.check import MAX_LISTED_PLACES, check_to_text

ALL = Limits(
    max_hidden_syncs=0, max_stall_ms=0.1, max_exposed_ms=1, min_overlap=0.5, max_pageable_bytes=0, max_step_ms=0.5
)


def test_a_check_reads_as_kept(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    golden("check.txt", check_to_text([checked(with_waits(), tmp_path, ALL)], width=110))


def test_kept_limits_are_one_line_each(tmp_path: Path) -> None:
    text = check_to_text([checked(plain(), tmp_path, Limits(max_hidden_syncs=0, min_overlap=1))])
    assert text.count("kept  ") == 2
    assert text.startswith("2 checks passed.\n")
    assert "What to do" not in text
    assert check_to_text([checked(plain(), tmp_path, Limits(min_overlap=1))]).startswith("1 check passed.\n")


def test_what_could_not_be_judged_is_summed_up_as_no_pass_and_beside_what_failed(tmp_path: Path) -> None:
    unknown = checked(without_known_events(), tmp_path, Limits(min_overlap=1, max_stall_ms=1))
    assert check_to_text([unknown]).startswith("2 of 2 checks could not be judged, so this is not a pass.\n")
    failed = checked(with_waits(), tmp_path, Limits(max_hidden_syncs=0))
    assert check_to_text([unknown, failed]).startswith("1 of 3 checks failed; 2 could not be judged.\n")


def test_no_line_is_wider_than_the_terminal(tmp_path: Path) -> None:
    text = check_to_text([checked(with_waits(), tmp_path, ALL)], width=80)
    assert max(map(len, text.splitlines())) <= 80


def test_colour_is_there_only_if_asked_for(tmp_path: Path) -> None:
    result = checked(with_waits(), tmp_path, ALL)
    assert "\x1b[" not in check_to_text([result])
    assert "\x1b[" in check_to_text([result], color=True)


def test_names_of_the_trace_cannot_write_to_the_terminal_and_many_places_are_counted() -> None:
    hostile = "\x1b[2J\ud800[bold]\n"
    places = tuple(CodePlace(hostile, line, hostile, None, "s", hostile) for line in range(MAX_LISTED_PLACES + 3))
    verdict = LimitVerdict("max_hidden_syncs", "waits", "exceeded", hostile, places)
    text = check_to_text([Checked(hostile, (verdict,), ())])
    assert "\x1b" not in text
    assert "[bold]" in text
    assert "and 3 more places" in text
