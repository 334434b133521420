from pathlib import Path

import pytest
from check_traces import checked, plain, with_waits
from trace_builder import without_known_events

from pinprof.check.judge import Checked, LimitStatus, LimitVerdict
from pinprof.check.limits import Limits
from pinprof.check.places import CodePlace
from pinprof.report.check import to_github


def commands(file: str | None, line: int | None, function: str | None, message: str = "m") -> str:
    place = CodePlace(file, line, function, "PIN201", "item", message)
    verdict = LimitVerdict("max_hidden_syncs", "waits", "exceeded", "too many", (place,))
    return to_github([Checked("trace.json", (verdict,), ())])


def test_a_place_is_an_annotation_on_its_line_or_says_its_function() -> None:
    assert commands("train.py", 12, "step") == (
        "::error file=train.py,line=12,title=pinprof PIN201::too many; m (trace trace.json)\n"
    )
    assert commands("train.py", None, "step") == (
        "::error file=train.py,title=pinprof PIN201::too many; step (train.py): m (trace trace.json)\n"
    )


def test_no_place_is_an_annotation_all_the_same_and_a_kept_limit_none(tmp_path: Path) -> None:
    text = to_github([checked(without_known_events(), tmp_path, Limits(max_hidden_syncs=0))])
    assert text.startswith(
        "::error title=pinprof max-hidden-syncs::the number of hidden waits of the host per step is not known"
    )
    assert text.count("\n") == 1
    assert to_github([checked(plain(), tmp_path, Limits(max_hidden_syncs=0))]) == ""


def test_everything_that_could_end_a_command_or_a_property_is_escaped() -> None:
    text = commands("a%,b:c\r\n.py", 1, "f", "100%\n::error::forged\r\x1b[31m\x00")
    properties, _, message = text.removeprefix("::error ").partition("::")
    assert properties == "file=a%25%2Cb%3Ac%0A.py,line=1,title=pinprof PIN201"
    assert message.startswith("too many; 100%25%0A::error::forged%0D\ufffd[31m\ufffd")
    assert text.count("\n") == 1
    assert "\r" not in text


def test_each_limit_that_is_broken_is_one_annotation_whatever_its_places(tmp_path: Path) -> None:
    tolerated = LimitVerdict("max_step_ms", "step", "tolerated", "as before")
    broken = Limits(max_hidden_syncs=0, max_stall_ms=0, max_exposed_ms=0)
    failed = checked(with_waits(), tmp_path, broken)
    lines = to_github([Checked("other.json", (tolerated,), ()), failed]).splitlines()
    assert [line.split(" ")[0] for line in lines] == ["::error"] * 3 + ["::notice"]
    assert all(len(verdict.places) > 1 for verdict in failed.verdicts)


def test_further_places_are_named_in_the_annotation() -> None:
    places = tuple(CodePlace("train.py", line, "step", "PIN201", "item", "m") for line in range(3, 9))
    verdict = LimitVerdict("max_hidden_syncs", "waits", "exceeded", "too many", places)
    assert to_github([Checked("t.json", (verdict,), ())]) == (
        "::error file=train.py,line=3,title=pinprof PIN201::too many; m; also at train.py:4 (step), train.py:5 (step), "
        "train.py:6 (step) and 2 more (trace t.json)\n"
    )


@pytest.mark.parametrize("status", ["tolerated", "not compared"])
def test_what_is_no_failure_but_no_success_is_a_notice(status: LimitStatus) -> None:
    verdict = LimitVerdict("max_step_ms", "step", status, "as before")
    text = to_github([Checked("t.json", (verdict,), ())])
    assert text == "::notice title=pinprof max-step-ms::as before (trace t.json)\n"
