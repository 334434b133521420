"""Programs with one planted cause each, recorded by `pinprof run` on an H100: its rule finds it, and its line."""

import json
from typing import Any

import pytest
from recordings import TRACES, analysis_of

FOLDER = TRACES / "causes"
TRUTH: dict[str, dict[str, Any]] = json.loads((FOLDER / "truth.json").read_text())
COMMON = {"PIN603"}
"""Rules of causes that other programs may have, too: each runs some Python."""
PLANTED = "# planted"


@pytest.mark.parametrize("name", TRUTH)
def test_a_planted_cause_is_found_at_its_line_and_nowhere_else(name: str) -> None:
    truth = TRUTH[name]
    found = {finding.rule.id: finding.evidence for finding in analysis_of(FOLDER / f"{name}.json.gz").findings}
    assert truth["rule"] in found
    others = {other["rule"] for other in TRUTH.values()} - {truth["rule"], *truth.get("also", ()), *COMMON}
    assert not others & found.keys()
    if truth.get("place"):
        evidence = found[truth["rule"]]
        assert evidence.file == f"{name}.py"
        assert evidence.line is not None
        assert PLANTED in (FOLDER / evidence.file).read_text().split("\n")[evidence.line - 1]
