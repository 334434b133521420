"""The comparison in a few kB: only what changed, with ids that the whole comparison resolves."""

import json
from typing import Any

import pytest
from fitting import fitting, pointed_at
from recordings import TRACES, analysis_of

from pinprof.comparison import Comparison, compare
from pinprof.document import MAX_BRIEF_BYTES
from pinprof.report.comparison.json import comparison_to_brief_json, comparison_to_json

KINDS = ("findings", "waits", "copies")


def compared(before: str, after: str) -> Comparison:
    return compare(analysis_of(TRACES / f"{before}.json.gz"), analysis_of(TRACES / f"{after}.json.gz"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("pageable_blocking.stack", "prefetch.stack"),
        ("loss_item", "clean"),
        ("mask_loss", "small_kernels"),
        ("runs/images.before", "runs/images.after"),
    ],
)
def test_a_brief_is_small_and_has_what_changed(before: str, after: str) -> None:
    made = compared(before, after)
    text = comparison_to_brief_json(made)
    brief, whole = fitting(text), json.loads(comparison_to_json(made))
    assert len(text.encode()) <= MAX_BRIEF_BYTES
    assert brief["verdict"] == whole["verdict"]
    for row in (*brief["figures"], *brief["changes"]):
        same: Any = pointed_at(whole, row["id"])
        assert same.get("change") == row.get("change") != "same"
        assert same.get("difference") == row.get("difference")
    changed = sum(row["change"] != "same" for kind in KINDS for row in whole[kind])
    figures = sum(row["within_noise"] is False for row in whole["figures"][1:]) + 1
    assert len(brief["figures"]) + len(brief["changes"]) + brief["more_changes"] == changed + figures


def test_a_trace_compared_with_itself_changed_nothing() -> None:
    brief = fitting(comparison_to_brief_json(compared("clean", "clean")))
    assert (len(brief["figures"]), brief["changes"]) == (1, [])
    assert brief["figures"][0]["name"] == "step_ms"
    assert brief["more_changes"] == 0
