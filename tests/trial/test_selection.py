"""Which fixes stay: the measurements are made up."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from pinprof.ab import Judgement
from pinprof.errors import MeasureError
from pinprof.fix import ProgramChange
from pinprof.trial.selection import drop_without_gain


def change(name: str, saving: float | None) -> Any:
    return SimpleNamespace(rule=name, saving=SimpleNamespace(saving_ns=saving) if saving is not None else None)


BIG, SMALL, UNKNOWN = change("big", 9e6), change("small", 1e6), change("unknown", None)
FASTER, SAME = Judgement(8, 0.9, 0.88, 0.92, 0.02), Judgement(8, 1.0, 0.99, 1.01, 0.02)
SLOWER, OPEN = Judgement(8, 1.1, 1.05, 1.2, 0.02), Judgement(8, 0.99, 0.9, 1.1, 0.02)


def fates(judgements: dict[str, Judgement], left_s: float = 100.0) -> tuple[list[str], list[list[str]]]:
    """Return what becomes of three fixes, and what was left out in each measurement."""
    asked: list[list[str]] = []

    def measure(without: Sequence[ProgramChange], seconds: float) -> Judgement:
        assert seconds > 0
        asked.append([str(change.rule) for change in without])
        judgement = judgements.get(str(without[-1].rule))
        if judgement is None:
            raise MeasureError("it failed")
        return judgement

    outcomes = drop_without_gain([BIG, SMALL, UNKNOWN], measure, lambda: left_s, 10.0)
    assert [outcome.change for outcome in outcomes] == [BIG, SMALL, UNKNOWN]
    return [outcome.fate for outcome in outcomes], asked


@pytest.mark.parametrize(
    ("small", "unknown", "expected"),
    [
        (FASTER, FASTER, ["kept", "kept", "kept"]),
        (SAME, FASTER, ["kept", "dropped_no_gain", "kept"]),
        (SLOWER, OPEN, ["kept", "dropped_no_gain", "dropped_not_shown"]),
        (FASTER, None, ["kept", "kept", "kept_unmeasured"]),
    ],
)
def test_what_brings_nothing_is_left_out(small: Judgement, unknown: Judgement, expected: list[str]) -> None:
    judgements = {"big": FASTER, "small": small, "unknown": unknown}
    assert fates({name: judgement for name, judgement in judgements.items() if judgement})[0] == expected


def test_what_was_left_out_stays_out_while_the_next_is_measured() -> None:
    _, asked = fates({"big": FASTER, "small": SAME, "unknown": SAME})
    assert asked == [["unknown"], ["unknown", "small"]], "the last one was measured with the whole"


def test_without_time_everything_stays() -> None:
    outcomes, asked = fates({}, left_s=9.0)
    assert outcomes == ["kept_unmeasured"] * 3
    assert asked == []
